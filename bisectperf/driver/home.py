"""Where runs are kept: `<git directory>/bisectperf/`, one folder a run, nothing ever thrown away.

`runs/<id>/` holds the journal, the resolved recipe and the reports of one run; `HEAD` names the bisection that
`run`, `status` and the others go on with; `store/` is our own object store.
"""

import contextlib
import os
import time
from pathlib import Path

import msgspec

from bisectperf.errors import NoBisection, UserError
from bisectperf.events import AnyEvent, Started
from bisectperf.journal import Journal, read


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """How a run was asked for: enough to find the same recipe again in a later process."""

    recipe: str
    settings: dict[str, str]
    repo: str


class Home:
    """The folder of one repository."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def store(self) -> Path:
        """Return where our object store lies."""
        return self.folder / "store"

    @property
    def lock(self) -> Path:
        """Return the file that whoever drives a run of this repository holds locked."""
        return self.folder / "lock"

    def run(self, name: str | None = None) -> Path:
        """Return the folder of the named run, or of the one that HEAD names; raises `NoBisection`."""
        if name is None:
            try:
                name = (self.folder / "HEAD").read_text().strip()
            except FileNotFoundError:
                raise NoBisection(
                    f"no bisection is under way here ({self.folder})",
                    hint="begin one with `bisectperf start GOOD BAD`",
                ) from None
        folder = self.folder / "runs" / name
        if not (folder / "journal.jsonl").is_file():
            raise NoBisection(f"there is no run '{name}'", hint=f"there are: {', '.join(self.names()) or 'none'}")
        return folder

    def names(self) -> list[str]:
        """Return the names of all runs, oldest first."""
        return sorted(p.parent.name for p in (self.folder / "runs").glob("*/journal.jsonl"))

    def unfinished(self, mode: str, good: str, bad: str, digest: str) -> Path | None:
        """Return the newest run of the same question that has no verdict yet."""
        for name in reversed(self.names()):
            folder = self.folder / "runs" / name
            events = read(folder / "journal.jsonl")
            plan = events[0].plan if events and isinstance(events[0], Started) else None
            same = plan and (plan.mode, plan.good, plan.bad, plan.recipe_digest) == (mode, good, bad, digest)
            if same and not any(type(e).__name__ == "Decided" for e in events):
                return folder
        return None

    def new(self, label: str, asked: Asked, *, head: bool) -> Path:
        """Make the folder of a new run; `head` makes it the one to go on with."""
        base = time.strftime("%Y%m%d-%H%M%S-") + label
        for serial in range(1000):
            folder = self.folder / "runs" / (base + (f"-{serial}" if serial else ""))
            with contextlib.suppress(FileExistsError):
                folder.mkdir(parents=True, mode=0o700)
                break
        else:
            raise UserError(f"{base} exists a thousand times", hint="check the clock")
        (folder / "asked.json").write_bytes(msgspec.json.format(msgspec.json.encode(asked)))
        if head:
            _replace(self.folder / "HEAD", folder.name + "\n")
        return folder

    def open(self, folder: Path) -> Journal:
        """Return the journal of the run in `folder`; one process at a time writes for a repository."""
        return Journal(folder, lock=self.lock)

    def forget(self) -> str:
        """Let HEAD name nothing; the run's folder stays. Returns its name."""
        name = self.run().name
        (self.folder / "HEAD").unlink()
        return name


def asked_of(folder: Path) -> Asked:
    """Return how the run in `folder` was asked for."""
    return msgspec.json.decode((folder / "asked.json").read_bytes(), type=Asked)


def journal_of(folder: Path) -> list[AnyEvent]:
    """Return the events of the run in `folder`."""
    return read(folder / "journal.jsonl")


def _replace(path: Path, text: str) -> None:
    aside = path.with_name(path.name + f".{os.getpid()}")
    aside.write_text(text)
    aside.replace(path)
