"""Git on the controller: the user's repository, read only, and an object store of our own.

The only file that touches GitPython, and of it only the command wrapper: its object model keeps processes and
descriptors open. Nothing here writes to the user's repository.
"""

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Self

import git
import msgspec

from bisectperf.errors import UserError
from bisectperf.model import Sha, TreeId

IDENTITY = {
    "GIT_AUTHOR_NAME": "bisectperf",
    "GIT_AUTHOR_EMAIL": "bisectperf@invalid",
    "GIT_AUTHOR_DATE": "@0 +0000",
    "GIT_COMMITTER_NAME": "bisectperf",
    "GIT_COMMITTER_EMAIL": "bisectperf@invalid",
    "GIT_COMMITTER_DATE": "@0 +0000",
}
_SETTINGS = ("core.hooksPath=/dev/null", "core.fsmonitor=false", "gc.auto=0", "merge.directoryRenames=false")
_PIECE = 256 * 1024


class GitError(Exception):
    """A git command failed: its exit status and its own words."""

    def __init__(self, argv: Sequence[str], rc: int, words: str) -> None:
        super().__init__(f"git {argv[0]}: {words.strip() or f'exit status {rc}'}")
        self.rc = rc
        self.words = words.strip()


class Commit(msgspec.Struct, frozen=True):
    """One commit as the search needs it."""

    sha: Sha
    tree: TreeId
    parents: tuple[Sha, ...]
    subject: str


def plumb(
    argv: Sequence[str],
    *,
    cwd: Path | str,
    stdin: bytes = b"",
    env: Mapping[str, str] | None = None,
    allowed: tuple[int, ...] = (0,),
) -> tuple[int, bytes]:
    """Run `git argv` in `cwd` without anyone's GIT_* variables; return its status and standard output.

    Raises `GitError` for a status that is not in `allowed`.
    """
    unset = [word for name in os.environ if name.startswith("GIT_") for word in ("-u", name)]
    settings = [word for setting in _SETTINGS for word in ("-c", setting)]
    command = ["env", *unset, "git", *settings, *argv]
    variables = {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "GIT_NO_REPLACE_OBJECTS": "1", **(env or {})}
    command[1 + len(unset) : 1 + len(unset)] = [f"{k}={v}" for k, v in variables.items()]
    with tempfile.TemporaryFile() as source:
        source.write(stdin)
        source.seek(0)
        rc, out, err = git.Git(cwd).execute(
            command,
            istream=source,
            with_extended_output=True,
            with_exceptions=False,
            stdout_as_string=False,
            strip_newline_in_stdout=False,
        )
    if rc not in allowed:
        raise GitError(argv, rc, err if isinstance(err, str) else err.decode(errors="replace"))
    return rc, out


