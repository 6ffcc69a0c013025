"""Posterior over the first bad commit.

A launch at position x, made from build b, gives

    y = g + d [x >= k] + u_b + e,     u_b ~ N(0, (r s)^2),     e ~ mostly N(0, s^2)

with good level g, effect d > 0 (larger y is slower), spread s between launches and an offset per build. The position
k of the first bad commit is what is asked; `none` is the class in which nothing changed. Levels, spread and the
offsets' share r are integrated on a small grid whose centre and width follow the data: a first pass over a wide grid
finds the moments, a second one integrates around them. Per build, the launches enter through their number, mean and
sum of squares, once as they are and once each with the one, two and three most extreme of them taken for outliers;
so one bad launch does not decide, and the sums over builds are cumulative along the line: whatever the number of
positions, only the tested ones cost.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from bisectperf.stats.drift import Paths, drift_evidence

Array = NDArray[np.float64]

PRIOR_NONE = 0.1
LARGEST_EFFECT = math.log(32)
OUTLIER_SLOW, OUTLIER_ANY = 0.02, 0.002
# Share of the build's offset in units of the launch spread: log-normal around 0.3 with log-sd 1, in seven bins.
SHARES = np.array([0.0, 0.15, 0.3, 0.6, 1.2, 3.0, 10.0])
SHARE_PRIOR = np.array([0.136, 0.207, 0.288, 0.219, 0.117, 0.030, 0.003])
_LEVELS, _SPREADS = 15, 9


@dataclass(frozen=True)
class Launches:
    """What was measured: position on the line, value (log, larger is slower), time in hours, build, per launch."""

    at: NDArray[np.int64]
    y: Array
    hours: Array
    build: NDArray[np.int64]


@dataclass(frozen=True)
class Posterior:
    """Probabilities and moments.

    `first_bad[k]` is P(the first bad position is k), index 0 always zero; `none` is P(nothing changed); they sum to
    one. `good`, `bad`, `effect` are (mean, sd) given that something changed; `spread` is the posterior mean of s,
    `share` is the root mean square of r; `steady` is P(no drift).
    """

    first_bad: Array
    none: float
    good: tuple[float, float]
    bad: tuple[float, float]
    effect: tuple[float, float]
    spread: float
    share: float
    steady: float
    effect_at: Array
    """(mean, sd) of the effect per interval between tested positions, shape (intervals, 2)."""
    cuts: NDArray[np.int64]
    """The tested positions, ascending; class k belongs to interval `searchsorted(cuts, k, 'left')`."""

    paths: Paths
    """What each class predicts for a launch now."""

    def effect_given(self, k: int) -> tuple[float, float]:
        """Return mean and standard deviation of the effect if k is the first bad position."""
        mean, sd = self.effect_at[int(np.searchsorted(self.cuts, k, "left"))]
        return float(mean), float(sd)


@dataclass(frozen=True)
class _Group:
    """The launches of one build in statistics of its nested subsets: all, less the most extreme, less two, ..."""

    place: int
    count: Array
    mean: Array
    squares: Array
    outlier: Array


def posterior(launches: Launches, positions: int, *, smallest: float, weights: Array | None = None) -> Posterior:
    """Return the posterior for `positions` places (0 is the good end), given launches at both ends.

    `smallest` is the log of the smallest effect worth finding; `weights` a prior over places (0 where none may be
    first bad). Raises `ValueError` without a launch at each end.
    """
    groups = _grouped(launches)
    cuts = np.unique(launches.at)
    if cuts[0] != 0 or cuts[-1] != positions - 1:
        raise ValueError("both ends must have been measured")
    good, bad = (launches.y[launches.at == end] for end in (0, positions - 1))
    guess = _spread_guess(launches)
    gap = max(float(np.median(bad) - np.median(good)), smallest)
    grids = (
        _grid(float(np.median(good)), max(6 * guess, 0.02)),
        _grid(float(np.median(good)) + gap, max(6 * guess, 0.02)),
        np.geomspace(max(guess / 6, 2e-4), max(guess * 6, 0.01), _SPREADS),
    )
    first = _evidence(groups, cuts, grids, smallest, gap)
    log_prior = _class_prior(cuts, positions, weights)
    moments = _moments(first, log_prior, grids)
    (mean_g, sd_g), (mean_h, sd_h), (mean_s, sd_s) = moments["good"], moments["bad"], moments["log_spread"]
    floor = max(guess, 1e-4) / math.sqrt(launches.y.size) / 4
    grids = (
        _grid(mean_g, 7 * max(sd_g, floor)),
        _grid(mean_h, 7 * max(sd_h, floor)),
        np.exp(mean_s + np.linspace(-3, 3, _SPREADS) * max(sd_s, 0.1)),
    )
    second = _evidence(groups, cuts, grids, smallest, max(mean_h - mean_g, smallest))
    moments = _moments(second, log_prior, grids)
    return _finished(launches, cuts, positions, found=second, log_prior=log_prior, moments=moments, weights=weights)


def _grid(centre: float, half: float) -> Array:
    """Return points that are dense at the centre and reach `half` to either side."""
    x = np.linspace(-1, 1, _LEVELS)
    return centre + half * np.sinh(2.2 * x) / math.sinh(2.2)


def _steps(grid: Array) -> Array:
    """Return the trapezoid weights of a grid."""
    return np.asarray(np.gradient(grid))


def _spread_guess(launches: Launches) -> float:
    """Return a robust first guess of s: pooled deviations from the median within positions."""
    parts = [launches.y[launches.at == p] - np.median(launches.y[launches.at == p]) for p in np.unique(launches.at)]
    rest = np.concatenate([p for p in parts if p.size > 1] or [np.array([0.01])])
    guess = 1.4826 * float(np.median(np.abs(rest))) * math.sqrt(2 if rest.size <= 8 else 1)
    return min(max(guess, 5e-4), 0.5)


def _grouped(launches: Launches) -> list[_Group]:
    groups = []
    for build in np.unique(launches.build):
        mine = launches.build == build
        y = launches.y[mine]
        order = np.argsort(-np.abs(y - np.median(y)), kind="stable")
        if y.size == 2:  # either may be the odd one; slow excess is the likelier story
            order = np.argsort(-y, kind="stable")
        drops = range(min(3, max(1, y.size // 2)) + 1)
        kept = [y[np.sort(order[d:])] for d in drops]
        out = np.full((len(kept), 3), np.nan)
        for d in drops:
            out[d, :d] = y[order[:d]]
        groups.append(
            _Group(
                place=int(launches.at[mine][0]),
                count=np.array([float(k.size) for k in kept]),
                mean=np.array([k.mean() if k.size else np.nan for k in kept]),
                squares=np.array([float(((k - k.mean()) ** 2).sum()) if k.size else 0.0 for k in kept]),
                outlier=out,
            )
        )
    return groups


def _group_loglik(group: _Group, level: Array, spread: Array, gap: float) -> Array:
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


@dataclass(frozen=True)
class _Evidence:
    """`joint[j]` sums to the evidence of interval j over the (g, h) grid; likewise `none`; `peak` was taken out."""

    joint: Array
    spreads: Array
    shares: Array
    none: float
    effect: Array


def _evidence(
    groups: list[_Group], cuts: NDArray[np.int64], grids: tuple[Array, Array, Array], smallest: float, gap: float
) -> _Evidence:
    """Return log evidences per interval between tested places (class k: first place of cuts[j] >= k)."""
    g, h, s = grids
    places = np.searchsorted(cuts, [group.place for group in groups])
    as_good = np.zeros((cuts.size, g.size, s.size, SHARES.size))
    as_bad = np.zeros((cuts.size, h.size, s.size, SHARES.size))
    everywhere = np.concatenate([group.mean[:1] for group in groups])
    flat = _grid(float(np.median(everywhere)), max(float(np.std(everywhere)), 5e-4) * 3)
    none = np.zeros((flat.size, s.size, SHARES.size))
    for place, group in zip(places, groups, strict=True):
        as_good[place] += _group_loglik(group, g, s, gap)
        as_bad[place] += _group_loglik(group, h, s, gap)
        none += _group_loglik(group, flat, s, gap)
    below = np.concatenate([np.zeros((1, *as_good.shape[1:])), np.cumsum(as_good, axis=0)])[1:-1]
    above = np.cumsum(as_bad[::-1], axis=0)[::-1][1:]
    log_s = -0.5 * (np.log(s / 0.01)) ** 2 + np.log(_steps(np.log(s)))
    log_r = np.log(SHARE_PRIOR)
    hyper = log_s[:, None] + log_r[None, :]
    d = h[None, :] - g[:, None]
    allowed = (d >= smallest * 0.75) & (d <= LARGEST_EFFECT)
    width = math.log(LARGEST_EFFECT / smallest)
    ramp = np.clip(
        (d / smallest - 0.75) / 0.25, 1e-9, 1.0
    )  # below the smallest effect the prior fades out instead of ending
    with np.errstate(divide="ignore"):
        log_d = np.where(allowed, np.log(ramp) - np.log(np.maximum(d, smallest)) - math.log(width), -np.inf)
    prior = np.exp(log_d) * _steps(g)[:, None] * _steps(h)[None, :]
    top_a = below.max(axis=1, keepdims=True)
    top_b = above.max(axis=1, keepdims=True)
    a, b = np.exp(below - top_a), np.exp(above - top_b)
    scale = (top_a + top_b)[:, 0] + hyper
    peak = scale.max(axis=(1, 2), keepdims=True)
    mix = np.exp(scale - peak)
    joint = np.einsum("jgsr,jhsr,jsr->jgh", a, b, mix, optimize=True) * prior
    by_s = np.einsum("jgsr,gh,jhsr,jsr->jsr", a, prior, b, mix, optimize=True)
    total = joint.sum(axis=(1, 2))
    with np.errstate(divide="ignore"):
        logs = np.log(total) + peak[:, 0, 0]
    normal = by_s / np.maximum(by_s.sum(axis=(1, 2), keepdims=True), 1e-300)
    flat_log = none + hyper + np.log(_steps(flat))[:, None, None]
    dist = joint / np.maximum(total, 1e-300)[:, None, None]
    effect = np.stack([(dist * d).sum(axis=(1, 2)), (dist * d**2).sum(axis=(1, 2))], axis=1)
    effect[:, 1] = np.sqrt(np.maximum(effect[:, 1] - effect[:, 0] ** 2, 0.0))
    return _Evidence(
        dist, normal.sum(axis=2), normal.sum(axis=1), float(special.logsumexp(flat_log)), _packed(effect, logs)
    )


def _packed(effect: Array, logs: Array) -> Array:
    return np.concatenate([effect, logs[:, None]], axis=1)


def _class_prior(cuts: NDArray[np.int64], positions: int, weights: Array | None) -> Array:
    """Return the log prior mass of each interval (cuts[j], cuts[j+1]], given that something changed."""
    mass = np.ones(positions) if weights is None else np.asarray(weights, dtype=float).copy()
    mass[0] = 0.0
    total = np.concatenate([[0.0], np.cumsum(mass)])
    with np.errstate(divide="ignore"):
        return np.asarray(np.log((total[cuts[1:] + 1] - total[cuts[:-1] + 1]) / mass.sum()))


def _moments(found: _Evidence, log_prior: Array, grids: tuple[Array, Array, Array]) -> dict[str, tuple[float, float]]:
    """Return (mean, sd) of levels, effect, log spread and the offsets' share over all intervals."""
    g, h, s = grids
    logs = found.effect[:, 2] + log_prior
    p = np.exp(logs - special.logsumexp(logs))
    both = np.tensordot(p, found.joint, axes=1)
    d = h[None, :] - g[:, None]
    return {
        "good": _mean_sd(both.sum(axis=1), g),
        "bad": _mean_sd(both.sum(axis=0), h),
        "effect": _mean_sd(both.ravel(), d.ravel()),
        "log_spread": _mean_sd(p @ found.spreads, np.log(s)),
        "square": _mean_sd(p @ found.shares, SHARES**2),
    }


