"""Drift of the environment, as evidence for each class.

The level is given a Brownian path with standard deviation q s per square root of an hour. For each q the launches are
jointly normal: noise, an offset per build, the path; a class differs in its mean only (a level, and a step at its
place), which generalised least squares profiles out under flat priors. The mixture over q, relative to no drift at
all, multiplies the class's own evidence. A launch that is an outlier for a class has its noise widened for that class
both with and without drift: an outlier is no proof of a path.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from bisectperf.stats.launches import Launches

Array = NDArray[np.float64]

RATES = np.array([0.0, 0.1, 0.2, 0.4, 0.8])
PRIOR = np.array([0.4, 0.2, 0.2, 0.1, 0.1])
_LATEST = 400
"""Launches beyond this many would cost more than they tell: a path that old is forgotten."""
_LIKELY = 16.0
"""Nats below the best class at which no drift could bring a class back."""
_TOLERATED = 2.5
"""Spreads beyond which a launch counts as an outlier of a class."""


@dataclass(frozen=True)
class Paths:
    """What the classes say of this moment, one entry per (class, q) that is still likely.

    `of` is the class's index; `weight` its probability (they sum to one); `level` the good level now, the path
    included; `step` the effect; `variance` that of the level; `noise` and `offset` the variances of a launch and of a
    build.
    """

    of: NDArray[np.int64]
    weight: Array
    level: Array
    step: Array
    variance: Array
    noise: Array
    offset: Array


@dataclass(frozen=True)
class Drift:
    """Per class: log evidence ratio against no drift, P(no drift); and the paths."""

    ratio: Array
    steady: Array
    paths: Paths


def drift_evidence(
    launches: Launches, cuts: NDArray[np.int64], static: Array, *, spread: Array, share: Array
) -> Drift:
    """Return what drift adds to each class.

    `static` has the log posterior of each interval between tested positions and, last, of no change at all; the
    answers are in the same order. `spread` and `share` are those that each class takes for likely.
    """
    ratio, steady = np.zeros(static.size), np.full(static.size, PRIOR[0])
    keep = slice(-_LATEST, None)
    at, build = launches.at[keep], launches.build[keep]
    y, hours = launches.y[keep], launches.hours[keep]
    elapsed = np.asarray(hours - hours.min(), dtype=float)
    path: Array = np.minimum.outer(elapsed, elapsed)
    same: Array = np.equal.outer(build, build).astype(np.float64)
    found: list[tuple[float, ...]] = []
    for j in np.flatnonzero(static >= static.max() - _LIKELY):
        step = at >= cuts[j + 1] if j + 1 < cuts.size else np.zeros(at.size, dtype=bool)
        design = np.column_stack([np.ones(y.size), step]) if step.any() else np.ones((y.size, 1))
        s = float(spread[j])
        still = (share[j] * s) ** 2 * same + np.diag(_noise(y, step, s))
        fits = [_fit(still + (q * s) ** 2 * path, y, design, (q * s) ** 2 * elapsed) for q in RATES]
        logs = np.array([fit[0] for fit in fits]) + np.log(PRIOR)
        mixed = float(np.logaddexp.reduce(logs))
        ratio[j] = mixed - (logs[0] - np.log(PRIOR[0]))
        steady[j] = np.exp(logs[0] - mixed)
        about = s**2, (share[j] * s) ** 2
        whole = float(static[j] + ratio[j] - mixed)
        found += [(float(j), whole + float(log), *fit[1:], *about) for log, fit in zip(logs, fits, strict=True)]
    table = np.array(found)
    weight = np.exp(table[:, 1] - table[:, 1].max())
    likely = weight > 1e-7 * weight.sum()
    weight = weight[likely] / weight[likely].sum()
    kept = table[likely]
    return Drift(ratio, steady, Paths(kept[:, 0].astype(np.int64), weight, *kept[:, 2:].T))


def _noise(y: Array, step: NDArray[np.bool_], spread: float) -> Array:
    """Return the variance of each launch under a class: wider for those that the class takes for outliers."""
    level = np.where(step, np.median(y[step]) if step.any() else 0.0, np.median(y[~step]))
    return np.asarray(spread**2 * np.maximum(1.0, ((y - level) / (_TOLERATED * spread)) ** 2))


def _fit(covariance: Array, y: Array, design: Array, to_now: Array) -> tuple[float, float, float, float]:
    """Return (log marginal likelihood up to a constant, level now, step, variance of the level now).

    The design's coefficients are integrated over flat priors; the path's present value is predicted from `to_now`,
    its covariance with the launches (kriging), whose last entry is the path's own variance by then.
    """
    factor = linalg.cholesky(covariance, lower=True, check_finite=False)
    columns = np.column_stack([design, y, to_now])
    white = linalg.solve_triangular(factor, columns, lower=True, check_finite=False)
    x, v, c = white[:, :-2], white[:, -2], white[:, -1]
    gram, moment = x.T @ x, x.T @ v
    inverse = np.linalg.inv(gram)
    beta = inverse @ moment
    rest = float(v @ v - moment @ beta)
    log = -float(np.log(np.diag(factor)).sum()) - 0.5 * float(np.linalg.slogdet(gram)[1]) - 0.5 * rest
    level = float(beta[0] + c @ (v - x @ beta))
    spare = max(float(to_now.max() - c @ c), 0.0) + float(inverse[0, 0])
    return log, level, float(beta[1]) if beta.size > 1 else 0.0, spare
