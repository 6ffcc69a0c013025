"""Posterior over the first bad commit.

A launch at position x, made from build b, gives

    y = g + d [x >= k] + u_b + e,     u_b ~ N(0, (r s)^2),     e ~ mostly N(0, s^2)

with good level g, effect d > 0 (larger y is slower), spread s between launches and an offset per build. The position
k of the first bad commit is what is asked; `none` is the class in which nothing changed. Levels, spread and the
offsets' share r are integrated on a small grid whose centre and width follow the data: a first pass over a wide grid
finds the moments, a second one integrates around them. Per build, the launches enter through their number, mean and
sum of squares, once as they are and once each with the one, two, three (or up to a quarter) most extreme taken for
outliers;
so one bad launch does not decide, and the sums over builds are cumulative along the line: whatever the number of
positions, only the tested ones cost.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from bisectperf.stats.drift import Paths, drift_evidence
from bisectperf.stats.launches import (
    SHARE_PRIOR,
    SHARES,
    BuildStatistics,
    Launches,
    by_build,
    loglikelihood,
    spread_guess,
)

Array = NDArray[np.float64]
Grids = tuple[Array, Array, Array]
"""Good levels, bad levels, spreads."""

PRIOR_NONE = 0.1
LARGEST_EFFECT = math.log(32)
_LEVELS, _SPREADS = 15, 9


@dataclass(frozen=True)
class Posterior:
    """Probabilities and moments.

    `first_bad[k]` is P(the first bad position is k), index 0 always zero; `none` is P(nothing changed); they sum to
    one. `good`, `bad`, `effect` are (mean, sd) given that something changed; `spread` is the posterior mean of s,
    `share` is that of r; `steady` is P(no drift).
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


def posterior(launches: Launches, positions: int, *, smallest: float, weights: Array | None = None) -> Posterior:
    """Return the posterior for `positions` places (0 is the good end), given launches at both ends.

    `smallest` is the log of the smallest effect worth finding; `weights` a prior over places (0 where none may be
    first bad). Raises `ValueError` without a launch at each end.
    """
    groups = by_build(launches)
    cuts = np.unique(launches.at)
    if cuts[0] != 0 or cuts[-1] != positions - 1:
        raise ValueError("both ends must have been measured")
    good, bad = (launches.y[launches.at == end] for end in (0, positions - 1))
    guess = spread_guess(launches)
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
    return _finished(
        launches,
        cuts,
        positions,
        found=second,
        log_prior=log_prior,
        moments=moments,
        weights=weights,
        spreads=grids[2],
    )


def _grid(centre: float, half: float) -> Array:
    """Return points that are dense at the centre and reach `half` to either side."""
    x = np.linspace(-1, 1, _LEVELS)
    return centre + half * np.sinh(2.2 * x) / math.sinh(2.2)


def _steps(grid: Array) -> Array:
    """Return the trapezoid weights of a grid."""
    return np.asarray(np.gradient(grid))


@dataclass(frozen=True)
class _Evidence:
    """`joint[j]` sums to the evidence of interval j over the (g, h) grid; likewise `none`; `peak` was taken out."""

    joint: Array
    spreads: Array
    shares: Array
    none: float
    effect: Array


def _evidence(
    groups: list[BuildStatistics], cuts: NDArray[np.int64], grids: Grids, smallest: float, gap: float
) -> _Evidence:
    """Return log evidences per interval between tested places (class k: first place of cuts[j] >= k)."""
    g, h, s = grids
    below, above = _sides(groups, cuts, grids, gap)
    hyper = _hyper(s)
    prior = _effect_prior(g, h, smallest) * _steps(g)[:, None] * _steps(h)[None, :]
    top_a, top_b = below.max(axis=1, keepdims=True), above.max(axis=1, keepdims=True)
    a, b = np.exp(below - top_a), np.exp(above - top_b)
    scale = (top_a + top_b)[:, 0] + hyper
    peak = scale.max(axis=(1, 2), keepdims=True)
    mix = np.exp(scale - peak)
    joint = np.einsum("jgsr,jhsr,jsr->jgh", a, b, mix, optimize=True) * prior
    by_s = np.einsum("jgsr,gh,jhsr,jsr->jsr", a, prior, b, mix, optimize=True)
    total = joint.sum(axis=(1, 2))
    with np.errstate(divide="ignore"):
        logs = np.log(total) + peak[:, 0, 0]
    dist = joint / np.maximum(total, 1e-300)[:, None, None]
    flat, none = _unchanged(groups, s, gap)
    mixes = np.concatenate([by_s / np.maximum(by_s.sum(axis=(1, 2), keepdims=True), 1e-300), flat[None]])
    effect = _packed(dist, h[None, :] - g[:, None], logs)
    return _Evidence(dist, mixes.sum(axis=2), mixes.sum(axis=1), none, effect)


