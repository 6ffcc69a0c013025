"""Machines: one primitive, several ways to reach them."""

from bisectperf.errors import UserError
from bisectperf.hosts.base import Host, Result
from bisectperf.hosts.local import LocalHost
from bisectperf.recipe.schema import Host as HostTable

__all__ = ["Host", "LocalHost", "Result", "open_host"]


def open_host(table: HostTable) -> Host:
    """Return the host that a recipe's `[host]` table names; nothing is connected yet."""
    if table.container:
        raise UserError("containers cannot be reached yet", hint="run the driver inside the container")
    if table.ssh:
        from bisectperf.hosts.ssh import SshHost

        return SshHost(table.ssh, table.ssh_config or None)
    return LocalHost()
