"""next_step(State, now) -> Step: the one question that the driver asks."""

import msgspec

from bisectperf.events import Why
from bisectperf.model import AnyVerdict, HostName, LaunchId, Sha, TreeId
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


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """The line in hand is decided."""

    verdict: AnyVerdict


Step = tuple[Measure, ...] | Wait | Done


def next_step(state: State, now: float) -> Step:
    """Return what to do next: one launch per free host, a wait, or a verdict. Pure: same state, same answer."""
    raise NotImplementedError
