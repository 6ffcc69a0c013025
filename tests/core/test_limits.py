"""What the words of a budget mean."""

import time
from datetime import datetime

import pytest

from bisectperf.driver.limits import limits_of, moment, span
from bisectperf.errors import UserError
from bisectperf.model import Limits


@pytest.fixture
def _berlin(monkeypatch):
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def at(text):
    return datetime.fromisoformat(text).timestamp()


@pytest.mark.usefixtures("_berlin")
@pytest.mark.parametrize(
    ("now", "word", "meant"),
    [
        ("2026-03-01T22:00+01:00", "08:00", "2026-03-02T08:00+01:00"),
        ("2026-03-01T07:00+01:00", "8:00", "2026-03-01T08:00+01:00"),
        ("2026-03-28T22:00+01:00", "08:00", "2026-03-29T08:00+02:00"),  # the clocks go forward in that night
        ("2026-03-01T07:00+01:00", "2026-03-03T09:30", "2026-03-03T09:30+01:00"),
        ("2026-03-01T07:00+01:00", "2026-03-01T07:00Z", "2026-03-01T08:00+01:00"),
    ],
)
def test_a_deadline_is_the_next_such_moment_on_the_local_clock(now, word, meant):
    assert moment(word, at(now)) == at(meant)


@pytest.mark.parametrize(
    ("word", "seconds"), [("8h", 28800), ("90m", 5400), ("1h30m", 5400), ("2d", 172800), ("0.5h", 1800)]
)
def test_lengths(word, seconds):
    assert span(word) == seconds


@pytest.mark.parametrize("words", [{"budget": "soon"}, {"budget": "8"}, {"until": "25:00"}, {"until": "2001-01-01"}])
def test_what_is_no_time_is_refused(words):
    with pytest.raises(UserError) as caught:
        limits_of(1e9, **words)
    assert caught.value.hint


def test_the_earlier_end_holds_and_launches_count_from_now():
    found = limits_of(1e9, until="2001-09-09T12:00Z", budget="1h", launches=5, had=7)
    assert found == Limits(until=1e9 + 3600, launches=12)
    assert limits_of(1e9) is None
