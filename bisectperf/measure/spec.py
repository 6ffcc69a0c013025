"""What a launch and a build are told: pure functions of the recipe, the commit and the places on the host."""

import hashlib
from collections.abc import Callable
from typing import Any

import msgspec

from bisectperf.errors import UserError
from bisectperf.model import BuildKey, LaunchId, Sha, TreeId
from bisectperf.recipe.load import Loaded, fill
from bisectperf.recipe.schema import Rule

Ancestry = Callable[[str, Sha], bool | None]
"""(revision, commit) -> is it an ancestor of, or equal to, the commit? None: it is not in the repository."""

_LOG_BYTES = 64 << 20
"""A server that logs without end must not fill the disk."""


class Places(msgspec.Struct, frozen=True, kw_only=True):
    """Absolute paths on the host for one launch."""

    worktree: str
    build: str
    recipe: str
    mirror: str
    pycache: str

    @property
    def cache(self) -> str:
        """Return the folder that all launches share, for compile caches: beside the folders of recipes."""
        return f"{self.recipe.rsplit('/', 2)[0]}/cache"


def active(rule: Rule, sha: Sha, ancestry: Ancestry) -> bool:
    """Return whether `rule` holds at `sha`; raises `UserError` for a revision that is not there, unless it says."""
    since = not rule.since or _reached(rule, rule.since, sha, ancestry)
    return since and not (rule.until and _reached(rule, rule.until, sha, ancestry))


def _reached(rule: Rule, revision: str, sha: Sha, ancestry: Ancestry) -> bool:
    answer = ancestry(revision, sha)
    if answer is not None:
        return answer
    if rule.missing == "error":
        raise UserError(
            f"a rule of the recipe names the commit {revision}, which this repository does not have",
            hint="fetch it, correct it, or say `missing = 'before'` (not reached yet) or 'after' in that rule",
        )
    return rule.missing == "after"


def values(loaded: Loaded, places: Places, seed: int) -> dict[str, object]:
    """Return what each placeholder stands for; `{port}` stays for the host to choose when no port is given."""
    recipe = loaded.recipe
    known: dict[str, object] = {**recipe.params}
    known["python"] = recipe.params.get("python", "python3")
    environment = recipe.environment
    named = fill(environment.python, known) if environment.python != "{python}" else str(known["python"])
    python = f"{places.build}/venv/bin/python" if environment.policy == "own" else named
    return known | {
        "worktree": places.worktree,
        "recipe": places.recipe,
        "build": places.build,
        "cache": places.cache,
        "job": "{job}",
        "python": python,
        "port": recipe.params.get("port") or "{port}",
        "warmup": recipe.warmup,
        "repetitions": recipe.repetitions,
        "seed": seed,
    }


def build_commands(loaded: Loaded, known: dict[str, object]) -> list[list[str]]:
    """Return the build's argvs; policy `own` begins with an environment made for this build alone."""
    recipe = loaded.recipe
    commands = [[fill(word, known) for word in argv] for argv in recipe.build.commands]
    if recipe.environment.policy != "own":
        return commands
    base = fill(recipe.environment.python, {**recipe.params, "python": recipe.params.get("python", "python3")})
    make = [base, "-m", "venv", "--clear", f"{known['build']}/venv"]
    needs = [fill(word, known) for word in recipe.environment.requirements]
    return [make, [str(known["python"]), "-m", "pip", "install", "--no-input", *needs], *commands]


def build_key(loaded: Loaded, depends: str, toolchain: str, serial: int) -> BuildKey:
    """Return the key of a build: what it depends on, its recipe, the toolchain, and `serial` for a rebuild."""
    recipe = loaded.recipe
    parts = [
        depends,
        toolchain,
        msgspec.json.encode([recipe.build, recipe.environment], order="sorted").decode(),
        msgspec.json.encode(recipe.params if recipe.build.commands else {}, order="sorted").decode(),
        str(serial),
    ]
    return BuildKey(hashlib.sha256("\0".join(parts).encode()).hexdigest())


