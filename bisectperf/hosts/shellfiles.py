"""Files of a host through nothing but its shell: for every host whose commands run elsewhere."""

import hashlib
from collections.abc import Iterable

from bisectperf.errors import HostUnavailable, HostUnfit
from bisectperf.hosts.base import Host

_FILE_SECONDS = 600.0
_CUT_OFF, _ABSENT = 43, 44

# The digest is compared before the rename, so that an upload that was cut off never replaces a file.
_PUT = """
set -e; umask 077; t="$1.part.$$"; trap 'rm -f "$t"' EXIT
cat > "$t"
got=$(sha256sum < "$t"); [ "${got%% *}" = "$2" ] || exit 43
chmod "$3" "$t"; sync "$t"; mv -f "$t" "$1"; sync "${1%/*}/"
"""
_GET = '[ -e "$1" ] || exit 44; exec cat "$1"'


def put(host: Host, path: str, data: bytes | Iterable[bytes], mode: int) -> None:
    """Write a file whole or not at all, checked by its digest and durable."""
    content = data if isinstance(data, bytes) else b"".join(data)
    digest = hashlib.sha256(content).hexdigest()
    argv = ["sh", "-c", _PUT, "sh", path, digest, f"{mode:o}"]
    done = host.raw(argv, stdin=content, deadline=_FILE_SECONDS)
    if done.rc == _CUT_OFF:
        raise HostUnavailable(f"{host.name}: the upload of {path} was cut off")
    if done.rc != 0:
        raise HostUnfit(f"{host.name}: {path} cannot be written: {_last(done.err)}")


def get(host: Host, path: str) -> bytes:
    """Return a file's bytes; raises `FileNotFoundError` when there is none."""
    done = host.raw(["sh", "-c", _GET, "sh", path], deadline=_FILE_SECONDS)
    if done.rc == _ABSENT:
        raise FileNotFoundError(path)
    if done.rc != 0:
        raise HostUnfit(f"{host.name}: {path} cannot be read: {_last(done.err)}")
    return done.out


def _last(text: bytes) -> str:
    lines = text.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else "no reason given"
