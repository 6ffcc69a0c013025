"""A machine over SSH, as the user's own configuration reaches it. The only file that touches fabric.

Fabric opens the connection; commands run through a loop of our own on a plain session channel, because its runner
re-reads captured output and copies input byte by byte. Every loss, and every deadline, closes the transport: the
outcome is unknown, and the next call connects anew.
"""

import hashlib
import logging
import shlex
import socket
import subprocess
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import fabric
import paramiko

from bisectperf.errors import HostUnavailable, UserError
from bisectperf.hosts.base import Result
from bisectperf.model import HostName

# Its complaints become errors of ours; a refused channel that is asked for again is none.
logging.getLogger("paramiko").setLevel(logging.CRITICAL)

_PIECE = 256 * 1024
_CONNECT_SECONDS = 15.0
_KEEPALIVE_SECONDS = 5
_DEAD_MILLISECONDS = 15_000
_LOSSES = (paramiko.SSHException, EOFError, OSError)


class SshHost:
    """One host; one connection, kept; one command at a time."""

    def __init__(self, alias: str, config_file: str | None = None) -> None:
        """Take the name as `ssh` knows it; nothing is connected yet."""
        self.name = HostName(alias)
        self.config_file = config_file
        self._connection: Any = None
        self._lock = threading.Lock()

    # -- the interface -----------------------------------------------------------------------------------------

    def raw(self, argv: Sequence[str], *, stdin: bytes | Iterable[bytes] = b"", deadline: float = 60.0) -> Result:
        """Run `argv`; raises `HostUnavailable` when the connection is lost or the deadline passes."""
        with self._lock:
            until = time.monotonic() + deadline
            transport = self._transport()
            try:
                return self._exec(transport, shlex.join(argv), stdin, until)
            except _LOSSES as error:
                self._drop()
                late = time.monotonic() >= until
                said = f"no answer within {deadline:g} s" if late else f"the connection was lost ({_words(error)})"
                raise HostUnavailable(
                    f"{self.name}: {said} while running {argv[0]}", hint="what ran there may go on; it is asked again"
                ) from None

    def put(self, path: str, data: bytes | Iterable[bytes], *, mode: int = 0o600) -> None:
        """Write a file whole or not at all, checked by its digest and durable."""
        content = data if isinstance(data, bytes) else b"".join(data)
        digest = hashlib.sha256(content).hexdigest()
        script = (
            'set -e; umask 077; t="$1.part.$$"; trap \'rm -f "$t"\' EXIT; cat > "$t"; '
            'set -- "$1" "$2" "$3" "$(sha256sum "$t")"; [ "${4%% *}" = "$2" ] || { echo "truncated" >&2; exit 9; }; '
            'chmod "$3" "$t"; sync "$t" 2>/dev/null || sync; mv -f "$t" "$1"'
        )
        done = self.raw(["sh", "-c", script, "sh", path, digest, f"{mode:o}"], stdin=content, deadline=600.0)
        if done.rc != 0:
            words = done.err.decode(errors="replace").strip()
            if done.rc == 9:
                raise HostUnavailable(f"{self.name}: the upload of {path} was cut off")
            raise OSError(f"{self.name}: {path} cannot be written: {words}")

    def get(self, path: str) -> bytes:
        """Return a file's bytes."""
        done = self.raw(["sh", "-c", '[ -f "$1" ] || exit 44; cat "$1"', "sh", path], deadline=600.0)
        if done.rc == 44:
            raise FileNotFoundError(path)
        if done.rc != 0:
            raise OSError(f"{self.name}: {path} cannot be read: {done.err.decode(errors='replace').strip()}")
        return done.out

    def close(self) -> None:
        """Let the connection go."""
        with self._lock:
            self._drop()

    # -- one command -------------------------------------------------------------------------------------------

    def _exec(
        self, transport: paramiko.Transport, command: str, stdin: bytes | Iterable[bytes], until: float
    ) -> Result:
        channel = _session(transport, until)
        try:
            channel.exec_command(command)
            feeder = _Feeder(channel, stdin, until)
            out, err = self._collect(channel, feeder, until)
            rc = channel.recv_exit_status() if channel.exit_status_ready() else -1
        finally:
            channel.close()
        if rc == -1:
            raise EOFError("the command ended without a status")
        feeder.join()
        return Result(rc, out, err)

    def _collect(self, channel: paramiko.Channel, feeder: "_Feeder", until: float) -> tuple[bytes, bytes]:
        """Read both outputs to their end; waits on the channel's own event, never in a busy loop."""
        pieces: tuple[list[bytes], list[bytes]] = ([], [])
        errors = threading.Thread(target=_drain, args=(channel.recv_stderr, pieces[1]), daemon=True)
        channel.settimeout(max(until - time.monotonic(), 0.1))
        errors.start()
        while True:
            left = until - time.monotonic()
            if left <= 0:
                raise TimeoutError
            channel.settimeout(left)
            piece = channel.recv(_PIECE)
            if not piece:
                break
            pieces[0].append(piece)
        errors.join(max(until - time.monotonic(), 0.1))
        if feeder.failure is not None and not channel.exit_status_ready():
            raise feeder.failure
        if not channel.status_event.wait(max(until - time.monotonic(), 0.1)):
            raise TimeoutError
        return b"".join(pieces[0]), b"".join(pieces[1])

    # -- the connection ----------------------------------------------------------------------------------------

    def _transport(self) -> paramiko.Transport:
        if self._connection is not None:
            transport = self._connection.transport
            if transport is not None and transport.is_active():
                return transport
            self._drop()
        self._connection = self._connect()
        transport = self._connection.transport
        transport.set_keepalive(_KEEPALIVE_SECONDS)
        sock = transport.sock
        if isinstance(sock, socket.socket):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if hasattr(socket, "TCP_USER_TIMEOUT"):
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _DEAD_MILLISECONDS)
        return transport

    def _connect(self) -> Any:  # noqa: ANN401 -- fabric has no types
        settings = self._settings()
        user, host, port = settings["user"][0], settings["hostname"][0], int(settings["port"][0])
        config = fabric.Config(overrides={"load_ssh_configs": False})
        connection = fabric.Connection(
            host,
            user=user,
            port=port,
            config=config,
            forward_agent=False,
            connect_timeout=_CONNECT_SECONDS,
            gateway=_gateway(settings, host, port, user),
            connect_kwargs={
                "key_filename": [f for f in map(_expand, settings.get("identityfile", [])) if Path(f).is_file()],
                "allow_agent": settings.get("identityagent", [""])[0] != "none",
                "look_for_keys": False,
                "banner_timeout": _CONNECT_SECONDS,
                "auth_timeout": _CONNECT_SECONDS,
                "channel_timeout": 10,
            },
        )
        client = connection.client
        client.set_missing_host_key_policy(paramiko.RejectPolicy())
        for file in [*settings.get("userknownhostsfile", [""])[0].split(), "/etc/ssh/ssh_known_hosts"]:
            if Path(_expand(file)).is_file():
                client.load_host_keys(_expand(file))
        try:
            connection.open()
        except paramiko.BadHostKeyException:
            mend = f"ssh-keygen -R {_known_as(host, port)}, then ssh {self.name} and compare the fingerprint"
            raise UserError(
                f"{self.name}: the host key of {host} is not the one that is known; nothing was sent to it",
                hint=f"if the host was made anew: {mend}",
            ) from None
        except paramiko.AuthenticationException as error:
            raise UserError(
                f"{self.name}: {user}@{host} was refused: {_words(error)}",
                hint=f"`ssh {self.name} true` must work without a question: check user, key and agent",
            ) from None
        except paramiko.SSHException as error:
            if "not found in known_hosts" in str(error):
                raise UserError(
                    f"{self.name}: the host key of {host} is not known",
                    hint=f"log in once and compare the fingerprint: ssh {self.name}",
                ) from None
            raise HostUnavailable(f"{self.name}: no SSH connection to {host}:{port} ({_words(error)})") from None
        except (OSError, EOFError) as error:
            raise HostUnavailable(f"{self.name}: {host}:{port} cannot be reached ({_words(error)})") from None
        return connection

    def _settings(self) -> dict[str, list[str]]:
        """Return what `ssh` itself makes of the name: aliases, includes and matches are its business."""
        options = ["-F", self.config_file] if self.config_file else []
        done = subprocess.run(["ssh", *options, "-G", "--", self.name], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            said = done.stderr.strip().splitlines()
            raise UserError(
                f"ssh does not understand '{self.name}': {said[-1] if said else 'no reason'}",
                hint="check ~/.ssh/config",
            )
        found: dict[str, list[str]] = {}
        for line in done.stdout.splitlines():
            key, _, value = line.partition(" ")
            found.setdefault(key.lower(), []).append(value)
        return found

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            transport = connection.transport
            if transport is not None:
                transport.close()


def _session(transport: paramiko.Transport, until: float) -> paramiko.Channel:
    """Return a session channel; a server that allows one at a time may still be closing the last one."""
    while True:
        try:
            return transport.open_session(timeout=max(min(until - time.monotonic(), _CONNECT_SECONDS), 0.1))
        except paramiko.ChannelException:
            if time.monotonic() >= until:
                raise
            time.sleep(0.01)


class _Feeder:
    """Writes a command's input from a thread, so that neither side waits for the other."""

    def __init__(self, channel: paramiko.Channel, data: bytes | Iterable[bytes], until: float) -> None:
        self.failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, args=(channel, data, until), daemon=True)
        self._thread.start()

    def _run(self, channel: paramiko.Channel, data: bytes | Iterable[bytes], until: float) -> None:
        try:
            for piece in _pieces(data):
                view = memoryview(piece)
                while view:
                    channel.settimeout(max(until - time.monotonic(), 0.1))
                    view = view[channel.send(view[:_PIECE]) :]
            channel.shutdown_write()
        except _LOSSES as error:
            self.failure = error if isinstance(error, Exception) else None

    def join(self) -> None:
        """Wait for the thread; its channel is closed by now."""
        self._thread.join(5)


