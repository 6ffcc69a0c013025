"""From a question to a run: resolve the ends, draw the line, open the site, drive."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from msgspec.structs import replace

from bisectperf import __version__
from bisectperf import events as ev
from bisectperf.driver.baseline import against, remembered
from bisectperf.driver.home import Home, asked_of, journal_of
from bisectperf.driver.setup import Setup, Teller, open_setup, stack_of
from bisectperf.errors import UserError
from bisectperf.hosts import host_name
from bisectperf.model import Baseline, Line, Plan, Sha
from bisectperf.patches import PatchMap, Stack, draw_line, range_map
from bisectperf.repo import Store
from bisectperf.state import fold


def begin_bisection(
    setup: Setup,
    good_word: str,
    bad_word: str,
    *,
    confidence: float,
    seed: int,
    teller: Teller,
    was: float | None = None,
    against_name: str | None = None,
    search_anyway: bool = False,
) -> Path:
    """Resolve the ends, map the patches, write the first facts; return the run's folder.

    Raises `UserError` when the question makes no sense, or one of its ends cannot carry the patches.
    """
    _require_no_other(setup.home)
    commits = setup.range(good_word, bad_word)
    good, bad = commits[0].sha, commits[-1].sha
    stack = stack_of(setup, good, commits)
    _require_end(stack, good, "GOOD")
    _require_end(stack, bad, "BAD")
    teller.say(f"{len(commits) - 1} commits between {good[:12]} and {bad[:12]} (first parents); mapping patches")
    code = setup.loaded.recipe.repo
    line = draw_line(setup.store, stack, commits, code=code.code, pins=code.pins)
    if len(line.positions) < 2:
        raise UserError(
            f"after patching, {good[:12]} and {bad[:12]} have the same code: no commit between them can be the cause",
            hint="look at what lies outside of the repository: driver, packages, configuration, the machine",
        )
    testable = sum(p.tree is not None for p in line.positions)
    teller.say(
        f"{len(line.positions) - 1} candidates with code of their own, {len(line.positions) - testable} untestable"
    )
    plan = replace(
        _plan(setup, "bisect", good, bad, confidence=confidence, seed=seed),
        baseline=_baseline(setup, line, was, against_name),
        search_anyway=search_anyway,
    )
    return _write_first(setup, plan, line, f"{good[:8]}..{bad[:8]}", head=True)


def begin_comparison(setup: Setup, a_word: str, b_word: str, *, max_launches: int, seed: int, teller: Teller) -> Path:
    """Write the first facts of a comparison, or find the one that was stopped; return its folder."""
    a, b = setup.resolve(a_word), setup.resolve(b_word)
    going = setup.home.unfinished("compare", a, b, setup.loaded.digest)
    if going:
        teller.say(f"going on with {going.name}")
        return going
    setup.bring([a, b])
    commits = [setup.store.commit(a), setup.store.commit(b)]
    stack = stack_of(setup, a, commits)
    for sha, name in ((a, "A"), (b, "B")):
        _require_end(stack, sha, name)
    first, second = (draw_line(setup.store, stack, [commit]).positions[0] for commit in commits)
    plan = _plan(setup, "compare", a, b, confidence=0.95, max_launches=max_launches, seed=seed)
    return _write_first(setup, plan, Line(positions=(first, second)), f"{a[:8]}-{b[:8]}", head=False)


def parent_of(setup: Setup, word: str) -> str:
    """Return the first parent of a commit; raises `UserError` for a root."""
    sha = setup.resolve(word)
    setup.bring([sha])
    commit = setup.store.commit(sha)
    if not commit.parents:
        raise UserError(
            f"{commit.sha[:12]} has no parent to compare with", hint="`bisectperf compare A B` takes any two"
        )
    return commit.parents[0]


def resume(home: Home, name: str | None, teller: Teller) -> tuple[Setup, Path]:
    """Return the setup and folder of a run that was begun; a recipe that changed since is refused."""
    folder = home.run(name)
    asked = asked_of(folder)
    setup = open_setup(asked.recipe, asked.settings, asked.repo, teller)
    plan = fold(journal_of(folder)).asked
    if setup.loaded.digest != plan.recipe_digest:
        raise UserError(
            f"the recipe {asked.recipe} is not what this run began with (digest {setup.loaded.digest[:12]}, "
            f"then {plan.recipe_digest[:12]})",
            hint="put it back, or `bisectperf reset` and start again: launches of another recipe cannot count",
        )
    return setup, folder


def survey(setup: Setup, good_word: str, bad_word: str) -> list[PatchMap]:
    """Return where in a range each patch applies, and how."""
    commits = setup.range(good_word, bad_word)
    return range_map(stack_of(setup, commits[0].sha, commits), commits)


def mark(home: Home, words: Sequence[str], kind: Literal["skip", "good", "bad"], because: str) -> list[Sha]:
    """Write the user's word on commits into the journal; return the commits."""
    folder = home.run()
    store = Store(home.store)
    shas = [store.resolve(word) for word in words]
    with home.open(folder) as journal:
        line = fold(journal).line
        for sha in shas:
            place = next((p for p in line.positions if sha in p.commits), None)
            if place is None:
                raise UserError(
                    f"{sha[:12]} is not among the commits being searched", hint="`bisectperf log` shows them"
                )
            journal.append(ev.Marked(at=time.time(), sha=place.sha, mark=kind, reason=because))
    return shas


def _require_end(stack: Stack, sha: Sha, name: str) -> None:
    made = stack.compose(sha)
    if made.tree is None:
        raise UserError(
            f"{name} {sha[:12]} cannot be measured: {made.problem}",
            hint="nothing was launched; `bisectperf patches GOOD..BAD` shows where in the range the stack applies",
        )


def _require_no_other(home: Home) -> None:
    if not (home.folder / "HEAD").is_file():
        return
    folder = home.run()
    if fold(journal_of(folder)).decided is None:
        raise UserError(
            f"the bisection {folder.name} has no verdict yet",
            hint="`bisectperf run` goes on with it, `bisectperf reset` ends it (its journal is kept)",
        )


def _plan(
    setup: Setup,
    mode: Literal["bisect", "compare"],
    good: Sha,
    bad: Sha,
    *,
    confidence: float,
    seed: int,
    max_launches: int = 1000,
) -> Plan:
    recipe = setup.loaded.recipe
    return Plan(
        mode=mode,
        good=good,
        bad=bad,
        metric=recipe.metric,
        recipe=recipe.name,
        recipe_digest=setup.loaded.digest,
        repetitions=recipe.repetitions,
        warmup=recipe.warmup,
        seed=seed,
        confidence=confidence,
        hosts=(host_name(recipe.host),),
        max_launches=max_launches,
        build_seconds=60.0 if recipe.build.commands else 0.0,
    )


def _baseline(setup: Setup, line: Line, was: float | None, name: str | None) -> Baseline | None:
    if was is not None and name is not None:
        raise UserError("--was and --against both say what the good end once gave", hint="give one of them")
    if was is not None:
        return remembered(setup.loaded.recipe.metric, was)
    return against(setup.home, name, line.positions[0].tree, setup.loaded.digest) if name else None


def _write_first(setup: Setup, plan: Plan, line: Line, label: str, *, head: bool) -> Path:
    folder = setup.home.new(label, setup.asked, head=head)
    with setup.home.open(folder) as journal:
        journal.append(ev.Started(at=time.time(), plan=plan, version=__version__))
        journal.append(ev.LineDrawn(at=time.time(), line=line))
    return folder
