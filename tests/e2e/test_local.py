"""The main job on this machine, as a user calls it."""

import json
import re
import subprocess
import time
from datetime import UTC, datetime, timedelta

import pytest


def test_it_names_the_commit_and_leaves_the_repository_alone(world, slower):
    world.write_recipe()
    world.history.write({"dirty.txt": "mine", "engine.py": "half an edit"})
    before = world.history.snapshot()
    done = world.start(slower[0], slower[-1])
    assert done.returncode == 0, done.stderr
    verdict = world.verdict(done)
    assert (verdict["verdict"], verdict["sha"], verdict["parent"]) == ("first-bad", slower[7], slower[6])
    assert verdict["posterior"] >= 0.99
    assert verdict["effect"]["low"] > 0
    assert "1 changed file and 1 untracked file" in done.stderr
    assert world.history.snapshot() == before
    assert len(world.runs()) == len(set(world.runs()))


def test_every_command_that_shows_a_run(world, slower):
    world.write_recipe()
    world.start(slower[0], slower[-1])
    assert slower[7][:9] in world.run("status").stdout
    assert json.loads(world.run("status", "--json").stdout)["verdict"]["sha"] == slower[7]
    log = world.run("log").stdout.splitlines()
    assert len(log) > 20
    for kind in ("html", "markdown", "json", "png"):
        done = world.run("report", "--format", kind)
        assert done.returncode == 0, done.stderr
    again = world.run("run")
    assert again.returncode == 0
    assert slower[7][:9] in again.stdout
    reset = world.run("reset")
    assert "is ended" in reset.stdout
    assert world.run("status").returncode == 10


def test_a_merge_is_entered(world, history):
    world.write_recipe()
    good = history.commit("start", {"engine.py": "def speed():\n    return 100\n", "extra.py": "A = 1\n"})
    history.switch("side", "main")
    history.commit("side 1", {"extra.py": "A = 2\n"})
    culprit = history.commit("side 2", {"engine.py": "def speed():\n    return 75\n"})
    history.commit("side 3", {"extra.py": "A = 3\n"})
    history.switch("main")
    history.commit("main 1", {"other.py": "B = 1\n"})
    history.merge("side")
    bad = history.commit("after", {"extra.py": "A = 4\n"})
    done = world.start(good, bad)
    assert done.returncode == 0, done.stderr
    assert world.verdict(done)["sha"] == culprit


def test_a_commit_that_cannot_run_hides_the_answer_in_a_set(world, history):
    world.write_recipe()
    speeds = [100, 100, 100, 100, None, 75, 75, 75]
    shas = []
    for n, speed in enumerate(speeds):
        body = "raise RuntimeError('broken')\n" if speed is None else f"def speed():\n    return {speed}\n"
        shas.append(history.commit(f"change {n}", {"engine.py": f"# {n}\n{body}"}))
    done = world.start(shas[0], shas[-1])
    verdict = world.verdict(done)
    assert done.returncode == 3
    assert (verdict["verdict"], verdict["commits"]) == ("first-bad-among", [shas[4], shas[5]])
    assert "broken" in json.dumps(verdict["untestable"])


def test_ends_that_do_not_differ(world, history):
    world.write_recipe()
    shas = [history.commit(f"change {n}", {"engine.py": f"# {n}\ndef speed():\n    return 100\n"}) for n in range(6)]
    done = world.start(shas[0], shas[-1])
    assert done.returncode == 4
    assert world.verdict(done)["verdict"] == "not-reproduced"


def test_a_faster_bad_end_is_said(world, slower):
    world.write_recipe(more="# the other way round\n")
    text = (world.recipe_folder / "recipe.toml").read_text().replace('better = "higher"', 'better = "lower"')
    (world.recipe_folder / "recipe.toml").write_text(text)
    done = world.start(slower[0], slower[-1])
    assert done.returncode == 4
    assert world.verdict(done)["verdict"] == "faster"


def test_reproduce_says_yes_of_the_culprit_and_no_of_its_neighbour(world, slower):
    world.write_recipe()
    options = ["--recipe", str(world.recipe_folder), "--json"]
    yes = world.run("reproduce", slower[7], *options)
    assert (yes.returncode, world.verdict(yes)["answer"]) == (0, "yes")
    no = world.run("reproduce", slower[5], *options)
    assert (no.returncode, world.verdict(no)["answer"]) == (4, "no")
    low, high = world.verdict(no)["effect"]["low"], world.verdict(no)["effect"]["high"]
    assert -0.03 < low < high < 0.03


def test_comparing_a_revision_with_itself_measures_the_noise(world, slower):
    world.write_recipe()
    done = world.run("compare", slower[0], slower[0], "--recipe", str(world.recipe_folder), "--json")
    verdict = world.verdict(done)
    assert verdict["answer"] == "no"
    assert 0.002 < verdict["between_sd"] < 0.03


@pytest.mark.parametrize(
    ("ends", "said", "hint"),
    [
        (("bad", "good"), "wrong order", "bisectperf start"),
        (("nope", "bad"), "names no commit", "git log"),
        (("good", "good"), "same commit", "compare"),
    ],
)
def test_ends_that_make_no_question(world, slower, ends, said, hint):
    world.write_recipe()
    names = {"good": slower[0], "bad": slower[-1]}
    done = world.start(*(names.get(end, end) for end in ends))
    assert done.returncode == 2
    assert said in done.stderr
    assert hint in done.stderr
    assert "Traceback" not in done.stderr