class _Objects:
    """Reading commands that the user's repository and our store share."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

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

    def resolve(self, revision: str) -> Sha:
        """Return the commit that a revision names; raises `UserError` when there is none."""
        try:
            return Sha(self.line("rev-parse", "--verify", "--quiet", "--end-of-options", revision + "^{commit}"))
        except GitError:
            raise UserError(
                f"'{revision}' names no commit in {self.folder}",
                hint="`git log` shows them; `git fetch` may bring it",
            ) from None

    def find(self, revision: str) -> Sha | None:
        """Return the commit that a revision names, or None."""
        rc, out = self.git(
            "rev-parse", "--verify", "--quiet", "--end-of-options", revision + "^{commit}", allowed=(0, 1, 128)
        )
        return Sha(out.decode().strip()) if rc == 0 else None

    def is_ancestor(self, ancestor: Sha, of: Sha) -> bool:
        """Return whether the one is an ancestor of the other, or the same."""
        return self.git("merge-base", "--is-ancestor", ancestor, of, allowed=(0, 1))[0] == 0

    def commits(self, *argv: str) -> list[Commit]:
        """Return the commits that `git log` with these arguments lists, in its order."""
        out = self.git("log", "-z", "--format=%H%x1f%T%x1f%P%x1f%s", *argv, "--")[1].decode(errors="replace")
        found = []
        for record in out.split("\0"):
            if record:
                sha, tree, parents, subject = record.split("\x1f", 3)
                found.append(Commit(Sha(sha), TreeId(tree), tuple(Sha(p) for p in parents.split()), subject))
        return found

    def commit(self, sha: Sha) -> Commit:
        """Return one commit."""
        return self.commits("-1", sha)[0]

    def entries(self, trees: Sequence[str], paths: Sequence[str]) -> list[tuple[str, ...]]:
        """Return for each tree the ids of what lies at `paths` (empty: nothing there), in one call to git."""
        if not paths:
            return [() for _ in trees]
        asked = "".join(f"{tree}:{path}\n" for tree in trees for path in paths)
        out = self.git("cat-file", "--batch-check=%(objectname)", stdin=asked.encode())[1].decode(errors="replace")
        ids = ["" if line.endswith(("missing", "ambiguous")) else line for line in out.splitlines()]
        return [tuple(ids[i : i + len(paths)]) for i in range(0, len(ids), len(paths))]

    def blob(self, tree: str, path: str) -> bytes | None:
        """Return the bytes at `path` in `tree`, or None."""
        rc, out = self.git("cat-file", "blob", f"{tree}:{path}", allowed=(0, 128))
        return out if rc == 0 else None


class Repository(_Objects):
    """The user's repository: never written, not even its index."""

    def __init__(self, folder: Path, common: Path) -> None:
        super().__init__(folder)
        self.common = common

    @classmethod
    def open(cls, word: str) -> Self:
        """Return the repository that contains the folder `word`; raises `UserError`."""
        folder = Path(word).expanduser()
        if not folder.is_dir():
            raise UserError(f"there is no folder {folder}", hint="give the repository with --repo or in the recipe")
        try:
            common = plumb(["rev-parse", "--git-common-dir"], cwd=folder)[1].decode().rstrip("\n")
        except GitError as error:
            if "dubious ownership" in error.words:
                hint = f"git config --global --add safe.directory {folder.resolve()}"
                raise UserError(f"git refuses {folder}, which belongs to another user", hint=hint) from None
            raise UserError(
                f"{folder} is no git repository", hint="change into one, or give it with --repo"
            ) from None
        return cls(folder.resolve(), (folder / common).resolve())

    @property
    def state_folder(self) -> Path:
        """Return where our own files for this repository lie."""
        return self.common / "bisectperf"

    def config(self, key: str) -> str:
        """Return a configuration value, or the empty string."""
        return self.git("config", "--get", key, allowed=(0, 1))[1].decode(errors="replace").strip()

    def require_complete(self) -> None:
        """Refuse a shallow clone: commits that are not there cannot be searched."""
        if self.line("rev-parse", "--is-shallow-repository") == "true":
            raise UserError(f"{self.folder} is a shallow clone", hint="fetch the rest: git fetch --unshallow")

    def require_order(self, good: Sha, bad: Sha) -> None:
        """Refuse ends that are the same, in the wrong order, or not of one line."""
        if good == bad:
            raise UserError(f"GOOD and BAD are the same commit {good[:12]}", hint="`compare A A` measures the noise")
        if self.is_ancestor(good, bad):
            return
        if self.is_ancestor(bad, good):
            raise UserError(
                f"BAD {bad[:12]} is an ancestor of GOOD {good[:12]}: they stand in the wrong order",
                hint=f"bisectperf start {bad[:12]} {good[:12]}",
            )
        rc, base = self.git("merge-base", good, bad, allowed=(0, 1))
        if rc:
            raise UserError(f"{good[:12]} and {bad[:12]} have no common history", hint="choose ends of one history")
        fork = base.decode().strip()[:12]
        raise UserError(
            f"GOOD {good[:12]} is no ancestor of BAD {bad[:12]}; their histories parted at {fork}",
            hint=f"if {fork} is good too: bisectperf start {fork} {bad[:12]}",
        )

    def dirt(self) -> str:
        """Return in one line what the working copy has that no commit has; empty when it is clean."""
        if self.line("rev-parse", "--is-bare-repository") == "true":
            return ""
        out = self.git("status", "--porcelain", "-z", "--no-renames")[1].decode(errors="replace")
        entries = [entry for entry in out.split("\0") if entry]
        new = sum(entry.startswith("??") for entry in entries)
        changed = len(entries) - new
        parts = [f"{n} {word} file{'s' * (n != 1)}" for n, word in ((changed, "changed"), (new, "untracked")) if n]
        return " and ".join(parts)


