"""What happens to a job's supervisor: cut down, frozen, on a full disk, or seen at a bad moment."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from bisectperf.errors import HostUnfit
from bisectperf.hosts.local import LocalHost
from bisectperf.launchers.base import Job
from bisectperf.launchers.detached import Detached
from bisectperf.measure.site import lay_tools

PYTHON = shutil.which("python3", path="/usr/bin:/bin") or sys.executable


@pytest.fixture
def launcher(tmp_path):
    host = LocalHost()
    root = str(tmp_path / "site")
    return Detached(host, root, lay_tools(host, root), PYTHON)


def sh(job_id, script, **more):
    return Job(id=job_id, argv=("sh", "-c", script), **more)


def wait_for_file(launcher, job_id, name):
    path = Path(launcher.folder(job_id), name)
    for _ in range(2000):
        if path.exists() and path.read_text():
            return path.read_text()
        threading.Event().wait(0.01)
    pytest.fail(f"{path} did not appear")


def is_running(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def test_a_job_that_is_being_started_never_looks_lost(launcher):
    for number in range(10):
        job = sh(f"young-{number}", "true")
        folder = launcher.folder(job.id)
        starting = threading.Thread(target=launcher.start, args=(job,))
        starting.start()
        while not os.path.isdir(folder):  # noqa: PTH112 -- as quick as can be
            pass
        assert Path(folder, "supervisor.json").is_file()
        starting.join()


def test_a_supervisor_that_ends_between_two_looks_has_not_lost_its_job(launcher):
    code = """
import json, os, sys
sys.path.insert(0, sys.argv[1])
import supervisor
os.makedirs("job")
def look(folder):
    supervisor.write(folder + "/exit.json", {"rc": 4, "reason": "exited", "seconds": 1.0})
supervisor.supervisor_of = look
print(json.dumps(supervisor.status("job")))
"""
    argv = [PYTHON, "-c", code, launcher.tools]
    Path(launcher.root).mkdir(exist_ok=True)
    done = subprocess.run(argv, cwd=launcher.root, capture_output=True, check=True)
    assert json.loads(done.stdout)["state"] == "exited"


def test_waiting_needs_no_pidfd(launcher):
    """Python 3.8 and kernels before 5.3 have none."""
    launcher.start(sh("old", "until [ -e go ]; do sleep 0.01; done; exit 5"))
    code = """
import json, os, sys
sys.path.insert(0, sys.argv[1])
if hasattr(os, "pidfd_open"):
    del os.pidfd_open
