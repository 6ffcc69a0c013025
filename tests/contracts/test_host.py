"""What every host must do."""

import hashlib
from concurrent.futures import ThreadPoolExecutor

import pytest

from bisectperf.errors import HostUnavailable, HostUnfit

HOSTILE = ["a b", "'; touch x; '", "$(touch x)", "`touch x`", "\n", "*", "ä€", "-n", ""]


def test_status_and_both_outputs(host):
    done = host.raw(["sh", "-c", "echo out; echo err >&2; exit 7"])
    assert done == (7, b"out\n", b"err\n")


@pytest.mark.parametrize("word", HOSTILE)
def test_words_arrive_as_they_are(host, word):
    assert host.raw(["printf", "%s", word]).out == word.encode()


def test_input_and_output_are_bytes(host):
    data = bytes(range(256)) * 4096
    assert host.raw(["cat"], stdin=data).out == data
    assert host.raw(["cat"], stdin=iter([data, data])).out == data + data


def test_megabytes_both_ways_do_not_block(host):
    piece = b"x" * (1 << 20)
    done = host.raw(["sh", "-c", "tee /dev/stderr"], stdin=(piece for _ in range(20)), deadline=120)
    assert (len(done.out), len(done.err)) == (20 << 20, 20 << 20)


@pytest.mark.slow
def test_a_hundred_megabytes_come_back_whole(host):
    data = hashlib.shake_128(b"seed").digest(1 << 20) * 100
    done = host.raw(["cat"], stdin=data, deadline=300)
    assert done.out == data


def test_callers_at_once_each_get_their_own_answer(host):
    words = [str(n) for n in range(12)]
    with ThreadPoolExecutor(len(words)) as pool:
        assert [done.out.decode() for done in pool.map(lambda w: host.raw(["printf", "%s", w]), words)] == words


def test_a_command_that_reads_no_input_ends(host):
    assert host.raw(["true"], stdin=b"x" * (1 << 20)).rc == 0


def test_a_missing_program_is_a_status(host):
    assert host.raw(["no-such-program-here"]).rc == 127
    host.put(f"{host.room}/text", b"words", mode=0o600)
    assert host.raw([f"{host.room}/text"]).rc == 126


def test_a_death_by_signal_is_a_status(host):
    assert host.raw(["sh", "-c", "kill -KILL $$"]).rc == 128 + 9


def test_what_the_source_of_the_input_raises_is_raised(host):
    def broken():
        yield b"some"
        raise RuntimeError("the source failed")

    with pytest.raises(RuntimeError, match="the source failed"):
        host.raw(["cat"], stdin=broken())
    assert host.raw(["echo", "again"]).out == b"again\n"


def test_a_deadline_holds_while_input_waits_to_be_read(host):
    with pytest.raises(HostUnavailable, match=r"no answer within 0\.5 s while running sleep"):
        host.raw(["sleep", "60"], stdin=bytes(16 << 20), deadline=0.5)
    assert host.raw(["echo", "again"]).out == b"again\n"


def test_a_deadline_makes_the_outcome_unknown(host):
    with pytest.raises(HostUnavailable):
        host.raw(["sleep", "60"], deadline=0.5)
    assert host.raw(["echo", "again"]).out == b"again\n"


def test_put_is_whole_private_and_replaces(host):
    path = f"{host.room}/file name"
    host.put(path, b"one")
    host.put(path, iter([b"t", b"wo"]), mode=0o750)
    assert host.get(path) == b"two"
    assert host.raw(["stat", "-c", "%a", path]).out == b"750\n"
    assert host.raw(["ls", "-A", host.room]).out == b"file name\n"


def test_a_put_that_fails_keeps_the_old_file(host):
    path = f"{host.room}/kept"
    host.put(path, b"old")

    def broken():
        yield b"new"
        raise RuntimeError("the source failed")

    with pytest.raises(RuntimeError):
        host.put(path, broken())
    assert host.get(path) == b"old"
    assert host.raw(["ls", "-A", host.room]).out == b"kept\n"


def test_a_missing_file_is_said(host):
    with pytest.raises(FileNotFoundError):
        host.get(f"{host.room}/none")


def test_a_file_that_cannot_be_written_is_a_fault_of_the_host(host):
    with pytest.raises(HostUnfit, match="none/file cannot be written"):
        host.put(f"{host.room}/none/file", b"x")


def test_a_file_that_cannot_be_read_is_a_fault_of_the_host(host):
    with pytest.raises(HostUnfit, match="cannot be read"):
        host.get(host.room)
