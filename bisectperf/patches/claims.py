"""Assertions on a patched tree. A clean merge proves nothing: these decide."""

import ast
import hashlib
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from bisectperf.model import TreeId
from bisectperf.recipe.schema import Assertion
from bisectperf.repo import Edits, Store


class Claims:
    """Checks assertions on many trees; what a file says is looked at once per content."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._known: dict[tuple[Assertion, str], str] = {}

    def broken(self, trees: Sequence[TreeId], claims: Sequence[Assertion]) -> list[str]:
        """Return for each tree the first assertion that does not hold, in one clause; empty where all hold."""
        files = list(dict.fromkeys(claim.file for claim in claims))
        rows = self.store.entries(trees, files)
        ids = [{f: e.id for f, e in zip(files, row, strict=True) if e and e.mode != "040000"} for row in rows]
        self._look(ids, claims)
        return [self._first(row, claims) for row in ids]

    def _first(self, ids: dict[str, str], claims: Sequence[Assertion]) -> str:
        for claim in claims:
            said = self._known[claim, ids[claim.file]] if claim.file in ids else f"{claim.file} is not there"
            if said:
                return said
        return ""

    def _look(self, rows: Sequence[dict[str, str]], claims: Sequence[Assertion]) -> None:
        pairs = {(claim, row[claim.file]) for row in rows for claim in claims if claim.file in row}
        new = pairs - self._known.keys()
        data = self.store.blobs(id_ for _, id_ in new)
        self._known |= {(claim, id_): failure(data[id_], claim) for claim, id_ in new}


def failure(data: bytes, claim: Assertion) -> str:
    """Return what is wrong with `claim` on the file's bytes, in one clause, or the empty string when it holds."""
    if claim.sha256:
        found = hashlib.sha256(data).hexdigest()
        return "" if found == claim.sha256.lower() else f"{claim.file} has the sha256 {found}, not {claim.sha256}"
    if claim.text:
        there = claim.text.encode() in data
        verb = "lacks" if claim.present else "has"
        return "" if there == claim.present else f"{claim.file} {verb} the text {_short(claim.text)}"
    try:
        count = Counter(name for name, _, _ in definitions(data))[claim.symbol]
    except (SyntaxError, ValueError) as error:
        python = f"{sys.version_info.major}.{sys.version_info.minor}"
        return f"{claim.file} cannot be parsed by Python {python} ({error})"
    if count == claim.count:
        return ""
    return f"{claim.file} defines {claim.symbol} {_times(count)}, not {_times(claim.count)}"


def describe(claim: Assertion) -> str:
    """Return the assertion in words."""
    if claim.symbol:
        return f"{claim.symbol} is defined {_times(claim.count)} in {claim.file}"
    if claim.text:
        return f"{claim.file} {'has' if claim.present else 'lacks'} the text {_short(claim.text)}"
    return f"{claim.file} has the sha256 {claim.sha256[:16]}..."


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _short(text: str) -> str:
    line, _, rest = text.strip().partition("\n")
    return repr(line[:60] + ("..." if rest or len(line) > 60 else ""))


# -- Python -------------------------------------------------------------------------------------------------------


class Definition(NamedTuple):
    """A name bound in a module or class body: qualified name, line, and whether by `def` or `class`."""

    name: str
    line: int
    by_statement: bool


def definitions(data: bytes) -> list[Definition]:
    """Return what a Python file defines in its module and class bodies; raises `SyntaxError` or `ValueError`.

    All branches of `if` and `try` count: Python would run one of them, but a merge may have made both. The further
    parts of one symbol (`@overload`, `@name.setter`) do not; an assignment to the name does.
    """
    return list(_bound(ast.parse(data), ""))


def _bound(node: ast.AST, prefix: str) -> Iterator[Definition]:
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.ClassDef(name=name):
                yield Definition(prefix + name, child.lineno, by_statement=True)
                yield from _bound(child, f"{prefix}{name}.")
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                if not any(_is_further_part(decorator, name) for decorator in child.decorator_list):
                    yield Definition(prefix + name, child.lineno, by_statement=True)
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if not _mentions(value, name):
                yield Definition(prefix + name, child.lineno, by_statement=False)
            case ast.stmt() | ast.ExceptHandler() | ast.match_case():
                yield from _bound(child, prefix)


def _is_further_part(decorator: ast.expr, name: str) -> bool:
    match decorator:
        case ast.Name(id="overload") | ast.Attribute(attr="overload"):
            return True
        case ast.Attribute(value=ast.Name(id=owner), attr="setter" | "getter" | "deleter"):
            return owner == name
    return False


def _mentions(value: ast.expr, name: str) -> bool:
    """Return whether an assigned value is made of the name itself, as in `f = staticmethod(f)`."""
    return any(isinstance(node, ast.Name) and node.id == name for node in ast.walk(value))


# -- derived from a diff ------------------------------------------------------------------------------------------

_HUNK = re.compile(rb"^@@ -\S+ \+(\d+)(?:,(\d+))? @@", re.MULTILINE)


def derived(store: Store, before: TreeId, after: TreeId) -> tuple[Assertion, ...]:
    """Return assertions for what a diff adds.

    In a Python file: each definition on an added line, exactly once in its class or module. In a file without such
    definitions: the longest run of added lines, as text.
    """
    claims: list[Assertion] = []
    for path, entry in store.changes(before, after).items():
        if entry is None or not entry.mode.startswith("100"):
            continue
        data = store.blobs([entry.id])[entry.id]
        runs = _added(store, before, after, path)
        symbols = _added_symbols(data, runs) if path.endswith(".py") else []
        claims += [Assertion(file=path, symbol=name) for name in symbols]
        text = "" if symbols else _longest(data, runs)
        claims += [Assertion(file=path, text=text)] if text else []
    return tuple(claims)


def whole_files(store: Store, files: Edits) -> tuple[Assertion, ...]:
    """Return assertions that each of these files has exactly these bytes."""
    data = store.blobs(entry.id for entry in files.values() if entry)
    return tuple(
        Assertion(file=path, sha256=hashlib.sha256(data[entry.id]).hexdigest())
        for path, entry in files.items()
        if entry
    )


def _added(store: Store, before: TreeId, after: TreeId, path: str) -> list[range]:
    """Return the runs of added lines, by their numbers in the file afterwards."""
    argv = ("diff-tree", "-r", "-p", "-U0", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color")
    out = store.git(*argv, before, after, "--", f":(literal){path}")[1]
    found = [(int(first), int(count or 1)) for first, count in _HUNK.findall(out)]
    return [range(first, first + count) for first, count in found if count]


def _added_symbols(data: bytes, runs: Sequence[range]) -> list[str]:
    try:
        known = definitions(data)
    except (SyntaxError, ValueError):
        return []
    return list(dict.fromkeys(d.name for d in known if d.by_statement and any(d.line in run for run in runs)))


def _longest(data: bytes, runs: Sequence[range]) -> str:
    run = max(runs, key=len, default=range(0))
    try:
        text = b"\n".join(data.split(b"\n")[run.start - 1 : run.stop - 1]).decode()
    except UnicodeDecodeError:
        return ""
    return text if text.strip() else ""
