"""The stack: commit -> the tree that is measured, or why there is none."""

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from bisectperf.errors import CommitUntestable, UserError
from bisectperf.model import Sha, TreeId
from bisectperf.patches.claims import derived, describe, failure
from bisectperf.patches.sources import Pair, pair_of, run_script
from bisectperf.recipe.schema import Assertion, Patch, Source
from bisectperf.repo import Store

How = Literal["applied", "variant", "upstream", "not in range"]


class Composed(msgspec.Struct, frozen=True, kw_only=True):
    """A commit with its patches: `tree`, or None with `problem` (one clause), and what a script claimed."""

    tree: TreeId | None
    applied: tuple[tuple[str, str], ...] = ()
    problem: str = ""
    claimed: str = ""


class _Problem(Exception):
    def __init__(self, text: str, claimed: str = "") -> None:
        super().__init__(text)
        self.claimed = claimed


class Stack:
    """Ordered patches over one range. `reached(revision, sha)` answers ancestry; None: not in the repository."""

    def __init__(
        self,
        store: Store,
        folder: Path,
        patches: Sequence[Patch],
        *,
        good: Sha,
        line: Sequence[Sha],
        reached: Callable[[str, Sha], bool | None],
    ) -> None:
        self.store = store
        self.folder = folder
        self.patches = tuple(patches)
        self.good = good
        self.line = line
        self.reached = reached
        self._pairs: dict[tuple[str, int], Pair] = {}
        self._derived: dict[str, tuple[Assertion, ...]] = {}
        self._made: dict[tuple[str, str], tuple[TreeId, str]] = {}

    @property
    def digest(self) -> str:
        """Return the digest of the stack's description."""
        return hashlib.sha256(msgspec.json.encode(self.patches, order="sorted")).hexdigest()

    def compose(self, sha: Sha, onto: Sha | None = None) -> Composed:
        """Return `sha` (merged into `onto`, where given) with every patch that belongs there."""
        applied: list[tuple[str, str]] = []
        try:
            tree = self._bare(sha, onto)
            for patch in self.patches:
                tree, how = self._one(patch, sha, tree)
                applied.append((patch.name, how))
        except _Problem as problem:
            return Composed(tree=None, applied=tuple(applied), problem=str(problem), claimed=problem.claimed)
        return Composed(tree=tree, applied=tuple(applied))

    def _bare(self, sha: Sha, onto: Sha | None) -> TreeId:
        """Return the tree before any patch."""
        if onto is None:
            return TreeId(self.store.line("rev-parse", f"{sha}^{{tree}}"))
        tree, conflicts = self.store.merge(onto, sha)
        if conflicts:
            raise _Problem(f"merging it into {onto[:12]} conflicts in {', '.join(conflicts[:3])}")
        return tree

    def commit_of(self, tree: TreeId) -> Sha:
        """Return the commit that carries `tree`, kept from pruning; always the same one."""
        commit = self.store.commit_tree(tree)
        self.store.keep(f"tree/{tree}", commit)
        return commit

    def assertions(self, patch: Patch) -> tuple[Assertion, ...]:
        """Return what must hold once `patch` is on: its own assertions, else those derived from what it adds."""
        if patch.assertions:
            return patch.assertions
        if patch.name not in self._derived:
            found: list[Assertion] = []
            for number, source in enumerate(patch.variants or (patch,)):
                if not source.script:
                    pair = self._pair(patch, number, source)
                    found += derived(self.store, pair.before_tree, pair.after_tree)
            if not found:
                raise UserError(
                    f"patch '{patch.name}' has no assertion, and none can be derived from it",
                    hint="add [[patch.assert]] with a symbol, a text or a sha256 that proves that it is on",
                )
            self._derived[patch.name] = tuple(dict.fromkeys(found))
        return self._derived[patch.name]

    # -- one patch ---------------------------------------------------------------------------------------------

    def _one(self, patch: Patch, sha: Sha, tree: TreeId) -> tuple[TreeId, How]:
        """Return the tree with `patch` on it and how it got there; raises `_Problem`."""
        if patch.upstream_since and self._at(patch, patch.upstream_since, sha):
            self._hold(patch, tree, "upstream should have it")
            return tree, "upstream"
        if not self._in_range(patch, patch, sha):
            return tree, "not in range"
        numbered = [(n, s) for n, s in enumerate(patch.variants or (patch,)) if self._in_range(patch, s, sha)]
        if not numbered:
            raise _Problem(f"patch '{patch.name}' has no variant for this commit")
        first = _Problem("")
        for number, source in numbered:
            try:
                made, said = self._apply(patch, number, source, tree)
            except _Problem as problem:
                first = first if str(first) else problem
                continue
            if made == tree:
                return self._nothing_changed(patch, tree, said)
            self._hold(patch, made, f"'{patch.name}' merged cleanly, but", said)
            return made, "variant" if number else "applied"
        raise first

    def _nothing_changed(self, patch: Patch, tree: TreeId, said: str) -> tuple[TreeId, How]:
        broken = self._broken(patch, tree)
        if not broken and patch.may_be_upstream:
            return tree, "upstream"
        why = broken or "its assertions hold already, but the recipe does not say `may_be_upstream`"
        quoted = f"; it said: {said!r}" if said else ""
        raise _Problem(f"patch '{patch.name}' changes nothing here: {why}{quoted}", said)

    def _hold(self, patch: Patch, tree: TreeId, context: str, said: str = "") -> None:
        broken = self._broken(patch, tree)
        if broken:
            quoted = f"; it said: {said!r}" if said else ""
            raise _Problem(f"assertion failed: {context} {broken}{quoted}", said)

    def _broken(self, patch: Patch, tree: TreeId) -> str:
        for claim in self.assertions(patch):
            said = failure(self.store, tree, claim)
            if said:
                return f"{said} (asserted: {describe(claim)})"
        return ""

    def _apply(self, patch: Patch, number: int, source: Source, tree: TreeId) -> tuple[TreeId, str]:
        key = (f"{patch.name}/{number}", str(tree))
        if key not in self._made:
            self._made[key] = self._make(patch, number, source, tree)
        return self._made[key]

    def _make(self, patch: Patch, number: int, source: Source, tree: TreeId) -> tuple[TreeId, str]:
        if source.script:
            if not patch.assertions:
                raise UserError(
                    f"patch '{patch.name}' is a script without an assertion: its word alone proves nothing",
                    hint="add [[patch.assert]] with what must be there afterwards",
                )
            try:
                return run_script(self.store, self.folder, source, patch, tree)
            except CommitUntestable as error:
                raise _Problem(f"{error.message}: {error.detail!r}", error.detail) from None
        pair = self._pair(patch, number, source)
        if pair.overlaid:
            self._unchanged(patch, pair, tree)
        ours = self.store.commit_tree(tree, [pair.before])
        made, conflicts = self.store.merge(ours, pair.after)
        if conflicts:
            raise _Problem(f"patch '{patch.name}' conflicts in {', '.join(conflicts[:3])}")
        return made, ""

    def _unchanged(self, patch: Patch, pair: Pair, tree: TreeId) -> None:
        before, now = self.store.entries([pair.before_tree, tree], pair.overlaid)
        for path, old, new in zip(pair.overlaid, before, now, strict=True):
            if old != new:
                raise _Problem(f"patch '{patch.name}' overlays {path}, which upstream changed here")

    def _pair(self, patch: Patch, number: int, source: Source) -> Pair:
        key = (patch.name, number)
        if key not in self._pairs:
            self._pairs[key] = pair_of(self.store, self.folder, source, patch, good=self.good, line=self.line)
        return self._pairs[key]

    # -- ranges ------------------------------------------------------------------------------------------------

    def _in_range(self, patch: Patch, source: Source, sha: Sha) -> bool:
        if source.since and not self._at(patch, source.since, sha):
            return False
        return not (source.until and self._at(patch, source.until, sha))

    def _at(self, patch: Patch, revision: str, sha: Sha) -> bool:
        answer = self.reached(revision, sha)
        if answer is None:
            raise UserError(
                f"patch '{patch.name}' names the commit {revision}, which this repository does not have",
                hint="fetch it, or correct since, until or upstream_since",
            )
        return answer
