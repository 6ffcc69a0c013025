"""Ways to make a worktree other than it claims to be: each must be seen, and most of them git itself does not see.

Every case names the check that sees it; with that check taken out the same case passes, which a test shows.
"""

import os
import shutil
import subprocess
from typing import NamedTuple

import pytest

CORE = "engine/core.py"
CHANGED = "def step(n):\n    return n + 9\n"  # as long as the original


class Case(NamedTuple):
    act: object
    says: str
    check: str
    """The function of prove.py that sees it."""
    hidden: bool = True
    """`git status` calls the worktree clean."""


def edit(site, path=CORE, text=CHANGED):
    (site.worktree / path).write_text(text)


def exclude(site, pattern):
    info = site.mirror / "info"
    info.mkdir(exist_ok=True)
    with (info / "exclude").open("a") as file:
        file.write(pattern + "\n")


def script(path, text):
    path.parent.mkdir(exist_ok=True)
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)


def plain_edit(site):
    edit(site)


def assume_unchanged(site):
    site.git("update-index", "--assume-unchanged", CORE)
    edit(site)


def skip_worktree(site):
    site.git("update-index", "--skip-worktree", CORE)
    edit(site)


def same_size_and_time(site):
    file = site.worktree / CORE
    site.git("config", "core.checkStat", "minimal")
    site.git("config", "core.trustctime", "false")
    os.utime(file, (1_600_000_000, 1_600_000_000))
    site.git("update-index", "--refresh")
    edit(site)
    os.utime(file, (1_600_000_000, 1_600_000_000))


def lying_fsmonitor(site):
    script(site.root / "monitor", "printf 'token\\0'\n")
    site.git("config", "core.fsmonitor", str(site.root / "monitor"))
    site.git("update-index", "--fsmonitor")
    site.git("status")
    edit(site)


def clean_filter(site):
    name = site.git("rev-parse", "HEAD:" + CORE)
    (site.mirror / "info").mkdir(exist_ok=True)
    (site.mirror / "info" / "attributes").write_text("core.py filter=hide\n")
    site.git("config", "filter.hide.clean", f"cat >/dev/null; git cat-file blob {name}")
    edit(site)


def line_ends_by_configuration(site):
    site.git("config", "core.autocrlf", "true")
    (site.worktree / CORE).unlink()
    site.git("checkout", "--", CORE)
    assert b"\r\n" in (site.worktree / CORE).read_bytes()


def line_ends_by_local_attributes(site):
    (site.mirror / "info").mkdir(exist_ok=True)
    (site.mirror / "info" / "attributes").write_text("*.py text eol=crlf\n")
    (site.worktree / CORE).unlink()
    site.git("checkout", "--", CORE)
    assert b"\r\n" in (site.worktree / CORE).read_bytes()


def ignored_shadow_module(site):
    edit(site, "json.py", "loads = None\n")


def excluded_extra(site):
    exclude(site, "sitecustomize.py")
    edit(site, "sitecustomize.py", "print('hello')\n")


def stale_library(site):
    edit(site, "engine/core.so", "old machine code")


def stale_bytecode(site):
    (site.worktree / "engine/__pycache__").mkdir()
    edit(site, "engine/__pycache__/core.cpython-311.pyc", "old code")


def bytecode_without_source(site):
    exclude(site, "*.pyc")
    edit(site, "engine/fast.pyc", "old code")


def namespace_folder(site):
    (site.worktree / "yaml").mkdir()


def nested_empty_folder(site):
    (site.worktree / "engine" / "plugins").mkdir()


def nested_repository(site):
    exclude(site, "vendor")
    subprocess.run(["git", "init", "-q", str(site.worktree / "vendor")], check=True)


def twin_by_case(site):
    exclude(site, "Core.py")
    edit(site, "engine/Core.py")


def twin_by_unicode(site):
    exclude(site, "*.txt")
    edit(site, "engine/cafe\u0301.txt", "tea\n")


