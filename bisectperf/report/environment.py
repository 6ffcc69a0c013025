"""What the hosts were, from the first counted launch to the last, and what changed in between."""

import csv
from collections.abc import Iterator

import msgspec

from bisectperf.model import HostFacts, HostName
from bisectperf.state import State

Value = str | float


class Fact(msgspec.Struct, frozen=True, kw_only=True):
    """One fact of one host: its first and last value, and whether it changed.

    Numbers such as load or temperature always move: they have a range (`low` to `high`) and are not called changed.
    """

    host: HostName
    name: str
    first: str
    last: str
    changed: bool
    low: float | None = None
    high: float | None = None

    @property
    def range(self) -> str:
        """Return a number's range, or an empty text for what is no number or stood still."""
        if self.low is None or self.high is None or self.low == self.high:
            return ""
        return f"{_text(self.low)} to {_text(self.high)}"


def environment(state: State) -> list[Fact]:
    """Return the facts of every host, what changed first, then by name."""
    seen: dict[tuple[HostName, str], list[Value]] = {}
    for launch in sorted(state.measured(), key=lambda x: x.started):
        for moment in launch.facts:
            for name, value in _flat(moment):
                seen.setdefault((launch.host, name), []).append(value)
    facts = [_fact(host, name, values) for (host, name), values in seen.items()]
    return sorted(facts, key=lambda fact: (not fact.changed, fact.host, fact.name))


def _fact(host: HostName, name: str, values: list[Value]) -> Fact:
    numbers = [value for value in values if isinstance(value, float | int)]
    first, last = _text(values[0]), _text(values[-1])
    if len(numbers) == len(values):
        return Fact(host=host, name=name, first=first, last=last, changed=False, low=min(numbers), high=max(numbers))
    return Fact(host=host, name=name, first=first, last=last, changed=len({_text(v) for v in values}) > 1)


def _text(value: Value) -> str:
    return (value or "none") if isinstance(value, str) else f"{value:.6g}"


def _flat(moment: HostFacts) -> Iterator[tuple[str, Value]]:
    """Yield the facts of one moment as (name, text or number); the table of GPUs becomes one fact a field."""
    fields = moment.facts.get("gpu_fields")
    for name, value in moment.facts.items():
        if name == "gpus" and isinstance(value, list) and isinstance(fields, str):
            yield from _gpus(value, [field.strip() for field in fields.split(",")])
        elif name == "gpu_fields":
            continue
        elif isinstance(value, list):
            yield name, "; ".join(value)
        else:
            yield name, value


def _gpus(lines: list[str], fields: list[str]) -> Iterator[tuple[str, Value]]:
    for k, cells in enumerate(csv.reader(lines, skipinitialspace=True)):
        for field, cell in zip(fields, cells, strict=False):
            yield f"gpu {k} {field}", _number_or_text(cell.strip())


def _number_or_text(cell: str) -> Value:
    try:
        return float(cell)
    except ValueError:
        return cell
