"""Whether the next launch may still be begun under the limits of this sitting."""

import numpy as np

from bisectperf.search.eta import eta
from bisectperf.search.steps import Measure, Stop
from bisectperf.search.view import View
from bisectperf.state import State

UNLIKELY = 0.05
"""Chance of a verdict by the deadline below which the night is not spent: what is left goes on another time."""


def within(state: State, now: float, step: tuple[Measure, ...]) -> tuple[Measure, ...] | Stop:
    """Return `step`, or the stop that the limits ask for.

    A verdict means the search and its confirmation: what the confirmation costs is part of the forecast, so it is
    never begun without the time to end it.
    """
    limits = state.limits
    if limits.launches is not None and len(state.launches) >= limits.launches:
        return stop(state, f"the launches that were allowed ({limits.launches}) are used up")
    if limits.until is None:
        return step
    if now + _seconds(state, step[0]) > limits.until:
        return stop(state, "the time that was allowed is over: no other launch would end in it")
    found = eta(state)
    chance = 1.0 if found is None else found.chance(limits.until)
    if chance < UNLIKELY:
        return stop(state, f"a verdict in the time that was allowed has become unlikely ({100 * chance:.0f} %)")
    return step


def stop(state: State, reason: str) -> Stop:
    """Return a stop for the budget's sake that says what is left and what it will cost."""
    found = eta(state)
    if found is None:
        return Stop(why="budget", reason=reason)
    view = View(state)
    ranked = np.argsort(-view.posterior.first_bad)
    odds = {view.positions[k].sha: float(view.posterior.first_bad[k]) for k in ranked}
    left = {sha: round(p, 4) for sha, p in odds.items() if p > 0.005}
    return Stop(why="budget", reason=reason, left=left, seconds=found.median, high_seconds=found.high)


def _seconds(state: State, step: Measure) -> float:
    """Return how long a launch will take."""
    costs = state.costs()
    built = any(x.tree == step.tree and x.build is not None for x in state.launches.values()) and not step.fresh
    if built and state.last_tree(step.host) == step.tree:
        return costs.launch
    return costs.launch + costs.switch + (0.0 if built else costs.build)
