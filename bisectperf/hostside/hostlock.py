"""Whose turn it is on this host: one file a holder, for a lease that the holder renews.

Verbs (the folder of locks is the first argument, the holder's token the second; a JSON document on standard input):

    take  owner, lease (seconds), uses, jobs, process: take the lock, or renew it where the token has it already
    drop  let it go; another holder's lock stays

Both answer {"held", "owner", "since", "left", "path", "working"}: whether the token has it now; else who is in its
way, since when (seconds of this host's clock), for how many seconds more unless it is renewed, in which file, and
(where it is gone) which of its jobs still runs. `uses` lists the GPUs that are taken (empty: the whole host); two
holders are in each other's way unless their lists are apart. `jobs` is how the names of the holder's jobs begin.

A lock is stale when its lease is over by the monotonic clock, when it is from before a reboot, or when its holder
was a process of this very host (same boot, same process namespace) that is gone. A stale lock still holds as long
as a job of its holder runs: two launches at once would measure each other. Exit status 64: refused, for the reason
on standard error. Runs under any python3 >= 3.8, standard library only.
"""

import fcntl
import json
import os
import re
import sys
import time

from files import Refused, read, require_private, write
from processes import boot_id, namespace, start_time, supervisor_of

FREE = {"held": False, "owner": "", "since": 0.0, "left": 0.0, "path": "", "working": ""}


def main(argv):
    verb, folder, token = argv[1], argv[2], argv[3]
    if not re.match(r"^[a-z0-9][a-z0-9-]{0,60}$", token):
        sys.exit("not a token: %r" % token)
    os.umask(0o077)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    require_private(os.path.dirname(folder))
    require_private(folder)
    guard(folder)
    print(json.dumps(take(folder, token, json.load(sys.stdin.buffer)) if verb == "take" else drop(folder, token)))


def guard(folder):
    """Let no other process look at the locks or change them as long as this one lives."""
    fd = os.open(os.path.join(folder, ".guard"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(fd, fcntl.LOCK_EX)


def take(folder, token, asked):
    for path, known in holders(folder, token):
        if in_the_way(known["uses"], asked["uses"]):
            return answer(path, known, held=False)
    path = os.path.join(folder, token + ".json")
    known = read(path)
    renewed = known is not None and known["boot"] == boot_id()
    since = known["since"] if renewed else time.time()
    ours = dict(asked, token=token, boot=boot_id(), until=time.monotonic() + asked["lease"], since=since)
    write(path, ours)
    return answer(path, ours, held=True)


def drop(folder, token):
    try:
        os.unlink(os.path.join(folder, token + ".json"))
    except FileNotFoundError:
        pass
    return FREE


def in_the_way(one, other):
    return not one or not other or bool(set(one) & set(other))


def holders(folder, token):
    """Yield (path, what it says) for every lock of others that holds; the files of their stale ones are removed."""
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        if not name.endswith(".json") or name == token + ".json":
            continue
        known = read(path)
        if known is None or known["boot"] != boot_id() or (gone(known) and not working(folder, known)):
            os.unlink(path)
            continue
        yield path, known


def gone(known):
    process = known["process"]
    here = process["boot"] == boot_id() and process["namespace"] == namespace() != ""
    return known["until"] <= time.monotonic() or (here and start_time(process["pid"]) != process["start"])


def working(folder, known):
    """Return the jobs of a holder that still run."""
    jobs = os.path.join(os.path.dirname(os.path.abspath(folder)), "jobs")
    names = sorted(os.listdir(jobs)) if os.path.isdir(jobs) else []
    mine = [name for name in names if known["jobs"] and name.startswith(known["jobs"])]
    return [name for name in mine if supervisor_of(os.path.join(jobs, name)) is not None]


def answer(path, known, held):
    return {
        "held": held,
        "owner": known["owner"],
        "since": known["since"],
        "left": round(known["until"] - time.monotonic(), 3),
        "path": path,
        "working": "" if held or not gone(known) else (working(os.path.dirname(path), known) or [""])[0],
    }


if __name__ == "__main__":
    try:
        main(sys.argv)
    except Refused as refusal:
        print(refusal, file=sys.stderr)
        sys.exit(64)
