"""Who we are, so that others can tell us from whoever gets our process id later."""

import functools
import getpass
import os
import platform
from pathlib import Path

import msgspec


class Process(msgspec.Struct, frozen=True, kw_only=True):
    """One process of one boot of one machine; `start`, `boot` and `namespace` are empty where there is no /proc."""

    pid: int
    start: int | None
    boot: str
    namespace: str


def here() -> Process:
    """Return this process."""
    pid = os.getpid()
    return Process(pid=pid, start=start_of(pid), boot=_boot(), namespace=_namespace())


def start_of(pid: int) -> int | None:
    """Return when a process started, in clock ticks since boot; None where it is gone or there is no /proc."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


def who() -> str:
    """Return `user@machine` for people to read."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    return f"{user}@{platform.node() or 'here'}"


@functools.cache
def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _namespace() -> str:
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""
