"""What the core can answer."""

from typing import Literal

import msgspec

from bisectperf.events import Why
from bisectperf.model import AnyVerdict, HostName, LaunchId, Position, Sha, TreeId
from bisectperf.state import State


class Measure(msgspec.Struct, frozen=True, kw_only=True):
    """Launch this tree once; the id follows from the state, so that a replay gives the same one."""

    launch: LaunchId
    sha: Sha
    tree: TreeId
    host: HostName
    why: Why
    reason: str
    fresh: bool = False


class Wait(msgspec.Struct, frozen=True, kw_only=True):
    """Nothing to launch before `seconds` have passed or a launch in flight has ended."""

    seconds: float
    reason: str


class Stop(msgspec.Struct, frozen=True, kw_only=True):
    """Nothing more is launched in this sitting, and there is no verdict.

    `left` are the commits that remain (commit -> probability, likeliest first), `seconds` what they will cost
    (median) and `high_seconds` with 90 % probability, where that is known; `detail` is what a log said.
    """

    why: Literal["budget", "needs-you"]
    reason: str
    detail: str = ""
    left: dict[Sha, float] = msgspec.field(default_factory=dict)
    seconds: float | None = None
    high_seconds: float | None = None


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """The line in hand is decided."""

    verdict: AnyVerdict


Step = tuple[Measure, ...] | Wait | Stop | Done


def launch_of(state: State, position: Position, why: Why, reason: str, *, fresh: bool = False) -> tuple[Measure]:
    """Return the step that launches `position` next."""
    if position.tree is None:
        raise ValueError("an untestable position cannot be launched")
    number = len(state.launches) + 1
    return (
        Measure(
            launch=LaunchId(f"L{number:04d}-{position.tree[:8]}"),
            sha=position.sha,
            tree=position.tree,
            host=state.asked.hosts[0],
            why=why,
            reason=reason,
            fresh=fresh,
        ),
    )


def again(state: State) -> tuple[Measure, ...]:
    """Return the launches in flight as the steps that planned them: a crash resumes these very ids."""
    return tuple(
        Measure(launch=x.id, sha=x.sha, tree=x.tree, host=x.host, why=x.why, reason=x.reason, fresh=x.fresh)
        for x in state.in_flight()
    )