def _pieces(data: bytes | Iterable[bytes]) -> Iterator[bytes]:
    if isinstance(data, bytes):
        if data:
            yield data
    else:
        yield from data


def _drain(receive: Any, pieces: list[bytes]) -> None:  # noqa: ANN401 -- a bound method of paramiko's channel
    try:
        while piece := receive(_PIECE):
            pieces.append(piece)
    except _LOSSES:
        return


def _gateway(settings: dict[str, list[str]], host: str, port: int, user: str) -> str | fabric.Connection | None:
    """Return the way through a jump host, as the proxy command that `ssh` itself would use."""
    command = settings.get("proxycommand", ["none"])[0]
    if command != "none":
        return command.replace("%h", host).replace("%p", str(port)).replace("%r", user)
    jump = settings.get("proxyjump", ["none"])[0]
    if jump in ("none", ""):
        return None
    first, _, rest = jump.rpartition(",")
    through = ["-J", first] if first else []
    return shlex.join(["ssh", *through, "-W", f"[{host}]:{port}" if ":" in host else f"{host}:{port}", rest])


def _expand(path: str) -> str:
    return str(Path(path).expanduser())


def _known_as(host: str, port: int) -> str:
    return host if port == 22 else f"'[{host}]:{port}'"


def _words(error: BaseException) -> str:
    return str(error).strip() or type(error).__name__
