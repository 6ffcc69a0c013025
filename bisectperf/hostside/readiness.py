"""When a server counts as started: an HTTP 200, a line in its log, or a command that succeeds. Never a bare port."""

import os
import re
import subprocess
import time
import urllib.error
import urllib.request

FIRST, LONGEST = 0.05, 1.0


def wait_until_ready(server, ready, log, env, cwd):
    """Return the empty string once the server is ready, else one sentence on why it is not."""
    until = time.monotonic() + ready["timeout"]
    pause = FIRST
    while True:
        if server.poll() is not None:
            return "the server ended with status %s before it was ready" % server.returncode
        if is_ready(ready, log, env, cwd):
            return ""
        left = until - time.monotonic()
        if left <= 0:
            return "the server was not ready within %g s" % ready["timeout"]
        try:
            # Its end is noticed at once, not at the next look.
            server.wait(min(pause, left))
        except subprocess.TimeoutExpired:
            pass
        pause = min(pause * 1.3, LONGEST)


def is_ready(ready, log, env, cwd):
    if ready["http"]:
        try:
            opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            with opener.open(ready["http"], timeout=30) as answer:
                return answer.status == 200
        except (OSError, urllib.error.URLError, ValueError):
            return False
    if ready["log"]:
        with open(log, "rb") as file:
            return re.search(ready["log"].encode(), file.read()) is not None
    with open(os.devnull, "w") as null:
        done = subprocess.run(ready["command"], env=env, cwd=cwd, stdin=null, stdout=null, stderr=null, check=False)
    return done.returncode == 0
