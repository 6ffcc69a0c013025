"""Our folder on a host: tools, recipe files, mirror, worktrees, builds, job folders.

<work_dir>/bin/<digest>/      the scripts that run there, under a name that is their digest
<work_dir>/recipes/<digest>/  the recipe's files, likewise
<work_dir>/mirror/<name>.git  objects that we sent, one repository each
<work_dir>/wt/<build>/        one worktree per build
<work_dir>/builds/<build>/    what the build left outside the worktree, and `done.json` when it ended well
<work_dir>/jobs/<id>/         one folder a job
<work_dir>/locks/<token>.json whose turn it is
<work_dir>/.bisectperf        says that the folder is ours, to keep and to remove
"""

import hashlib
import importlib.resources
import json
from collections.abc import Iterable
from typing import Any

from bisectperf.errors import HostUnfit, UserError
from bisectperf.hosts.base import Host, Result
from bisectperf.launchers.base import Launcher
from bisectperf.state import State

BARE = ("-E", "-S")
"""Our scripts need nothing that is installed: without site packages python starts several times faster."""
TOOL_DEADLINE = 900.0
"""A first checkout of a large tree on a slow disk takes minutes."""


_ROOT = r"""
case "$1" in
    "") d="${XDG_CACHE_HOME:-$HOME/.cache}/bisectperf" ;;
    "~/"*) d="$HOME/${1#\~/}" ;;
    *) d="$1" ;;
esac
umask 077
mkdir -p "$d" && cd "$d" || exit 1
[ -O . ] && [ -z "$(find . -prune \( -perm -020 -o -perm -002 \) -print)" ] || {
    echo "$d belongs to another user or others may write there" >&2
    exit 1
}
if [ ! -f .bisectperf ]; then
    for f in * .[!.]*; do
        case "$f" in
            jobs | locks | wt | builds | pycache | mirror | recipes | cache | bin) ;;
            *) [ ! -e "$f" ] || { echo "$d holds '$f', which is not ours" >&2; exit 1; } ;;
        esac
    done
    : > .bisectperf
fi
pwd -P
"""


class Site:
    """One host as the driver sees it: everything of ours lies under `root`, an absolute path there."""

    def __init__(self, host: Host, root: str, tools: str, launcher: Launcher, *, python: str, name: str) -> None:
        self.host = host
        self.root = root
        self.tools = tools
        self.launcher = launcher
        self.python = python
        self.mirror = f"{root}/mirror/{name}.git"

    def prepare(self, files: dict[str, bytes], digest: str) -> str:
        """Copy the recipe's files to the host, once; return their folder there."""
        self.tool("checkout.py", "mirror-init", {"mirror": self.mirror})
        return lay(self.host, self.root, "recipes", files, digest)

    def make_room(self, state: State, gigabytes: float, run: str) -> None:
        """Remove the builds used longest ago until the rest fits; those of the ends stay."""
        ends = {line.positions[k].tree for line in state.lines for k in (0, -1)}
        keep = sorted({x.build.key[:20] for x in state.launches.values() if x.build is not None and x.tree in ends})
        words = {"root": self.root, "limit": gigabytes * 1e9, "keep": keep, "jobs": f"{run}-"}
        self.tool("room.py", "trim", words)

    def prune(self, state: State, run: str) -> None:
        """Remove the folders of jobs whose outcome is known: what they said is in the journal."""
        keep = [f"{run}-{launch.id}" for launch in state.in_flight()]
        self.tool("room.py", "prune", {"root": self.root, "jobs": f"{run}-", "keep": keep})

    def remove(self, token: str) -> dict[str, Any]:
        """Remove everything that we ever put on the host, its lock held as `token`; return what is left there."""
        return self.tool("room.py", "remove", {"root": self.root, "token": token})

    def tool(
        self, script: str, verb: str, words: dict[str, Any], *, stdin: bytes | Iterable[bytes] | None = None
    ) -> dict[str, Any]:
        """Run a verb of one of our scripts and return its JSON answer; its words of failure become `HostUnfit`."""
        argv = [self.python, *BARE, f"{self.tools}/{script}", verb]
        payload = json.dumps(words)
        done = (
            self.host.raw(argv, stdin=payload.encode(), deadline=TOOL_DEADLINE)
            if stdin is None
            else self.host.raw([*argv, payload], stdin=stdin, deadline=TOOL_DEADLINE)
        )
        check(done, f"{script} {verb}")
        answer: dict[str, Any] = json.loads(done.out)
        return answer


def check(done: Result, doing: str) -> Result:
    """Return `done` if it went well; raise `HostUnfit` with the host's own words otherwise."""
    if done.rc != 0:
        words = done.err.decode(errors="replace").strip() or done.out.decode(errors="replace").strip()
        raise HostUnfit(
            f"the host could not {doing}: {words.splitlines()[-1] if words else f'exit status {done.rc}'}",
            hint="`bisectperf doctor` checks the host",
            detail=words,
        )
    return done


def lay(host: Host, root: str, kind: str, files: dict[str, bytes], digest: str = "") -> str:
    """Copy `files` to `<root>/<kind>/<digest>/` unless they are there, whole; return that folder."""
    content = b"\0".join(key.encode() + b"\0" + value for key, value in sorted(files.items()))
    folder = f"{root}/{kind}/{(digest or hashlib.sha256(content).hexdigest())[:20]}"
    if host.raw(["test", "-f", f"{folder}/.whole"]).rc == 0:
        return folder
    check(host.raw(["mkdir", "-p", "-m", "700", folder]), f"make the folder {folder}")
    for inner in {name.rpartition("/")[0] for name in files} - {""}:
        check(host.raw(["mkdir", "-p", "-m", "700", f"{folder}/{inner}"]), f"make the folder {folder}/{inner}")
    for name, data in files.items():
        host.put(f"{folder}/{name}", data)
    host.put(f"{folder}/.whole", b"")
    return folder


def lay_tools(host: Host, root: str) -> str:
    """Copy the scripts that run on the host; return their folder there."""
    return lay(host, root, "bin", hostside())


def hostside() -> dict[str, bytes]:
    """Return the scripts that run on a host, name (with its folder) -> bytes."""
    root = importlib.resources.files("bisectperf") / "hostside"
    found = {entry.name: entry.read_bytes() for entry in root.iterdir() if entry.name.endswith(".py")}
    recorder = root / "recorder" / "sitecustomize.py"
    return found | {"recorder/sitecustomize.py": recorder.read_bytes()}


def interpreter(host: Host) -> str:
    """Return the path of the host's python3 itself: a version manager's wrapper costs more than most of our calls."""
    done = host.raw(["python3", "-c", "import sys; print(sys.executable if sys.version_info >= (3, 8) else '')"])
    path = done.out.decode(errors="replace").strip()
    if done.rc != 0 or not path:
        raise UserError(
            f"{host.name}: there is no python3 of 3.8 or newer on the PATH",
            hint="`bisectperf doctor` checks the host",
        )
    return path


def default_root(host: Host, work_dir: str) -> str:
    """Return the absolute folder for everything of ours on `host`."""
    done = host.raw(["sh", "-c", _ROOT, "sh", work_dir])
    if done.rc != 0:
        raise UserError(
            f"the folder for our files cannot be made on {host.name}: {done.err.decode(errors='replace').strip()}",
            hint="set [host] work_dir to an empty folder of this user",
        )
    return done.out.decode().rstrip("\n")
