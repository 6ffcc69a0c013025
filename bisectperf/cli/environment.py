"""snapshot, diff, baseline: what a host is, and what it was."""

import json
import os
from pathlib import Path

import click

from bisectperf.cli.common import JSON, REPO, RUN, settings_of, with_recipe
from bisectperf.driver.baseline import find, save
from bisectperf.driver.home import Home, journal_of
from bisectperf.driver.setup import find_recipe, home_of
from bisectperf.errors import ExitCode, UserError
from bisectperf.state import fold


@click.command()
@with_recipe
@click.option("--output", "-o", type=click.Path(path_type=Path), help="File to write, for `bisectperf diff`.")
@click.option(
    "--pid", "pids", multiple=True, type=int, help="A process that serves: its libraries and variables too."
)
def snapshot(
    *, recipe: str | None, repo: str | None, settings: tuple[str, ...], output: Path | None, pids: tuple[int, ...]
) -> int:
    """Record what the host is: driver, packages, links, limits, variables.

    Every launch has one of its own; this is for the moment, and for hosts without a run.

    Example: bisectperf snapshot -o today.json
    """
    from bisectperf.hosts import open_host
    from bisectperf.launchers.detached import Detached
    from bisectperf.measure.site import Site, default_root, interpreter, lay_tools
    from bisectperf.recipe.load import load

    loaded = load(find_recipe(recipe, repo), settings_of(settings)).recipe
    host = open_host(loaded.host)
    root = default_root(host, loaded.host.work_dir)
    tools, python = lay_tools(host, root), interpreter(host)
    site = Site(host, root, tools, Detached(host, root, tools, python), python=python, name="snapshot")
    words = {"python": [str(loaded.params.get("python", "python3"))], "pids": list(pids)}
    words |= {"digests": list(loaded.configuration), "secrets": list(loaded.env_from)}
    facts = site.tool("snapshot.py", "take", words)["facts"]
    host.close()
    if output is None:
        for name, text in sorted(facts.items()):
            click.echo(f"{name}: {text}")
        return ExitCode.FOUND
    try:
        descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            json.dump({"facts": facts}, file, indent=1, sort_keys=True)
    except OSError as error:
        raise UserError(f"{output} cannot be written: {error.strerror}", hint="choose another file") from None
    click.echo(str(output))
    return ExitCode.FOUND


@click.command()
@click.argument("a")
@click.argument("b")
@REPO
@RUN
@JSON
def diff(a: str, b: str, *, repo: str | None, name: str | None, as_json: bool) -> int:
    """What differs between two snapshots, likeliest cause first.

    A and B are files of `bisectperf snapshot -o`, launches of the run (L0001-...), or names of baselines.

    Example: bisectperf diff good-days today.json
    """
    import msgspec

    from bisectperf.snapshots import differences

    found = differences(_facts(a, repo, name), _facts(b, repo, name))
    if as_json:
        click.echo(json.dumps(msgspec.to_builtins(found), indent=1))
    else:
        click.echo("\n".join(map(str, found)) if found else "nothing that is recorded differs")
    return ExitCode.FOUND


def _facts(word: str, repo: str | None, name: str | None) -> dict[str, str]:
    path = Path(word)
    if path.is_file():
        try:
            facts = json.loads(path.read_bytes())["facts"]
            return {str(key): str(value) for key, value in facts.items()}
        except (ValueError, KeyError, TypeError, AttributeError):
            raise UserError(f"{word} is no snapshot", hint="`bisectperf snapshot -o FILE` makes one") from None
    home: Home = home_of(repo)
    state = fold(journal_of(home.run(name))) if (home.folder / "HEAD").is_file() or name else None
    launch = next((x for x in state.launches.values() if x.id.startswith(word)), None) if state else None
    if state is not None and launch is not None:
        if not launch.snapshot:
            raise UserError(f"the launch {launch.id} has no snapshot: it never came so far", hint="take another one")
        return state.snapshots[launch.snapshot]
    return find(home, word).baseline.snapshot


@click.group()
def baseline() -> None:
    """Keep what the good end gives today, to hold later runs against it."""


@baseline.command("save")
@click.argument("label", metavar="NAME")
@REPO
@RUN
def save_(label: str, *, repo: str | None, name: str | None) -> int:
    """Keep what the good end of the run gave, and what the host was.

    Example: bisectperf baseline save good-days
    """
    made = save(home_of(repo), label, name)
    click.echo(f"baseline {label}: {len(made.values)} launches kept, for `bisectperf start --against {label}`")
    return ExitCode.FOUND
