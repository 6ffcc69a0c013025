"""One command on one SSH channel. Nothing here has a time limit: closing the transport ends every wait."""

import threading
import time
from collections.abc import Iterable
from typing import Any

import paramiko

from bisectperf.hosts.base import Result

LOSSES = (paramiko.SSHException, EOFError, OSError)
"""What paramiko raises when a connection cannot be made or is gone."""
_PIECE = 256 * 1024
_CHANNEL_SECONDS = 10.0


class SourceFailedError(Exception):
    """The iterable that gives a command's input raised `error`; carried past the handling of losses."""

    def __init__(self, error: Exception) -> None:
        self.error = error


def run(transport: paramiko.Transport, command: str, stdin: bytes | Iterable[bytes]) -> Result:
    """Run one command to its end; raises one of `LOSSES` when the transport goes first."""
    channel = _session(transport)
    err: list[bytes] = []
    failures: list[Exception] = []
    try:
        channel.exec_command(command)
        feeder = threading.Thread(target=_feed, args=(channel, stdin, failures), daemon=True)
        errors = threading.Thread(target=_drain, args=(channel.recv_stderr, err), daemon=True)
        feeder.start()
        errors.start()
        out: list[bytes] = []
        _drain(channel.recv, out)
        errors.join()
        channel.status_event.wait()
    finally:
        channel.close()
    if failures:
        raise SourceFailedError(failures[0])
    if channel.exit_status < 0:
        raise EOFError("the command ended without a status")
    return Result(channel.exit_status, b"".join(out), b"".join(err))


def _session(transport: paramiko.Transport) -> paramiko.Channel:
    """Return a session channel; a server that allows one at a time may still be closing the last one."""
    until = time.monotonic() + _CHANNEL_SECONDS
    while True:
        try:
            return transport.open_session()
        except paramiko.ChannelException:
            if time.monotonic() >= until:
                raise
            time.sleep(0.01)


def _feed(channel: paramiko.Channel, data: bytes | Iterable[bytes], failures: list[Exception]) -> None:
    """Write a command's input, in a thread of its own, so that neither side waits for the other."""
    pieces = iter((data,) if isinstance(data, bytes) else data)
    while True:
        try:
            piece = next(pieces, None)
        except Exception as error:  # noqa: BLE001 -- the caller's generator; its error is raised where it is awaited
            failures.append(error)
            channel.close()
            return
        try:
            if piece is None:
                channel.shutdown_write()
                return
            view = memoryview(piece)
            while view:
                view = view[channel.send(view[:_PIECE]) :]
        except LOSSES:
            return  # a command may end without reading; a lost connection is seen by who awaits its status


def _drain(receive: Any, pieces: list[bytes]) -> None:  # noqa: ANN401 -- a bound method of paramiko's channel
    while piece := receive(_PIECE):
        pieces.append(piece)
