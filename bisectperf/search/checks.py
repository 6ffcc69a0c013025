"""What the first launches say of the recipe itself: warm-up, repetitions, levels inside a launch. Said once."""

import math
from collections.abc import Sequence

import numpy as np
from scipy import stats

from bisectperf.state import Launch, State
from bisectperf.stats.variance import components, repetitions_that_pay, split, trend

LOOKED_AT = 6
"""Launches that are looked at: both ends, three times or so."""
FIRST = 3
FACTOR = 2.0
"""How far the repetitions must be from those that pay before it is worth a word."""
SPLIT = 0.93
"""Share of the variance inside a launch that two levels must explain to be called two."""


def findings(state: State) -> list[str]:
    """Return what the first launches say of the recipe, once they are there; the same state gives the same words."""
    launches = [x for x in state.measured() if x.samples and x.value is not None][:LOOKED_AT]
    if len(launches) < LOOKED_AT:
        return []
    logs = [np.log(x.samples.repetitions).tolist() for x in launches if x.samples]
    found = (_warmup(state, logs), _repetitions(launches, logs), _levels(logs))
    said = {note.text for note in state.notes}
    return [text for text in found if text and text not in said]


def _warmup(state: State, logs: Sequence[Sequence[float]]) -> str:
    mean, error = trend(logs, FIRST)
    # Student's t of as many launches: 99 %, and large enough to matter beside the effect that is looked for.
    limit = float(stats.t.ppf(0.995, len(logs) - 1)) * error
    if not math.isfinite(limit) or abs(mean) <= limit or abs(mean) < state.asked.metric.smallest_effect / 4:
        return ""
    return (
        f"the first {FIRST} counted repetitions of a launch differ from its later ones by {100 * mean:+.1f} %: "
        f"the warm-up ({state.asked.warmup}) is too short"
    )


def _repetitions(launches: Sequence[Launch], logs: Sequence[Sequence[float]]) -> str:
    groups: dict[str, list[Sequence[float]]] = {}
    for launch, log in zip(launches, logs, strict=True):
        groups.setdefault(launch.tree, []).append(log)
    inside = [
        x.seconds.get("bench", 0.0) / (len(x.samples.repetitions) + len(x.samples.warmup))
        for x in launches
        if x.samples
    ]
    repetition = float(np.mean(inside))
    whole = float(np.mean([sum(v for k, v in x.seconds.items() if k != "checkout") for x in launches]))
    has = float(np.mean([len(x) for x in logs]))
    if has < 2 or repetition <= 0:
        return ""
    pays = repetitions_that_pay(components([*groups.values()]), max(whole - has * repetition, 0.0), repetition)
    if not math.isfinite(pays) or has / FACTOR <= max(pays, 2.0) <= has * FACTOR:
        return ""
    return f"{has:.0f} repetitions a launch: by how both differ and what both cost, {max(pays, 2):.0f} pay best"


def _levels(logs: Sequence[Sequence[float]]) -> str:
    found = [(share, gap) for share, gap in map(split, logs) if share > SPLIT and gap > 0.05]
    if len(found) * 3 < len(logs):
        return ""
    gap = float(np.median([gap for _, gap in found]))
    return (
        f"{len(found)} of {len(logs)} launches jump between two speeds {100 * math.expm1(gap):.0f} % apart: "
        "something shares the host, and the better quartile may repeat better than the middle"
    )
