"""A run driven to its end, with its report kept up to date and its owner told."""

import contextlib
from collections.abc import Callable
from pathlib import Path

from bisectperf.cli.common import Watch
from bisectperf.cli.page import Page
from bisectperf.driver.drive import go
from bisectperf.driver.home import journal_of
from bisectperf.driver.setup import Setup
from bisectperf.model import Limits
from bisectperf.notify import tell
from bisectperf.report.text import so_far
from bisectperf.report.verdict import headline
from bisectperf.state import State, fold

KINDS = {"budget": "stop", "needs-you": "needs-you", "proof": "needs-you"}
"""Which word of [notify] `on` asks for a stop; whoever interrupts a run knows that it has stopped."""


def driven(
    setup: Setup,
    folder: Path,
    watcher: Watch,
    limits: Limits | None = None,
    begun: Callable[[], None] = lambda: None,
) -> State:
    """Drive the run in `folder` and return its final state; raises what `go` raises."""
    before = len(journal_of(folder))
    try:
        return go(setup, folder, Page(watcher, folder), limits, begun)
    finally:
        with contextlib.suppress(Exception):  # telling never hurts the run
            events = journal_of(folder)
            if len(events) > before:
                _tell(setup, fold(events), watcher)


def _tell(setup: Setup, state: State, watcher: Watch) -> None:
    if state.decided is not None:
        kind = "verdict"
    else:
        kind = KINDS.get(state.stopped.why, "") if state.stopped is not None else ""
    if kind in setup.loaded.recipe.notify.on:
        ends = f"{state.asked.recipe} {state.asked.good[:9]}..{state.asked.bad[:9]}"
        for words in tell(setup.loaded.recipe.notify, f"{headline(state.decided, state)}: {ends}", so_far(state)):
            watcher.say(f"not told: {words}")
