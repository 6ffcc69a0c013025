"""The journal loses nothing that was acknowledged, whatever byte it was cut at."""

import os
import subprocess
import sys

import pytest

from bisectperf import events as ev
from bisectperf.errors import Locked, NoBisection, UserError
from bisectperf.journal import Journal, JournalDamaged, encode, holder, parse, read

EVENTS = [ev.Noted(at=float(i), kind="warning", text="ä\n\x1b[31m" * i) for i in range(5)]


def test_what_was_appended_is_read_back(tmp_path):
    with Journal(tmp_path) as journal:
        for event in EVENTS:
            journal.append(event)
    assert read(tmp_path / "journal.jsonl") == EVENTS


def test_cut_at_any_byte_keeps_every_whole_line(tmp_path):
    data = b"".join(encode(i, e) for i, e in enumerate(EVENTS))
    for cut in range(len(data) + 1):
        folder = tmp_path / str(cut)
        folder.mkdir()
        (folder / "journal.jsonl").write_bytes(data[:cut])
        whole = data[:cut].count(b"\n")
        with Journal(folder) as journal:
            assert journal.events == EVENTS[:whole]
            journal.append(EVENTS[0])
        assert read(folder / "journal.jsonl") == [*EVENTS[:whole], EVENTS[0]]


def test_a_flipped_byte_before_the_end_is_refused():
    data = bytearray(b"".join(encode(i, e) for i, e in enumerate(EVENTS)))
    data[40] ^= 1
    with pytest.raises(JournalDamaged, match="line 1 is damaged"):
        parse(bytes(data))


def test_a_line_out_of_sequence_is_refused():
    lines = [encode(i, e) for i, e in enumerate(EVENTS)]
    with pytest.raises(JournalDamaged, match="line 2"):
        parse(b"".join([lines[0], *lines[2:]]))


def test_no_journal_says_how_to_begin(tmp_path):
    with pytest.raises(NoBisection) as caught:
        read(tmp_path / "journal.jsonl")
    assert "start GOOD BAD" in caught.value.hint


def test_a_second_process_is_told_whose_turn_it_is(tmp_path):
    with Journal(tmp_path):
        found = holder(tmp_path / "lock")
        assert (found.process.pid, found.run) == (os.getpid(), tmp_path.name)
        code = f"from pathlib import Path; from bisectperf.journal import Journal; Journal(Path({str(tmp_path)!r}))"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert f"process {os.getpid()} of " in done.stderr
        with pytest.raises(Locked):
            Journal(tmp_path)
    assert holder(tmp_path / "lock") is None


def test_a_full_disk_leaves_the_journal_as_it_was(tmp_path, monkeypatch):
    with Journal(tmp_path) as journal:
        journal.append(EVENTS[0])

        def full(_fd):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(UserError, match="No space left"):
            journal.append(EVENTS[1])
        monkeypatch.undo()
        journal.append(EVENTS[2])
    assert read(tmp_path / "journal.jsonl") == [EVENTS[0], EVENTS[2]]
