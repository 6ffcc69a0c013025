"""Environments that are made for each build, and the shell lines that go before a launch."""

import sys
import zipfile

RECIPE = """
name = "own"
files = ["bench.py", "pace-1-py3-none-any.whl", "pace-2-py3-none-any.whl"]
warmup = 0
repetitions = 1
[params]
python = "{python}"
[repo]
code = ["engine.py"]
pins = ["pins.txt"]
[host]
work_dir = "{work}"
prologue = "export LEVEL=10"
[environment]
policy = "own"
python = "{{python}}"
packages = ["engine"]
requirements = ["--no-index", "--find-links", "{{recipe}}", "-r", "{{worktree}}/pins.txt"]
[gate]
cpu_busy = 1
[build]
depends = ["pins.txt"]
[bench]
argv = ["{{python}}", "{{recipe}}/bench.py"]
env = {{ COUNTS = "{counts}" }}
regex = 'speed: ([0-9.]+)'
[metric]
name = "speed"
unit = "tok/s"
better = "higher"
"""
ENGINE = "import os, pace\n\n\ndef speed():\n    return pace.PACE * int(os.environ['LEVEL'])\n"


def wheel(folder, version, pace):
    """Write a wheel that pip installs without any index."""
    info = f"pace-{version}.dist-info"
    with zipfile.ZipFile(folder / f"pace-{version}-py3-none-any.whl", "w") as file:
        file.writestr("pace.py", f"PACE = {pace}\n")
        file.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: pace\nVersion: {version}\n")
        file.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        file.writestr(f"{info}/RECORD", "")


def test_a_dependency_that_moved_is_found_with_an_environment_per_build(world):
    history = world.history
    for version, pace in ((1, 10), (2, 7)):
        wheel(world.recipe_folder, version, pace)
    (world.recipe_folder / "recipe.toml").write_text(
        RECIPE.format(python=sys.executable, work=world.folder / "host", counts=world.counts)
    )
    good = history.commit("first", {"engine.py": ENGINE, "pins.txt": "pace==1\n"})
    history.commit("refactor", {"engine.py": "# tidy\n" + ENGINE})
    culprit = history.commit("newer pace", {"pins.txt": "pace==2\n"})
    bad = history.commit("docs", {"engine.py": "# documented\n" + ENGINE})
    done = world.start(good, bad)
    verdict = world.verdict(done)
    assert (done.returncode, verdict["verdict"], verdict["sha"]) == (0, "first-bad", culprit), done.stderr
    built = [event for event in world.events() if event["event"] == "Built" and not event["build"]["cached"]]
    assert len({event["build"]["key"] for event in built}) < len(world.runs()), "environments are kept and used again"
