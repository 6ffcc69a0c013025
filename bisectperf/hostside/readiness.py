"""Waiting without looking away: for the end of a process, and for a server to be ready."""

import http.client
import os
import re
import select
import signal
import subprocess
import threading
import time
import urllib.request

FIRST, LONGEST = 0.05, 1.0  # seconds between two looks
PROBE = 30.0  # seconds: a server may answer its first health check only when it has compiled a kernel


class Ends(object):
    """Wakes up as soon as any child process ends."""

    def __init__(self):
        self.reader, writer = os.pipe()
        os.set_blocking(self.reader, False)
        os.set_blocking(writer, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)

    def wait(self, seconds):
        """Return when a child ended since the last call, or after `seconds`."""
        if select.select([self.reader], [], [], max(0.0, seconds))[0]:
            os.read(self.reader, 4096)


def wait_until_ready(server, ready, log, env, cwd, ends, check):
    """Return the empty string once the server is ready, else one sentence on why it is not.

    Ready is an HTTP 200, a line in its log, or a command that succeeds: never a port that merely listens. `check` is
    called at every look, and may raise.
    """
    until = time.monotonic() + ready["timeout"]
    probe = make_probe(ready, log, env, cwd)
    pause, look = FIRST, None
    while True:
        if server.poll() is not None:
            return "the server ended with status %d before it was ready" % server.returncode
        if time.monotonic() >= until:
            return "the server was not ready within %g s" % ready["timeout"]
        check()
        if look is None:
            look = Look(probe)
        ends.wait(min(pause, until - time.monotonic()))
        if not look.is_alive():
            if look.answer:
                return ""
            look, pause = None, min(pause * 1.3, LONGEST)


class Look(threading.Thread):
    """One look at the server, aside, so that one that hangs hides neither its end nor the time limit."""

    def __init__(self, probe):
        threading.Thread.__init__(self, daemon=True)
        self.probe, self.answer = probe, False
        self.start()

    def run(self):
        self.answer = self.probe()


def make_probe(ready, log, env, cwd):
    """Return a function that says whether the server is ready now."""
    if ready["http"]:
        return lambda: answers(ready["http"])
    if ready["log"]:
        return LogLine(log, ready["log"])
    return lambda: succeeds(ready["command"], env, cwd)


def answers(url):
    """Return whether `url` answers 200, asked directly (no proxy)."""
    try:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(url, timeout=PROBE) as answer:
            return answer.status == 200
    except (OSError, ValueError, http.client.HTTPException):
        return False


def succeeds(command, env, cwd):
    try:
        null = subprocess.DEVNULL
        done = subprocess.run(command, env=env, cwd=cwd, stdin=null, stdout=null, stderr=null, timeout=PROBE)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


class LogLine(object):
    """Says whether a pattern has appeared in a log, reading each line once."""

    def __init__(self, path, pattern):
        self.path, self.pattern, self.offset = path, re.compile(pattern.encode()), 0

    def __call__(self):
        with open(self.path, "rb") as file:
            file.seek(self.offset)
            for line in file:
                if self.pattern.search(line):
                    return True
                # A line that is still being written is read again.
                self.offset += len(line) if line.endswith(b"\n") else 0
        return False
