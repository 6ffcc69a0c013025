"""Bringing commits to a host and checking them out: what arrives, what is refused, what stays."""

import hashlib
import subprocess

import pytest

CORE = "engine/core.py"
POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:{}\nsize {}\n"


@pytest.fixture
def pack(upstream):
    """All of the new commit, as a pack."""
    argv = ["git", "pack-objects", "--revs", "--stdout", "-q"]
    words = upstream.new.encode() + b"\n"
    return subprocess.run(argv, cwd=upstream.folder, input=words, capture_output=True, check=True).stdout


def words(site, commit, tree):
    return {"mirror": str(site.mirror), "commit": commit, "tree": tree}


def test_what_was_received_is_had_and_named(site, upstream):
    asked = {"mirror": str(site.mirror), "commits": [upstream.new, upstream.old]}
    assert site.tool("have", asked) == {"have": [upstream.new], "tips": [upstream.new]}
    refs = site.git("for-each-ref", "--format=%(refname)").splitlines()
    assert refs == [f"refs/bisectperf/{upstream.new}"]


def test_a_thin_pack_builds_on_what_is_there(site, upstream):
    commit = upstream.commit("third", {CORE: "def step(n):\n    return n + 3\n"})
    argv = ["git", "pack-objects", "--revs", "--thin", "--stdout", "-q"]
    revisions = f"{commit}\n^{upstream.new}\n".encode()
    thin = subprocess.run(argv, cwd=upstream.folder, input=revisions, capture_output=True, check=True).stdout
    site.tool("receive", words(site, commit, site.tree_of(commit)), thin)
    site.checkout(commit)
    assert site.prove(commit)["problems"] == []


def test_a_truncated_pack_is_refused(site, upstream, pack):
    done = site.ask("receive", words(site, upstream.old, site.tree_of(upstream.old)), pack[:-30])
    assert done.returncode == 1
    assert b"the pack was refused" in done.stderr
    assert b"Traceback" not in done.stderr
    asked = {"mirror": str(site.mirror), "commits": [upstream.old]}
    assert site.tool("have", asked)["have"] == []


def test_a_commit_with_another_tree_is_refused(site, upstream, pack):
    done = site.ask("receive", words(site, upstream.new, site.tree_of(upstream.old)), pack)
    assert done.returncode == 1
    assert b"has the tree" in done.stderr


def test_a_pack_that_lacks_a_blob_is_refused(site, upstream):
    commit = upstream.commit("third", {CORE: "def step(n):\n    return n + 3\n"})
    names = upstream.git("rev-list", "--objects", f"{upstream.new}..{commit}").splitlines()
    kept = "".join(line.split()[0] + "\n" for line in names if not line.endswith("core.py"))
    argv = ["git", "pack-objects", "--stdout", "-q"]
    torn = subprocess.run(argv, cwd=upstream.folder, input=kept.encode(), capture_output=True, check=True).stdout
    done = site.ask("receive", words(site, commit, site.tree_of(commit)), torn)
    assert done.returncode == 1
    asked = {"mirror": str(site.mirror), "commits": [commit]}
    assert site.tool("have", asked)["have"] == []


def test_everything_stays_through_a_garbage_collection(site, upstream):
    site.git("gc", "-q", "--prune=now")
    site.checkout(upstream.new, repair=True)
    assert site.prove(upstream.new)["problems"] == []


def test_a_switch_touches_changed_files_alone(site, upstream):
    """A build must see each change by a new time, and nothing else as changed."""
    site.send(upstream.old)
    before = {name: (site.worktree / name).stat().st_mtime_ns for name in (CORE, "run.sh")}
    site.checkout(upstream.old)
    assert site.prove(upstream.old)["problems"] == []
    assert (site.worktree / CORE).stat().st_mtime_ns > before[CORE]
    assert (site.worktree / "run.sh").stat().st_mtime_ns == before["run.sh"]


def test_extras_go_and_declared_artifacts_stay(site, upstream):
    """Each file by its name: a blind clean would take the build folder along."""
    for name in ("build/obj/core.o", "engine/fast.so", "json.py", "deep/er/x.txt"):
        path = site.worktree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    (site.worktree / "outside").symlink_to(upstream.folder)
    keep = ["build", "engine/*.so"]
    assert site.checkout(upstream.new, keep=keep)["removed"] == 3
    assert (site.worktree / "build/obj/core.o").exists()
    assert (site.worktree / "engine/fast.so").exists()
    assert not (site.worktree / "deep").exists()
    assert (upstream.folder / CORE).exists()
    assert site.prove(upstream.new, allow=keep)["problems"] == []
    assert site.prove(upstream.new)["found"] is None


def test_hooks_do_not_run_and_nobodys_configuration_counts(site, upstream, own_home):
    (own_home / ".gitconfig").write_text("[core]\n\tautocrlf = true\n\thooksPath = /nowhere\n")
    hook = site.mirror / "hooks/post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\ntouch ran\n")
    hook.chmod(0o755)
    site.send(upstream.old)
    site.checkout(upstream.old)
    assert site.prove(upstream.old)["problems"] == []


def test_a_checkout_that_was_killed_is_done_again(site, upstream):
    site.send(upstream.old)
    (site.mirror / "worktrees/lane/index.lock").write_bytes(b"")
    (site.worktree / CORE).unlink()
    site.checkout(upstream.old)
    assert site.prove(upstream.old)["problems"] == []


def test_what_lies_in_the_way_gives_way(site, upstream):
    """A kept artifact where the next commit has a file."""
    commit = upstream.commit("third", {"engine/fast.txt": "words\n"})
    site.send(commit)
    (site.worktree / "engine/fast.txt").mkdir()
    (site.worktree / "engine/fast.txt/inner").write_text("x")
    site.checkout(commit)
    assert site.prove(commit)["problems"] == []


