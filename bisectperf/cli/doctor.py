"""doctor: check everything before a night is spent."""

import json

import click
import msgspec

from bisectperf.cli.common import JSON, settings_of, with_recipe
from bisectperf.doctor import examine
from bisectperf.errors import ExitCode

_SIGN = {"ok": "ok     ", "warning": "warning", "wrong": "WRONG  "}


@click.command()
@click.argument("good", required=False)
@click.argument("bad", required=False)
@with_recipe
@JSON
def doctor(
    good: str | None,
    bad: str | None,
    *,
    recipe: str | None,
    repo: str | None,
    settings: tuple[str, ...],
    as_json: bool,
) -> int:
    """Check host, repository, recipe and patches before a night.

    With GOOD and BAD, the patches are mapped over the range too.

    Example: bisectperf doctor bba2fc4 3207427
    """
    if good is not None and bad is None:
        raise click.UsageError("give both GOOD and BAD, or neither")
    ends = (good, bad) if good is not None and bad is not None else None
    wrong = False
    findings = []
    for finding in examine(recipe, settings_of(settings), repo, ends):
        wrong = wrong or finding.level == "wrong"
        if as_json:
            findings.append(msgspec.to_builtins(finding))
            continue
        click.echo(f"{_SIGN[finding.level]}  {finding.about}: {finding.text}")
        if finding.hint:
            click.echo(f"         hint: {finding.hint}")
    if as_json:
        click.echo(json.dumps(findings, indent=1))
    return ExitCode.USAGE if wrong else ExitCode.FOUND
