"""Hold the bytes on disk against the tree that was meant.

Git's own index cannot testify: flags, timestamps, filters and monitors make it say "unchanged" of changed files. So
every file is read and hashed, and compared in bytes and mode with the tree as listed from our own mirror; and every
file that the tree does not name is a problem unless the build declared it. A folder that a tree does not name counts
too, even an empty one: Python takes it for a package.
"""

import fnmatch
import hashlib
import os
import stat
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

from gitcalls import environment, git, listing

SHOWN = 20
LFS = b"version https://git-lfs.github.com/spec/v1\n"


def prove(worktree, mirror, tree, allow=(), submodules=False):
    """Return {"expected", "found", "files", "at", "problems"}; `found` is the tree where nothing differs."""
    wanted = listing(mirror, tree)
    problems = differences(worktree, mirror, tree, wanted, submodules)
    problems += ["%s is not in the tree" % show(path) for path in extras(worktree, wanted, allow, submodules)]
    more = len(problems) - SHOWN
    if more > 0:
        problems = problems[:SHOWN] + ["and %d more" % more]
    return {
        "expected": tree,
        "found": tree if not problems else None,
        "files": len(wanted),
        "at": time.time(),
        "problems": problems,
    }


def show(path):
    return os.fsdecode(path).encode("unicode_escape", "surrogateescape").decode("ascii", "replace")


def differences(worktree, mirror, tree, wanted, submodules):
    """Return what is wrong with the files that the tree names."""
    root = os.fsencode(worktree)
    links = {path: facts for path, facts in wanted.items() if facts[1] == "commit"}
    files = [(path, facts) for path, facts in wanted.items() if facts[1] == "blob"]
    with ThreadPoolExecutor(max_workers=min(8, (os.cpu_count() or 1) + 1)) as pool:
        found = list(pool.map(lambda item: check_file(root, *item), files, chunksize=64))
    wrong = [(path, said) for (path, _), said in zip(files, found) if said]
    problems = converted(root, mirror, tree, dict(files), wrong)
    for path, facts in links.items():
        problems += check_submodule(root, path, facts[2]) if submodules else []
    return problems


def check_file(root, path, facts):
    """Return what is wrong with one file, or the empty string."""
    mode, _, wanted = facts
    full = os.path.join(root, path)
    try:
        about = os.lstat(full)
    except OSError:
        return "is missing"
    if mode == "120000":
        if not stat.S_ISLNK(about.st_mode):
            return "is no symbolic link"
        data = os.readlink(full)
        return "" if blob(data, wanted) == wanted else "points elsewhere"
    if not stat.S_ISREG(about.st_mode):
        return "is no regular file"
    if bool(about.st_mode & 0o100) != (mode == "100755"):
        return "has the wrong executable bit"
    parent = os.path.dirname(path)
    while parent:
        if os.path.islink(os.path.join(root, parent)):
            return "lies behind a symbolic link"
        parent = os.path.dirname(parent)
    return "" if hash_file(full, about.st_size, wanted) == wanted else "differs"


def hasher(wanted):
    return hashlib.sha1() if len(wanted) == 40 else hashlib.sha256()


def blob(data, wanted):
    made = hasher(wanted)
    made.update(b"blob %d\0" % len(data))
    made.update(data)
    return made.hexdigest()


def hash_file(path, size, wanted):
    made = hasher(wanted)
    made.update(b"blob %d\0" % size)
    with open(path, "rb") as file:
        while True:
            piece = file.read(1 << 20)
            if not piece:
                return made.hexdigest()
            made.update(piece)


def converted(root, mirror, tree, facts, wrong):
    """Return the problems among `wrong` that no declared conversion (eol, ident, LFS) of the tree itself explains."""
    problems = []
    for path, said in wrong:
        if said == "differs" and said_by_attributes(root, mirror, tree, path, facts[path][2]):
            continue
        problems.append("%s %s" % (show(path), said))
    return problems


