"""The line that is searched: commits whose patched code is the same become one position."""

from collections.abc import Sequence

from msgspec.structs import replace

from bisectperf.model import Line, Position, Sha, TreeId
from bisectperf.patches.outcome import Composed
from bisectperf.patches.stack import Stack
from bisectperf.repo import Commit, Store


def draw_line(
    store: Store, stack: Stack, commits: Sequence[Commit], *, code: Sequence[str] = (), pins: Sequence[str] = ()
) -> Line:
    """Return the line over `commits` (good end first), each composed with the stack.

    Neighbours are one position when everything at the `code` and `pins` paths of their patched trees is identical
    (with no code paths: when the whole trees are), or when neither can be measured, for the same reason and with
    the same code.
    """
    composed = stack.compose_many([commit.sha for commit in commits])
    keys = _keys(store, commits, composed, [*code, *pins] if code else [])
    positions: list[Position] = []
    last: object = None
    for commit, made, key in zip(commits, composed, keys, strict=True):
        if positions and key == last:
            positions[-1] = _joined(positions[-1], commit.sha)
        else:
            positions.append(_position(commit, made))
        last = key
    return Line(positions=tuple(positions))


def inner_line(store: Store, stack: Stack, outer: Line, merge: Sha, *, code: Sequence[str] = ()) -> Line | None:
    """Return the line inside `merge`: each commit that it brought, merged into the side that was there before.

    Its ends are the positions of the outer line, so that their launches count here too. None: there is nothing to
    part.
    """
    at = next(i for i, position in enumerate(outer.positions) if position.sha == merge)
    before, after = outer.positions[at - 1], outer.positions[at]
    onto, brought = _sides(store, before, after)
    composed = stack.compose_many([commit.sha for commit in brought], onto)
    inside = [_position(commit, made, onto) for commit, made in zip(brought, composed, strict=True)]
    keys = code_keys(store, [before.tree, *(made.tree for made in composed), after.tree], code)
    positions, last = [before], keys[0]
    for position, key in zip(inside, keys[1:-1], strict=True):
        if key is not None and key == last:
            positions[-1] = _joined(positions[-1], position.sha)
        else:
            positions.append(position)
        last = key
    if last is not None and last == keys[-1] and len(positions) > 1:
        # Its tree is the merge's in all that counts: launches of the merge are launches of this commit.
        positions[-1] = replace(positions[-1], tree=after.tree)
    else:
        # The merge itself differs from the sum of what it brought: it is the last suspect.
        positions.append(after)
    return Line(positions=tuple(positions), inside=merge) if positions[1:] != [after] else None


def code_keys(store: Store, trees: Sequence[TreeId | None], paths: Sequence[str]) -> list[object]:
    """Return for each tree what must be equal for the code to be the same; None where there is no tree."""
    if not paths:
        return list(trees)
    known = [tree for tree in trees if tree is not None]
    found = iter(store.entries(known, paths))
    return [None if tree is None else next(found) for tree in trees]


def _keys(
    store: Store, commits: Sequence[Commit], composed: Sequence[Composed], paths: Sequence[str]
) -> list[object]:
    """Return what is equal for commits that are one position; the unpatched code where there is no patched tree."""
    trees = [made.tree or commit.tree for commit, made in zip(commits, composed, strict=True)]
    keys = code_keys(store, trees, paths)
    return [(key, made.problem) for key, made in zip(keys, composed, strict=True)]


def _sides(store: Store, before: Position, after: Position) -> tuple[Sha, list[Commit]]:
    """Return the commit that a merge was made onto, and what it brought there, oldest first (two parents only).

    Inside another merge (`after.onto`), what was there before is that merge's own base with the first parent.
    """
    first = next((p for p in after.parents if p in before.commits), after.parents[0])
    others = [p for p in after.parents if p != first]
    if len(others) != 1:
        return first, []
    there = [f"^{sha}" for sha in (first, after.onto) if sha]
    brought = store.commits("--first-parent", "--reverse", *others, *there)
    if after.onto is None:
        return first, brought
    tree, conflicts = store.merge(after.onto, first)
    if conflicts:
        return first, []
    base = store.commit_tree(tree, [after.onto, first])
    store.keep(f"base/{base}", base)
    return base, brought


def _position(commit: Commit, made: Composed, onto: Sha | None = None) -> Position:
    return Position(
        commits=(commit.sha,),
        tree=made.tree,
        subject=commit.subject[:200],
        onto=onto,
        parents=commit.parents,
        untestable=made.problem,
    )


def _joined(position: Position, sha: Sha) -> Position:
    return replace(position, commits=(*position.commits, sha))
