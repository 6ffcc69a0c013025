"""The room that we take on this host: builds that are kept, folders of jobs that are over, and all of it at the end.

Verbs (a JSON document on standard input; all of them answer one):

    prune   {"root", "jobs", "keep"}           remove what jobs of that prefix left, but for those named in `keep`
    trim    {"root", "limit", "keep", "jobs"}  remove the builds used longest ago until the rest fits `limit` bytes
    remove  {"root", "token"}                  end every job of ours, remove all that we ever put there

`trim` never removes the builds in `keep`, nor one that was used since another holder took its turn on this host.
`remove` leaves what is not ours, and says what is left: {"left": [...], "processes": [...]}. Nothing outside of
`root` is touched but scratch folders of proofs that were killed, and no link is followed. Exit status 64: refused.
Any python3 >= 3.8, standard library only.
"""

import glob
import json
import os
import shutil
import sys
import tempfile
import time

from files import Refused, require_private
from hostlock import guard, holders
from processes import marked_under, supervisor_of
from supervisor import kill

MARKER = ".bisectperf"
OURS = ("jobs", "locks", "wt", "builds", "pycache", "mirror", "recipes", "cache", "bin")
OF_A_BUILD = ("wt", "builds", "pycache")
DAY = 86400.0


def main(argv):
    words = json.load(sys.stdin)
    os.umask(0o077)
    root = words["root"]
    if not os.path.isfile(os.path.join(root, MARKER)):
        raise Refused("%s is not a folder of ours: there is no %s in it" % (root, MARKER))
    require_private(root)
    print(json.dumps({"prune": prune, "trim": trim, "remove": remove}[argv[1]](**words)))


def prune(root, jobs, keep):
    """Remove the folders of ended jobs whose results are in the journal, and scraps that a killed process left."""
    removed = []
    for name in names(root, "jobs"):
        path = os.path.join(root, "jobs", name)
        ours = name.startswith(jobs) and name not in keep
        old = name.startswith(("build-", ".new.")) and aged(path)
        if (ours or old) and supervisor_of(path) is None:
            removed.append(name)
            shutil.rmtree(path, ignore_errors=True)
    for name in names(root, "wt"):
        path = os.path.join(root, "wt", name)
        if name.startswith("bisectperf-") and aged(path):
            shutil.rmtree(path, ignore_errors=True)
    return {"removed": removed}


def trim(root, limit, keep, jobs):
    """Remove the builds used longest ago, until what is left takes no more than `limit` bytes."""
    since = min([time.time()] + [known["since"] for known in turns(root) if known["jobs"] != jobs])
    builds = {key: (used(root, key), size(root, key)) for key in keys(root)}
    taken = sum(bytes_ for _at, bytes_ in builds.values())
    removed = []
    for key, (at, bytes_) in sorted(builds.items(), key=lambda item: item[1][0]):
        if taken <= limit:
            break
        if key in keep or at >= since:
            continue
        for part in OF_A_BUILD:
            shutil.rmtree(os.path.join(root, part, key), ignore_errors=True)
        forget_use(root, key)
        taken -= bytes_
        removed.append(key)
    return {"removed": removed, "bytes": taken}


def remove(root, token):
    """End our jobs, remove our folders, then say what is left."""
    for known in turns(root):
        if known["token"] != token:
            raise Refused("it is the turn of %s on this host; say `bisectperf stop` there first" % known["owner"])
    for name in names(root, "jobs"):
        kill(os.path.join(root, "jobs", name))
    for name in OURS:
        path = os.path.join(root, name)
        if os.path.islink(path):
            os.unlink(path)
        elif os.path.isdir(path):
            make_removable(path)
            shutil.rmtree(path, ignore_errors=True)
    for path in glob.glob(os.path.join(glob.escape(tempfile.gettempdir()), "bisectperf-proof-*")):
        if os.lstat(path).st_uid == os.getuid() and aged(path):
            shutil.rmtree(path, ignore_errors=True)
    left = sorted(set(os.listdir(root)) - {MARKER})
    if not left:
        os.unlink(os.path.join(root, MARKER))
        os.rmdir(root)
    return {"left": left, "processes": marked_under(root)}


def turns(root):
    """Return what the locks say that hold on this host; they stay as they are while this process lives."""
    locks = os.path.join(root, "locks")
    if not os.path.isdir(locks):
        return []
    guard(locks)
    return [known for _path, known in holders(locks, "")]


# -- builds ---------------------------------------------------------------------------------------------------


def keys(root):
    found = {name for part in OF_A_BUILD for name in names(root, part)}
    return {name for name in found if not name.startswith("bisectperf-") and not name.endswith(".used")}


def used(root, key):
    """Return when a build was checked out last, in seconds since the epoch."""
    try:
        return os.lstat(os.path.join(root, "wt", key + ".used")).st_mtime
    except OSError:
        return 0.0


def forget_use(root, key):
    try:
        os.unlink(os.path.join(root, "wt", key + ".used"))
    except OSError:
        pass


def size(root, key):
    """Return the bytes on disk of a build; what cannot be looked at counts nothing."""
    total = 0
    for part in OF_A_BUILD:
        for folder, _folders, files in os.walk(os.path.join(root, part, key)):
            for name in files:
                try:
                    total += os.lstat(os.path.join(folder, name)).st_blocks * 512
                except OSError:
                    pass
    return total


# -- folders --------------------------------------------------------------------------------------------------


def names(root, part):
    path = os.path.join(root, part)
    return sorted(os.listdir(path)) if os.path.isdir(path) and not os.path.islink(path) else []


def aged(path):
    try:
        return time.time() - os.lstat(path).st_mtime > DAY
    except OSError:
        return False


def make_removable(path):
    """Give ourselves the right to write in each folder below: a build may have left some that are read only."""
    for folder, _folders, _files in os.walk(path):
        try:
            os.chmod(folder, 0o700)
        except OSError:
            pass


if __name__ == "__main__":
    try:
        main(sys.argv)
    except Refused as refusal:
        print(refusal, file=sys.stderr)
        sys.exit(64)
