"""History and patches that exist only on the host: both are taken over a real SSH connection."""

import pytest

from bisectperf.hosts.ssh import SshHost
from bisectperf.patches import Stack, capture
from bisectperf.repo import Ancestry, mirror

pytestmark = pytest.mark.ssh

PREPARE = """
set -e
cd -- "$1"
cat > bundle
git clone -q -b main bundle checkout
cd checkout
echo stashed >> a.txt
git -c user.name=x -c user.email=x@example.org stash -q
echo dirty >> a.txt
echo new > new.txt
"""
STATE = 'cd -- "$1/checkout" && find . -type f -exec sha256sum {} + | sort && stat -c %y .git/index'


@pytest.fixture
def far(sshd, history, tmp_path):
    """Give a host, and a folder there with a checkout that has a stash entry and uncommitted changes."""
    history.commit("one", {"a.txt": "1\n"})
    history.commit("two", {"b.txt": "2\n"})
    history.git("bundle", "create", "-q", str(tmp_path / "bundle"), "--all")
    host = SshHost(sshd.alias, str(sshd.config))
    room = host.raw(["mktemp", "-d"]).out.decode().strip()
    done = host.raw(["sh", "-c", PREPARE, "sh", room], stdin=(tmp_path / "bundle").read_bytes())
    assert done.rc == 0, done.err
    yield host, room
    host.raw(["rm", "-rf", room])
    host.close()


def test_the_uncommitted_changes_there_are_a_patch_on_the_history_there(far, history, tmp_path, patch):
    host, room = far
    before = host.raw(["sh", "-c", STATE, "sh", room])
    store = mirror(host, f"{room}/checkout", tmp_path / "store")
    captured = capture(host, f"{room}/checkout")
    stashed = capture(host, f"{room}/checkout", "0")
    assert host.raw(["sh", "-c", STATE, "sh", room]) == before

    assert captured.base == stashed.base == store.resolve("main") == history.git("rev-parse", "main")
    assert captured.files == ("a.txt", "new.txt")
    for name, taken in (("dirty", captured), ("stashed", stashed)):
        (tmp_path / "p.diff").write_bytes(taken.diff)
        stack = Stack(store, tmp_path, [patch()], good=taken.base, line=[], reached=Ancestry(store))
        composed = stack.compose(taken.base)
        assert store.blob(composed.tree, "a.txt") == f"1\n{name}\n".encode()
