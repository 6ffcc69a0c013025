"""Is it the code at all? The good end first, held against what it once gave."""

import math

import numpy as np
from scipy import stats

from bisectperf.model import Effect, EnvironmentChanged
from bisectperf.search.steps import Done, Step, launch_of
from bisectperf.search.view import View
from bisectperf.snapshots import differences
from bisectperf.stats.effect import Interval, pooled

FEWEST, MOST = 3, 4
"""Launches of the good end before it is judged, and those after which it is taken as it is."""
LEAST_SD = 0.003
"""Launches that agree by luck say nothing of how the next one would scatter."""


def slower_than_it_was(view: View) -> Step | None:
    """Return a launch of the good end, the verdict that it is slower than it was, or None to go on."""
    plan = view.state.asked
    if plan.baseline is None or plan.search_anyway or view.state.line.inside or not view.testable[0]:
        return None
    good = view.at(0)[:MOST]
    if len(good) < FEWEST:
        return launch_of(view.state, view.positions[0], "endpoint", "the good end first: is it what it was?")
    seen = _against(list(plan.baseline.values), good, 2 * plan.confidence - 1)
    if seen.low > 0 and seen.value >= view.smallest:
        sign = -1 if plan.metric.better == "higher" else 1
        was, now = float(np.mean(plan.baseline.values)), float(np.mean(good))
        launches = [x for x in view.state.measured() if x.tree == view.positions[0].tree]
        facts = view.state.snapshots.get(launches[-1].snapshot, {})
        known = plan.baseline.snapshot
        return Done(
            verdict=EnvironmentChanged(
                launches=len(view.state.measured()),
                was=math.exp(sign * was),
                now=math.exp(sign * now),
                effect=Effect(value=seen.value, low=seen.low, high=seen.high, level=2 * plan.confidence - 1),
                differences=tuple(map(str, differences(known, facts))) if known else (),
            )
        )
    if seen.high > view.smallest and len(good) < MOST:
        return launch_of(view.state, view.positions[0], "endpoint", "whether it is what it was is not clear yet")
    return None


def _against(was: list[float], now: list[float], level: float) -> Interval:
    """Return now - was with its interval; one number of old is taken as exact."""
    if len(was) > 1:
        return pooled(was, now, level)
    value = float(np.mean(now)) - was[0]
    sd = max(float(np.std(now, ddof=1)), LEAST_SD)
    half = float(stats.t.ppf(0.5 + level / 2, len(now) - 1)) * sd / math.sqrt(len(now))
    return Interval(value, value - half, value + half)
