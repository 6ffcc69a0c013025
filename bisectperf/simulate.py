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
from bisectperf.search import Done, Measure, Stop, Wait, next_step, untestable_now
from bisectperf.state import State, apply


class World(msgspec.Struct, frozen=True, kw_only=True):
    """What is true in one simulated night; effects and spreads are on the log scale.

    `levels` overrides the single step: (position, change) pairs, summed up to each position. `bimodal` is the share
    of launches that are 3 spreads slow; `offset` the standard deviation of a build, in spreads; `drift` one of none,
    triangle, ramp, step, walk, with `drift_size` in spreads.
    A `pool` of measured deviations replaces the drawn noise of launches.
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
    max_launches: int = 300
    pool: tuple[float, ...] = ()


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a night came to."""

    verdict: AnyVerdict
    launches: int
    builds: int
    hours: float


class Taken(msgspec.Struct, frozen=True, kw_only=True):
    """One launch on the rig: its value, its build (the how-manieth of its commit), and what was spent in seconds."""

    value: float
    serial: int
    cached: bool
    switched: float
    seconds: float


class Rig:
    """The simulated host: it builds, switches and launches, and its clock runs.

    The noise of the i-th launch of a commit is drawn from (seed, commit, i): whoever searches meets the same ones.
    """

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.seed = seed
        self.now = 0.0
        self.builds: dict[tuple[int, int], float] = {}
        self.launches = 0
        self._last: int | None = None
        self._count: dict[int, int] = {}
        rng = np.random.default_rng([seed, 1])
        self.broken = _broken(world, rng)
        self._walk = np.cumsum(rng.normal(0, 1 / math.sqrt(12), 12 * 400))
        self._shift = float(rng.uniform(0.15, 0.85)) * world.night_hours

    def launch(self, k: int, *, fresh: bool = False) -> Taken | None:
        """Return one launch of position k, or None where its build fails (half a build's time is spent)."""
        world = self.world
        if k in self.broken:
            self.now += world.build_seconds / 2
            return None
        built = sum(place == k for place, _ in self.builds)
        serial = built if fresh else 0
        cached = (k, serial) in self.builds
        if not cached:
            draw = np.random.default_rng([self.seed, 2, k, serial])
            self.builds[k, serial] = float(draw.normal(0, world.offset * world.spread))
            self.now += world.build_seconds
        switched = 0.0 if self._last == k else world.switch_seconds
        self._last = k
        self.now += switched
        number = self._count.get(k, 0)
        self._count[k] = number + 1
        self.launches += 1
        rng = np.random.default_rng([self.seed, 3, k, number])
        value = self.level(k) + self.builds[k, serial] + self._drift(self.now / 3600) + self._noise(rng)
        seconds = world.launch_seconds + world.repetitions * world.repetition_seconds
        self.now += seconds
        return Taken(value=value, serial=serial, cached=cached, switched=switched, seconds=seconds)

    def level(self, k: int) -> float:
        """Return the true level of a position."""
        world = self.world
        if world.levels:
            return sum(change for place, change in world.levels if k >= place)
        return world.effect if world.first_bad is not None and k >= world.first_bad else 0.0

    def _noise(self, rng: np.random.Generator) -> float:
        world = self.world
        if world.pool:
            return float(rng.choice(world.pool))
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
            return size if hours >= self._shift else 0.0
        if world.drift == "walk":
            return size * float(self._walk[min(int(hours * 12), self._walk.size - 1)]) / math.sqrt(night)
        return 0.0


class Night:
    """One night in a world: the core asks, the rig answers."""

    def __init__(self, world: World, seed: int) -> None:
        self.rig = Rig(world, seed)
        self.state = _begun(world)

    def run(self) -> Outcome:
        """Drive the core to its verdict."""
        rig = self.rig
        while True:
            for tree, sha, reason in untestable_now(self.state):
                self._append(ev.FoundUntestable(at=rig.now, sha=sha, tree=tree, reason=reason))
            step = next_step(self.state, rig.now)
            if isinstance(step, Done):
                return Outcome(
                    verdict=step.verdict, launches=rig.launches, builds=len(rig.builds), hours=rig.now / 3600
                )
            assert not isinstance(step, Stop), f"a simulated night has no limits: {step.reason}"
            if isinstance(step, Wait):
                rig.now += step.seconds
            else:
                self._launch(step[0])

    def _append(self, event: ev.AnyEvent) -> None:
        self.state = apply(self.state, event)

    def _launch(self, step: Measure) -> None:
        rig, world, begun = self.rig, self.rig.world, self.rig.now
        about = {name: getattr(step, name) for name in ("launch", "sha", "tree", "host", "why", "reason", "fresh")}
        self._append(ev.LaunchPlanned(at=begun, **about))
        taken = rig.launch(int(step.tree, 16), fresh=step.fresh)
        if taken is None:
            why = "the build failed"
            self._append(ev.FoundUntestable(at=rig.now, sha=step.sha, tree=step.tree, reason=why, launch=step.launch))
            return
        build = Build(
            key=BuildKey(f"{step.tree}-{taken.serial}"),
            tree=step.tree,
            seconds=world.build_seconds,
            path="",
            cached=taken.cached,
        )
        self._append(ev.Built(at=rig.now - taken.seconds, launch=step.launch, build=build))
        self._append(
            ev.Measured(
                at=rig.now,
                launch=step.launch,
                samples=Samples(repetitions=(math.exp(taken.value),)),
                proofs=(),
                origin=None,
                facts=(),
                seconds={"checkout": taken.switched, "bench": taken.seconds},
                started=rig.now - taken.seconds,
            )
        )


def _begun(world: World) -> State:
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
    jobs = [(truth(world, seed) if draw else world, seed) for seed in seeds]
    if workers < 2:
        return [one(job) for job in jobs]
    with ProcessPoolExecutor(workers) as pool:
        return list(pool.map(one, jobs, chunksize=4))


def one(job: tuple[World, int]) -> Outcome:
    """Return the outcome of one night."""
    world, seed = job
    return Night(world, seed).run()


def truth(world: World, seed: int) -> World:
    """Return the world of a seed's night, with the place of the first bad commit drawn."""
    if world.first_bad is None or world.levels:
        return world
    place = int(np.random.default_rng([seed, 7]).integers(1, world.candidates + 1))
    return msgspec.structs.replace(world, first_bad=place)
