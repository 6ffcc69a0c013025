"""Check everything that a night depends on, in a minute, before it is spent."""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Literal

import msgspec

from bisectperf.driver.setup import Setup, open_setup, stack_of
from bisectperf.errors import BisectperfError
from bisectperf.hosts import open_host
from bisectperf.hosts.base import Host
from bisectperf.measure.site import default_root
from bisectperf.patches import draw_line
from bisectperf.patches.claims import describe

_GIB = 1 << 30
ENOUGH_DISK = 5 * _GIB


class Finding(msgspec.Struct, frozen=True):
    """One line of the doctor: what was looked at, how it is, and what to do."""

    level: Literal["ok", "warning", "wrong"]
    about: str
    text: str
    hint: str = ""


class _Quiet:
    """Collects what the preparations say."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def event(self, event: object, state: object) -> None:
        """No facts are made here."""

    def say(self, text: str) -> None:
        """Keep it for the list."""
        self.said.append(text)

    def progress(self, phase: str, text: str) -> None:
        """Nothing is launched here."""


def examine(
    recipe: str | None, settings: Mapping[str, str], repo: str | None, ends: tuple[str, str] | None
) -> Iterator[Finding]:
    """Yield findings, most basic first; whatever depends on something wrong is left out."""
    teller = _Quiet()
    try:
        setup = open_setup(recipe, settings, repo, teller)
    except BisectperfError as error:
        yield _wrong("recipe and repository", error)
        return
    yield Finding("ok", "recipe", f"{setup.loaded.recipe.name}, digest {setup.loaded.digest[:12]}")
    dirt = setup.repo.dirt() if setup.repo else ""
    yield Finding(
        "warning" if dirt else "ok",
        "repository",
        setup.asked.repo + (f": {dirt} are not measured" if dirt else ""),
        "`bisectperf patches capture` makes a patch of them" if dirt else "",
    )
    if ends is not None:
        yield from _range(setup, *ends)
    yield from _host(setup)


def _range(setup: Setup, good_word: str, bad_word: str) -> Iterator[Finding]:
    try:
        commits = setup.range(good_word, bad_word)
        good, bad = commits[0].sha, commits[-1].sha
        stack = stack_of(setup, good, commits)
        code = setup.loaded.recipe.repo
        line = draw_line(setup.store, stack, commits, code=code.code, pins=code.pins)
        for patch in setup.loaded.recipe.patches:
            claims = stack.assertions(patch)
            source = "" if patch.assertions else " (derived from what it adds)"
            yield Finding("ok", f"patch {patch.name}", "; ".join(describe(c) for c in claims) + source)
    except BisectperfError as error:
        yield _wrong("range", error)
        return
    for end, name in ((line.positions[0], good_word), (line.positions[-1], bad_word)):
        if end.tree is None:
            yield Finding(
                "wrong", "range", f"{name} cannot be measured: {end.untestable}", "see `bisectperf patches`"
            )
    broken = [p for p in line.positions if p.tree is None]
    candidates = len(line.positions) - 1
    text = f"{len(commits) - 1} commits, {candidates} candidates with code of their own"
    yield Finding("ok", "range", text)
    if broken:
        first = f"{broken[0].sha[:9]}: {broken[0].untestable}"
        yield Finding("warning", "range", f"{len(broken)} candidates cannot carry the patches ({first})")
    if candidates > 0:
        builds = math.ceil(math.log2(candidates + 1)) + 2
        yield Finding(
            "ok", "night", f"about {builds} builds; launches depend on the noise (`compare GOOD GOOD` measures it)"
        )
    for pin in setup.loaded.recipe.repo.pins:
        moved = setup.store.commits("--reverse", f"{good}..{bad}", "--", pin) if pin else []
        if moved:
            yield Finding("warning", f"pin {pin}", f"moves in {len(moved)} commits, first {moved[0].sha[:9]}")


def _host(setup: Setup) -> Iterator[Finding]:
    table = setup.loaded.recipe.host
    try:
        host = open_host(table)
        root = default_root(host, table.work_dir)
        yield Finding("ok", f"host {host.name}", f"reached; our files lie in {root}")
        for check in (_python, _git, _gpu):
            yield from check(host)
        yield from _disk(host, root)
        host.close()
    except BisectperfError as error:
        yield _wrong(f"host {table.ssh or 'local'}", error)


Check = Callable[[Host], Iterator[Finding]]


def _python(host: Host) -> Iterator[Finding]:
    done = host.raw(["python3", "-c", "import sys; print('%d.%d.%d' % sys.version_info[:3])"])
    version = done.out.decode(errors="replace").strip()
    if done.rc != 0 or tuple(map(int, version.split(".")[:2])) < (3, 8):
        text = f"python3 is {version}" if version else "there is no python3"
        yield Finding("wrong", "python", text, "the host needs a python3 of 3.8 or newer on its PATH")
    else:
        yield Finding("ok", "python", version)


def _git(host: Host) -> Iterator[Finding]:
    done = host.raw(["git", "version"])
    words = done.out.decode(errors="replace").split()
    version = words[2] if len(words) > 2 else ""
    if not version or tuple(int(x) for x in version.split(".")[:2]) < (2, 25):
        yield Finding("wrong", "git", f"git is {version or 'missing'}", "the host needs git 2.25 or newer")
    else:
        yield Finding("ok", "git", version)


def _gpu(host: Host) -> Iterator[Finding]:
    query = ["nvidia-smi", "--query-gpu=name,driver_version,memory.used", "--format=csv,noheader"]
    done = host.raw(query)
    if done.rc != 0:
        yield Finding("ok", "GPU", "none seen (no nvidia-smi)")
        return
    for line in done.out.decode(errors="replace").splitlines():
        yield Finding("ok", "GPU", line.strip())
    apps = host.raw(["nvidia-smi", "--query-compute-apps=pid,process_name,used_memory", "--format=csv,noheader"])
    for line in apps.out.decode(errors="replace").splitlines():
        yield Finding(
            "warning", "GPU", f"busy: {line.strip()}", "its owner should stop it, or it will disturb each launch"
        )


def _disk(host: Host, root: str) -> Iterator[Finding]:
    done = host.raw(["df", "-Pk", root])
    lines = done.out.decode(errors="replace").splitlines()
    if done.rc == 0 and len(lines) > 1:
        free = int(lines[-1].split()[3]) * 1024
        low = free < ENOUGH_DISK
        hint = "make room, or set [host] work_dir to another disk" if low else ""
        yield Finding("warning" if low else "ok", "disk", f"{free / _GIB:.1f} GiB free at {root}", hint)


def _wrong(about: str, error: BisectperfError) -> Finding:
    return Finding("wrong", about, error.message, error.hint)
