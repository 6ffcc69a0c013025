"""A machine over SSH, as the user's own configuration reaches it. The only file that touches fabric.

Fabric opens the connection; commands run through a loop of our own on a plain session channel, because its runner
re-reads captured output and copies input byte by byte. Every loss, and every deadline, closes the transport: the
outcome is unknown, and the next call connects anew. Closing it is all that wakes a call that a frozen server holds,
so nothing here has another time limit of its own.
"""

import base64
import contextlib
import logging
import os
import shlex
import socket
import subprocess
import threading
from collections.abc import Iterable, Iterator, Sequence

import fabric
import paramiko

from bisectperf.errors import BisectperfError, HostUnavailable, UserError
from bisectperf.hosts import shellfiles
from bisectperf.hosts.base import Result
from bisectperf.hosts.channel import LOSSES, SourceFailedError, run
from bisectperf.hosts.sshconfig import known_keys, read_settings, ssh_command
from bisectperf.model import HostName

# What it complains of becomes an error of ours; a refused channel that is asked for again is none.
logging.getLogger("paramiko").setLevel(logging.CRITICAL)

_CONNECT_SECONDS = 15.0
_CHANNEL_SECONDS = 10.0
_KEEPALIVE_SECONDS = 5
_DEAD_MILLISECONDS = 15_000


class SshHost:
    """One host; one connection, kept; one command at a time."""

    def __init__(self, alias: str, config_file: str | None = None) -> None:
        """Take the name as `ssh` knows it; nothing is connected yet."""
        self.name = HostName(alias)
        self.config_file = config_file
        self._connection: _Connection | None = None
        self._lock = threading.Lock()

    def raw(self, argv: Sequence[str], *, stdin: bytes | Iterable[bytes] = b"", deadline: float = 60.0) -> Result:
        """Run `argv`; raises `HostUnavailable` when the connection is lost or the deadline passes.

        The deadline is the command's; connecting, where that is needed, has limits of its own.
        """
        # A shell that stays reports a death by signal as a status (128 + n); SSH itself would report none.
        command = shlex.join(["exec", "sh", "-c", shlex.join(argv) + "; exit $?"])
        with self._lock:
            transport = self._transport()
            late = threading.Event()
            guard = threading.Timer(deadline, _expire, (transport, late))
            guard.daemon = True
            guard.start()
            try:
                return run(transport, command, stdin)
            except SourceFailedError as failed:
                raise failed.error from None
            except LOSSES as error:
                self._drop()
                said = f"no answer within {deadline:g} s" if late.is_set() else f"connection lost ({_words(error)})"
                raise HostUnavailable(
                    f"{self.name}: {said} while running {argv[0]}", hint="what ran there may go on; it is asked again"
                ) from None
            finally:
                guard.cancel()

    def put(self, path: str, data: bytes | Iterable[bytes], *, mode: int = 0o600) -> None:
        """Write a file whole or not at all, checked by its digest and durable."""
        shellfiles.put(self, path, data, mode)

    def get(self, path: str) -> bytes:
        """Return a file's bytes; raises `FileNotFoundError` when there is none."""
        return shellfiles.get(self, path)

    def close(self) -> None:
        """Let the connection go."""
        with self._lock:
            self._drop()

    def _transport(self) -> paramiko.Transport:
        """Return the transport of the connection, which is opened where there is none that lives."""
        if self._connection is None or not self._connection.lives():
            self._drop()
            self._connection = _Connection(self.name, self.config_file)
        return self._connection.transport

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _expire(transport: paramiko.Transport, late: threading.Event) -> None:
    late.set()
    transport.close()


# -- the connection --------------------------------------------------------------------------------------------


class _Refuse:
    """Accept no host key that the user has not accepted, and remember which one was shown."""

    fingerprint = ""

    def missing_host_key(self, _client: object, hostname: str, key: paramiko.PKey) -> None:
        """Refuse, as paramiko asks."""
        self.fingerprint = f"{key.fingerprint} ({key.get_name()})"
        raise paramiko.SSHException(f"the host key of {hostname} is not known")


