"""What several commands share: options, exit codes of verdicts, the way progress is shown."""

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self, TypeVar

import click
import msgspec

from bisectperf import events as ev
from bisectperf.errors import ExitCode, UserError
from bisectperf.model import AnyVerdict, Limits
from bisectperf.state import State

F = TypeVar("F", bound=Callable[..., Any])

EXIT_OF = {
    "FirstBad": ExitCode.FOUND,
    "FirstBadAmong": ExitCode.INCONCLUSIVE,
    "SeveralChanges": ExitCode.SEVERAL_CHANGES,
    "NotReproduced": ExitCode.NOT_REPRODUCED,
    "EnvironmentChanged": ExitCode.ENVIRONMENT_CHANGED,
    "Inconclusive": ExitCode.INCONCLUSIVE,
    "Faster": ExitCode.NOT_REPRODUCED,
}

STOPPED = {
    "budget": ExitCode.BUDGET_OVER,
    "interrupted": ExitCode.INTERRUPTED,
    "needs-you": ExitCode.INCONCLUSIVE,
    "proof": ExitCode.PROOF_FAILED,
}

JSON = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON on standard output.")
PLAIN = click.option("--plain", is_flag=True, help="Plain dated lines even on a terminal.")
REPO = click.option("--repo", metavar="PATH|HOST:PATH", help="The repository (default: here).")
RUN = click.option("--run", "name", metavar="NAME", help="A run by its name (default: the bisection under way).")


def with_recipe(command: F) -> F:
    """Add the options that say where the repository is and which recipe holds."""
    for option in (
        click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Set a parameter of the recipe."),
        click.option("--recipe", "-r", metavar="PATH|NAME", help="Recipe file, its folder, or a shipped recipe."),
        click.option("--repo", metavar="PATH|HOST:PATH", help="The repository (default: the recipe's, else here)."),
    ):
        command = option(command)
    return command


def with_limits(command: F) -> F:
    """Add the options that say what this sitting may cost."""
    for option in (
        click.option("--max-launches", type=click.IntRange(1), metavar="N", help="Stop after N more launches."),
        click.option("--budget", metavar="8h", help="Stop when a verdict within this time has become unlikely."),
        click.option("--until", metavar="08:00", help="Likewise by a time of day, or an ISO date and time."),
    ):
        command = option(command)
    return command


DETACH = click.option("--detach", is_flag=True, help="Go on by itself, without this terminal.")


def detached(folder: Path, repo: str, limits: Limits | None) -> ExitCode | int:
    """Leave the run in `folder` to a controller of its own; return the exit code."""
    from bisectperf.driver.detach import LOG, detach

    options = [] if limits is None else ["--limits", msgspec.json.encode(limits).decode()]
    code, words = detach(folder, repo, options)
    if code or words:
        click.echo(words, err=True)
        return code
    click.echo(f"{folder.name} goes on by itself; what it says: {folder / LOG}")
    click.echo("`bisectperf watch` follows it, `bisectperf status` shows it, `bisectperf stop` ends it")
    return ExitCode.FOUND


def settings_of(pairs: tuple[str, ...]) -> dict[str, str]:
    """Return `--set` pairs as a mapping; raises `UserError` for a word without `=`."""
    for pair in pairs:
        if "=" not in pair:
            raise UserError(f"--set {pair}: no '=' in it", hint="write --set NAME=VALUE")
    return dict(pair.split("=", 1) for pair in pairs)


def exit_of(verdict: AnyVerdict) -> ExitCode:
    """Return the exit code of a verdict."""
    if type(verdict).__name__ == "Compared":
        answer = getattr(verdict, "answer", "undecided")
        return {"yes": ExitCode.FOUND, "undecided": ExitCode.INCONCLUSIVE}.get(answer, ExitCode.NOT_REPRODUCED)
    return EXIT_OF[type(verdict).__name__]


def finish(state: State, folder: Path, *, as_json: bool) -> ExitCode:
    """Print what a run came to; return its exit code."""
    from bisectperf.report import jsonout, text

    if as_json:
        click.echo(json.dumps(jsonout.to_json(state, time.time()), indent=1))
    if state.decided is None:
        return _stopped(state, as_json=as_json)
    if not as_json:
        click.echo(text.verdict_text(state))
        click.echo(f"report:  {folder / 'report.html'}")
        click.echo(f"journal: {folder / 'journal.jsonl'}")
    return exit_of(state.decided)


def _stopped(state: State, *, as_json: bool) -> ExitCode:
    """Say what a run that ended without a verdict came to; return its exit code."""
    from bisectperf.report.text import so_far
    from bisectperf.report.words import clean

    if state.stopped is None:
        raise ValueError("a run that ended has a verdict, or says why it stopped")
    if not as_json:
        click.echo(so_far(state))
        for line in state.stopped.detail.splitlines()[-12:]:
            click.echo(f"  | {clean(line)}")
        click.echo("`bisectperf run` goes on from here; whatever was measured counts.")
    return STOPPED[state.stopped.why]


class Watch:
    """Progress as plain dated lines on standard error, for logs and for whatever is not a terminal."""

    def event(self, event: ev.AnyEvent, state: State) -> None:
        """Print the line of one fact."""
        from bisectperf.report.text import event_line

        line = event_line(event, state)
        if line:
            self.say(line, event.at)

    def say(self, text: str, at: float | None = None) -> None:
        """Print one dated line."""
        click.echo(f"{time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(at))} {text}", err=True)

    def progress(self, phase: str, text: str) -> None:
        """See what a launch in hand is doing: too much for a log."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        sys.stderr.flush()


def watching(*, plain: bool) -> Watch:
    """Return the live screen on a terminal, else plain lines."""
    if plain or not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        return Watch()
    from bisectperf.cli.live import LiveWatch

    return LiveWatch()
