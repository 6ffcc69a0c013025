"""A budget stops a night before what it cannot pay for, and says what is left."""

import re

import pytest

from bisectperf import events as ev
from bisectperf.model import Limits
from bisectperf.report.text import status
from bisectperf.search import Done, Stop, next_step
from bisectperf.search.eta import eta
from bisectperf.simulate import Night, World

WORLD = World(candidates=64, effect=0.05, spread=0.01, first_bad=20, build_seconds=600)


def until_launch(night, launches):
    while len(night.state.measured()) < launches:
        night._launch(next_step(night.state, night.rig.now)[0])
    return night


def limit(night, **limits):
    night._append(ev.Limited(at=night.rig.now, limits=Limits(**limits)))


@pytest.fixture
def night():
    return until_launch(Night(WORLD, 1), 5)


def test_a_deadline_that_cannot_be_met_stops_at_once(night):
    found = eta(night.state)
    limit(night, until=found.since + 0.8 * found.seconds[0])
    step = next_step(night.state, night.rig.now)
    assert isinstance(step, Stop)
    assert "unlikely" in step.reason
    assert (step.seconds, step.high_seconds) == (found.median, found.high)
    assert sum(step.left.values()) > 0.9
    assert list(step.left.values()) == sorted(step.left.values(), reverse=True)


def test_a_deadline_that_may_be_met_does_not(night):
    found = eta(night.state)
    limit(night, until=found.since + found.median)
    assert isinstance(next_step(night.state, night.rig.now), tuple)


def test_no_launch_is_begun_that_would_end_too_late(night):
    limit(night, until=night.rig.now + 5)
    assert "no other launch" in next_step(night.state, night.rig.now).reason


def test_the_status_says_when_it_will_be_known_and_whether_in_time(night):
    limit(night, until=eta(night.state).since + 7200)
    shown = status(night.state, night.rig.now, found=eta(night.state))
    assert re.search(r"^verdict in about .+ \(90 %: .+\); 2 h 00 min left: [\d.]+ %$", shown, re.MULTILINE)
    assert max(map(len, shown.splitlines())) <= 80


def test_launches_are_counted_over_all(night):
    limit(night, launches=6)
    until_launch(night, 6)
    assert "(6) are used up" in next_step(night.state, night.rig.now).reason


def test_a_stop_uses_the_limits_up_and_so_does_a_deadline_that_passed(night):
    limit(night, launches=1)
    night._append(ev.Stopped(at=night.rig.now, why="budget", reason=""))
    assert isinstance(next_step(night.state, night.rig.now), tuple)
    limit(night, until=night.rig.now + 5)
    night._append(ev.Resumed(at=night.rig.now + 1, version=""))
    assert isinstance(next_step(night.state, night.rig.now), Stop)
    night._append(ev.Resumed(at=night.rig.now + 9, version=""))
    assert isinstance(next_step(night.state, night.rig.now + 9), tuple)


def test_the_confirmation_is_part_of_the_forecast(night):
    while not isinstance(step := next_step(night.state, night.rig.now), Done):
        if step[0].why == "confirm":
            break
        night._launch(step[0])
    launch = WORLD.launch_seconds + WORLD.repetitions * WORLD.repetition_seconds
    assert eta(night.state).median >= 2 * launch
    limit(night, until=night.rig.now + 1.5 * launch)
    assert isinstance(next_step(night.state, night.rig.now), Stop)


def test_nothing_is_foreseen_before_both_ends_are_known():
    assert eta(until_launch(Night(WORLD, 1), 3).state) is None


def test_time_runs_from_the_launch_in_hand(night):
    before = eta(night.state)
    step = next_step(night.state, night.rig.now)[0]
    night._append(
        ev.LaunchPlanned(
            at=night.rig.now + 7, launch=step.launch, sha=step.sha, tree=step.tree, host=step.host, why=step.why
        )
    )
    assert eta(night.state).since == before.since + 7
