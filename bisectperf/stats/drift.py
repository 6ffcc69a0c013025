"""Drift of the environment as evidence: how much better is each class explained if the level wanders?

The level is given a Brownian path with standard deviation q s per square root of an hour. For each q the launches
are jointly normal with a covariance that no class changes, so one factorisation serves all classes; a class differs
in its mean only (a level, and a step at its place), which is profiled out by generalised least squares with flat
priors. The result is the mixture over q relative to no drift at all.
"""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

if TYPE_CHECKING:
    from bisectperf.stats.changepoint import Launches

Array = NDArray[np.float64]

RATES = np.array([0.0, 0.1, 0.2, 0.4, 0.8])
PRIOR = np.array([0.4, 0.2, 0.2, 0.1, 0.1])
_LATEST = 400
"""Launches beyond this many would cost more than they tell: a path that old is forgotten."""


def drift_evidence(
    launches: "Launches", cuts: NDArray[np.int64], spread: float, share: float, levels: tuple[float, float]
) -> tuple[Array, float, Array]:
    """Return log evidence ratios (classes by interval; none) against no drift, and P(no drift) per class.

    The last array has one entry per interval and one for the class without change.
    """
    if launches.y.size < 4:
        return np.zeros(cuts.size - 1), 0.0, np.full(cuts.size, PRIOR[0])
    keep = slice(-_LATEST, None)
    at, y, hours, build = (x[keep] for x in (launches.at, launches.y, launches.hours, launches.build))
    near = np.minimum(np.abs(y - levels[0]), np.abs(y - levels[1]))
    # A launch far from both levels is an outlier in every class: it says little on the path.
    noise = spread**2 * np.maximum(1.0, (near / (2.5 * spread)) ** 2)
    order = np.sort(hours)[0]
    elapsed = hours - order
    brownian = np.minimum(elapsed[:, None], elapsed[None, :])
    offsets = (share * spread) ** 2 * (build[:, None] == build[None, :])
    steps = (at[:, None] >= cuts[None, 1:]).astype(float)
    logs = np.stack([_log_evidence(np.diag(noise) + offsets + (q * spread) ** 2 * brownian, y, steps) for q in RATES])
    weighted = logs + np.log(PRIOR)[:, None]
    mixed = np.logaddexp.reduce(weighted, axis=0)
    ratio = mixed - logs[0]
    return ratio[:-1], float(ratio[-1]), np.exp(weighted[0] - mixed)


def _log_evidence(covariance: Array, y: Array, steps: Array) -> Array:
    """Return log evidences up to a constant for each step column, and last for no step at all."""
    factor = linalg.cholesky(covariance + 1e-14 * np.eye(y.size), lower=True)
    white = linalg.solve_triangular(factor, np.column_stack([np.ones(y.size), y, steps]), lower=True)
    one, value, step = white[:, 0], white[:, 1], white[:, 2:]
    log_det = -float(np.log(np.diag(factor)).sum())
    oo, oy, yy = float(one @ one), float(one @ value), float(value @ value)
    so, sy, ss = step.T @ one, step.T @ value, (step**2).sum(axis=0)
    rest = yy - oy**2 / oo
    information = np.maximum(ss - so**2 / oo, 1e-12)
    gain = (sy - so * oy / oo) ** 2 / information
    with_step = log_det - 0.5 * np.log(oo) - 0.5 * np.log(information) - 0.5 * (rest - gain)
    return np.append(with_step, log_det - 0.5 * np.log(oo) - 0.5 * rest)
