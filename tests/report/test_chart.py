"""The charts: drawn for every night, the same bytes each time, recoloured by the page."""

import re

import pytest

from bisectperf.model import Effect, Line, Metric, Position
from bisectperf.report import svg
from bisectperf.report.chart import NARROW, PALETTE, WIDE, to_png
from bisectperf.report.environment import environment
from bisectperf.report.excerpt import interesting, slots, stretches
from bisectperf.report.proof import bundle
from bisectperf.report.view import level, posterior_of, rows


def test_the_picture_alone(nights):
    data = to_png(nights["first-bad"]().state())
    assert data.startswith(b"\x89PNG")
    assert len(data) < 150_000


@pytest.mark.parametrize("size", [WIDE, NARROW])
def test_a_drawing_is_reproducible_and_takes_the_page_s_colours(nights, size):
    state = nights["several-changes"]().state()
    drawn = svg.range_svg(state, -1, rows(state), size, "a")
    assert drawn == svg.range_svg(state, -1, rows(state), size, "a")
    assert set(re.findall(r"#[0-9a-f]{6}", drawn)) <= set(PALETTE.values())
    assert "var(--bad, #b34a00)" in drawn
    assert "<style" not in drawn


def test_two_drawings_share_no_ids(nights):
    state = nights["first-bad"]().state()
    one, other = (set(re.findall(r'\bid="([^"]+)"', svg.range_svg(state, -1, rows(state), WIDE, n))) for n in "ab")
    assert not one & other


def test_a_unit_in_another_script_or_with_dollars_is_drawn(script):
    odd = script().ends()
    odd.plan = type(odd.plan)(
        **{name: getattr(odd.plan, name) for name in odd.plan.__struct_fields__}
        | {"metric": Metric(name="cost$x_{y", unit="词/$s$\x1b", better="lower")}
    )
    odd.events[0] = type(odd.events[0])(at=odd.events[0].at, plan=odd.plan, version="x")
    assert to_png(odd.state()).startswith(b"\x89PNG")
    drawn = svg.range_svg(odd.state(), -1, rows(odd.state()), WIDE, "a")
    assert "\x1b" not in drawn
    assert "词/$s$" in drawn


def test_a_thirty_fold_effect_is_still_readable(script):
    assert to_png(script(effect=3.4).ends().search(12).state()).startswith(b"\x89PNG")


# -- what is shown --------------------------------------------------------------------------------------------


def test_levels_pool_the_spread_of_all_commits():
    assert level([], 0.01, 3) is None
    alone = level([1.0], 0.01, 3)
    twice = level([1.0, 1.0], 0.01, 3)
    assert alone.high - alone.low > twice.high - twice.low > 0
    assert level([1.0], 0.0, 0).high == float("inf")


def test_the_middle_of_a_long_line_is_left_out_but_counted(nights):
    table = rows(nights["long-range"]().state())
    places = slots(table)
    assert sum(len(place.members) for place in places) == 901
    assert sum(place.probability for place in places) == pytest.approx(sum(r.probability for r in table))
    assert {0, 399, 400, 401, 900} <= {row.index for row in interesting(table, 12)}


def test_untestable_neighbours_are_one_stretch(script):
    table = rows(script(untestable=(8, 9, 20)).state())
    assert [(s.first.index, s.last.index) for s in stretches(table)] == [(0, 7), (8, 9), (10, 19), (20, 20), (21, 24)]


def test_no_probabilities_before_both_ends_are_known(script):
    one_end = script()
    one_end.measured(0, "endpoint")
    assert posterior_of(one_end.state()) is None
    assert sum(posterior_of(script().ends().state()).of) == pytest.approx(1, abs=0.2)


def test_the_environment_says_what_changed_and_lets_numbers_move(nights):
    facts = {fact.name: fact for fact in environment(nights["environment-changed"]().state())}
    assert facts["gpu 0 driver_version"].changed
    assert (facts["gpu 0 driver_version"].first, facts["gpu 0 driver_version"].last) == ("570.86.10", "575.51.03")
    assert not facts["load_1m"].changed
    assert facts["load_1m"].range
    assert not facts["kernel"].changed


def test_a_launch_without_both_proofs_is_not_called_proved(nights):
    script = nights["first-bad"]()
    broken = next(k for k, event in enumerate(script.events) if type(event).__name__ == "Measured")
    event = script.events[broken]
    script.events[broken] = type(event)(
        **{name: getattr(event, name) for name in event.__struct_fields__} | {"proofs": event.proofs[:1]}
    )
    proof = bundle(script.state())
    assert (proof.whole, proof.counted) == (13, 14)


def test_the_reverted_end_is_shown_once_measured(nights):
    script = nights["first-bad"]()
    assert bundle(script.state()).reverted is None
    script.measured(24, "revert", level=880.0)
    assert isinstance(bundle(script.state()).reverted, Effect)


def test_a_line_of_one_position_has_no_probabilities(script):
    short = script()
    short.events[1] = type(short.events[1])(
        at=short.now, line=Line(positions=(Position(commits=("a" * 40,), tree="b" * 40),))
    )
    assert posterior_of(short.state()) is None
    assert len(rows(short.state())) == 1