def test_histories_that_parted_name_their_fork(world, history):
    world.write_recipe()
    fork = history.commit("fork", {"engine.py": "def speed():\n    return 1\n"})
    history.switch("side", "main")
    side = history.commit("side", {"extra.py": "A = 1\n"})
    history.switch("main")
    main = history.commit("main", {"extra.py": "B = 1\n"})
    done = world.start(side, main)
    assert done.returncode == 2
    assert f"bisectperf start {fork[:12]}" in done.stderr


def test_a_shallow_clone_is_refused(world, slower, tmp_path):
    world.write_recipe()
    subprocess.run(
        ["git", "clone", "-q", "--depth", "1", f"file://{world.history.folder}", tmp_path / "shallow"], check=True
    )
    done = world.run(
        "start", "HEAD", "HEAD", "--recipe", str(world.recipe_folder), "--repo", str(tmp_path / "shallow")
    )
    assert done.returncode == 2
    assert "fetch --unshallow" in done.stderr


def test_equal_code_is_no_question(world, history):
    world.write_recipe()
    good = history.commit("start", {"engine.py": "def speed():\n    return 1\n"})
    bad = history.commit("docs", {"README": "words"})
    done = world.start(good, bad)
    assert done.returncode == 2
    assert "the same code" in done.stderr


def test_no_recipe_and_a_recipe_by_git_config(world, slower):
    world.write_recipe()
    assert "no recipe is known" in world.run("start", slower[0], slower[-1]).stderr
    world.history.git("config", "bisectperf.recipe", str(world.recipe_folder))
    done = world.run("start", slower[0], slower[-1], "--json", "--max-launches", "5")
    assert done.returncode == 8
    stopped = json.loads(done.stdout)["stopped"]
    assert (stopped["why"], len(world.runs())) == ("budget", 5)
    assert slower[7] in stopped["left"]
    shown = " ".join(world.run("status").stdout.split())
    assert "the launches that were allowed (5) are used up; " in shown
    assert re.search(r"commits? left, \d.* more \(90 %", shown)
    assert world.verdict(world.run("run", "--json"))["sha"] == slower[7]


def test_time_that_is_too_short_stops_before_a_launch_and_the_next_run_goes_on(world, slower):
    world.write_recipe()
    soon = datetime.now(UTC) + timedelta(seconds=20)
    done = world.start(slower[0], slower[-1], "--until", soon.isoformat())
    assert done.returncode == 8
    assert "time that was allowed is over" in json.loads(done.stdout)["stopped"]["reason"]
    assert world.runs() == []
    assert world.verdict(world.run("run", "--json"))["sha"] == slower[7]


def test_a_changed_recipe_is_refused_midway(world, slower):
    world.write_recipe(pause="0.5")
    first = subprocess.Popen(
        world.command("start", slower[0], slower[-1], "--recipe", str(world.recipe_folder)),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        **world.options(),
    )
    wait_for(first.stderr, "measured")
    second = world.run("run")
    assert second.returncode == 11
    assert f"process {first.pid}" in second.stderr
    first.terminate()
    assert first.wait(60) == 130
    first.stderr.close()
    text = (world.recipe_folder / "recipe.toml").read_text()
    (world.recipe_folder / "recipe.toml").write_text(text.replace("repetitions = 1", "repetitions = 2"))
    refused = world.run("run")
    assert refused.returncode == 2
    assert "is not what this run began with" in refused.stderr
    (world.recipe_folder / "recipe.toml").write_text(text)
    assert "has no verdict yet" in world.start(slower[0], slower[-1]).stderr
    done = world.run("run", "--json")
    assert world.verdict(done)["sha"] == slower[7]


def test_a_benchmark_that_writes_into_the_tree_is_never_measured(world, slower):
    world.write_recipe(more='[[guard]]\nname = "unused"\n')
    bench = (world.recipe_folder / "bench.py").read_text()
    (world.recipe_folder / "bench.py").write_text(bench + "\nopen('engine.py', 'a').write('# changed')\n")
    done = world.start(slower[0], slower[-1])
    assert done.returncode == 7
    assert "engine.py" in done.stderr
    assert not [e for e in world.events() if e["event"] == "Measured"]


def test_code_from_elsewhere_is_never_measured(world, slower, tmp_path):
    world.write_recipe()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "engine.py").write_text("def speed():\n    return 100\n")
    bench = (world.recipe_folder / "bench.py").read_text()
    hijack = (
        f"import sys\nsys.meta_path[:] = sys.meta_path[1:]\nsys.path.insert(0, {str(tmp_path / 'elsewhere')!r})\n"
    )
    (world.recipe_folder / "bench.py").write_text(hijack + bench)
    done = world.start(slower[0], slower[-1])
    assert done.returncode == 7, done.stderr
    assert not [e for e in world.events() if e["event"] == "Measured"]


def test_a_skipped_commit_is_left_out(world, slower):
    world.write_recipe(pause="0.3")
    first = subprocess.Popen(
        world.command("start", slower[0], slower[-1], "--recipe", str(world.recipe_folder)),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        **world.options(),
    )
    wait_for(first.stderr, "measured")
    first.terminate()
    first.wait(60)
    first.stderr.close()
    assert "marked skip" in world.run("skip", slower[7]).stdout
    done = world.run("run", "--json")
    assert done.returncode == 3
    assert world.verdict(done)["commits"] == [slower[7], slower[8]]


def wait_for(stream, word):
    """Read lines until one has `word`."""
    until = time.monotonic() + 60
    for line in stream:
        if word in line:
            return line
        if time.monotonic() > until:
            break
    pytest.fail(f"no line with {word!r}")
