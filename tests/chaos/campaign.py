"""A seeded campaign of short nights with random faults: `make chaos`.

Each night is a scripted bisection (its numbers follow from the launches' ids), driven by a process of its own, which
the faults hit: kill -9 at any byte of a journal line, SIGTERM, a full disk of the controller (a real limit on the
size of its files), connections that die before or after a command took effect, jobs that are killed or forgotten by a
reboot, a full disk or an unfit host, damaged results, garbage from the benchmark, clocks that are set. After each end
the night is gone on with, as `bisectperf run` does. It must come to the verdict of the undisturbed night, or say that
it cannot; a launch that was journalled must never be lost, and no launch may run twice.
"""

import argparse
import collections
import importlib.util
import json
import multiprocessing
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import warnings
from pathlib import Path

from bisectperf import journal as journal_module
from bisectperf.errors import BisectperfError, HostUnavailable, Interrupted
from bisectperf.journal import read
from bisectperf.launchers.base import JobStatus
from bisectperf.model import FirstBad, FirstBadAmong, Inconclusive
from bisectperf.state import State, fold

RUNS = 80
"""How often a night is gone on with before it is given up."""
HONEST = (FirstBadAmong, Inconclusive)
RATE = {"cut": 0.01, "killed": 0.03, "rebooted": 0.02, "full": 0.03, "unfit": 0.03, "damaged": 0.03, "garbage": 0.02}
ENDINGS = ("kill -9", "SIGTERM", "full disk", "none")


