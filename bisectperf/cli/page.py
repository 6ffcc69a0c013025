"""The HTML report, written anew while a run goes on: open it once, it refreshes itself."""

import contextlib
import os
import time
from pathlib import Path

from bisectperf import events as ev
from bisectperf.cli.common import Watch
from bisectperf.state import State

EVERY_SECONDS = 60.0
"""Drawing takes a second of a processor that may be the measured one's: not after each short launch."""


class Page:
    """A watcher that hands everything on, and keeps `report.html` in the run's folder."""

    def __init__(self, watch: Watch, folder: Path) -> None:
        self.watch = watch
        self.path = folder / "report.html"
        self._written = 0.0

    def event(self, event: ev.AnyEvent, state: State) -> None:
        """Hand the fact on; then draw, at every end and now and then."""
        self.watch.event(event, state)
        ended = isinstance(event, ev.Decided | ev.Stopped)
        counted = isinstance(event, ev.Measured | ev.Voided)
        if ended or (counted and time.monotonic() - self._written > EVERY_SECONDS):
            self._draw(state)

    def say(self, text: str, at: float | None = None) -> None:
        """Hand it on."""
        self.watch.say(text, at)

    def progress(self, phase: str, text: str) -> None:
        """Hand it on."""
        self.watch.progress(phase, text)

    def _draw(self, state: State) -> None:
        from bisectperf.report.html import to_html

        # A report that cannot be drawn or stored must not end the night: `bisectperf report` draws it any time.
        with contextlib.suppress(Exception):
            aside = self.path.with_suffix(f".{os.getpid()}")
            aside.write_text(to_html(state, time.time()), encoding="utf-8")
            aside.replace(self.path)
        self._written = time.monotonic()
