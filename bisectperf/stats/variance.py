"""Where the noise sits: between launches or within them; how many repetitions pay."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Components(NamedTuple):
    """Standard deviations on the log scale: of launches around their commit, of repetitions around their launch."""

    between: float
    within: float


def components(groups: Sequence[Sequence[Sequence[float]]]) -> Components:
    """Return the variance components of `groups[commit][launch][repetition]` (log values).

    One-way analysis of variance nested in commits (Kalibera & Jones 2013, section 7): the variance of launch means
    less the share that repetitions alone would give them, never below zero.
    """
    within, freedom, between, launches = 0.0, 0, 0.0, 0
    sizes = []
    for commit in groups:
        means = [float(np.mean(x)) for x in commit if len(x)]
        for x in commit:
            within += float(np.sum((np.asarray(x) - np.mean(x)) ** 2)) if len(x) else 0.0
            freedom += max(len(x) - 1, 0)
            sizes += [len(x)] if len(x) else []
        if len(means) > 1:
            between += float(np.sum((np.asarray(means) - np.mean(means)) ** 2))
            launches += len(means) - 1
    inside = within / freedom if freedom else 0.0
    outside = between / launches if launches else 0.0
    average = float(np.mean(sizes)) if sizes else 1.0
    return Components(math.sqrt(max(outside - inside / average, 0.0)), math.sqrt(inside))


def repetitions_that_pay(found: Components, launch_seconds: float, repetition_seconds: float) -> float:
    """Return the number of repetitions per launch that costs least for a given precision.

    sqrt(cost_launch / cost_repetition * within / between), in variances (Kalibera & Jones 2013, equation 4);
    infinite where launches do not differ.
    """
    if found.between <= 0:
        return math.inf
    return math.sqrt(launch_seconds / repetition_seconds) * found.within / found.between


def trend(repetitions: Sequence[Sequence[float]], first: int = 3) -> tuple[float, float]:
    """Return (mean, standard error) of how much the first counted repetitions differ from the rest, over launches."""
    gaps = [float(np.mean(x[:first]) - np.mean(x[first:])) for x in repetitions if len(x) > first]
    if len(gaps) < 2:
        return (gaps[0] if gaps else 0.0, math.inf)
    return float(np.mean(gaps)), float(np.std(gaps, ddof=1)) / math.sqrt(len(gaps))


def split(values: Sequence[float]) -> tuple[float, float]:
    """Return how much of the variance two levels explain, and how far apart they are (0, 0 for less than four).

    The best cut of the sorted values that leaves two or more on either side; one level alone reaches about 0.64
    (normal) to 0.75 (uniform).
    """
    x = np.sort(np.asarray(values, dtype=float))
    whole = float(((x - x.mean()) ** 2).sum())
    if x.size < 4 or whole <= 0:
        return 0.0, 0.0
    cuts = [
        (float(((x[:k] - x[:k].mean()) ** 2).sum() + ((x[k:] - x[k:].mean()) ** 2).sum()), k)
        for k in range(2, x.size - 1)
    ]
    rest, k = min(cuts)
    return 1 - rest / whole, float(x[k:].mean() - x[:k].mean())
