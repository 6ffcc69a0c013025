"""watch, stop: the controller of a run, seen and asked from elsewhere."""

import time
from collections.abc import Iterator
from pathlib import Path

import click

from bisectperf.cli.common import JSON, PLAIN, REPO, RUN, finish, watching
from bisectperf.driver.detach import controller
from bisectperf.driver.detach import stop as stop_
from bisectperf.driver.home import Home
from bisectperf.driver.setup import home_of
from bisectperf.errors import ExitCode
from bisectperf.events import AnyEvent
from bisectperf.journal import follow
from bisectperf.state import State, apply

LOOK = 0.5
"""Seconds between two looks at the journal: it costs one system call."""


@click.command()
@REPO
@RUN
@JSON
@PLAIN
def watch(repo: str | None, name: str | None, *, as_json: bool, plain: bool) -> int:
    """Follow a run that goes on elsewhere, to its end; it only reads.

    Ctrl-C ends the watching, not the run. The exit code is the run's own.

    Example: bisectperf watch
    """
    home = home_of(repo)
    folder = home.run(name)
    state = State()
    with watching(plain=plain or as_json) as watcher:
        for event in _facts(home, folder):
            state = apply(state, event)
            watcher.event(event, state)
    if state.decided is None and state.stopped is None:
        click.echo("nobody drives this run: `bisectperf run` goes on with it", err=True)
        return ExitCode.INTERRUPTED
    return finish(state, folder, as_json=as_json)


def _facts(home: Home, folder: Path) -> Iterator[AnyEvent]:
    """Yield the facts of a run as they are written, until nobody drives it any more."""
    journal = folder / "journal.jsonl"
    seen = 0
    while True:
        # Asked before reading: what is written between the two is read once more.
        known = controller(home)
        events, seen = follow(journal, seen)
        yield from events
        if known is None or known.run != folder.name:
            return
        time.sleep(LOOK)


@click.command()
@REPO
@click.option("--now", is_flag=True, help="Cancel the launch in hand; it is void.")
def stop(repo: str | None, *, now: bool) -> int:
    """Ask the run that goes on elsewhere to end after the launch in hand, and wait for that.

    `bisectperf run` goes on with it, any time.

    Example: bisectperf stop --now
    """
    home = home_of(repo)
    if not now:
        click.echo("it ends after the launch in hand; Ctrl-C here changes nothing about that", err=True)
    known = stop_(home, now=now)
    click.echo(f"{known.run} has ended; `bisectperf run` goes on with it")
    return ExitCode.FOUND
