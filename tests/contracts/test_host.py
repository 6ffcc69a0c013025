"""What every host must do."""

import pytest

from bisectperf.errors import HostUnavailable

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


def test_a_command_that_reads_no_input_ends(host):
    assert host.raw(["true"], stdin=b"x" * (1 << 20)).rc == 0


def test_a_missing_program_is_a_status(host):
    assert host.raw(["no-such-program-here"]).rc == 127


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
