"""git as a subprocess: one function for a command, one for a command whose output is large.

Of GitPython only the command wrapper is used: its object model keeps processes and descriptors open.
"""

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO

from bisectperf.errors import UserError

try:
    import git
except ImportError as missing:  # GitPython asks git for its version when it is imported
    raise UserError("git is not installed, or not on PATH", hint="install git 2.38 or newer") from missing

NEEDED = (2, 38)
"""`git merge-tree --write-tree` came with it."""

_SETTINGS = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.quotePath=false",
    "gc.auto=0",
    "i18n.logOutputEncoding=UTF-8",
    # Version 2 gives any object that is asked for, whether or not a branch leads to it.
    "protocol.version=2",
    # A guess that a folder moved must not decide where a patch's new file goes.
    "merge.directoryRenames=false",
)
_VARIABLES = {
    "GIT_OPTIONAL_LOCKS": "0",  # reading must not refresh the user's index
    "GIT_NO_REPLACE_OBJECTS": "1",  # a replace ref changes what a commit id means
    "GIT_TERMINAL_PROMPT": "0",
}
_PIECE = 256 << 10


class GitError(Exception):
    """A git command failed: its exit status and its own words."""

    def __init__(self, argv: Sequence[str], rc: int, words: str) -> None:
        super().__init__(f"git {argv[0]}: {words.strip() or f'exit status {rc}'}")
        self.rc = rc
        self.words = words.strip()


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
    rc, out, words = _run(argv, cwd, stdin, env, None)
    if rc not in allowed:
        raise GitError(argv, rc, words)
    return rc, out


def words_of(argv: Sequence[str], *, cwd: Path | str, stdin: bytes, env: Mapping[str, str]) -> str:
    """Run `git argv` and return what it says on standard error; raises `GitError` when it fails."""
    rc, _, words = _run(argv, cwd, stdin, env, None)
    if rc != 0:
        raise GitError(argv, rc, words)
    return words


def stream(
    argv: Sequence[str], *, cwd: Path | str, stdin: bytes = b"", env: Mapping[str, str] | None = None
) -> Iterator[bytes]:
    """Yield the standard output of `git argv` in pieces, however large; raises `GitError` before the first one.

    The command must say little on standard error: that pipe is read at the end.
    """
    with tempfile.TemporaryFile() as out:
        rc, _, words = _run(argv, cwd, stdin, env, out)
        if rc != 0:
            raise GitError(argv, rc, words)
        out.seek(0)
        while piece := out.read(_PIECE):
            yield piece


def _run(
    argv: Sequence[str],
    cwd: Path | str,
    stdin: bytes,
    env: Mapping[str, str] | None,
    into: IO[bytes] | None,
) -> tuple[int, bytes, str]:
    """Run git; return its status, its output (unless it goes `into` a file) and its words."""
    unset = [word for name in os.environ if name.startswith("GIT_") for word in ("-u", name)]
    variables = [f"{name}={value}" for name, value in (_VARIABLES | dict(env or {})).items()]
    settings = [word for setting in _SETTINGS for word in ("-c", setting)]
    with tempfile.TemporaryFile() as source:
        source.write(stdin)
        source.seek(0)
        # The wrapper can add variables but take none away: that is what env(1) is for.
        rc, out, said = git.Git(cwd).execute(
            ["env", *unset, *variables, "git", *settings, *argv],
            istream=source,
            output_stream=into,
            with_extended_output=True,
            with_exceptions=False,
            stdout_as_string=False,
            strip_newline_in_stdout=False,
        )
    return rc, b"" if into else out, said if isinstance(said, str) else said.decode(errors="replace")


@cache
def require_git() -> None:
    """Raise `UserError` where the controller's git cannot merge trees."""
    found = git.Git().version_info[:2]
    if found < NEEDED:
        raise UserError(
            f"git {'.'.join(map(str, found))} is too old here: composing patches needs 2.38",
            hint="install a newer git on the controller; the host needs only 2.25",
        )
