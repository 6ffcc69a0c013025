"""Between two ends that differ: the launch that tells most per second, then the confirmation."""

import itertools
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from bisectperf.events import Why
from bisectperf.model import AnyVerdict, Effect, FirstBad, FirstBadAmong
from bisectperf.search.steps import Done, Step, launch_of
from bisectperf.search.view import View
from bisectperf.stats.effect import pooled
from bisectperf.stats.information import information

UNSURE = 0.3
"""Standard deviation of an end's level, in effects, above which that end is measured again."""
END_LAUNCHES = 6
"""Beyond this many launches an end's own build offset, not its repetition, is what limits it."""
STEADY = 0.9
IN_A_ROW = 3
NEIGHBOUR = 0.6
"""How much likelier a commit beside an untestable one is to be untestable too; decays by exp(-distance / 2)."""
TURNS = 2
"""How often the order of launches must change sides: a block of one, then one of the other, is no interleaving."""
CLEARLY = 5.0
"""Effect, in spreads, from which two launches of each side do: below, two odd ones in a row are too likely."""
PATIENCE = 16
"""Launches of both sides after which their interval alone no longer holds a claim back."""
HOPELESS = 0.004
"""Bits below which no launch is worth its time: the members of a small set are reported as one."""
SMALL_SET = 6


def search(view: View) -> Step:
    """Return the next launch, or the verdict once one block of commits carries the change beyond doubt."""
    found = view.posterior
    places = np.flatnonzero(view.testable)
    blocks = [(a, b, float(found.first_bad[a + 1 : b + 1].sum())) for a, b in itertools.pairwise(map(int, places))]
    before, after, mass = max(blocks, key=lambda block: block[2])
    if mass >= view.state.asked.confidence:
        return _confirm(view, before, after, mass)
    return _unsure_end(view) or _most_telling(view, blocks)


def _unsure_end(view: View) -> Step | None:
    """Return a launch of the end whose level is known too loosely to tell the others apart, or None."""
    found, last = view.posterior, len(view) - 1
    effect = max(found.effect[0], view.smallest)
    sds = {0: found.good[1], last: found.bad[1]}
    end = max(sds, key=lambda k: sds[k])
    if sds[end] > UNSURE * effect and view.counts[end] < END_LAUNCHES:
        return launch_of(view.state, view.positions[end], "endpoint", "its level is not known well enough yet")
    return None


def _most_telling(view: View, blocks: list[tuple[int, int, float]]) -> Step:
    places = _candidates(view)
    chance = _chance_testable(view)[places]
    again = view.counts[places] > 0
    bits = np.array([_bits(view, k, fresh=False) for k in places]) * chance
    rate = bits / view.cost_of(view.built)[places]
    # A commit that was measured may be built once more: what was an accident of one build does not come twice.
    fresh = np.where(again, [_bits(view, k, fresh=True) for k in places], 0.0)
    fresh_rate = fresh / view.cost_of(np.zeros(len(view), dtype=bool))[places]
    if view.posterior.steady < STEADY:
        _forbid_repeats(view, places, rate)
    anew = bool(fresh_rate.max() > rate.max())
    best = int(np.argmax(fresh_rate if anew else rate))
    worth = float((fresh if anew else bits)[best])
    if worth < HOPELESS:
        verdict = _set(view, blocks)
        if verdict is not None:
            return Done(verdict=verdict)
    k = int(places[best])
    why: Why = "rebuild" if anew else "anchor" if k in (0, len(view) - 1) else "search"
    reason = f"{worth:.2f} bits expected, most per second"
    return launch_of(view.state, view.positions[k], why, reason, fresh=anew)


def _candidates(view: View) -> NDArray[np.int64]:
    """Return the places worth weighing: those measured, and from each stretch between them the one that halves it."""
    found = view.posterior
    below = np.cumsum(found.first_bad)
    chosen = set(map(int, np.flatnonzero(view.testable & (view.counts > 0))))
    for low, high in itertools.pairwise(map(int, found.cuts)):
        inside = np.arange(low + 1, high)[view.testable[low + 1 : high]]
        if inside.size and below[high] - below[low] > 1e-4:
            middle = (below[low] + below[high]) / 2
            chosen.add(int(inside[np.argmin(np.abs(below[inside] - middle))]))
    return np.array(sorted(chosen))


def _bits(view: View, k: int, *, fresh: bool) -> float:
    """Return what a launch at `k`, from the build at hand or from a new one, would tell about the first bad commit.

    A class that takes what a build showed for its offset predicts the same of its next launch: relaunching it parts
    nothing, only another build can.
    """
    found, paths = view.posterior, view.posterior.paths
    cuts = found.cuts
    last = cuts.size - 1
    low, high = cuts[np.minimum(paths.of, last)], cuts[np.minimum(paths.of + 1, last)]
    below = np.cumsum(found.first_bad)
    mass = np.maximum(below[high] - below[low], 1e-300)
    # The share of each class that already is bad at k: all, none, or, where k lies inside its stretch, a part.
    share = np.clip((below[min(k, len(view) - 1)] - below[low]) / mass, 0.0, 1.0)
    share = np.where(paths.of == last, 0.0, np.where(k >= high, 1.0, np.where(k <= low, 0.0, share)))
    weight = np.concatenate([paths.weight * (1 - share), paths.weight * share])
    level = np.concatenate([paths.level, paths.level + np.maximum(paths.step, view.smallest)])
    noise, offset, variance = (np.tile(x, 2) for x in (paths.noise, paths.offset, paths.variance))
    known = np.array([]) if fresh else view.build_at(k)
    if known.size:
        shrink = offset / (offset + noise / known.size)
        level = level + shrink * (known.mean() - level)
        variance = variance * (1 - shrink) ** 2
        offset = offset * (1 - shrink)
    group = np.concatenate([2 * paths.of, 2 * paths.of + 1])
    used = weight > 1e-9
    parts = (weight[used] / weight[used].sum(), level[used], (variance + offset + noise)[used])
    return information(*parts, group[used])


