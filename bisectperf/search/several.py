"""Is one step the whole story? What lies left and right of it is searched too when a level there does not fit."""

import numpy as np
from msgspec.structs import replace
from scipy import stats

from bisectperf.model import Effect, FirstBad, FirstBadAmong, SeveralChanges
from bisectperf.search.ends import stretch
from bisectperf.search.steps import Done, Step, launch_of
from bisectperf.search.view import View
from bisectperf.state import State
from bisectperf.stats.effect import Interval, pooled

ENOUGH = 4
"""Launches at each end of a stretch before its levels are called different."""
SUSPECT = 0.95
"""Level at which a gap beside the step is looked into."""
SURE = 0.997
"""Level at which it is a change of its own."""
LUCK = 0.5
"""How far the builds of two commits may differ by luck, in spreads."""
DEPTH = 3
"""Steps beyond which the range is not a step any more but a slope."""


def several(state: State, done: Done) -> Step:
    """Return `done`, or the next step of searching the stretches beside the step that was found."""
    if not isinstance(done.verdict, FirstBad | FirstBadAmong):
        return done
    steps: list[FirstBad | FirstBadAmong] = [done.verdict]
    unexplained: Effect | None = None
    todo = _sides(state, done.verdict, 0, len(state.line.positions) - 1)
    while todo and len(steps) <= DEPTH:
        first, last = todo.pop(0)
        view = View(state, first, last)
        gap, launch = _gap(view)
        if launch is not None:
            return launch
        if gap is None:
            continue
        found = stretch(view)
        if not isinstance(found, Done):
            return found
        if isinstance(found.verdict, FirstBad | FirstBadAmong):
            steps.append(found.verdict)
            todo += _sides(state, found.verdict, first, last)
        else:
            unexplained = Effect(value=gap.value, low=gap.low, high=gap.high)
    if len(steps) == 1 and unexplained is None:
        return done
    whole = _whole(state)
    shared = tuple(_with_share(s, whole.value) for s in sorted(steps, key=lambda s: -s.effect.value))
    return Done(
        verdict=SeveralChanges(launches=len(state.measured()), steps=shared, whole=whole, unexplained=unexplained)
    )


def _sides(state: State, verdict: FirstBad | FirstBadAmong, first: int, last: int) -> list[tuple[int, int]]:
    """Return the stretches left and right of a step, by the places of their ends on the line."""
    shas = [p.sha for p in state.line.positions]
    named = (verdict.sha,) if isinstance(verdict, FirstBad) else verdict.commits
    low, high = shas.index(named[0]) - 1, shas.index(named[-1])
    return [(a, b) for a, b in ((first, low), (high, last)) if b - a >= 1]


def _gap(view: View) -> tuple[Interval | None, Step | None]:
    """Return how much slower the stretch's end is than its beginning (None: it is not), or a launch to find out."""
    a, b = view.at(0), view.at(len(view) - 1)
    if not a or not b:
        return None, None
    seen, sure = _difference(view, a, b, SUSPECT, 0.0), _difference(view, a, b, SURE, LUCK)
    if seen.low <= 0 or seen.value < view.smallest:
        return None, None
    if min(len(a), len(b)) < ENOUGH:
        end = 0 if len(a) <= len(b) else -1
        return None, launch_of(view.state, view.positions[end], "anchor", "its level does not fit one step alone")
    return (sure if sure.low > 0 else None), None


def _difference(view: View, a: list[float], b: list[float], level: float, luck: float) -> Interval:
    """Return mean(b) - mean(a) with its interval: s from within all positions, builds apart by `luck` of it."""
    spread, freedom = View(view.state).within
    error = spread * np.sqrt(1 / len(a) + 1 / len(b) + 2 * luck**2)
    half = float(stats.t.ppf(0.5 + level / 2, freedom)) * error if freedom else np.inf
    value = float(np.mean(b)) - float(np.mean(a))
    return Interval(value, value - half, value + half)


def _whole(state: State) -> Effect:
    view = View(state)
    seen = pooled(view.at(0), view.at(len(view) - 1))
    return Effect(value=seen.value, low=seen.low, high=seen.high)


def _with_share(step: FirstBad | FirstBadAmong, whole: float) -> FirstBad | FirstBadAmong:
    if isinstance(step, FirstBadAmong) or whole <= 0:
        return step
    return replace(step, share=float(np.clip(step.effect.value / whole, 0, 9.99)))
