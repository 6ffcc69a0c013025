"""What several commands share: options, exit codes of verdicts, the way progress is shown."""

import sys
import time
from collections.abc import Callable
from typing import Any

import click

from bisectperf import events as ev
from bisectperf.errors import ExitCode, UserError
from bisectperf.model import AnyVerdict
from bisectperf.state import State

EXIT_OF = {
    "FirstBad": ExitCode.FOUND,
    "FirstBadAmong": ExitCode.INCONCLUSIVE,
    "SeveralChanges": ExitCode.SEVERAL_CHANGES,
    "NotReproduced": ExitCode.NOT_REPRODUCED,
    "EnvironmentChanged": ExitCode.ENVIRONMENT_CHANGED,
    "Inconclusive": ExitCode.INCONCLUSIVE,
    "Faster": ExitCode.NOT_REPRODUCED,
}


def with_recipe[F: Callable[..., Any]](command: F) -> F:
    """Add the options that say where the repository is and which recipe holds."""
    for option in (
        click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Set a parameter of the recipe."),
        click.option("--recipe", "-r", metavar="PATH|NAME", help="Recipe file, its folder, or a shipped recipe."),
        click.option("--repo", metavar="PATH|HOST:PATH", help="The repository (default: the recipe's, else here)."),
    ):
        command = option(command)
    return command


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


class Lines:
    """Progress as plain dated lines, for logs and for whatever is not a terminal."""

    def __init__(self, *, quiet: bool = False) -> None:
        self.quiet = quiet

    def event(self, event: ev.AnyEvent, state: State) -> None:
        """Print the line of one fact."""
        from bisectperf.report.text import event_line

        line = event_line(event, state)
        if line and not self.quiet:
            click.echo(f"{time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(event.at))} {line}", err=True)

    def progress(self, phase: str, text: str) -> None:
        """Say what a launch in hand is doing: too much for a log."""

    def __enter__(self) -> "Lines":
        return self

    def __exit__(self, *_: object) -> None:
        sys.stderr.flush()
