"""recipe schema|show|check."""

import json

import click
import msgspec

from bisectperf.cli.common import settings_of
from bisectperf.errors import ExitCode
from bisectperf.recipe.load import load, locate
from bisectperf.recipe.schema import Recipe

SETTINGS = click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Set a parameter.")


@click.group()
def recipe() -> None:
    """Show, check, or describe recipes."""


@recipe.command()
def schema() -> int:
    """Print the JSON Schema of recipe.toml, for editors.

    Example: bisectperf recipe schema > bisectperf.schema.json
    """
    click.echo(json.dumps(msgspec.json.schema(Recipe), indent=1))
    return ExitCode.FOUND


@recipe.command()
@click.argument("path")
@SETTINGS
def show(path: str, settings: tuple[str, ...]) -> int:
    """Print a recipe with every default and setting filled in, as JSON.

    Example: bisectperf recipe show sglang-decode --set model=meta-llama/Llama-3.1-8B
    """
    loaded = load(locate(path), settings_of(settings))
    click.echo(json.dumps({"digest": loaded.digest, "recipe": msgspec.to_builtins(loaded.recipe)}, indent=1))
    return ExitCode.FOUND


@recipe.command()
@click.argument("path")
@SETTINGS
def check(path: str, settings: tuple[str, ...]) -> int:
    """Say whether a recipe is right, else what is wrong and where.

    Example: bisectperf recipe check ./my-recipe
    """
    loaded = load(locate(path), settings_of(settings))
    files = len(loaded.files)
    click.echo(f"{loaded.path}: right ({loaded.recipe.name}, {files} file{'s' * (files != 1)} to copy)")
    click.echo(f"digest {loaded.digest}")
    return ExitCode.FOUND