def _sides(groups: list[BuildStatistics], cuts: NDArray[np.int64], grids: Grids, gap: float) -> tuple[Array, Array]:
    """Return, per interval, the log likelihood of what lies below it at a good level and above it at a bad one."""
    g, h, s = grids
    as_good = np.zeros((cuts.size, g.size, s.size, SHARES.size))
    as_bad = np.zeros((cuts.size, h.size, s.size, SHARES.size))
    for group in groups:
        place = int(np.searchsorted(cuts, group.place))
        as_good[place] += loglikelihood(group, g, s, gap)
        as_bad[place] += loglikelihood(group, h, s, gap)
    return np.cumsum(as_good, axis=0)[:-1], np.cumsum(as_bad[::-1], axis=0)[::-1][1:]


def _unchanged(groups: list[BuildStatistics], s: Array, gap: float) -> tuple[Array, float]:
    """Return, if nothing changed: how likely each spread and share is, and the log evidence."""
    means = np.array([group.mean[0] for group in groups])
    flat = _grid(float(np.median(means)), max(float(np.std(means)), 5e-4) * 3)
    logs = _hyper(s) + np.log(_steps(flat))[:, None, None]
    for group in groups:
        logs = logs + loglikelihood(group, flat, s, gap)
    whole = float(special.logsumexp(logs))
    return np.exp(logs - whole).sum(axis=0), whole


def _hyper(s: Array) -> Array:
    """Return the log prior over spread (log-normal around 1 % with log-sd 1) and share, shape (spreads, shares)."""
    log_s = -0.5 * (np.log(s / 0.01)) ** 2 + np.log(_steps(np.log(s)))
    return np.asarray(log_s[:, None] + np.log(SHARE_PRIOR)[None, :])


def _effect_prior(g: Array, h: Array, smallest: float) -> Array:
    """Return the log-uniform density of the effect; below the smallest one it fades out instead of ending."""
    d = h[None, :] - g[:, None]
    ramp = np.clip((d / smallest - 0.75) / 0.25, 1e-9, 1.0)
    density = ramp / np.maximum(d, smallest) / math.log(LARGEST_EFFECT / smallest)
    return np.where((d >= smallest * 0.75) & (d <= LARGEST_EFFECT), density, 0.0)


def _packed(dist: Array, d: Array, logs: Array) -> Array:
    """Return mean and standard deviation of the effect and the log evidence, per interval."""
    mean = (dist * d).sum(axis=(1, 2))
    square = (dist * d**2).sum(axis=(1, 2))
    return np.stack([mean, np.sqrt(np.maximum(square - mean**2, 0.0)), logs], axis=1)


def _class_prior(cuts: NDArray[np.int64], positions: int, weights: Array | None) -> Array:
    """Return the log prior mass of each interval (cuts[j], cuts[j+1]], given that something changed."""
    mass = np.ones(positions) if weights is None else np.asarray(weights, dtype=float).copy()
    mass[0] = 0.0
    total = np.concatenate([[0.0], np.cumsum(mass)])
    with np.errstate(divide="ignore"):
        return np.asarray(np.log((total[cuts[1:] + 1] - total[cuts[:-1] + 1]) / mass.sum()))


def _moments(found: _Evidence, log_prior: Array, grids: Grids) -> dict[str, tuple[float, float]]:
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
        "log_spread": _mean_sd(p @ found.spreads[:-1], np.log(s)),
        "share": _mean_sd(p @ found.shares[:-1], SHARES),
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
    spreads: Array,
) -> Posterior:
    spread, share = math.exp(moments["log_spread"][0]), moments["share"][0]
    changed = found.effect[:, 2] + log_prior + math.log(1 - PRIOR_NONE)
    logs = np.append(changed, found.none + math.log(PRIOR_NONE))
    # Each class with the spread and the share that it itself believes in: a class that calls a gap luck of the builds
    # would else look as if it needed drift.
    own = np.exp(found.spreads @ np.log(spreads)), found.shares @ SHARES
    drift = drift_evidence(launches, cuts, logs, spread=own[0], share=own[1])
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
