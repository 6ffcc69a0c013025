"""What a night does to a connection."""

import os
import signal
import subprocess

import pytest

from bisectperf.errors import HostUnavailable, UserError
from bisectperf.hosts.ssh import SshHost
from bisectperf.launchers.base import Job
from bisectperf.launchers.detached import Detached
from bisectperf.measure.site import lay_tools


@pytest.fixture
def host(sshd):
    made = SshHost(sshd.alias, str(sshd.config))
    yield made
    made.close()


@pytest.fixture
def launcher(host):
    root = host.raw(["mktemp", "-d"]).out.decode().strip() + "/site"
    return Detached(host, root, lay_tools(host, root))


def test_a_cut_during_a_wait_loses_nothing(sshd, host, launcher):
    launcher.start(Job(id="cut", argv=("sh", "-c", "echo begun; sleep 2; echo done; exit 3")))
    timer = subprocess.Popen(["sleep", "0.5"])
    timer.wait()
    sshd.cut()
    with pytest.raises(HostUnavailable):
        launcher.wait("cut", 10)
    end = launcher.wait("cut", 20)
    assert (end.state, end.rc) == ("exited", 3)
    assert launcher.read("cut", "stdout") == b"begun\ndone\n"


def test_a_frozen_server_meets_the_deadline(sshd, host):
    host.raw(["true"])
    frozen = sshd.serving()
    for pid in frozen:
        os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(HostUnavailable, match="no answer within"):
            host.raw(["true"], deadline=1.0)
    finally:
        for pid in frozen:
            os.kill(pid, signal.SIGCONT)
    assert host.raw(["echo", "back"]).out == b"back\n"


def test_no_server_is_unavailable_and_says_so(sshd):
    sshd.stop()
    with pytest.raises(HostUnavailable, match="cannot be reached"):
        SshHost(sshd.alias, str(sshd.config)).raw(["true"])
    sshd.start()


def test_an_unknown_host_is_refused_with_the_command_that_mends_it(sshd, tmp_path):
    sshd.write_client(tmp_path / "empty")
    with pytest.raises(UserError, match="is not known") as caught:
        SshHost(sshd.alias, str(sshd.config)).raw(["true"])
    assert f"ssh -F {sshd.config} {sshd.alias} true" in caught.value.hint
    shown = subprocess.run(
        ["ssh-keygen", "-lf", sshd.folder / "host_key.pub"], capture_output=True, text=True, check=True
    )
    assert shown.stdout.split()[1] in caught.value.hint


def test_a_changed_host_key_ends_it(sshd, tmp_path):
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "other"], check=True)
    key = (tmp_path / "other.pub").read_text().split()[:2]
    (tmp_path / "known").write_text(f"[127.0.0.1]:{sshd.port} {' '.join(key)}\n")
    sshd.write_client(tmp_path / "known")
    with pytest.raises(UserError, match="not the one that is known") as caught:
        SshHost(sshd.alias, str(sshd.config)).raw(["true"])
    assert "ssh-keygen -R" in caught.value.hint


def test_a_wrong_key_names_user_and_host(sshd, tmp_path):
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "mine"], check=True)
    sshd.write_client(sshd.folder / "known_hosts", key=tmp_path / "mine")
    with pytest.raises(UserError, match=f"{sshd.user}@127.0.0.1 was refused"):
        SshHost(sshd.alias, str(sshd.config)).raw(["true"])
