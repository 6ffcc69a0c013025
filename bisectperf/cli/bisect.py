"""start, run, skip, good, bad, reset."""

import time
from pathlib import Path
from typing import Literal

import click
import msgspec

from bisectperf.cli.common import (
    DETACH,
    JSON,
    PLAIN,
    REPO,
    RUN,
    detached,
    finish,
    settings_of,
    watching,
    with_limits,
    with_recipe,
)
from bisectperf.cli.driven import driven
from bisectperf.driver.begin import begin_bisection, mark, resume
from bisectperf.driver.detach import controller, told
from bisectperf.driver.home import journal_of
from bisectperf.driver.limits import limits_of
from bisectperf.driver.setup import home_of, open_setup
from bisectperf.errors import ExitCode, Locked
from bisectperf.model import Limits
from bisectperf.state import fold


@click.command()
@click.argument("good")
@click.argument("bad")
@with_recipe
@click.option("--confidence", type=click.FloatRange(0.5, 0.9999), default=0.99, show_default=True)
@with_limits
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of prompts and whatever else is drawn.")
@click.option("--was", type=click.FloatRange(min=0, min_open=True), help="What GOOD once gave, in the metric's unit.")
@click.option("--against", metavar="NAME", help="A saved baseline that GOOD is held against first.")
@click.option("--search-anyway", is_flag=True, help="Search the commits even where GOOD is slower than it was.")
@DETACH
@JSON
@PLAIN
def start(
    good: str,
    bad: str,
    *,
    recipe: str | None,
    repo: str | None,
    settings: tuple[str, ...],
    confidence: float,
    until: str | None,
    budget: str | None,
    max_launches: int | None,
    seed: int,
    was: float | None,
    against: str | None,
    search_anyway: bool,
    detach: bool,
    as_json: bool,
    plain: bool,
) -> int:
    """Find the commit between GOOD and BAD that made it slower.

    Measures both ends first, then the commits in between, and confirms what it finds. Ctrl-C is safe: `bisectperf
    run` goes on.

    Example: bisectperf start bba2fc4 3207427
    """
    with watching(plain=plain or as_json) as watcher:
        limits = limits_of(time.time(), until=until, budget=budget, launches=max_launches)
        setup = open_setup(recipe, settings_of(settings), repo, watcher)
        folder = begin_bisection(
            setup,
            good,
            bad,
            confidence=confidence,
            seed=seed,
            teller=watcher,
            was=was,
            against_name=against,
            search_anyway=search_anyway,
        )
        if not detach:
            state = driven(setup, folder, watcher, limits)
    if detach:
        return detached(folder, setup.asked.repo, limits)
    return finish(state, folder, as_json=as_json)


@click.command()
@REPO
@RUN
@with_limits
@DETACH
@click.option("--limits", "given", hidden=True, help="Limits as JSON, from whoever started this controller.")
@click.option("--ready-fd", type=int, hidden=True, help="Descriptor on which to say that the run is under way.")
@JSON
@PLAIN
def run(
    repo: str | None,
    name: str | None,
    *,
    until: str | None,
    budget: str | None,
    max_launches: int | None,
    detach: bool,
    given: str | None,
    ready_fd: int | None,
    as_json: bool,
    plain: bool,
) -> int:
    """Go on with the bisection, after any stop.

    Whatever was measured counts; a launch that was in flight is adopted where its job goes on. Limits that a stop
    has used up are gone; new ones may be given.

    Example: bisectperf run
    """
    with watching(plain=plain or as_json) as watcher:
        setup, folder = resume(home_of(repo), name, watcher)
        had = len(fold(journal_of(folder)).launches)
        limits = limits_of(time.time(), until=until, budget=budget, launches=max_launches, had=had)
        if given is not None:
            limits = msgspec.json.decode(given, type=Limits)
        if not detach:
            state = driven(setup, folder, watcher, limits, lambda: told(ready_fd))
    if detach:
        return detached(folder, setup.asked.repo, limits)
    return finish(state, folder, as_json=as_json)


def _marking(kind: Literal["skip", "good", "bad"], text: str) -> click.Command:
    @click.command(kind, help=f"{text}\n\nExample: bisectperf {kind} d07e8aa4a")
    @click.argument("commits", nargs=-1, required=True)
    @click.option("--because", default="", metavar="TEXT", help="A reason, kept in the journal.")
    @REPO
    def command(commits: tuple[str, ...], *, because: str, repo: str | None) -> int:
        for sha in mark(home_of(repo), commits, kind, because):
            click.echo(f"{sha[:12]} is marked {kind}")
        return ExitCode.FOUND

    return command


skip = _marking("skip", "Leave commits out of the search.")
good = _marking("good", "Say that commits are good, on your own word: nothing up to them is suspected any more.")
bad = _marking("bad", "Say that commits are bad, on your own word: nothing behind them is suspected any more.")


@click.command()
@REPO
@click.option("--host", "host_too", is_flag=True, help="Remove everything of ours on the host instead.")
@click.option("--recipe", "-r", metavar="PATH|NAME", help="With --host: the recipe that names it.")
def reset(repo: str | None, recipe: str | None, *, host_too: bool) -> int:
    """End the bisection; its journal is kept.

    With --host, builds, checkouts, tools and jobs on the recipe's host go, and the host is asked again whether they
    are gone; bisections and journals here stay, and what is built anew next time is all that it costs.

    Example: bisectperf reset
    """
    home = home_of(repo)
    if host_too:
        from bisectperf.driver.clear import clear_host

        click.echo(clear_host(home, recipe))
        return ExitCode.FOUND
    known = controller(home)
    if known is not None:
        raise Locked(
            f"{known.run} is being driven by process {known.process.pid} of {known.who}",
            hint="end it first: `bisectperf stop`",
        )
    name = home.forget()
    click.echo(
        f"the bisection {name} is ended; its journal stays: {Path(home.folder, 'runs', name, 'journal.jsonl')}"
    )
    return ExitCode.FOUND
