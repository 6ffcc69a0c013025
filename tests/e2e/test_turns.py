"""Two at once, on one repository and on one host: the second is told whose turn it is, since when, what to do."""

import re
import shutil
import signal
from pathlib import Path


def test_one_repository(world, slower, follow):
    world.write_recipe()
    world.hold()
    with world.background("start", slower[0], slower[-1], "--recipe", str(world.recipe_folder)) as first:
        follow(first, "running")
        second = world.run("compare", slower[0], slower[-1], "--recipe", str(world.recipe_folder))
        assert second.returncode == 11
        assert re.search(rf"process {first.pid} of \S+@\S+ since 2\d\d\d-", second.stderr)
        assert "bisectperf stop" in second.stderr
        assert world.run("reset").returncode == 11
        world.release()
        assert first.wait(120) == 0


def test_one_host(world, slower, tmp_path, follow):
    world.write_recipe()
    other = tmp_path / "other"
    shutil.copytree(world.history.folder, other)
    argv = ["start", slower[0], slower[-1], "--recipe", str(world.recipe_folder), "--repo", str(other)]
    world.hold()
    with world.background("start", slower[0], slower[-1], "--recipe", str(world.recipe_folder)) as first:
        follow(first, "running")
        second = world.run(*argv)
        assert second.returncode == 11
        assert f"process {first.pid} of " in second.stderr
        # Killed, its launch goes on: the host is not free before that has ended.
        first.send_signal(signal.SIGKILL)
        first.wait()
        second = world.run("run", "--repo", str(other))
        assert second.returncode == 11
        assert "still runs" in second.stderr
        world.release()
    done = world.run("run", "--json")
    assert world.verdict(done)["sha"] == slower[7]
    done = world.run("run", "--repo", str(other), "--json")
    assert world.verdict(done)["sha"] == slower[7]


def test_a_damaged_journal_can_be_put_aside(world, slower):
    world.write_recipe()
    world.start(slower[0], slower[-1], "--max-launches", "1")
    journal = max(Path(world.history.folder, ".git", "bisectperf", "runs").iterdir()) / "journal.jsonl"
    journal.write_bytes(journal.read_bytes().replace(b"seq", b"sEq", 1))
    assert "line 1 is damaged" in world.run("run").stderr
    assert world.run("reset").returncode == 0
    assert world.run("status").returncode == 10


def test_after_a_reset_nothing_of_ours_is_on_the_host(world, slower):
    world.write_recipe()
    assert world.start(slower[0], slower[-1], "--max-launches", "3").returncode == 8
    assert (world.folder / "host" / "wt").is_dir()
    done = world.run("reset", "--host")
    assert (done.returncode, "is gone" in done.stdout) == (0, True), done.stderr
    assert not (world.folder / "host").exists()
    done = world.run("run", "--json")
    assert world.verdict(done)["sha"] == slower[7]
    assert world.run("reset", "--host").returncode == 0
