"""status, log, report: what the journal says, for people and for machines."""

import json
import shutil
import sys
import time
from pathlib import Path

import click

from bisectperf.cli.common import JSON, REPO, RUN
from bisectperf.driver.detach import controller
from bisectperf.driver.home import journal_of
from bisectperf.driver.setup import home_of
from bisectperf.errors import ExitCode
from bisectperf.state import State as State_
from bisectperf.state import apply, fold


@click.command()
@REPO
@RUN
@JSON
def status(repo: str | None, name: str | None, *, as_json: bool) -> int:
    """What is known, and what happens now.

    Example: bisectperf status --json
    """
    from bisectperf.report import jsonout, text
    from bisectperf.search.eta import eta

    home = home_of(repo)
    state = fold(journal_of(home.run(name)))
    if as_json:
        click.echo(json.dumps(jsonout.to_json(state, time.time()), indent=1))
    else:
        known = controller(home)
        if known is not None and known.run == home.run(name).name:
            since = time.strftime("%Y-%m-%d %H:%M", time.localtime(known.since))
            click.echo(f"driven by process {known.process.pid} of {known.who} since {since}")
        elif state.decided is None and state.stopped is None:
            click.echo("nobody drives it now: `bisectperf run` goes on with it")
        click.echo(text.status(state, time.time(), width=shutil.get_terminal_size().columns, found=eta(state)))
    return ExitCode.FOUND


@click.command()
@REPO
@RUN
@JSON
def log(repo: str | None, name: str | None, *, as_json: bool) -> int:
    """Every fact of the run, one line each.

    Example: bisectperf log | grep void
    """
    from bisectperf.report import text

    folder = home_of(repo).run(name)
    if as_json:
        click.echo((folder / "journal.jsonl").read_text(), nl=False)
        return ExitCode.FOUND
    state = State_()
    for event in journal_of(folder):
        state = apply(state, event)
        line = text.event_line(event, state)
        if line:
            click.echo(f"{time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(event.at))} {line}")
    return ExitCode.FOUND


@click.command()
@REPO
@RUN
@click.option("--format", "kind", type=click.Choice(["html", "markdown", "json", "png"]), default="html")
@click.option("--output", "-o", type=click.Path(path_type=Path), help="File to write ('-': standard output).")
@click.option("--private", is_flag=True, help="Show host names and paths in the Markdown report.")
def report(repo: str | None, name: str | None, kind: str, output: Path | None, *, private: bool) -> int:
    """Write the report: html, markdown, json, png.

    Example: bisectperf report --format markdown -o issue.md
    """
    folder = home_of(repo).run(name)
    state = fold(journal_of(folder))
    data = rendered(state, kind, private=private)
    if str(output) == "-":
        sys.stdout.buffer.write(data)
        return ExitCode.FOUND
    suffix = {"markdown": "md"}.get(kind, kind)
    target = output or folder / f"report.{suffix}"
    target.write_bytes(data)
    click.echo(str(target))
    return ExitCode.FOUND


def rendered(state: State_, kind: str, *, private: bool) -> bytes:
    """Return the report of `state` in the format asked for."""
    now = time.time()
    if kind == "html":
        from bisectperf.report.html import to_html

        return to_html(state, now).encode()
    if kind == "markdown":
        from bisectperf.report.markdown import to_markdown

        return to_markdown(state, private=private).encode()
    if kind == "png":
        from bisectperf.report.chart import to_png

        return to_png(state)
    from bisectperf.report.jsonout import to_json

    return json.dumps(to_json(state, now), indent=1).encode() + b"\n"