def mode_bit(site):
    site.git("config", "core.fileMode", "false")
    (site.worktree / CORE).chmod(0o755)


def link_elsewhere(site):
    site.git("update-index", "--assume-unchanged", "latest")
    (site.worktree / "latest").unlink()
    (site.worktree / "latest").symlink_to("engine/__init__.py")


def link_to_file(site):
    site.git("update-index", "--assume-unchanged", "latest")
    (site.worktree / "latest").unlink()
    edit(site, "latest", "engine/core.py")


def file_to_link(site):
    """The same bytes, today: but they can be changed from elsewhere at any moment."""
    site.git("update-index", "--assume-unchanged", CORE)
    shutil.move(site.worktree / CORE, site.root / "core.py")
    (site.worktree / CORE).symlink_to(site.root / "core.py")


def folder_to_link(site):
    shutil.move(site.worktree / "engine", site.root / "engine")
    (site.worktree / "engine").symlink_to(site.root / "engine")


def pipe_for_file(site):
    """Opening it would wait for ever."""
    site.git("update-index", "--assume-unchanged", CORE)
    (site.worktree / CORE).unlink()
    os.mkfifo(site.worktree / CORE)


def hard_link(site):
    other = site.root / "other.py"
    os.link(site.worktree / CORE, other)
    other.write_text(CHANGED)


def replaced_tree(site):
    site.send(site.upstream.old)
    trees = [site.tree_of(site.upstream.new), site.tree_of(site.upstream.old)]
    site.git("replace", *trees)
    site.git("read-tree", "--reset", "-u", "HEAD")


def grafted_history(site):
    """With the graft, the parent of the new commit is a commit that never was its parent."""
    other = site.git("commit-tree", "-m", "other", site.git("write-tree"))
    edit(site)
    site.git("add", CORE)
    other = site.git("commit-tree", "-m", "other", site.git("write-tree"))
    (site.mirror / "info").mkdir(exist_ok=True)
    (site.mirror / "info" / "grafts").write_text(f"{site.upstream.new} {other}\n")
    site.git("reset", "-q", "--hard", "HEAD^")


def another_commit(site):
    site.send(site.upstream.old)
    site.git("checkout", "-q", "--detach", site.upstream.old)


def hook(site):
    script(site.mirror / "hooks" / "post-checkout", f"echo x >>{CORE}; git update-index --assume-unchanged {CORE}\n")
    site.git("checkout", "-q", "--detach", "HEAD")


def sparse(site):
    site.git("sparse-checkout", "set", "--no-cone", "/*", "!/engine/core.py")


def stash(site):
    """An edit was measured, and put away before anybody looked: here the other way round, put back."""
    edit(site)
    site.git("stash", "-q")
    site.git("stash", "pop", "-q")
    site.git("update-index", "--assume-unchanged", CORE)


def another_repository(site):
    other = site.root / "elsewhere.git"
    subprocess.run(["git", "clone", "-q", "--bare", str(site.upstream.folder), str(other)], check=True)
    (site.worktree / ".git").unlink()
    edit(site)
    place = ["git", "--git-dir", str(other), "--work-tree", str(site.worktree)]
    subprocess.run([*place, "add", "-A"], check=True)
    mail = ["-c", "user.name=B", "-c", "user.email=b@example.org"]
    subprocess.run([*place, *mail, "commit", "-qm", "edit"], check=True)
    subprocess.run([*place, "config", "core.bare", "false"], check=True)
    (site.worktree / ".git").write_text(f"gitdir: {other}\n")


