"""The state as numbers: what the statistics need of one stretch of the line."""

import math
from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bisectperf.model import Position, TreeId
from bisectperf.state import Costs, State
from bisectperf.stats.changepoint import Posterior, posterior
from bisectperf.stats.launches import Launches

Array = NDArray[np.float64]


class View:
    """Positions `first`..`last` of the line in hand, as a line of their own."""

    def __init__(self, state: State, first: int = 0, last: int | None = None) -> None:
        self.state = state
        whole = state.line.positions
        self.first = first
        self.positions = whole[first : (len(whole) if last is None else last + 1)]
        self.smallest = math.log1p(state.asked.metric.smallest_effect)
        places: dict[TreeId, int] = {}
        for k, position in enumerate(self.positions):
            if position.tree is not None:
                places.setdefault(position.tree, k)
        self._runs = [(places[x.tree], x) for x in state.measured() if x.tree in places and x.value is not None]

    def __len__(self) -> int:
        return len(self.positions)

    @cached_property
    def testable(self) -> NDArray[np.bool_]:
        """Return which positions can be launched."""
        return np.array([self._may_launch(p) for p in self.positions])

    def _may_launch(self, position: Position) -> bool:
        gone = position.tree is None or position.tree in self.state.untestable
        return not gone and self.state.marks.get(position.sha) != "skip"

    def why_not(self, k: int) -> str:
        """Return why a position cannot be launched."""
        position = self.positions[k]
        known = self.state.untestable.get(position.tree, "") if position.tree else ""
        return position.untestable or known or "left out by the user"

    def at(self, k: int) -> list[float]:
        """Return the values measured at a position."""
        return [x.value for place, x in self._runs if place == k and x.value is not None]

    @cached_property
    def within(self) -> tuple[float, int]:
        """Return the spread of launches around the mean of their position, and its degrees of freedom."""
        groups = [self.at(k) for k in map(int, np.flatnonzero(self.counts))]
        freedom = sum(len(x) - 1 for x in groups)
        squares = sum(float(np.var(x)) * len(x) for x in groups)
        return math.sqrt(squares / freedom) if freedom else math.inf, freedom

    def build_at(self, k: int) -> Array:
        """Return the values of the build that an ordinary launch of a position would use: its first one."""
        here = self.launches.at == k
        first = self.launches.build[here][:1]
        return self.launches.y[np.isin(self.launches.build, first)]

    def order(self, before: int, after: int) -> list[int]:
        """Return the launches of two positions in the order in which they were made: 0 is `before`, 1 is `after`."""
        return [int(place == after) for place, _ in self._runs if place in (before, after)]

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """Return how often each position was measured."""
        found = np.zeros(len(self), dtype=np.int64)
        for place, _ in self._runs:
            found[place] += 1
        return found

    @cached_property
    def launches(self) -> Launches:
        """Return all launches of the stretch as arrays."""
        # One build may serve several commits, whose code differs all the same: an offset belongs to both together.
        keys: dict[tuple[int, str], int] = {}
        builds = [keys.setdefault((at, x.build.key if x.build else ""), len(keys)) for at, x in self._runs]
        return Launches(
            at=np.array([place for place, _ in self._runs], dtype=np.int64),
            y=np.array([x.value for _, x in self._runs], dtype=float),
            hours=np.array([x.planned / 3600 for _, x in self._runs], dtype=float),
            build=np.array(builds, dtype=np.int64),
        )

    @cached_property
    def weights(self) -> Array:
        """Return the prior over positions: the recipe's weights, and the user's word where it was given."""
        found = np.array([p.weight for p in self.positions], dtype=float)
        found[0] = 0.0
        for k, position in enumerate(self.positions):
            mark = self.state.marks.get(position.sha)
            if mark == "good":
                found[: k + 1] = 0.0
            elif mark == "bad":
                found[k + 1 :] = 0.0
        return found if found.any() else np.concatenate([[0.0], np.ones(len(self) - 1)])

    @cached_property
    def posterior(self) -> Posterior:
        """Return the posterior over the first bad position of this stretch."""
        return posterior(self.launches, len(self), smallest=self.smallest, weights=self.weights)

    @cached_property
    def mirrored(self) -> Posterior:
        """Return the posterior of the opposite question, where the bad end is the faster one."""
        opposite = replace(self.launches, y=-self.launches.y)
        return posterior(opposite, len(self), smallest=self.smallest, weights=self.weights)

    @cached_property
    def costs(self) -> Costs:
        """Return the learned costs."""
        return self.state.costs()

    def cost_of(self, built: NDArray[np.bool_]) -> Array:
        """Return the seconds that a launch of each position would take."""
        last = self.state.last_tree(self.state.asked.hosts[0])
        here = np.array([p.tree is not None and p.tree == last for p in self.positions])
        extra = np.where(built, np.where(here, 0.0, self.costs.switch), self.costs.switch + self.costs.build)
        return np.asarray(self.costs.launch + extra, dtype=float)

    @cached_property
    def built(self) -> NDArray[np.bool_]:
        """Return which positions have a build on the host."""
        known = {x.tree for x in self.state.launches.values() if x.build is not None}
        return np.array([p.tree in known for p in self.positions])
