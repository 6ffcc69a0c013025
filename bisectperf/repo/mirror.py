"""A repository that lives only on the host, mirrored through the one primitive that every host offers."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from bisectperf.errors import UserError
from bisectperf.hosts.base import Host
from bisectperf.model import Sha
from bisectperf.repo.store import Store

_DEADLINE = 3600.0
"""Seconds for a first pack of a large history over a slow line."""
_KINDS = ("refs/heads", "refs/tags", "refs/remotes")


def mirror(host: Host, path: str, folder: Path) -> Store:
    """Return the store in `folder` with the branches and tags of the repository at `path` on `host`, as they are now.

    Nothing there is written: git is only asked for a pack of what the store lacks. Raises `UserError` where there
    is no complete repository, `HostUnavailable` where the host does not answer.
    """
    there = _Remote(host, path)
    if there.ask("rev-parse", "--is-shallow-repository").strip() == b"true":
        raise UserError(
            f"{host.name}:{path} is a shallow clone: the commits to search are not all there",
            hint=f"on {host.name}: git -C {shlex.quote(path)} fetch --unshallow",
        )
    head = there.ask("rev-parse", "HEAD").decode().strip()
    store = Store.empty(folder, "sha1" if len(head) == 40 else "sha256")
    listed = there.ask("for-each-ref", "--format=%(objectname) %(refname)", *_KINDS).decode(errors="surrogateescape")
    refs = {name: id_ for id_, _, name in (line.partition(" ") for line in listed.splitlines())}
    refs["refs/bisectperf/head"] = head
    _bring(there, store, list(dict.fromkeys(refs.values())))
    _follow(store, refs)
    return store


def _bring(there: "_Remote", store: Store, tips: Sequence[str]) -> None:
    """Store what the tips reach and the store lacks."""
    missing = [tip for tip, (_, kind) in zip(tips, store.types(tips), strict=True) if not kind]
    if not missing:
        return
    ours = store.git("for-each-ref", "--format=%(objectname)")[1].decode().split()
    have = there.known(ours) if ours else []
    wanted = "".join([*(f"{tip}\n" for tip in missing), *(f"^{sha}\n" for sha in have)])
    argv = ("pack-objects", "-q", "--revs", "--thin", "--delta-base-offset", "--stdout")
    store.receive(there.ask(*argv, stdin=wanted.encode()))


def _follow(store: Store, refs: dict[str, str]) -> None:
    """Make the store's branches and tags what the host's are."""
    listed = store.git("for-each-ref", "--format=%(refname)", *_KINDS)[1].decode(errors="surrogateescape")
    gone = [f"delete {name}\n" for name in listed.splitlines() if name not in refs]
    now = [f"update {name} {id_}\n" for name, id_ in refs.items()]
    # Two transactions: `a` may have gone where `a/b` has come.
    for commands in (gone, now):
        store.git("update-ref", "--stdin", stdin="".join(commands).encode(errors="surrogateescape"))


class _Remote:
    """git on the host, in the user's repository there, reading only."""

    def __init__(self, host: Host, path: str) -> None:
        self.host = host
        self.path = path

    def ask(self, *argv: str, stdin: bytes = b"") -> bytes:
        """Return the output of a git command there; raises `UserError` with git's words when it fails."""
        variables = ("GIT_OPTIONAL_LOCKS=0", "GIT_NO_REPLACE_OBJECTS=1", "LC_ALL=C")
        command = ["env", *variables, "git", "-C", self.path, "-c", "core.fsmonitor=false", *argv]
        done = self.host.raw(command, stdin=stdin, deadline=_DEADLINE)
        if done.rc != 0:
            words = done.err.decode(errors="replace").strip()
            raise UserError(
                f"{self.host.name}:{self.path} cannot be read as a git repository: {words or f'status {done.rc}'}",
                hint=f"try `git -C {shlex.quote(self.path)} log -1` there",
            )
        return done.out

    def known(self, ids: Sequence[str]) -> list[Sha]:
        """Return which of these commits the repository there has."""
        out = self.ask(
            "cat-file", "--batch-check=%(objectname) %(objecttype)", stdin="".join(f"{i}\n" for i in ids).encode()
        )
        return [Sha(line.split()[0]) for line in out.decode().splitlines() if line.endswith(" commit")]
