"""How a launch fails, and the last words of its logs."""

import os

TAIL = 4096  # bytes of a log that are kept


class Failed(Exception):
    """The launch gives no sample: `outcome` is the kind, the message one sentence, `tail` the relevant log's end."""

    def __init__(self, outcome, detail, tail="", guard=""):
        Exception.__init__(self, detail)
        self.outcome, self.tail, self.guard = outcome, tail, guard


def tail(path):
    """Return the end of a file as text; empty where there is none."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.path.getsize(path) - TAIL))
            return file.read().decode(errors="replace")
    except OSError:
        return ""
