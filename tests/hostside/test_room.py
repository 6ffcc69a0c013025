"""The room that we take on a host: what goes, what stays, and that nothing else is touched."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bisectperf.hosts.local import LocalHost
from bisectperf.identity import here
from bisectperf.launchers.base import Job
from bisectperf.launchers.detached import Detached
from bisectperf.measure.site import default_root, lay_tools

ME = "me"
"""Who holds the lock while everything is removed."""


class Folder:
    """Our folder on this host, with ways to fill it."""

    def __init__(self, root):
        self.host = LocalHost()
        self.root = Path(default_root(self.host, str(root)))
        self.tools = lay_tools(self.host, str(self.root))
        self.launcher = Detached(self.host, str(self.root), self.tools, sys.executable)

    def ask(self, verb, **words):
        argv = [sys.executable, f"{self.tools}/room.py", verb]
        text = json.dumps({"root": str(self.root), **words})
        done = subprocess.run(argv, input=text, capture_output=True, text=True, check=False)
        return (json.loads(done.stdout) if done.returncode == 0 else None), done.stderr

    def build(self, key, ago, size=1 << 20):
        for part in ("wt", "builds", "pycache"):
            (self.root / part / key).mkdir(parents=True)
        (self.root / "builds" / key / "lib.so").write_bytes(b"\1" * size)
        used = self.root / "wt" / f"{key}.used"
        used.touch()
        os.utime(used, (time.time() - ago,) * 2)

    def builds(self):
        return sorted(path.name for path in (self.root / "builds").iterdir())

    def turn(self, jobs, ago):
        """Let a living holder of the host have taken its turn `ago` seconds before now."""
        words = {"owner": "run two of b@laptop", "lease": 900.0, "uses": ["1"], "jobs": jobs, "process": None}
        argv = [sys.executable, f"{self.tools}/hostlock.py", "take", f"{self.root}/locks", "two"]
        words["process"] = {name: getattr(here(), name) for name in ("pid", "start", "boot", "namespace")}
        subprocess.run(argv, input=json.dumps(words), text=True, check=True, capture_output=True)
        path = self.root / "locks" / "two.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "since": time.time() - ago}))


@pytest.fixture
def ours(tmp_path):
    return Folder(tmp_path / "ours")


def test_builds_used_longest_ago_go_first_and_those_of_the_ends_never(ours):
    for number in range(5):
        ours.build(f"k{number}", ago=1000 - number)
    answer, _ = ours.ask("trim", limit=2.5 * (1 << 20), keep=["k0"], jobs="mine-")
    assert answer["removed"] == ["k1", "k2", "k3"]
    assert ours.builds() == ["k0", "k4"]
    assert not (ours.root / "wt" / "k1").exists()
    assert not (ours.root / "wt" / "k1.used").exists()


def test_room_enough_removes_nothing(ours):
    ours.build("k0", ago=1000)
    assert ours.ask("trim", limit=1e9, keep=[], jobs="mine-")[0]["removed"] == []


def test_what_another_run_may_be_using_stays(ours):
    ours.build("old", ago=1000)
    ours.build("in-use", ago=10)
    ours.turn("other-", ago=100)
    assert ours.ask("trim", limit=1, keep=[], jobs="mine-")[0]["removed"] == ["old"]
    assert ours.ask("trim", limit=1, keep=[], jobs="other-")[0]["removed"] == ["in-use"]


def test_folders_of_jobs_whose_results_are_known_go(ours):
    for job in ("mine-1", "mine-2", "other-1"):
        ours.launcher.start(Job(id=job, argv=("true",)))
        assert ours.launcher.wait(job, 30).state == "exited"
    ours.launcher.start(Job(id="mine-3", argv=("sleep", "100")))
    assert ours.ask("prune", jobs="mine-", keep=["mine-2"])[0]["removed"] == ["mine-1"]
    assert [p.name for p in sorted((ours.root / "jobs").iterdir())] == ["mine-2", "mine-3", "other-1"]
    ours.launcher.kill("mine-3")


def test_removing_all_ends_our_jobs_and_leaves_what_is_not_ours(ours, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("mine")
    ours.build("k0", ago=5)
    (ours.root / "builds" / "k0" / "link").symlink_to(outside)
    (ours.root / "cache").symlink_to(outside)
    (ours.root / "builds" / "k0").chmod(0o500)
    (ours.root / "notes.txt").write_text("not ours")
    ours.launcher.start(Job(id="mine-1", argv=("sh", "-c", "setsid sleep 100 & sleep 100")))
    answer, said = ours.ask("remove", token=ME)
    assert answer == {"left": ["notes.txt"], "processes": []}, said
    assert [p.name for p in ours.root.iterdir() if p.name != ".bisectperf"] == ["notes.txt"]
    assert (outside / "precious").read_text() == "mine"
    (ours.root / "notes.txt").unlink()
    assert Folder(ours.root).ask("remove", token=ME)[0] == {"left": [], "processes": []}
    assert not ours.root.exists()


def test_while_somebody_has_their_turn_nothing_is_removed(ours):
    ours.build("k0", ago=5)
    ours.turn("other-", ago=100)
    answer, said = ours.ask("remove", token=ME)
    assert answer is None
    assert "it is the turn of run two of b@laptop" in said
    assert ours.builds() == ["k0"]


def test_a_folder_that_is_not_ours_is_never_removed_nor_used(tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.tex").write_text("years")
    with pytest.raises(Exception, match=r"holds 'thesis.tex', which is not ours"):
        Folder(tmp_path / "home")
    ours = Folder(tmp_path / "ours")
    ours.root = tmp_path / "home"
    answer, said = ours.ask("remove", token=ME)
    assert answer is None
    assert "not a folder of ours" in said
    assert (tmp_path / "home" / "thesis.tex").exists()


def test_a_folder_that_others_may_write_is_not_used(tmp_path):
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(Exception, match="others may write there"):
        Folder(tmp_path / "open")
