"""Small files that are whole or absent, in folders that nobody else may write."""

import json
import os


class Refused(Exception):
    """What was asked for is not safe to do; the words are for the user."""


def require_private(folder):
    """Raise `Refused` where somebody else could lay files into `folder`."""
    facts = os.lstat(folder)
    if facts.st_uid != os.getuid():
        raise Refused("%s belongs to another user; choose another folder as work_dir" % folder)
    if facts.st_mode & 0o022:
        raise Refused("%s is writable by others; run there: chmod go-w '%s'" % (folder, folder))


def write(path, value):
    """Write a small JSON file so that a reader sees all of it or none, durably."""
    aside = path + ".part"
    fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.write(fd, json.dumps(value).encode())
        os.fsync(fd)
    finally:
        os.close(fd)
    os.rename(aside, path)
    sync(os.path.dirname(path))


def sync(folder):
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def read(path):
    """Return what a JSON file holds, or None where there is none."""
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError):
        return None
