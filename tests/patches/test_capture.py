"""Uncommitted changes and stash entries become patches; where they came from stays as it was, to the byte."""

import pytest

from bisectperf.errors import UserError
from bisectperf.hosts import LocalHost
from bisectperf.hosts.base import Result
from bisectperf.patches import capture

BASE = {"a.txt": "one\ntwo\n", "b.txt": "b\n", "gone.txt": "x\n", "run": "#!/bin/sh\n", ".gitignore": "*.o\n"}


@pytest.fixture
def dirty(history):
    """A checkout with staged, unstaged, untracked, ignored, deleted, binary and executable changes."""
    history.commit("base", BASE)
    history.write({"a.txt": "one\nstaged\n"})
    history.git("add", "a.txt")
    history.write({
        "a.txt": "one\nstaged\nand more\n", "gone.txt": None, "x.o": "ignored\n", "new dir/grün.txt": "new\n",
        "data.bin": bytes(range(256)),
    })  # fmt: skip
    (history.folder / "run").chmod(0o755)
    return history


def taken(history, stash=""):
    before = history.snapshot()
    captured = capture(LocalHost(), str(history.folder), stash)
    assert history.snapshot() == before
    return captured


def patched_tree(bench, patch, captured):
    (bench.folder / "p.diff").write_bytes(captured.diff)
    composed = bench.open(patch(), good=captured.base).compose(captured.base)
    assert composed.tree is not None, composed.problem
    return composed.tree


def test_a_dirty_checkout_becomes_a_patch_and_stays_as_it_was(dirty, bench, patch):
    captured = taken(dirty)
    assert captured.base == dirty.git("rev-parse", "HEAD")
    assert set(captured.files) == {"a.txt", "gone.txt", "run", "new dir/grün.txt", "data.bin"}
    tree = patched_tree(bench, patch, captured)
    dirty.git("add", "--all")
    assert tree == dirty.git("write-tree")


def test_it_is_taken_from_a_subfolder_as_well(dirty):
    whole = taken(dirty)
    (dirty.folder / "sub").mkdir()
    assert capture(LocalHost(), str(dirty.folder / "sub")) == whole


def test_a_stash_entry_becomes_a_patch_with_its_untracked_files(dirty, bench, patch):
    wanted = taken(dirty)
    dirty.git("stash", "-q", "--include-untracked")
    dirty.commit("later", {"b.txt": "changed\n"})
    captured = taken(dirty, "0")
    assert captured.base == wanted.base
    assert set(captured.files) == set(wanted.files)
    assert patched_tree(bench, patch, captured) == patched_tree(bench, patch, wanted)


def test_an_older_stash_entry_without_untracked_files(history):
    history.commit("base", BASE)
    for text in ("first\n", "second\n"):
        history.write({"a.txt": text})
        history.git("stash", "-q")
    assert b"+first" in taken(history, "stash@{1}").diff
    assert b"+second" in taken(history, "stash@{0}").diff


def test_what_is_no_stash_entry_is_refused(history):
    history.commit("base", BASE)
    history.commit("two", {"a.txt": "2\n"})
    for word in ("HEAD", "5", "nonsense"):
        with pytest.raises(UserError, match="no stash entry"):
            taken(history, word)


def test_a_change_under_assume_unchanged_is_taken(history):
    history.commit("base", BASE)
    history.git("update-index", "--assume-unchanged", "a.txt")
    history.write({"a.txt": "hidden\n"})
    assert b"+hidden" in taken(history).diff


def test_a_split_index_is_left_alone(history):
    history.commit("base", BASE)
    history.git("config", "core.splitIndex", "true")
    history.git("config", "splitIndex.maxPercentChange", "0")  # every write makes a new shared index
    history.git("update-index", "--split-index")
    history.write({"a.txt": "changed\n"})
    assert taken(history).files == ("a.txt",)


def test_a_clean_checkout_has_nothing_to_capture(history):
    history.commit("base", BASE)
    with pytest.raises(UserError, match="holds no changes"):
        taken(history)


def test_a_merge_under_way_is_refused(history):
    history.commit("base", BASE)
    history.switch("side", "main")
    history.commit("side", {"a.txt": "side\n"})
    history.switch("main")
    history.commit("main", {"a.txt": "main\n"})
    with pytest.raises(AssertionError):
        history.git("merge", "side")
    with pytest.raises(UserError, match="middle of a merge"):
        taken(history)


def test_a_checkout_of_another_user_is_refused_with_the_command_that_mends_it():
    class Refusing(LocalHost):
        def raw(self, argv, **_):
            return Result(
                3, b"", b"fatal: detected dubious ownership in repository at '/srv/x'\nit is no git checkout\n"
            )

    with pytest.raises(UserError, match="another user") as seen:
        capture(Refusing(), "/srv/x y")
    assert seen.value.hint == "there: git config --global --add safe.directory '/srv/x y'"


def test_what_is_no_checkout_is_refused(tmp_path, history):
    for path, words in ((tmp_path / "missing", "no such folder"), (tmp_path, "no git checkout")):
        with pytest.raises(UserError, match=words):
            capture(LocalHost(), str(path))
    with pytest.raises(UserError, match="no commit yet"):
        taken(history)
