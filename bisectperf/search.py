"""next_step(State, now) -> Step: the one question that the driver asks."""

import itertools
import math
from collections.abc import Sequence

import msgspec
import numpy as np
from scipy import special, stats

from bisectperf.events import Why
from bisectperf.model import (
    AnyVerdict,
    Compared,
    Effect,
    Faster,
    FirstBad,
    FirstBadAmong,
    HostName,
    Inconclusive,
    LaunchId,
    NotReproduced,
    Position,
    Sha,
    TreeId,
)
from bisectperf.state import Launch, State

VOID_LIMIT = 3


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


def untestable_now(state: State) -> list[tuple[TreeId, Sha, str]]:
    """Return trees whose launches failed too often in a row: (tree, commit, reason)."""
    found = []
    for position in state.line.positions:
        tree = position.tree
        if tree is None or tree in state.untestable:
            continue
        runs = [x for x in state.launches.values() if x.tree == tree and x.void_kind in ("flaky", "guard")]
        if len(runs) >= VOID_LIMIT and not any(x.tree == tree for x in state.measured()):
            found.append((tree, position.sha, f"{len(runs)} launches failed: {runs[-1].void}"))
    return found


def next_step(state: State, now: float) -> Step:  # noqa: ARG001 -- time enters with the drift model
    """Return what to do next: one launch per free host, a wait, or a verdict. Pure: same state, same answer."""
    flying = state.in_flight()
    if flying:
        x = flying[0]
        step = Measure(launch=x.id, sha=x.sha, tree=x.tree, host=x.host, why=x.why, reason=x.reason, fresh=x.fresh)
        return (step,)
    return _compare(state) if state.asked.mode == "compare" else _bisect(state)


def _measure(state: State, position: Position, why: Why, reason: str) -> tuple[Measure]:
    tree = position.tree
    if tree is None:
        raise ValueError("an untestable position cannot be launched")
    number = len(state.launches) + 1
    return (
        Measure(
            launch=LaunchId(f"L{number:04d}-{tree[:8]}"),
            sha=position.sha,
            tree=tree,
            host=state.asked.hosts[0],
            why=why,
            reason=reason,
        ),
    )


def interval(a: Sequence[float], b: Sequence[float]) -> Effect:
    """Return the log ratio of two groups of launches with its 95 % interval (Welch)."""
    difference = float(np.mean(b) - np.mean(a))
    va, vb = np.var(a, ddof=1) / len(a), np.var(b, ddof=1) / len(b)
    error = math.sqrt(va + vb) or 1e-9
    freedom = (va + vb) ** 2 / (va**2 / (len(a) - 1) + vb**2 / (len(b) - 1)) if va + vb else 2.0
    half = float(stats.t.ppf(0.975, freedom)) * error
    return Effect(value=difference, low=difference - half, high=difference + half)


def _values(state: State, tree: TreeId | None) -> list[float]:
    return [x.value for x in state.measured() if x.tree == tree and x.value is not None]


def _compare(state: State) -> Step:
    ends = state.line.positions
    for end in (ends[0], ends[-1]):
        if end.tree is None or end.tree in state.untestable:
            return Done(verdict=_cannot(state, end))
    runs = state.measured()
    same = ends[0].tree == ends[-1].tree
    sides: list[list[Launch]] = [[], []]
    for number, launch in enumerate(runs):
        sides[_abba(number) if same else int(launch.tree == ends[-1].tree)].append(launch)
    a, b = ([x.value for x in side if x.value is not None] for side in sides)
    if min(len(a), len(b)) >= 3:
        effect = interval(a, b)
        small = math.log1p(state.asked.metric.smallest_effect)
        answer = "yes" if effect.low > 0 else "faster" if effect.high < 0 else "undecided"
        inside = -small < effect.low and effect.high < small
        answer = "no" if inside and (answer == "undecided" or abs(effect.value) < small) else answer
        if answer != "undecided" or len(runs) >= min(state.asked.max_launches, 40):
            within = [math.log(r) for x in runs if x.samples for r in x.samples.repetitions]
            return Done(
                verdict=Compared(
                    launches=len(runs),
                    a=ends[0].sha,
                    b=ends[-1].sha,
                    answer=answer,  # type: ignore[arg-type]
                    effect=effect,
                    between_sd=float(np.sqrt((np.var(a, ddof=1) + np.var(b, ddof=1)) / 2)),
                    within_sd=float(np.std(within)) if len(within) > 1 else 0.0,
                )
            )
    turn = ends[-1] if _abba(len(state.launches)) else ends[0]
    if not same and abs(len(a) - len(b)) > 1:
        turn = ends[0] if len(a) < len(b) else ends[-1]
    return _measure(state, turn, "compare", "interleaved comparison")


