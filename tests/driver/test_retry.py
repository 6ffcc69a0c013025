"""A failure is retried by its disposition: what is no evidence never becomes any, and nothing goes on for ever."""

import pytest

from bisectperf.errors import HostUnavailable, HostUnfit
from bisectperf.events import Limited, Resumed, Waited
from bisectperf.journal import Journal, read
from bisectperf.model import FirstBad, Inconclusive, Limits


@pytest.fixture
def begun(tmp_path, night_type):
    """Return a maker of nights that were begun in a folder of their own."""

    def begun(**about):
        night = night_type(**about)
        night.begin(tmp_path)
        return night, tmp_path

    return begun


def again(night, folder):
    """Take the run up again, as `run` does."""
    with Journal(folder) as journal:
        journal.append(Resumed(at=night.now + 1e6, version="test"))
    night.now += 1e6
    return night.drive(folder)


def test_the_same_failure_at_both_ends_stops_at_once(begun):
    night, folder = begun(broken=range(25))
    state = night.drive(folder)
    assert state.decided is None
    assert (state.stopped.why, len(night.launcher.runs)) == ("needs-you", 2)
    assert "both ends fail in the same way: " in state.stopped.reason
    assert "the server ended with status 1" in state.stopped.reason


def test_once_its_owner_was_here_each_end_has_its_chance_again(begun):
    night, folder = begun(broken=range(25))
    night.drive(folder)
    assert again(night, folder).stopped.why == "needs-you"
    night.broken = ()
    assert isinstance(again(night, folder).decided, FirstBad)


def test_an_end_that_fails_alone_is_said_to_be_the_one(begun):
    night, folder = begun(broken=(0,))
    state = night.drive(folder)
    assert isinstance(state.decided, Inconclusive)
    assert night.line().positions[0].sha[:12] in state.decided.why


def test_a_host_that_is_away_is_no_evidence(begun):
    night, folder = begun()
    away = iter([True, True, False] * 1000)
    start = night.launcher.start

    def sometimes(job):
        if next(away):
            raise HostUnavailable("gone")
        return start(job)

    night.launcher.start = sometimes
    state = night.drive(folder)
    assert state.decided.sha == night.line().positions[night.step].sha
    assert not [x for x in state.launches.values() if x.void_kind == "host"]
    waits = [event.seconds for event in read(folder / "journal.jsonl") if isinstance(event, Waited)]
    assert waits[:4] == [2.0, 5.0, 2.0, 5.0]


def test_a_host_that_stays_away_is_waited_for_up_to_the_budget(begun):
    night, folder = begun()

    def gone(job):
        raise HostUnavailable("gone")

    night.launcher.start = gone
    with Journal(folder) as journal:
        journal.append(Limited(at=night.now, limits=Limits(until=night.now + 200)))
    state = night.drive(folder, seconds=10)
    assert (state.stopped.why, len(state.launches)) == ("budget", 1)
    assert "the host was away until the time was over" in state.stopped.reason
    assert next(iter(state.launches.values())).status == "built"


def test_a_host_that_stays_unfit_asks_for_its_owner(begun):
    night, folder = begun()

    def unfit(job):
        raise HostUnfit("another user's process holds the GPU")

    night.launcher.start = unfit
    state = night.drive(folder)
    assert (state.stopped.why, len(state.launches)) == ("needs-you", 12)
    assert "holds the GPU" in state.stopped.reason
    assert not state.untestable
