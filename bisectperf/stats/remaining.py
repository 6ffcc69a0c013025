"""How long the rest of a search will take: many nights played out on what is known so far.

Each night draws the first bad position from the posterior and searches for it as noisy bisection does: launch the
position that halves what is left, observe good or bad level with the noise of a launch, update, until one position
holds the confidence asked for; then the confirmation. Seconds are counted as the launches need them: a build where
there is none yet, a switch of the checkout, the launch itself.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

UNSURE = 0.3
"""Standard deviation of the log of a launch's noise: a few launches tell its size no better."""
_NIGHTS = 200
_CELLS = 60_000
"""Nights times positions: long lines get fewer nights, so that an answer takes a tenth of a second."""
_LONGEST = 400


@dataclass(frozen=True)
class Prices:
    """Seconds of a build, of switching the checkout, and of a launch itself."""

    build: float
    switch: float
    launch: float


@dataclass(frozen=True)
class Known:
    """What is known of the positions that can be launched, ascending.

    `chance[k]` is P(first bad is position k or an untestable one before it); `built[k]` whether its build is there;
    `effect` is (mean, sd) of the step, `noise` the standard deviation of one launch, both on the log scale.
    """

    chance: Array
    built: NDArray[np.bool_]
    effect: tuple[float, float]
    noise: float


def seconds_left(known: Known, prices: Prices, *, confidence: float, confirmation: int, seed: int) -> Array:
    """Return the seconds that each of many nights still took, sorted.

    `confirmation` launches follow the search.
    """
    rng = np.random.default_rng(seed)
    places = known.chance.size
    nights = int(np.clip(_CELLS // places, 40, _NIGHTS))
    truth = rng.choice(places, nights, p=known.chance / known.chance.sum())
    effect = np.maximum(rng.normal(*known.effect, nights), known.effect[0] / 4)
    noise = known.noise * np.exp(rng.normal(0, UNSURE, nights))
    log = np.tile(np.log(np.maximum(known.chance, 1e-12)), (nights, 1))
    built = np.tile(known.built, (nights, 1))
    spent, at = np.zeros(nights), np.full(nights, -1)
    active = np.arange(nights)
    for _ in range(_LONGEST):
        weight = np.exp(log[active] - log[active].max(axis=1, keepdims=True))
        weight /= weight.sum(axis=1, keepdims=True)
        undecided = weight.max(axis=1) < confidence
        active, weight = active[undecided], weight[undecided]
        if not active.size:
            break
        probe = _halving(weight)
        spent[active] += _price(prices, built[active, probe], at[active] == probe)
        built[active, probe], at[active] = True, probe
        bad = truth[active] <= probe
        seen = effect[active] * bad + rng.normal(0, 1, active.size) * noise[active]
        gain = (seen**2 - (seen - effect[active]) ** 2) / (2 * noise[active] ** 2)
        log[active] += np.where(np.arange(places) <= probe[:, None], gain[:, None], 0.0)
    spent += _confirmation(prices, built, log.argmax(axis=1), confirmation)
    return np.sort(spent)


def _halving(weight: Array) -> NDArray[np.int64]:
    """Return per night the position at or before which the first bad one lies with probability nearest to half."""
    below = np.cumsum(weight, axis=1)[:, :-1]
    return np.asarray(np.abs(below - 0.5).argmin(axis=1), dtype=np.int64)


def _price(prices: Prices, built: NDArray[np.bool_], here: NDArray[np.bool_]) -> Array:
    extra = np.where(built, np.where(here, 0.0, prices.switch), prices.switch + prices.build)
    return np.asarray(prices.launch + extra, dtype=float)


def _confirmation(prices: Prices, built: NDArray[np.bool_], found: NDArray[np.int64], launches: int) -> Array:
    """Return the seconds of the confirmation: parent and culprit, a build for each that has none."""
    nights = np.arange(found.size)
    missing = 2.0 - built[nights, found] - built[nights, np.maximum(found - 1, 0)]
    builds = missing if launches else np.zeros(found.size)
    return np.asarray(launches * (prices.launch + prices.switch) + builds * prices.build, dtype=float)
