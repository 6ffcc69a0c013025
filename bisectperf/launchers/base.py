"""Jobs that outlive their connection."""

from typing import Literal, Protocol

import msgspec


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A command to run in its own process session on the host, at most once per `id`.

    `secrets` are environment values that are handed over on standard input and never written down. `files` are
    small inputs laid into the job's folder before it starts (name -> content).
    """

    id: str
    argv: tuple[str, ...]
    env: dict[str, str] = msgspec.field(default_factory=dict)
    secrets: dict[str, str] = msgspec.field(default_factory=dict)
    files: dict[str, str] = msgspec.field(default_factory=dict)
    cwd: str = ""
    timeout: float = 3600.0
    grace: float = 10.0


class JobStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What the job's folder says.

    `absent`: never started here. `running`: its supervisor lives. `exited`: `exit.json` is there, `rc` is its
    status and `reason` why it ended. `lost`: it was started and has neither (killed supervisor, reboot).
    """

    state: Literal["absent", "running", "exited", "lost"]
    rc: int | None = None
    reason: Literal["", "exited", "signalled", "timeout", "killed", "lease", "disk-full", "not-started"] = ""
    seconds: float = 0.0


class Launcher(Protocol):
    """Start, watch, end."""

    def start(self, job: Job) -> JobStatus:
        """Start `job`, or adopt it where its id is already known; starting twice runs once."""
        ...

    def status(self, job_id: str) -> JobStatus:
        """Return what is known of the job now."""
        ...

    def wait(self, job_id: str, seconds: float) -> JobStatus:
        """Return as soon as the job is no longer running, or after `seconds`, without polling the caller."""
        ...

    def read(self, job_id: str, name: str, offset: int = 0, limit: int = 1 << 20) -> bytes:
        """Return bytes of a file in the job's folder (`stdout`, `stderr`, or one it wrote); empty if not there."""
        ...

    def kill(self, job_id: str) -> JobStatus:
        """End the job and everything that it started, wherever those processes went; returns its final status."""
        ...

    def folder(self, job_id: str) -> str:
        """Return the job's folder on the host."""
        ...

    def forget(self, job_id: str) -> None:
        """Remove the folder of a job that has ended."""
        ...
