"""A long-lived container on a host, through `docker exec` or `podman exec`.

The client's end says little: where it is killed the command goes on inside, where the container is missing it has the
status of a command that failed. So a command is framed inside: it counts as run when both marks have come back on its
standard error, and a deadline ends it inside as well. Jobs are started detached and ended inside like on any host.
"""

import secrets
import time
from collections.abc import Iterable, Sequence

from bisectperf.errors import HostUnavailable
from bisectperf.hosts import shellfiles
from bisectperf.hosts.base import Host, Result
from bisectperf.model import HostName

_FRAME = """
m=$1 limit=$2; shift 2
printf '%s' "$m" >&2
if command -v timeout >/dev/null; then timeout -k 5 "$limit" "$@"; else "$@"; fi; s=$?
printf '%s' "$m" >&2
exit $s
"""
_TIMED_OUT = 124
_BEYOND = 10.0
"""Seconds that the client may take beyond the command's own deadline, which is kept inside."""


class ContainerHost:
    """The inside of a container on `outer`, which reaches the engine."""

    def __init__(self, outer: Host, engine: str, container: str) -> None:
        """Take the machine, `docker` or `podman`, and the container's name; nothing is asked yet."""
        self.outer = outer
        self.engine = engine
        self.container = container
        self.name = HostName(f"{outer.name}/{container}")

    def raw(self, argv: Sequence[str], *, stdin: bytes | Iterable[bytes] = b"", deadline: float = 60.0) -> Result:
        """Run `argv` inside; raises `HostUnavailable` when it is not known to have run to its end."""
        mark = f"<{secrets.token_hex(8)}>"
        frame = [self.engine, "exec", "-i", self.container, "sh", "-c", _FRAME, "sh", mark, f"{deadline:g}"]
        since = time.monotonic()
        done = self.outer.raw([*frame, *argv], stdin=stdin, deadline=deadline + _BEYOND)
        before, begun, rest = done.err.partition(mark.encode())
        said, ended, _ = rest.rpartition(mark.encode())
        if not begun:
            raise HostUnavailable(
                f"{self.name}: {self.engine} cannot run anything in the container: {_words(before, done.rc)}",
                hint=f"is it up? `{self.engine} start {self.container}`",
            )
        if not ended:
            raise HostUnavailable(
                f"{self.name}: the container was lost while running {argv[0]}",
                hint="what ran there may go on; it is asked again",
            )
        if done.rc == _TIMED_OUT and time.monotonic() - since >= deadline:
            raise HostUnavailable(f"{self.name}: no answer within {deadline:g} s while running {argv[0]}")
        return Result(done.rc, done.out, said)

    def put(self, path: str, data: bytes | Iterable[bytes], *, mode: int = 0o600) -> None:
        """Write a file whole or not at all, checked by its digest and durable."""
        shellfiles.put(self, path, data, mode)

    def get(self, path: str) -> bytes:
        """Return a file's bytes; raises `FileNotFoundError` when there is none."""
        return shellfiles.get(self, path)

    def close(self) -> None:
        """Let the connection to the machine go."""
        self.outer.close()


def _words(text: bytes, rc: int) -> str:
    lines = text.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else f"exit status {rc}"
