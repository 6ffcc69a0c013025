"""fold(events) -> State: everything that is shown or decided follows from here."""

import math
from collections.abc import Iterable
from typing import Literal

import msgspec
from msgspec.structs import replace

from bisectperf import events as ev
from bisectperf.model import (
    AnyVerdict,
    Build,
    BuildKey,
    HostFacts,
    HostName,
    LaunchId,
    Limits,
    Line,
    Metric,
    OriginProof,
    Plan,
    Samples,
    Sha,
    TreeId,
    TreeProof,
)
from bisectperf.stats.summary import center


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """One launch and what became of it.

    `value` is its one number: the natural log of the reduced metric, signed so that larger is always slower.
    """

    id: LaunchId
    sha: Sha
    tree: TreeId
    host: HostName
    why: ev.Why
    reason: str
    planned: float
    fresh: bool = False
    status: Literal["planned", "built", "running", "measured", "void", "untestable"] = "planned"
    build: Build | None = None
    samples: Samples | None = None
    value: float | None = None
    started: float = 0.0
    ended: float = 0.0
    seconds: dict[str, float] = msgspec.field(default_factory=dict)
    void: str = ""
    void_kind: str = ""
    detail: str = ""
    proofs: tuple[TreeProof, ...] = ()
    origin: OriginProof | None = None
    facts: tuple[HostFacts, ...] = ()
    snapshot: str = ""