class Store(_Objects):
    """Our own bare repository: a hard-linked clone, so that the user's `gc --prune=now` takes nothing from us."""

    @classmethod
    def of(cls, source: Repository, folder: Path) -> Self:
        """Return the store for `source`, made or brought up to date; raises `UserError` for a git that is too old."""
        words = plumb(["version"], cwd=source.folder)[1].decode().split()[2].split(".")
        if (int(words[0]), int(words[1])) < (2, 38):
            raise UserError(
                f"git {'.'.join(words).strip()} is too old here: composing patches needs 2.38",
                hint="install a newer git on the controller; the host needs only 2.25",
            )
        store = cls(folder)
        if not (folder / "HEAD").is_file():
            aside = Path(tempfile.mkdtemp(dir=_made(folder.parent), prefix="store-"))
            plumb(["clone", "-q", "--bare", "--local", str(source.folder), str(aside / "git")], cwd=source.folder)
            (aside / "git").replace(folder)
            aside.rmdir()
        return store

    def bring(self, source: Repository, shas: Iterable[Sha]) -> None:
        """Fetch commits that are newer than the clone."""
        missing = [sha for sha in shas if self.git("cat-file", "-e", sha, allowed=(0, 1, 128))[0]]
        if missing:
            self.git("fetch", "-q", "--no-tags", str(source.folder), *missing)

    def commit_tree(self, tree: str, parents: Sequence[str] = (), message: str = "bisectperf") -> Sha:
        """Return a commit of `tree` with fixed author and date: the same tree and parents give the same id."""
        words = [word for parent in parents for word in ("-p", parent)]
        out = self.git("commit-tree", *words, tree, stdin=message.encode(), env=IDENTITY)[1]
        return Sha(out.decode().strip())

    def keep(self, name: str, sha: Sha) -> None:
        """Name a commit under refs/bisectperf/, so that nothing prunes it."""
        self.git("update-ref", f"refs/bisectperf/{name}", sha)

    def merge(self, ours: str, theirs: str) -> tuple[TreeId, tuple[str, ...]]:
        """Return the tree of merging two commits and the paths in conflict (then the tree is of no use)."""
        rc, out = self.git(
            "merge-tree", "--write-tree", "--name-only", "-z", "--no-messages", ours, theirs, allowed=(0, 1)
        )
        tree, *paths = out.decode(errors="surrogateescape").split("\0")
        return TreeId(tree.strip()), tuple(p for p in paths if p) if rc else ()

    def with_index(self, tree: str) -> "Index":
        """Return a throw-away index that holds `tree`."""
        return Index(self, tree)

    def pack(self, commit: Sha, have: Sequence[str]) -> Iterator[bytes]:
        """Yield a thin pack of `commit`, tree and blobs only what `have` does not reach, in pieces."""
        known = [sha for sha in have if self.git("cat-file", "-e", sha, allowed=(0, 1, 128))[0] == 0]
        wanted = "".join([f"{commit}\n", *(f"^{sha}\n" for sha in known)])
        out = self.git(
            "pack-objects", "-q", "--revs", "--thin", "--stdout", "--delta-base-offset", stdin=wanted.encode()
        )
        for at in range(0, len(out[1]), _PIECE):
            yield out[1][at : at + _PIECE]


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

    def write(self) -> TreeId:
        """Return the index as a tree."""
        return TreeId(self.git("write-tree").decode().strip())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder
