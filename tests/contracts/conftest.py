"""Every host and launcher passes the same suite."""

import os
import subprocess
from pathlib import Path

import pytest

from bisectperf.hosts.container import ContainerHost
from bisectperf.hosts.local import LocalHost
from bisectperf.hosts.ssh import SshHost
from bisectperf.launchers.detached import Detached
from bisectperf.measure.site import lay_tools

# A stand-in for a container engine: it knows `exec -i NAME ARGV` and enters the process and mount namespaces of NAME.
# It shows what separate pids do to us; it is no evidence on docker or podman.
ENGINE = """#!/bin/sh
[ "$1 $2" = "exec -i" ] || { echo "unknown: $*" >&2; exit 125; }
pid=$(cat "$0.d/$3" 2>/dev/null) || { echo "Error: no container with name or ID \\"$3\\" found" >&2; exit 125; }
shift 3
exec nsenter --target "$pid" USER --mount --pid -- "$@"
"""
AS_USER = ["--user", "--map-root-user"] if os.geteuid() else []


@pytest.fixture
def container(tmp_path, monkeypatch):
    """A long-lived container as a stand-in makes it, its first process one that reaps nobody; its name."""
    engine = tmp_path / "engine" / "podman"
    (tmp_path / "engine" / "podman.d").mkdir(parents=True)
    engine.write_text(ENGINE.replace("USER", "--user --preserve-credentials" if AS_USER else ""))
    engine.chmod(0o755)
    monkeypatch.setenv("PATH", f"{engine.parent}:{os.environ['PATH']}")
    words = ["unshare", *AS_USER, "--pid", "--mount", "--fork", "--kill-child", "--mount-proc"]
    first = ["sh", "-c", "echo up; exec sleep infinity"]
    with subprocess.Popen([*words, *first], stdout=subprocess.PIPE) as made:
        if made.stdout.readline() != b"up\n":
            pytest.skip("no namespaces can be made here")
        (child,) = Path(f"/proc/{made.pid}/task/{made.pid}/children").read_text().split()
        (tmp_path / "engine" / "podman.d" / "box").write_text(child)
        yield "box"
        made.kill()


@pytest.fixture(params=["local", "ssh", "container"])
def host(request, tmp_path):
    if request.param == "ssh":
        server = request.getfixturevalue("sshd")
        made = SshHost(server.alias, str(server.config))
        made.room = made.raw(["mktemp", "-d"]).out.decode().strip()
    else:
        made = LocalHost()
        if request.param == "container":
            made = ContainerHost(made, "podman", request.getfixturevalue("container"))
        made.room = str(tmp_path / "room")
        made.raw(["mkdir", made.room])
    yield made
    made.raw(["rm", "-rf", made.room])
    made.close()


@pytest.fixture
def launcher(host):
    root = f"{host.room}/site"
    return Detached(host, root, lay_tools(host, root))
