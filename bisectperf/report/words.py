"""How things are said: untrusted text made safe to show, numbers with their units, dates.

Every text that was not written by this program (commit subjects, reasons, outputs, host facts) goes through
`clean` or `clean_block` on its way to any screen or file.
"""

import math
import unicodedata
from datetime import UTC, datetime

from bisectperf.model import Effect, Metric, Sha
from bisectperf.state import State

_HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}


def clean(text: str) -> str:
    r"""Return `text` as one line in which no character can move a cursor, hide, or change the reading direction.

    Control, format and surrogate characters become visible escapes (`\x1b`, `\u202e`); a tab becomes a space.
    """
    return "".join(_visible(c) for c in text.replace("\t", " "))


def clean_block(text: str) -> str:
    """Return `text` as `clean` does, but with its lines kept."""
    return "\n".join(clean(line) for line in text.replace("\r\n", "\n").split("\n"))


def _visible(character: str) -> str:
    if unicodedata.category(character) not in _HIDDEN:
        return character
    return character.encode("unicode_escape").decode("ascii")


def cut(text: str, width: int) -> str:
    """Return the cleaned `text` in at most `width` characters, with an ellipsis where something was left out."""
    text = clean(text)
    return text if len(text) <= width else text[: max(width - 1, 0)].rstrip() + "…"


def short(sha: Sha) -> str:
    """Return the first nine digits of a commit id, as git's own short form in a large repository."""
    return clean(sha[:9])


def subject_of(state: State, sha: Sha) -> str:
    """Return the subject of `sha`, or an empty text where the line does not hold it."""
    for line in reversed(state.lines):
        for position in line.positions:
            if position.sha == sha:
                return clean(position.subject)
    return ""


def named(state: State, sha: Sha) -> str:
    """Return a commit as people name it: short id and subject."""
    subject = subject_of(state, sha)
    return f"{short(sha)} ({subject})" if subject else short(sha)


# -- numbers --------------------------------------------------------------------------------------------------


def in_unit(value: float, metric: Metric) -> float:
    """Return a launch's number (signed log, larger is slower) in the metric's own unit."""
    return math.exp(-value if metric.better == "higher" else value)


def change(log_ratio: float, metric: Metric) -> float:
    """Return the change of the metric, in percent with its sign, that a slow-down by `log_ratio` is."""
    return 100 * math.expm1(-log_ratio if metric.better == "higher" else log_ratio)


def number(value: float) -> str:
    """Return `value` with four significant digits and no exponent where people expect none."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    digits = max(0, 3 - math.floor(math.log10(abs(value))))
    return f"{value:.{digits}f}" if digits <= 7 else f"{value:.3g}"


def quantity(value: float, metric: Metric) -> str:
    """Return a number of the metric's own unit with that unit."""
    return f"{number(value)} {clean(metric.unit)}".rstrip()


def percent(value: float) -> str:
    """Return a change in percent with its sign, as `-5.8 %`."""
    text = f"{value:+.{1 if abs(value) >= 0.095 else 2}f}"
    return f"{'0.0' if float(text) == 0 else text} %"


def interval(effect: Effect, metric: Metric) -> str:
    """Return an effect's interval as changes of the metric: `95 % interval -6.4 % to -5.1 %`."""
    low, high = sorted((change(effect.low, metric), change(effect.high, metric)))
    return f"{100 * effect.level:g} % interval {percent(low)} to {percent(high)}"


def effect_text(effect: Effect, metric: Metric) -> str:
    """Return an effect as the change of the metric with its interval."""
    return f"{clean(metric.name)} {percent(change(effect.value, metric))} ({interval(effect, metric)})"


def probability(p: float) -> str:
    """Return a probability in percent, never rounded to certainty."""
    if p >= 0.9995:
        return "over 99.9 %"
    if 0 < p < 0.001:
        return "under 0.1 %"
    return f"{100 * p:.1f} %"


def count(n: int, word: str) -> str:
    """Return `1 launch`, `2 launches`, `3 commits`."""
    plural = word + ("es" if word.endswith(("ch", "s", "x")) else "s")
    return f"{n} {word if n == 1 else plural}"


# -- time -----------------------------------------------------------------------------------------------------


def duration(seconds: float) -> str:
    """Return a length of time in its two largest units: `42 s`, `3 min 05 s`, `2 h 07 min`, `1 d 3 h`."""
    whole = max(round(seconds), 0)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours} h {minutes:02d} min"
    return f"{hours // 24} d {hours % 24} h"


def moment(at: float) -> str:
    """Return a moment in UTC, the same text on every machine: `2026-03-01 04:05:06 UTC`."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
