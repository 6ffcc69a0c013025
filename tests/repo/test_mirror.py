"""A repository that lives only on the host is mirrored without a trace there."""

import subprocess

import pytest

from bisectperf.errors import UserError
from bisectperf.hosts import LocalHost
from bisectperf.repo import mirror


def refs(folder):
    argv = ["git", "for-each-ref", "--format=%(objectname) %(refname)", "refs/heads", "refs/tags"]
    return subprocess.run(argv, cwd=folder, capture_output=True, check=True).stdout


def test_a_mirror_follows_what_the_host_has(history, tmp_path):
    history.commit("one", {"a": "1\n"})
    history.git("tag", "-a", "-m", "x", "v1")
    history.git("branch", "topic")
    history.write({"a": "dirty\n", "new": "untracked\n"})
    before = history.snapshot()
    host, folder = LocalHost(), tmp_path / "state" / "store"
    store = mirror(host, str(history.folder), folder)
    assert refs(folder) == refs(history.folder)
    assert history.snapshot() == before

    history.git("branch", "-q", "-D", "topic")
    history.git("branch", "topic/now")
    second = history.commit("two")
    history.git("checkout", "-q", "--detach")
    third = history.commit("on no branch", {"a": "3\n"})
    store = mirror(host, str(history.folder), folder)
    assert refs(folder) == refs(history.folder)
    assert store.resolve("main") == second
    assert store.blob(third, "a") == b"3\n"
    store.git("fsck", "--full", "--strict")


def test_a_mirror_that_is_up_to_date_asks_for_nothing(history, tmp_path):
    history.commit("one", {"a": "1\n"})
    mirror(LocalHost(), str(history.folder), tmp_path / "store")

    class Watched(LocalHost):
        packs = 0

        def raw(self, argv, **kwargs):
            self.packs += "pack-objects" in argv
            return super().raw(argv, **kwargs)

    host = Watched()
    mirror(host, str(history.folder), tmp_path / "store")
    assert host.packs == 0


def test_a_shallow_clone_there_is_refused(history, tmp_path):
    history.commit("one")
    history.commit("two")
    subprocess.run(["git", "clone", "-q", "--depth=1", f"file://{history.folder}", str(tmp_path / "s")], check=True)
    with pytest.raises(UserError, match="shallow") as seen:
        mirror(LocalHost(), str(tmp_path / "s"), tmp_path / "store")
    assert "fetch --unshallow" in seen.value.hint


def test_what_is_no_repository_there_is_refused_with_gits_words(tmp_path):
    with pytest.raises(UserError, match="not a git repository"):
        mirror(LocalHost(), str(tmp_path), tmp_path / "store")