def scripted():
    """Return the module of scripted nights."""
    path = Path(__file__).parents[1] / "driver" / "conftest.py"
    spec = importlib.util.spec_from_file_location("scripted_nights", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Host:
    """A launcher whose jobs lie on disk, so that they outlive the controller; faults are drawn at each call."""

    def __init__(self, night, folder, rng, count):
        self.night, self.folder, self.rng, self.count = night, folder, rng, count
        folder.mkdir(exist_ok=True)

    def hit(self, name):
        found = self.rng.random() < RATE[name]
        if found:
            self.count(name)
        return found

    def cut(self):
        if self.hit("cut"):
            raise HostUnavailable("the connection was lost")

    def start(self, job):
        self.cut()
        path = self.folder / job.id
        if not path.exists():
            with (self.folder / "runs").open("a") as runs:
                runs.write(job.id + "\n")
            path.write_text(self.outcome(json.loads(job.files["spec.json"]), job.id))
        self.cut()
        return self.status(job.id)

    def outcome(self, spec, job_id):
        if self.hit("killed"):
            return "killed"
        if self.hit("rebooted"):
            return "lost"
        said = self.night.value(spec, job_id)
        for name, outcome in (("full", "disk-full"), ("unfit", "unfit"), ("garbage", "wrong-output")):
            if self.hit(name):
                said |= {"outcome": outcome, "samples": None, "detail": f"{name} {self.rng.random():.6f}"}
        text = json.dumps(said)
        return text[: self.rng.randrange(len(text))] + "\x00\xff" if self.hit("damaged") else text

    def status(self, job_id):
        self.cut()
        if self.rng.random() < 0.05:
            self.count("clock set")
            self.night.now += self.rng.uniform(-3600, 3600)
        path = self.folder / job_id
        if not path.exists():
            return JobStatus(state="absent")
        said = path.read_text()
        if said == "lost":
            return JobStatus(state="lost")
        return JobStatus(state="exited", rc=0, reason="killed" if said == "killed" else "exited")

    def wait(self, job_id, _seconds):
        return self.status(job_id)

    def read(self, job_id, name, _offset=0, limit=1 << 20):
        self.cut()
        return (self.folder / job_id).read_text().encode()[:limit] if name == "result.json" else b""

    def kill(self, job_id):
        return self.status(job_id)

    def place(self, job_id):
        return str(self.folder / job_id)

    def forget(self, _job_id):
        self.cut()


def drive(night, folder, seed, ending):
    """Go on with a night in this process, until it ends or the fault that was drawn ends it."""
    rng = random.Random(seed)
    counted = (folder / "faults").open("a")

    def count(name):
        counted.write(name + "\n")
        counted.flush()

    count(ending)
    left = rng.randrange(1, 60)
    write = os.pwrite

    def torn(fd, data, offset):
        nonlocal left
        left -= 1
        if left == 0:
            write(fd, data[: rng.randrange(len(data))], offset)
            os.kill(os.getpid(), signal.SIGKILL if ending == "kill -9" else signal.SIGTERM)
        return write(fd, data, offset)

    if ending in ("kill -9", "SIGTERM"):
        journal_module.os = type("os", (), {**vars(os), "pwrite": staticmethod(torn)})
    elif ending == "full disk":
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        size = (folder / "journal.jsonl").stat().st_size + rng.randrange(20_000)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    try:
        night.drive(folder, Host(night, folder / "jobs", rng, count))
    except (BisectperfError, Interrupted) as error:
        (folder / "said").write_text(f"{type(error).__name__}: {error}")
        sys.exit(3)


def run_night(module, folder, seed):
    """Return (the undisturbed state, the disturbed one, runs, launches lost, launches that ran twice)."""
    rng = random.Random(seed)
    n = rng.randrange(6, 30)
    words = {"n": n, "step": rng.randrange(1, n + 1), "effect": rng.uniform(0.06, 0.25), "broken": ()}
    calm, night = module.Night(**words), module.Night(**words)
    for name, made in (("calm", calm), ("night", night)):
        (folder / name).mkdir()
        made.begin(folder / name)
    undisturbed = calm.drive(folder / "calm")
    seen, lost, here = set(), set(), folder / "night"
    for runs in range(1, RUNS + 1):  # noqa: B007 -- the last one is the answer
        ending = rng.choice(ENDINGS)
        child = multiprocessing.get_context("fork").Process(
            target=drive, args=(night, here, rng.randrange(2**32), ending)
        )
        child.start()
        child.join()
        if child.exitcode == 1:
            raise RuntimeError(f"seed {seed}: a traceback instead of an answer (above)")
        events = read(here / "journal.jsonl")
        measured = {e.launch for e in events if type(e).__name__ == "Measured"}
        lost, seen = lost | (seen - measured), seen | measured
        state = fold(events)
        if state.decided is not None:
            break
    ran = (here / "jobs" / "runs").read_text().split()
    return undisturbed, state, runs, len(lost), len(ran) - len(set(ran))


def judged(undisturbed: State, state: State) -> str:
    """Return same, honest or WRONG."""
    if state.decided is None:
        return "honest"
    same = type(state.decided) is type(undisturbed.decided)
    if same and isinstance(state.decided, FirstBad):
        same = state.decided.sha == undisturbed.decided.sha
    if same:
        return "same"
    return "honest" if isinstance(state.decided, HONEST) else "WRONG"


def campaign(nights, seed, say=print):
    """Run the campaign; return the counts."""
    module, counts, faults = scripted(), collections.Counter(), collections.Counter()
    for k in range(nights):
        folder = Path(tempfile.mkdtemp(prefix="bisectperf-chaos-"))
        begun = time.monotonic()
        try:
            undisturbed, state, runs, lost, twice = run_night(module, folder, seed + k)
            hits = collections.Counter((folder / "night" / "faults").read_text().splitlines())
        finally:
            shutil.rmtree(folder)
        word = judged(undisturbed, state)
        faults += hits
        counts += collections.Counter({word: 1, "lost": lost, "twice": twice, "runs": runs})
        if word != "same":
            verdict = type(state.decided).__name__ if state.decided else "no verdict"
            why = getattr(state.decided, "why", "") or f"not decided after {runs} runs"
            say(f"night {seed + k}: {word}: {verdict}, {why}; undisturbed {type(undisturbed.decided).__name__}")
        if k % 10 == 9:
            say(f"{k + 1} nights, the last in {time.monotonic() - begun:.1f} s")
    del hits["none"], faults["none"]
    say("faults: " + ", ".join(f"{name} {number}" for name, number in sorted(faults.items())))
    say(
        f"seed {seed}: {nights} nights in {counts['runs']} runs, {faults.total()} faults: the undisturbed verdict "
        f"{counts['same']}, an honest non-answer {counts['honest']}, wrong {counts['WRONG']}; "
        f"journalled launches lost {counts['lost']}, launches run twice {counts['twice']}"
    )
    return counts


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nights", type=int, default=100)
    parser.add_argument("--seed", type=int, default=20240611)
    words = parser.parse_args()
    warnings.filterwarnings("ignore", category=DeprecationWarning)  # a fork beside numpy's threads
    counts = campaign(words.nights, words.seed)
    good = counts["same"] >= 0.9 * words.nights and not (counts["WRONG"] or counts["lost"] or counts["twice"])
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
