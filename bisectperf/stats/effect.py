"""The ratio of two groups of launches, as a log, with its interval."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats


class Interval(NamedTuple):
    """Estimate and bounds of a log ratio."""

    value: float
    low: float
    high: float


def interval(a: Sequence[float], b: Sequence[float], level: float = 0.95) -> Interval:
    """Return mean(b) - mean(a) of log values with its two-sided interval.

    Welch's t with Satterthwaite's degrees of freedom; the launches are the units. Needs two launches a side; raises
    `ValueError` otherwise.
    """
    if min(len(a), len(b)) < 2:
        raise ValueError("an interval needs two launches a side")
    va, vb = float(np.var(a, ddof=1)) / len(a), float(np.var(b, ddof=1)) / len(b)
    difference = float(np.mean(b)) - float(np.mean(a))
    if va + vb <= 0:
        return Interval(difference, difference, difference)
    freedom = (va + vb) ** 2 / (va**2 / (len(a) - 1) + vb**2 / (len(b) - 1))
    half = float(stats.t.ppf(0.5 + level / 2, freedom)) * math.sqrt(va + vb)
    return Interval(difference, difference - half, difference + half)


def pooled(a: Sequence[float], b: Sequence[float], level: float = 0.95) -> Interval:
    """Return the interval under one spread for both sides (Student's t): sharper where launches are few."""
    n = len(a) + len(b)
    if n < 3 or not a or not b:
        raise ValueError("a pooled interval needs three launches, at least one a side")
    difference = float(np.mean(b)) - float(np.mean(a))
    squares = float(np.sum((np.asarray(a) - np.mean(a)) ** 2) + np.sum((np.asarray(b) - np.mean(b)) ** 2))
    error = math.sqrt(squares / (n - 2) * (1 / len(a) + 1 / len(b)))
    half = float(stats.t.ppf(0.5 + level / 2, n - 2)) * error
    return Interval(difference, difference - half, difference + half)
