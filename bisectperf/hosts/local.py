"""This machine."""

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path

from bisectperf.errors import HostUnavailable
from bisectperf.hosts.base import Result
from bisectperf.model import HostName


class LocalHost:
    """Runs commands here; each in a process group of its own, so that a deadline ends all of it."""

    def __init__(self, name: str = "local") -> None:
        self.name = HostName(name)

    def raw(self, argv: Sequence[str], *, stdin: bytes | Iterable[bytes] = b"", deadline: float = 60.0) -> Result:
        """Run `argv` and return its result; raises `HostUnavailable` past the deadline."""
        try:
            child = subprocess.Popen(
                list(argv),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except FileNotFoundError:
            return Result(127, b"", f"{argv[0]}: not found".encode())
        except PermissionError:
            return Result(126, b"", f"{argv[0]}: permission denied".encode())
        feeder = None
        if not isinstance(stdin, bytes):
            feeder, stdin = _feed(child, stdin), b""
        try:
            out, err = child.communicate(stdin if feeder is None else None, timeout=deadline)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.communicate()
            raise HostUnavailable(f"{self.name}: {argv[0]} did not end within {deadline:g} s") from None
        finally:
            if feeder is not None:
                feeder.join()
        return Result(child.returncode, out, err)

    def put(self, path: str, data: bytes | Iterable[bytes], *, mode: int = 0o600) -> None:
        """Write a file whole or not at all."""
        target = Path(path)
        aside = target.with_name(f".{target.name}.{os.getpid()}.{threading.get_ident()}")
        fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
        try:
            with os.fdopen(fd, "wb") as file:
                for piece in (data,) if isinstance(data, bytes) else data:
                    file.write(piece)
                file.flush()
                os.fchmod(file.fileno(), mode)
                os.fsync(file.fileno())
            aside.replace(target)
        except BaseException:
            aside.unlink(missing_ok=True)
            raise

    def get(self, path: str) -> bytes:
        """Return a file's bytes."""
        return Path(path).read_bytes()

    def close(self) -> None:
        """Nothing is held open."""


def _feed(child: subprocess.Popen[bytes], pieces: Iterable[bytes]) -> threading.Thread:
    """Write `pieces` to the child's input from a thread, so that neither side waits for the other's pipe."""
    pipe, child.stdin = child.stdin, None

    def run() -> None:
        if pipe is None:
            return
        with contextlib.suppress(BrokenPipeError), pipe:
            for piece in pieces:
                pipe.write(piece)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread
