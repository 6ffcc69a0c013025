"""What a patch is made of, as a pair of trees (before, after) or a script that makes one tree of another."""

import contextlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

from bisectperf.errors import CommitUntestable, UserError
from bisectperf.model import Sha, TreeId
from bisectperf.recipe.schema import Patch, Source
from bisectperf.repo import GitError, Index, Store

_WORDS = 600


class Pair(msgspec.Struct, frozen=True):
    """A change as two synthetic commits, the second a child of the first: what a three-way merge needs."""

    before: Sha
    after: Sha
    before_tree: TreeId
    after_tree: TreeId
    overlaid: tuple[str, ...] = ()
    """Paths of an overlay: where upstream changed one of them, it must not be applied."""


def pair_of(store: Store, folder: Path, source: Source, patch: Patch, *, good: Sha, line: Sequence[Sha]) -> Pair:
    """Return the pair of a diff or an overlay; raises `UserError` when it fits no commit that is named."""
    base = _base(store, source, patch, good)
    if source.overlay:
        return _overlay(store, folder / source.overlay, patch, base)
    data = (folder / source.diff).read_bytes()
    told = _pre_images(data)
    if told and not source.base:
        base = _where_it_was_made(store, told, [base, *line]) or base
    tree = store.line("rev-parse", f"{base}^{{tree}}")
    with Index(store, tree) as index:
        try:
            index.git("apply", "--cached", "--whitespace=nowarn", "-", stdin=data)
        except GitError as error:
            raise UserError(
                f"patch '{patch.name}': {source.diff} does not apply to {base[:12]}: {_first(error.words)}",
                hint="name the commit it was made on with `base`, or make it anew with `bisectperf patches capture`",
            ) from None
        after = index.write()
    if after == tree:
        raise UserError(f"patch '{patch.name}': {source.diff} changes nothing", hint="check the file")
    return _pair(store, TreeId(tree), after)


def _base(store: Store, source: Source, patch: Patch, good: Sha) -> Sha:
    if not source.base:
        return good
    found = store.find(source.base)
    if found is None:
        raise UserError(
            f"patch '{patch.name}': its base {source.base} is no commit here", hint="fetch it, or correct `base`"
        )
    return found


def _pair(store: Store, before: TreeId, after: TreeId, overlaid: tuple[str, ...] = ()) -> Pair:
    first = store.commit_tree(before)
    second = store.commit_tree(after, [first])
    store.keep(f"patch/{second}", second)
    return Pair(first, second, before, after, overlaid)


def _pre_images(data: bytes) -> dict[str, str]:
    """Return {path: blob id} of the files that a diff says it was made on."""
    told: dict[str, str] = {}
    path = ""
    for line in data.decode(errors="surrogateescape").splitlines():
        if match := re.match(r"diff --git a/(.+) b/(.+)$", line):
            path = match.group(1)
        elif (match := re.match(r"index ([0-9a-f]{7,64})\.\.[0-9a-f]{7,64}", line)) and path:
            if set(match.group(1)) != {"0"}:
                told[path] = match.group(1)
            path = ""
    return told


def _where_it_was_made(store: Store, told: dict[str, str], candidates: Sequence[Sha]) -> Sha | None:
    """Return the first commit whose files are those that the diff was made on."""
    paths = sorted(told)
    for sha, ids in zip(candidates, store.entries(candidates, paths), strict=True):
        if all(found and found.id.startswith(told[path]) for path, found in zip(paths, ids, strict=True)):
            return sha
    return None


def _overlay(store: Store, folder: Path, patch: Patch, base: Sha) -> Pair:
    tree = TreeId(store.line("rev-parse", f"{base}^{{tree}}"))
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    if not files:
        raise UserError(f"patch '{patch.name}': the overlay {folder} holds no file", hint="check the path")
    with Index(store, tree) as index:
        lines = []
        for file in files:
            blob = store.git("hash-object", "-w", "--stdin", stdin=file.read_bytes())[1].decode().strip()
            mode = "100755" if os.access(file, os.X_OK) else "100644"
            lines.append(f"{mode} {blob}\t{file.relative_to(folder)}\n")
        index.git("update-index", "--add", "--index-info", stdin="".join(lines).encode(errors="surrogateescape"))
        after = index.write()
    return _pair(store, tree, after, tuple(str(f.relative_to(folder)) for f in files))


def run_script(store: Store, folder: Path, source: Source, patch: Patch, tree: TreeId) -> tuple[TreeId, str]:
    """Return the tree that the script makes of `tree`, and its words; only the tree counts.

    It runs in a throw-away checkout with an empty home, without network where the kernel lets us, within its time
    limit. Raises `CommitUntestable` when it fails.
    """
    with tempfile.TemporaryDirectory(prefix="bisectperf-script-") as room, Index(store, tree) as index:
        work, home = Path(room) / "tree", Path(room) / "home"
        work.mkdir()
        home.mkdir()
        index.git("checkout-index", "--all", "--force", f"--prefix={work}/")
        said, rc = _run(_argv(folder, source), work, home, patch.timeout)
        if rc != 0:
            raise CommitUntestable(f"patch '{patch.name}': its script ended with status {rc}", detail=said)
        index.git("--work-tree", str(work), "add", "--all", "--force", ".")
        return index.write(), said


def _argv(folder: Path, source: Source) -> list[str]:
    """Return the script's argv with the files that lie beside the recipe given by their full paths."""
    words = [str(folder / word) if (folder / word).is_file() else word for word in source.script]
    offline = ["unshare", "--net", "--map-root-user"]
    probe = (
        shutil.which("unshare")
        and subprocess.run([*offline, "true"], capture_output=True, check=False).returncode == 0
    )
    return [*offline, *words] if probe else words


def _run(argv: list[str], work: Path, home: Path, timeout: float) -> tuple[str, int]:
    env = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(home), "LC_ALL": "C.UTF-8", "TMPDIR": str(home)}
    try:
        child = subprocess.Popen(
            argv,
            cwd=work,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        raise UserError(
            f"the patch script {argv[0]} cannot be run: {error.strerror}", hint="make it executable"
        ) from None
    try:
        out, _ = child.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, 9)
        out, _ = child.communicate()
        raise CommitUntestable(
            f"the patch script did not end within {timeout:g} s", detail=out.decode(errors="replace")[-_WORDS:]
        ) from None
    return out.decode(errors="replace").strip()[-_WORDS:], child.returncode


def _first(words: str) -> str:
    return words.splitlines()[0].removeprefix("error: ") if words else ""
