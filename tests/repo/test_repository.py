"""The user's repository is read, refused in one sentence where it must be, and never written."""

import subprocess

import pytest

from bisectperf.errors import UserError
from bisectperf.repo import Repository, require_order


def opened(history):
    return Repository.open(str(history.folder))


def test_a_revision_is_never_read_as_an_option(history):
    history.commit("one", {"a": "1\n"})
    for word in ("--upload-pack=touch hacked", "-h", "nowhere", "", "HEAD:a"):
        with pytest.raises(UserError, match="names no commit"):
            opened(history).resolve(word)


def test_tags_are_read_as_the_commits_that_they_name(history):
    sha = history.commit("one", {"a": "1\n"})
    history.git("tag", "-a", "-m", "x", "v1")
    assert opened(history).resolve("v1") == sha


def test_variables_of_git_do_not_lead_elsewhere(history, monkeypatch):
    sha = history.commit("one", {"a": "1\n"})
    monkeypatch.setenv("GIT_DIR", "/nonexistent")
    monkeypatch.setenv("GIT_INDEX_FILE", "/nonexistent/index")
    assert opened(history).resolve("HEAD") == sha


def test_swapped_ends_are_refused_with_the_command_in_the_right_order(history):
    old, new = history.commit("one"), history.commit("two")
    require_order(opened(history), old, new)
    with pytest.raises(UserError, match="wrong order") as seen:
        require_order(opened(history), new, old)
    assert seen.value.hint == f"bisectperf start {old[:12]} {new[:12]}"


def test_ends_on_different_branches_are_refused_with_their_merge_base(history):
    fork = history.commit("fork")
    ours = history.commit("ours")
    history.switch("side", fork)
    theirs = history.commit("theirs")
    with pytest.raises(UserError, match=f"parted at {fork[:12]}") as seen:
        require_order(opened(history), ours, theirs)
    assert f"bisectperf start {fork[:12]} {theirs[:12]}" in seen.value.hint


def test_ends_without_common_history_are_refused(history):
    ours = history.commit("ours")
    history.git("checkout", "-q", "--orphan", "alone")
    with pytest.raises(UserError, match="no common history"):
        require_order(opened(history), ours, history.commit("alone"))


def test_one_commit_is_no_range(history):
    sha = history.commit("one")
    with pytest.raises(UserError, match="same commit"):
        require_order(opened(history), sha, sha)


def test_a_shallow_clone_is_refused_with_the_command_that_mends_it(history, tmp_path):
    history.commit("one")
    history.commit("two")
    subprocess.run(
        ["git", "clone", "-q", "--depth=1", f"file://{history.folder}", str(tmp_path / "shallow")], check=True
    )
    with pytest.raises(UserError, match="shallow") as seen:
        Repository.open(str(tmp_path / "shallow")).require_complete()
    assert "fetch --unshallow" in seen.value.hint
    opened(history).require_complete()


def test_a_partial_clone_is_refused_with_the_command_that_mends_it(history, tmp_path):
    history.commit("one", {"a": "1\n"})
    history.commit("two", {"a": "2\n"})
    history.git("config", "uploadpack.allowFilter", "true")
    partial = tmp_path / "partial"
    argv = ["git", "clone", "-q", "--filter=blob:none", f"file://{history.folder}", str(partial)]
    subprocess.run(argv, check=True)
    with pytest.raises(UserError, match="partial clone") as seen:
        Repository.open(str(partial)).require_complete()
    subprocess.run(seen.value.hint.split(), check=True, capture_output=True)
    Repository.open(str(partial)).require_complete()


def test_dirt_is_told_in_one_line(history):
    history.commit("one", {"a": "1\n", "b": "1\n"})
    assert not opened(history).dirt()
    history.write({"a": "2\n", "b": None, "new": "x"})
    assert opened(history).dirt() == "2 changed files and 1 untracked file"


def test_dirt_is_told_where_git_is_configured_to_hide_it(history):
    history.commit("one", {"a": "1\n"})
    history.git("config", "status.showUntrackedFiles", "no")
    history.write({"new": "x"})
    assert opened(history).dirt() == "1 untracked file"


def test_asking_for_dirt_leaves_the_index_alone(history):
    history.commit("one", {"a": "1\n"})
    (history.folder / "a").touch()  # git status would want to refresh the index now
    before = history.snapshot()
    assert not opened(history).dirt()
    assert history.snapshot() == before


def test_what_is_no_repository_is_refused(tmp_path):
    with pytest.raises(UserError, match="no git repository"):
        Repository.open(str(tmp_path))
    with pytest.raises(UserError, match="there is no folder"):
        Repository.open(str(tmp_path / "missing"))


def test_worktrees_of_one_repository_share_our_files(history):
    history.commit("one")
    history.git("worktree", "add", "-q", "../beside", "--detach")
    beside = Repository.open(str(history.folder.parent / "beside"))
    assert beside.state_folder == opened(history).state_folder == history.folder / ".git" / "bisectperf"


def test_the_path_is_that_of_first_parents(history):
    good = history.commit("good")
    history.switch("side", good)
    history.commit("side 1", {"s": "1\n"})
    history.switch("main")
    middle = history.commit("middle", {"m": "1\n"})
    merge = history.merge("side")
    bad = history.commit("bad")
    assert [c.sha for c in opened(history).path(good, bad)] == [good, middle, merge, bad]


def test_the_path_contains_the_good_end_in_every_commit(history):
    fork = history.commit("fork")
    history.commit("main 1, without the good end", {"m": "1\n"})
    history.switch("side", fork)
    good = history.commit("good", {"s": "1\n"})
    after = history.commit("after", {"s": "2\n"})
    history.switch("main")
    merge = history.merge("side")
    bad = history.commit("bad")
    assert [c.sha for c in opened(history).path(good, bad)] == [good, after, merge, bad]


def test_subjects_keep_their_bytes_readable(history):
    sha = history.commit("grüße \x1b[31m\tred")
    (commit,) = opened(history).read_commits([sha])
    assert commit.subject.startswith("grüße ")
