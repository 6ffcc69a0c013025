"""Fixtures for all tests: real git repositories."""

import contextlib
import getpass
import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest


class History:
    """A real repository that is written commit by commit; dates are fixed, so that ids are the same at every run."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.folder.mkdir(parents=True)
        self._tick = 1_700_000_000
        self.git("init", "-q", "-b", "main")
        for key, value in (("user.name", "A"), ("user.email", "a@example.org"), ("gc.auto", "0")):
            self.git("config", key, value)

    def git(self, *argv, stdin=b"", env=None):
        """Run git here and return what it prints, without the last line break."""
        clean = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
        when = f"@{self._tick} +0000"
        dates = {"GIT_AUTHOR_DATE": when, "GIT_COMMITTER_DATE": when, "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C"}
        done = subprocess.run(
            ["git", *argv],
            cwd=self.folder,
            input=stdin,
            capture_output=True,
            env=clean | dates | (env or {}),
            check=False,
        )
        assert done.returncode == 0, f"git {argv}: {done.stderr.decode()}"
        return done.stdout.decode(errors="surrogateescape").removesuffix("\n")

    def write(self, files):
        """Write files into the working copy: path -> text, bytes, or None to delete it."""
        for name, content in files.items():
            path = self.folder / name
            if content is None:
                path.unlink()
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())

    def commit(self, subject, files=None):
        """Commit the working copy with `files` written into it; return the commit's id."""
        self._tick += 60
        self.write(files or {})
        self.git("add", "--all")
        self.git("commit", "-q", "--allow-empty", "-m", subject)
        return self.git("rev-parse", "HEAD")

    def merge(self, branch, subject="merge"):
        """Merge `branch` into what is checked out, always with a merge commit; return its id."""
        self._tick += 60
        self.git("merge", "-q", "--no-ff", "-m", subject, branch)
        return self.git("rev-parse", "HEAD")

    def switch(self, branch, start=None):
        """Check out `branch`, made at `start` where that is given."""
        self.git("checkout", "-q", *(["-b", branch, start] if start else [branch]))

    def snapshot(self):
        """Return every file of working copy and git directory with its bytes, mode and time, but for ours.

        Object files have no time here: our store shares them by hard link, and git renews the time of an object
        that it is asked to store again. Nor has a shared index, whose time git renews whenever it reads one, nor a
        folder: ours is made in one.
        """
        seen = {}
        for path in sorted(self.folder.rglob("*")):
            name = str(path.relative_to(self.folder))
            if name.startswith(".git/bisectperf"):
                continue
            stat = path.lstat()
            content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
            timed = content and not name.startswith((".git/objects/", ".git/sharedindex."))
            seen[name] = (stat.st_mode, content, stat.st_mtime_ns if timed else 0)
        return seen


@pytest.fixture
def own_home(tmp_path_factory, monkeypatch):
    """A home of the test's own: neither the configuration nor the state of whoever runs it."""
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(home))
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    return home


SMI = """#!{python} -IS
import json, sys
with open({state!r}) as file:
    state = json.load(file)
what, _, names = sys.argv[1].partition("=") if len(sys.argv) > 1 else ("", "", "")
tables = {{"--query-gpu": state["gpus"], "--query-compute-apps": state["processes"]}}
if what not in tables:
    sys.exit("this is a scripted nvidia-smi")
try:
    lines = [", ".join(str(row[name]) for name in names.split(",")) for row in tables[what]]
except KeyError as error:
    sys.exit("Field %s is not a valid field to query." % error)
print("\\n".join(lines))
"""
GPU = {
    "index": 0,
    "uuid": "GPU-1",
    "name": "NVIDIA H200",
    "driver_version": "580.159.04",
    "clocks.sm": 1980,
    "clocks.mem": 3201,
    "temperature.gpu": 41,
    "power.draw": 120.5,
    "power.limit": "700.00",
    "memory.used": 0,
    "clocks_event_reasons.active": "0x0000000000000001",
    "vbios_version": "96.00",
    "enforced.power.limit": "700.00",
    "clocks.max.sm": 1980,
    "clocks.applications.graphics": 1980,
    "ecc.mode.current": "Enabled",
    "pcie.link.gen.max": 5,
    "pcie.link.width.current": 16,
    "persistence_mode": "Enabled",
    "compute_mode": "Default",
    "mig.mode.current": "Disabled",
    **{
        f"clocks_event_reasons_counters.{name}": 0
        for name in (
            "sw_power_cap",
            "sync_boost",
            "sw_thermal_slowdown",
            "hw_thermal_slowdown",
            "hw_power_brake_slowdown",
        )
    },
}


class Smi:
    """A scripted nvidia-smi, laid into a folder for the front of PATH: what it says is written between two calls."""

    def __init__(self, folder):
        folder.mkdir(exist_ok=True)
        self.folder, self.state = folder, folder / "state.json"
        tool = folder / "nvidia-smi"
        tool.write_text(SMI.format(python=sys.executable, state=str(self.state)))
        tool.chmod(0o755)
        self.say()

    def say(self, *processes, **changes):
        """Let there be one GPU with `changes` (dots as two underscores), and (pid, name) on it."""
        gpu = GPU | {name.replace("__", "."): value for name, value in changes.items()}
        rows = [{"gpu_uuid": "GPU-1", "pid": p, "process_name": n, "used_memory": 500} for p, n in processes]
        aside = self.state.with_suffix(".aside")
        aside.write_text(json.dumps({"gpus": [gpu], "processes": rows}))
        aside.replace(self.state)


