"""When there will be a verdict, from what was measured so far."""

import msgspec
import numpy as np

from bisectperf.search.view import View
from bisectperf.state import State
from bisectperf.stats.remaining import Known, Prices, seconds_left

CONFIRMATIONS = 3
"""Launches that interleave parent and culprit after the search: each has mostly been launched once by then."""
CLEAR = 0.05
"""P(no change) above which the ends themselves are measured on."""
WORTH = 1.2
"""By how much the noise of a launch counts more than its spread: levels and outliers are not known either."""


class Eta(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds until a verdict in many nights played out, ascending; counted from `since`, seconds since the epoch."""

    since: float
    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """Return the seconds within which half of the nights end."""
        return float(np.median(self.seconds))

    @property
    def high(self) -> float:
        """Return the seconds within which 90 % of the nights end."""
        return float(np.quantile(self.seconds, 0.9))

    def chance(self, until: float) -> float:
        """Return the probability of a verdict by `until` (seconds since the epoch)."""
        return float(np.mean(np.asarray(self.seconds) <= until - self.since))


def eta(state: State) -> Eta | None:
    """Return when there will be a verdict on the line in hand; None before both ends are known, and for comparisons.

    What may come after it is not foreseen: the inside of a merge that is named, a second change beside the first.
    """
    if state.plan is None or state.plan.mode != "bisect" or not state.lines or state.decided is not None:
        return None
    view = View(state)
    last = len(view) - 1
    if not (view.testable[0] and view.testable[last]) or min(view.counts[0], view.counts[last]) < 2:
        return None
    found = view.posterior
    places = np.flatnonzero(view.testable)
    chance = np.add.reduceat(found.first_bad[1:], places[:-1])
    offset = found.share * found.spread
    known = Known(
        chance=np.maximum(chance, 1e-12),
        built=view.built[places[1:]],
        effect=(max(found.effect[0], view.smallest), found.effect[1]),
        noise=WORTH * float(np.hypot(found.spread, offset)),
    )
    costs = view.costs
    runs = seconds_left(
        known,
        Prices(costs.build, costs.switch, costs.launch + _beside(state)),
        confidence=state.asked.confidence,
        confirmation=max(CONFIRMATIONS - sum(x.why == "confirm" for x in state.measured()), 0),
        seed=state.asked.seed + len(state.launches),
    )
    ends = 2 * costs.launch if found.none > CLEAR else 0.0
    flying = state.in_flight()
    return Eta(since=flying[0].planned if flying else state.last, seconds=tuple((runs + ends).tolist()))


def _beside(state: State) -> float:
    """Return the seconds of a launch that no phase on the host accounts for: the way there, looking, deciding."""
    seen = []
    for launch in state.measured():
        built = 0.0 if launch.build is None or launch.build.cached else launch.build.seconds
        seen.append(launch.ended - launch.planned - built - sum(launch.seconds.values()))
    # The median: a launch that was adopted after a night says nothing on the next one.
    return max(float(np.median(seen)), 0.0) if seen else 0.0
