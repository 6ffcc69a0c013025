"""The loop. It holds no state of its own: whatever it needs to know is in the journal."""

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Literal, Protocol

import msgspec

from bisectperf import events as ev
from bisectperf.driver.control import Cancelled, Control, undisturbed
from bisectperf.errors import (
    BisectperfError,
    CommitUntestable,
    HostMoved,
    HostUnavailable,
    HostUnfit,
    Interrupted,
    LaunchFlaky,
    ProofFailed,
)
from bisectperf.journal import Journal
from bisectperf.masking import Masking
from bisectperf.model import FirstBad, HostName, LaunchId, Line, Sha
from bisectperf.search import Done, Measure, Stop, Wait, findings, next_step, untestable_now
from bisectperf.search.budget import stop as out_of_budget
from bisectperf.state import State, apply, fold

_KINDS: dict[type[Exception], Literal["unfit", "flaky", "proof"]] = {
    HostUnfit: "unfit",
    HostMoved: "unfit",
    LaunchFlaky: "flaky",
    ProofFailed: "proof",
}
BACKOFF = (2.0, 5.0, 10.0, 20.0, 40.0, 60.0)
"""Seconds between attempts; the last one repeats."""
UNFIT_LIMIT = 12
"""Launches in a row that were void for the host's sake before its owner is asked: eight minutes of waiting."""


class Bench(Protocol):
    """Whoever turns a step into facts."""

    def measure(self, step: Measure, state: State) -> Iterator[ev.AnyEvent]:
        """Yield the events of one launch, each a fact by the time it is yielded."""
        ...

    def cancel(self, launch: LaunchId) -> None:
        """End a launch that may be running, and everything that it started."""
        ...

    def inner_line(self, merge: Sha, outer: Line) -> Line | None:
        """Return the line inside `merge`, a position of `outer`, or None where there is nothing to part."""
        ...


class Watcher(Protocol):
    """Whoever looks on: a screen, a log."""

    def event(self, event: ev.AnyEvent, state: State) -> None:
        """See one more fact, after it became durable."""
        ...


