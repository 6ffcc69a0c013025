"""Progress as one calm screen, for a terminal: drawn after each fact, and once a second for the time that passes."""

import time
from collections import deque
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from bisectperf import events as ev
from bisectperf.cli.common import Watch
from bisectperf.report.live import screen
from bisectperf.report.text import event_line, status
from bisectperf.report.words import clean
from bisectperf.search.eta import Eta, eta
from bisectperf.state import State

KEPT = 60
"""Last facts that are remembered: more than any screen has lines."""


class LiveWatch(Watch):
    """Draws on standard error's terminal, on its alternate screen: what stood there before comes back at the end."""

    def __init__(self) -> None:
        self.console = Console(stderr=True)
        self.state: State | None = None
        self.eta: Eta | None = None
        self.doing = ""
        self.recent: deque[str] = deque(maxlen=KEPT)
        self.live = Live(console=self.console, get_renderable=self.drawn, refresh_per_second=1, screen=True)

    def event(self, event: ev.AnyEvent, state: State) -> None:
        """Show one more fact."""
        self.state = state
        self.doing = ""
        # Between two launches: while one runs, the processor is the measurement's.
        if isinstance(event, ev.Measured | ev.Voided | ev.FoundUntestable | ev.Resumed):
            self.eta = eta(state)
        self._remember(event_line(event, state), event.at)
        self.live.refresh()

    def say(self, text: str, at: float | None = None) -> None:
        """Show what is being prepared."""
        self._remember(text, at)
        self.live.refresh()

    def _remember(self, line: str, at: float | None) -> None:
        self.recent.append(f"{time.strftime('%H:%M:%S', time.localtime(at))}  {clean(line)}")

    def progress(self, phase: str, text: str) -> None:
        """Show what the launch in hand is doing; the next tick draws it."""
        self.doing = f"{phase}: {text}" if text else phase

    def drawn(self) -> RenderableType:
        """Return the screen of this moment."""
        size, recent = self.console.size, list(self.recent)
        if self.state is None or self.state.plan is None:
            return Group(*(Text(line, no_wrap=True, overflow="ellipsis") for line in recent[-size.height :]))
        return screen(
            self.state, time.time(), size.width, size.height, doing=self.doing, recent=recent, found=self.eta
        )

    def __enter__(self) -> Self:
        self.live.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.live.stop()
        if error[0] is not None and self.state is not None and self.state.plan is not None:
            # The screen is gone with the alternate buffer: whoever reads the error wants to see where it stood.
            self.console.print(Text(status(self.state, time.time(), self.console.size.width)))
