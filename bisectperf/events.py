"""The journal's vocabulary: facts, in the past tense, each written before anyone acts on it."""

from typing import Literal

import msgspec

from bisectperf.model import (
    AnyVerdict,
    Build,
    HostFacts,
    HostName,
    LaunchId,
    Limits,
    Line,
    Noun,
    OriginProof,
    Plan,
    Samples,
    Sha,
    TreeId,
    TreeProof,
)

Why = Literal["endpoint", "search", "anchor", "confirm", "rebuild", "compare", "revert", "noise"]


class Event(Noun, frozen=True, kw_only=True, tag_field="event"):
    """Base of all events; `at` is seconds since the epoch on the controller."""

    at: float


class Started(Event, frozen=True, kw_only=True, tag=True):
    """A bisection began."""

    plan: Plan
    version: str


class LineDrawn(Event, frozen=True, kw_only=True, tag=True):
    """The positions to search: first the whole range, later the inside of a merge that was named."""

    line: Line


class LaunchPlanned(Event, frozen=True, kw_only=True, tag=True):
    """From here a crash resumes this very id. `fresh` asks for a new build even where one is cached."""

    launch: LaunchId
    sha: Sha
    tree: TreeId
    host: HostName
    why: Why
    reason: str = ""
    fresh: bool = False


class Built(Event, frozen=True, kw_only=True, tag=True):
    """The build for a launch is there (made now, or found)."""

    launch: LaunchId
    build: Build


class LaunchRan(Event, frozen=True, kw_only=True, tag=True):
    """The job was started on the host; it may be adopted by this id after a crash."""

    launch: LaunchId
    job: str


class Snapshotted(Event, frozen=True, kw_only=True, tag=True):
    """What the host was at a launch: `id` is the digest of `facts`, which are written the first time only."""

    launch: LaunchId
    id: str
    facts: dict[str, str] = msgspec.field(default_factory=dict)


class Measured(Event, frozen=True, kw_only=True, tag=True):
    """A launch counted: proved before and after, valid, with its samples."""

    launch: LaunchId
    samples: Samples
    proofs: tuple[TreeProof, ...]
    origin: OriginProof | None
    facts: tuple[HostFacts, ...]
    seconds: dict[str, float]
    """Wall seconds by phase on the host: checkout, prove, launch, bench, stop."""
    started: float
    """Seconds since the epoch (controller's clock) at the middle of the benchmark."""


class Voided(Event, frozen=True, kw_only=True, tag=True):
    """A launch that says nothing: infrastructure, gate, guard, proof. Its metric was not looked at."""

    launch: LaunchId
    kind: Literal["host", "unfit", "flaky", "guard", "proof", "cancelled"]
    reason: str
    detail: str = ""
    guard: str = ""


class FoundUntestable(Event, frozen=True, kw_only=True, tag=True):
    """A tree that cannot be measured, with the words that say why."""

    sha: Sha
    tree: TreeId | None
    reason: str
    detail: str = ""
    launch: LaunchId | None = None


class Marked(Event, frozen=True, kw_only=True, tag=True):
    """The user's own word on a commit."""

    sha: Sha
    mark: Literal["skip", "good", "bad"]
    reason: str = ""


class Waited(Event, frozen=True, kw_only=True, tag=True):
    """The host was not fit or not there; how long and for what."""

    host: HostName
    seconds: float
    reason: str


class Noted(Event, frozen=True, kw_only=True, tag=True):
    """Something a reader should know: drift, a finding, a repair."""

    kind: Literal["drift", "finding", "repair", "warning"]
    text: str
    launch: LaunchId | None = None


class Decided(Event, frozen=True, kw_only=True, tag=True):
    """A verdict on the line in hand."""

    verdict: AnyVerdict


class Limited(Event, frozen=True, kw_only=True, tag=True):
    """What this sitting may cost; a stop for the budget's sake ends it, and so does its deadline."""

    limits: Limits


class Stopped(Event, frozen=True, kw_only=True, tag=True):
    """The driver ended without a verdict: interrupted, out of budget, needs its owner.

    `left`, `seconds` and `high_seconds` are as in `search.Stop`: who remains, and what that will cost.
    """

    why: Literal["interrupted", "budget", "needs-you", "proof"]
    reason: str
    detail: str = ""
    left: dict[Sha, float] = msgspec.field(default_factory=dict)
    seconds: float | None = None
    high_seconds: float | None = None


class Resumed(Event, frozen=True, kw_only=True, tag=True):
    """`run` went on."""

    version: str


AnyEvent = (
    Started
    | LineDrawn
    | LaunchPlanned
    | Built
    | LaunchRan
    | Snapshotted
    | Measured
    | Voided
    | FoundUntestable
    | Marked
    | Waited
    | Noted
    | Decided
    | Limited
    | Stopped
    | Resumed
)
