"""Every host and launcher passes the same suite."""

import pytest

from bisectperf.hosts.local import LocalHost
from bisectperf.hosts.ssh import SshHost
from bisectperf.launchers.detached import Detached
from bisectperf.measure.site import lay_tools


@pytest.fixture(params=["local", "ssh"])
def host(request, tmp_path):
    if request.param == "local":
        made = LocalHost()
        made.room = str(tmp_path)
    else:
        server = request.getfixturevalue("sshd")
        made = SshHost(server.alias, str(server.config))
        made.room = made.raw(["mktemp", "-d"]).out.decode().strip()
    yield made
    made.raw(["rm", "-rf", made.room])
    made.close()


@pytest.fixture
def launcher(host):
    root = f"{host.room}/site"
    return Detached(host, root, lay_tools(host, root))
