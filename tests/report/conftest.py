"""Scripted nights: the events of a run that ends in each kind of verdict, folded to a state."""

import hashlib
import math
import random

import pytest

from bisectperf import events as ev
from bisectperf.model import (
    Build,
    BuildKey,
    Compared,
    Effect,
    EnvironmentChanged,
    Faster,
    FirstBad,
    FirstBadAmong,
    HostFacts,
    HostName,
    Inconclusive,
    LaunchId,
    Line,
    Metric,
    NotReproduced,
    OriginProof,
    Plan,
    Position,
    Samples,
    SeveralChanges,
    Sha,
    TreeId,
    TreeProof,
)
from bisectperf.state import fold

BEGAN = 1_790_000_000.0
SEED = 7
METRIC = Metric(name="decode_tok_s", unit="tok/s", better="higher", smallest_effect=0.03)
HOST = HostName("gpu7.lab")
SUBJECTS = (
    "Fuse the residual add into the norm kernel",
    "docs: how to pick a page size",
    "Scheduler: count cached tokens once",
    "Bump the kernel package to 0.3.9",
    "Speculative decoding: verify in one batch",
    "Route the MoE gate through float32",
)


def sha(k):
    return Sha(hashlib.sha1(b"commit %d" % k).hexdigest())  # noqa: S324 -- as git names commits


def tree(k):
    return TreeId(hashlib.sha1(b"tree %d" % k).hexdigest())  # noqa: S324


class Script:
    """Writes a night's events; times, noise and facts follow from the seed."""

    def __init__(
        self, *, n=24, step=9, effect=0.062, sd=0.006, mode="bisect", untestable=(), subjects=None, second=None
    ):
        print(f"seed {SEED}")
        self.random = random.Random(SEED)
        self.n, self.step, self.effect, self.sd = n, step, effect, sd
        self.second = math.inf if second is None else second
        self.now = BEGAN
        self.events = []
        self.number = 0
        self.plan = Plan(
            mode=mode,
            good=sha(0),
            bad=sha(n),
            metric=METRIC,
            recipe="sglang-decode",
            recipe_digest="5f2a" * 16,
            repetitions=5,
            warmup=1,
            seed=SEED,
            hosts=(HOST,),
        )
        self.add(ev.Started, plan=self.plan, version="0.1.0")
        self.positions = [self.position(k, untestable, subjects or {}) for k in range(n + 1)]
        self.add(ev.LineDrawn, line=Line(positions=tuple(self.positions)))

    def position(self, k, untestable, subjects):
        broken = k in untestable
        return Position(
            commits=(sha(k), *((Sha(f"{k:08x}".ljust(40, "d")),) if k % 5 == 3 else ())),
            tree=None if broken else tree(k),
            subject=subjects.get(k, SUBJECTS[k % len(SUBJECTS)]),
            parents=(sha(k - 1),) if k else (),
            untestable="patch delegation: conflict in python/serve/models/kimi.py" if broken else "",
        )

    def add(self, event, /, **fields):
        self.now += fields.pop("after", 1.0)
        self.events.append(event(at=self.now, **fields))
        return self

    def level(self, k):
        return 884.0 * math.exp(-self.effect * (k >= self.step) - 0.05 * (k >= self.second))

    def planned(self, k, why="search", at_tree=None):
        self.number += 1
        launch = LaunchId(f"L{self.number:04d}-{tree(k)[:8]}")
        tree_of = at_tree or tree(k)
        self.add(
            ev.LaunchPlanned, launch=launch, sha=sha(k), tree=tree_of, host=HOST, why=why, reason="most information"
        )
        return launch

    def running(self, k, why="search"):
        launch = self.planned(k, why)
        build = Build(key=BuildKey(tree(k)[::-1]), tree=tree(k), seconds=212.0, path="/scratch/alice/wt/ab12")
        self.add(ev.Built, launch=launch, build=build, after=40.0)
        self.add(ev.LaunchRan, launch=launch, job=f"run-{launch}")
        return launch

    def measured(self, k, why="search", level=None, at_tree=None, driver="570.86.10"):
        launch = self.planned(k, why, at_tree)
        at = at_tree or tree(k)
        build = Build(key=BuildKey(at[::-1]), tree=at, seconds=212.0, path="/scratch/alice/wt/ab12", cached=True)
        self.add(ev.Built, launch=launch, build=build, after=30.0)
        self.add(ev.LaunchRan, launch=launch, job=f"run-{launch}")
        luck = self.random.gauss(0, self.sd)
        middle = (level or self.level(k)) * math.exp(luck)
        repetitions = tuple(middle * math.exp(self.random.gauss(0, 0.002)) for _ in range(5))
        self.add(
            ev.Measured,
            launch=launch,
            samples=Samples(
                repetitions=repetitions,
                warmup=(middle * 0.93,),
                secondary={"ttft_s": tuple(0.21 + self.random.gauss(0, 0.003) for _ in range(5))},
            ),
            proofs=tuple(
                TreeProof(expected=at, found=at, files=4211, when=when, at=self.now) for when in ("before", "after")
            ),
            origin=OriginProof(
                root="/scratch/alice/wt/ab12/python",
                origins={"4711": {"serve": "/scratch/alice/wt/ab12/python/serve/__init__.py"}},
            ),
            facts=(self.facts(driver), self.facts(driver)),
            seconds={"checkout": 3.0, "prove": 1.4, "ready": 41.0, "bench": 62.0, "stop": 2.5},
            started=self.now + 60.0,
            after=110.0,
        )
        return launch

    def facts(self, driver):
        gpu = f"GPU-0b7e, NVIDIA H200, {driver}, 1980, {58 + self.random.randrange(6)}"
        return HostFacts(
            at=self.now,
            facts={
                "kernel": "6.8.0-45-generic",
                "cpu": "AMD EPYC 9654 96-Core Processor",
                "governor": "performance",
                "load_1m": round(1.2 + self.random.random(), 2),
                "gpus": [gpu],
                "gpu_fields": "uuid, name, driver_version, clocks.sm, temperature.gpu",
                "gpu_processes": [],
            },
        )

    def void(self, k, reason="another process held the GPU", kind="unfit", detail=""):
        launch = self.planned(k)
        self.add(ev.Voided, launch=launch, kind=kind, reason=reason, detail=detail, after=25.0)
        return launch

    def broken(self, k, reason="the server died before it was ready", detail=""):
        launch = self.planned(k)
        self.add(
            ev.FoundUntestable, sha=sha(k), tree=tree(k), reason=reason, detail=detail, launch=launch, after=31.0
        )
        return launch

    def ends(self, rounds=2):
        for k in ((0, self.n, self.n, 0) * rounds)[: 2 * rounds]:
            self.measured(k, "endpoint")
        return self

    def search(self, *places):
        for k in places:
            self.measured(k)
        return self

    def confirm(self, parent, culprit):
        for k in (parent, culprit, culprit, parent):
            self.measured(k, "confirm")
        return self

    def decided(self, verdict):
        return self.add(ev.Decided, verdict=verdict)

    def state(self):
        return fold(self.events)


