"""What a night does to a connection."""

import contextlib
import os
import signal
import socket
import subprocess
import threading
import time

import paramiko
import pytest

from bisectperf.errors import HostUnavailable
from bisectperf.hosts.ssh import SshHost
from bisectperf.launchers.base import Job
from bisectperf.launchers.detached import Detached
from bisectperf.measure.site import interpreter, lay_tools


@pytest.fixture
def host(sshd):
    made = SshHost(sshd.alias, str(sshd.config))
    yield made
    made.close()


@pytest.fixture
def room(host, sshd):
    made = host.raw(["mktemp", "-d"]).out.decode().strip()
    yield made
    host.raw(["rm", "-rf", made])


@pytest.fixture
def launcher(host, room):
    root = f"{room}/site"
    return Detached(host, root, lay_tools(host, root), interpreter(host))


def once(condition):
    """Return as soon as `condition` holds."""
    until = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < until
        threading.Event().wait(0.01)


def runs(words):
    """Return whether a process has `words` in its command line."""
    return subprocess.run(["pgrep", "-f", words], capture_output=True, check=False).returncode == 0


def cut_once(sshd, words):
    """Cut the connection as soon as a process with these words in its command line is there."""

    def run():
        once(lambda: runs(words))
        sshd.cut()

    thread = threading.Thread(target=run)
    thread.start()
    return thread


# -- jobs and their connection ---------------------------------------------------------------------------------


def test_a_cut_during_a_wait_loses_nothing(sshd, host, room, launcher):
    script = f"echo begun; until [ -e {room}/go ]; do sleep 0.02; done; printf '\\377done\\n'; exit 3"
    launcher.start(Job(id="cut", argv=("sh", "-c", script)))
    cutter = cut_once(sshd, f"wait {launcher.root}/jobs cut")
    with pytest.raises(HostUnavailable, match="connection lost"):
        launcher.wait("cut", 60)
    cutter.join()
    assert launcher.status("cut").state == "running"
    host.put(f"{room}/go", b"")
    end = launcher.wait("cut", 20)
    assert (end.state, end.rc) == ("exited", 3)
    assert launcher.read("cut", "stdout") == b"begun\n\xffdone\n"


def test_a_cut_after_a_start_that_nobody_heard_of_runs_once(sshd, host, room, launcher):
    """The job was started; the answer was lost."""
    host.put(
        f"{room}/slow",
        f'#!/bin/sh\n"{launcher.python}" "$@"; echo $$ > {room}/pid; exec sleep 600.{sshd.port}\n'.encode(),
        mode=0o700,
    )
    hearing, launcher.python = launcher.python, f"{room}/slow"
    job = Job(id="unheard", argv=("sh", "-c", f"echo run >> {room}/runs"))
    cutter = cut_once(sshd, f"^sleep 600.{sshd.port}")
    with pytest.raises(HostUnavailable):
        launcher.start(job)
    cutter.join()
    host.raw(["kill", host.get(f"{room}/pid").decode().strip()])
    launcher.python = hearing
    launcher.start(job)
    assert launcher.wait("unheard", 20).rc == 0
    assert host.get(f"{room}/runs") == b"run\n"


def test_an_upload_that_is_cut_keeps_the_old_file(sshd, host, room):
    path = f"{room}/file"
    host.put(path, b"old")
    cutter = cut_once(sshd, f"sh {path} ")
    with pytest.raises(HostUnavailable):
        host.put(path, bytes(256 << 20))
    cutter.join()
    once(lambda: host.raw(["ls", "-A", room]).out == b"file\n")
    assert host.get(path) == b"old"


# -- a server that does not answer -----------------------------------------------------------------------------


@contextlib.contextmanager
def frozen(pids):
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def test_a_frozen_server_meets_the_deadline(sshd, host):
    host.raw(["true"])
    pids = sshd.serving()
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    with frozen(pids), pytest.raises(HostUnavailable, match="no answer within"):
        host.raw(["true"], deadline=1.0)
    assert host.raw(["echo", "back"]).out == b"back\n"


def test_a_server_that_freezes_while_it_is_sent_to_meets_the_deadline(sshd, host):
    host.raw(["true"])
    pids = sshd.serving()

    def pieces():
        yield b"x" * 1000
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        for _ in range(64):
            yield bytes(1 << 20)

    with frozen(pids), pytest.raises(HostUnavailable, match="no answer within"):
        host.raw(["cat"], stdin=pieces(), deadline=2.0)
    assert host.raw(["echo", "back"]).out == b"back\n"


class Scripted(paramiko.ServerInterface):
    """A server that lets everyone in and never takes a command, or falls over when it is asked to let someone in."""

    def __init__(self, *, falls):
        self.falls, self.transport = falls, None
        self.key = paramiko.RSAKey.generate(2048)
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port = self.listening.getsockname()[1]
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._serve)
        self.thread.start()

    def _serve(self):
        sock, _ = self.listening.accept()
        self.transport = paramiko.Transport(sock)
        self.transport.add_server_key(self.key)
        self.transport.start_server(event=threading.Event(), server=self)
        self.over.wait(60)
        self.transport.close()

    def get_allowed_auths(self, _username):
        return "publickey"

    def check_auth_publickey(self, _username, _key):
        if self.falls:
            self.transport.sock.close()
        return paramiko.AUTH_SUCCESSFUL

    def check_channel_request(self, _kind, _number):
        return paramiko.OPEN_SUCCEEDED

    def check_channel_exec_request(self, _channel, _command):
        self.over.wait(60)
        return False

    def close(self):
        self.over.set()
        self.thread.join()
        self.listening.close()


@pytest.fixture
def scripted(request, sshd, tmp_path):
    server = Scripted(falls=request.param == "falls")
    (tmp_path / "known").write_text(f"[127.0.0.1]:{server.port} ssh-rsa {server.key.get_base64()}\n")
    sshd.write_client(tmp_path / "known", more=f"Host scripted\n  Port {server.port}\n")
    made = SshHost("scripted", str(sshd.config))
    yield made
    made.close()
    server.close()


@pytest.mark.parametrize("scripted", ["silent"], indirect=True)
def test_a_server_that_never_takes_the_command_meets_the_deadline(scripted):
    with pytest.raises(HostUnavailable, match="no answer within"):
        scripted.raw(["true"], deadline=1.0)


@pytest.mark.parametrize("scripted", ["falls"], indirect=True)
def test_a_cut_while_logging_in_is_not_taken_for_a_refusal(scripted):
    """A night that reconnects in a bad moment must go on."""
    with pytest.raises(HostUnavailable):
        scripted.raw(["true"])


def test_no_server_is_unavailable_and_says_so(sshd):
    sshd.stop()
    with pytest.raises(HostUnavailable, match="cannot be reached"):
        SshHost(sshd.alias, str(sshd.config)).raw(["true"])
    sshd.start()
