"""Wherever the journal is cut, the night goes on to the same verdict and measures nothing twice."""

import copy

import pytest

from bisectperf.journal import read
from bisectperf.model import FirstBad


@pytest.fixture(scope="module")
def whole(tmp_path_factory, night_type):
    folder = tmp_path_factory.mktemp("whole")
    night = night_type()
    night.begin(folder)
    state = night.drive(folder)
    return night, (folder / "journal.jsonl").read_bytes(), state


def resume(folder, data, night):
    """Go on from a cut journal on a host whose job folders are as the whole run left them."""
    folder.mkdir()
    (folder / "journal.jsonl").write_bytes(data)
    launcher = copy.copy(night.launcher)
    launcher.runs = []
    state = night.drive(folder, launcher)
    return state, launcher.runs


def test_the_whole_night_names_the_commit(whole):
    night, _data, state = whole
    assert isinstance(state.decided, FirstBad)
    assert state.decided.sha == night.line().positions[night.step].sha
    assert len(night.launcher.runs) == len(set(night.launcher.runs))


def test_cut_at_every_event_boundary(whole, tmp_path):
    night, data, state = whole
    ends = [i + 1 for i, byte in enumerate(data) if byte == 10]
    for number, end in enumerate(ends[1:]):
        again, ran = resume(tmp_path / str(number), data[:end], night)
        assert again.decided == state.decided, f"cut after event {number + 1}"
        assert ran == [], f"cut after event {number + 1}: measured again {ran}"


def test_cut_at_every_37th_byte(whole, tmp_path):
    night, data, state = whole
    first = data.index(b"\n", data.index(b"\n") + 1) + 1
    for cut in range(first, len(data), 37):
        again, ran = resume(tmp_path / str(cut), data[:cut], night)
        assert again.decided == state.decided, f"cut at byte {cut}"
        assert ran == [], f"cut at byte {cut}: measured again {ran}"
        launches = [e.launch for e in read(tmp_path / str(cut) / "journal.jsonl") if type(e).__name__ == "Measured"]
        assert len(launches) == len(set(launches))
