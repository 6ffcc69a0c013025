"""Our object store: holds what it needs for itself, edits and merges trees, sends them as packs."""

import shutil
import subprocess

import pytest

from bisectperf.errors import UserError
from bisectperf.repo import Entry, GitError, Repository, Store

ODD = ['with "quotes"', "back\\slash", "tab\there", "grün/näh", " leading", "a b/c d", "-dash"]


def test_the_store_survives_the_users_gc(history, open_store):
    history.commit("one", {"a": "1\n"})
    history.switch("side", "main")
    lost = history.commit("lost", {"a": "2\n"})
    _, store = open_store()
    history.switch("main")
    history.git("branch", "-q", "-D", "side")
    history.git("reflog", "expire", "--expire=now", "--all")
    history.git("gc", "-q", "--prune=now")
    assert store.blob(lost, "a") == b"2\n"
    assert store.find(lost) == lost


def test_the_store_survives_the_loss_of_what_the_user_borrows(history, tmp_path):
    sha = history.commit("one", {"a": "1\n"})
    subprocess.run(["git", "clone", "-q", "--shared", str(history.folder), str(tmp_path / "borrower")], check=True)
    store = Store.of(Repository.open(str(tmp_path / "borrower")), tmp_path / "store")
    shutil.rmtree(history.folder)
    assert store.blob(sha, "a") == b"1\n"


def test_newer_commits_and_moved_branches_are_brought(history, open_store):
    first = history.commit("one", {"a": "1\n"})
    history.git("branch", "topic")
    repository, store = open_store()
    second = history.commit("two", {"a": "2\n"})
    history.git("branch", "-q", "-D", "topic")
    history.git("branch", "topic/now")  # where a branch `topic` was
    history.git("checkout", "-q", "--detach")
    third = history.commit("on no branch", {"a": "3\n"})
    store.bring(repository, [first, third])
    assert store.resolve("main") == store.resolve("topic/now") == second
    assert store.find("topic") is None
    assert store.blob(third, "a") == b"3\n"


def test_head_of_the_day_is_no_revision(history, open_store):
    history.commit("one")
    with pytest.raises(UserError, match="names no commit"):
        open_store()[1].resolve("HEAD")


def test_nothing_of_the_user_changes(history, open_store):
    history.commit("one", {"a": "1\n", "b": "1\n", ".gitignore": "*.o\n"})
    history.write({"a": "stashed\n"})
    history.git("stash", "-q")
    second = history.commit("two", {"b": "2\n"})
    history.write({"a": "dirty\n", "new": "untracked\n", "x.o": "ignored"})
    history.git("add", "a")
    history.write({"a": "dirtier\n"})
    before = history.snapshot()
    repository, store = open_store()
    store.bring(repository, [second])
    store.edit([(store.commit(second).tree, {"b": None})])
    store.keep("x", second)
    assert history.snapshot() == before


def test_entries_tell_modes_and_what_is_missing(history, open_store):
    history.commit("sub")
    history.write({"d/run": "#!/bin/sh\n", "d/plain": "x\n"})
    (history.folder / "d" / "run").chmod(0o755)
    (history.folder / "link").symlink_to("d/plain")
    history.git("update-index", "--add", "--cacheinfo", f"160000,{history.git('rev-parse', 'HEAD')},module")
    history.git("add", "d", "link")
    history.git("commit", "-q", "-m", "all kinds")
    tree = history.git("rev-parse", "HEAD^{tree}")
    paths = ["d/run", "d/plain", "link", "module", "d", "", "gone", "gone/deeper", "d/plain/below", "./d//run"]
    (row,) = open_store()[1].entries([tree], paths)
    assert [entry and entry.mode for entry in row] == [
        "100755", "100644", "120000", "160000", "040000", "040000", None, None, None, "100755",
    ]  # fmt: skip
    assert row[5] == Entry("040000", tree)


def test_odd_names_are_edited_and_found(history, open_store):
    history.commit("odd", dict.fromkeys(ODD, "old\n"))
    store = open_store()[1]
    new = Entry("100755", store.write_blob(b"new\n"))
    tree = store.commit(history.git("rev-parse", "HEAD")).tree
    (edited,) = store.edit([(tree, dict.fromkeys(ODD, new))])
    assert store.entries([edited], ODD) == [(new,) * len(ODD)]
    assert store.changes(tree, edited) == dict.fromkeys(ODD, new)
    assert store.edit([(tree, dict.fromkeys(ODD))]) == [store.git("mktree")[1].decode().strip()]


