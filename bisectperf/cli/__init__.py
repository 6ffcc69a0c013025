"""The command line: parse, wire, exit codes. Commands load when they are called, so that --help is quick."""

import importlib
import os
import sys
from collections.abc import Sequence

import click

from bisectperf import __version__
from bisectperf.errors import BisectperfError, ExitCode, Interrupted
from bisectperf.masking import Masking, secrets_of

COMMANDS = {
    "start": ("bisect", "Find the commit between GOOD and BAD that made it slower."),
    "run": ("bisect", "Go on with the bisection, after any stop."),
    "status": ("show", "What is known, and what happens now."),
    "watch": ("watch", "Follow a run that goes on elsewhere, to its end."),
    "stop": ("watch", "Ask that run to end."),
    "log": ("show", "Every fact of the run, one line each."),
    "report": ("show", "Write the report: html, markdown, json, png."),
    "skip": ("bisect", "Leave a commit out."),
    "good": ("bisect", "Say that a commit is good, on your own word."),
    "bad": ("bisect", "Say that a commit is bad, on your own word."),
    "reset": ("bisect", "End the bisection; its journal is kept."),
    "reproduce": ("compare", "Is this commit slower than its parent?"),
    "compare": ("compare", "Compare two revisions, launch by launch (A = A measures the noise)."),
    "patches": ("patches", "Where in a range the patches apply; capture uncommitted changes."),
    "plan": ("plan", "What a night will cost and find, before it is spent."),
    "doctor": ("doctor", "Check host, repository, recipe and patches before a night."),
    "snapshot": ("environment", "Record what the host is."),
    "diff": ("environment", "What differs between two snapshots, likeliest cause first."),
    "baseline": ("environment", "Keep what the good end gives today, to hold later runs against it."),
    "recipe": ("recipe", "Show, check, or describe recipes."),
}


class _Lazy(click.Group):
    """A group whose commands are imported when called; their one-line helps stand in a table."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 -- click passes it
        return [*COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"bisectperf.cli.{COMMANDS[cmd_name][0]}")
        command: click.Command = getattr(module, cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_module, text) in COMMANDS.items()])


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="bisectperf")
def cli() -> None:
    """Find the commit that made it slower, and prove it.

    \b
    bisectperf start v1.2 main        the whole job, Ctrl-C is safe
    bisectperf run                    go on after any stop
    bisectperf reproduce COMMIT       is it this one?
    """  # noqa: D301 -- \b is click's mark for a paragraph that is not to be refilled


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line and exit with a code of the published table."""
    sys.exit(run(argv))


def run(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    try:
        code = cli.main(args=None if argv is None else list(argv), prog_name="bisectperf", standalone_mode=False)
    except click.exceptions.Abort:
        return ExitCode.INTERRUPTED
    except click.ClickException as error:
        error.show()
        return ExitCode.USAGE
    except BisectperfError as error:
        complain(error)
        return error.exit_code
    except (Interrupted, KeyboardInterrupt):
        click.echo(
            "bisectperf: stopped; `bisectperf run` goes on, and adopts the launch that is still running", err=True
        )
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()
        return ExitCode.FOUND
    return int(code or 0)


def complain(error: BisectperfError) -> None:
    """Say in one sentence what is wrong, and what to do."""
    masking = Masking(secrets_of(os.environ))
    click.echo(f"bisectperf: {masking.text(error.message)}", err=True)
    for line in masking.text(error.detail).splitlines()[-12:]:
        click.echo(f"  | {line}", err=True)
    if error.hint:
        click.echo(f"hint: {error.hint}", err=True)
