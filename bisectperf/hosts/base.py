"""The one primitive that every host offers, and what its outcomes mean."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from bisectperf.model import HostName


class Result(NamedTuple):
    """A finished command: exit status and raw bytes."""

    rc: int
    out: bytes
    err: bytes


class Host(Protocol):
    """A machine that runs short commands.

    Anything long goes through a launcher: a command here has a deadline and its loss is an unknown outcome.
    """

    name: HostName

    def raw(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes | Iterable[bytes] = b"",
        deadline: float = 60.0,
    ) -> Result:
        """Run `argv` (never through the caller's quoting) and return its `Result`, whatever its exit status.

        A command that a signal ended has the status 128 + its number. Raises `HostUnavailable` when the outcome is
        unknown: connection lost, deadline passed. What an iterable `stdin` raises is raised here.
        """
        ...

    def put(self, path: str, data: bytes | Iterable[bytes], *, mode: int = 0o600) -> None:
        """Write `data` to `path` so that a reader sees the old file or all of the new one, and it is durable.

        Raises `HostUnfit` when the host cannot write it: no room, no such folder, no permission.
        """
        ...

    def get(self, path: str) -> bytes:
        """Return the bytes of `path`; raises `FileNotFoundError` when the host answers that there is none.

        Raises `HostUnfit` when it is there and cannot be read.
        """
        ...

    def close(self) -> None:
        """Let the connection go; the next call opens one again."""
        ...
