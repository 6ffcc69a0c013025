"""A patch that is a script: run in a throw-away checkout, believed only in what it leaves there."""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from bisectperf.errors import UserError
from bisectperf.model import TreeId
from bisectperf.patches.outcome import Problem
from bisectperf.repo import Index, Store

_WORDS = 600
"""So many characters of a script's last words are quoted."""


def run_script(
    store: Store, tree: TreeId, *, name: str, folder: Path, script: Sequence[str], timeout: float
) -> tuple[TreeId, str] | Problem:
    """Return the tree that the script makes of `tree` and its words, or why it made none.

    It runs in a checkout of `tree` without a `.git`, with an empty home, without network where this machine lets us
    take it away, and with every process of its session ended afterwards. Files that the tree's own `.gitignore`
    covers are not part of the result.
    """
    with tempfile.TemporaryDirectory(prefix="bisectperf-script-") as room, Index(store, tree) as index:
        work, home = Path(room) / "tree", Path(room) / "home"
        work.mkdir()
        home.mkdir()
        index.git("--work-tree", str(work), "checkout-index", "--all", "--index")
        rc, said = _run(_argv(folder, script), work, home, timeout)
        if rc != 0:
            where = f"did not end within {timeout:g} s" if rc is None else f"ended with status {rc}"
            return Problem(kind="script", patch=name, where=where, said=said)
        index.git("--work-tree", str(work), "add", "--all", ".")
        return index.write(), said


def _argv(folder: Path, script: Sequence[str]) -> list[str]:
    """Return the script's argv, files beside the recipe by their full paths; raises `UserError` if it cannot run."""
    words = [str((folder / word).resolve()) if (folder / word).is_file() else word for word in script]
    if shutil.which(words[0]) is None:
        raise UserError(
            f"the patch script {words[0]} cannot be run: no such command, or no right to execute it",
            hint="correct `script`, or `chmod +x` the file",
        )
    return [*_offline(), *words]


@cache
def _offline() -> tuple[str, ...]:
    """Return the words that take a command's network away; none where this machine does not allow it."""
    for words in (("unshare", "--net"), ("unshare", "--net", "--map-root-user")):
        if (
            shutil.which(words[0])
            and subprocess.run([*words, "true"], capture_output=True, check=False).returncode == 0
        ):
            return words
    return ()


def _run(argv: Sequence[str], work: Path, home: Path, timeout: float) -> tuple[int | None, str]:
    """Return the exit status (None: too late) and the last words."""
    env = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(home),
        "TMPDIR": str(home),
        "LC_ALL": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
        "GIT_CEILING_DIRECTORIES": str(work.parent),
    }
    # A file, not a pipe: a process that got away would hold a pipe open for ever.
    with tempfile.TemporaryFile() as words:
        child = subprocess.Popen(
            argv,
            cwd=work,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=words,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            rc: int | None = child.wait(timeout)
        except subprocess.TimeoutExpired:
            rc = None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        words.seek(0)
        return rc, words.read().decode(errors="replace").strip()[-_WORDS:]
