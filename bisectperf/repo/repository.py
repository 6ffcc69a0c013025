"""The user's repository: found, asked, never written."""

import hashlib
import os
import re
from pathlib import Path
from typing import Self

from bisectperf.errors import UserError
from bisectperf.repo.objects import Objects
from bisectperf.repo.plumbing import GitError, plumb


class Repository(Objects):
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
        """Return where our own files for this repository lie: with git's own, or apart where that is read only."""
        inside = self.common / "bisectperf"
        may_write = os.access(inside if inside.exists() else self.common, os.W_OK)
        return inside if may_write else remote_state_folder(str(self.common))

    def config(self, key: str) -> str:
        """Return a configuration value, or the empty string."""
        return self.git("config", "--get", key, allowed=(0, 1))[1].decode(errors="replace").strip()

    def require_complete(self) -> None:
        """Refuse a shallow or partial clone: what is not there cannot be searched, nor merged with patches."""
        if self.line("rev-parse", "--is-shallow-repository") == "true":
            raise UserError(
                f"{self.folder} is a shallow clone: the commits to search are not all there",
                hint=f"git -C {self.folder} fetch --unshallow",
            )

        promised = self.git("config", "--get-regexp", r"^remote\..*\.promisor$", "true", allowed=(0, 1))[0] == 0
        if promised and self._lacks_objects():
            raise UserError(
                f"{self.folder} is a partial clone: the files of older commits are not all there",
                hint=f"git -C {self.folder} fetch --refetch --no-filter",
            )

    def _lacks_objects(self) -> bool:
        out = self.git("rev-list", "--objects", "--no-object-names", "--missing=print", "--all")[1]
        return b"\n?" in b"\n" + out

    def dirt(self) -> str:
        """Return in one line what the working copy has that no commit has; empty when it is clean."""
        if self.line("rev-parse", "--is-bare-repository") == "true":
            return ""
        out = self.git("status", "--porcelain", "-z", "--no-renames", "--untracked-files=normal")[1]
        entries = [entry for entry in out.split(b"\0") if entry]
        new = sum(entry.startswith(b"??") for entry in entries)
        changed = len(entries) - new
        parts = [f"{n} {word} file{'s' * (n != 1)}" for n, word in ((changed, "changed"), (new, "untracked")) if n]
        return " and ".join(parts)


def remote_state_folder(word: str) -> Path:
    """Return where our files lie for a repository that we cannot write into (`host:path`): XDG state."""
    base = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", word).strip("-.")[-40:]
    return base / "bisectperf" / f"{name}-{hashlib.sha256(word.encode()).hexdigest()[:12]}"
