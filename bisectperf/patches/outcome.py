"""What came of composing a commit with its patches."""

from typing import Literal

import msgspec

from bisectperf.model import Sha, TreeId

Kind = Literal["merge", "revert", "conflict", "overlaid", "script", "unchanged", "assertion"]

_TEXT: dict[Kind, str] = {
    "merge": "merging it conflicts in {where}",
    "revert": "reverting it conflicts in {where}",
    "conflict": "patch '{patch}' conflicts in {where}",
    "overlaid": "patch '{patch}' overlays {where}, which is not the file that the overlay was made on",
    "script": "the script of patch '{patch}' {where}",
    "unchanged": "patch '{patch}' changes nothing: {where}",
    "assertion": "assertion failed: with patch '{patch}', {where}",
}


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """Why a commit cannot be measured: which patch, what kind, where (a file, an assertion), what a script said."""

    kind: Kind
    where: str
    patch: str = ""
    said: str = ""

    @property
    def sentence(self) -> str:
        """Return all of it in one sentence."""
        quoted = f"; it said: {self.said!r}" if self.said else ""
        return _TEXT[self.kind].format(patch=self.patch, where=self.where) + quoted


class Composed(msgspec.Struct, frozen=True, kw_only=True):
    """A commit with its patches: the `tree`, or None where something `failed`.

    `applied` tells for each patch that went well how it did: "applied", "variant N", "upstream", "not in range".
    """

    commit: Sha
    tree: TreeId | None
    applied: tuple[tuple[str, str], ...] = ()
    failed: Problem | None = None

    @property
    def problem(self) -> str:
        """Return why there is no tree, in one sentence; empty when there is one."""
        return self.failed.sentence if self.failed else ""

    @property
    def claimed(self) -> str:
        """Return the words of the script that failed."""
        return self.failed.said if self.failed else ""
