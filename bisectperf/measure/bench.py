"""One step -> facts: bring the tree, build it, launch it, read what came out.

Everything here may be repeated: a crash between any two events resumes with the same launch id, finds the job
folder, and goes on from there.
"""

import contextlib
import hashlib
import json
import os
import shlex
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from bisectperf import events as ev
from bisectperf.errors import CommitUntestable, HostUnavailable, HostUnfit, LaunchFlaky
from bisectperf.gate import gate_spec
from bisectperf.launchers.base import Job, JobStatus
from bisectperf.measure.outcome import failure, measured
from bisectperf.measure.site import BARE, Site
from bisectperf.measure.spec import Ancestry, Places, build_commands, build_key, launch_spec, values
from bisectperf.model import Build, BuildKey, LaunchId, Sha, TreeId
from bisectperf.recipe.load import Loaded
from bisectperf.search import Measure
from bisectperf.state import State

Progress = Callable[[str, str], None]
WATCH_SECONDS = 2.0
"""How long one wait on the host lasts: short enough to show progress, long enough to cost nothing."""


class Source(msgspec.Struct, frozen=True):
    """Where trees come from: the controller's own object store."""

    commit_of: Callable[[TreeId, Sha], Sha]
    pack: Callable[[Sha, list[Sha]], Iterator[bytes]]
    digest_of: Callable[[TreeId, tuple[str, ...]], str]
    ancestry: Ancestry


