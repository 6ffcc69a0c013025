"""The live screen on a real terminal: it takes the screen, gives it back, and leaves a word when something fails."""

import os
import pty
import re
import subprocess
import sys
import textwrap

import msgspec

from bisectperf.events import AnyEvent

PROGRAM = """
import sys
import msgspec
from bisectperf.cli.live import LiveWatch
from bisectperf.events import AnyEvent
from bisectperf.state import State, apply

state = State()
with LiveWatch() as watch:
    watch.say("opening the repository")
    for event in msgspec.json.decode(sys.stdin.buffer.read(), type=list[AnyEvent]):
        state = apply(state, event)
        watch.event(event, state)
    watch.progress("build", "line 412 \\x1b]0;owned\\x07")
    watch.live.refresh()
    if "fail" in sys.argv:
        raise SystemExit("stopped")
"""


def seen_on_a_terminal(events, *words):
    """Return what a program that shows `events` writes to a terminal of 24 lines by 80 columns."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "80", "LINES": "24"}
    environment.pop("NO_COLOR", None)
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PROGRAM), *words],
        stdin=subprocess.PIPE,
        stderr=theirs,
        env=environment,
    )
    os.close(theirs)
    process.stdin.write(msgspec.json.encode(list[AnyEvent](events)))
    process.stdin.close()
    seen = b""
    try:
        while piece := os.read(ours, 1 << 16):
            seen += piece
    except OSError:  # the last holder of the other side has closed it
        pass
    os.close(ours)
    process.wait()
    return seen.decode()


def test_the_screen_is_taken_and_given_back(nights):
    seen = seen_on_a_terminal(nights["running"]().events)
    assert "\x1b[?1049h" in seen
    assert seen.rindex("\x1b[?1049l") > seen.rindex("on gpu7.lab: server and benchmark")
    assert seen.rindex("\x1b[?25h") > seen.rindex("\x1b[?25l")
    assert "opening the repository" in seen
    assert r"build: line 412 \x1b]0;owned\x07" in seen


def test_after_a_failure_the_terminal_says_where_it_stood(nights):
    seen = seen_on_a_terminal(nights["running"]().events, "fail")
    left = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", seen[seen.rindex("\x1b[?1049l") :])
    assert "5 launches counted" in left
    assert "6eaf654e6" in left