def effect(value=0.061, half=0.008):
    return Effect(value=value, low=value - half, high=value + half)


def first_bad():
    s = Script().ends()
    s.search(12, 6)
    s.void(9)
    s.search(9, 7, 8)
    s.add(ev.Waited, host=HOST, seconds=40.0, reason="the host does not answer")
    s.measured(0, "anchor")
    s.confirm(8, 9)
    s.add(ev.Noted, kind="drift", text="the good end moved by -0.2 % in two hours: within its noise")
    return s.decided(FirstBad(launches=14, sha=sha(9), parent=sha(8), posterior=0.9973, effect=effect(), share=0.98))


def among_untestable():
    s = Script(untestable=(8,)).ends()
    s.search(12, 6)
    s.broken(9, detail="Traceback (most recent call last):\n  ImportError: cannot import name 'gate'")
    s.search(7, 10)
    s.confirm(7, 10)
    broken = {sha(8): "patch delegation: conflict in kimi.py", sha(9): "the server died before it was ready"}
    return s.decided(
        FirstBadAmong(
            launches=12,
            commits=(sha(8), sha(9), sha(10)),
            posterior=0.995,
            effect=effect(),
            why="untestable",
            untestable=broken,
        )
    )


def among_evidence():
    s = Script(effect=0.02, sd=0.012).ends(4)
    s.search(12, 6, 9, 8, 10, 9, 8)
    return s.decided(
        FirstBadAmong(
            launches=15, commits=(sha(9), sha(10)), posterior=0.991, effect=effect(0.02, 0.012), why="evidence"
        )
    )


def several():
    s = Script(second=16).ends()
    s.search(12, 6, 9, 8, 18, 15, 16)
    one = FirstBad(launches=11, sha=sha(9), parent=sha(8), posterior=0.996, effect=effect(), share=0.55)
    two = FirstBad(launches=11, sha=sha(16), parent=sha(15), posterior=0.992, effect=effect(0.05), share=0.45)
    return s.decided(
        SeveralChanges(launches=11, steps=(one, two), whole=effect(0.11), unexplained=effect(0.002, 0.004))
    )


def not_reproduced():
    s = Script(effect=0.0).ends(4)
    return s.decided(NotReproduced(launches=8, posterior=0.993, largest=0.011, effect=effect(0.002, 0.009)))


def environment_changed():
    s = Script(effect=0.0).ends(2)
    s.measured(0, "anchor", level=801.0, driver="575.51.03")
    s.measured(0, "anchor", level=803.0, driver="575.51.03")
    return s.decided(
        EnvironmentChanged(
            launches=6,
            was=884.0,
            now=802.0,
            effect=effect(0.097),
            differences=("driver_version: 570.86.10 -> 575.51.03", "clocks.sm: 1980 -> 1755"),
        )
    )


