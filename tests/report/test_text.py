"""What a person reads in a terminal and a log: honest, safe, on one screen."""

import math
import unicodedata

import pytest

from bisectperf import events as ev
from bisectperf.model import Effect, FirstBad, Metric
from bisectperf.report import text
from bisectperf.report.verdict import verdict_sentence
from bisectperf.report.words import change, clean, clean_block, cut, duration, number, percent, probability
from bisectperf.state import State, apply


def shows_only_text(shown):
    return all(c == "\n" or unicodedata.category(c) not in {"Cc", "Cf", "Cs", "Zl", "Zp"} for c in shown)


def test_status_fits_one_screen(night):
    state = night.state()
    shown = text.status(state, state.last + 60, width=80).split("\n")
    assert len(shown) <= 24
    assert max(map(len, shown)) <= 80


def test_status_of_a_long_range_shows_the_culprit(nights):
    state = nights["long-range"]().state()
    assert any(line.split()[:1] == ["*400"] for line in text.status(state, state.last).split("\n"))


@pytest.mark.parametrize(
    ("which", "words"),
    [
        ("first-bad", ["first bad commit is", "-5.9 %", "99.7 %", "14 launches"]),
        ("among-untestable", ["one of 3 commits", "cannot be measured", "for the set"]),
        ("among-evidence", ["one of 2 commits", "evidence cannot part"]),
        ("several-changes", ["2 changes", "55 % of the gap", "unexplained"]),
        ("not-reproduced", ["do not differ today", "above 1.1 % is excluded"]),
        ("environment-changed", ["not the code", "884.0 tok/s", "802.0 tok/s"]),
        ("inconclusive", ["No verdict", "4 commits left", "61.0 %", "1 h 40 min more"]),
        ("faster", ["bad end is faster", "+5.1 %"]),
        ("compared-yes", ["Yes", "slower"]),
        ("compared-no", ["does not differ", "2.9 %"]),
        ("compared-undecided", ["Undecided", "cannot be said yet"]),
        ("compared-faster", ["other way round", "faster"]),
        ("inside-a-merge", ["side branch, part 2", "inside the merge"]),
    ],
)
def test_a_verdict_is_one_sentence_that_says_how_sure_it_is(nights, which, words):
    state = nights[which]().state()
    sentence = verdict_sentence(state.decided, state)
    assert sentence.endswith(".")
    assert "\n" not in sentence
    assert [word for word in words if word not in sentence] == []
    assert f"{state.decided.launches} launches" in sentence


def test_the_end_of_a_run_says_why_a_set_could_not_be_parted(nights):
    shown = text.verdict_text(nights["among-untestable"]().state())
    assert "conflict in kimi.py" in shown
    assert "the server died before it was ready" in shown


def test_a_stopped_run_says_how_to_go_on(nights):
    state = nights["stopped"]().state()
    shown = text.status(state, state.last)
    assert "stopped by its user" in shown
    assert "bisectperf run" in shown


def test_hostile_words_stay_text_everywhere(hostile_night):
    state = hostile_night.state()
    shown = [text.status(state, state.last), text.verdict_text(state)]
    walked = State()
    for event in hostile_night.events:
        walked = apply(walked, event)
        line = text.event_line(event, walked)
        assert "\n" not in line
        shown.append(line)
    assert all(map(shows_only_text, shown))
    assert r"\x1b[2J" in "".join(shown)


def test_every_fact_has_its_line(night):
    state = State()
    for event in night.events:
        state = apply(state, event)
        assert text.event_line(event, state).strip()


def test_a_log_line_can_be_found_by_what_happened(nights):
    state, lines = State(), []
    for event in nights["first-bad"]().events:
        state = apply(state, event)
        lines.append(text.event_line(event, state))
    void = [line for line in lines if line.startswith("void ")]
    assert len(void) == 1
    assert "unfit: another process held the GPU" in void[0]
    assert sum(line.startswith("measured ") for line in lines) == 14
    assert sum(line.startswith("waiting ") for line in lines) == 1


def test_the_change_is_in_the_metric_s_own_direction():
    slower = math.log(1.25)
    throughput = Metric(name="speed", unit="tok/s", better="higher")
    latency = Metric(name="latency", unit="ms", better="lower")
    assert change(slower, throughput) == pytest.approx(-20)
    assert change(slower, latency) == pytest.approx(25)


def test_certainty_is_never_claimed(nights):
    state = nights["first-bad"]().state()
    verdict = FirstBad(
        launches=9,
        sha=state.decided.sha,
        parent=state.decided.parent,
        posterior=1.0,
        effect=Effect(value=0.1, low=0.09, high=0.11),
    )
    assert "probability over 99.9 %" in verdict_sentence(verdict, state)
    assert probability(1e-9) == "under 0.1 %"


def test_words():
    assert clean("a\tb\x1b[31m\u202ec\x9b\x7f") == r"a b\x1b[31m\u202ec\x9b\x7f"
    assert clean("tab\nline\u2028") == r"tab\nline\u2028"
    assert clean_block("a\r\nb\x07") == "a\nb\\x07"
    assert cut("abcdef", 4) == "abc…"
    assert [duration(x) for x in (-1, 59.4, 185, 7620, 97200)] == [
        "0 s",
        "59 s",
        "3 min 05 s",
        "2 h 07 min",
        "1 d 3 h",
    ]
    assert [number(x) for x in (0, 884.04, 0.0123456, 12345.6, 1e-9)] == ["0", "884.0", "0.01235", "12346", "1e-09"]
    assert [percent(x) for x in (-5.93, 0.04, -0.001)] == ["-5.9 %", "+0.04 %", "0.0 %"]


def test_what_waits_names_its_reason(nights):
    state = nights["running"]().state()
    event = ev.Waited(at=state.last, host="gpu7.lab", seconds=40.0, reason="busy")
    assert text.event_line(event, state) == "waiting 40 s for gpu7.lab: busy"