import supervisor
print(json.dumps(supervisor.wait(sys.argv[2], 0.1)))
open(sys.argv[2] + "/go", "w").close()
print(json.dumps(supervisor.wait(sys.argv[2], 60)))
"""
    argv = [PYTHON, "-c", code, launcher.tools, launcher.folder("old")]
    done = subprocess.run(argv, capture_output=True, check=True)
    first, second = map(json.loads, done.stdout.splitlines())
    assert (first["state"], second["state"], second["rc"]) == ("running", "exited", 5)


def test_a_frozen_supervisor_does_not_keep_its_job_alive(launcher):
    launcher.start(sh("frozen", "echo $$ > pid; sleep 600", grace=0.1))
    job = int(wait_for_file(launcher, "frozen", "pid"))
    os.kill(json.loads(launcher.read("frozen", "supervisor.json"))["pid"], signal.SIGSTOP)
    assert launcher.kill("frozen").state == "lost"
    assert not is_running(job)


def test_forgetting_a_lost_job_ends_what_it_left(launcher):
    launcher.start(sh("left", "echo $$ > pid; sleep 600"))
    job = int(wait_for_file(launcher, "left", "pid"))
    os.kill(json.loads(launcher.read("left", "supervisor.json"))["pid"], signal.SIGKILL)
    launcher.wait("left", 20)
    launcher.forget("left")
    assert launcher.status("left").state == "absent"
    assert not is_running(job)


def test_a_stale_pid_that_is_someone_elses_now_is_left_alone(launcher):
    launcher.start(sh("reused", "exit 0"))
    launcher.wait("reused", 20)
    folder = Path(launcher.folder("reused"))
    (folder / "exit.json").unlink()
    other = subprocess.Popen(["sleep", "600"])
    try:
        facts = json.loads((folder / "supervisor.json").read_text())
        (folder / "supervisor.json").write_text(json.dumps({**facts, "pid": other.pid}))
        assert launcher.status("reused").state == "lost"
        assert launcher.kill("reused").state == "lost"
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_a_supervisor_that_is_told_to_end_takes_its_job_along(launcher):
    launcher.start(sh("told", "echo $$ > pid; sleep 600", grace=0.5))
    job = int(wait_for_file(launcher, "told", "pid"))
    os.kill(json.loads(launcher.read("told", "supervisor.json"))["pid"], signal.SIGTERM)
    assert launcher.wait("told", 20).reason == "killed"
    assert not is_running(job)


def test_a_start_that_breaks_off_leaves_nothing(launcher):
    argv = [PYTHON, "-E", "-S", f"{launcher.tools}/supervisor.py", "start", f"{launcher.root}/jobs", "half"]
    done = subprocess.run(argv, input=b'{"argv": ["true"', capture_output=True, check=False)
    assert done.returncode != 0
    assert launcher.status("half").state == "absent"
    assert launcher.start(sh("half", "exit 3")).state in ("running", "exited")
    assert launcher.wait("half", 20).rc == 3


class SmallDisk(LocalHost):
    """This machine, seen by processes for which `folder` is a disk of one megabyte."""

    def __init__(self, folder):
        super().__init__()
        folder.mkdir()
        argv = ["unshare", "-rm", "sh", "-c", 'mount -t tmpfs -o size=1m,mode=700 none "$1"; echo; read x', "sh"]
        self.keeper = subprocess.Popen([*argv, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.keeper.stdout.readline()

    def raw(self, argv, **more):
        inside = ["nsenter", "-t", str(self.keeper.pid), "-U", "-m", "--preserve-credentials"]
        return super().raw([*inside, *argv], **more)

    def close(self):
        self.keeper.communicate(b"\n")


def has_own_mounts():
    argv = ["unshare", "-rm", "mount", "-t", "tmpfs", "none", "/mnt"]
    try:
        return subprocess.run(argv, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


@pytest.fixture
def small(tmp_path, launcher):
    host = SmallDisk(tmp_path / "small")
    yield Detached(host, str(tmp_path / "small"), launcher.tools, PYTHON)
    host.close()


needs_mounts = pytest.mark.skipif(not has_own_mounts(), reason="needs `unshare -rm` to make a small disk")
FILL = "dd if=/dev/zero of=fill bs=4k 2>/dev/null"


@needs_mounts
def test_a_disk_that_fills_up_is_why_the_job_ended(small):
    small.host.raw(["mkdir", "-m", "700", f"{small.root}/jobs"])
    small.start(sh("fills", f"{FILL}; exit 0", grace=0.1))
    end = small.wait("fills", 20)
    assert (end.state, end.reason) == ("exited", "disk-full")


@needs_mounts
def test_on_a_full_disk_nothing_starts_and_nothing_stays(small):
    small.host.raw(["mkdir", "-m", "700", f"{small.root}/jobs"])
    small.host.raw(["sh", "-c", f'cd "$1"; {FILL}', "sh", small.root])
    with pytest.raises(HostUnfit, match="No space left on device"):
        small.start(sh("none", "echo ran"))
    assert small.host.raw(["ls", "-A", f"{small.root}/jobs"]).out == b""
    small.host.raw(["rm", f"{small.root}/fill"])
    small.start(sh("none", "echo ran"))
    assert small.wait("none", 20).rc == 0
