"""The journal: one JSON line per fact, durable before anyone acts on it.

A line is `{"seq": n, "crc": "xxxxxxxx", "event": {...}}`, the checksum taken over the event's bytes. A kill at any
byte leaves at worst a torn last line, which is set aside when the journal is opened again; damage anywhere else is
refused, because what stands behind it could not be trusted to follow from what stands before.
"""

import contextlib
import fcntl
import os
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from bisectperf.errors import BisectperfError, Locked, NoBisection, UserError
from bisectperf.events import AnyEvent
from bisectperf.identity import Process, here, who

_EVENT = msgspec.json.Decoder(AnyEvent)


class _Record(msgspec.Struct):
    seq: int
    crc: str
    event: msgspec.Raw


_RECORD = msgspec.json.Decoder(_Record)


class JournalDamaged(BisectperfError):
    """A line before the last one does not hold what was written there."""


def encode(seq: int, event: AnyEvent) -> bytes:
    """Return the line for `event` as number `seq`, newline included."""
    body = msgspec.json.encode(event)
    return b'{"seq":%d,"crc":"%08x","event":%s}\n' % (seq, zlib.crc32(body), body)


def _decode(line: bytes, seq: int) -> AnyEvent | None:
    try:
        record = _RECORD.decode(line)
        if record.seq == seq and record.crc == f"{zlib.crc32(record.event):08x}":
            return _EVENT.decode(record.event)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        pass
    return None


def parse(data: bytes, *, name: str = "journal") -> tuple[list[AnyEvent], int]:
    """Return the events in `data` and the number of bytes that hold them; what lies behind is a torn tail.

    Raises `JournalDamaged` when a line that is not the last one is wrong.
    """
    events: list[AnyEvent] = []
    good = 0
    while good < len(data):
        end = data.find(b"\n", good)
        event = None if end < 0 else _decode(data[good:end], len(events))
        if event is None:
            if end >= 0 and end + 1 < len(data):
                raise JournalDamaged(
                    f"{name}: line {len(events) + 1} is damaged, and lines follow it",
                    hint="restore the file from a copy, or `bisectperf reset` to put it aside and begin anew",
                )
            break
        events.append(event)
        good = end + 1
    return events, good


def read(path: Path) -> list[AnyEvent]:
    """Return the events of a journal that another process may be writing; a torn tail is left alone."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise NoBisection(
            f"there is no bisection here (no {path})", hint="begin one with `bisectperf start GOOD BAD`"
        ) from None
    return parse(data, name=str(path))[0]


class Journal:
    """A journal that is open for appending; one process at a time holds it."""

    def __init__(self, folder: Path, *, lock: Path | None = None) -> None:
        """Take the lock (`folder`/lock, or one shared by several journals) and repair a torn tail.

        Raises `Locked` naming the process that holds it.
        """
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.path = folder / "journal.jsonl"
        self._lock = _take_lock(lock or folder / "lock", folder.name)
        try:
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            _sync_folder(folder)
            data = self.path.read_bytes()
            self.events, good = parse(data, name=str(self.path))
            if good < len(data):
                with (folder / "journal.torn").open("ab") as torn:
                    torn.write(data[good:] + b"\n")
                os.ftruncate(self._file, good)
                os.fsync(self._file)
            self._size = good
        except BaseException:
            os.close(self._lock)
            raise

    def append(self, event: AnyEvent) -> None:
        """Write `event` durably; on a full disk the journal is left as it was and `UserError` raised."""
        line = encode(len(self.events), event)
        try:
            written = os.pwrite(self._file, line, self._size)
            if written != len(line):
                os.pwrite(self._file, line[written:], self._size + written)
            os.fsync(self._file)
        except OSError as error:
            # Without room even the truncation may fail; the torn tail is then repaired at the next opening.
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, self._size)
            raise UserError(
                f"the journal {self.path} cannot be written: {error.strerror}",
                hint="nothing that was measured is lost: make room, then `bisectperf run`",
            ) from error
        self._size += len(line)
        self.events.append(event)

    def __iter__(self) -> Iterator[AnyEvent]:
        return iter(self.events)

    def close(self) -> None:
        """Let the lock go."""
        os.close(self._file)
        os.close(self._lock)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """Who writes journals of a repository: its process, since when (seconds since the epoch), for which run."""

    process: Process
    who: str
    since: float
    run: str


_HOLDER = msgspec.json.Decoder(Holder)
_SOMEBODY = Holder(process=Process(pid=-1, start=None, boot="", namespace=""), who="", since=0.0, run="")
_TRIES, _BETWEEN = 20, 0.025
"""Whoever only asks who holds the lock takes it for a moment: it is tried again before it counts as held."""


def _take_lock(path: Path, run: str) -> int:
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    for attempt in range(_TRIES):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if attempt + 1 == _TRIES:
                known = _said(lock)
                os.close(lock)
                raise _locked(known) from None
            time.sleep(_BETWEEN)
        else:
            break
    os.ftruncate(lock, 0)
    os.pwrite(lock, msgspec.json.encode(Holder(process=here(), who=who(), since=time.time(), run=run)), 0)
    return lock


def _locked(known: Holder) -> Locked:
    since = time.strftime("%Y-%m-%d %H:%M", time.localtime(known.since))
    name = (
        f"{known.run}, process {known.process.pid} of {known.who} since {since}" if known.who else "another process"
    )
    return Locked(
        f"a run of this repository is under way: {name}",
        hint="`bisectperf watch` follows it; wait for its end, or end it with `bisectperf stop`",
    )


def _said(lock: int) -> Holder:
    try:
        return _HOLDER.decode(os.pread(lock, 10_000, 0))
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return _SOMEBODY


def holder(path: Path) -> Holder | None:
    """Return who holds the lock file `path`, or None; a process that ended holds nothing, whatever the file says."""
    try:
        lock = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _said(lock)
    finally:
        os.close(lock)
    return None


def ended(path: Path) -> None:
    """Return once nobody holds the lock file `path`."""
    lock = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_SH)
    finally:
        os.close(lock)


def follow(path: Path, seen: int) -> tuple[list[AnyEvent], int]:
    """Return the events behind the first `seen` of a journal, and how many there are now."""
    events = read(path)
    return events[seen:], len(events)


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