class Costs(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds that the next launch will take, by what it needs first; measured means, the plan's word before."""

    build: float
    switch: float
    launch: float


class State(msgspec.Struct, frozen=True, kw_only=True):
    """The fold of a journal."""

    plan: Plan | None = None
    lines: tuple[Line, ...] = ()
    launches: dict[LaunchId, Launch] = msgspec.field(default_factory=dict)
    untestable: dict[TreeId, str] = msgspec.field(default_factory=dict)
    marks: dict[Sha, str] = msgspec.field(default_factory=dict)
    verdicts: tuple[AnyVerdict, ...] = ()
    decided: AnyVerdict | None = None
    stopped: ev.Stopped | None = None
    limits: Limits = Limits()
    attended: float = 0.0
    """When its owner last took up a run that had stopped because it needed them."""
    notes: tuple[ev.Noted, ...] = ()
    snapshots: dict[str, dict[str, str]] = msgspec.field(default_factory=dict)
    began: float = 0.0
    last: float = 0.0

    @property
    def asked(self) -> Plan:
        """Return the plan; a journal always starts with one."""
        if self.plan is None:
            raise ValueError("the journal has no plan")
        return self.plan

    @property
    def line(self) -> Line:
        """Return the line in hand."""
        return self.lines[-1]

    def measured(self) -> list[Launch]:
        """Return the launches that count, in the order in which they were planned."""
        return [launch for launch in self.launches.values() if launch.status == "measured"]

    def in_flight(self) -> list[Launch]:
        """Return launches that were planned and have no outcome yet."""
        return [x for x in self.launches.values() if x.status in ("planned", "built", "running")]

    def voids(self, tree: TreeId) -> int:
        """Return how many launches of `tree` were void since the last one that counted."""
        count = 0
        for launch in self.launches.values():
            if launch.tree == tree:
                count = 0 if launch.status == "measured" else count + (launch.status == "void")
        return count

    def builds(self) -> set[BuildKey]:
        """Return the keys of every build known to be on a host."""
        return {x.build.key for x in self.launches.values() if x.build is not None}

    def last_tree(self, host: HostName) -> TreeId | None:
        """Return the tree that was launched last on `host`: launching it again costs least."""
        trees = [x.tree for x in self.launches.values() if x.host == host and x.build is not None]
        return trees[-1] if trees else None

    def costs(self) -> Costs:
        """Return learned costs: means over what was measured, else what the plan assumed."""
        plan = self.asked
        done = self.measured()
        built = [x.build.seconds for x in done if x.build and not x.build.cached and x.build.seconds > 0]
        switches = [x.seconds.get("checkout", 0.0) for x in done if x.seconds.get("checkout")]
        runs = [sum(v for k, v in x.seconds.items() if k != "checkout") for x in done if x.seconds]
        return Costs(
            build=_mean(built, plan.build_seconds if not done else 0.0),
            switch=_mean(switches, 1.0),
            launch=max(_mean(runs, plan.launch_seconds), 0.01),
        )


def _mean(values: list[float], default: float) -> float:
    return sum(values) / len(values) if values else default


def value_of(samples: Samples, metric: Metric) -> float:
    """Return a launch's one number: log of the centre of its repetitions, larger meaning slower."""
    middle = center([math.log(v) for v in samples.repetitions], metric.center, better=metric.better)
    return -middle if metric.better == "higher" else middle


def fold(events: Iterable[ev.AnyEvent]) -> State:
    """Return the state after `events`."""
    state = State()
    for event in events:
        state = apply(state, event)
    return state


def apply(state: State, event: ev.AnyEvent) -> State:
    """Return the state after one more event."""
    state = replace(state, last=event.at)
    match event:
        case ev.Started(plan=plan):
            return replace(state, plan=plan, began=event.at)
        case ev.LineDrawn(line=line):
            return replace(state, lines=(*state.lines, line), decided=None)
        case ev.LaunchPlanned():
            launch = Launch(
                id=event.launch,
                sha=event.sha,
                tree=event.tree,
                host=event.host,
                why=event.why,
                reason=event.reason,
                planned=event.at,
                fresh=event.fresh,
            )
            return replace(state, launches={**state.launches, event.launch: launch}, stopped=None)
        case ev.FoundUntestable(tree=tree, launch=launch_id):
            if launch_id is not None:
                state = _update(state, launch_id, status="untestable", void=event.reason, detail=event.detail)
            known = state.untestable if tree is None else {**state.untestable, tree: event.reason}
            return replace(state, untestable=known)
        case ev.Marked(sha=sha, mark=mark):
            return replace(state, marks={**state.marks, sha: mark})
        case ev.Noted():
            return replace(state, notes=(*state.notes, event))
        case ev.Decided(verdict=verdict):
            return replace(state, verdicts=(*state.verdicts, verdict), decided=verdict)
        case ev.Limited(limits=limits):
            return replace(state, limits=limits)
        case ev.Stopped():
            return replace(state, stopped=event, limits=Limits() if event.why == "budget" else state.limits)
        case ev.Resumed():
            return _resumed(state, event)
        case _:
            return _apply_to_launch(state, event)


def _resumed(state: State, event: ev.Resumed) -> State:
    """Return the state in which a deadline that passed is gone, and the ends may fail once more."""
    over = state.limits.until is not None and event.at > state.limits.until
    resumed = replace(state, stopped=None, limits=Limits() if over else state.limits)
    if state.stopped is None or state.stopped.why != "needs-you":
        return resumed
    ends = {state.line.positions[k].tree for k in (0, -1)}
    kept = {tree: why for tree, why in state.untestable.items() if tree not in ends}
    return replace(resumed, attended=event.at, untestable=kept)


def _apply_to_launch(state: State, event: ev.AnyEvent) -> State:
    match event:
        case ev.Built(launch=launch, build=build):
            return _update(state, launch, status="built", build=build)
        case ev.LaunchRan(launch=launch):
            return _update(state, launch, status="running")
        case ev.Snapshotted(launch=launch, id=name, facts=facts):
            known = {**state.snapshots, name: facts} if facts else state.snapshots
            return _update(replace(state, snapshots=known), launch, snapshot=name)
        case ev.Measured(launch=launch, samples=samples):
            return _update(
                state,
                launch,
                status="measured",
                samples=samples,
                value=value_of(samples, state.asked.metric),
                started=event.started,
                ended=event.at,
                seconds=event.seconds,
                proofs=event.proofs,
                origin=event.origin,
                facts=event.facts,
            )
        case ev.Voided(launch=launch):
            return _update(state, launch, status="void", void=event.reason, void_kind=event.kind, detail=event.detail)
        case _:
            return state


def _update(state: State, launch: LaunchId, **changes: object) -> State:
    return replace(state, launches={**state.launches, launch: replace(state.launches[launch], **changes)})