CASES = {
    "plain edit": Case(plain_edit, "core.py differs", "check_content", hidden=False),
    "assume-unchanged": Case(assume_unchanged, "core.py differs", "check_content"),
    "skip-worktree": Case(skip_worktree, "core.py differs", "check_content"),
    "same size, old time": Case(same_size_and_time, "core.py differs", "check_content"),
    "lying fsmonitor": Case(lying_fsmonitor, "core.py differs", "check_content"),
    "clean filter": Case(clean_filter, "core.py differs", "check_content"),
    "line ends by configuration": Case(line_ends_by_configuration, "core.py differs", "check_content"),
    "line ends by local attributes": Case(line_ends_by_local_attributes, "core.py differs", "check_content"),
    "ignored shadow module": Case(ignored_shadow_module, "json.py is not in the tree", "extras"),
    "extra in info/exclude": Case(excluded_extra, "sitecustomize.py is not in the tree", "extras"),
    "stale library": Case(stale_library, "engine/core.so is not in the tree", "extras"),
    "stale bytecode": Case(stale_bytecode, "engine/__pycache__ is not in the tree", "extras"),
    "bytecode without source": Case(bytecode_without_source, "fast.pyc is not in the tree", "extras"),
    "namespace folder": Case(namespace_folder, "yaml is not in the tree", "extras"),
    "empty folder within": Case(nested_empty_folder, "engine/plugins is not in the tree", "extras"),
    "nested repository": Case(nested_repository, "vendor is not in the tree", "extras"),
    "twin by case": Case(twin_by_case, "Core.py is not in the tree", "extras"),
    "twin by unicode": Case(twin_by_unicode, "cafe\\u0301.txt is not in the tree", "extras"),
    "mode bit": Case(mode_bit, "core.py has the wrong executable bit", "check_file"),
    "link elsewhere": Case(link_elsewhere, "latest points elsewhere", "check_file"),
    "link made a file": Case(link_to_file, "latest is no symbolic link", "check_file"),
    "file made a link": Case(file_to_link, "core.py is no regular file", "check_file"),
    "file made a pipe": Case(pipe_for_file, "core.py is no regular file", "check_file"),
    "folder made a link": Case(folder_to_link, "lies behind a symbolic link", "is_real_folder+extras", hidden=False),
    "hard link edited elsewhere": Case(hard_link, "core.py differs", "check_content", hidden=False),
    "replaced tree": Case(replaced_tree, "core.py differs", "check_content"),
    "grafted history": Case(grafted_history, "core.py differs", "check_content"),
    "another commit": Case(another_commit, "core.py differs", "check_content"),
    "hook at checkout": Case(hook, "core.py differs", "check_content"),
    "sparse checkout": Case(sparse, "core.py cannot be read: No such file", "check_file"),
    "edit out of a stash": Case(stash, "core.py differs", "check_content"),
    "another repository": Case(another_repository, "core.py differs", "check_content"),
}
TAKEN_OUT = {
    "check_content": "prove.check_content = lambda *_: ''",
    "check_file": "prove.check_file = lambda *_: ''",
    "extras": "prove.extras = lambda *_: []",
    "is_real_folder+extras": "prove.is_real_folder = lambda *_: True; prove.extras = lambda *_: []",
}


def test_an_honest_worktree_is_proved(site, upstream):
    proof = site.prove(upstream.new)
    assert proof["problems"] == []
    assert proof["found"] == proof["expected"] == site.tree_of(upstream.new)
    assert proof["files"] == len(upstream.git("ls-tree", "-r", "--name-only", upstream.new).splitlines())


@pytest.mark.parametrize("case", [pytest.param(case, id=name) for name, case in CASES.items()])
def test_it_is_seen_by_its_check_alone_and_a_fresh_checkout_mends_it(site, upstream, case):
    case.act(site)
    assert (site.git("status", "--porcelain") == "") == case.hidden
    proof = site.prove(upstream.new)
    assert proof["found"] is None
    assert case.says in "; ".join(proof["problems"])
    assert site.prove(upstream.new, without=TAKEN_OUT[case.check])["problems"] == []
    site.checkout(upstream.new, repair=True)
    assert site.prove(upstream.new)["problems"] == []
