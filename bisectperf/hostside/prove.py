"""Hold the bytes on disk against the tree that was meant.

Git's own index cannot testify: flags, timestamps, filters and monitors make it say "unchanged" of changed files. So
every file is read and hashed, and compared in bytes and mode with the tree as listed from our own mirror; and every
file that the tree does not name is a problem unless the build declared it. A folder that a tree does not name counts
too, even an empty one: Python takes it for a package.
"""

import filecmp
import fnmatch
import hashlib
import os
import stat
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

from gitcalls import Objects

SHOWN = 20
PIECE = 1 << 20
SHARE = 512  # files per task: a task a file costs more than the hashing of a small file
LFS = b"version https://git-lfs.github.com/spec/v1\n"
LFS_LARGEST = 1024  # bytes: what the LFS specification allows for a pointer


def prove(worktree, git_dir, tree, allow=(), submodules=False):
    """Hold `worktree` against `tree`, whose objects lie in the repository `git_dir`.

    `allow` are globs of what may lie there besides, and of LFS files whose content may be missing. With `submodules`
    each of them is proved in turn; without, their folders must be empty. Returns {"expected", "found", "files", "at",
    "problems"}, as the package's `TreeProof`; `found` is the tree, or None where anything differs.
    Raises `RuntimeError` when the objects cannot be read.
    """
    with tempfile.TemporaryDirectory(prefix="bisectperf-proof-") as scratch:
        objects = Objects(git_dir, scratch, tree)
        wanted = objects.listing(tree)
        problems = differences(worktree, objects, tree, wanted, allow)
    problems += ["%s is not in the tree" % show(path) for path in extras(worktree, wanted, allow, submodules)]
    if submodules:
        for path, (_, kind, commit) in sorted(wanted.items()):
            problems += check_submodule(os.fsencode(worktree), path, commit) if kind == "commit" else []
    more = len(problems) - SHOWN
    return {
        "expected": tree,
        "found": None if problems else tree,
        "files": len(wanted),
        "at": time.time(),
        "problems": problems[:SHOWN] + (["and %d more" % more] if more > 0 else []),
    }


def show(path):
    """Return a path of bytes as text that shows what cannot be printed, so that twins of a name can be told apart."""
    return os.fsdecode(path).encode("unicode_escape", "backslashreplace").decode("ascii")


# -- files that the tree names ----------------------------------------------------------------------------------


def differences(worktree, objects, tree, wanted, allow):
    """Return what is wrong with the files that the tree names."""
    root = os.fsencode(worktree)
    files = sorted((path, facts) for path, facts in wanted.items() if facts[1] == "blob")
    shares = [files[i : i + SHARE] for i in range(0, len(files), SHARE)]
    # Threads wait for the disk side by side; with everything in memory they cost nothing.
    with ThreadPoolExecutor(max_workers=min(8, (os.cpu_count() or 1) + 1)) as pool:
        wrong = [pair for found in pool.map(lambda share: check_share(root, share), shares) for pair in found]
    wrong = [(path, said) for path, said in wrong if said != POINTER or not permitted(path, globs(allow))]
    return ["%s %s" % (show(path), said) for path, said in unexplained(root, objects, tree, wrong)]


def check_share(root, share):
    """Return [(path, what is wrong)] for the files among `share` with which anything is."""
    found, real = [], {}
    for path, (mode, _, name) in share:
        parent = os.path.dirname(path)
        if parent not in real:
            real[parent] = is_real_folder(root, parent)
        said = check_file(os.path.join(root, path), mode, name) if real[parent] else "lies behind a symbolic link"
        if said:
            found.append((path, said))
    return found


def is_real_folder(root, path):
    """Return whether no part of `path` below `root` is a symbolic link (what is missing is none)."""
    while path:
        if os.path.islink(os.path.join(root, path)):
            return False
        path = os.path.dirname(path)
    return True


DIFFERS = "differs"
POINTER = "is an LFS pointer whose content was never fetched"


def check_file(full, mode, name):
    """Return what is wrong with one file, or the empty string."""
    try:
        about = os.lstat(full)
        if mode == "120000":
            if not stat.S_ISLNK(about.st_mode):
                return "is no symbolic link"
            return "" if hash_bytes(os.readlink(full), name) == name else "points elsewhere"
        if not stat.S_ISREG(about.st_mode):
            return "is no regular file"
        if bool(about.st_mode & 0o100) != (mode == "100755"):
            return "has the wrong executable bit"
        return check_content(full, about.st_size, name)
    except OSError as error:
        return "cannot be read: %s" % error.strerror


