"""A diff or an overlay as a pair of trees: what it was made on, and that with the change.

A diff is read for what it says about its base, and applied there exactly. From then on only the two trees count:
they are merged with each commit, and no line number is ever searched for.
"""

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from bisectperf.errors import UserError
from bisectperf.model import Sha, TreeId
from bisectperf.recipe.schema import Source
from bisectperf.repo import Entry, GitError, Index, Store

_BASE_COMMIT = re.compile(rb"^base-commit: ([0-9a-f]{40,64})\s*$", re.MULTILINE)


class Pair(msgspec.Struct, frozen=True):
    """The trees before and after a change; `certain` when the diff itself, or the user, named its base."""

    before: TreeId
    after: TreeId
    certain: bool


class Range(msgspec.Struct, frozen=True):
    """Where to look for what a diff was made on: the good end first, then these commits, then all there are."""

    good: Sha
    line: tuple[Sha, ...] = ()


def read_diff(store: Store, name: str, source: Source, data: bytes, where: Range) -> Pair:
    """Return the pair of a diff (`git diff`, `format-patch` or plain); raises `UserError` when it fits nowhere."""
    named = _named_base(store, name, source)
    with Index(store, store.commit(named or where.good).tree) as index:
        told = index.made_on(data)
    trailer = _BASE_COMMIT.search(data)
    said = store.find(trailer.group(1).decode()) if trailer else None
    if not told:
        named = named or said
    before = store.commit(named).tree if named else _tree_with(store, told, said, where)
    (there,) = store.entries([before], list(told))
    same = bool(told) and _ids(there) == _ids(told.values())
    with Index(store, before) as index:
        try:
            index.apply(data, same_files=same)
        except GitError as error:
            raise UserError(
                f"patch '{name}': {source.diff} does not fit {(named or where.good)[:12]}: {_reason(error.words)}",
                hint="name the commit that it was made on with `base`, or make it anew: `bisectperf patches capture`",
            ) from None
        after = index.write()
    if after == before:
        raise UserError(f"patch '{name}': {source.diff} changes nothing", hint="check the file")
    return Pair(before, after, bool(named or told))


def _named_base(store: Store, name: str, source: Source) -> Sha | None:
    """Return the base that the recipe names; raises `UserError` when it is not there."""
    if not source.base:
        return None
    found = store.find(source.base)
    if found is None:
        raise UserError(
            f"patch '{name}': its base {source.base} is no commit here", hint="fetch it, or correct `base`"
        )
    return found


def _tree_with(store: Store, told: dict[str, Entry], said: Sha | None, where: Range) -> TreeId:
    """Return a tree in which every file is the one that the diff was made on.

    It is a commit's own tree where any has them all, first the one that the diff `said` it was based on: of the files
    around them, a merge sees which were renamed.
    """
    good = store.commit(where.good).tree
    if not told:
        return good
    paths = list(told)
    for candidates in ([said] if said else [], [where.good], where.line, _all_commits(store)):
        found = store.entries(candidates, paths)
        for sha, row in zip(candidates, found, strict=True):
            if _ids(row) == _ids(told.values()):
                return store.commit(sha).tree
    return store.edit([(good, told)])[0]


def _ids(entries: Iterable[Entry | None]) -> list[str]:
    return [entry.id if entry else "" for entry in entries]


def _all_commits(store: Store) -> Sequence[Sha]:
    return [Sha(sha) for sha in store.git("rev-list", "--branches", "--tags", "--remotes")[1].decode().split()]


def read_overlay(store: Store, name: str, source: Source, folder: Path, where: Range) -> Pair:
    """Return the pair of an overlay folder: its base's tree, and that with every file of the folder laid over it."""
    base = _named_base(store, name, source) or where.good
    before = store.commit(base).tree
    files = sorted(p for p in folder.rglob("*") if p.is_symlink() or not p.is_dir())
    if not files:
        raise UserError(f"patch '{name}': the overlay {folder} holds no file", hint="check the path")
    after = store.edit([(before, {str(p.relative_to(folder)): _stored(store, name, p) for p in files})])[0]
    if after == before:
        raise UserError(f"patch '{name}': the overlay {folder} changes nothing at {base[:12]}", hint="check `base`")
    return Pair(before, after, certain=True)


def _stored(store: Store, name: str, path: Path) -> Entry:
    if path.is_symlink():
        return Entry("120000", store.write_blob(os.fsencode(path.readlink())))
    if not path.is_file():
        raise UserError(f"patch '{name}': {path} is neither file nor link", hint="remove it from the overlay")
    return Entry("100755" if os.access(path, os.X_OK) else "100644", store.write_blob(path.read_bytes()))


def _reason(words: str) -> str:
    """Return the line in which git says what is wrong."""
    lines = words.splitlines() or ["no reason given"]
    failed = [line for line in lines if line.startswith("error: patch failed")]
    return (failed or lines)[-1].removeprefix("error: ")
