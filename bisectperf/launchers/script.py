"""How the scripts that watch over a host are asked, and what their refusals mean."""

from bisectperf.errors import HostUnfit, UserError
from bisectperf.hosts.base import Host

_REFUSED = 64


def ask(
    host: Host, script: str, words: list[str], *, python: str, stdin: bytes = b"", deadline: float = 60.0
) -> bytes:
    """Run one of our scripts on the host under its `python` and return what it answers (JSON).

    Raises `UserError` when it refuses, `HostUnfit` when it fails, `HostUnavailable` when the outcome is unknown.
    """
    # Our scripts need nothing that is installed: without site packages python starts several times faster.
    done = host.raw([python, "-E", "-S", script, *words], stdin=stdin, deadline=deadline)
    said = done.err.decode(errors="replace").strip().splitlines()
    if done.rc == _REFUSED:
        raise UserError(f"{host.name}: {' '.join(said)}")
    if done.rc != 0:
        name = script.rpartition("/")[2].removesuffix(".py")
        raise HostUnfit(
            f"{host.name}: the {name} failed at {words[0]}: {said[-1] if said else f'exit status {done.rc}'}",
            hint=f"it needs {python} >= 3.8 on the host and a writable folder {words[1]}",
            detail="\n".join(said),
        )
    return done.out