def test_edits_of_many_trees_do_not_mix(history, open_store):
    shas = [history.commit(str(n), {f"f{n}": f"{n}\n"}) for n in range(5)]
    store = open_store()[1]
    trees = [c.tree for c in store.read_commits(shas)]
    marks = [Entry("100644", store.write_blob(f"mark {n}".encode())) for n in range(5)]
    edited = store.edit([(tree, {"mark": mark}) for tree, mark in zip(trees, marks, strict=True)])
    for tree, mark, made in zip(trees, marks, edited, strict=True):
        assert store.changes(tree, made) == {"mark": mark}


def test_a_file_gives_way_to_a_folder(history, open_store):
    history.commit("one", {"a": "1\n"})
    store = open_store()[1]
    tree = store.commit(history.git("rev-parse", "HEAD")).tree
    new = Entry("100644", store.write_blob(b"x"))
    (edited,) = store.edit([(tree, {"a/b": new, "a": None})])
    assert store.entries([edited], ["a/b"]) == [(new,)]


def test_merges_follow_renames_and_name_their_conflicts(history, open_store):
    text = "".join(f"line {n}\n" for n in range(20))
    base = history.commit("base", {"old": text, "other": text})
    theirs = history.commit("patched", {"old": text.replace("line 9\n", "patched\n")})
    history.switch("renamed", base)
    renamed = history.commit("renamed", {"old": None, "new": text})
    history.switch("edited", base)
    edited = history.commit("edited", {"old": text.replace("line 9\n", "edited\n")})
    store = open_store()[1]
    tree, conflicts = store.merge(renamed, theirs)
    assert not conflicts
    assert b"patched" in store.blob(tree, "new")
    assert store.merge(edited, theirs)[1] == ("old",)
    trees = [commit.tree for commit in store.read_commits([base, renamed, theirs])]
    assert store.merge_trees(*trees) == (tree, ())


def test_the_users_configuration_decides_nothing(history, open_store, own_home):
    (own_home / ".gitconfig").write_text("[merge]\nrenameLimit = 1\n")
    texts = [f"{name}\n" + "".join(f"{name} {n}\n" for n in range(20)) for name in ("a", "b")]
    base = history.commit("base", {"old-a": texts[0], "old-b": texts[1]})
    theirs = history.commit("patched", {"old-a": texts[0] + "patched\n"})
    history.switch("renamed", base)
    moved = {"old-a": None, "old-b": None, "new-1": "x\n" + texts[0], "new-2": "x\n" + texts[1]}
    renamed = history.commit("renamed", moved)
    tree, conflicts = open_store()[1].merge(renamed, theirs)
    assert not conflicts
    assert b"patched" in open_store()[1].blob(tree, "new-1")


def test_the_same_commit_has_the_same_id_in_every_store(history, open_store, tmp_path):
    history.commit("one", {"a": "1\n"})
    repository, store = open_store()
    tree = store.commit(repository.resolve("HEAD")).tree
    other = Store.of(repository, tmp_path / "other")
    assert store.commit_tree(tree, message="x") == other.commit_tree(tree, message="x")


def test_a_pack_carries_only_what_the_host_lacks(history, open_store, tmp_path):
    print("random bytes: seed 1")
    history.commit("big", {f"f{n}": bytes((n * k * 7919) % 251 for k in range(3000)) for n in range(40)})
    store = open_store()[1]
    tree = store.commit(history.git("rev-parse", "HEAD")).tree
    (edited,) = store.edit([(tree, {"f7": Entry("100644", store.write_blob(b"changed"))})])
    first, second = store.commit_tree(tree), store.commit_tree(edited)
    host = Store.empty(tmp_path / "host", "sha1")
    host.receive(b"".join(store.pack(first, [])))
    small = b"".join(store.pack(second, [first, "0" * 40]))
    assert len(small) < 2000
    with pytest.raises(GitError):
        host.receive(small[:-30])
    assert host.find(second) is None
    host.receive(small)
    host.git("fsck", "--full", "--strict", "--no-dangling", second)
    assert host.commit(second).tree == edited
