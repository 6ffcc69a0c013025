"""A host as the scripts see it: our mirror, our worktree, and the interpreter that the host happens to have."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

HOSTSIDE = Path(__file__).parents[2] / "bisectperf" / "hostside"
PYTHON = shutil.which("python3", path="/usr/bin:/bin") or sys.executable
"""The host's own interpreter, not the one that runs the tests."""

SERVE = """\
import http.server, os, signal, subprocess, sys, time
import engine

mode = os.environ.get("MODE", "")

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/die":
            os._exit(3)
        self.send_response(503 if mode == "sick" else 200)
        self.end_headers()
        print("request", self.path, flush=True)

    def log_message(self, *_):
        pass

if mode == "dies":
    sys.exit("no such device")
if mode == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if mode == "strays":
    # A grandchild that left the session, forgot its environment and ignores SIGTERM.
    code = "import signal, time; signal.signal(15, signal.SIG_IGN); print('stray up', flush=True); time.sleep(600)"
    stray = subprocess.Popen([sys.executable, "-c", code], env={}, start_new_session=True, stdout=subprocess.PIPE)
    stray.stdout.readline()
    print("stray", stray.pid, flush=True)
if mode == "forks" and os.fork() == 0:
    time.sleep(600)
if mode == "chatty":
    print("x" * 100000, flush=True)
print("up", flush=True)
if mode == "mute":
    time.sleep(600)
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""

BENCH = """\
import json, os, urllib.request
path = os.environ.get("ASK", "/generate")
with urllib.request.urlopen(os.environ["URL"] + path, timeout=60) as answer:
    assert answer.status == 200
