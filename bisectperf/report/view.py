"""What every report shows, taken from the state once: levels per commit, probabilities, anchors, stretches.

Nothing here is formatted; all levels are launch numbers (signed natural logs, larger is slower).
"""

import math
from collections.abc import Sequence
from typing import Literal

import msgspec
import numpy as np
from msgspec.structs import replace
from scipy import stats

from bisectperf.model import (
    AnyVerdict,
    Compared,
    Effect,
    EnvironmentChanged,
    Faster,
    FirstBad,
    FirstBadAmong,
    NotReproduced,
    Position,
    SeveralChanges,
    Sha,
    TreeId,
)
from bisectperf.search import View
from bisectperf.state import Launch, State

Known = Literal["measured", "untested", "untestable"]
Phase = Literal["running", "stopped", "decided"]


class Posterior(msgspec.Struct, frozen=True):
    """P(first bad commit) per position of a line, and P(no change)."""

    of: tuple[float, ...]
    none: float


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One position of a line and what is known of it; `level` is the mean of its launches with its interval."""

    index: int
    position: Position
    known: Known
    launches: tuple[Launch, ...]
    level: Effect | None
    probability: float | None
    reason: str
    suspect: bool

    @property
    def sha(self) -> Sha:
        """Return the commit that is named."""
        return self.position.sha

    @property
    def counted(self) -> tuple[Launch, ...]:
        """Return the launches that count."""
        return tuple(x for x in self.launches if x.status == "measured")

    @property
    def void(self) -> tuple[Launch, ...]:
        """Return the launches that say nothing."""
        return tuple(x for x in self.launches if x.status == "void")


def phase(state: State) -> Phase:
    """Return whether the run goes on, was stopped, or has its verdict."""
    if state.decided is not None:
        return "decided"
    return "stopped" if state.stopped is not None else "running"


def elapsed(state: State, now: float) -> float:
    """Return the seconds from the start to now, or to the last fact of a run that goes on no more."""
    return max((now if phase(state) == "running" else state.last) - state.began, 0.0)


def happened(launch: Launch) -> float:
    """Return when a launch happened: the middle of its benchmark, or when it was planned if it gave nothing."""
    return launch.started or launch.planned


# -- the verdict's commits ------------------------------------------------------------------------------------


def suspects(verdict: AnyVerdict | None) -> tuple[Sha, ...]:
    """Return the commits that a verdict names; one that found nothing names none."""
    match verdict:
        case FirstBad(sha=sha):
            return (sha,)
        case FirstBadAmong(commits=commits):
            return commits
        case SeveralChanges(steps=steps):
            return tuple(sha for step in steps for sha in suspects(step))
        case _:
            return ()


def effect_of(verdict: AnyVerdict | None) -> Effect | None:
    """Return the effect that a verdict states."""
    match verdict:
        case SeveralChanges(whole=whole):
            return whole
        case FirstBad() | FirstBadAmong() | NotReproduced() | EnvironmentChanged() | Faster() | Compared():
            return verdict.effect
        case _:
            return None


# -- rows -----------------------------------------------------------------------------------------------------


def rows(state: State, line: int = -1) -> list[Row]:
    """Return what is known of each position of a line (the one in hand unless told otherwise), good end first."""
    if not state.lines:
        return []
    verdict = verdict_on(state, line)
    state = _upto(state, line)
    weights = posterior_of(state)
    groups = _groups(state)
    sd, freedom = spread(state)
    marked = suspects(verdict)
    return [
        Row(
            index=k,
            position=position,
            known=_known(state, position, groups[k]),
            launches=tuple(groups[k]),
            level=level([x.value for x in groups[k] if x.value is not None], sd, freedom),
            probability=weights.of[k] if weights is not None else None,
            reason=untestable_reason(state, position),
            suspect=position.sha in marked,
        )
        for k, position in enumerate(state.line.positions)
    ]


def _upto(state: State, line: int) -> State:
    """Return the state with `line` as the line in hand."""
    return replace(state, lines=state.lines[: line % len(state.lines) + 1])


def _known(state: State, position: Position, launches: Sequence[Launch]) -> Known:
    if untestable_reason(state, position):
        return "untestable"
    return "measured" if any(x.status == "measured" for x in launches) else "untested"


def untestable_reason(state: State, position: Position) -> str:
    """Return why a position cannot be measured, or an empty text."""
    if position.untestable or position.tree is None:
        return position.untestable or "it has no patched tree"
    if state.marks.get(position.sha) == "skip":
        return "skipped by its user"
    return state.untestable.get(position.tree, "")


def _groups(state: State) -> list[list[Launch]]:
    """Return the launches of each position of the line in hand."""
    positions = state.line.positions
    if state.asked.mode == "compare" and positions[0].tree == positions[-1].tree:
        return _sides(state)
    of: dict[TreeId | None, list[Launch]] = {}
    for launch in state.launches.values():
        of.setdefault(launch.tree, []).append(launch)
    return [of.get(position.tree, []) if position.tree else [] for position in positions]


def _sides(state: State) -> list[list[Launch]]:
    """Return the launches of one tree compared with itself, dealt A B B A as they were counted."""
    sides: list[list[Launch]] = [[], []]
    counted = 0
    for launch in state.launches.values():
        sides[(0, 1, 1, 0)[counted % 4]].append(launch)
        counted += launch.status == "measured"
    return sides


def spread(state: State) -> tuple[float, int]:
    """Return the pooled standard deviation between launches of one tree, and its degrees of freedom.

    Pooled because most commits have one or two launches: their own spread says next to nothing.
    """
    of: dict[TreeId, list[float]] = {}
    for launch in state.measured():
        if launch.value is not None:
            of.setdefault(launch.tree, []).append(launch.value)
    squares = sum(float(np.var(v)) * len(v) for v in of.values())
    freedom = sum(len(v) - 1 for v in of.values())
    return (math.sqrt(squares / freedom), freedom) if freedom else (0.0, 0)


def level(values: Sequence[float], sd: float, freedom: int) -> Effect | None:
    """Return the mean of `values` with its 95 % interval (Student's t over the pooled spread); None without any.

    Without degrees of freedom nothing is known of the spread, and the interval is infinite.
    """
    if not values:
        return None
    mean = float(np.mean(values))
    half = float(stats.t.ppf(0.975, freedom)) * sd / math.sqrt(len(values)) if freedom else math.inf
    return Effect(value=mean, low=mean - half, high=mean + half)


def posterior_of(state: State) -> Posterior | None:
    """Return the probabilities over the line in hand; None before both ends are known, and for a comparison."""
    if state.asked.mode == "compare" or len(state.lines) == 0 or len(state.line.positions) < 2:
        return None
    ends = (state.line.positions[0], state.line.positions[-1])
    testable = [not untestable_reason(state, p) for p in state.line.positions]
    trees = [x.tree for x in state.measured()]
    if any(trees.count(end.tree) < 2 for end in ends if end.tree is not None) or not (testable[0] and testable[-1]):
        return None
    found = View(state).posterior
    return Posterior(tuple(float(w) for w in found.first_bad), float(found.none))


# -- over time ----------------------------------------------------------------------------------------------


def anchors(state: State) -> tuple[list[Launch], list[Launch]]:
    """Return the counted launches of the good and of the bad end of the first line, in order of time."""
    if not state.lines:
        return [], []
    groups = _groups(_upto(state, 0))
    good, bad = (sorted((x for x in groups[k] if x.status == "measured"), key=happened) for k in (0, len(groups) - 1))
    return good, bad


def verdict_on(state: State, line: int) -> AnyVerdict | None:
    """Return the verdict that was reached on a line, by its index; None while it is being searched."""
    line %= len(state.lines)
    if line == len(state.lines) - 1:
        return state.decided
    inside = state.lines[line + 1].inside
    return next((v for v in reversed(state.verdicts) if isinstance(v, FirstBad) and v.sha == inside), None)
