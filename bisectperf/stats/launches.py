"""Launches as they come, per build: the statistics that the likelihood needs, and the likelihood itself."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

OUTLIER_SLOW, OUTLIER_ANY = 0.02, 0.002
# The build's offset in units of the launch spread: none in three of five projects (interpreted code), else log-normal
# around 0.25 with log-sd 0.8.
SHARES = np.array([0.0, 0.15, 0.3, 0.6, 1.2, 3.0, 10.0])
SHARE_PRIOR = np.array([0.6264, 0.1384, 0.1320, 0.0776, 0.0228, 0.0026, 0.0002])


ODD = 5.0
"""Median deviations beyond which a launch looks odd: 3.4 standard deviations of a normal."""


@dataclass(frozen=True)
class Launches:
    """What was measured: position on the line, value (log, larger is slower), time in hours, build, per launch."""

    at: NDArray[np.int64]
    y: Array
    hours: Array
    build: NDArray[np.int64]


@dataclass(frozen=True)
class BuildStatistics:
    """The launches of one build in statistics of its nested subsets: all, less the most extreme, less two, ..."""

    place: int
    count: Array
    mean: Array
    squares: Array
    outlier: Array


def spread_guess(launches: Launches) -> float:
    """Return a robust first guess of s: pooled deviations from the median within positions."""
    parts = [launches.y[launches.at == p] - np.median(launches.y[launches.at == p]) for p in np.unique(launches.at)]
    rest = np.concatenate([p for p in parts if p.size > 1] or [np.array([0.01])])
    guess = 1.4826 * float(np.median(np.abs(rest))) * math.sqrt(2 if rest.size <= 8 else 1)
    return min(max(guess, 5e-4), 0.5)


def by_build(launches: Launches) -> list[BuildStatistics]:
    """Return the statistics of each build, in the order of their numbers."""
    groups = []
    for build in np.unique(launches.build):
        mine = launches.build == build
        y = launches.y[mine]
        order = np.argsort(-np.abs(y - np.median(y)), kind="stable")
        if y.size == 2:  # either may be the odd one; slow excess is the likelier story
            order = np.argsort(-y, kind="stable")
        far = np.abs(y - np.median(y))
        odd = int((far > ODD * np.median(far)).sum())  # many launches may hold more odd ones than three
        drops = range(max(min(3, max(1, y.size // 2)), min(odd, y.size // 4)) + 1)
        kept = [y[np.sort(order[d:])] for d in drops]
        out = np.full((len(kept), len(kept) - 1), np.nan)
        for d in drops:
            out[d, :d] = y[order[:d]]
        groups.append(
            BuildStatistics(
                place=int(launches.at[mine][0]),
                count=np.array([float(k.size) for k in kept]),
                mean=np.array([k.mean() if k.size else np.nan for k in kept]),
                squares=np.array([float(((k - k.mean()) ** 2).sum()) if k.size else 0.0 for k in kept]),
                outlier=out,
            )
        )
    return groups


def loglikelihood(group: BuildStatistics, level: Array, spread: Array, gap: float) -> Array:
    """Return log p(launches of one build | level, s, r), shape (levels, spreads, shares)."""
    lev, s, share = level[:, None, None], spread[None, :, None], SHARES[None, None, :]
    terms = []
    keep = math.log(1 - OUTLIER_SLOW - OUTLIER_ANY)
    for drop in range(group.count.size):
        n = group.count[drop]
        if n > 0:
            within = -(n - 1) / 2 * np.log(2 * math.pi * s**2) - group.squares[drop] / (2 * s**2) - 0.5 * np.log(n)
            variance = s**2 / n + (share * s) ** 2
            between = -0.5 * np.log(2 * math.pi * variance) - (group.mean[drop] - lev) ** 2 / (2 * variance)
            total = n * keep + within + between
            centre: Array | float = float(group.mean[drop])
        else:
            total, centre = np.zeros(np.broadcast_shapes(lev.shape, s.shape, share.shape)), lev
        for y in group.outlier[drop, :drop]:
            total = total + _outlier(y - centre, s, gap)
        terms.append(total + 0 * share)
    return np.asarray(np.logaddexp.reduce(np.stack(np.broadcast_arrays(*terms)), axis=0), dtype=float)


def _outlier(excess: Array | float, s: Array, gap: float) -> Array:
    """Return the log density of an outlier: slow (exponential), or anything (Laplace, three times wider)."""
    scale = 3 * s + gap
    exponential = math.log(OUTLIER_SLOW) - np.log(scale) - np.maximum(excess, 0) / scale
    slow = np.where(np.asarray(excess) > 0, exponential, -745.0)
    other = math.log(OUTLIER_ANY) - np.log(6 * scale) - np.abs(excess) / (3 * scale)
    return np.asarray(np.logaddexp(slow, other), dtype=float)