run = {"speed": 100.5, "acceptance": 2.5}
print("some words before")
print(json.dumps({"warmup": [run], "repetitions": [run, run], "output_digest": "abc", "findings": ["cold"]}))
"""

FILES = {
    "engine/serve.py": SERVE,
    ".gitattributes": "*.bat text eol=crlf\nversion.txt ident\nmodel.bin filter=lfs\n",
    ".gitignore": "*.so\n__pycache__/\njson.py\nbuild/\n",
    "engine/__init__.py": "from engine.core import step\n",
    "engine/core.py": "def step(n):\n    return n + 1\n",
    "engine/caf\u00e9.txt": "coffee\n",
    "run.sh": "#!/bin/sh\nexec python3 -m engine\n",
    "start.bat": "echo one\necho two\n",
    "version.txt": "$Id$\n",
}


def clean_environment(**more):
    return {k: v for k, v in os.environ.items() if not k.startswith(("GIT_", "PYTHON"))} | more


class Site:
    """Our folder on a host, with one worktree."""

    def __init__(self, root, upstream):
        self.root = Path(root)
        self.upstream = upstream
        self.mirror = self.root / "mirror" / "r.git"
        self.worktree = self.root / "wt" / "lane"
        self.tool("mirror-init", {"mirror": str(self.mirror)})

    def python(self, *argv, **options):
        return subprocess.run([PYTHON, *argv], capture_output=True, check=False, env=clean_environment(), **options)

    def ask(self, verb, words, pack=None):
        """Run a verb of checkout.py; return the finished process."""
        script = str(HOSTSIDE / "checkout.py")
        if pack is None:
            return self.python("-B", script, verb, input=json.dumps(words).encode())
        return self.python("-B", script, verb, json.dumps(words), input=pack)

    def tool(self, verb, words, pack=None):
        done = self.ask(verb, words, pack)
        assert done.returncode == 0, done.stderr.decode()
        return json.loads(done.stdout)

    def tree_of(self, commit):
        return self.upstream.git("rev-parse", commit + "^{tree}")

    def send(self, commit):
        """Bring a commit into the mirror, as the controller does."""
        pack = subprocess.run(
            ["git", "pack-objects", "--revs", "--stdout", "-q"],
            cwd=self.upstream.folder,
            input=commit.encode() + b"\n",
            capture_output=True,
            check=True,
        ).stdout
        words = {"mirror": str(self.mirror), "commit": commit, "tree": self.tree_of(commit)}
        return self.tool("receive", words, pack)

    def checkout(self, commit, **more):
        words = {"mirror": str(self.mirror), "worktree": str(self.worktree), "commit": commit, **more}
        return self.tool("checkout", words)

    def prove(self, commit, allow=(), *, submodules=False, without=""):
        """Return the proof of the worktree against `commit`; `without` is Python that takes a check out."""
        script = (
            "import sys, json; sys.dont_write_bytecode = True; sys.path.insert(0, sys.argv[1])\n"
            f"import prove\n{without}\n"
            "print(json.dumps(prove.prove(*json.loads(sys.argv[2]))))"
        )
        words = [str(self.worktree), str(self.mirror), self.tree_of(commit), list(allow), submodules]
        done = self.python("-c", script, str(HOSTSIDE), json.dumps(words))
        assert done.returncode == 0, done.stderr.decode()
        return json.loads(done.stdout)

    def spec(self, **more):
        """Return the specification of a launch of the engine's server that goes well, with `more` laid over it."""
        about = {"import_root": str(self.worktree), "packages": ["engine"], "pycache": str(self.root / "pycache")}
        bench = {"argv": [PYTHON, "-c", BENCH], "env": {"URL": "http://127.0.0.1:{port}"}, "cwd": str(self.root)}
        ready = {"http": "http://127.0.0.1:{port}/health", "log": "", "command": [], "timeout": 60.0}
        server = {"argv": [PYTHON, "-m", "engine.serve", "{port}"], "env": {}, "cwd": str(self.root), "ready": ready}
        spec = {
            "launch": "L1",
            "worktree": str(self.worktree),
            "git_dir": str(self.mirror),
            "tree": self.tree_of(self.upstream.new),
            "allow": [],
            "submodules": False,
            "environment": about,
            "prologue": "",
            "server": server | {"grace": 20.0, "expect_env": {}},
            "bench": bench | {"timeout": 60.0, "regex": "", "path": "", "warmup": 1, "repetitions": 2},
            "metric": "speed",
            "secondary": ["acceptance"],
            "guards": [],
            "facts": [],
            "port": 0,
            "gate": None,
            "snapshot": {"digests": [], "secrets": []},
            "limits": {"log_bytes": 1 << 20},
        }
        for key, value in more.items():
            merge = isinstance(value, dict) and isinstance(spec[key], dict)
            spec[key] = spec[key] | value if merge else value
        return spec

    def launch(self, python=PYTHON, inside=(), **more):
        """Run one launch in a job folder of its own, as the supervisor does; return its result.

        `inside` is a command in front that sets a stage for it.
        """
        self.job = Path(tempfile.mkdtemp(prefix="job-", dir=self.root))
        (self.job / "spec.json").write_text(json.dumps(self.spec(**more)))
        done = subprocess.run(
            [*inside, python, "-B", str(HOSTSIDE / "launch.py"), "spec.json"],
            cwd=self.job,
            env=clean_environment(BISECTPERF_JOB=self.job.name),
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()
        return json.loads((self.job / "result.json").read_text())

    def git(self, *argv, **options):
        """Run git in the worktree as anybody would."""
        clean = ["-c", "user.name=B", "-c", "user.email=b@example.org", "-c", "protocol.file.allow=always"]
        done = subprocess.run(
            ["git", *clean, *argv],
            cwd=self.worktree,
            capture_output=True,
            check=False,
            env=clean_environment(GIT_CONFIG_NOSYSTEM="1"),
            **options,
        )
        assert done.returncode == 0, f"git {argv}: {done.stderr.decode()}"
        return done.stdout.decode(errors="surrogateescape").strip()


@pytest.fixture
def site_python():
    """Run Python code on the host's interpreter with our scripts' folder as first argument; return its JSON."""

    def run(code, *argv, path):
        argv = [PYTHON, "-B", "-c", code, str(HOSTSIDE), *argv]
        done = subprocess.run(argv, capture_output=True, check=True, env=clean_environment(PATH=path))
        return json.loads(done.stdout)

    return run


@pytest.fixture
def upstream(history, own_home):
    """Two commits: `history.old` and `history.new`, with an executable and a symbolic link."""
    history.write(FILES)
    (history.folder / "run.sh").chmod(0o755)
    (history.folder / "latest").symlink_to("engine/core.py")
    history.old = history.commit("old")
    history.new = history.commit("new", {"engine/core.py": "def step(n):\n    return n + 2\n"})
    return history


@pytest.fixture
def site(tmp_path, upstream):
    """A worktree of ours at the new commit."""
    made = Site(tmp_path / "host", upstream)
    made.send(upstream.new)
    made.checkout(upstream.new)
    return made
