"""Who is let in over SSH, whom we talk to, and by which way: what `ssh` itself would do, or a refusal that helps."""

import os
import subprocess
import threading

import paramiko
import pytest

from bisectperf.errors import HostUnavailable, UserError
from bisectperf.hosts.ssh import SshHost


def refused(sshd, words):
    """Return the hint of the refusal, which leaves neither thread nor connection behind."""
    with pytest.raises(UserError, match=words) as caught:
        SshHost(sshd.alias, str(sshd.config)).raw(["true"])
    for thread in threading.enumerate():
        if isinstance(thread, paramiko.Transport):
            thread.join(30)
            assert not thread.is_alive()
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
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", path], stdout=subprocess.PIPE)
    try:
        assert agent.stdout.readline()  # it listens
        env = {**os.environ, "SSH_AUTH_SOCK": str(path)}
        subprocess.run(["ssh-add", "-q", sshd.folder / "user_key"], env=env, check=True, capture_output=True)
        sshd.write_client(sshd.folder / "known_hosts", key=tmp_path / "none", agent=path)
        host = SshHost(sshd.alias, str(sshd.config))
        assert host.raw(["echo", "in"]).out == b"in\n"
        host.close()
    finally:
        agent.terminate()
        agent.communicate()
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