def _abba(number: int) -> int:
    return (0, 1, 1, 0)[number % 4]


def _cannot(state: State, position: Position) -> Inconclusive:
    reason = position.untestable or state.untestable.get(position.tree or TreeId(""), "")
    return Inconclusive(
        launches=len(state.measured()), why=f"the end {position.sha[:12]} cannot be measured: {reason}"
    )


def _bisect(state: State) -> Step:
    line = state.line.positions
    testable = [
        p.tree is not None and p.tree not in state.untestable and state.marks.get(p.sha) != "skip" for p in line
    ]
    for end in (0, len(line) - 1):
        if not testable[end]:
            return Done(verdict=_cannot(state, line[end]))
    good, bad = _values(state, line[0].tree), _values(state, line[-1].tree)
    turn = len(good) + len(bad)
    if len(good) < 2 or len(bad) < 2:
        end = line[0] if len(bad) >= 2 or (len(good) < 2 and _abba(turn) == 0) else line[-1]
        return _measure(state, end, "endpoint", "both ends first, interleaved")
    effect = interval(good, bad)
    if effect.high < 0 and len(good) + len(bad) >= 6:
        return Done(verdict=Faster(launches=len(state.measured()), effect=effect))
    weights, none = posterior(state)
    launches = len(state.measured())
    if none >= state.asked.confidence:
        return Done(
            verdict=NotReproduced(
                launches=launches, posterior=none, largest=max(math.expm1(effect.high), 0.0), effect=effect
            )
        )
    if launches >= state.asked.max_launches:
        left = {line[k].sha: float(w) for k, w in enumerate(weights) if w > 0.01}
        return Done(verdict=Inconclusive(launches=launches, why="the launches are used up", left=left, none=none))
    if none > 0.05:
        end = line[0] if len(good) <= len(bad) else line[-1]
        return _measure(state, end, "endpoint", f"the ends do not differ clearly yet (P(none) {none:.2f})")
    return _search(state, testable, weights)


def _search(state: State, testable: list[bool], weights: np.ndarray) -> Step:
    line = state.line.positions
    places = [k for k, ok in enumerate(testable) if ok]
    blocks = [(a, b, float(weights[a + 1 : b + 1].sum())) for a, b in itertools.pairwise(places)]
    before, after, mass = max(blocks, key=lambda block: block[2])
    if mass < state.asked.confidence:
        return _most_telling(state, places, weights)
    for side in (before, after):
        if len(_values(state, line[side].tree)) < 2:
            return _measure(state, line[side], "search", "both sides of the step at least twice")
    confirm = [x for x in state.measured() if x.why == "confirm" and x.tree in (line[before].tree, line[after].tree)]
    if len(confirm) < 4:
        side = (before, after)[_abba(len(confirm))]
        return _measure(state, line[side], "confirm", "parent and culprit, interleaved")
    effect = interval(_values(state, line[before].tree), _values(state, line[after].tree))
    if effect.low <= 0 and len(confirm) < 12:
        side = (before, after)[_abba(len(confirm))]
        return _measure(state, line[side], "confirm", "the interval still holds zero")
    launches = len(state.measured())
    if after == before + 1:
        found: AnyVerdict = FirstBad(
            launches=launches, sha=line[after].sha, parent=line[before].commits[-1], posterior=mass, effect=effect
        )
    else:
        among = line[before + 1 : after + 1]
        why = {p.sha: p.untestable or state.untestable.get(p.tree or TreeId(""), "skipped") for p in among[:-1]}
        commits = tuple(p.sha for p in among)
        found = FirstBadAmong(
            launches=launches, commits=commits, posterior=mass, effect=effect, why="untestable", untestable=why
        )
    return Done(verdict=found)


