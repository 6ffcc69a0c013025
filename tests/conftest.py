"""Fixtures for all tests: real git repositories."""

import hashlib
import os
import subprocess
from pathlib import Path

import pytest


class History:
    """A real repository that is written commit by commit; dates are fixed, so that ids are the same at every run."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.folder.mkdir(parents=True)
        self._tick = 1_700_000_000
        self.git("init", "-q", "-b", "main")
        for key, value in (("user.name", "A"), ("user.email", "a@example.org"), ("gc.auto", "0")):
            self.git("config", key, value)

    def git(self, *argv, stdin=b"", env=None):
        """Run git here and return what it prints, without the last line break."""
        clean = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
        when = f"@{self._tick} +0000"
        dates = {"GIT_AUTHOR_DATE": when, "GIT_COMMITTER_DATE": when, "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C"}
        done = subprocess.run(
            ["git", *argv],
            cwd=self.folder,
            input=stdin,
            capture_output=True,
            env=clean | dates | (env or {}),
            check=False,
        )
        assert done.returncode == 0, f"git {argv}: {done.stderr.decode()}"
        return done.stdout.decode(errors="surrogateescape").removesuffix("\n")

    def write(self, files):
        """Write files into the working copy: path -> text, bytes, or None to delete it."""
        for name, content in files.items():
            path = self.folder / name
            if content is None:
                path.unlink()
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())

    def commit(self, subject, files=None):
        """Commit the working copy with `files` written into it; return the commit's id."""
        self._tick += 60
        self.write(files or {})
        self.git("add", "--all")
        self.git("commit", "-q", "--allow-empty", "-m", subject)
        return self.git("rev-parse", "HEAD")

    def merge(self, branch, subject="merge"):
        """Merge `branch` into what is checked out, always with a merge commit; return its id."""
        self._tick += 60
        self.git("merge", "-q", "--no-ff", "-m", subject, branch)
        return self.git("rev-parse", "HEAD")

    def switch(self, branch, start=None):
        """Check out `branch`, made at `start` where that is given."""
        self.git("checkout", "-q", *(["-b", branch, start] if start else [branch]))

    def snapshot(self):
        """Return every file of working copy and git directory with its bytes, mode and time, but for ours.

        Object files have no time here: our store shares them by hard link, and git renews the time of an object
        that it is asked to store again. Nor has a shared index, whose time git renews whenever it reads one, nor a
        folder: ours is made in one.
        """
        seen = {}
        for path in sorted(self.folder.rglob("*")):
            name = str(path.relative_to(self.folder))
            if name.startswith(".git/bisectperf"):
                continue
            stat = path.lstat()
            content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
            timed = content and not name.startswith((".git/objects/", ".git/sharedindex."))
            seen[name] = (stat.st_mode, content, stat.st_mtime_ns if timed else 0)
        return seen


@pytest.fixture
def own_home(tmp_path_factory, monkeypatch):
    """A home of the test's own: neither the configuration nor the state of whoever runs it."""
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(home))
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    return home


@pytest.fixture
def history(tmp_path):
    """An empty repository to be written commit by commit."""
    return History(tmp_path / "upstream")