@pytest.fixture
def smi(tmp_path):
    """A scripted nvidia-smi; its folder is not on PATH yet."""
    return Smi(tmp_path / "smi")


@pytest.fixture
def history(tmp_path):
    """An empty repository to be written commit by commit."""
    return History(tmp_path / "upstream")


class Sshd:
    """A real sshd on loopback for one unprivileged user, with the client's configuration to reach it."""

    def __init__(self, folder, user):
        self.folder, self.user = folder, user
        self.port = _free_port()
        self.alias = "bisectperf-test"
        self.config = folder / "client_config"
        binary = shutil.which("sshd") or "/usr/sbin/sshd"
        if not Path(binary).exists():
            pytest.fail("there is no sshd; run: apt-get install -y openssh-server")
        for name in ("host", "user"):
            subprocess.run(
                ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", folder / f"{name}_key"], check=True
            )
        keys = folder / "authorized_keys"
        keys.write_text((folder / "user_key.pub").read_text())
        keys.chmod(0o644)
        (folder / "sshd_config").write_text(
            f"Port {self.port}\nListenAddress 127.0.0.1\nHostKey {folder}/host_key\nPidFile {folder}/pid\n"
            f"AuthorizedKeysFile {folder}/authorized_keys\nStrictModes no\nUsePAM no\nPasswordAuthentication no\n"
            "MaxSessions 1\nMaxStartups 50\nLogLevel ERROR\n"
        )
        self.write_client(folder / "known_hosts")
        host_key = (folder / "host_key.pub").read_text().split()[:2]
        (folder / "known_hosts").write_text(f"[127.0.0.1]:{self.port} {' '.join(host_key)}\n")
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)
        self.binary = binary
        self.process = None
        self.start()

    def write_client(self, known_hosts, key=None, agent="none", more=""):
        """Write the client's configuration; `more` goes before it, and so its settings win."""
        self.config.write_text(
            f"{more}\nHost *\n  HostName 127.0.0.1\n  Port {self.port}\n  User {self.user}\n"
            f"  IdentityFile {key or self.folder / 'user_key'}\n  IdentitiesOnly yes\n  IdentityAgent {agent}\n"
            f"  UserKnownHostsFile {known_hosts}\n  GlobalKnownHostsFile /dev/null\n"
        )

    def start(self):
        argv = [self.binary, "-D", "-e", "-f", self.folder / "sshd_config"]
        self.log = (self.folder / "sshd.log").open("ab")
        self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        for _ in range(400):
            with socket.socket() as sock:
                if sock.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            if self.process.poll() is not None:
                break
            time.sleep(0.02)
        pytest.fail("sshd did not start: " + (self.folder / "sshd.log").read_text())

    def sessions(self):
        """Return the pids of the processes that serve connections."""
        pids = subprocess.run(
            ["pgrep", "-P", str(self.process.pid)], capture_output=True, text=True, check=False
        ).stdout.split()
        return [int(pid) for pid in pids]

    def serving(self):
        """Return every sshd process behind a connection, the unprivileged ones too."""
        found = []
        for pid in self.sessions():
            below = subprocess.run(["pgrep", "-P", str(pid), "sshd"], capture_output=True, text=True, check=False)
            found += [pid, *map(int, below.stdout.split())]
        return found

    def cut(self):
        """Kill every connection, as a network cut that is noticed."""
        # The server's side alone: what runs below it goes on.
        for pid in reversed(self.serving()):
            with contextlib.suppress(ProcessLookupError):  # one ends with the other
                os.kill(pid, signal.SIGKILL)

    def stop(self):
        self.process.terminate()
        self.process.wait()
        self.log.close()


def _free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


@pytest.fixture(scope="session")
def plain_user(worker_name):
    """Name and home of a user without privileges."""
    with user_without_privileges(f"bptest{worker_name}") as user:
        yield user


@contextlib.contextmanager
def user_without_privileges(name):
    """Yield name and home of a user who is made for the while where we are root, else of ourselves."""
    if os.geteuid() != 0:
        yield getpass.getuser(), Path.home()
        return
    home = Path(tempfile.mkdtemp(prefix="bisectperf-home-"))
    subprocess.run(["useradd", "-M", "-d", home, "-s", "/bin/sh", "-p", "*", name], check=True, capture_output=True)
    shutil.chown(home, name)
    try:
        yield name, home
    finally:
        _remove_user(name)
        shutil.rmtree(home, ignore_errors=True)


def _remove_user(name):
    """Remove a user once the last process of its sessions is gone: what is still there by now is ended."""
    for _ in range(200):
        left = subprocess.run(["pgrep", "-u", name], capture_output=True, text=True, check=False).stdout.split()
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        if not left and subprocess.run(["userdel", name], check=False, capture_output=True).returncode == 0:
            return
        time.sleep(0.02)
    pytest.fail(f"the user {name}, made for the tests, could not be removed")


@pytest.fixture(scope="session")
def worker_name():
    """A name for this test process that no other one has."""
    return f"{os.getpid()}"


@pytest.fixture
def sshd(plain_user, tmp_path_factory):
    """A real sshd on loopback."""
    folder = Path(tempfile.mkdtemp(prefix="bisectperf-sshd-"))
    folder.chmod(0o755)
    server = Sshd(folder, plain_user[0])
    server.home = plain_user[1]
    yield server
    server.stop()
    shutil.rmtree(folder, ignore_errors=True)
