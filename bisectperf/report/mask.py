"""Private names out of what is published: hosts, addresses, people, paths.

A report for an upstream issue is read by strangers. What is masked is decided by shape, so free text written by
other programs (a log's tail, an error) is covered too; commit subjects are left alone, they are public already.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from bisectperf.report.environment import Fact
from bisectperf.state import State

_SHAPES = (
    (re.compile(r"\b[a-z][a-z0-9+.-]*://\S+", re.IGNORECASE), "<url>"),
    (re.compile(r"[\w.+-]+@[\w.-]+(?::\S+)?"), "<address>"),
    (re.compile(r"(?<![\w<>/.~-])(?:~[\w.-]*)?(?:/[\w.@%+~,=-]+){2,}/?|~[\w.-]*(?:/[\w.@%+~-]+)+"), "<path>"),
    (re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}\b"), "<address>"),
    (re.compile(r"(?<![\w:])(?:[0-9a-f]{1,4}:{1,2}){3,}[0-9a-f]{0,4}", re.IGNORECASE), "<address>"),
    (re.compile(r"\b[\w-]+(?:\.[\w-]+)*\.(?:local|lan|internal|corp|intra|home)\b", re.IGNORECASE), "<host>"),
)
_PUBLIC = re.compile(
    r"kernel|machine|python|cpus?|governor|load_\w+|gpu \d+ (?:name|driver_version|(?:clocks|temperature|power)\S*)"
)
_PEOPLE = re.compile(r"/(?:home|Users)/([\w.-]+)|([\w.-]+)@[\w.-]+")

Mask = Callable[[str], str]


def mask_of(state: State) -> Mask:
    """Return what masks a text: every shape above, the hosts of this run, and people named in its paths."""
    hosts = {host for host in [*state.asked.hosts, *(x.host for x in state.launches.values())] if host != "local"}
    names: dict[str, str] = {}
    for k, host in enumerate(sorted(hosts), 1):
        names |= {host.split(".")[0]: f"host-{k}", host: f"host-{k}"}
    people = {a or b for text in _texts(msgspec.to_builtins(state)) for a, b in _PEOPLE.findall(text)}
    names |= dict.fromkeys(people - names.keys(), "<user>")
    words = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    known = re.compile(rf"(?<![\w.-])(?:{words})(?![\w-])") if names else None

    def mask(text: str) -> str:
        for shape, instead in _SHAPES:
            text = shape.sub(instead, text)
        return known.sub(lambda found: names[found.group()], text) if known else text

    return mask


def masked(state: State) -> State:
    """Return the state with every text but commit subjects and names of the recipe masked."""
    mask = mask_of(state)
    return msgspec.convert(_walk(msgspec.to_builtins(state), mask), State)


def public(fact: Fact) -> bool:
    """Return whether a fact of a host may be published: what the machine is, never what it is called or holds."""
    return _PUBLIC.fullmatch(fact.name) is not None


_LEFT = {"subject", "name", "unit", "recipe"}


def _walk(value: Any, mask: Mask) -> Any:  # noqa: ANN401 -- plain JSON values
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, dict):
        return {key: part if key in _LEFT else _walk(part, mask) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_walk(part, mask) for part in value]
    return value


def _texts(value: Any) -> Iterator[str]:  # noqa: ANN401 -- plain JSON values
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, part in value.items():
            if key not in _LEFT:
                yield from _texts(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _texts(part)
