"""The job folder launcher: a supervisor of our own on the host, reached by short commands."""

import msgspec

from bisectperf.hosts.base import Host
from bisectperf.launchers.base import Job, JobStatus
from bisectperf.launchers.script import ask

MARGIN = 30.0
"""Seconds that a short command may take beyond what it was asked to wait."""


class Detached:
    """Jobs in `<root>/jobs/<id>/`, each under its own supervisor."""

    def __init__(self, host: Host, root: str, tools: str, python: str = "python3") -> None:
        """Take the host, our folder there, and the folder with our scripts (see `lay_tools`)."""
        self.host = host
        self.root = root
        self.tools = tools
        self.python = python

    def start(self, job: Job) -> JobStatus:
        """Start the job, or adopt it."""
        spec = msgspec.json.encode(
            {
                "argv": job.argv,
                "env": job.env,
                "secrets": job.secrets,
                "files": job.files,
                "cwd": job.cwd,
                "timeout": job.timeout,
                "grace": job.grace,
            }
        )
        return self._ask("start", job.id, stdin=spec)

    def status(self, job_id: str) -> JobStatus:
        """Return what the folder says."""
        return self._ask("status", job_id)

    def wait(self, job_id: str, seconds: float) -> JobStatus:
        """Return when the job ends or the seconds are over."""
        return self._ask("wait", job_id, str(seconds), deadline=seconds + MARGIN)

    def kill(self, job_id: str) -> JobStatus:
        """End the job and all its processes."""
        return self._ask("kill", job_id, deadline=120.0)

    def forget(self, job_id: str) -> None:
        """Remove the folder."""
        self._ask("forget", job_id)

    def folder(self, job_id: str) -> str:
        """Return the job's folder."""
        return f"{self.root}/jobs/{job_id}"

    def read(self, job_id: str, name: str, offset: int = 0, limit: int = 1 << 20) -> bytes:
        """Return bytes of one of the job's files, from `offset` (negative: from its end); empty if it is absent."""
        path = f"{self.folder(job_id)}/{name}"
        where = ["tail", "-c", str(-offset), path] if offset < 0 else ["tail", "-c", f"+{offset + 1}", path]
        script = 'n=$1; shift; [ -f "$4" ] || exit 0; "$@" | head -c "$n"'
        return self.host.raw(["sh", "-c", script, "sh", str(limit), *where]).out

    def _ask(self, verb: str, job_id: str, *more: str, stdin: bytes = b"", deadline: float = 60.0) -> JobStatus:
        words = [verb, f"{self.root}/jobs", job_id, *more]
        script = f"{self.tools}/supervisor.py"
        out = ask(self.host, script, words, python=self.python, stdin=stdin, deadline=deadline)
        return msgspec.json.decode(out, type=JobStatus)
