"""The kinds of source behind one interface: many trees in, for each what changes, or why it cannot."""

from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Protocol

from bisectperf.errors import UserError
from bisectperf.model import TreeId
from bisectperf.patches.claims import derived, whole_files
from bisectperf.patches.outcome import Problem
from bisectperf.patches.pairs import Pair, Range, read_diff, read_overlay
from bisectperf.patches.script import run_script
from bisectperf.recipe.schema import Assertion, Patch, Source
from bisectperf.repo import Edits, Entry, Store

Row = tuple[Entry | None, ...]
Outcome = tuple[Edits, str] | Problem
"""What changes (nothing, if upstream has it all) with a script's words, or why it cannot be applied."""


class Change(Protocol):
    """A source, read: `claims` is what must hold afterwards unless the recipe says it itself."""

    claims: tuple[Assertion, ...]

    def apply(self, trees: Sequence[TreeId]) -> list[Outcome]:
        """Return for each tree what this source changes in it."""
        ...


def read_source(store: Store, folder: Path, patch: Patch, source: Source, where: Range) -> Change:
    """Return the change that a source describes; raises `UserError` for one that could never be proved."""
    if source.script:
        if not patch.assertions:
            raise UserError(
                f"patch '{patch.name}' is a script without an assertion: its word alone proves nothing",
                hint="add [[patch.assert]] with what must be there afterwards",
            )
        return ScriptChange(store, patch.name, folder, source.script, patch.timeout)
    if source.overlay:
        return OverlayChange(
            store, patch.name, read_overlay(store, patch.name, source, folder / source.overlay, where)
        )
    pair = read_diff(store, patch.name, source, (folder / source.diff).read_bytes(), where)
    change = MergeChange(store, patch.name, pair)
    if not pair.certain and not change.claims and not patch.assertions:
        raise UserError(
            f"patch '{patch.name}': {source.diff} says neither what it was made on nor what it adds",
            hint="add [[patch.assert]] with a symbol, a text or a sha256 that proves that it is on",
        )
    return change


class MergeChange:
    """A diff, merged three ways. What a merge comes to is worked out once per content of the files concerned."""

    def __init__(self, store: Store, name: str, pair: Pair) -> None:
        self.store = store
        self.name = name
        self.claims = derived(store, pair.before, pair.after)
        self._base = store.commit_tree(pair.before)
        self._theirs = store.commit_tree(pair.after, [self._base])
        store.keep(f"patch/{self._theirs}", self._theirs)
        self._paths = list(store.changes(pair.before, pair.after))
        (self._before,) = store.entries([pair.before], self._paths)
        new = [path for path, entry in zip(self._paths, self._before, strict=True) if entry is None]
        self._folders = sorted({str(folder) for path in new for folder in PurePosixPath(path).parents})
        self._known: dict[object, Outcome] = {}

    def apply(self, trees: Sequence[TreeId]) -> list[Outcome]:
        """Return for each tree what the merge changes, or the conflict."""
        files = self.store.entries(trees, self._paths)
        folders = self.store.entries(trees, self._folders)
        return [self._outcome(*row) for row in zip(trees, files, folders, strict=True)]

    def _outcome(self, tree: TreeId, files: Row, folders: Row) -> Outcome:
        # A file that is gone may have been renamed: only then do the other files of the tree have a say.
        if any(before and not there for before, there in zip(self._before, files, strict=True)):
            return self._merge(tree)
        # Where a new file goes, a file may stand in the place of its folder.
        key = (files, tuple(folder and folder.mode for folder in folders))
        if key not in self._known:
            self._known[key] = self._merge(tree)
        return self._known[key]

    def _merge(self, tree: TreeId) -> Outcome:
        merged, conflicts = self.store.merge(self.store.commit_tree(tree, [self._base]), self._theirs)
        if conflicts:
            return Problem(kind="conflict", patch=self.name, where=", ".join(conflicts[:3]))
        return self.store.changes(tree, merged), ""


class OverlayChange:
    """Whole files, laid only over the very files that they were made from."""

    def __init__(self, store: Store, name: str, pair: Pair) -> None:
        self.store = store
        self.name = name
        self._after = store.changes(pair.before, pair.after)
        (self._before,) = store.entries([pair.before], list(self._after))
        self.claims = whole_files(store, self._after)

    def apply(self, trees: Sequence[TreeId]) -> list[Outcome]:
        """Return the files for each tree in which their places are as they were."""
        return [self._outcome(row) for row in self.store.entries(trees, list(self._after))]

    def _outcome(self, row: Row) -> Outcome:
        if row == tuple(self._after.values()):
            return {}, ""
        for path, there, before in zip(self._after, row, self._before, strict=True):
            if there != before:
                return Problem(kind="overlaid", patch=self.name, where=path)
        return self._after, ""


class ScriptChange:
    """A script, run once for each tree."""

    claims: tuple[Assertion, ...] = ()

    def __init__(self, store: Store, name: str, folder: Path, script: Sequence[str], timeout: float) -> None:
        self.store = store
        self.name = name
        self.folder = folder
        self.script = script
        self.timeout = timeout
        self._known: dict[TreeId, Outcome] = {}

    def apply(self, trees: Sequence[TreeId]) -> list[Outcome]:
        """Return for each tree what the script left changed."""
        return [self._outcome(tree) for tree in trees]

    def _outcome(self, tree: TreeId) -> Outcome:
        if tree not in self._known:
            made = run_script(
                self.store, tree, name=self.name, folder=self.folder, script=self.script, timeout=self.timeout
            )
            self._known[tree] = made if isinstance(made, Problem) else (self.store.changes(tree, made[0]), made[1])
        return self._known[tree]
