"""What a night will cost, before it is spent: simulated nights on the user's own noise and costs."""

import math
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor

import msgspec
import numpy as np
from msgspec.structs import replace
from scipy import stats

from bisectperf.errors import UserError
from bisectperf.model import Faster, FirstBad, FirstBadAmong, SeveralChanges
from bisectperf.simulate import Outcome, World, one, position_of, truth
from bisectperf.state import State

ENOUGH = 10
"""Launches from which their own deviations serve as the noise; with fewer, a normal one of their spread does."""
FEW = 3


class Noise(msgspec.Struct, frozen=True, kw_only=True):
    """How launches of one commit differ: standard deviation of logs, its 90 % upper bound, from how many launches.

    `pool` are the deviations themselves, scaled for the means that they were taken from; empty where they are few.
    """

    spread: float
    upper: float
    launches: int
    pool: tuple[float, ...] = ()


class Forecast(msgspec.Struct, frozen=True, kw_only=True):
    """What nights of one effect came to: means, 95 % quantiles, and how many claims there were and were right.

    `effect` is a fraction (0.05 = 5 %), None where nothing changed; `named` counts nights that named one commit.
    """

    effect: float | None
    nights: int
    launches: tuple[float, float]
    builds: float
    hours: tuple[float, float]
    claims: int
    right: int
    named: int


def noise_of(state: State) -> Noise:
    """Return the noise that a run's launches show; raises `UserError` where they are too few."""
    groups: dict[str, list[float]] = {}
    for launch in state.measured():
        if launch.value is not None:
            groups.setdefault(launch.tree, []).append(launch.value)
    freedom = sum(len(x) - 1 for x in groups.values())
    if freedom < FEW:
        raise UserError(
            f"the run has {sum(map(len, groups.values()))} launches of {len(groups)} trees: too few to show a noise",
            hint="measure it with `bisectperf compare A A`, or assume one with --noise PERCENT",
        )
    squares = sum(float(np.var(x)) * len(x) for x in groups.values())
    spread = max(math.sqrt(squares / freedom), 1e-5)
    upper = spread * math.sqrt(freedom / float(stats.chi2.ppf(0.1, freedom)))
    deviations = [
        (v - float(np.mean(x))) * math.sqrt(len(x) / (len(x) - 1)) for x in groups.values() if len(x) > 1 for v in x
    ]
    pool = tuple(deviations) if len(deviations) >= ENOUGH else ()
    return Noise(spread=spread, upper=upper, launches=sum(map(len, groups.values())), pool=pool)


def forecasts(world: World, effects: Sequence[float | None], *, nights: int, seed: int) -> list[Forecast]:
    """Return a forecast per effect (fractions; None: nothing changed), from `nights` simulated nights each."""
    worlds = [
        replace(world, first_bad=None) if e is None else replace(world, effect=math.log1p(e), first_bad=1)
        for e in effects
    ]
    jobs = [(truth(w, seed + n), seed + n) for w in worlds for n in range(nights)]
    with ProcessPoolExecutor(max(1, min(os.cpu_count() or 1, len(jobs)))) as pool:
        outcomes = list(pool.map(one, jobs, chunksize=2))
    return [
        _summed(effect, jobs[i * nights : (i + 1) * nights], outcomes[i * nights : (i + 1) * nights])
        for i, effect in enumerate(effects)
    ]


def _summed(effect: float | None, jobs: Sequence[tuple[World, int]], outcomes: Sequence[Outcome]) -> Forecast:
    claims = [named(x) for x in outcomes]
    right = sum(c is not None and job[0].first_bad in c for job, c in zip(jobs, claims, strict=True))
    launches, hours = [x.launches for x in outcomes], [x.hours for x in outcomes]
    return Forecast(
        effect=effect,
        nights=len(outcomes),
        launches=(float(np.mean(launches)), float(np.quantile(launches, 0.95))),
        builds=float(np.mean([x.builds for x in outcomes])),
        hours=(float(np.mean(hours)), float(np.quantile(hours, 0.95))),
        claims=sum(c is not None for c in claims),
        right=right,
        named=sum(isinstance(x.verdict, FirstBad) for x in outcomes),
    )


def named(outcome: Outcome) -> set[int] | None:
    """Return the places that a verdict blames (empty: it claims a change, but names none), None without a claim."""
    match outcome.verdict:
        case FirstBad(sha=sha):
            return {position_of(sha)}
        case FirstBadAmong(commits=commits):
            return {position_of(sha) for sha in commits}
        case SeveralChanges() | Faster():
            return set()
    return None


def bounds(hits: int, count: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a share."""
    found = stats.binomtest(hits, count).proportion_ci(method="wilson")
    return float(found.low), float(found.high)


def found_within(rows: Sequence[Forecast], hours: float) -> float | None:
    """Return the smallest of the effects from which on 19 of 20 nights end within `hours`, or None."""
    best = None
    for row in sorted((r for r in rows if r.effect is not None), key=lambda r: -(r.effect or 0.0)):
        if row.hours[1] > hours:
            break
        best = row.effect
    return best