def _chance_testable(view: View) -> NDArray[np.float64]:
    """Return P(testable) per position: measured ones are; the others by the rate so far and by their neighbours."""
    gone = np.flatnonzero(~view.testable)
    tried = gone.size + int((view.counts > 0).sum())
    rate = (gone.size + 0.2) / (tried + 4.0)
    chance = np.full(len(view), 1.0 - rate)
    if gone.size:
        place = np.arange(len(view))
        at = np.searchsorted(gone, place)
        left = place - gone[np.maximum(at - 1, 0)]
        right = gone[np.minimum(at, gone.size - 1)] - place
        distance = np.minimum(np.where(at > 0, left, len(view)), np.where(at < gone.size, right, len(view)))
        chance *= 1.0 - NEIGHBOUR * np.exp(-(np.maximum(distance, 1) - 1) / 2)
    chance[view.counts > 0] = 1.0
    return chance


def _forbid_repeats(view: View, places: NDArray[np.int64], rate: NDArray[np.float64]) -> None:
    """Under drift, no commit is launched more than three times in a row: its block would ride on one level."""
    recent = [x.tree for x in view.state.measured()[-IN_A_ROW:]]
    if len(recent) == IN_A_ROW and len(set(recent)) == 1:
        rate[[view.positions[k].tree == recent[0] for k in places]] = -0.5


def _set(view: View, blocks: list[tuple[int, int, float]]) -> AnyVerdict | None:
    """Return the smallest run of neighbouring commits that carries enough, or None if it is not small."""
    first_bad = view.posterior.first_bad
    confidence = view.state.asked.confidence
    for size in range(1, len(blocks) + 1):
        sums = [sum(b[2] for b in blocks[i : i + size]) for i in range(len(blocks) - size + 1)]
        i = int(np.argmax(sums))
        if sums[i] >= confidence:
            first, last = blocks[i][0], blocks[i + size - 1][1]
            if last - first > SMALL_SET:
                return None
            k = int(np.argmax(first_bad))
            return _among(view, first, last, mass=float(sums[i]), effect=_effect(view, k), why="evidence")
    return None


def _confirm(view: View, before: int, after: int, mass: float) -> Step:
    """Interleave parent and culprit; then say what was found."""
    state = view.state
    effect = _effect(view, after)
    sides = view.order(before, after)
    a, b = view.at(before), view.at(after)
    least = 2 if effect.value > CLEARLY * view.posterior.spread else 3
    interleaved = min(len(a), len(b)) >= least and np.count_nonzero(np.diff(sides)) >= TURNS
    if not interleaved or (pooled(a, b).low <= 0 and len(sides) < PATIENCE):
        return _next_confirmation(view, before, after, sides, least)
    if after == before + 1:
        whole = max(view.posterior.effect[0], 1e-9)
        return Done(
            verdict=FirstBad(
                launches=len(state.measured()),
                sha=view.positions[after].sha,
                parent=view.positions[before].commits[-1],
                posterior=mass,
                effect=effect,
                share=min(effect.value / whole, 9.99),
            )
        )
    return Done(verdict=_among(view, before, after, mass=mass, effect=effect, why="untestable"))


def _next_confirmation(view: View, before: int, after: int, sides: list[int], least: int) -> Step:
    """Return the next launch of parent or culprit: the side in hand until it has the least, then the other one."""
    last = sides[-1] if sides else 1
    turn = last if sides.count(last) < least else 1 - last
    return launch_of(view.state, view.positions[(before, after)[turn]], "confirm", "parent and culprit, interleaved")


def _effect(view: View, k: int) -> Effect:
    """Return the effect given that k is the first bad position, with its 95 % credible interval."""
    mean, sd = view.posterior.effect_given(k)
    # As wide as Student's t: the spread was learned from these launches.
    half = sd * float(stats.t.ppf(0.975, max(view.within[1], 2)))
    return Effect(value=mean, low=mean - half, high=mean + half)


def _among(
    view: View, before: int, after: int, *, mass: float, effect: Effect, why: Literal["untestable", "evidence"]
) -> FirstBadAmong:
    members = range(before + 1, after + 1)
    return FirstBadAmong(
        launches=len(view.state.measured()),
        commits=tuple(sha for k in members for sha in view.positions[k].commits[:1]),
        posterior=mass,
        effect=effect,
        why=why,
        untestable={view.positions[k].sha: view.why_not(k) for k in members if not view.testable[k]},
    )
