"""What a sitting may cost, from the words of its user."""

import re
from datetime import UTC, datetime, timedelta

from bisectperf.errors import UserError
from bisectperf.model import Limits

_SPAN = re.compile(r"\s*(?:(\d+(?:\.\d+)?)\s*d)?\s*(?:(\d+(?:\.\d+)?)\s*h)?\s*(?:(\d+(?:\.\d+)?)\s*m(?:in)?)?\s*")
_CLOCK = re.compile(r"(\d{1,2}):(\d{2})")


def limits_of(
    now: float, *, until: str | None = None, budget: str | None = None, launches: int | None = None, had: int = 0
) -> Limits | None:
    """Return the limits of a sitting that begins at `now` with `had` launches behind it; None where none is set.

    Raises `UserError` for words that say no time, and for a moment that is over.
    """
    ends = [moment(until, now)] if until else []
    ends += [now + span(budget)] if budget else []
    if not ends and launches is None:
        return None
    return Limits(until=min(ends, default=None), launches=None if launches is None else had + launches)


def moment(word: str, now: float) -> float:
    """Return the next `HH:MM` of the local clock, or the moment that an ISO date and time names."""
    here = datetime.fromtimestamp(now, UTC).astimezone()
    clock = _CLOCK.fullmatch(word.strip())
    if clock and int(clock[1]) < 24 and int(clock[2]) < 60:
        today = here.replace(tzinfo=None, hour=int(clock[1]), minute=int(clock[2]), second=0, microsecond=0)
        # Local arithmetic, then back: 08:00 is 08:00 also in the night in which the clocks are changed.
        tomorrow = today + timedelta(days=1)
        return today.timestamp() if today.timestamp() > now else tomorrow.timestamp()
    try:
        named = datetime.fromisoformat(word.strip()).timestamp()
    except ValueError:
        named = None
    if named is None or clock:
        raise UserError(
            f"--until {word}: no time of day and no date", hint="write --until 08:00, or --until 2026-03-01T08:00"
        )
    if named <= now:
        raise UserError(f"--until {word}: that moment is over", hint="give one that is to come, or --budget 8h")
    return named


def span(word: str) -> float:
    """Return the seconds of `8h`, `90m`, `1h30m`, `2d`."""
    found = _SPAN.fullmatch(word)
    days, hours, minutes = (float(part or 0) for part in found.groups()) if found else (0.0, 0.0, 0.0)
    seconds = 86400 * days + 3600 * hours + 60 * minutes
    if seconds <= 0:
        raise UserError(f"--budget {word}: no length of time", hint="write --budget 8h, 90m, 1h30m or 2d")
    return seconds
