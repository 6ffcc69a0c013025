"""patches: where in a range the stack applies; capture: uncommitted changes as a patch."""

import json
from pathlib import Path

import click
import msgspec

from bisectperf.cli.common import JSON, settings_of, watching, with_recipe
from bisectperf.driver.begin import survey
from bisectperf.driver.setup import open_setup
from bisectperf.errors import ExitCode, UserError
from bisectperf.hosts import open_host
from bisectperf.patches import capture
from bisectperf.recipe.schema import Host


@click.command()
@click.argument("words", nargs=-1, required=True, metavar="GOOD..BAD | capture [HOST:]PATH")
@with_recipe
@click.option("--stash", default="", metavar="REF", help="capture: a stash entry instead of the working copy.")
@click.option("--output", "-o", type=click.Path(path_type=Path), help="capture: the file to write.")
@JSON
def patches(
    words: tuple[str, ...],
    *,
    recipe: str | None,
    repo: str | None,
    settings: tuple[str, ...],
    stash: str,
    output: Path | None,
    as_json: bool,
) -> int:
    """Show where in a range the patches apply, or capture uncommitted changes as a patch.

    Neither writes to the repository: not its index, not its stash, not its files.

    Example: bisectperf patches bba2fc4..3207427

    Example: bisectperf patches capture gpu-box:/srv/sglang -o local.patch
    """
    if words[0] == "capture":
        return _capture(words[1] if len(words) > 1 else ".", stash, output)
    good, dots, bad = words[0].partition("..")
    if len(words) != 1 or not dots or not good or not bad:
        raise UserError(f"'{' '.join(words)}' is no range", hint="write GOOD..BAD, as in `patches v1..main`")
    with watching(plain=True) as watcher:
        setup = open_setup(recipe, settings_of(settings), repo, watcher)
        found = survey(setup, good, bad)
    if as_json:
        click.echo(json.dumps(msgspec.to_builtins(found), indent=1))
        return ExitCode.FOUND
    if not found:
        click.echo("the recipe has no patches")
    for patch in found:
        click.echo(f"{patch.patch}:")
        for part in patch.stretches:
            count = f"{part.commits} commit{'s' * (part.commits != 1)}"
            click.echo(f"  {part.first[:12]}..{part.last[:12]}  {count:>14}  {part.status}")
    return ExitCode.FOUND


def _capture(place: str, stash: str, output: Path | None) -> int:
    host, colon, path = place.partition(":")
    there = open_host(Host(ssh=host) if colon else Host())
    found = capture(there, path if colon else str(Path(place).expanduser().resolve()), stash)
    there.close()
    target = output or Path("captured.patch")
    if target.exists():
        raise UserError(f"{target} exists already", hint="give another name with --output")
    target.write_bytes(found.diff)
    click.echo(f"{target}: {len(found.files)} file{'s' * (len(found.files) != 1)}, made on {found.base[:12]}")
    click.echo("add it to the recipe:")
    click.echo(f'\n[[patch]]\nname = "{target.stem}"\ndiff = "{target.name}"\nbase = "{found.base}"')
    return ExitCode.FOUND
