"""What an end once gave, and what the host was then: kept by name, to hold later runs against."""

from pathlib import Path

import msgspec

from bisectperf.driver.home import Home, journal_of
from bisectperf.errors import UserError
from bisectperf.model import Baseline, Metric, Samples
from bisectperf.state import fold, value_of


class Saved(msgspec.Struct, frozen=True, kw_only=True):
    """A baseline in its file: of which tree, and by which recipe."""

    baseline: Baseline
    tree: str
    recipe_digest: str


def place(home: Home, name: str) -> Path:
    """Return the file of a baseline; raises `UserError` for a name that is none."""
    if not name or name.startswith(".") or not all(c.isalnum() or c in "._-" for c in name):
        raise UserError(f"'{name}' is no name for a baseline", hint="letters, digits, '.', '_' and '-'")
    return home.folder / "baselines" / f"{name}.json"


def save(home: Home, name: str, run: str | None) -> Baseline:
    """Keep what the good end of a run gave; raises `UserError` where it was measured less than twice."""
    state = fold(journal_of(home.run(run)))
    tree = state.lines[0].positions[0].tree
    launches = [x for x in state.measured() if x.tree == tree and x.value is not None]
    if tree is None or len(launches) < 2:
        raise UserError("the good end of that run was not measured twice", hint="`bisectperf run` goes on with it")
    facts = state.snapshots.get(launches[-1].snapshot, {})
    made = Baseline(name=name, values=tuple(x.value for x in launches if x.value is not None), snapshot=facts)
    path = place(home, name)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    saved = Saved(baseline=made, tree=tree, recipe_digest=state.asked.recipe_digest)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(saved)))
    path.chmod(0o600)
    return made


def find(home: Home, name: str) -> Saved:
    """Return a baseline by its name; raises `UserError` where there is none, or its file is damaged."""
    path = place(home, name)
    try:
        return msgspec.json.decode(path.read_bytes(), type=Saved)
    except FileNotFoundError:
        known = ", ".join(sorted(p.stem for p in path.parent.glob("*.json"))) or "none"
        raise UserError(
            f"there is no baseline '{name}'", hint=f"there are: {known}; `bisectperf baseline save NAME` makes one"
        ) from None
    except msgspec.MsgspecError as error:
        raise UserError(f"{path} is damaged: {error}", hint="save the baseline again") from None


def against(home: Home, name: str, tree: str | None, recipe_digest: str) -> Baseline:
    """Return a baseline that a run of this good end and recipe can be held against; raises `UserError` otherwise."""
    saved = find(home, name)
    if saved.tree != tree:
        raise UserError(
            f"the baseline '{name}' is of the tree {saved.tree[:9]}, this good end is {(tree or 'none')[:9]}",
            hint="start with the good end that it was saved from, or give the number alone with --was",
        )
    if saved.recipe_digest != recipe_digest:
        raise UserError(
            f"the baseline '{name}' was measured by another recipe ({saved.recipe_digest[:12]})",
            hint="launches of two recipes cannot be compared; give the number alone with --was",
        )
    return saved.baseline


def remembered(metric: Metric, number: float) -> Baseline:
    """Return the baseline of a number that somebody remembers, in the metric's unit."""
    return Baseline(name=f"{number:g}", values=(value_of(Samples(repetitions=(number,)), metric),))
