"""Reading: what the user's repository and our store have in common."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from bisectperf.errors import UserError
from bisectperf.model import Sha, TreeId
from bisectperf.repo.plumbing import GitError, plumb

FOLDER, FILE = "040000", "100644"


class Commit(msgspec.Struct, frozen=True):
    """One commit as the search needs it."""

    sha: Sha
    tree: TreeId
    parents: tuple[Sha, ...]
    subject: str


class Entry(NamedTuple):
    """What a tree holds under a name: file mode (six octal digits) and object id."""

    mode: str
    id: str


class Objects:
    """The objects of a repository; `folder` is any folder in which git finds it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._trees: dict[str, dict[bytes, Entry]] = {}

    def git(
        self,
        *argv: str,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        allowed: tuple[int, ...] = (0,),
    ) -> tuple[int, bytes]:
        """Run git here; return its status and standard output."""
        return plumb(argv, cwd=self.folder, stdin=stdin, env=env, allowed=allowed)

    def line(self, *argv: str) -> str:
        """Return the one line that a command prints."""
        return self.git(*argv)[1].decode(errors="replace").strip()

    # -- commits -----------------------------------------------------------------------------------------------

    def resolve(self, revision: str) -> Sha:
        """Return the commit that a revision names; raises `UserError` when there is none."""
        found = self.find(revision)
        if found is None:
            raise UserError(
                f"'{revision}' names no commit in {self.folder}",
                hint="`git log` shows them; `git fetch` may bring it",
            )
        return found

    def find(self, revision: str) -> Sha | None:
        """Return the commit that a revision names, or None."""
        try:
            return Sha(self.line("rev-parse", "--verify", "--quiet", "--end-of-options", revision + "^{commit}"))
        except GitError:
            return None

    def is_ancestor(self, ancestor: Sha, of: Sha) -> bool:
        """Return whether the one is an ancestor of the other, or the same."""
        return self.git("merge-base", "--is-ancestor", ancestor, of, allowed=(0, 1))[0] == 0

    def commits(self, *argv: str, stdin: bytes = b"") -> list[Commit]:
        """Return the commits that `git log` with these arguments lists, in its order."""
        form = "--format=%H%x1f%T%x1f%P%x1f%s"
        out = self.git("log", "-z", "--no-show-signature", "--no-patch", form, *argv, "--", stdin=stdin)[1]
        found = []
        for record in out.decode(errors="replace").split("\0"):
            if record:
                sha, tree, parents, subject = record.split("\x1f", 3)
                found.append(Commit(Sha(sha), TreeId(tree), tuple(Sha(p) for p in parents.split()), subject))
        return found

    def commit(self, sha: Sha) -> Commit:
        """Return one commit."""
        return self.commits("-1", sha)[0]

    def read_commits(self, shas: Sequence[Sha]) -> list[Commit]:
        """Return these commits, in this order, read at once."""
        stdin = "".join(f"{sha}\n" for sha in dict.fromkeys(shas)).encode()
        known = {c.sha: c for c in self.commits("--no-walk=unsorted", "--stdin", stdin=stdin)} if shas else {}
        return [known[sha] for sha in shas]

    def path(self, good: Sha, bad: Sha) -> list[Commit]:
        """Return the commits from `good` to `bad`, both included, along first parents.

        Where `good` itself was merged into the first-parent line, the path follows the side that descends from it:
        every commit on it contains `good`. `good` must be an ancestor of `bad`.
        """
        after = self.commits("--topo-order", "--reverse", bad, f"^{good}")
        holds = {good}
        for commit in after:
            if not holds.isdisjoint(commit.parents):
                holds.add(commit.sha)
        known = {commit.sha: commit for commit in after}
        found, at = [], bad
        while at != good:
            found.append(known[at])
            at = next(parent for parent in known[at].parents if parent in holds)
        return [self.commit(good), *reversed(found)]

    # -- trees -------------------------------------------------------------------------------------------------

    def entries(self, trees: Sequence[str], paths: Sequence[str]) -> list[tuple[Entry | None, ...]]:
        """Return for each tree what lies at each of `paths` (None: nothing), in two calls to git for all of them.

        The folders are looked up by git, each distinct one is read once: thousands of trees cost what differs.
        """
        wanted = [_split(path) for path in paths]
        folders = list(dict.fromkeys(folder for folder, _ in wanted))
        found = iter(self.types([f"{tree}:{folder}" for tree in trees for folder in folders]))
        by_tree = [{folder: next(found) for folder in folders} for _ in trees]
        self._read_trees({id_ for row in by_tree for id_, kind in row.values() if kind == "tree"})
        return [tuple(self._entry(*row[folder], name) for folder, name in wanted) for row in by_tree]

    def _entry(self, folder: str, kind: str, name: bytes) -> Entry | None:
        if kind != "tree":
            return None
        return self._trees[folder].get(name) if name else Entry(FOLDER, folder)

    def types(self, names: Sequence[str]) -> list[tuple[str, str]]:
        """Return (id, type) of each object name; type "" where there is none."""
        stdin = b"".join(_bytes(name) + b"\0" for name in names)
        out = self.git("cat-file", "--batch-check=%(objectname) %(objecttype)", "-z", stdin=stdin)[1]
        rows = [line.rpartition(b" ") for line in out.split(b"\n")[:-1]]
        kinds = (b"blob", b"tree", b"commit", b"tag")
        return [(id_.decode(), kind.decode()) if kind in kinds else ("", "") for id_, _, kind in rows]

    def _read_trees(self, ids: Iterable[str]) -> None:
        missing = sorted(set(ids) - self._trees.keys())
        for id_, data in self._contents(missing):
            self._trees[id_] = dict(_parse_tree(data, len(id_) // 2))

    def blobs(self, ids: Iterable[str]) -> dict[str, bytes]:
        """Return the bytes of each blob."""
        return dict(self._contents(sorted(set(ids))))

    def _contents(self, ids: Sequence[str]) -> list[tuple[str, bytes]]:
        if not ids:
            return []
        out = self.git("cat-file", "--batch", stdin="".join(f"{id_}\n" for id_ in ids).encode())[1]
        found, at = [], 0
        for id_ in ids:
            end = out.index(b"\n", at)
            size = int(out[at:end].rpartition(b" ")[2])
            found.append((id_, out[end + 1 : end + 1 + size]))
            at = end + size + 2
        return found

    def blob(self, tree: str, path: str) -> bytes | None:
        """Return the bytes of the file at `path` in `tree`, or None."""
        rc, out = self.git("cat-file", "blob", f"{tree}:{path}", allowed=(0, 128))
        return out if rc == 0 else None

    def digest_of(self, tree: TreeId, paths: Sequence[str]) -> str:
        """Return what stands for everything at `paths` of `tree` (no paths: the tree): equal code, equal digest."""
        if not paths:
            return str(tree)
        (found,) = self.entries([tree], paths)
        text = "\0".join(f"{path} {entry}" for path, entry in zip(paths, found, strict=True))
        return hashlib.sha256(_bytes(text)).hexdigest()


def require_order(objects: Objects, good: Sha, bad: Sha) -> None:
    """Refuse ends that are the same, in the wrong order, or not of one line, with the command that mends it."""
    if good == bad:
        raise UserError(f"GOOD and BAD are the same commit {good[:12]}", hint="`compare A A` measures the noise")
    if objects.is_ancestor(good, bad):
        return
    if objects.is_ancestor(bad, good):
        raise UserError(
            f"BAD {bad[:12]} is an ancestor of GOOD {good[:12]}: they stand in the wrong order",
            hint=f"bisectperf start {bad[:12]} {good[:12]}",
        )
    rc, base = objects.git("merge-base", good, bad, allowed=(0, 1))
    if rc:
        raise UserError(f"{good[:12]} and {bad[:12]} have no common history", hint="choose ends of one history")
    fork = base.decode().strip()[:12]
    raise UserError(
        f"GOOD {good[:12]} is no ancestor of BAD {bad[:12]}; their histories parted at {fork}",
        hint=f"if {fork} is good too: bisectperf start {fork} {bad[:12]}",
    )


def _split(path: str) -> tuple[str, bytes]:
    """Return the folder and the name of a path in a tree; both empty for the tree itself."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if any("\n" in part for part in parts):
        raise UserError(f"a path with a line break cannot be followed: {path!r}", hint="rename it")
    return "/".join(parts[:-1]), _bytes(parts[-1]) if parts else b""


def _parse_tree(data: bytes, id_size: int) -> Iterable[tuple[bytes, Entry]]:
    at = 0
    while at < len(data):
        space = data.index(b" ", at)
        zero = data.index(b"\0", space)
        id_ = data[zero + 1 : zero + 1 + id_size].hex()
        yield data[space + 1 : zero], Entry(data[at:space].decode().zfill(6), id_)
        at = zero + 1 + id_size


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogateescape")
