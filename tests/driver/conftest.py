"""A scripted, deterministic host: job folders that stay, numbers that follow from the launch id."""

import hashlib
import json
import math
import pickle
import re
import tomllib

import msgspec
import pytest

from bisectperf import events as ev
from bisectperf.driver.loop import Loop
from bisectperf.hosts.base import Result
from bisectperf.journal import Journal
from bisectperf.launchers.base import JobStatus
from bisectperf.measure.bench import HostBench, Source
from bisectperf.model import HostName, Line, Metric, Plan, Position, Sha, TreeId
from bisectperf.recipe.load import Loaded
from bisectperf.recipe.schema import Recipe
from bisectperf.search import view

KNOWN = {}

RECIPE = """
name = "scripted"
[bench]
argv = ["bench"]
regex = "([0-9.]+)"
[metric]
name = "speed"
unit = "tok/s"
better = "higher"
"""


@pytest.fixture(autouse=True)
def remembered(monkeypatch):
    """Compute each posterior once: hundreds of cuts ask for the same few, and a pure function may be remembered."""

    def posterior(launches, count, **options):
        key = pickle.dumps((launches, count, sorted(options.items())))
        if key not in KNOWN:
            KNOWN[key] = plain(launches, count, **options)
        return KNOWN[key]

    plain = view.posterior
    monkeypatch.setattr(view, "posterior", posterior)


class ScriptedHost:
    """Answers what the driver asks outside of jobs."""

    name = HostName("scripted")

    def raw(self, argv, **_):
        return Result(0, b"Linux\nPython 3\n", b"")

    def put(self, path, data, *, mode=0o600):
        pass

    def get(self, path):
        raise FileNotFoundError(path)

    def close(self):
        pass


class ScriptedLauncher:
    """Jobs end at once; what each gives depends on its tree and its id alone. `runs` counts executions."""

    def __init__(self, value_of):
        self.value_of = value_of
        self.jobs = {}
        self.runs = []
        self.removed = []

    def start(self, job):
        if job.id not in self.jobs:
            self.runs.append(job.id)
            spec = json.loads(job.files["spec.json"])
            self.jobs[job.id] = self.value_of(spec, job.id)
        return self.status(job.id)

    def status(self, job_id):
        known = job_id in self.jobs
        return JobStatus(
            state="exited" if known else "absent", rc=0 if known else None, reason="exited" if known else ""
        )

    def wait(self, job_id, _seconds):
        return self.status(job_id)

    def read(self, job_id, name, offset=0, limit=1 << 20):
        return json.dumps(self.jobs[job_id]).encode() if name == "result.json" else b""

    def kill(self, job_id):
        return self.status(job_id)

    def folder(self, job_id):
        return "/jobs/" + job_id

    def forget(self, job_id):
        # The folders stay: a cut journal must find what the full run left.
        self.removed.append(job_id)


class ScriptedSite:
    """A site without a machine."""

    def __init__(self, launcher):
        self.host = ScriptedHost()
        self.root = "/site"
        self.python = "python3"
        self.launcher = launcher
        self.mirror = "/site/mirror"
        self.tools = "/site/bin"

    def make_room(self, state, gigabytes, run):
        pass

    def prepare(self, files, digest):
        return "/site/recipes"

    def tool(self, script, verb, words, *, stdin=None):
        if verb == "have":
            return {"have": words["commits"], "tips": []}
        return {}


def result(spec, repetitions, outcome="measured", detail=""):
    """Return what the launch script would have written."""
    proof = {"expected": spec["tree"], "found": spec["tree"], "files": 3, "at": 0.0, "problems": []}
    return {
        "launch": spec["launch"],
        "outcome": outcome,
        "detail": detail,
        "tail": "",
        "guard": "",
        "samples": {"repetitions": repetitions, "warmup": [], "secondary": {}, "findings": [], "output_digest": ""},
        "proofs": [{**proof, "when": "before"}, {**proof, "when": "after"}],
        "origin": None,
        "facts": [],
        "seconds": {"prove": 0.1, "ready": 1.0, "bench": 3.0, "stop": 0.1},
        "bench_middle": 0.0,
        "port": 0,
    }


def noise(job_id, sd):
    """Return a normal number that follows from the job's id alone."""
    words = hashlib.sha256(job_id.encode()).digest()
    u, v = (int.from_bytes(words[i : i + 6], "big") / 2**48 for i in (0, 6))
    return sd * math.sqrt(-2 * math.log(1 - u)) * math.cos(2 * math.pi * v)


def tree(k):
    return TreeId(f"{k:040x}")


def sha(k):
    return Sha(f"{k + 4096:040x}")


class Night:
    """A whole scripted bisection: `step` is the first bad position, `effect` its log ratio, `broken` cannot start."""

    def __init__(self, n=24, step=9, effect=0.08, sd=0.01, broken=(14, 15)):
        self.n, self.step, self.effect, self.sd, self.broken = n, step, effect, sd, broken
        self.launcher = ScriptedLauncher(self.value)
        self.now = 1e9

    def value(self, spec, job_id):
        position = int(spec["tree"], 16)
        if position in self.broken:
            return result(spec, [], outcome="server-died", detail="the server ended with status 1")
        level = 100 * math.exp(-self.effect * (position >= self.step) + noise(re.sub(r"^run-", "", job_id), self.sd))
        return result(spec, [level * f for f in (0.999, 1.0, 1.001)])

    def plan(self):
        metric = Metric(name="speed", unit="tok/s", better="higher")
        return Plan(
            mode="bisect",
            good=sha(0),
            bad=sha(self.n),
            metric=metric,
            recipe="scripted",
            recipe_digest="d",
            repetitions=3,
            warmup=0,
            seed=1,
            hosts=(HostName("scripted"),),
        )

    def line(self):
        return Line(
            positions=tuple(
                Position(commits=(sha(k),), tree=tree(k), subject=f"commit {k}", parents=(sha(k - 1),) if k else ())
                for k in range(self.n + 1)
            )
        )

    def begin(self, folder):
        with Journal(folder) as journal:
            journal.append(ev.Started(at=self.now, plan=self.plan(), version="test"))
            journal.append(ev.LineDrawn(at=self.now, line=self.line()))

    def drive(self, folder, launcher=None, seconds=0):
        recipe = msgspec.convert(tomllib.loads(RECIPE), Recipe)
        loaded = Loaded(recipe=recipe, folder=folder, path=folder / "recipe.toml", files={}, digest="d")
        source = Source(
            commit_of=lambda tree_, _sha: Sha(tree_),
            pack=lambda _commit, _tips: iter(()),
            digest_of=lambda tree_, _paths: tree_,
            ancestry=lambda _revision, _sha: True,
        )
        site = ScriptedSite(launcher or self.launcher)
        bench = HostBench(loaded, source, site, run="run", seed=1, progress=lambda _phase, _text: None)
        bench.inner_line = lambda _merge, _parent: None
        with Journal(folder) as journal:
            # A clock that follows from the state: wherever the journal was cut, a launch has the same time.
            loop = Loop(journal, bench, Silent())
            waits = []
            loop.pause = waits.append
            loop.clock = lambda: self.now + 60.0 * len(loop.state.launches) + seconds * len(waits)
            return loop.run()


class Silent:
    def event(self, event, state):
        pass


@pytest.fixture
def night():
    return Night()


@pytest.fixture(scope="session")
def night_type():
    return Night