def check_content(full, size, name):
    """Return how a regular file differs in content from the blob `name`, or the empty string."""
    fd = os.open(full, os.O_RDONLY | os.O_NOFOLLOW)  # not open(): its buffer costs more than reading a small file
    try:
        data = os.read(fd, PIECE)
        made = hasher(name)
        made.update(b"blob %d\0" % size)
        piece = data
        while piece:
            made.update(piece)
            piece = os.read(fd, PIECE)
    finally:
        os.close(fd)
    if made.hexdigest() != name:
        return DIFFERS
    return POINTER if size <= LFS_LARGEST and data.startswith(LFS) else ""


def hasher(name):
    """Return the hash that object ids like `name` are made with."""
    return hashlib.sha1() if len(name) == 40 else hashlib.sha256()


def hash_bytes(data, name):
    made = hasher(name)
    made.update(b"blob %d\0" % len(data) + data)
    return made.hexdigest()


# -- files that a checkout rightly changes ----------------------------------------------------------------------


def unexplained(root, objects, tree, wrong):
    """Return those of `wrong` that no conversion asked for by the tree itself (eol, ident, LFS) explains."""
    changed = [path for path, said in wrong if said == DIFFERS]
    if not changed:
        return wrong
    written = objects.written(tree, changed)
    return [(path, said) for path, said in wrong if said != DIFFERS or not explained(root, written, path)]


def explained(root, written, path):
    """Return whether the file on disk is what git writes there, or the content that its LFS pointer names."""
    full, meant = os.path.join(root, path), os.path.join(written, path)
    if filecmp.cmp(full, meant, shallow=False):
        return True
    with open(meant, "rb") as file:
        pointer = file.read(LFS_LARGEST + 1)
    return is_content_of(full, pointer) if pointer.startswith(LFS) and len(pointer) <= LFS_LARGEST else False


def is_content_of(full, pointer):
    """Return whether a file is what an LFS pointer names, by size and SHA-256."""
    fields = dict(line.split(b" ", 1) for line in pointer.splitlines() if b" " in line)
    if fields.get(b"size") != b"%d" % os.path.getsize(full):
        return False
    made = hashlib.sha256()
    with open(full, "rb") as file:
        for piece in iter(lambda: file.read(PIECE), b""):
            made.update(piece)
    return fields.get(b"oid") == b"sha256:" + made.hexdigest().encode()


# -- files that the tree does not name --------------------------------------------------------------------------


def extras(worktree, wanted, allow=(), submodules=False):
    """Return the paths on disk that the tree does not name and `allow` (globs) does not permit."""
    root = os.fsencode(worktree)
    folders = {b""}
    for path in wanted:
        parent = os.path.dirname(path)
        while parent not in folders:
            folders.add(parent)
            parent = os.path.dirname(parent)
    patterns = globs(allow)
    found, ahead = [], [b""]
    while ahead:
        here = ahead.pop()
        with os.scandir(os.path.join(root, here)) as entries:
            for entry in entries:
                path = os.path.join(here, entry.name)
                if path == b".git" or permitted(path, patterns):
                    continue
                is_folder = entry.is_dir(follow_symlinks=False)
                if wanted.get(path, ("", ""))[1] == "commit":
                    known = is_folder and (submodules or not os.listdir(entry.path))
                elif is_folder:
                    known = path in folders
                    ahead += [path] if known else []
                else:
                    known = path in wanted
                found += [] if known else [path]
    return sorted(found)


def globs(allow):
    return [os.fsencode(pattern) for pattern in allow]


def permitted(path, patterns):
    """Return whether a glob permits `path` or one of the folders that it lies in."""
    while path and patterns:
        if any(fnmatch.fnmatchcase(path, pattern) for pattern in patterns):
            return True
        path = os.path.dirname(path)
    return False


def check_submodule(root, path, commit):
    """Return what is wrong with a submodule: that it is there, and every byte of it."""
    folder, name = os.path.join(root, path), show(path)
    link = os.path.join(folder, b".git")
    if not os.path.exists(link):
        return ["%s: the submodule is not checked out" % name]
    where = link
    if os.path.isfile(link):
        with open(link, "rb") as file:
            where = os.path.join(folder, file.read().partition(b":")[2].strip())
    try:
        with tempfile.TemporaryDirectory(prefix="bisectperf-proof-") as scratch:
            tree = Objects(os.fsdecode(where), scratch, commit).git("rev-parse", commit + "^{tree}").decode().strip()
        problems = prove(os.fsdecode(folder), os.fsdecode(where), tree, (), True)["problems"]
    except RuntimeError as error:
        return ["%s: the commit %s of the submodule is not there (%s)" % (name, commit[:9], error)]
    return ["%s/%s" % (name, said) for said in problems]
