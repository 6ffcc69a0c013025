"""A night over a real SSH connection, as a user without privileges: cut, killed, gone on with."""

import json
import os
import signal
import subprocess

from bisectperf.hosts.ssh import SshHost


def test_a_cut_connection_and_a_killed_controller_lose_nothing(world, slower, sshd, remote, follow):
    argv = world.command("start", slower[0], slower[-1], "--recipe", str(world.recipe_folder))
    first = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, **world.options())
    follow(first, "running", times=2)
    sshd.cut()
    follow(first, "measured", times=2)
    follow(first, "running")
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    first.stderr.close()
    before = {e["launch"] for e in world.events() if e["event"] == "Measured"}
    assert before

    done = world.run("run", "--json")
    verdict = world.verdict(done)
    assert (done.returncode, verdict["verdict"], verdict["sha"]) == (0, "first-bad", slower[7]), done.stderr
    events = world.events()
    measured = [e["launch"] for e in events if e["event"] == "Measured"]
    assert len(measured) == len(set(measured))
    assert before <= set(measured)
    assert [e for e in events if e["event"] == "Waited"], "the cut was not noticed"
    assert len(world.runs()) == len(set(world.runs())), "a launch ran twice"


def test_a_repository_that_lives_only_on_the_host(world, slower, sshd, remote, tmp_path):
    clone = f"{remote}/clone"
    host = SshHost(sshd.alias, str(sshd.config))
    bundle = tmp_path / "bundle"
    world.history.git("bundle", "create", "-q", str(bundle), "--all")
    host.put(f"{remote}/bundle", bundle.read_bytes())
    assert host.raw(["git", "clone", "-q", f"{remote}/bundle", clone]).rc == 0
    host.raw(["sh", "-c", f"echo '# mine' >> {clone}/engine.py"])
    host.close()
    world.env = {"XDG_STATE_HOME": str(tmp_path / "state")}
    where = f"{sshd.alias}:{clone}"
    # The alias is in a configuration of the test's own, which the recipe names.
    done = subprocess.run(
        world.command(
            "start", slower[0], slower[-1], "--recipe", str(world.recipe_folder), "--repo", where, "--json"
        ),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **world.env},
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["verdict"]["sha"] == slower[7]
