"""Our own object store: where commits and patches are composed."""

import hashlib
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from bisectperf.errors import UserError
from bisectperf.model import Sha, TreeId
from bisectperf.repo.objects import Entry, Objects
from bisectperf.repo.plumbing import GitError, plumb, require_git, stream, words_of
from bisectperf.repo.repository import Repository

IDENTITY = {
    "GIT_AUTHOR_NAME": "bisectperf",
    "GIT_AUTHOR_EMAIL": "bisectperf@invalid",
    "GIT_AUTHOR_DATE": "@0 +0000",
    "GIT_COMMITTER_NAME": "bisectperf",
    "GIT_COMMITTER_EMAIL": "bisectperf@invalid",
    "GIT_COMMITTER_DATE": "@0 +0000",
}
_ALONE = {
    # What git does in here depends on nothing that this machine's user has configured.
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_ATTR_NOSYSTEM": "1",
}
# Bytes go into a checkout and come out of it as they are, and merges know only the merge of text.
_ATTRIBUTES = "* -text -eol -ident -filter -working-tree-encoding !merge\n"
_MIRRORED = ("heads", "tags", "remotes")

Edits = Mapping[str, Entry | None]
"""Changes to a tree: path -> what lies there afterwards (None: nothing)."""


class Store(Objects):
    """A bare repository of ours: a hard-linked clone, so that the user's `gc --prune=now` takes nothing from us.

    What the two share are the bytes of objects, which nobody ever changes; git may renew an object file's time.
    """

    @classmethod
    def of(cls, source: Repository, folder: Path) -> Self:
        """Return the store for `source`, made where it is not there yet; raises `UserError` for an old git."""
        require_git()
        if not (folder / "HEAD").is_file():
            with _aside(folder) as aside:
                try:
                    # --dissociate: what a clone borrowed by alternates would vanish with its lender.
                    clone = ["clone", "-q", "--mirror", "--dissociate", "--template=", str(source.common), str(aside)]
                    plumb(clone, cwd=source.folder)
                except GitError as error:
                    raise UserError(
                        f"{source.folder} cannot be copied to {folder}: {error.words}", hint="check disk and rights"
                    ) from None
                _settle(cls(aside))
                _move(aside, folder)
        return cls(folder)

    @classmethod
    def empty(cls, folder: Path, object_format: str) -> Self:
        """Return the store in `folder`, made with nothing in it where it is not there yet."""
        require_git()
        if not (folder / "HEAD").is_file():
            with _aside(folder) as aside:
                init = ["init", "-q", "--bare", "--template=", f"--object-format={object_format}", str(aside)]
                plumb(init, cwd=folder.parent)
                _settle(cls(aside))
                _move(aside, folder)
        return cls(folder)

    def git(
        self,
        *argv: str,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        allowed: tuple[int, ...] = (0,),
    ) -> tuple[int, bytes]:
        """Run git here, apart from anyone's configuration; return its status and standard output."""
        return super().git(*argv, stdin=stdin, env=_ALONE | dict(env or {}), allowed=allowed)

    def bring(self, source: Repository, shas: Iterable[Sha]) -> None:
        """Fetch what is newer in `source` than here: its branches and tags as they are now, and `shas`."""
        refs = [f"+refs/{kind}/*:refs/{kind}/*" for kind in _MIRRORED]
        fetch = ["fetch", "-q", "--no-tags", "--prune", "--no-write-fetch-head", str(source.common), *refs]
        wanted = list(shas)
        plumb(fetch, cwd=self.folder)
        missing = [sha for sha, (_, kind) in zip(wanted, self.types(wanted), strict=True) if not kind]
        if missing:
            plumb(
                ["fetch", "-q", "--no-tags", "--no-write-fetch-head", str(source.common), *missing], cwd=self.folder
            )
        for sha in wanted:
            self.keep(f"asked/{sha}", sha)

    # -- commits and references --------------------------------------------------------------------------------

    def commit_tree(self, tree: str, parents: Sequence[str] = (), message: str = "bisectperf") -> Sha:
        """Return a commit of `tree` with fixed author and date: the same words, tree and parents, the same id."""
        words = [word for parent in parents for word in ("-p", parent)]
        out = self.git("commit-tree", *words, tree, stdin=message.encode(), env=IDENTITY)[1]
        return Sha(out.decode().strip())

    def keep(self, name: str, sha: Sha) -> None:
        """Name a commit under refs/bisectperf/, so that nothing prunes it."""
        self.git("update-ref", f"refs/bisectperf/{name}", sha)

    # -- trees -------------------------------------------------------------------------------------------------

    def merge(self, ours: str, theirs: str) -> tuple[TreeId, tuple[str, ...]]:
        """Return the tree of merging two commits and the paths in conflict (then the tree is of no use)."""
        rc, out = self.git(
            "merge-tree", "--write-tree", "--name-only", "-z", "--no-messages", ours, theirs, allowed=(0, 1)
        )
        tree, *paths = out.decode(errors="surrogateescape").split("\0")
        return TreeId(tree.strip()), tuple(p for p in paths if p) if rc else ()

    def merge_trees(self, base: str, ours: str, theirs: str) -> tuple[TreeId, tuple[str, ...]]:
        """Return the three-way merge of trees, `ours` and `theirs` changed from `base`, as `merge` does."""
        root = self.commit_tree(base)
        return self.merge(self.commit_tree(ours, [root]), self.commit_tree(theirs, [root]))

    def changes(self, before: str, after: str) -> dict[str, Entry | None]:
        """Return what turns the tree `before` into the tree `after`, file by file."""
        out = self.git("diff-tree", "-r", "-z", "--no-renames", before, after)[1].decode(errors="surrogateescape")
        words = out.split("\0")[:-1]
        found: dict[str, Entry | None] = {}
        for head, path in zip(words[::2], words[1::2], strict=True):
            _, mode, _, id_, _ = head.split(" ")
            found[path] = Entry(mode, id_) if int(mode, 8) else None
        return found

    def write_blob(self, data: bytes) -> str:
        """Return the id under which `data` is stored as a file."""
        return self.git("hash-object", "-w", "--stdin", stdin=data)[1].decode().strip()

    def edit(self, jobs: Sequence[tuple[TreeId, Edits]]) -> list[TreeId]:
        """Return each tree with its changes made, in one call to git for all of them."""
        if not jobs:
            return []
        # One branch carries all these trees, each commit with its own: a single reference keeps them.
        branch = f"refs/bisectperf/edited/{hashlib.sha256(repr(jobs).encode()).hexdigest()[:32]}"
        stdin = "".join(_edit_command(branch, tree, edits) for tree, edits in jobs)
        argv = ["-c", "core.ignoreCase=false", "fast-import", "--quiet", "--date-format=raw"]
        out = self.git(*argv, stdin=stdin.encode(errors="surrogateescape"))[1]
        return [TreeId(line.split()[2].decode()) for line in out.split(b"\n")[:-1]]

    # -- packs -------------------------------------------------------------------------------------------------

    def pack(self, commit: Sha, have: Sequence[str]) -> Iterator[bytes]:
        """Yield a thin pack of `commit` without what the commits in `have` hold, in pieces.

        Commits in `have` that are not known here are passed over.
        """
        known = [sha for sha, (_, kind) in zip(have, self.types(have), strict=True) if kind == "commit"]
        wanted = "".join([f"{commit}\n", *(f"^{sha}\n" for sha in known)])
        # --shallow: commits without common history still lend each other their trees.
        argv = ["pack-objects", "-q", "--revs", "--thin", "--shallow", "--delta-base-offset", "--stdout"]
        return stream(argv, cwd=self.folder, stdin=wanted.encode(), env=_ALONE)

    def receive(self, pack: bytes) -> None:
        """Store a pack; raises `GitError` for one that is cut short or damaged.

        Old histories hold objects that git today calls malformed: they are taken as they are.
        """
        self.git("index-pack", "--stdin", "--fix-thin", stdin=pack)


