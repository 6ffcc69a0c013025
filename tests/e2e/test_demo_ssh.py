"""The demo over a real SSH connection, as a user without privileges: cut, killed, gone on with. The real server."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

LAPTOP = Path(__file__).parents[2] / "examples" / "laptop"
SEED = 5


@pytest.fixture
def numpy_python():
    """A python with numpy that the other user may run: ours may lie in a folder that is closed to him."""
    if os.geteuid() != 0:
        yield sys.executable
        return
    folder = Path(tempfile.mkdtemp(prefix="bisectperf-python-"))
    folder.chmod(0o755)
    system = shutil.which("python3", path="/usr/bin:/usr/local/bin")
    if system is None:
        pytest.skip("there is no python3 in /usr/bin that another user may run")
    subprocess.run([sys.executable, "-m", "virtualenv", "-q", "-p", system, folder / "venv"], check=True)
    subprocess.run([folder / "venv/bin/pip", "install", "-q", "numpy"], check=True)
    yield folder / "venv/bin/python"
    shutil.rmtree(folder)


@pytest.fixture
def demo(tmp_path):
    """Write the demo's repository; return its folder and the commit that is slow."""
    program = [sys.executable, LAPTOP / "make_repo.py", tmp_path / "repo", "--seed", str(SEED)]
    print(subprocess.run(program, check=True, capture_output=True, text=True).stdout)
    return tmp_path / "repo", (tmp_path / "repo/.git/answer").read_text().strip()


@pytest.mark.slow
def test_the_demo_over_ssh_ends_in_the_same_verdict_after_a_cut_and_a_kill(
    demo, sshd, numpy_python, tmp_path, follow
):
    repository, culprit = demo
    recipe = tmp_path / "recipe"
    shutil.copytree(LAPTOP / "recipe", recipe)
    shutil.copy(LAPTOP.parents[1] / "recipes" / "common" / "decode_bench.py", recipe)
    (recipe / "bisectperf.local.toml").write_text(
        f'[host]\nssh = "{sshd.alias}"\nssh_config = "{sshd.config}"\nwork_dir = "{sshd.home}/work"\n'
        f'[params]\npython = "{numpy_python}"\n'
    )
    tool = [sys.executable, "-m", "bisectperf"]
    first = subprocess.Popen(
        [*tool, "start", "good", "bad", "--recipe", str(recipe)],
        cwd=repository,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    follow(first, "running", times=2)
    sshd.cut()
    follow(first, "measured", times=2)
    follow(first, "running")
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    first.stderr.close()

    done = subprocess.run([*tool, "run", "--json"], cwd=repository, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    verdict = json.loads(done.stdout)["verdict"]
    print(verdict)
    assert (verdict["verdict"], verdict["sha"]) == ("first-bad", culprit)
    (journal,) = repository.glob(".git/bisectperf/runs/*/journal.jsonl")
    events = [json.loads(line)["event"] for line in journal.read_text().splitlines()]
    measured = [event["launch"] for event in events if event["event"] == "Measured"]
    assert len(measured) == len(set(measured))
    assert [event for event in events if event["event"] == "Waited"], "the cut was not noticed"
