"""A controller that runs by itself: started, found again, asked to end."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

from bisectperf.driver.control import AFTER_LAUNCH, CANCEL
from bisectperf.driver.home import Home
from bisectperf.errors import NoBisection, UserError
from bisectperf.identity import here, start_of
from bisectperf.journal import Holder, ended, holder

LOG = "controller.log"


def detach(folder: Path, repo: str, options: list[str]) -> tuple[int, str]:
    """Let a process of its own go on with the run in `folder`; return (0, "") once it has its locks and works.

    It has its own session, no terminal, and its words in `controller.log`, so the end of whoever started it means
    nothing to it. Where it ends before it works, its exit status and its words are returned.
    """
    log = folder / LOG
    fd = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "ab") as out:
        before = out.tell()
        ready, tell = os.pipe()
        argv = [sys.executable, "-m", "bisectperf", "run", "--plain", "--repo", repo, "--run", folder.name]
        child = subprocess.Popen(
            [*argv, *options, "--ready-fd", str(tell)],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
            cwd="/",
            pass_fds=[tell],
        )
    os.close(tell)
    with os.fdopen(ready, "rb") as pipe:
        works = bool(pipe.read())
    if works:
        return 0, ""
    code = child.wait()
    return code, log.read_bytes()[before:].decode(errors="replace").strip()


def controller(home: Home) -> Holder | None:
    """Return who drives a run of this repository now, or None."""
    return holder(home.lock)


def stop(home: Home, *, now: bool) -> Holder:
    """Ask the controller to end (`now`: with its launch cancelled, else after it) and wait until it has.

    Raises `NoBisection` where none runs, `UserError` where it cannot be reached from here.
    """
    known = controller(home)
    if known is None:
        raise NoBisection(
            "nothing runs here that could be stopped", hint="`bisectperf status` shows how the last run stands"
        )
    mine = here()
    elsewhere = known.process.boot != mine.boot or known.process.namespace != mine.namespace
    if elsewhere or known.process.pid < 1 or start_of(known.process.pid) != known.process.start:
        raise UserError(
            f"{known.run} is driven from elsewhere: process {known.process.pid} of {known.who or 'another machine'}",
            hint="say `bisectperf stop` there",
        )
    try:
        os.kill(known.process.pid, CANCEL if now else AFTER_LAUNCH)
    except PermissionError:
        raise UserError(
            f"process {known.process.pid} belongs to another user ({known.who})", hint="stop it as that user"
        ) from None
    except ProcessLookupError:
        return known
    ended(home.lock)
    return known


def told(ready_fd: int | None) -> None:
    """Tell whoever started this controller that it works; from now on the terminal's end is no concern of ours."""
    if ready_fd is not None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        with contextlib.suppress(BrokenPipeError):  # whoever started us did not wait
            os.write(ready_fd, b"works\n")
        os.close(ready_fd)
