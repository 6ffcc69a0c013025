"""A night beside others: what they disturb is repeated, and a host that moves is no host to go on with."""

import os
import subprocess

import pytest


@pytest.fixture
def gpu(world, smi):
    world.env = {"PATH": f"{smi.folder}:{os.environ['PATH']}"}
    return smi


def disturbing(world, state, number):
    """Let the benchmark's run of this number find somebody else on the GPU from its middle on."""
    bench = world.recipe_folder / "bench.py"
    quiet = state.parent / "quiet"
    quiet.write_text(state.read_text())
    lines = (
        "import shutil",
        "count = len((here / 'runs').read_text().split())",
        f"shutil.copy({str(state)!r} + '.loud' if count == {number} else {str(quiet)!r}, {str(state)!r})",
    )
    bench.write_text(bench.read_text() + "\n".join(lines) + "\n")


def test_a_launch_beside_a_foreign_process_is_void_kept_and_repeated(world, slower, gpu):
    gpu.say((4242, "python3"))
    loud = gpu.state.read_text()
    gpu.say()
    (gpu.folder / "state.json.loud").write_text(loud)
    disturbing(world, gpu.state, 3)

    world.write_recipe(more="")
    text = (world.recipe_folder / "recipe.toml").read_text()
    (world.recipe_folder / "recipe.toml").write_text(text.replace("cpu_busy = 1", "cpu_busy = 1\nwait = 0.1"))
    first = subprocess.Popen(
        world.command("start", slower[0], slower[-1], "--recipe", str(world.recipe_folder), "--json"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **world.options(),
    )
    for line in first.stderr:
        if " void " in line:
            gpu.say()
            break
    out, _ = first.communicate(timeout=240)
    assert first.returncode == 0, out + world.run("log").stdout
    assert f'"sha": "{slower[7]}"' in out
    voids = [e for e in world.events() if e["event"] == "Voided"]
    assert voids[0]["kind"] == "unfit"
    assert voids[0]["reason"].endswith("the gate broke: process 4242 (python3) of somebody else is on GPU 0")
    measured = [e["launch"] for e in world.events() if e["event"] == "Measured"]
    assert voids[0]["launch"] not in measured
    assert slower[0][:9] in world.run("log").stdout


def test_a_driver_that_changes_in_the_night_stops_it_with_both_versions(world, slower, gpu):
    world.write_recipe(pause="0.2")
    first = subprocess.Popen(
        world.command("start", slower[0], slower[-1], "--recipe", str(world.recipe_folder)),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        **world.options(),
    )
    for line in first.stderr:
        if "measured" in line:
            gpu.say(driver_version="590.48.01")
            break
    rest = first.stderr.read()
    first.stderr.close()
    assert first.wait(60) == 5
    assert "driver: 580.159.04 at the ends, now 590.48.01" in rest
    assert "put it back" in rest
    assert "needs-you" in world.run("status").stdout
    measured = len([e for e in world.events() if e["event"] == "Measured"])
    assert world.run("run").returncode == 5
    assert len([e for e in world.events() if e["event"] == "Measured"]) == measured
    gpu.say()
    done = world.run("run", "--json")
    assert world.verdict(done)["sha"] == slower[7]
