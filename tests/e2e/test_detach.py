"""A controller by itself: nothing that happens to its terminal, to the network or to itself ends the night."""

import json
import os
import pty
import re
import shlex
import signal
import subprocess
from pathlib import Path
from threading import Event

import pytest

from bisectperf.driver.detach import controller
from bisectperf.driver.home import Home


def once(condition):
    for _ in range(6000):
        if found := condition():
            return found
        Event().wait(0.02)
    return pytest.fail("it did not come about")


def home(world):
    return Home(Path(world.history.folder, ".git", "bisectperf"))


def measured(world):
    return [e["launch"] for e in world.events() if e["event"] == "Measured"]


def in_a_terminal(world, *argv):
    """Run the command in a login shell on a terminal of its own; return the shell and the terminal's other end."""
    ours, its = pty.openpty()
    words = shlex.join(world.command(*argv))
    shell = subprocess.Popen(
        ["setsid", "--ctty", "sh", "-c", f"{words}; echo status $?; exec cat"],
        stdin=its,
        stdout=its,
        stderr=its,
        **world.options(),
    )
    os.close(its)
    return shell, ours


@pytest.mark.ssh
def test_it_survives_logout_a_restarted_server_and_its_own_death(world, slower, sshd, remote):
    world.hold()
    shell, terminal = in_a_terminal(
        world, "start", "--detach", slower[0], slower[-1], "--recipe", str(world.recipe_folder)
    )
    said = b""
    while b"status 0" not in said:
        said += os.read(terminal, 4096)
    first = controller(home(world))
    assert os.getsid(first.process.pid) != os.getsid(shell.pid)
    os.close(terminal)  # the line drops: whoever is left on it is hung up
    assert shell.wait(30) in (-signal.SIGHUP, 0, 1)
    assert f"driven by process {first.process.pid} " in world.run("status").stdout
    log = home(world).run() / "controller.log"
    assert log.stat().st_mode & 0o077 == 0

    sshd.stop()
    sshd.cut()
    world.release()
    sshd.start()
    once(lambda: len(measured(world)) > 1)
    assert controller(home(world)).process == first.process
    os.kill(first.process.pid, signal.SIGKILL)
    once(lambda: controller(home(world)) is None)
    before = measured(world)
    assert "nobody drives it now" in world.run("status").stdout

    assert world.run("run", "--detach").returncode == 0
    watched = world.run("watch", "--json")
    verdict = json.loads(watched.stdout)["verdict"]
    assert (watched.returncode, verdict["verdict"], verdict["sha"]) == (0, "first-bad", slower[7])
    assert re.search(r"measured L\d+", watched.stderr)
    assert set(before) <= set(measured(world))
    assert len(world.runs()) == len(set(world.runs())), "a launch ran twice"


def test_stop_ends_it_after_the_launch_in_hand(world, slower, follow):
    world.write_recipe()
    world.hold()
    assert world.start(slower[0], slower[-1], "--detach").returncode == 0
    once(world.runs)
    with world.background("stop") as asked:
        follow(asked, "after the launch in hand")
        assert measured(world) == []
        world.release()
        assert asked.wait(60) == 0
    assert len(measured(world)) == 1
    assert world.events()[-1]["event"] == "Stopped"
    assert world.run("stop").returncode == 10
    assert world.verdict(world.run("run", "--json"))["sha"] == slower[7]


def test_stop_now_cancels_the_launch_in_hand(world, slower):
    world.write_recipe()
    world.hold()
    assert world.start(slower[0], slower[-1], "--detach").returncode == 0
    once(world.runs)
    assert world.run("stop", "--now").returncode == 0
    ends = [e for e in world.events() if e["event"] in ("Voided", "Measured", "Stopped")]
    assert [(e["event"], e.get("kind")) for e in ends] == [("Voided", "cancelled"), ("Stopped", None)]
    assert list(Path(world.folder, "host", "jobs").iterdir()) == []
    world.release()
    assert world.verdict(world.run("run", "--json"))["sha"] == slower[7]


def test_what_goes_wrong_at_once_is_said_at_once(world, slower, follow):
    world.write_recipe()
    assert world.start(slower[0], slower[-1], "--max-launches", "2").returncode == 8
    world.hold()
    with world.background("compare", slower[0], slower[-1], "--recipe", str(world.recipe_folder)) as other:
        follow(other, "running")
        done = world.run("run", "--detach")
        assert done.returncode == 11
        assert f"process {other.pid} of" in done.stderr
        world.release()