class _Connection:
    """An open, authenticated connection; opening raises by disposition."""

    def __init__(self, alias: str, config_file: str | None) -> None:
        self.alias = alias
        self.by_hand = shlex.join(ssh_command(alias, config_file))
        self.settings = read_settings(alias, config_file)
        self.policy = _Refuse()
        self.proxy: subprocess.Popen[bytes] | None = None
        self.fabric = fabric.Connection(
            self.settings.host,
            user=self.settings.user,
            port=self.settings.port,
            config=fabric.Config(overrides={"load_ssh_configs": False}),
            forward_agent=False,
            connect_timeout=_CONNECT_SECONDS,
            connect_kwargs={
                "key_filename": list(self.settings.keys),
                "allow_agent": self.settings.agent != "none",
                "look_for_keys": False,
                "banner_timeout": _CONNECT_SECONDS,
                "auth_timeout": _CONNECT_SECONDS,
                "channel_timeout": _CHANNEL_SECONDS,
            },
        )
        try:
            self._open()
        except LOSSES as error:
            refusal = self._refusal(error)
            self.close()
            raise refusal from None
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        client = self.fabric.client
        client.set_missing_host_key_policy(self.policy)
        name = self.settings.host if self.settings.port == 22 else f"[{self.settings.host}]:{self.settings.port}"
        for key in known_keys(self.settings):
            # A type that paramiko does not know cannot be negotiated by it either.
            with contextlib.suppress(paramiko.pkey.UnknownKeyType):
                parsed = paramiko.PKey.from_type_string(key.kind, base64.b64decode(key.text))
                client.get_host_keys().add(name, key.kind, parsed)
        if self.settings.proxy:
            self.fabric.connect_kwargs["sock"] = self._through_proxy()
        with _agent(self.settings.agent):
            self.fabric.open()
        self.transport: paramiko.Transport = self.fabric.transport
        self.transport.set_keepalive(_KEEPALIVE_SECONDS)
        sock = self.transport.sock
        if sock.family in (socket.AF_INET, socket.AF_INET6):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if hasattr(socket, "TCP_USER_TIMEOUT"):
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _DEAD_MILLISECONDS)

    def _through_proxy(self) -> socket.socket:
        """Return a socket whose other end is the proxy command's input and output."""
        ours, its = socket.socketpair()
        with its:
            self.proxy = subprocess.Popen(
                ["sh", "-c", f"exec {self.settings.proxy}"],
                stdin=its.fileno(),
                stdout=its.fileno(),
                stderr=subprocess.DEVNULL,
            )
        return ours

    def lives(self) -> bool:
        """Return whether the transport is up, as far as this side knows."""
        return bool(self.transport.is_active())

    def close(self) -> None:
        """Close the transport, whatever waits for it, and end the proxy."""
        self.fabric.client.close()
        if self.proxy is not None:
            self.proxy.terminate()
            self.proxy.wait()

    def _refusal(self, error: Exception) -> BisectperfError:
        """Return what a failure to connect means: only what the user must mend is a `UserError`."""
        host, user = self.settings.host, self.settings.user
        if isinstance(error, paramiko.BadHostKeyException):
            return UserError(
                f"{self.alias}: the host key of {host} is not the one that is known; nothing was sent to it",
                hint=f"if the host was made anew: ssh-keygen -R '{self.settings.known_as}', then {self.by_hand} true",
                detail=f"it showed {error.key.fingerprint} ({error.key.get_name()})",
            )
        if self.policy.fingerprint:
            return UserError(
                f"{self.alias}: the host key of {host} is not known",
                hint=f"it showed {self.policy.fingerprint}; if that is right, accept it once: {self.by_hand} true",
            )
        transport = self.fabric.client.get_transport()
        # A connection that stands after the refusal was refused; one that fell says nothing about the key.
        stands = transport is not None and transport.is_active() and transport.initial_kex_done
        if stands and isinstance(error, paramiko.SSHException) and "timeout" not in str(error).lower():
            return UserError(
                f"{self.alias}: {user}@{host} was refused: {_words(error)}",
                hint=f"`{self.by_hand} true` must work without a question: check user, key and agent",
            )
        return HostUnavailable(
            f"{self.alias}: {host}:{self.settings.port} cannot be reached: {_words(error)}",
            hint=f"`{self.by_hand} true` shows what ssh says",
        )


@contextlib.contextmanager
def _agent(path: str) -> Iterator[None]:
    """Let paramiko ask the agent that the configuration names; it knows the environment's only."""
    before = os.environ.get("SSH_AUTH_SOCK")
    if path in ("", "none"):
        yield
        return
    os.environ["SSH_AUTH_SOCK"] = path
    try:
        yield
    finally:
        os.environ.pop("SSH_AUTH_SOCK")
        if before is not None:
            os.environ["SSH_AUTH_SOCK"] = before


def _words(error: BaseException) -> str:
    return str(error).strip() or type(error).__name__
