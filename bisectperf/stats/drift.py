"""Drift of the environment, as evidence for each class.

The level is given a Brownian path with standard deviation q s per square root of an hour. For each q the launches are
jointly normal: noise, an offset per build, the path; a class differs in its mean only (a level, and a step at its
place), which generalised least squares profiles out under flat priors. The mixture over q, relative to no drift at
all, multiplies the class's own evidence. A launch that is an outlier for a class has its noise widened for that class
both with and without drift: an outlier is no proof of a path.
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
_LIKELY = 16.0
"""Nats below the best class at which no drift could bring a class back."""
_TOLERATED = 2.5
"""Spreads beyond which a launch counts as an outlier of a class."""


def drift_evidence(
    launches: "Launches", cuts: NDArray[np.int64], static: Array, *, spread: float, share: float
) -> tuple[Array, Array]:
    """Return per class the log evidence ratio against no drift, and P(no drift).

    `static` has the log posterior of each interval between tested positions and, last, of no change at all; the
    answers are in the same order.
    """
    ratio, steady = np.zeros(static.size), np.full(static.size, PRIOR[0])
    if launches.y.size < 4:
        return ratio, steady
    keep = slice(-_LATEST, None)
    at, y, hours, build = (x[keep] for x in (launches.at, launches.y, launches.hours, launches.build))
    elapsed = np.asarray(hours - hours.min(), dtype=float)
    path: Array = np.minimum.outer(elapsed, elapsed) * spread**2
    offsets: Array = (share * spread) ** 2 * np.equal.outer(build, build).astype(np.float64)
    for j in np.flatnonzero(static >= static.max() - _LIKELY):
        step = at >= cuts[j + 1] if j + 1 < cuts.size else np.zeros(at.size, dtype=bool)
        noise = _noise(y, step, spread)
        design = np.column_stack([np.ones(y.size), step]) if step.any() else np.ones((y.size, 1))
        still = offsets + np.diag(noise)
        logs = np.array([_log_evidence(still + q**2 * path, y, design) for q in RATES]) + np.log(PRIOR)
        mixed = float(np.logaddexp.reduce(logs))
        ratio[j] = mixed - (logs[0] - np.log(PRIOR[0]))
        steady[j] = np.exp(logs[0] - mixed)
    return ratio, steady


def _noise(y: Array, step: NDArray[np.bool_], spread: float) -> Array:
    """Return the variance of each launch under a class: wider for those that the class takes for outliers."""
    level = np.where(step, np.median(y[step]) if step.any() else 0.0, np.median(y[~step]))
    return np.asarray(spread**2 * np.maximum(1.0, ((y - level) / (_TOLERATED * spread)) ** 2))


def _log_evidence(covariance: Array, y: Array, design: Array) -> float:
    """Return the log marginal likelihood up to a constant, the design's coefficients integrated over flat priors."""
    factor = linalg.cholesky(covariance, lower=True, check_finite=False)
    white = linalg.solve_triangular(factor, np.column_stack([design, y]), lower=True, check_finite=False)
    x, v = white[:, :-1], white[:, -1]
    gram, moment = x.T @ x, x.T @ v
    rest = float(v @ v - moment @ np.linalg.solve(gram, moment))
    return -float(np.log(np.diag(factor)).sum()) - 0.5 * float(np.linalg.slogdet(gram)[1]) - 0.5 * rest