class Index:
    """A throw-away index file, for changing trees without a working copy."""

    def __init__(self, store: Store, tree: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="bisectperf-index-")
        self._env = {"GIT_INDEX_FILE": str(Path(self._folder.name) / "index")}
        self.store = store
        self.git("read-tree", tree)

    def git(self, *argv: str, stdin: bytes = b"") -> bytes:
        """Run git with this index; return its standard output."""
        return self.store.git(*argv, stdin=stdin, env=self._env)[1]

    def apply(self, diff: bytes, *, same_files: bool) -> None:
        """Apply a diff exactly where it says; raises `GitError` where it fits only at other lines, or not at all.

        A diff without lines of context is accepted for the `same_files` that it was made on, and for no others.
        """
        bare = ["--unidiff-zero"] if same_files else []
        argv = ["apply", "--cached", "--verbose", "--whitespace=nowarn", *bare, "-"]
        words = words_of(argv, cwd=self.store.folder, stdin=diff, env=_ALONE | self._env)
        # An offset is how a hunk lands in a neighbour that looks like its target.
        moved = next((line for line in words.splitlines() if " (offset " in line), "")
        if moved:
            raise GitError(argv, 1, f"it fits only at other lines: {moved}")

    def made_on(self, diff: bytes) -> dict[str, Entry]:
        """Return the files that a diff says it was made on; empty where it does not say, or we lack one of them."""
        fake = str(Path(self._folder.name) / "made-on")
        try:
            self.git("apply", f"--build-fake-ancestor={fake}", "-", stdin=diff)
        except GitError:
            return {}
        listed = self.store.git("ls-files", "--stage", "-z", env={"GIT_INDEX_FILE": fake})[1]
        rows = [row.partition("\t") for row in listed.decode(errors="surrogateescape").split("\0") if row]
        return {path: Entry(*head.split(" ")[:2]) for head, _, path in rows}

    def write(self) -> TreeId:
        """Return the index as a tree."""
        return TreeId(self.git("write-tree").decode().strip())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()


