"""From a run that was begun to its end: open the host, take its lock, let the loop work."""

import hashlib
import itertools
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TypeVar

from bisectperf import __version__
from bisectperf import events as ev
from bisectperf.driver.loop import BACKOFF, Loop
from bisectperf.driver.setup import Setup, Teller, stack_of
from bisectperf.errors import HostUnavailable
from bisectperf.hosts import open_host
from bisectperf.hosts.base import Host
from bisectperf.identity import here, who
from bisectperf.journal import Journal
from bisectperf.launchers.detached import Detached
from bisectperf.launchers.hostlock import HostLock
from bisectperf.masking import Masking, secrets_of
from bisectperf.measure.bench import HostBench, Progress, Source
from bisectperf.measure.site import Site, default_root, interpreter, lay_tools
from bisectperf.measure.spec import gpus
from bisectperf.model import Limits, Line, Plan, Sha
from bisectperf.patches import inner_line
from bisectperf.recipe.load import Loaded
from bisectperf.recipe.schema import Recipe
from bisectperf.search import Measure
from bisectperf.state import State, apply, fold

T = TypeVar("T")


def go(
    setup: Setup, folder: Path, teller: Teller, limits: Limits | None = None, begun: Callable[[], None] = lambda: None
) -> State:
    """Drive the run in `folder` to its verdict, or until `limits` stop it, and return the final state.

    `begun` is called once the locks are ours. Raises `Locked` when another run has the repository or the host.
    """
    with setup.home.open(folder) as journal:
        state = fold(journal)
        if state.decided is not None:
            teller.say("this run has its verdict already")
            return state
        with ExitStack() as held:
            host = open_host(setup.loaded.recipe.host)
            held.callback(host.close)
            site = _patiently(lambda: site_of(setup.loaded, setup.asked.repo, host), journal, teller)
            lock = _patiently(lambda: held.enter_context(_turn_of(setup, site, folder)), journal, teller)
            _patiently(lambda: site.prune(state, run_id(folder)), journal, teller)
            masking = _masking(setup.loaded.recipe)

            def progress(phase: str, text: str) -> None:
                teller.progress(phase, masking.text(text))

            bench = RangeBench(setup, state.asked, site, lock, run=run_id(folder), progress=progress)
            loop = Loop(journal, bench, teller, masking=masking)
            if len(journal.events) > 1 + len(state.lines):
                loop.append(ev.Resumed(at=time.time(), version=__version__))
            if limits is not None:
                loop.append(ev.Limited(at=time.time(), limits=limits))
            begun()
            return loop.run()


def _patiently(act: Callable[[], T], journal: Journal, teller: Teller) -> T:
    """Return what `act` does on the host; one that served this run before is waited for, as during the night.

    A host that never answered is more likely a wrong name, and its user is still there to hear so.
    """
    for attempt in itertools.count():
        try:
            return act()
        except HostUnavailable as error:
            state = fold(journal)
            seconds = BACKOFF[min(attempt, len(BACKOFF) - 1)]
            until = state.limits.until
            if not state.launches or (until is not None and time.time() + seconds > until):
                raise
            waited = ev.Waited(at=time.time(), host=state.asked.hosts[0], seconds=seconds, reason=error.message)
            journal.append(waited)
            teller.event(waited, apply(state, waited))
            time.sleep(seconds)
    raise AssertionError


class RangeBench(HostBench):
    """A bench that also knows the history, and whose turn it is on the host."""

    def __init__(self, setup: Setup, plan: Plan, site: Site, lock: HostLock, *, run: str, progress: Progress) -> None:
        self.setup, self.lock = setup, lock
        ends = [plan.good, plan.bad]
        commits = setup.store.path(*ends) if plan.mode == "bisect" else setup.store.read_commits(ends)
        self.stack = stack = stack_of(setup, plan.good, commits)
        source = Source(
            commit_of=lambda tree, _sha: stack.commit_of(tree),
            pack=setup.store.pack,
            digest_of=setup.store.digest_of,
            ancestry=stack.reached,
        )
        super().__init__(setup.loaded, source, site, run=run, seed=plan.seed, progress=progress)

    def measure(self, step: Measure, state: State) -> Iterator[ev.AnyEvent]:
        """Yield the facts of one launch, as long as the host is ours."""
        self.lock.require()
        return super().measure(step, state)

    def inner_line(self, merge: Sha, outer: Line) -> Line | None:
        """Return the line inside `merge`."""
        repo = self.setup.loaded.recipe.repo
        return inner_line(
            self.setup.store, self.stack, outer, merge, code=[*repo.code, *repo.pins] if repo.code else []
        )


def _masking(recipe: Recipe) -> Masking:
    """Return what keeps secrets out of the journal: those of our environment, and those that the recipe sets."""
    written = {**recipe.build.env, **recipe.bench.env, **(recipe.launch.env if recipe.launch else {})}
    names = [*recipe.env_from, *recipe.secrets]
    return Masking(secrets_of(written, names) | secrets_of(os.environ, names))


def run_id(folder: Path) -> str:
    """Return what the names of a run's jobs begin with."""
    return hashlib.sha256(folder.name.encode()).hexdigest()[:8]


def site_of(loaded: Loaded, repo: str, host: Host) -> Site:
    """Return our folder on the host, with our scripts in it."""
    root = default_root(host, loaded.recipe.host.work_dir)
    tools = lay_tools(host, root)
    python = interpreter(host)
    name = hashlib.sha256(repo.encode()).hexdigest()[:12]
    return Site(host, root, tools, Detached(host, root, tools, python), python=python, name=name)


def _turn_of(setup: Setup, site: Site, folder: Path) -> HostLock:
    token = hashlib.sha256(f"{setup.asked.repo}\0{folder.name}".encode()).hexdigest()[:16]
    name = f"{folder.name} ({setup.loaded.recipe.name})"
    return turn(site, name, token, jobs=f"{run_id(folder)}-", uses=gpus(setup.loaded))


def turn(site: Site, name: str, token: str, *, jobs: str, uses: Sequence[str] = ()) -> HostLock:
    """Return the lock on the host (or on the GPUs in `uses`) for what others are told as `name`."""
    owner = f"{name}, process {here().pid} of {who()}"
    return HostLock(
        site.host, site.root, site.tools, owner=owner, token=token, jobs=jobs, uses=uses, python=site.python
    )
