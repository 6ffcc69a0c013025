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

from bisectperf.errors import HostUnavailable, UserError
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


# -- who is let in, and whom we talk to ------------------------------------------------------------------------


def refused(sshd, words):
    """Return the hint of the refusal, which leaves neither thread nor connection behind."""
    with pytest.raises(UserError, match=words) as caught:
        SshHost(sshd.alias, str(sshd.config)).raw(["true"])
    once(lambda: not [t for t in threading.enumerate() if isinstance(t, paramiko.Transport)])
    return caught.value.hint


def make_key(path, *, phrase=""):
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", phrase, "-f", path], check=True)
    return (path.parent / f"{path.name}.pub").read_text().split()[:2]


def test_an_unknown_host_is_refused_with_the_command_that_mends_it(sshd, tmp_path):
    sshd.write_client(tmp_path / "empty")
    hint = refused(sshd, "is not known")
    assert f"ssh -F {sshd.config} {sshd.alias} true" in hint
    argv = ["ssh-keygen", "-lf", sshd.folder / "host_key.pub"]
    shown = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    assert shown.split()[1] in hint


def test_a_changed_host_key_ends_it(sshd, tmp_path):
    key = make_key(tmp_path / "other")
    (tmp_path / "known").write_text(f"[127.0.0.1]:{sshd.port} {' '.join(key)}\n")
    sshd.write_client(tmp_path / "known")
    assert f"ssh-keygen -R '[127.0.0.1]:{sshd.port}'" in refused(sshd, "not the one that is known; nothing was sent")


def test_a_revoked_host_key_is_refused(sshd):
    known = sshd.folder / "known_hosts"
    line = known.read_text()
    known.write_text(f"{line}@revoked {line}")
    refused(sshd, "is not known")


def test_known_hosts_may_hold_hashes_markers_and_kinds_we_cannot_read(sshd, tmp_path):
    known = tmp_path / "known"
    known.write_text((sshd.folder / "known_hosts").read_text())
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", known], check=True, capture_output=True)
    assert "127.0.0.1" not in known.read_text()
    odd = f"@cert-authority *.example.org ssh-ed25519 AAAA\n[127.0.0.1]:{sshd.port} sk-unheard-of AAAA\n"
    known.write_text(odd + known.read_text())
    sshd.write_client(known)
    host = SshHost(sshd.alias, str(sshd.config))
    assert host.raw(["echo", "in"]).out == b"in\n"
    host.close()


def test_a_wrong_key_names_user_and_host(sshd, tmp_path):
    make_key(tmp_path / "mine")
    sshd.write_client(sshd.folder / "known_hosts", key=tmp_path / "mine")
    assert "must work without a question" in refused(sshd, f"{sshd.user}@127.0.0.1 was refused")


@pytest.mark.parametrize("phrase", ["a secret", None])
def test_a_key_that_cannot_be_used_is_a_refusal_not_a_wait(sshd, tmp_path, phrase):
    if phrase:
        make_key(tmp_path / "mine", phrase=phrase)
    sshd.write_client(sshd.folder / "known_hosts", key=tmp_path / "mine")
    refused(sshd, f"{sshd.user}@127.0.0.1 was refused")


def test_the_agent_that_the_configuration_names_is_asked(sshd, tmp_path, monkeypatch):
    monkeypatch.setenv("SSH_AUTH_SOCK", "/nonexistent")
    path = sshd.folder / "agent"
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", path], stdout=subprocess.DEVNULL)
    try:
        once(path.exists)
        env = {**os.environ, "SSH_AUTH_SOCK": str(path)}
        subprocess.run(["ssh-add", "-q", sshd.folder / "user_key"], env=env, check=True, capture_output=True)
        sshd.write_client(sshd.folder / "known_hosts", key=tmp_path / "none", agent=path)
        host = SshHost(sshd.alias, str(sshd.config))
        assert host.raw(["echo", "in"]).out == b"in\n"
        host.close()
    finally:
        agent.terminate()
        agent.wait()
    assert os.environ["SSH_AUTH_SOCK"] == "/nonexistent"


@pytest.mark.parametrize("way", ["ProxyJump hop", "ProxyCommand ssh -F {config} -W %h:%p hop 2>/dev/null"])
def test_a_host_behind_another_one_is_reached_and_lost_alike(sshd, way):
    way = way.format(config=sshd.config)
    sshd.write_client(sshd.folder / "known_hosts", more=f"Host inner\n  {way}\n")
    host = SshHost("inner", str(sshd.config))
    assert host.raw(["cat"], stdin=b"through").out == b"through"
    sshd.cut()
    with pytest.raises(HostUnavailable):
        host.raw(["true"])
    assert host.raw(["echo", "back"]).out == b"back\n"
    host.close()


def test_a_name_that_ssh_refuses_is_the_users(sshd):
    sshd.write_client(sshd.folder / "known_hosts", more="NoSuchOption yes")
    refused(sshd, f"ssh does not understand '{sshd.alias}'")
