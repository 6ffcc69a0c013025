"""What the types of a recipe alone cannot refuse: exactly-one rules, placeholders, regular expressions."""

import re
from collections.abc import Iterator
from pathlib import Path

from bisectperf.errors import UserError
from bisectperf.recipe.schema import Recipe, Rule, Source

DRIVER_NAMES = frozenset(
    {"worktree", "recipe", "job", "build", "cache", "port", "python", "warmup", "repetitions", "seed"}
)
PLACEHOLDER = re.compile(r"\{\{|\}\}|\{([a-z_][a-z0-9_]*)\}")


def check(recipe: Recipe, path: Path) -> None:
    """Refuse what types alone cannot: exactly-one rules, unknown placeholders, bad regular expressions."""
    for where, rule in _one_of(recipe):
        if rule.count(True) != 1:
            raise UserError(f"{path}: {where}", hint="give exactly one of them")
    known = DRIVER_NAMES | recipe.params.keys()
    for where, text in _strings(recipe):
        for match in PLACEHOLDER.finditer(text):
            if match.group(1) and match.group(1) not in known:
                raise UserError(
                    f"{path}: {where} uses {{{match.group(1)}}}, which is no parameter",
                    hint=f"add it to [params], or write {{{{ for a brace; known: {', '.join(sorted(known))}",
                )
    patterns = [("bench.regex", recipe.bench.regex)]
    patterns += [("launch.ready.log", recipe.launch.ready.log)] if recipe.launch else []
    patterns += [(f"guard '{g.name}'.log_absent", g.log_absent) for g in recipe.guards]
    for where, pattern in patterns:
        try:
            groups = re.compile(pattern).groups
        except re.error as error:
            raise UserError(f"{path}: {where} is no regular expression: {error}", hint="mend the pattern") from None
        if where == "bench.regex" and pattern and groups != 1:
            raise UserError(f"{path}: bench.regex has {groups} groups", hint="mark the number with one ( )")
    if recipe.environment.policy == "own" and not recipe.environment.requirements:
        raise UserError(f"{path}: environment.policy 'own' needs environment.requirements", hint="what pip installs")


def _one_of(recipe: Recipe) -> Iterator[tuple[str, list[bool]]]:
    for patch in recipe.patches:
        sources: list[Source] = [*patch.variants] if patch.variants else [patch]
        if patch.variants and any((patch.diff, patch.overlay, patch.script)):
            sources.append(patch)
        for source in sources:
            given = [bool(source.diff), bool(source.overlay), bool(source.script)]
            yield f"patch '{patch.name}' needs exactly one of diff, overlay, script in each variant", given
        for claim in patch.assertions:
            given = [bool(claim.symbol), bool(claim.text), bool(claim.sha256)]
            yield f"an assertion of patch '{patch.name}' needs exactly one of symbol, text, sha256", given
    if recipe.launch:
        ready = recipe.launch.ready
        given = [bool(ready.http), bool(ready.log), bool(ready.command)]
        yield "launch.ready needs exactly one of http, log, command", given
    if recipe.bench.regex and recipe.bench.path:
        yield "bench has both regex and path", [True, True]


def _strings(recipe: Recipe) -> Iterator[tuple[str, str]]:
    e = recipe.environment
    for number, argv in enumerate(recipe.build.commands):
        yield from ((f"build.commands[{number}]", word) for word in argv)
    yield from (("build.env", v) for v in recipe.build.env.values())
    yield from (("environment", v) for v in (e.python, *e.requirements, *e.packages))
    yield "bench.cwd", recipe.bench.cwd
    parts = [("bench", recipe.bench.argv, recipe.bench.env, recipe.bench.rules)]
    if recipe.launch:
        parts.append(("launch", recipe.launch.argv, recipe.launch.env, recipe.launch.rules))
        yield from (("launch.ready", v) for v in (recipe.launch.ready.http, *recipe.launch.ready.command))
    for name, argv, env, rules in parts:
        both: tuple[Rule, ...] = (Rule(argv=argv, env=env), *rules)
        for rule in both:
            yield from ((name, word) for word in (*rule.argv, *rule.env.values()))