def _mean_sd(p: Array, x: Array) -> tuple[float, float]:
    p = p / max(float(p.sum()), 1e-300)
    mean = float(p @ x)
    return mean, math.sqrt(max(float(p @ (x - mean) ** 2), 0.0))


def _finished(
    launches: Launches,
    cuts: NDArray[np.int64],
    positions: int,
    *,
    found: _Evidence,
    log_prior: Array,
    moments: dict[str, tuple[float, float]],
    weights: Array | None,
) -> Posterior:
    spread, share = math.exp(moments["log_spread"][0]), math.sqrt(moments["square"][0])
    changed = found.effect[:, 2] + log_prior + math.log(1 - PRIOR_NONE)
    logs = np.append(changed, found.none + math.log(PRIOR_NONE))
    drift = drift_evidence(launches, cuts, logs, spread=spread, share=share)
    logs = logs + drift.ratio
    odds = np.exp(logs - special.logsumexp(logs))
    p, none = odds[:-1], float(odds[-1])
    mass = np.ones(positions) if weights is None else np.asarray(weights, dtype=float).copy()
    mass[0] = 0.0
    interval = np.searchsorted(cuts, np.arange(positions), "left") - 1
    inside = np.add.reduceat(mass, cuts[:-1] + 1) if cuts.size > 1 else np.array([1.0])
    each = p / np.maximum(inside, 1e-300)
    first_bad = np.where(interval >= 0, each[np.maximum(interval, 0)] * mass, 0.0)
    return Posterior(
        first_bad=first_bad,
        none=none,
        good=moments["good"],
        bad=moments["bad"],
        effect=moments["effect"],
        spread=spread,
        share=share,
        steady=float(odds @ drift.steady),
        effect_at=np.concatenate([found.effect[:1, :2], found.effect[:, :2]]),
        cuts=cuts,
        paths=drift.paths,
    )