def said_by_attributes(root, mirror, tree, path, name):
    """Return whether the file on disk is what git itself would write for this blob at this path."""
    with open(os.path.join(root, path), "rb") as file:
        data = file.read()
    pointer = git(mirror, "cat-file", "blob", name)
    if pointer.startswith(LFS):
        return lfs_matches(pointer, data)
    attributes = attributes_of(mirror, tree, path)
    # A filter driver is a program of somebody's configuration: what it writes is not what the tree says.
    if attributes.get("filter", "unspecified") not in ("unspecified", "unset"):
        return False
    text = pointer
    if attributes.get("ident") == "set":
        text = text.replace(b"$Id$", b"$Id: " + name.encode() + b" $")
    if attributes.get("eol") == "crlf" and b"\r\n" not in text:
        text = text.replace(b"\n", b"\r\n")
    return text == data and text != pointer


def attributes_of(mirror, tree, path):
    """Return the attributes that the tree's own .gitattributes files give to `path`."""
    index = os.path.join(os.path.dirname(mirror), ".attr-index-%d" % os.getpid())
    env = dict(environment(mirror), GIT_INDEX_FILE=index)
    try:
        subprocess.run(["git", "--git-dir=" + mirror, "read-tree", tree], env=env, check=True)
        out = subprocess.run(
            ["git", "--git-dir=" + mirror, "check-attr", "--cached", "-z", "filter", "ident", "eol", "--", path],
            env=env,
            check=True,
            stdout=subprocess.PIPE,
        ).stdout.split(b"\0")
    finally:
        if os.path.exists(index):
            os.unlink(index)
    return {out[i + 1].decode(): out[i + 2].decode() for i in range(0, len(out) - 2, 3)}


def lfs_matches(pointer, data):
    """Return whether `data` is the content that an LFS pointer names, by size and sha256."""
    fields = dict(line.split(b" ", 1) for line in pointer.splitlines() if b" " in line)
    digest = b"sha256:" + hashlib.sha256(data).hexdigest().encode()
    return fields.get(b"oid") == digest and int(fields.get(b"size", b"-1")) == len(data)


def check_submodule(root, path, wanted):
    """Return what is wrong with a submodule: its commit, then every byte of it."""
    folder = os.fsdecode(os.path.join(root, path))
    name = show(path)
    if not os.path.exists(os.path.join(folder, ".git")):
        return ["%s: the submodule is not checked out" % name]
    try:
        where = git("", "rev-parse", "--absolute-git-dir", cwd=folder).decode().strip()
        tree = git(where, "rev-parse", wanted + "^{tree}").decode().strip()
    except RuntimeError as error:
        return ["%s: %s" % (name, error)]
    return ["%s/%s" % (name, said) for said in prove(folder, where, tree, (), True)["problems"]]


def extras(worktree, wanted, allow=(), submodules=False):
    """Return the paths on disk that the tree does not name and `allow` (globs) does not permit."""
    root = os.fsencode(worktree)
    folders = {b""}
    for path in wanted:
        parent = os.path.dirname(path)
        while parent not in folders:
            folders.add(parent)
            parent = os.path.dirname(parent)
    modules = {path for path, facts in wanted.items() if facts[1] == "commit"}
    patterns = [os.fsencode(pattern) for pattern in allow]
    found = []
    todo = [b""]
    while todo:
        here = todo.pop()
        with os.scandir(os.path.join(root, here) if here else root) as entries:
            for entry in entries:
                path = os.path.join(here, entry.name) if here else entry.name
                if path == b".git" or permitted(path, patterns):
                    continue
                if path in modules:
                    if not submodules and os.listdir(os.path.join(root, path)):
                        found.append(path)
                elif entry.is_dir(follow_symlinks=False) and path in folders:
                    todo.append(path)
                elif path not in wanted or entry.is_dir(follow_symlinks=False):
                    found.append(path)
    return sorted(found)


def permitted(path, patterns):
    """Return whether a glob permits `path` or one of the folders that it lies in."""
    while path:
        if any(fnmatch.fnmatchcase(path, pattern) for pattern in patterns):
            return True
        path = os.path.dirname(path)
    return False
