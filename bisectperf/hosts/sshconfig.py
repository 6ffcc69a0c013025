"""What `ssh` makes of a host's name.

OpenSSH's own programs are asked, because includes, matches, hashed names, patterns and markers are their business.
"""

import re
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from bisectperf.errors import UserError


class Settings(NamedTuple):
    """How to reach one host: `known_as` is its name in `known_hosts`, `proxy` the command to connect through or ''.

    `agent` is the agent's socket, 'none', or '' for the one that the environment names.
    """

    host: str
    port: int
    user: str
    keys: tuple[str, ...]
    agent: str
    known_as: str
    known_hosts: tuple[str, ...]
    proxy: str


class KnownKey(NamedTuple):
    """A line of `known_hosts`: the key's type and its base64 text."""

    kind: str
    text: str


def ssh_command(alias: str, config_file: str | None) -> list[str]:
    """Return how the user would call `ssh` for this host."""
    return ["ssh", *(["-F", str(Path(config_file).expanduser())] if config_file else []), alias]


def read_settings(alias: str, config_file: str | None) -> Settings:
    """Return the settings in force for `alias`; raises `UserError` when `ssh` refuses them."""
    *call, name = ssh_command(alias, config_file)
    done = _openssh([*call, "-G", "--", name])
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()
        raise UserError(
            f"ssh does not understand '{alias}': {said[-1] if said else 'no reason given'}",
            hint=f"check {config_file or '~/.ssh/config'}",
        )
    found: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        key, _, value = line.partition(" ")
        found.setdefault(key.lower(), []).append(value)

    def first(key: str, otherwise: str = "") -> str:
        return found.get(key, [otherwise])[0]

    host, port, user = first("hostname"), int(first("port", "22")), first("user")
    files = [*shlex.split(first("userknownhostsfile")), *shlex.split(first("globalknownhostsfile"))]
    agent = first("identityagent")
    return Settings(
        host=host,
        port=port,
        user=user,
        keys=_files(found.get("identityfile", [])),
        agent="" if agent == "SSH_AUTH_SOCK" else str(Path(agent).expanduser()) if agent else "",
        known_as=first("hostkeyalias") or (host if port == 22 else f"[{host}]:{port}"),
        known_hosts=_files(files),
        proxy=_proxy(
            call, first("proxycommand"), first("proxyjump"), {"h": host, "p": str(port), "r": user, "n": alias}
        ),
    )


def known_keys(settings: Settings) -> list[KnownKey]:
    """Return the host keys that the user has accepted for this host; a revoked one is none."""
    good: list[KnownKey] = []
    revoked: set[KnownKey] = set()
    for file in settings.known_hosts:
        for line in _openssh(["ssh-keygen", "-F", settings.known_as, "-f", file]).stdout.splitlines():
            words = line.split()
            if line.startswith("#") or len(words) < 3:
                continue
            if not line.startswith("@"):
                good.append(KnownKey(words[1], words[2]))
            elif words[0] == "@revoked" and len(words) > 3:
                revoked.add(KnownKey(words[2], words[3]))
    return [key for key in good if key not in revoked]


def _proxy(call: Sequence[str], command: str, jump: str, tokens: dict[str, str]) -> str:
    """Return the shell command that connects to the host, as `ssh` would run it, or '' for a plain connection."""
    if command not in ("", "none"):
        return re.sub("%([%hprn])", lambda seen: (tokens | {"%": "%"})[seen[1]], command)
    if jump in ("", "none"):
        return ""
    before, _, last = jump.rpartition(",")
    target = f"[{tokens['h']}]:{tokens['p']}" if ":" in tokens["h"] else f"{tokens['h']}:{tokens['p']}"
    alive = ["-o", "BatchMode=yes", "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3"]
    return shlex.join([*call, *alive, *(["-J", before] if before else []), "-W", target, f"ssh://{last}"])


def _files(names: Sequence[str]) -> tuple[str, ...]:
    """Return those of `names` that are files here."""
    full = [Path(name).expanduser() for name in names]
    return tuple(str(path) for path in full if path.is_file())


def _openssh(argv: list[str]) -> "subprocess.CompletedProcess[str]":
    try:
        return subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise UserError(
            f"there is no {argv[0]} on this machine, and its configuration names the host",
            hint="install the OpenSSH client",
        ) from None
