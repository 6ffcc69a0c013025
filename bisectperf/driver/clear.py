"""Nothing of ours stays on a host that is not needed any more."""

from pathlib import Path

from bisectperf.driver.drive import site_of, turn
from bisectperf.driver.home import Home, asked_of
from bisectperf.errors import HostUnfit, NoBisection
from bisectperf.hosts import open_host
from bisectperf.recipe.load import Loaded, load, locate


def recipe_of(home: Home) -> Loaded:
    """Return the recipe of the bisection under way, or of the newest run."""
    try:
        folder = home.run()
    except NoBisection:
        names = home.names()
        if not names:
            raise
        folder = home.run(names[-1])
    asked = asked_of(folder)
    return load(Path(asked.recipe), asked.settings)


def clear_host(home: Home, recipe: str | None) -> str:
    """Remove everything that we ever put on the recipe's host, look again, and return what was removed from where.

    Raises `Locked` while a run has its turn there, `HostUnfit` where something is left.
    """
    loaded = load(locate(recipe)) if recipe else recipe_of(home)
    host = open_host(loaded.recipe.host)
    try:
        site = site_of(loaded, "", host)
        with turn(site, "clearing the host", "clearing", jobs="clearing-"):
            left = site.remove("clearing")
        there = host.raw(["test", "-e", site.root]).rc == 0
    finally:
        host.close()
    what = [f"'{name}', which is not ours" for name in left["left"]]
    what += [f"process {pid}" for pid in left["processes"]]
    if there or what:
        raise HostUnfit(f"{host.name}: in {site.root} there is still {', '.join(what) or 'something'}")
    return f"{host.name}: {site.root} is gone, and no process of ours is left"
