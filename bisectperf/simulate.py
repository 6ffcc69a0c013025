"""Nights without a machine: the pure core, driven as the driver drives it, on noise that is known.

What is simulated is the code that runs at night: `next_step` answers, the outcome is drawn, and the same events are
folded. Only the tree, the build and the benchmark are replaced by numbers.
"""

import math
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor

import msgspec
import numpy as np

from bisectperf import events as ev
from bisectperf.model import (
    AnyVerdict,
    Build,
    BuildKey,
    Line,
    Metric,
    Plan,
    Position,
    Samples,
    Sha,
    TreeId,
)
from bisectperf.search import Done, Measure, Wait, next_step, untestable_now
from bisectperf.state import State, apply


class World(msgspec.Struct, frozen=True, kw_only=True):
    """What is true in one simulated night; effects and spreads are on the log scale.

    `levels` overrides the single step: (position, change) pairs, summed up to each position. `bimodal` is the share
    of launches that are 3 spreads slow; `offset` the standard deviation of a build, in spreads; `drift` one of none,
    triangle, ramp, step, walk, with `drift_size` in spreads.
    """

    candidates: int = 64
    spread: float = 0.01
    effect: float = 0.03
    first_bad: int | None = 20
    levels: tuple[tuple[int, float], ...] = ()
    outliers: float = 0.0
    bimodal: float = 0.0
    offset: float = 0.0
    drift: str = "none"
    drift_size: float = 1.0
    untestable: float = 0.0
    stretches: bool = False
    build_seconds: float = 600.0
    switch_seconds: float = 30.0
    launch_seconds: float = 120.0
    repetition_seconds: float = 10.0
    repetitions: int = 7
    night_hours: float = 4.0
    smallest_effect: float = 0.01
    confidence: float = 0.99
    max_launches: int = 1000


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a night came to."""

    verdict: AnyVerdict
    launches: int
    builds: int
    hours: float


class Night:
    """One night in a world."""

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.rng = np.random.default_rng(seed)
        self.now = 0.0
        self.builds: dict[tuple[TreeId, int], float] = {}
        self.broken = _broken(world, self.rng)
        self.walk = np.cumsum(self.rng.normal(0, 1 / math.sqrt(12), 12 * 400))
        self.shift = float(self.rng.uniform(0.15, 0.85)) * world.night_hours
        self.state = self._begin()

    def run(self) -> Outcome:
        """Drive the core to its verdict."""
        while True:
            for tree, sha, reason in untestable_now(self.state):
                self._append(ev.FoundUntestable(at=self.now, sha=sha, tree=tree, reason=reason))
            step = next_step(self.state, self.now)
            if isinstance(step, Done):
                launches = len(self.state.measured())
                return Outcome(
                    verdict=step.verdict, launches=launches, builds=len(self.builds), hours=self.now / 3600
                )
            if isinstance(step, Wait):
                self.now += step.seconds
            else:
                self._launch(step[0])

    def _append(self, event: ev.AnyEvent) -> None:
        self.state = apply(self.state, event)

    def _begin(self) -> State:
        world = self.world
        metric = Metric(name="speed", unit="s", better="lower", smallest_effect=world.smallest_effect)
        positions = tuple(
            Position(commits=(_sha(k),), tree=_tree(k), parents=(_sha(k - 1),) if k else ())
            for k in range(world.candidates + 1)
        )
        plan = Plan(
            mode="bisect",
            good=_sha(0),
            bad=_sha(world.candidates),
            metric=metric,
            recipe="simulated",
            recipe_digest="",
            repetitions=world.repetitions,
            warmup=0,
            seed=0,
            confidence=world.confidence,
            max_launches=world.max_launches,
            build_seconds=world.build_seconds,
            launch_seconds=world.launch_seconds + world.repetitions * world.repetition_seconds,
        )
        state = apply(State(), ev.Started(at=0.0, plan=plan, version="simulated"))
        return apply(state, ev.LineDrawn(at=0.0, line=Line(positions=positions)))

    def _launch(self, step: Measure) -> None:
        world, k = self.world, int(step.tree, 16)
        self._append(
            ev.LaunchPlanned(
                at=self.now,
                launch=step.launch,
                sha=step.sha,
                tree=step.tree,
                host=step.host,
                why=step.why,
                reason=step.reason,
                fresh=step.fresh,
            )
        )
        if k in self.broken:
            self.now += world.build_seconds / 2
            reason = "the build failed"
            self._append(
                ev.FoundUntestable(at=self.now, sha=step.sha, tree=step.tree, reason=reason, launch=step.launch)
            )
            return
        build, switched = self._build(step)
        self._append(ev.Built(at=self.now, launch=step.launch, build=build))
        offset = self.builds[step.tree, _serial(build)]
        seconds = world.launch_seconds + world.repetitions * world.repetition_seconds
        value = self._level(k) + offset + self._drift(self.now / 3600) + self._noise()
        self.now += seconds
        self._append(
            ev.Measured(
                at=self.now,
                launch=step.launch,
                samples=Samples(repetitions=(math.exp(value),)),
                proofs=(),
                origin=None,
                facts=(),
                seconds={"checkout": switched, "bench": seconds},
                started=self.now,
            )
        )

    def _build(self, step: Measure) -> tuple[Build, float]:
        world = self.world
        serial = sum(tree == step.tree for tree, _ in self.builds) if step.fresh else 0
        key = (step.tree, serial)
        cached = key in self.builds
        if not cached:
            self.builds[key] = float(self.rng.normal(0, world.offset * world.spread)) if world.offset else 0.0
            self.now += world.build_seconds
        last = self.state.last_tree(step.host)
        switched = 0.0 if last == step.tree else world.switch_seconds
        self.now += switched
        name = BuildKey(f"{step.tree}-{serial}")
        return Build(key=name, tree=step.tree, seconds=world.build_seconds, path="", cached=cached), switched

    def _level(self, k: int) -> float:
        world = self.world
        if world.levels:
            return sum(change for place, change in world.levels if k >= place)
        return world.effect if world.first_bad is not None and k >= world.first_bad else 0.0

    def _noise(self) -> float:
        world, rng = self.world, self.rng
        e = float(rng.normal(0, world.spread))
        if world.outliers and rng.random() < world.outliers:
            e += float(rng.exponential(3 * world.spread + world.effect))
        if world.bimodal and rng.random() < world.bimodal:
            e += 3 * world.spread
        return e

    def _drift(self, hours: float) -> float:
        world = self.world
        size, night = world.drift_size * world.spread, world.night_hours
        if world.drift == "triangle":
            phase = (hours / night) % 1.0
            return size * (1 - abs(2 * phase - 1))
        if world.drift == "ramp":
            return size * hours / night
        if world.drift == "step":
            return size if hours >= self.shift else 0.0
        if world.drift == "walk":
            return size * float(self.walk[min(int(hours * 12), self.walk.size - 1)]) / math.sqrt(night)
        return 0.0


def _serial(build: Build) -> int:
    return int(build.key.rsplit("-", 1)[1])


def _tree(k: int) -> TreeId:
    return TreeId(f"{k:040x}")


def _sha(k: int) -> Sha:
    return Sha(f"{k + (1 << 40):040x}")


def position_of(sha: Sha) -> int:
    """Return the place on the line of a simulated commit."""
    return int(sha, 16) - (1 << 40)


def _broken(world: World, rng: np.random.Generator) -> frozenset[int]:
    inner = world.candidates - 1
    count = round(world.untestable * inner)
    if not count:
        return frozenset()
    if not world.stretches:
        return frozenset(int(k) + 1 for k in rng.choice(inner, count, replace=False))
    found: set[int] = set()
    while len(found) < count:
        at = int(rng.integers(1, world.candidates))
        found |= set(range(at, min(at + int(rng.integers(2, 7)), world.candidates)))
    return frozenset(found)


def nights(world: World, seeds: Iterable[int], *, workers: int = 1, draw: bool = True) -> list[Outcome]:
    """Return the outcomes of one night per seed; `draw` places the first bad commit anew each night."""
    jobs = [(_placed(world, seed) if draw else world, seed) for seed in seeds]
    if workers < 2:
        return [one(job) for job in jobs]
    with ProcessPoolExecutor(workers) as pool:
        return list(pool.map(one, jobs, chunksize=4))


def one(job: tuple[World, int]) -> Outcome:
    """Return the outcome of one night."""
    world, seed = job
    return Night(world, seed).run()


def _placed(world: World, seed: int) -> World:
    if world.first_bad is None or world.levels:
        return world
    place = int(np.random.default_rng([seed, 7]).integers(1, world.candidates + 1))
    return msgspec.structs.replace(world, first_bad=place)


def truth(world: World, seed: int) -> World:
    """Return the world of a seed's night, with the place that was drawn."""
    return _placed(world, seed)
