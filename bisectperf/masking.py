"""Secrets out of whatever is written down or shown: values of the environment, and texts of a telling shape."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import msgspec

E = TypeVar("E", bound=msgspec.Struct)

_WORD = r"(?:api_?key|access_?key|key|token|secret|password|passwd|passphrase|pass|credentials?|auth)"
_NAME = re.compile(rf"(?:^|.*_){_WORD}(?:_.*)?$|.*(?:token|secret|password|apikey)$", re.IGNORECASE)
_SHAPES = (
    (re.compile(r"\b(?:hf|ghp|gho|ghs|glpat|github_pat|xox[abprs]|npm)[_-][A-Za-z0-9_-]{16,}"), "<token>"),
    (re.compile(r"\bsk-[A-Za-z0-9_-]{20,}|\bAKIA[0-9A-Z]{16}\b"), "<token>"),
    (re.compile(r"\b(Bearer|Basic)\s+[A-Za-z0-9+/._~=-]{12,}", re.IGNORECASE), r"\1 <token>"),
    (re.compile(r"(\b[a-z][a-z0-9+.-]*://)[^\s/@:]+:[^\s/@]+@", re.IGNORECASE), r"\1<secret>@"),
    (re.compile(rf"\b((?:[A-Z0-9]+_)*{_WORD.upper()}(?:_[A-Z0-9]+)*)(\s*[=:]\s*)(?!<)\S+"), r"\1\2<secret>"),
)
_SHORTEST = 6
"""Shorter values stand in too many texts by chance: masking them would tell what they are."""


def looks_secret(name: str) -> bool:
    """Return whether a variable of this name holds something to be kept to oneself."""
    return _NAME.match(name) is not None


def secrets_of(environment: Mapping[str, str], names: Iterable[str] = ()) -> dict[str, str]:
    """Return the variables whose values are secret: by their own name, or because `names` lists them."""
    listed = set(names)
    return {
        name: value
        for name, value in environment.items()
        if len(value) >= _SHORTEST and (name in listed or (looks_secret(name) and not value.startswith("/")))
    }


class Masking:
    """Replaces each secret by its name, and what has the shape of one by a word."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        self._names = {value: f"<{name}>" for name, value in sorted(secrets.items(), reverse=True)}
        longest_first = sorted(self._names, key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None

    def text(self, text: str) -> str:
        """Return `text` without secrets."""
        if self._known is not None:
            text = self._known.sub(lambda found: self._names[found.group()], text)
        for shape, instead in _SHAPES:
            text = shape.sub(instead, text)
        return text

    def struct(self, value: E) -> E:
        """Return a struct in which every text is without secrets."""
        masked: E = msgspec.convert(self._walk(msgspec.to_builtins(value)), type(value))
        return masked

    def _walk(self, value: Any) -> Any:  # noqa: ANN401 -- plain JSON values
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {key: self._walk(part) for key, part in value.items()}
        if isinstance(value, list | tuple):
            return [self._walk(part) for part in value]
        return value