class HostBench:
    """Measures on one host."""

    def __init__(
        self, loaded: Loaded, source: Source, site: Site, *, run: str, seed: int, progress: Progress
    ) -> None:
        self.loaded = loaded
        self.source = source
        self.site = site
        self.run = run
        self.seed = seed
        self.progress = progress
        self._recipe_folder = ""
        self._toolchain = ""
        self._building = ""

    def prepare(self) -> None:
        """Lay our files on the host and ask it for its toolchain; done once a run."""
        if self._recipe_folder:
            return
        self._recipe_folder = self.site.prepare(self.loaded.files, self.loaded.digest)
        python = str(self.loaded.recipe.params.get("python", "python3"))
        words = self.site.host.raw(["sh", "-c", 'uname -srm; "$1" -VV 2>&1', "sh", python])
        self._toolchain = words.out.decode(errors="replace")

    def measure(self, step: Measure, state: State) -> Iterator[ev.AnyEvent]:
        """Yield the facts of one launch; raises by disposition when it gives none."""
        self.prepare()
        job = f"{self.run}-{step.launch}"
        status = self.site.launcher.status(job)
        if status.state == "absent":
            yield from self._begin(job, step, state)
        elif state.launches[step.launch].build is None:
            # The job outlived what the journal knows of it: which build it runs follows from the step.
            key = self._key(step, state)
            known = Build(key=key, tree=step.tree, seconds=0.0, path=self._places(key).worktree, cached=True)
            yield ev.Built(at=time.time(), launch=step.launch, build=known)
        yield ev.LaunchRan(at=time.time(), launch=step.launch, job=job)
        yield from self._outcome(job, step, self._wait(job, "launch"), state)
        with contextlib.suppress(HostUnavailable):
            self.site.launcher.forget(job)

    def cancel(self, launch: LaunchId) -> None:
        """End a launch that may be running, its build too, and remove what their folders hold."""
        for job in (f"{self.run}-{launch}", self._building):
            if job and self.site.launcher.kill(job).state != "absent":
                self.site.launcher.forget(job)

    # -- bringing and building ---------------------------------------------------------------------------------

    def _begin(self, job: str, step: Measure, state: State) -> Iterator[ev.AnyEvent]:
        begun = time.monotonic()
        commit = self._bring(step)
        key = self._key(step, state)
        places = self._places(key)
        if key not in state.builds():
            self.site.make_room(state, self.loaded.recipe.host.cache_gb, self.run)
        self.progress("checkout", step.sha[:9])
        self._checkout(places, commit, repair=_unproved(step, state))
        checkout = time.monotonic() - begun
        build = self._build(step, key, places)
        yield ev.Built(at=time.time(), launch=step.launch, build=build)
        spec = launch_spec(
            self.loaded,
            places,
            launch=step.launch,
            sha=step.sha,
            tree=step.tree,
            seed=self.seed,
            ancestry=self.source.ancestry,
        )
        spec["checkout_seconds"] = checkout
        spec["gate"] = gate_spec(self.loaded.recipe, state)
        secrets = {name: os.environ[name] for name in self.loaded.recipe.env_from if name in os.environ}
        self.progress("launch", step.sha[:9])
        self.site.launcher.start(
            Job(
                id=job,
                argv=(self.site.python, *BARE, f"{self.site.tools}/launch.py", "spec.json"),
                files={"spec.json": json.dumps(spec)},
                secrets=secrets,
                timeout=_limit(self.loaded),
                grace=self.loaded.recipe.launch.grace + 5 if self.loaded.recipe.launch else 10.0,
            )
        )

    def _bring(self, step: Measure) -> Sha:
        """Send what the host lacks of the step's commit; return the commit."""
        commit = self.source.commit_of(step.tree, step.sha)
        there = self.site.tool("checkout.py", "have", {"mirror": self.site.mirror, "commits": [commit]})
        if commit not in there["have"]:
            self.progress("transfer", step.sha[:9])
            words = {"mirror": self.site.mirror, "commit": commit, "tree": step.tree}
            self.site.tool("checkout.py", "receive", words, stdin=self.source.pack(commit, there["tips"]))
        return commit

    def _key(self, step: Measure, state: State) -> BuildKey:
        depends = self.source.digest_of(step.tree, self.loaded.recipe.build.depends)
        serial = 0
        if step.fresh:
            ids: list[LaunchId] = [x.id for x in state.launches.values() if x.tree == step.tree and x.fresh]
            serial = ids.index(step.launch) + 1 if step.launch in ids else len(ids) + 1
        return build_key(self.loaded, depends, self._toolchain, serial)

    def _places(self, key: BuildKey) -> Places:
        root, short = self.site.root, key[:20]
        return Places(
            worktree=f"{root}/wt/{short}",
            build=f"{root}/builds/{short}",
            recipe=self._recipe_folder,
            mirror=self.site.mirror,
            pycache=f"{root}/pycache/{short}",
        )

    def _checkout(self, places: Places, commit: Sha, *, repair: bool) -> None:
        words = {
            "mirror": self.site.mirror,
            "worktree": places.worktree,
            "commit": commit,
            "keep": list(self.loaded.recipe.build.artifacts),
            "submodules": self.loaded.recipe.repo.submodules,
            "repair": repair,
        }
        self.site.tool("checkout.py", "checkout", words)

    def _build(self, step: Measure, key: BuildKey, places: Places) -> Build:
        """Return the build of `key`, making it unless the host has it; raises `CommitUntestable` if it fails."""
        commands = build_commands(self.loaded, values(self.loaded, places, self.seed))
        host = self.site.host
        if not commands:
            return Build(key=key, tree=step.tree, seconds=0.0, path=places.worktree)
        with contextlib.suppress(FileNotFoundError):
            done = json.loads(host.get(f"{places.build}/done.json"))
            return Build(key=key, tree=step.tree, seconds=done["seconds"], path=places.worktree, cached=True)
        host.raw(["mkdir", "-p", "-m", "700", places.build])
        self.progress("build", step.sha[:9])
        script = "set -e\n" + self.loaded.recipe.host.prologue + "\n"
        script += "\n".join(" ".join(map(shlex.quote, argv)) for argv in commands) + "\n"
        job = f"build-{key[:20]}-{hashlib.sha256(step.launch.encode()).hexdigest()[:8]}"
        recipe = self.loaded.recipe
        self._building = job
        self.site.launcher.start(
            Job(
                id=job,
                argv=("sh", "build.sh"),
                env={"BISECTPERF_BUILD": places.build, "PYTHONPYCACHEPREFIX": places.pycache, **recipe.build.env},
                files={"build.sh": f"cd {shlex.quote(places.worktree)} || exit 1\n{script}"},
                timeout=recipe.build.timeout,
            )
        )
        status = self._wait(job, "build")
        tail = self._tail(job)
        self.site.launcher.forget(job)
        self._building = ""
        if status.state != "exited" or status.reason in ("disk-full", "lease"):
            raise HostUnfit(f"the build of {step.sha[:9]} was lost ({status.reason or status.state})", detail=tail)
        if status.rc != 0:
            why = "took too long" if status.reason == "timeout" else f"failed with exit status {status.rc}"
            raise CommitUntestable(f"the build {why}", detail=tail)
        host.put(f"{places.build}/done.json", json.dumps({"seconds": status.seconds}).encode())
        return Build(key=key, tree=step.tree, seconds=status.seconds, path=places.worktree)

    # -- waiting and reading -----------------------------------------------------------------------------------

    def _wait(self, job: str, phase: str) -> JobStatus:
        while True:
            status = self.site.launcher.wait(job, WATCH_SECONDS)
            if status.state != "running":
                return status
            lines = self.site.launcher.read(job, "progress" if phase == "launch" else "stdout", -200).split(b"\n")
            self.progress(phase, next((x.decode(errors="replace") for x in reversed(lines) if x.strip()), ""))

    def _tail(self, job: str) -> str:
        both = self.site.launcher.read(job, "stdout", -3000) + self.site.launcher.read(job, "stderr", -3000)
        return both.decode(errors="replace")[-4000:]

    def _outcome(self, job: str, step: Measure, status: JobStatus, state: State) -> Iterator[ev.AnyEvent]:
        """Yield the launch's last events, from its result file alone."""
        killed = status.state == "exited" and status.reason in ("signalled", "killed")
        if killed or status.state in ("absent", "lost"):
            self.site.launcher.kill(job)
            yield ev.Voided(
                at=time.time(),
                launch=step.launch,
                kind="host",
                reason="the job was lost on the host (reboot or kill)",
            )
            return
        text = self.site.launcher.read(job, "result.json", limit=64 << 20)
        if status.reason == "timeout":
            raise LaunchFlaky("the launch did not end within its time limit", detail=self._tail(job))
        if status.rc != 0 or not text:
            raise LaunchFlaky(f"the launch script ended with status {status.rc}", detail=self._tail(job))
        result = _read_result(text, step)
        yield from _conditions(result, step, state)
        if result["outcome"] == "guard-failed":
            words = {"reason": result["detail"], "detail": result.get("tail", ""), "guard": result["guard"]}
            yield ev.Voided(at=time.time(), launch=step.launch, kind="guard", **words)
        elif result["outcome"] != "measured":
            raise failure(result, step)
        else:
            yield measured(result, step)


