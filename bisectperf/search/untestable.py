"""When a commit has failed often enough to be called untestable."""

from bisectperf.model import Sha, TreeId
from bisectperf.state import State

LIMIT = 3
SAME_LIMIT = 2
"""Failures in a row with the very same words: a coin does not repeat itself like that."""


def untestable_now(state: State) -> list[tuple[TreeId, Sha, str]]:
    """Return (tree, commit, reason) for each tree whose launches failed too often without one that counted.

    Only failures of the launch itself and of its guards count; a lost host, a busy GPU or a failed proof never do.
    """
    found = []
    counted = {x.tree for x in state.measured()}
    for position in state.line.positions:
        tree = position.tree
        if tree is None or tree in state.untestable:
            continue
        runs = [x for x in state.launches.values() if x.tree == tree and x.planned >= state.attended]
        failed = [x for x in runs if x.void_kind in ("flaky", "guard")]
        if tree in counted or not failed:
            continue
        same = len({x.void for x in failed}) == 1
        if len(failed) >= (SAME_LIMIT if same else LIMIT):
            found.append((tree, position.sha, f"{len(failed)} launches failed, the last one so: {failed[-1].void}"))
    return found
