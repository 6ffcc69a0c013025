"""The proof bundle: which code each side of the answer ran, how that is known, and how anyone measures it again."""

import msgspec

from bisectperf.model import AnyVerdict, Compared, Effect, FirstBad, FirstBadAmong, SeveralChanges, Sha, TreeId
from bisectperf.report.view import level, spread, suspects
from bisectperf.report.words import short
from bisectperf.state import Launch, State


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """One side of the answer: its commit, the tree that was proved, its launches that count."""

    role: str
    sha: Sha
    tree: TreeId
    launches: tuple[Launch, ...]
    level: Effect | None

    @property
    def builds(self) -> tuple[str, ...]:
        """Return the keys of the builds that were launched."""
        return tuple(dict.fromkeys(x.build.key for x in self.launches if x.build is not None))


class Bundle(msgspec.Struct, frozen=True, kw_only=True):
    """What stands behind a report's numbers.

    `whole` launches had their tree proved both before and after the run, `traced` reported where they imported from;
    `origins` maps each watched package to the places it came from, relative to the proved tree where it lies inside.
    """

    counted: int
    whole: int
    traced: int
    files: tuple[int, ...]
    origins: dict[str, tuple[str, ...]]
    problems: tuple[str, ...]
    sides: tuple[Side, ...]
    confirmations: tuple[Launch, ...]
    reverted: Effect | None
    same_tree: bool


def bundle(state: State) -> Bundle:
    """Return the proof of what was measured, for the verdict in hand or without one."""
    counted = state.measured()
    sides = _sides(state)
    return Bundle(
        counted=len(counted),
        whole=sum(_whole(x) for x in counted),
        traced=sum(x.origin is not None and bool(x.origin.origins) for x in counted),
        files=tuple(sorted({proof.files for x in counted for proof in x.proofs})),
        origins=_origins(counted),
        problems=tuple(dict.fromkeys(text for x in counted for text in _problems(x))),
        sides=sides,
        confirmations=tuple(x for x in counted if x.why == "confirm"),
        reverted=_mean(state, [x for x in counted if x.why == "revert"]),
        same_tree=len(sides) == 2 and sides[0].tree == sides[1].tree,
    )


def _whole(launch: Launch) -> bool:
    """Return whether the launch's own tree was found on the host before and after it."""
    good = {p.when for p in launch.proofs if p.found == p.expected == launch.tree and not p.problems}
    return good == {"before", "after"}


def _problems(launch: Launch) -> list[str]:
    found = [text for proof in launch.proofs for text in proof.problems]
    return found + (list(launch.origin.problems) if launch.origin is not None else [])


def _origins(launches: list[Launch]) -> dict[str, tuple[str, ...]]:
    seen: dict[str, dict[str, None]] = {}
    for launch in launches:
        if launch.origin is None:
            continue
        root = launch.origin.root.rstrip("/") + "/"
        for packages in launch.origin.origins.values():
            for package, origin in packages.items():
                inside = origin.removeprefix(root)
                seen.setdefault(package, {})[f"<tree>/{inside}" if inside != origin else origin] = None
    return {package: tuple(places) for package, places in sorted(seen.items())}


def _mean(state: State, launches: list[Launch]) -> Effect | None:
    sd, freedom = spread(state)
    return level([x.value for x in launches if x.value is not None], sd, freedom)


def _sides(state: State) -> tuple[Side, ...]:
    """Return parent and culprit (or A and B), where the verdict names them and they were measured."""
    pairs: tuple[tuple[str, Sha], ...]
    match state.decided:
        case FirstBad(sha=sha, parent=parent):
            pairs = (("parent", parent), ("culprit", sha))
        case FirstBadAmong(commits=commits):
            pairs = (("last of the set", commits[-1]),)
        case Compared(a=a, b=b):
            pairs = (("A", a), ("B", b))
        case SeveralChanges(steps=steps):
            pairs = tuple(("culprit", sha) for step in steps for sha in suspects(step)[-1:])
        case _:
            pairs = ()
    found = (_side(state, role, sha) for role, sha in pairs)
    return tuple(side for side in found if side is not None)


def _side(state: State, role: str, sha: Sha) -> Side | None:
    for line in reversed(state.lines):
        for position in line.positions:
            if sha in position.commits and position.tree is not None:
                launches = [x for x in state.measured() if x.tree == position.tree]
                return Side(
                    role=role, sha=sha, tree=position.tree, launches=tuple(launches), level=_mean(state, launches)
                )
    return None


# -- again ----------------------------------------------------------------------------------------------------


def again(state: State) -> list[tuple[str, str]]:
    """Return at most three commands with what each does, for someone who has the recipe and the repository."""
    plan = state.asked
    ends = f"{short(plan.good)} {short(plan.bad)}"
    recipe = f"--recipe {plan.recipe}"
    if plan.mode == "compare":
        return [
            (f"bisectperf compare {ends} {recipe}", "measures both again, interleaved"),
            (f"bisectperf compare {short(plan.good)} {short(plan.good)} {recipe}", "measures the noise alone"),
        ]
    return [
        (f"bisectperf doctor {ends} {recipe}", "checks host, recipe and patches"),
        (f"{_one(state.decided, state)} {recipe}", "measures the two sides of the answer, interleaved"),
        (f"bisectperf start {ends} {recipe}", "repeats the whole search"),
    ]


def _one(verdict: AnyVerdict | None, state: State) -> str:
    match verdict:
        case FirstBad(sha=sha):
            return f"bisectperf reproduce {short(sha)}"
        case FirstBadAmong(commits=commits):
            return f"bisectperf compare {short(commits[0])}^ {short(commits[-1])}"
        case SeveralChanges(steps=(first, *_)):
            return f"bisectperf reproduce {short(suspects(first)[0])}"
        case _:
            return f"bisectperf compare {short(state.asked.good)} {short(state.asked.bad)}"
