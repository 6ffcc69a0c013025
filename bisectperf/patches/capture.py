"""Uncommitted changes, or a stash entry, as a diff with full blob ids: a patch of the stack.

It works through a host's one primitive, so that a checkout on this machine and one on the far side of an SSH
connection are the same thing. Neither the checkout nor its index, its objects or its stash are touched.
"""

import shlex

import msgspec

from bisectperf.errors import UserError
from bisectperf.hosts.base import Host, Result
from bisectperf.model import Sha

_DEADLINE = 600.0
_PRELUDE = r"""
set -eu
for name in $(env | sed -n 's/^\(GIT_[A-Za-z0-9_]*\)=.*/\1/p'); do unset "$name"; done
export GIT_OPTIONAL_LOCKS=0 GIT_NO_REPLACE_OBJECTS=1 LC_ALL=C
say() { echo "$1" >&2; exit 3; }
change() {
    git diff-tree -r --no-commit-id --no-renames -z --name-only "$@"
}
diff() {
    git diff-tree -r --no-commit-id --no-renames -p --binary --full-index --no-ext-diff --no-textconv --no-color \
        --src-prefix=a/ --dst-prefix=b/ "$@"
}
cd -- "$1" 2>/dev/null || say "there is no such folder"
"""
_DIRTY = r"""
top=$(git rev-parse --show-toplevel) || say "it is no git checkout"
cd -- "$top"
base=$(git rev-parse --verify -q HEAD) || say "it has no commit yet"
[ -z "$(git ls-files --unmerged)" ] || say "it is in the middle of a merge"
index=$(git rev-parse --git-path index)
objects=$(cd -- "$(git rev-parse --git-path objects)" && pwd -P)
room=$(mktemp -d "${TMPDIR:-/tmp}/bisectperf-capture.XXXXXX")
trap 'rm -rf "$room"' EXIT
if [ -f "$index" ]; then cp -p -- "$index" "$room/index"; fi
mkdir "$room/objects"
export GIT_INDEX_FILE="$room/index" GIT_OBJECT_DIRECTORY="$room/objects"
export GIT_ALTERNATE_OBJECT_DIRECTORIES="$objects"
# A file that was marked "assume unchanged" is changed all the same.
git ls-files -v | grep -q '^[a-z]' && git ls-files -z | git update-index -z --no-assume-unchanged --stdin
git -c core.splitIndex=false -c core.fsmonitor=false -c core.untrackedCache=false \
    -c advice.addEmbeddedRepo=false add --all .
tree=$(git -c core.splitIndex=false write-tree)
echo "$base"
change "$base" "$tree"
printf '\0'
diff "$base" "$tree"
"""
_STASH = r"""
stash=$(echo "$2^{commit}" | git cat-file --batch-check='%(objectname)') || say "it is no git repository"
case "$stash" in *" "*) say "$2 is no stash entry there";; esac
set -- $(git rev-list -1 --parents "$stash")
[ $# -ge 3 ] || say "$stash is a commit, but no stash entry"
# Untracked files lie in a commit of their own, which has no parent.
echo "$2"
change "$2" "$1"
if [ $# -ge 4 ]; then change --root "$4"; fi
printf '\0'
diff "$2" "$1"
if [ $# -ge 4 ]; then diff --root "$4"; fi
"""


class Captured(msgspec.Struct, frozen=True, kw_only=True):
    """A change and the commit that it was made on; `files` are the paths that it touches."""

    base: Sha
    diff: bytes
    files: tuple[str, ...]


def capture(host: Host, path: str, stash: str = "") -> Captured:
    """Return the uncommitted changes of the checkout at `path` on `host`, untracked files included.

    With `stash` (an entry as `stash@{1}` or `1`, or a commit id) return that entry's changes instead. Raises
    `UserError` when there is nothing to capture, `HostUnavailable` when the host does not answer.
    """
    entry = f"stash@{{{stash}}}" if stash.isdigit() and len(stash) < 5 else stash
    script = _PRELUDE + (_STASH if stash else _DIRTY)
    done = host.raw(["sh", "-c", script, "sh", path, entry], deadline=_DEADLINE)
    if done.rc != 0:
        raise _refusal(f"{host.name}:{path}", path, stash, done)
    base, _, rest = done.out.partition(b"\n")
    names, _, diff = rest.partition(b"\0\0")
    if not diff:
        what = f"the stash entry {entry}" if stash else f"the checkout {host.name}:{path}"
        raise UserError(f"{what} holds no changes", hint="there is nothing to make a patch of")
    files = tuple(name.decode(errors="surrogateescape") for name in names.split(b"\0"))
    return Captured(base=Sha(base.decode()), diff=diff, files=files)


def _refusal(place: str, path: str, stash: str, done: Result) -> UserError:
    """Return the error for a script that found nothing to capture, with its words and git's."""
    words = done.err.decode(errors="replace").strip()
    last = words.splitlines()[-1] if words else f"status {done.rc}"
    hint = f"`git -C {shlex.quote(path)} {'stash list' if stash else 'status'}` there shows what there is"
    if "dubious ownership" in words:
        last = "it belongs to another user, and git refuses it"
        hint = f"there: git config --global --add safe.directory {shlex.quote(path)}"
    return UserError(f"nothing could be captured from {place}: {last}", hint=hint, detail=words)
