"""One stretch of the line: its ends first, then what lies between them."""

import math

import numpy as np

from bisectperf.model import AnyVerdict, Effect, Faster, Inconclusive, NotReproduced
from bisectperf.search.inside import search
from bisectperf.search.recurring import recurring
from bisectperf.search.steps import Done, Step, launch_of
from bisectperf.search.view import View
from bisectperf.stats.effect import pooled

ABBA = (0, 1, 1, 0)
ENOUGH = 4
"""Launches at each end before a difference is called too small."""
CLEAR = 0.05
"""P(none) below which the ends count as different enough to search between them."""


def stretch(view: View) -> Step:
    """Return the next step for one stretch of the line: its ends first, then what lies between them."""
    state, last = view.state, len(view) - 1
    shared = recurring(view)
    if shared is not None:
        return shared
    for k in (0, last):
        if not view.testable[k]:
            return _cannot(view, k)
    good, bad = view.at(0), view.at(last)
    if len(good) < 2 or len(bad) < 2:
        return _end(view, good, bad, "both ends first, interleaved")
    seen = pooled(good, bad)
    launches = len(state.measured())
    if seen.high < 0:
        if min(len(good), len(bad)) < ENOUGH:
            return _end(view, good, bad, "the bad end looks faster than the good one")
        if 1 - view.mirrored.none >= state.asked.confidence:
            effect = Effect(value=seen.value, low=seen.low, high=seen.high)
            return Done(verdict=Faster(launches=launches, effect=effect))
    found = view.posterior
    if found.none >= state.asked.confidence or _too_small(view, good, bad):
        effect = Effect(value=seen.value, low=seen.low, high=seen.high)
        largest = max(math.expm1(seen.high), 0.0)
        return Done(verdict=NotReproduced(launches=launches, posterior=found.none, largest=largest, effect=effect))
    if len(state.launches) >= state.asked.max_launches:
        return Done(verdict=used_up(view))
    # A gap that launches cannot doubt any more may still be luck of two builds: other commits tell, not these again.
    if found.none > CLEAR and pooled(good, bad, view.state.asked.confidence).low <= 0:
        return _end(view, good, bad, f"the ends do not differ clearly yet (P(no change) {found.none:.2f})")
    return search(view)


def _too_small(view: View, good: list[float], bad: list[float]) -> bool:
    """Return whether whatever effect is left is surely below the smallest one worth finding."""
    if min(len(good), len(bad)) < ENOUGH:
        return False
    return pooled(good, bad, 2 * view.state.asked.confidence - 1).high < view.smallest


def used_up(view: View) -> AnyVerdict:
    """Return the verdict when no launch is left: what is known, and no more."""
    found = view.posterior
    order = np.argsort(-found.first_bad)[:20]
    left = {view.positions[k].sha: round(float(found.first_bad[k]), 4) for k in order if found.first_bad[k] > 0.005}
    return Inconclusive(
        launches=len(view.state.measured()),
        why="the launches that were allowed are used up",
        left=left,
        none=found.none,
    )


def _end(view: View, good: list[float], bad: list[float], reason: str) -> Step:
    few = len(good) - len(bad)
    turn = ABBA[(len(good) + len(bad)) % 4] if abs(few) < 2 else int(few > 0)
    k = 0 if turn == 0 else len(view) - 1
    # Once a build's own level weighs more than what its launches leave open, only another build tells more.
    fresh = len(good) > 1 and len(bad) > 1 and view.build_at(k).size * view.posterior.share**2 > 1
    return launch_of(view.state, view.positions[k], "rebuild" if fresh else "endpoint", reason, fresh=fresh)


def _cannot(view: View, k: int) -> Done:
    why = f"the end {view.positions[k].sha[:12]} cannot be measured: {view.why_not(k)}"
    return Done(verdict=Inconclusive(launches=len(view.state.measured()), why=why))