def _unproved(step: Measure, state: State) -> bool:
    """Return whether the last launch of this tree failed its proof: then the checkout is made anew."""
    earlier = [x for x in state.launches.values() if x.tree == step.tree and x.id != step.launch]
    return bool(earlier) and earlier[-1].void_kind == "proof"


def _read_result(text: bytes, step: Measure) -> dict[str, Any]:
    """Return what the launch script wrote; raises `HostUnfit` for what it cannot have written: a damaged file."""
    try:
        result: dict[str, Any] = json.loads(text)
        if result["outcome"] == "measured":
            measured(result, step)
    except (ValueError, TypeError, KeyError) as error:  # msgspec's are ValueErrors
        raise HostUnfit(f"{step.sha[:9]}: the result on the host is damaged ({type(error).__name__})") from None
    return {"detail": "", "tail": "", "guard": "", **result}


def _conditions(result: dict[str, Any], step: Measure, state: State) -> Iterator[ev.AnyEvent]:
    """Yield what the host was, and what the launch waited for."""
    gate, snapshot = result.get("gate"), result.get("snapshot")
    if gate and gate["waited"]:
        reason = "; ".join(gate["reasons"])
        yield ev.Waited(at=time.time(), host=step.host, seconds=gate["waited"], reason=reason)
    if snapshot:
        facts = {} if snapshot["id"] in state.snapshots else snapshot["facts"]
        yield ev.Snapshotted(at=time.time(), launch=step.launch, id=snapshot["id"], facts=facts)


def _limit(loaded: Loaded) -> float:
    """Return how long a launch may take: the sum of its parts' limits, and room for the proofs."""
    recipe = loaded.recipe
    runs = recipe.warmup + recipe.repetitions if recipe.bench.regex or recipe.bench.path else 1
    ready = recipe.launch.ready.timeout + recipe.launch.grace if recipe.launch else 0.0
    return ready + recipe.bench.timeout * runs + 300.0