class Loop:
    """One run, driven until it is decided or stopped."""

    def __init__(
        self,
        journal: Journal,
        bench: Bench,
        watcher: Watcher,
        *,
        masking: Masking | None = None,
        clock: Callable[[], float] = time.time,
        pause: Callable[[float], None] | None = None,
    ) -> None:
        self.journal = journal
        self.bench = bench
        self.watcher = watcher
        self.masking = masking or Masking({})
        self.clock = clock
        self.control = Control()
        self.pause = pause or self.control.pause
        self.state = fold(journal)

    def append(self, event: ev.AnyEvent) -> None:
        """Make one fact durable, then let everyone see it."""
        # A signal's exception between the write and its bookkeeping would leave half a line behind.
        event = self.masking.struct(event)
        undisturbed(lambda: self.journal.append(event))
        self.state = apply(self.state, event)
        self.watcher.event(event, self.state)

    def run(self) -> State:
        """Drive to a verdict, or a stop, and return the state; raises `Interrupted` or an error that ends the run."""
        with self.control.listening():
            try:
                while not self._step():
                    pass
            except Cancelled:
                self._cancel()
                self._stopped("interrupted", "stopped by its user, the launch in hand cancelled")
                raise
            except Interrupted:
                self._stopped("interrupted", "stopped by its user")
                raise
            except BisectperfError as error:
                with suppress(BisectperfError):  # where the journal itself cannot be written
                    self._stopped("proof" if isinstance(error, ProofFailed) else "needs-you", error.message)
                raise
        return self.state

    def _stopped(self, why: Literal["interrupted", "needs-you", "proof"], reason: str) -> None:
        self.append(ev.Stopped(at=self.clock(), why=why, reason=reason))

    def _cancel(self) -> None:
        """End the launches in flight; where the host is away they stay planned, and the next run adopts them."""
        for launch in self.state.in_flight():
            with suppress(HostUnavailable, HostUnfit):
                self.bench.cancel(launch.id)
                self.append(
                    ev.Voided(at=self.clock(), launch=launch.id, kind="cancelled", reason="cancelled by its user")
                )

    def _step(self) -> bool:
        """Do one step; return whether the run is over."""
        if self.control.ending:
            raise Interrupted
        for tree, sha, reason in untestable_now(self.state):
            self.append(ev.FoundUntestable(at=self.clock(), sha=sha, tree=tree, reason=reason))
        for text in findings(self.state):
            self.append(ev.Noted(at=self.clock(), kind="finding", text=text))
        step = next_step(self.state, self.clock())
        if isinstance(step, Done):
            self.append(ev.Decided(at=self.clock(), verdict=step.verdict))
            return not self._descend(step)
        if isinstance(step, Stop):
            self.append(ev.Stopped(at=self.clock(), **msgspec.structs.asdict(step)))
            return True
        if isinstance(step, Wait):
            self.pause(step.seconds)
            return False
        return self._unfit() or self._launch(step[0])

    def _unfit(self) -> bool:
        """Wait where the last launches were void for the host's sake; return whether there were too many of them."""
        lately = [x for x in self.state.launches.values() if x.planned >= self.state.attended]
        void = list(itertools.takewhile(lambda x: x.void_kind in ("unfit", "host"), reversed(lately)))
        if not void:
            return False
        if len(void) >= UNFIT_LIMIT:
            reason = f"the last {len(void)} launches were void: {void[0].void}"
            self.append(ev.Stopped(at=self.clock(), why="needs-you", reason=reason, detail=void[0].detail))
            return True
        self._wait(void[0].host, len(void) - 1, void[0].void)
        return False

    def _descend(self, done: Done) -> bool:
        """Draw the line inside a merge that was named; return whether there is one to search."""
        verdict = done.verdict
        if not isinstance(verdict, FirstBad):
            return False
        position = next((p for p in self.state.line.positions if p.sha == verdict.sha), None)
        if position is None or len(position.parents) < 2:
            return False
        if any(line.inside == verdict.sha for line in self.state.lines):
            return False  # the merge itself, found at the end of its own inside
        line = self.bench.inner_line(verdict.sha, self.state.line)
        if line is None:
            return False
        self.append(ev.LineDrawn(at=self.clock(), line=line))
        return True

    def _launch(self, step: Measure) -> bool:
        """See one launch to its outcome; return whether the time was over before its host answered."""
        if step.launch not in self.state.launches:
            self.append(
                ev.LaunchPlanned(
                    at=self.clock(),
                    launch=step.launch,
                    sha=step.sha,
                    tree=step.tree,
                    host=step.host,
                    why=step.why,
                    reason=step.reason,
                    fresh=step.fresh,
                )
            )
        attempt = 0
        while (away := self._measure(step)) is not None:
            if not self._back_off(step, away, attempt):
                return True
            attempt += 1
        return False

    def _measure(self, step: Measure) -> HostUnavailable | None:
        """Append the facts of a launch up to its outcome; return what kept the host from answering, if it did not."""
        try:
            for event in self.bench.measure(step, self.state):
                self.append(event)
        except HostUnavailable as error:
            return error
        except (HostUnfit, HostMoved, LaunchFlaky, CommitUntestable, ProofFailed) as error:
            self._end_launch(step, error)
        return None

    def _back_off(self, step: Measure, error: HostUnavailable, attempt: int) -> bool:
        """Wait for the host, unless the time is over before; the launch stays planned, to be adopted if it ran."""
        seconds = BACKOFF[min(attempt, len(BACKOFF) - 1)]
        until = self.state.limits.until
        if until is not None and self.clock() + seconds > until:
            over = out_of_budget(self.state, f"the host was away until the time was over: {error.message}")
            self.append(ev.Stopped(at=self.clock(), **msgspec.structs.asdict(over)))
            return False
        self._wait(step.host, attempt, error.message)
        return True

    def _wait(self, host: HostName, attempt: int, reason: str) -> None:
        seconds = BACKOFF[min(attempt, len(BACKOFF) - 1)]
        self.append(ev.Waited(at=self.clock(), host=host, seconds=seconds, reason=reason))
        self.pause(seconds)

    def _end_launch(self, step: Measure, error: Exception) -> None:
        """Write down a launch that gave no sample, by its disposition; a second unproved one in a row ends it all."""
        message, detail = getattr(error, "message", str(error)), getattr(error, "detail", "")
        now = self.clock()
        if isinstance(error, CommitUntestable):
            self.append(
                ev.FoundUntestable(
                    at=now, sha=step.sha, tree=step.tree, reason=message, detail=detail, launch=step.launch
                )
            )
            return
        repeated = isinstance(error, ProofFailed) and self._unproved_before(step)
        kind = _KINDS[type(error)]
        self.append(ev.Voided(at=now, launch=step.launch, kind=kind, reason=message, detail=detail))
        if repeated or isinstance(error, HostMoved):
            raise error

    def _unproved_before(self, step: Measure) -> bool:
        earlier = [x for x in self.state.launches.values() if x.tree == step.tree and x.id != step.launch]
        return bool(earlier) and earlier[-1].void_kind == "proof"