def _with_rules(
    argv: tuple[str, ...], env: dict[str, str], rules: list[Rule], known: dict[str, object]
) -> dict[str, Any]:
    words, variables = list(argv), dict(env)
    for rule in rules:
        words += rule.argv
        variables |= rule.env
    return {"argv": [fill(w, known) for w in words], "env": {k: fill(v, known) for k, v in variables.items()}}


def launch_spec(  # one table, read top to bottom against docs/proof.md
    loaded: Loaded,
    places: Places,
    *,
    launch: LaunchId,
    sha: Sha,
    tree: TreeId,
    seed: int,
    ancestry: Ancestry,
) -> dict[str, Any]:
    """Return the specification that the host's launch script reads."""
    recipe = loaded.recipe
    known = values(loaded, places, seed)
    bench = recipe.bench
    rules = [r for r in bench.rules if active(r, sha, ancestry)]
    spec: dict[str, Any] = {
        "launch": launch,
        "worktree": places.worktree,
        "git_dir": places.mirror,
        "tree": tree,
        "allow": list(recipe.build.artifacts),
        "submodules": recipe.repo.submodules,
        "environment": {"import_root": "", "packages": [], "pycache": places.pycache},
        "prologue": recipe.host.prologue,
        "server": _server(loaded, places, sha, known, ancestry) if recipe.launch else None,
        "bench": _with_rules(bench.argv, bench.env, rules, known)
        | {
            "cwd": fill(bench.cwd, known),
            "timeout": bench.timeout,
            "regex": bench.regex,
            "path": bench.path,
            "warmup": recipe.warmup,
            "repetitions": recipe.repetitions,
        },
        "metric": recipe.metric.name,
        "secondary": list(recipe.secondary),
        "guards": [msgspec.to_builtins(guard) for guard in recipe.guards],
        "facts": [[fill(word, known) for word in argv] for argv in recipe.facts],
        "port": int(recipe.params.get("port") or 0),
        "snapshot": {"digests": list(recipe.configuration), "secrets": list(recipe.env_from)},
        "limits": {"log_bytes": _LOG_BYTES},
    }
    packages = [name for name in (fill(word, known) for word in recipe.environment.packages) if name]
    if recipe.environment.policy != "none" or packages:
        spec["environment"] |= {
            "import_root": f"{places.worktree}/{recipe.environment.import_root}".rstrip("/.") or "/",
            "packages": packages,
        }
    return spec


def _server(loaded: Loaded, places: Places, sha: Sha, known: dict[str, object], ancestry: Ancestry) -> dict[str, Any]:
    launch = loaded.recipe.launch
    if launch is None:
        raise ValueError("the recipe launches no server")
    rules = [r for r in launch.rules if active(r, sha, ancestry)]
    server = _with_rules(launch.argv, launch.env, rules, known)
    return server | {
        "cwd": places.worktree,
        "ready": {
            "http": fill(launch.ready.http, known),
            "log": launch.ready.log,
            "command": [fill(w, known) for w in launch.ready.command],
            "timeout": launch.ready.timeout,
        },
        "grace": launch.grace,
        "expect_env": server["env"],
    }


def gpus(loaded: Loaded) -> tuple[str, ...]:
    """Return the GPUs that launches are confined to by `..._VISIBLE_DEVICES` in their environment; empty: all."""
    recipe = loaded.recipe
    rules = [*(recipe.launch.rules if recipe.launch else ()), *recipe.bench.rules]
    tables = [recipe.launch.env if recipe.launch else {}, recipe.bench.env, *(rule.env for rule in rules)]
    named = [value for table in tables for name, value in table.items() if name.endswith("_VISIBLE_DEVICES")]
    listed = {word.strip() for value in named for word in fill(value, recipe.params).split(",")}
    return tuple(sorted(listed - {""}))