def inconclusive():
    s = Script().ends()
    s.search(12, 6)
    s.decided(
        Inconclusive(
            launches=6,
            why="the budget is over",
            left={sha(k): p for k, p in ((8, 0.11), (9, 0.61), (10, 0.2), (11, 0.07))},
            none=0.01,
            cost_seconds=6000.0,
        )
    )
    return s


def faster():
    return Script(effect=-0.05).ends(3).decided(Faster(launches=6, effect=effect(-0.05)))


def compared(answer, value):
    def build():
        s = Script(n=1, step=1, effect=value, mode="compare")
        for k in (0, 1, 1, 0, 0, 1, 1, 0):
            s.measured(k, "compare")
        return s.decided(
            Compared(
                launches=8,
                a=sha(0),
                b=sha(1),
                answer=answer,
                effect=effect(value, 0.006 if answer != "undecided" else 0.05),
                between_sd=0.006,
                within_sd=0.002,
            )
        )

    return build


def long_range():
    """900 candidates, two of them untestable, the culprit in the middle."""
    s = Script(n=900, step=400, untestable=(395, 396)).ends()
    s.search(450, 225, 338, 394, 420, 407, 399, 401, 400)
    return s.decided(FirstBad(launches=13, sha=sha(400), parent=sha(399), posterior=0.996, effect=effect()))


def same_with_itself():
    s = Script(n=1, step=9, mode="compare")
    s.events[1] = ev.LineDrawn(
        at=s.now,
        line=Line(positions=(s.positions[0], Position(commits=(sha(1),), tree=tree(0), subject="same code"))),
    )
    for _ in range(6):
        s.measured(0, "compare")
    return s


def running():
    s = Script().ends()
    s.search(12)
    s.void(6, "the job was lost on the host (reboot or kill)", kind="host")
    s.broken(5)
    s.running(6)
    return s


def just_begun():
    return Script()


def before_the_line():
    s = Script()
    del s.events[1:]
    return s


def stopped():
    s = Script().ends()
    s.search(12)
    return s.add(ev.Stopped, why="interrupted", reason="stopped by its user")


def descending():
    """A merge was named; the search goes on inside it."""
    s = Script().ends()
    s.search(12, 6, 9, 8)
    s.confirm(8, 9)
    s.decided(FirstBad(launches=12, sha=sha(9), parent=sha(8), posterior=0.997, effect=effect()))
    side = (
        Position(commits=(sha(k),), tree=tree(k), subject=f"side branch, part {k - 30}", onto=sha(8))
        for k in (31, 32, 33)
    )
    s.add(ev.LineDrawn, line=Line(positions=(s.positions[8], *side, s.positions[9]), inside=sha(9)))
    s.measured(32)
    return s


def inside_a_merge():
    s = descending()
    s.measured(31, level=884.0)
    return s.decided(FirstBad(launches=14, sha=sha(32), parent=sha(31), posterior=0.995, effect=effect()))


NIGHTS = {
    "first-bad": first_bad,
    "among-untestable": among_untestable,
    "among-evidence": among_evidence,
    "several-changes": several,
    "not-reproduced": not_reproduced,
    "environment-changed": environment_changed,
    "inconclusive": inconclusive,
    "faster": faster,
    "compared-yes": compared("yes", 0.061),
    "compared-no": compared("no", 0.001),
    "compared-undecided": compared("undecided", 0.02),
    "compared-faster": compared("faster", -0.04),
    "long-range": long_range,
    "same-with-itself": same_with_itself,
    "running": running,
    "just-begun": just_begun,
    "before-the-line": before_the_line,
    "stopped": stopped,
    "descending": descending,
    "inside-a-merge": inside_a_merge,
}
HOSTILE = 'Fix <script>alert(1)</script> & \x1b[2J\x1b]0;owned\x07 \u202egnp.exe "quote" | `code` <img src=x>'


def hostile():
    s = Script(subjects={9: HOSTILE, 0: HOSTILE}).ends()
    s.search(12, 6, 9)
    s.void(9, reason=HOSTILE, detail="line one\n" + HOSTILE)
    s.broken(5, reason=HOSTILE, detail=HOSTILE)
    s.add(ev.Noted, kind="finding", text=HOSTILE)
    s.add(ev.Marked, sha=sha(3), mark="skip", reason=HOSTILE)
    s.confirm(8, 9)
    return s.decided(
        FirstBad(
            launches=11, sha=sha(9), parent=sha(8), posterior=0.997, effect=effect(), assumed=(HOSTILE, "one change")
        )
    )


@pytest.fixture(params=NIGHTS)
def name(request):
    """The name of every kind of night, one after another."""
    return request.param


@pytest.fixture
def night(name):
    return NIGHTS[name]()


@pytest.fixture
def nights():
    """Nights by name, for a test that wants a certain one."""
    return NIGHTS


@pytest.fixture
def script():
    return Script


@pytest.fixture
def hostile_night():
    return hostile()
