"""This machine."""

import contextlib
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path

from bisectperf.errors import HostUnavailable, HostUnfit
from bisectperf.hosts.base import Result
from bisectperf.model import HostName

_SETTLES = 5.0
"""Seconds for the kernel to end what was killed."""


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
        except OSError as error:
            # As a shell says it. A folder of the PATH that we may not read does not make a program of a missing one.
            there = Path(argv[0]).exists() if "/" in argv[0] else shutil.which(argv[0], mode=os.F_OK)
            return Result(126 if there else 127, b"", f"{argv[0]}: {error.strerror}".encode())
        feeder = None if isinstance(stdin, bytes) else _Feeder(child, stdin)
        try:
            out, err = child.communicate(stdin if isinstance(stdin, bytes) else None, timeout=deadline)
        except BaseException as error:
            _end(child)
            if isinstance(error, subprocess.TimeoutExpired):
                raise HostUnavailable(
                    f"{self.name}: no answer within {deadline:g} s while running {argv[0]}"
                ) from None
            raise
        if feeder is not None:
            feeder.join(_SETTLES)
            if feeder.failure is not None:
                raise feeder.failure
        # As a shell says it, and so as SSH does: 128 and the number of the signal.
        return Result(child.returncode if child.returncode >= 0 else 128 - child.returncode, out, err)

    def put(self, path: str, data: bytes | Iterable[bytes], *, mode: int = 0o600) -> None:
        """Write a file whole or not at all; raises `HostUnfit` when it cannot be written."""
        content = data if isinstance(data, bytes) else b"".join(data)
        target = Path(path)
        aside = target.with_name(f".{target.name}.{os.getpid()}.{threading.get_ident()}")
        try:
            fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
            with os.fdopen(fd, "wb") as file:
                file.write(content)
                file.flush()
                os.fchmod(file.fileno(), mode)
                os.fsync(file.fileno())
            aside.replace(target)
            _sync(target.parent)
        except OSError as error:
            raise HostUnfit(f"{self.name}: {path} cannot be written: {error.strerror}") from None
        finally:
            with contextlib.suppress(OSError):
                aside.unlink()

    def get(self, path: str) -> bytes:
        """Return a file's bytes; raises `FileNotFoundError` when there is none."""
        try:
            return Path(path).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            raise FileNotFoundError(path) from None
        except OSError as error:
            raise HostUnfit(f"{self.name}: {path} cannot be read: {error.strerror}") from None

    def close(self) -> None:
        """Nothing is held open."""


class _Feeder(threading.Thread):
    """Writes a command's input, so that neither side waits for the other; keeps what the source itself raised."""

    def __init__(self, child: subprocess.Popen[bytes], pieces: Iterable[bytes]) -> None:
        super().__init__(daemon=True)
        self.failure: Exception | None = None
        self._child, self._pieces = child, pieces
        assert child.stdin is not None
        self._pipe, child.stdin = child.stdin, None
        self.start()

    def run(self) -> None:
        """Feed until the source or the reader ends."""
        pieces = iter(self._pieces)
        with contextlib.suppress(BrokenPipeError), self._pipe:
            while True:
                try:
                    piece = next(pieces, None)
                except Exception as error:  # noqa: BLE001 -- the caller's generator; raised where it is awaited
                    self.failure = error
                    # Ended before its input is: it must not take what came so far for all.
                    _kill(self._child)
                    return
                if piece is None:
                    return
                self._pipe.write(piece)


def _kill(child: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)


def _end(child: subprocess.Popen[bytes]) -> None:
    """Kill the command's group; what left the group and holds the outputs open is not waited for."""
    _kill(child)
    if child.stdin is not None:
        child.stdin.close()
    try:
        child.communicate(timeout=_SETTLES)
    except subprocess.TimeoutExpired:
        for pipe in (child.stdout, child.stderr):
            if pipe is not None:
                pipe.close()


def _sync(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
