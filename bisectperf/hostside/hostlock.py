"""Whose turn it is on this host: one file a lock, held by a lease that its holder renews.

Verbs (the folder of locks is the first argument, the lock's name the second; a JSON document on standard input):

    take  token, owner, lease (seconds): take the lock, or renew it where `token` has it already
    drop  token: let it go; another holder's lock stays

Both answer {"held", "owner", "since", "left"}: whether `token` has it now, who has it otherwise, since when (seconds
of this host's clock) and for how many seconds more unless it is renewed. A lock is stale when its lease is over by
the monotonic clock, or when it is from before a reboot. Exit status 64: refused, for the reason on standard error.
Runs under any python3 >= 3.8, standard library only.
"""

import fcntl
import json
import os
import re
import sys
import time

from files import Refused, read, require_private, write
from processes import boot_id

FREE = {"held": False, "owner": "", "since": 0.0, "left": 0.0}


def main(argv):
    verb, folder, name = argv[1], argv[2], argv[3]
    if not re.match(r"^[a-z0-9][a-z0-9-]{0,40}$", name):
        sys.exit("not the name of a lock: %r" % name)
    os.umask(0o077)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    require_private(os.path.dirname(folder))
    require_private(folder)
    asked = json.load(sys.stdin.buffer)
    guard = os.open(os.path.join(folder, ".guard"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(guard, fcntl.LOCK_EX)  # for as long as this process lives: one look and one write
    print(json.dumps({"take": take, "drop": drop}[verb](os.path.join(folder, name + ".json"), asked)))


def take(path, asked):
    now, known = time.monotonic(), holder(path)
    if known is not None and known["token"] != asked["token"]:
        return answer(known, held=False)
    since = known["since"] if known is not None else time.time()
    ours = dict(asked, boot=boot_id(), until=now + asked["lease"], since=since)
    write(path, ours)
    return answer(ours, held=True)


def drop(path, asked):
    known = holder(path)
    if known is not None and known["token"] != asked["token"]:
        return answer(known, held=False)
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
    return FREE


def holder(path):
    """Return what the lock's file says, or None where there is none or a stale one."""
    known = read(path)
    if known is None or known["boot"] != boot_id() or known["until"] <= time.monotonic():
        return None
    return known


def answer(known, held):
    left = round(known["until"] - time.monotonic(), 3)
    return {"held": held, "owner": known["owner"], "since": known["since"], "left": left}


if __name__ == "__main__":
    try:
        main(sys.argv)
    except Refused as refusal:
        print(refusal, file=sys.stderr)
        sys.exit(64)
