"""The line that is searched: commits whose patched code is the same become one position."""

from collections.abc import Callable, Sequence

from bisectperf.model import Line, Position, Sha, TreeId
from bisectperf.patches.stack import Composed, Stack
from bisectperf.repo import Commit, Store

Progress = Callable[[int, int], None]


def draw_line(
    store: Store,
    stack: Stack,
    commits: Sequence[Commit],
    *,
    code: Sequence[str] = (),
    pins: Sequence[str] = (),
    progress: Progress | None = None,
) -> Line:
    """Return the line over `commits` (good end first), each composed with the stack.

    Neighbours are one position when everything at the `code` and `pins` paths of their patched trees is identical
    (with no code paths: when the whole trees are).
    """
    composed = []
    for number, commit in enumerate(commits):
        composed.append(stack.compose(commit.sha))
        if progress is not None:
            progress(number + 1, len(commits))
    keys = code_keys(store, [c.tree for c in composed], [*code, *pins] if code else [])
    positions: list[Position] = []
    last: object = None
    for commit, made, key in zip(commits, composed, keys, strict=True):
        if positions and key is not None and key == last:
            positions[-1] = _joined(positions[-1], commit.sha)
            continue
        positions.append(_position(commit, made))
        last = key
    return Line(positions=tuple(positions))


def inner_line(store: Store, stack: Stack, outer: Line, merge: Sha, *, code: Sequence[str] = ()) -> Line | None:
    """Return the line inside `merge`: each commit of the merged side, merged into the merge's first parent.

    Its ends are the positions of the outer line, so that their launches count here too. None: there is nothing to
    part.
    """
    at = next(i for i, p in enumerate(outer.positions) if p.sha == merge)
    before, after = outer.positions[at - 1], outer.positions[at]
    onto, side = after.parents[0], after.parents[1]
    commits = store.commits("--first-parent", "--reverse", f"{onto}..{side}")
    composed = [stack.compose(commit.sha, onto) for commit in commits]
    keys = code_keys(store, [before.tree, *(c.tree for c in composed), after.tree], code)
    positions: list[Position] = [before]
    last = keys[0]
    for commit, made, key in zip(commits, composed, keys[1:-1], strict=True):
        if key is not None and key == last:
            positions[-1] = _joined(positions[-1], commit.sha)
        else:
            positions.append(_position(commit, made, onto))
            last = key
    if last == keys[-1] and len(positions) > 1:
        end = positions.pop()
        positions.append(
            Position(commits=end.commits, tree=after.tree, subject=end.subject, onto=onto, parents=end.parents)
        )
    else:
        # The merge itself differs from the sum of what it merged: it is the last suspect.
        positions.append(after)
    return Line(positions=tuple(positions), inside=merge) if len(positions) > 1 else None


def code_keys(store: Store, trees: Sequence[TreeId | None], paths: Sequence[str]) -> list[object]:
    """Return for each tree what must be equal for the code to be the same; None where there is no tree."""
    if not paths:
        return list(trees)
    known = [tree for tree in trees if tree is not None]
    found = iter(store.entries(known, paths))
    return [None if tree is None else next(found) for tree in trees]


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
    return Position(
        commits=(*position.commits, sha),
        tree=position.tree,
        subject=position.subject,
        onto=position.onto,
        parents=position.parents,
        untestable=position.untestable,
        weight=position.weight,
    )
