"""Two revisions, launch by launch."""

import math
from typing import Literal

import numpy as np

from bisectperf.model import Compared, Effect, Inconclusive
from bisectperf.search.steps import Done, Step, launch_of
from bisectperf.search.view import View
from bisectperf.state import Launch, State
from bisectperf.stats.effect import Interval, interval
from bisectperf.stats.variance import components

Answer = Literal["yes", "no", "undecided", "faster"]
LEAST = 4
"""Launches a side before anything is said."""
STRICT = 0.995
"""Level at which a difference ends the comparison: it is looked at after each launch, so 95 % would err too often."""
ABBA = (0, 1, 1, 0)


def step(state: State) -> Step:
    """Return the next launch of a comparison, or what it came to."""
    view = View(state)
    ends = view.positions[0], view.positions[-1]
    for k in (0, len(view) - 1):
        if not view.testable[k]:
            why = f"{view.positions[k].sha[:12]} cannot be measured: {view.why_not(k)}"
            return Done(verdict=Inconclusive(launches=len(state.measured()), why=why))
    same = ends[0].tree == ends[1].tree
    runs = [x for x in state.measured() if x.tree in (ends[0].tree, ends[1].tree)]
    sides: tuple[list[Launch], list[Launch]] = ([], [])
    for number, launch in enumerate(runs):
        sides[ABBA[number % 4] if same else int(launch.tree == ends[1].tree)].append(launch)
    if min(map(len, sides)) >= LEAST:
        a, b = ([x.value for x in side if x.value is not None] for side in sides)
        small = math.log1p(state.asked.metric.smallest_effect)
        answer = _answer(interval(a, b), interval(a, b, STRICT), small)
        if answer != "undecided" or len(state.launches) >= state.asked.max_launches:
            return Done(verdict=_compared(state, view, sides, interval(a, b), answer))
    elif len(state.launches) >= state.asked.max_launches:
        why = "the launches are used up before either side was measured often enough"
        return Done(verdict=Inconclusive(launches=len(runs), why=why))
    few = len(sides[0]) - len(sides[1])
    turn = ABBA[len(runs) % 4] if same or abs(few) < 2 else int(few > 0)
    return launch_of(state, ends[turn], "noise" if same else "compare", "interleaved with the other side")


def _answer(seen: Interval, strict: Interval, small: float) -> Answer:
    if -small < seen.low and seen.high < small:
        return "no"
    if strict.low > 0:
        return "yes"
    return "faster" if strict.high < 0 else "undecided"


def _compared(
    state: State, view: View, sides: tuple[list[Launch], list[Launch]], seen: Interval, answer: Answer
) -> Compared:
    logs = [[np.log(x.samples.repetitions).tolist() for x in side if x.samples] for side in sides]
    found = components(logs)
    return Compared(
        launches=len(state.measured()),
        a=view.positions[0].sha,
        b=view.positions[-1].sha,
        answer=answer,
        effect=Effect(value=seen.value, low=seen.low, high=seen.high),
        between_sd=float(
            np.sqrt(np.mean([np.var([x.value for x in side if x.value is not None], ddof=1) for side in sides]))
        ),
        within_sd=found.within,
    )
