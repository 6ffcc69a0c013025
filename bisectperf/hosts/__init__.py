"""Machines: one primitive, several ways to reach them."""

from bisectperf.hosts.base import Host, Result
from bisectperf.hosts.container import ContainerHost
from bisectperf.hosts.local import LocalHost
from bisectperf.model import HostName
from bisectperf.recipe.schema import Host as HostTable

__all__ = ["Host", "LocalHost", "Result", "host_name", "open_host"]


def open_host(table: HostTable) -> Host:
    """Return the host that a recipe's `[host]` table names; nothing is connected yet."""
    machine: Host = LocalHost()
    if table.ssh:
        from bisectperf.hosts.ssh import SshHost

        machine = SshHost(table.ssh, table.ssh_config or None)
    return ContainerHost(machine, table.engine, table.container) if table.container else machine


def host_name(table: HostTable) -> HostName:
    """Return the name that stands for this host in the journal."""
    machine = table.ssh or "local"
    return HostName(f"{machine}/{table.container}" if table.container else machine)
