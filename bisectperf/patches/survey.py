"""Where in a range each patch applies: one status a commit, collapsed to stretches."""

from collections.abc import Sequence
from itertools import groupby

import msgspec

from bisectperf.model import Sha
from bisectperf.patches.outcome import Composed
from bisectperf.patches.stack import Stack
from bisectperf.recipe.schema import Patch
from bisectperf.repo import Commit


class Stretch(msgspec.Struct, frozen=True, kw_only=True):
    """Neighbouring commits with the same `status`, first and last included."""

    status: str
    first: Sha
    last: Sha
    commits: int
    testable: bool


class PatchMap(msgspec.Struct, frozen=True, kw_only=True):
    """The stretches of one patch over a range, from its good end to its bad end."""

    patch: str
    stretches: tuple[Stretch, ...]


def range_map(stack: Stack, commits: Sequence[Commit]) -> list[PatchMap]:
    """Return for each patch of the stack where in `commits` it applies, and how, or why not."""
    composed = stack.compose_many([commit.sha for commit in commits])
    return [PatchMap(patch=patch.name, stretches=_stretches(patch, composed)) for patch in stack.patches]


def _stretches(patch: Patch, composed: Sequence[Composed]) -> tuple[Stretch, ...]:
    found = []
    for (status, testable), group in groupby(composed, key=lambda made: _status(patch, made)):
        members = list(group)
        found.append(
            Stretch(
                status=status,
                first=members[0].commit,
                last=members[-1].commit,
                commits=len(members),
                testable=testable,
            )
        )
    return tuple(found)


def _status(patch: Patch, made: Composed) -> tuple[str, bool]:
    """Return what `patch` came to on one commit, in the words of the table, and whether that can be measured."""
    how = dict(made.applied).get(patch.name)
    if how is not None:
        return {"applied": "applies", "upstream": "upstream already"}.get(how, how), True
    failed = made.failed
    if failed is None or failed.patch != patch.name:
        return "not tried: the commit is untestable before it", False
    words = {
        "conflict": f"conflict in {failed.where}",
        "overlaid": f"upstream changed {failed.where}",
        "script": f"script {failed.where}",
        "unchanged": f"changes nothing: {failed.where}",
        "assertion": f"assertion failed: {failed.where}",
    }
    return words[failed.kind] + (f"; it said: {failed.said!r}" if failed.said else ""), False
