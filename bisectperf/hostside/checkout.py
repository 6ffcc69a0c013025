"""Receive commits and check them out.

Verbs read a JSON document (standard input, or the last argument) and print one:

mirror-init  {"mirror"}
have         {"mirror", "commits"}            -> {"have": [...], "tips": [...]}
receive      {"mirror", "commit", "tree"}     the pack on standard input
checkout     {"mirror", "worktree", "commit", "keep", "submodules", "repair"}
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

from gitcalls import Objects, environment, git
from prove import LFS_LARGEST, extras


def main(argv):
    words = json.loads(argv[2]) if len(argv) > 2 else json.load(sys.stdin)
    os.umask(0o077)
    verbs = {"mirror-init": mirror_init, "have": have, "receive": receive, "checkout": checkout}
    try:
        print(json.dumps(verbs[argv[1]](**words)))
    except (RuntimeError, OSError) as error:
        sys.exit(str(error))


def mirror_init(mirror):
    """Make our bare repository, unless it is there."""
    if not os.path.exists(os.path.join(mirror, "HEAD")):
        os.makedirs(os.path.dirname(mirror), mode=0o700, exist_ok=True)
        subprocess.run(
            ["git", "init", "-q", "--bare", mirror], env=environment(mirror), check=True, stdout=subprocess.DEVNULL
        )
    return {}


def have(mirror, commits):
    """Say which of `commits` are here whole, and which tips a thin pack may build on."""
    refs = git(mirror, "for-each-ref", "--format=%(objectname)", "refs/bisectperf/").decode().split()
    return {"have": [c for c in commits if c in refs], "tips": refs[-64:]}


def receive(mirror, commit, tree):
    """Index the pack from standard input, check that the commit is whole and has the tree, then name it."""
    env = environment(mirror)
    done = subprocess.run(
        ["git", "--git-dir=" + mirror, "index-pack", "--stdin", "--fix-thin", "--strict"],
        env=env,
        stdin=sys.stdin.buffer,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    if done.returncode:
        raise RuntimeError("the pack was refused: " + done.stderr.decode(errors="replace").strip())
    found = git(mirror, "rev-parse", "--verify", commit + "^{tree}").decode().strip()
    if found != tree:
        raise RuntimeError("commit %s has the tree %s, not %s" % (commit, found, tree))
    git(mirror, "rev-list", "--objects", "--quiet", "--no-walk", commit)
    git(mirror, "update-ref", "refs/bisectperf/" + commit, commit)
    return {"tree": found}


def checkout(mirror, worktree, commit, keep=(), submodules=False, repair=False):
    """Put exactly `commit` into our worktree; files that neither it nor `keep` (globs) names are removed one by one.

    Files that stay the same keep their times and changed ones get the present time, so that a build notices every
    change. With `repair` nothing of the former checkout is used. Returns {"removed": count, "at": seconds}.
    """
    if repair:
        forget(mirror, worktree)
    if not os.path.exists(os.path.join(worktree, ".git")):
        forget(mirror, worktree)
        os.makedirs(os.path.dirname(worktree), mode=0o700, exist_ok=True)
        git(mirror, "worktree", "add", "-f", "--detach", "--no-checkout", worktree, commit)
    for lock in ("index.lock", "HEAD.lock"):
        path = os.path.join(git_folder(worktree), lock)
        if os.path.exists(path):
            os.unlink(path)  # ours alone: a checkout that was killed
    git(mirror, "checkout", "-q", "--force", "--detach", commit, cwd=worktree)
    if submodules:
        git(mirror, "submodule", "--quiet", "sync", "--recursive", cwd=worktree)
        git(mirror, "submodule", "--quiet", "update", "--init", "--recursive", "--force", cwd=worktree)
    with open(worktree + ".used", "w"):
        os.utime(worktree + ".used")
    with tempfile.TemporaryDirectory(prefix="bisectperf-checkout-", dir=os.path.dirname(worktree)) as scratch:
        wanted = Objects(mirror, scratch, commit).listing(commit + "^{tree}")
    removed = extras(worktree, wanted, keep, submodules)
    for path in removed:
        remove(os.path.join(os.fsencode(worktree), path))
    fill_pointers(mirror, worktree, wanted)
    return {"removed": len(removed), "at": time.time()}


def forget(mirror, worktree):
    """Remove the worktree, what git knows of it, and whatever anybody set in the mirror's configuration."""
    shutil.rmtree(worktree, ignore_errors=True)
    shutil.rmtree(os.path.join(mirror, "info"), ignore_errors=True)
    aside = os.path.join(mirror, "config.%d" % os.getpid())
    with open(aside, "w") as file:
        file.write("[core]\n\trepositoryFormatVersion = 0\n\tfilemode = true\n\tbare = true\n")
    os.rename(aside, os.path.join(mirror, "config"))
    git(mirror, "worktree", "prune")


def fill_pointers(mirror, worktree, wanted):
    """Write the content of LFS files whose objects a build has fetched into the mirror: a checkout makes pointers."""
    store = os.path.join(mirror, "lfs", "objects")
    if not os.path.isdir(store):
        return
    for path, (mode, kind, _) in wanted.items():
        full = os.path.join(os.fsencode(worktree), path)
        if kind != "blob" or mode == "120000" or os.path.getsize(full) > LFS_LARGEST:
            continue
        with open(full, "rb") as file:
            name = re.search(b"^oid sha256:(([0-9a-f]{2})([0-9a-f]{2})[0-9a-f]{60})$", file.read(), re.MULTILINE)
        if name:
            source = os.path.join(os.fsencode(store), name.group(2), name.group(3), name.group(1))
            if os.path.exists(source):
                shutil.copyfile(source, full)


def git_folder(worktree):
    with open(os.path.join(worktree, ".git")) as file:
        return file.read().split(":", 1)[1].strip()


def remove(path):
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    else:
        os.unlink(path)


if __name__ == "__main__":
    main(sys.argv)
