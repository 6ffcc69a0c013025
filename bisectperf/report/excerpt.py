"""Which part of a long line is shown: the rows that say most, with what lies between counted."""

from collections.abc import Sequence
from itertools import groupby

import msgspec

from bisectperf.report.view import Row

WHOLE = 60
"""Up to so many candidates a page or chart shows all; of longer lines only those of which something is known."""


class Stretch(msgspec.Struct, frozen=True, kw_only=True):
    """Neighbouring positions, first to last, that are all testable (no `reason`) or untestable for one reason."""

    first: Row
    last: Row
    commits: int
    reason: str


class Slot(msgspec.Struct, frozen=True, kw_only=True):
    """One place of a table or an axis: a candidate, or a stretch of which nothing is known."""

    members: tuple[Row, ...]

    @property
    def row(self) -> Row | None:
        """Return the candidate, or None for a stretch."""
        return self.members[0] if len(self.members) == 1 else None

    @property
    def probability(self) -> float:
        """Return the probability of all members together."""
        return sum(row.probability or 0.0 for row in self.members)


def slots(table: Sequence[Row], *, whole: int = WHOLE) -> list[Slot]:
    """Return a line as places, good end first; on a line of at most `whole` candidates each has its own."""
    last = len(table) - 1

    def own(row: Row) -> bool:
        known = bool(row.launches or row.reason or row.suspect)
        return len(table) <= whole or known or row.index in {0, last} or (row.probability or 0.0) >= 0.01

    found: list[Slot] = []
    for shown, group in groupby(table, key=own):
        members = tuple(group)
        found += [Slot(members=(row,)) for row in members] if shown else [Slot(members=members)]
    return found


def stretches(line_rows: Sequence[Row]) -> list[Stretch]:
    """Return the line as neighbouring positions that are testable, or untestable for the same reason."""
    found = []
    for reason, group in groupby(line_rows, key=lambda row: row.reason):
        members = list(group)
        commits = sum(len(row.position.commits) for row in members)
        found.append(Stretch(first=members[0], last=members[-1], commits=commits, reason=reason))
    return found


def interesting(line_rows: Sequence[Row], limit: int) -> list[Row]:
    """Return at most `limit` rows in order: ends, launches in hand, suspects with neighbours, measured, likely ones.

    The rows in between are left out; their number follows from the indexes.
    """
    ranked = sorted(line_rows, key=lambda row: _worth(row, line_rows), reverse=True)
    worthy = [row for row in ranked if any(_worth(row, line_rows))]
    return sorted(worthy[:limit], key=lambda row: row.index)


def _worth(row: Row, line_rows: Sequence[Row]) -> tuple[bool, bool, bool, float, bool]:
    last = len(line_rows) - 1
    flying = any(x.status in ("planned", "built", "running") for x in row.launches)
    beside = any(line_rows[k].suspect for k in (row.index - 1, row.index + 1) if 0 <= k <= last)
    p = row.probability or 0.0
    return (
        row.index in {0, last} or flying,
        row.suspect,
        beside,
        round(p, 3) if p >= 0.02 else 0.0,
        row.known == "measured",
    )
