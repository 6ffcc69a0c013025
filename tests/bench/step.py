"""What a step costs beside build, launch and benchmark, over a real SSH connection to loopback.

    python tests/bench/step.py [REPOSITORY GOOD BAD]

The benchmark reads one number and takes next to no time, so what a launch takes is ours: checkout, proof before and
after, SSH, journal. Beside it `git bisect run` of the same command in a clone, which proves nothing. Without a
repository one of 2,000 files and 64 commits is written.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from conftest import History, Sshd, user_without_privileges

RECIPE = """
name = "nothing"
files = ["bench.py", "slow-trees"]
warmup = 0
repetitions = 1
[host]
ssh = "{alias}"
ssh_config = "{config}"
work_dir = "{work}"
[bench]
argv = ["python3", "{{recipe}}/bench.py", "{{worktree}}", "{{seed}}"]
regex = 'speed: ([0-9.]+)'
[gate]
cpu_busy = 1
[metric]
name = "speed"
unit = "1/s"
better = "higher"
"""
BENCH = """
import pathlib, subprocess, sys, random
tree = subprocess.run(["git", "-C", sys.argv[1], "rev-parse", "HEAD^{tree}"], capture_output=True, text=True).stdout
slow = tree.strip() in (pathlib.Path(__file__).parent / "slow-trees").read_text().split()
print("speed:", (80 if slow else 100) * random.uniform(0.99, 1.01))
sys.exit(slow and len(sys.argv) < 3)  # an exit status is what git bisect run goes by
"""


def main():
    with tempfile.TemporaryDirectory(prefix="bisectperf-step-") as name:
        room = Path(name)
        room.chmod(0o755)
        repository, good, bad = sys.argv[1:] or generated(room / "generated")
        recipe = room / "recipe"
        recipe.mkdir()
        (recipe / "bench.py").write_text(BENCH)
        (recipe / "slow-trees").write_text("\n".join(slow_trees(repository, good, bad)))
        files = len(git(repository, "ls-tree", "-r", "--name-only", bad).splitlines())
        commits = git(repository, "rev-list", "--count", f"{good}..{bad}")
        print(f"{repository}: {commits} commits, {files} files")
        ours(room, recipe, repository, good, bad)
        theirs(room, recipe, repository, good, bad)


def generated(folder):
    """Write a history; return its folder and its ends."""
    history = History(folder)
    good = history.commit("first", {f"part{n % 40}/file{n}.py": f"VALUE = {n}\n" * 40 for n in range(2000)})
    for n in range(64):
        bad = history.commit(f"change {n}", {f"part{n % 40}/file{n}.py": f"VALUE = {-n}\n" * 40})
    return folder, good, bad


def slow_trees(repository, good, bad):
    """Return the trees of the later half of the range."""
    line = git(repository, "rev-list", "--first-parent", "--reverse", f"{good}..{bad}").split()
    return [git(repository, "rev-parse", f"{sha}^{{tree}}") for sha in line[len(line) // 2 :]]


def ours(room, recipe, repository, good, bad):
    """Run a whole bisection; print what its launches took, by where the tree was before."""
    with user_without_privileges(f"bpstep{os.getpid()}") as (user, home):
        keys = room / "sshd"
        keys.mkdir(mode=0o755)
        server = Sshd(keys, user)
        try:
            text = RECIPE.format(alias=server.alias, config=server.config, work=f"{home}/work")
            (recipe / "recipe.toml").write_text(text)
            clone = room / "controller"
            subprocess.run(["git", "clone", "-q", "--bare", repository, clone], check=True)
            argv = [sys.executable, "-m", "bisectperf", "start", good, bad, "--json"]
            begun = time.monotonic()
            done = subprocess.run(
                [*argv, "--repo", str(clone), "--recipe", str(recipe)], capture_output=True, text=True, check=False
            )
            whole = time.monotonic() - begun
            if done.returncode:
                sys.exit(done.stderr)
        finally:
            server.stop()
        report(clone, whole)


def report(clone, whole):
    (journal,) = clone.glob("bisectperf/runs/*/journal.jsonl")
    events = [json.loads(line)["event"] for line in journal.read_text().splitlines()]
    planned, path, took = {}, {}, {"first checkout of a commit": [], "again": []}
    bench, seen = [], set()
    for event in events:
        if event["event"] == "LaunchPlanned":
            planned[event["launch"]] = event["at"]
        elif event["event"] == "Built":
            path[event["launch"]] = event["build"]["path"]
        elif event["event"] == "Measured":
            where = path[event["launch"]]
            seconds = event["at"] - planned[event["launch"]] - event["seconds"].get("bench", 0)
            took["again" if where in seen else "first checkout of a commit"].append(seconds)
            bench.append(event["seconds"].get("bench", 0))
            seen.add(where)
    print(f"bisectperf over SSH: {len(planned)} launches in {whole:.1f} s, first contact included;")
    for what, seconds in took.items():
        print(f"  beside the benchmark, {what}: {statistics.median(seconds):.2f} s (median of {len(seconds)})")
    print(f"  the benchmark itself: {statistics.median(bench):.2f} s")


def theirs(room, recipe, repository, good, bad):
    """Run `git bisect run` with the same command."""
    clone = room / "clone"
    subprocess.run(["git", "clone", "-q", repository, clone], check=True)
    git(clone, "bisect", "start", "--first-parent", bad, good)
    begun = time.monotonic()
    said = git(clone, "bisect", "run", sys.executable, str(recipe / "bench.py"), str(clone))
    steps = said.count("speed:")
    seconds = (time.monotonic() - begun) / steps
    print(f"git bisect run, locally: {seconds:.2f} s a step ({steps} steps), command included, nothing proved")


def git(folder, *argv):
    done = subprocess.run(["git", "-C", folder, *argv], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"git {' '.join(argv)}: {done.stderr}")
    return done.stdout.strip()


if __name__ == "__main__":
    main()
