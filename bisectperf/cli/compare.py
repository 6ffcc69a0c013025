"""compare, reproduce: two revisions, launch by launch."""

import click

from bisectperf.cli.common import JSON, PLAIN, finish, settings_of, watching, with_recipe
from bisectperf.cli.driven import driven
from bisectperf.driver.begin import begin_comparison, parent_of
from bisectperf.driver.setup import open_setup


@click.command()
@click.argument("a")
@click.argument("b")
@with_recipe
@click.option("--max-launches", type=click.IntRange(4), default=40, show_default=True)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of prompts and whatever else is drawn.")
@JSON
@PLAIN
def compare(
    a: str,
    b: str,
    *,
    recipe: str | None,
    repo: str | None,
    settings: tuple[str, ...],
    max_launches: int,
    seed: int,
    as_json: bool,
    plain: bool,
) -> int:
    """Compare two revisions, launch by launch (A = A measures the noise).

    Yes: B is slower, the 95 % interval excludes zero. No: the interval lies inside plus or minus the smallest
    effect. Else undecided. Called again after a stop, it goes on.

    Example: bisectperf compare main main
    """
    with watching(plain=plain or as_json) as watcher:
        setup = open_setup(recipe, settings_of(settings), repo, watcher)
        folder = begin_comparison(setup, a, b, max_launches=max_launches, seed=seed, teller=watcher)
        state = driven(setup, folder, watcher)
    return finish(state, folder, as_json=as_json)


@click.command()
@click.argument("commit")
@with_recipe
@click.option("--max-launches", type=click.IntRange(4), default=40, show_default=True)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of prompts and whatever else is drawn.")
@JSON
@PLAIN
def reproduce(
    commit: str,
    *,
    recipe: str | None,
    repo: str | None,
    settings: tuple[str, ...],
    max_launches: int,
    seed: int,
    as_json: bool,
    plain: bool,
) -> int:
    """Is this commit slower than its parent?

    Example: bisectperf reproduce 0be30d4b0
    """
    with watching(plain=plain or as_json) as watcher:
        setup = open_setup(recipe, settings_of(settings), repo, watcher)
        parent = parent_of(setup, commit)
        folder = begin_comparison(setup, parent, commit, max_launches=max_launches, seed=seed, teller=watcher)
        state = driven(setup, folder, watcher)
    return finish(state, folder, as_json=as_json)