def test_conversions_that_the_tree_asks_for_are_no_problem(site, upstream):
    name = upstream.git("rev-parse", f"{upstream.new}:version.txt")
    assert (site.worktree / "version.txt").read_text() == f"$Id: {name} $\n"
    assert (site.worktree / "start.bat").read_bytes() == b"echo one\r\necho two\r\n"
    assert site.prove(upstream.new)["problems"] == []


# -- submodules and LFS -----------------------------------------------------------------------------------------


@pytest.fixture
def nested(upstream, tmp_path):
    """A submodule `dep` whose commits are `nested.old` (as recorded by `upstream.first`) and `nested.new`."""
    inner = type(upstream)(tmp_path / "inner")
    inner.old = inner.commit("old", {"dep.py": "x = 1\n"})
    upstream.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner.folder), "dep")
    upstream.first = upstream.commit("with dep")
    inner.new = inner.commit("new", {"dep.py": "x = 2\n"})
    upstream.git("-c", "protocol.file.allow=always", "-C", "dep", "pull", "-q", env={"GIT_CONFIG_NOSYSTEM": "1"})
    upstream.second = upstream.commit("newer dep")
    return inner


@pytest.fixture
def lane(site, upstream, nested):
    """The worktree at the first commit, its submodule too."""
    for commit in (upstream.first, upstream.second):
        site.send(commit)
    site.checkout(upstream.first, submodules=True)
    assert site.prove(upstream.first, submodules=True)["problems"] == []
    return site


def test_submodules_follow(lane, upstream):
    lane.checkout(upstream.second, submodules=True)
    assert (lane.worktree / "dep/dep.py").read_text() == "x = 2\n"
    assert lane.prove(upstream.second, submodules=True)["problems"] == []


WITHOUT_SUBMODULES = "prove.check_submodule = lambda *_: []"


def left_behind(lane, upstream):
    lane.git("checkout", "-q", "--detach", upstream.second)
    lane.git("config", "submodule.dep.ignore", "all")


def edited(lane, _):
    lane.git("config", "submodule.dep.ignore", "all")
    (lane.worktree / "dep/dep.py").write_text("x = 9\n")


def extra(lane, _):
    lane.git("config", "submodule.dep.ignore", "all")
    (lane.worktree / "dep/json.py").write_text("")


@pytest.mark.parametrize(
    ("act", "commit", "says"),
    [
        (left_behind, "second", "dep/dep.py differs"),
        (edited, "first", "dep/dep.py differs"),
        (extra, "first", "dep/json.py is not in the tree"),
    ],
    ids=["left behind", "edited", "extra"],
)
def test_a_submodule_that_is_not_as_meant_is_seen(lane, upstream, act, commit, says):
    act(lane, upstream)
    assert lane.git("status", "--porcelain") == ""
    commit = getattr(upstream, commit)
    assert says in "; ".join(lane.prove(commit, submodules=True)["problems"])
    assert lane.prove(commit, submodules=True, without=WITHOUT_SUBMODULES)["problems"] == []
    lane.checkout(commit, submodules=True, repair=True)
    assert lane.prove(commit, submodules=True)["problems"] == []


def test_a_submodule_that_was_not_asked_for_must_be_empty(lane, upstream):
    assert lane.prove(upstream.first)["problems"] == ["dep is not in the tree"]
    lane.checkout(upstream.first)
    assert lane.prove(upstream.first)["problems"] == []


def test_a_submodule_that_is_missing_is_seen(site, upstream, nested):
    site.send(upstream.first)
    site.checkout(upstream.first)
    assert site.prove(upstream.first, submodules=True)["problems"] == ["dep: the submodule is not checked out"]


WEIGHTS = b"\0\1\2" * 1000


@pytest.fixture
def pointer(site, upstream):
    """A commit with an LFS file, checked out: as without LFS, its pointer lies on disk."""
    digest = hashlib.sha256(WEIGHTS).hexdigest()
    commit = upstream.commit("weights", {"model.bin": POINTER.format(digest, len(WEIGHTS))})
    site.send(commit)
    site.checkout(commit)
    return commit


def test_an_lfs_pointer_is_not_its_content(site, pointer):
    says = "model.bin is an LFS pointer whose content was never fetched"
    assert site.prove(pointer)["problems"] == [says]
    assert site.prove(pointer, without="prove.LFS = b'no such'")["problems"] == []
    assert site.prove(pointer, allow=["*.bin"])["problems"] == []


@pytest.mark.parametrize(
    ("content", "right"),
    [(WEIGHTS, True), (WEIGHTS[:-1] + b"x", False), (WEIGHTS[:-1], False)],
    ids=["right", "same size", "truncated"],
)
def test_lfs_content_is_held_against_its_pointer(site, pointer, content, right):
    (site.worktree / "model.bin").write_bytes(content)
    assert (site.prove(pointer)["problems"] == []) == right
    assert (site.prove(pointer)["problems"] == ["model.bin differs"]) != right


def test_lfs_content_that_was_fetched_once_is_put_back(site, pointer):
    """A checkout writes pointers; what a build's `git lfs fetch` brought lies in the mirror."""
    digest = hashlib.sha256(WEIGHTS).hexdigest()
    stored = site.mirror / "lfs/objects" / digest[:2] / digest[2:4] / digest
    stored.parent.mkdir(parents=True)
    stored.write_bytes(WEIGHTS)
    site.checkout(pointer)
    assert (site.worktree / "model.bin").read_bytes() == WEIGHTS
    assert site.prove(pointer)["problems"] == []
