"""Open what a run needs: the recipe, the repository or its mirror, our object store."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from bisectperf.driver.home import Asked, Home
from bisectperf.driver.loop import Watcher
from bisectperf.errors import UserError
from bisectperf.hosts import open_host
from bisectperf.model import Sha
from bisectperf.patches import Stack
from bisectperf.recipe.load import Loaded, load, locate
from bisectperf.recipe.schema import Host
from bisectperf.repo import Ancestry, Commit, Repository, Store, mirror, remote_state_folder, require_order


class Teller(Watcher, Protocol):
    """A watcher that can also be told what is not a fact: preparations, progress."""

    def say(self, text: str) -> None:
        """Say one line."""
        ...

    def progress(self, phase: str, text: str) -> None:
        """Say what a launch in hand is doing."""
        ...


class Setup(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a run needs, opened. `repo` is the user's; None where it lives only on a host."""

    asked: Asked
    loaded: Loaded
    repo: Repository | None
    home: Home
    store: Store

    def range(self, good_word: str, bad_word: str) -> list[Commit]:
        """Return the commits from good to bad; raises `UserError` when they are no range."""
        good, bad = self.resolve(good_word), self.resolve(bad_word)
        require_order(self.repo or self.store, good, bad)
        self.bring([good, bad])
        return self.store.path(good, bad)

    def resolve(self, word: str) -> Sha:
        """Return the commit that a revision names."""
        return (self.repo or self.store).resolve(word)

    def bring(self, shas: Sequence[Sha]) -> None:
        """Make sure that the store has these commits."""
        if self.repo is not None:
            self.store.bring(self.repo, shas)


_ON_HOST = re.compile(r"(?P<host>[A-Za-z0-9][\w.@-]*):(?P<path>.+)")


def on_host(word: str) -> re.Match[str] | None:
    """Return host and path of `host:path`, or None for a folder of this machine."""
    return None if Path(word).expanduser().exists() else _ON_HOST.fullmatch(word)


def home_of(repo: str | None) -> Home:
    """Return where the runs of a repository are kept."""
    word = repo or "."
    return Home(remote_state_folder(word) if on_host(word) else Repository.open(word).state_folder)


def open_setup(recipe: str | None, settings: Mapping[str, str], repo: str | None, teller: Teller) -> Setup:
    """Return recipe, repository and store, checked; raises `UserError` for what is wrong with them."""
    path = find_recipe(recipe, repo)
    loaded = load(path, settings)
    place = repo or _place(loaded)
    there = on_host(place)
    if there:
        folder = remote_state_folder(place)
        teller.say(f"bringing the history of {place}")
        host = open_host(Host(ssh=there["host"], ssh_config=loaded.recipe.host.ssh_config))
        store = mirror(host, there["path"], folder / "store")
        host.close()
        asked = Asked(recipe=str(path), settings=dict(settings), repo=place)
        return Setup(asked=asked, loaded=loaded, repo=None, home=Home(folder), store=store)
    repository = Repository.open(place)
    repository.require_complete()
    dirt = repository.dirt()
    if dirt:
        teller.say(f"{dirt} in {repository.folder} stay untouched and are not measured; to measure them too, make a")
        teller.say("patch of them with `bisectperf patches capture`")
    home = Home(repository.state_folder)
    asked = Asked(recipe=str(path), settings=dict(settings), repo=str(repository.folder))
    return Setup(asked=asked, loaded=loaded, repo=repository, home=home, store=Store.of(repository, home.store))


def _place(loaded: Loaded) -> str:
    """Return the repository that the recipe names, relative to the recipe; "." is where the user stands."""
    word = loaded.recipe.repo.path
    if word == "." or on_host(word):
        return word
    return str(loaded.folder / Path(word).expanduser())


def find_recipe(word: str | None, repo: str | None) -> Path:
    """Return the recipe: as given, as configured in git, or `bisectperf.toml` in the repository."""
    if word:
        return locate(word)
    if repo and on_host(repo):
        raise UserError("a repository on a host needs its recipe here", hint="give it with --recipe PATH")
    repository = Repository.open(repo or ".")
    configured = repository.config("bisectperf.recipe")
    if configured:
        given = Path(configured).expanduser()
        return locate(
            str(
                given
                if given.is_absolute() or not (repository.folder / given).exists()
                else repository.folder / given
            )
        )
    for place in (repository.folder / "bisectperf.toml", repository.common / "bisectperf.toml"):
        if place.is_file():
            return place
    raise UserError(
        "no recipe is known for this repository",
        hint="give --recipe PATH, or `git config bisectperf.recipe PATH`, or put a bisectperf.toml there",
    )


def stack_of(setup: Setup, good: Sha, line: Sequence[Commit]) -> Stack:
    """Return the patch stack over a range."""
    return Stack(
        setup.store,
        setup.loaded.folder,
        setup.loaded.recipe.patches,
        good=good,
        line=[commit.sha for commit in line],
        reached=Ancestry(setup.store, [commit.sha for commit in line]),
    )
