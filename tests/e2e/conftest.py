"""Whole runs through the command line, on a repository whose speed is written in a file.

The benchmark prints the number in `speed`, with noise that follows from the launch's id: a run is the same each time,
however loaded the machine is.
"""

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bisectperf.hosts.ssh import SshHost

BENCH = """
import hashlib, math, os, pathlib, time
name = os.path.basename(os.environ["BISECTPERF_JOB"])
job = name.split("-", 1)[1]
here = pathlib.Path(os.environ["COUNTS"])
with open(here / "runs", "a") as file:
    file.write(name + "\\n")
words = hashlib.sha256(job.encode()).digest()
u, v = (int.from_bytes(words[i:i + 6], "big") / 2**48 for i in (0, 6))
noise = 0.01 * math.sqrt(-2 * math.log(1 - u)) * math.cos(2 * math.pi * v)
time.sleep(float(os.environ.get("PAUSE", "0")))
while (here / "hold").exists():
    time.sleep(0.02)
import engine
print("speed:", engine.speed() * math.exp(noise))
"""

RECIPE = """
name = "written"
files = ["bench.py"]
warmup = 0
repetitions = 1
[repo]
code = ["engine.py", "extra.py"]
[host]
work_dir = "{work}"
{host}
[environment]
policy = "overlay"
packages = ["engine"]
[bench]
argv = ["python3", "{{recipe}}/bench.py"]
env = {{ COUNTS = "{counts}", PAUSE = "{pause}" }}
regex = 'speed: ([0-9.]+)'
[gate]
cpu_busy = 1
[metric]
name = "speed"
unit = "tok/s"
better = "higher"
{more}
"""

ENGINE = "def speed():\n    return {speed}\n"


class World:
    """A repository, a recipe and a way to call the command."""

    def __init__(self, history, folder):
        self.history = history
        self.folder = folder
        self.recipe_folder = folder / "recipe"
        self.recipe_folder.mkdir()
        self.counts = folder / "counts"
        self.counts.mkdir()
        (self.recipe_folder / "bench.py").write_text(BENCH)
        self.env = {}

    def write_recipe(self, *, more="", pause="0", work=None, counts=None, host=""):
        text = RECIPE.format(
            work=work or self.folder / "host", counts=counts or self.counts, pause=pause, more=more, host=host
        )
        (self.recipe_folder / "recipe.toml").write_text(text)

    def command(self, *argv):
        return [sys.executable, "-m", "bisectperf", *argv]

    def options(self, *argv):
        env = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
        return {"cwd": self.history.folder, "env": {**env, **self.env}}

    def run(self, *argv, timeout=240):
        return subprocess.run(
            self.command(*argv), capture_output=True, text=True, check=False, timeout=timeout, **self.options()
        )

    @contextlib.contextmanager
    def background(self, *argv):
        """Yield the running command, its dated lines to be read; it is gone afterwards."""
        process = subprocess.Popen(
            self.command(*argv), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **self.options()
        )
        try:
            yield process
        finally:
            process.kill()
            process.communicate()

    def hold(self):
        """Let each launch wait, its benchmark begun, until `release`."""
        (self.counts / "hold").touch()

    def release(self):
        (self.counts / "hold").unlink()

    def start(self, *argv):
        return self.run("start", *argv, "--recipe", str(self.recipe_folder), "--json")

    def verdict(self, done):
        assert done.stdout, done.stderr
        return json.loads(done.stdout)["verdict"]

    def runs(self):
        file = self.counts / "runs"
        return file.read_text().split() if file.exists() else []

    def events(self, name=None):
        runs = Path(self.history.folder, ".git", "bisectperf", "runs")
        folder = runs / name if name else max(runs.iterdir())
        return [json.loads(line)["event"] for line in (folder / "journal.jsonl").read_text().splitlines()]


@pytest.fixture
def follow():
    """Read a run's dated lines until a word was seen that many times."""

    def until(process, word, times=1):
        for line in process.stderr:
            times -= word in line
            if times == 0:
                return
        pytest.fail(f"the run ended before {word!r}")

    return until


@pytest.fixture
def world(history, tmp_path):
    return World(history, tmp_path)


@pytest.fixture
def slower(history):
    """Write ten commits; the seventh is a quarter slower. Returns their ids, the first is good."""
    return [commit_speed(history, 100 if n < 7 else 75, f"change {n}") for n in range(11)]


def commit_speed(history, speed, subject, extra=""):
    return history.commit(subject, {"engine.py": f"# {subject}\n" + ENGINE.format(speed=speed) + extra})


@pytest.fixture
def remote(world, sshd):
    """Point the recipe at the server; return the folder on the other side."""
    host = SshHost(sshd.alias, str(sshd.config))
    room = host.raw(["mktemp", "-d"]).out.decode().strip()
    host.raw(["mkdir", f"{room}/counts"])
    host.close()
    world.counts = Path(room, "counts")
    world.write_recipe(
        work=f"{room}/work",
        counts=f"{room}/counts",
        pause="0.4",
        host=f'ssh = "{sshd.alias}"\nssh_config = "{sshd.config}"',
    )
    return room