def _most_telling(state: State, places: list[int], weights: np.ndarray) -> Step:
    """Return the launch with most information about the first bad commit per second."""
    line = state.line.positions
    below = np.cumsum(weights)
    costs = state.costs()
    known = {x.tree for x in state.launches.values() if x.build is not None}
    last = state.last_tree(state.asked.hosts[0])
    best, most = places[0], -1.0
    for k in places:
        p = min(max(float(below[k]), 1e-9), 1 - 1e-9)
        bits = -(p * math.log2(p) + (1 - p) * math.log2(1 - p))
        tree = line[k].tree
        cost = costs.launch + (0.0 if tree == last else costs.switch if tree in known else costs.switch + costs.build)
        if bits / cost > most:
            best, most = k, bits / cost
    return _measure(state, line[best], "search", "most information per second")


def posterior(state: State) -> tuple[np.ndarray, float]:
    """Return P(first bad = k) per position (0 for the good end) and P(none), levels and spread integrated out."""
    line = state.line.positions
    where = {p.tree: k for k, p in enumerate(line) if p.tree is not None}
    runs = [(where[x.tree], x.value) for x in state.measured() if x.tree in where and x.value is not None]
    at = np.array([k for k, _ in runs])
    y = np.array([v for _, v in runs])
    small = math.log1p(state.asked.metric.smallest_effect)
    low = y[at == 0].mean()
    gap = max(y[at == len(line) - 1].mean() - low, small)
    spread = np.geomspace(0.002, 0.08, 13)
    g = (low + np.linspace(-3, 3, 13)[None, :] * np.minimum(spread, 0.05)[:, None])[:, :, None]
    d = np.unique(np.concatenate([np.geomspace(small, 4.0, 20), gap * np.linspace(0.7, 1.3, 13)]))[None, None, :]
    d = d[d >= small].reshape(1, 1, -1)
    s = spread[:, None, None]
    prior = stats.norm.logpdf(np.log(s), math.log(0.01), 1.0) - np.log(d)
    as_good = [_loglik(v - g, s) + 0 * d for v in y]
    as_bad = [_loglik(v - g - d, s) for v in y]
    n = len(line)
    logs = np.empty(n)
    total = prior + sum(as_good)
    logs[0] = special.logsumexp((total + 0 * d).ravel())
    for k in range(1, n):
        inside = prior.copy() + 0 * g
        for place, good, bad in zip(at, as_good, as_bad, strict=True):
            inside = inside + (bad if place >= k else good)
        logs[k] = special.logsumexp(inside.ravel())
    weights = np.full(n, math.log(0.9 / (n - 1)))
    weights[0] = math.log(0.1)
    logs += weights
    p = np.exp(logs - special.logsumexp(logs))
    none, p[0] = float(p[0]), 0.0
    for k, position in enumerate(line):
        mark = state.marks.get(position.sha)
        if mark == "good":
            p[: k + 1] = 0
        elif mark == "bad":
            p[k + 1 :] = 0
    total_p = p.sum() + none
    return p / total_p, none / total_p


def _loglik(residual: np.ndarray, s: np.ndarray) -> np.ndarray:
    main = stats.norm.logpdf(residual, 0, s) + math.log(0.97)
    tail = stats.norm.logpdf(residual, 0, 5 * s) + math.log(0.03)
    return np.logaddexp(main, tail)