def _settle(store: Store) -> None:
    (store.folder / "info").mkdir(exist_ok=True)
    (store.folder / "info" / "attributes").write_text(_ATTRIBUTES)
    # HEAD of the day on which the store was made would be a trap for whoever writes `since = "HEAD"`.
    store.git("symbolic-ref", "HEAD", "refs/heads/none-of-bisectperf")


@contextmanager
def _aside(folder: Path) -> Iterator[Path]:
    """Give a path beside `folder` to build in, gone afterwards unless it was moved into place."""
    folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    room = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f"{folder.name}-new-"))
    try:
        yield room / "git"
    finally:
        shutil.rmtree(room)


def _move(made: Path, folder: Path) -> None:
    try:
        made.replace(folder)
    except OSError:
        if not (folder / "HEAD").is_file():
            raise
        # Another process was quicker; its store is as good.


def _edit_command(branch: str, tree: TreeId, edits: Edits) -> str:
    """Return the words that make git fast-import commit `tree` with `edits` and print the tree's id."""
    gone = [f"D {_quoted(path)}\n" for path, entry in edits.items() if entry is None]
    new = [f"M {entry.mode} {entry.id} {_quoted(path)}\n" for path, entry in edits.items() if entry is not None]
    who = f"{IDENTITY['GIT_COMMITTER_NAME']} <{IDENTITY['GIT_COMMITTER_EMAIL']}> 0 +0000"
    changes = "".join([f'M 040000 {tree} ""\n', *gone, *new])
    return f'commit {branch}\ncommitter {who}\ndata 0\n{changes}ls ""\n\n'


def _quoted(path: str) -> str:
    escaped = path.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
