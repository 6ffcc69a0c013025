"""One run at a time on a host, or on each of its GPUs: two at once would measure each other."""

import contextlib
import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self

import msgspec

from bisectperf.errors import BisectperfError, Locked
from bisectperf.hosts.base import Host
from bisectperf.identity import here
from bisectperf.launchers.script import ask

LEASE = 900.0
"""Seconds after which the lock of a controller that vanished is free: longer than any connection is given up for."""


class _Answer(msgspec.Struct, frozen=True):
    held: bool
    owner: str
    since: float
    left: float
    path: str
    working: str


class HostLock:
    """A lock on a host, for as long as the `with` block lasts.

    It lives in our folder there, so it is between all runs that use that folder. `token` says who we are: a run that
    was killed and goes on takes its own lock again at once. `uses` names the GPUs that it takes (empty: the whole
    host), `jobs` is how the names of our jobs begin. A thread renews the lease; a host that is away for a while
    costs nothing, unless another run took its turn meanwhile (`require` says so).
    """

    def __init__(
        self,
        host: Host,
        root: str,
        tools: str,
        *,
        owner: str,
        token: str,
        jobs: str,
        uses: Sequence[str] = (),
        python: str = "python3",
        lease: float = LEASE,
    ) -> None:
        """Take the host, our folder there, the folder with our scripts, and what to tell others about us."""
        self.host = host
        self._script = f"{tools}/hostlock.py"
        self._where = [f"{root}/locks", token]
        asked = {"owner": owner, "lease": lease, "uses": sorted(uses), "jobs": jobs, "process": here()}
        self._words = msgspec.json.encode(asked)
        self._python = python
        self._lease = lease
        self._over = threading.Event()
        self._lost: Locked | None = None
        self._renewer = threading.Thread(target=self._renew, name=f"lock on {host.name}", daemon=True)

    def require(self) -> None:
        """Raise `Locked` when another run took the lock since; call it before whatever needs the host alone."""
        if self._lost is not None:
            raise self._lost

    def __enter__(self) -> Self:
        """Take the lock; raises `Locked` naming its holder."""
        answer = self._ask("take")
        if not answer.held:
            raise self._locked(answer)
        self._renewer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let the lock go; where the host is away, its lease does."""
        self._over.set()
        self._renewer.join()
        with contextlib.suppress(BisectperfError):
            self._ask("drop")

    def _renew(self) -> None:
        while not self._over.wait(self._lease / 3):
            with contextlib.suppress(BisectperfError):  # asked again in a while
                answer = self._ask("take")
                if not answer.held:
                    self._lost = self._locked(answer)
                    return

    def _ask(self, verb: str) -> _Answer:
        out = ask(self.host, self._script, [verb, *self._where], python=self._python, stdin=self._words)
        return msgspec.json.decode(out, type=_Answer)

    def _locked(self, answer: _Answer) -> Locked:
        since = time.strftime("%Y-%m-%d %H:%M", time.localtime(answer.since))
        if answer.working:
            left = f"its controller is gone, but its launch {answer.working} still runs and ends by itself"
        else:
            left = f"the lock of a run that died is free in {max(answer.left, 0.0) / 60:.0f} min"
        return Locked(
            f"{self.host.name}: it is the turn of {answer.owner} since {since}",
            hint=f"wait for its end, or say `bisectperf stop` there; {left}, or at once with: rm {answer.path}",
        )
