"""What a container has that no other host has."""

from pathlib import Path

import pytest

from bisectperf.errors import HostUnavailable
from bisectperf.hosts import host_name, open_host
from bisectperf.hosts.container import ContainerHost
from bisectperf.hosts.local import LocalHost
from bisectperf.launchers.base import Job
from bisectperf.launchers.detached import Detached
from bisectperf.measure.site import lay_tools
from bisectperf.recipe.schema import Host


@pytest.fixture
def inside(container):
    return ContainerHost(LocalHost(), "podman", container)


def test_commands_have_the_pids_of_the_container(inside):
    link = inside.raw(["readlink", "/proc/self/ns/pid"]).out.decode().strip()
    assert link != str(Path("/proc/self/ns/pid").readlink())
    assert b"sleep infinity" in inside.raw(["ps", "-p", "1", "-o", "args="]).out


def test_a_container_that_is_not_there_is_a_host_that_is_away(container):
    gone = ContainerHost(LocalHost(), "podman", "gone")
    with pytest.raises(HostUnavailable, match=r'no container with name or ID "gone" found') as caught:
        gone.raw(["true"])
    assert "podman start gone" in caught.value.hint


def test_an_engine_that_is_not_there_is_a_host_that_is_away(container):
    with pytest.raises(HostUnavailable, match="docker-of-nobody"):
        ContainerHost(LocalHost(), "docker-of-nobody", container).raw(["true"])


def test_a_failure_inside_is_a_status_whatever_it_says(inside):
    assert inside.raw(["sh", "-c", "echo Error: no container >&2; exit 125"]) == (125, b"", b"Error: no container\n")
    assert inside.raw(["sh", "-c", "exit 124"]).rc == 124


def test_a_deadline_ends_the_command_inside(inside):
    with pytest.raises(HostUnavailable, match=r"no answer within 0\.5 s while running sleep"):
        inside.raw(["sleep", "6543"], deadline=0.5)
    assert b"sleep 6543" not in inside.raw(["ps", "-e", "-o", "args="]).out


def test_a_job_outlives_the_client_that_started_it_and_is_killed_inside(inside, tmp_path):
    root = str(tmp_path / "site")
    inside.raw(["mkdir", root])
    launcher = Detached(inside, root, lay_tools(inside, root))
    launcher.start(Job(id="long", argv=("sleep", "6544")))
    again = Detached(ContainerHost(LocalHost(), "podman", "box"), root, lay_tools(inside, root))
    assert again.status("long").state == "running"
    assert again.kill("long").reason == "killed"
    assert b"sleep 6544" not in inside.raw(["ps", "-e", "-o", "args="]).out


def test_the_recipe_names_it():
    host = open_host(Host(container="box", engine="podman"))
    assert isinstance(host, ContainerHost)
    assert host.name == host_name(Host(container="box", engine="podman")) == "local/box"
    assert (
        open_host(Host(ssh="gpu", container="box")).name == "gpu/box" == host_name(Host(ssh="gpu", container="box"))
    )
