"""The live screen: fits, is safe, reads without colour."""

import io

import pytest
from rich.console import Console

from bisectperf.report.live import bar, screen
from bisectperf.report.text import event_line
from bisectperf.state import State, apply


def drawn(events, width, height, doing="", environ=None):
    state, recent = State(), []
    for event in events:
        state = apply(state, event)
        recent.append(f"14:00:00  {event_line(event, state)}")
    out = io.StringIO()
    console = Console(
        file=out, width=width, height=height, force_terminal=True, _environ=environ or {"TERM": "xterm"}
    )
    console.print(screen(state, state.last + 30, width, height, doing=doing, recent=recent))
    return out.getvalue()


def plain(events, width, height, doing=""):
    return drawn(events, width, height, doing, {"NO_COLOR": "1", "TERM": "dumb"})


@pytest.mark.parametrize(("width", "height"), [(80, 24), (200, 50), (60, 16)])
def test_a_screen_fits(night, width, height):
    lines = plain(night.events, width, height).rstrip("\n").split("\n")
    assert len(lines) <= height
    assert max(map(len, lines)) <= width


def test_the_launch_in_hand_is_shown_with_its_progress(nights):
    shown = plain(nights["running"]().events, 80, 24, doing="repetition 3 of 5: 831.9")
    assert "now    " in shown
    assert "gpu7.lab: server and benchmark" in shown
    assert "repetition 3 of 5: 831.9" in shown
    assert ">6" in shown


def test_no_color_leaves_signs_and_words(nights):
    events = nights["first-bad"]().events
    shown = drawn(events, 80, 24, environ={"NO_COLOR": "1", "TERM": "xterm"})
    assert "\x1b[3" not in shown
    assert "*9" in shown
    assert "\x1b[" in drawn(events, 80, 24)


def test_hostile_words_cannot_reach_the_terminal(hostile_night):
    shown = plain(hostile_night.events, 200, 50, doing="\x1b[2J\x1b]0;owned\x07[red]not markup[/red]")
    assert "\x1b" not in shown
    assert "\x07" not in shown
    assert "<script>alert(1)</script>" in shown


def test_markup_in_progress_stays_text(nights):
    assert "[red]not markup[/red]" in plain(nights["running"]().events, 80, 24, doing="[red]not markup[/red]")


def test_a_long_range_keeps_ends_suspects_and_room_for_events(nights):
    shown = plain(nights["long-range"]().events, 80, 24)
    assert "900 " in shown
    assert "*400 " in shown
    assert "measured L0013" in shown
    assert "decided: " in shown


@pytest.mark.parametrize(
    ("share", "drawing"), [(0, "    "), (1, "████"), (0.5, "██  "), (0.001, "▏   "), (7, "████")]
)
def test_bars(share, drawing):
    assert bar(share, 4) == drawing
