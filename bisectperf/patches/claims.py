"""Assertions on a patched tree. A clean merge proves nothing: these decide."""

import ast
import hashlib
from collections import Counter
from collections.abc import Iterator

import msgspec

from bisectperf.recipe.schema import Assertion
from bisectperf.repo import Store


def failure(store: Store, tree: str, claim: Assertion) -> str:
    """Return what is wrong with `claim` on `tree`, in one clause, or the empty string when it holds."""
    data = store.blob(tree, claim.file)
    if data is None:
        return f"{claim.file} is not there"
    if claim.sha256:
        found = hashlib.sha256(data).hexdigest()
        return "" if found == claim.sha256.lower() else f"{claim.file} has the sha256 {found[:16]}..."
    if claim.text:
        there = claim.text.encode() in data
        if there == claim.present:
            return ""
        return f"{claim.file} {'lacks' if claim.present else 'has'} the text {claim.text!r}"
    try:
        count = definitions(data)[claim.symbol]
    except SyntaxError as error:
        return f"{claim.file} is not valid Python (line {error.lineno})"
    if count == claim.count:
        return ""
    return f"{claim.file} defines {claim.symbol} {count} times, not {claim.count}"


def describe(claim: Assertion) -> str:
    """Return the assertion in words."""
    if claim.symbol:
        return f"{claim.symbol} is defined {'once' if claim.count == 1 else f'{claim.count} times'} in {claim.file}"
    if claim.text:
        return f"{claim.file} {'has' if claim.present else 'lacks'} the text {claim.text!r}"
    return f"{claim.file} has the sha256 {claim.sha256[:16]}..."


def definitions(data: bytes) -> Counter[str]:
    """Return how often each class, function and method is defined, by qualified name.

    Definitions in the branches of `if` and `try` count: Python would run one of them, a merge may have made both.
    Raises `SyntaxError`.
    """
    return Counter(_names(ast.parse(data), ""))


def _names(node: ast.AST, prefix: str) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            name = prefix + child.name
            yield name
            if isinstance(child, ast.ClassDef):
                yield from _names(child, name + ".")
        elif not isinstance(child, ast.expr):
            yield from _names(child, prefix)


def derived(store: Store, before: str, after: str) -> tuple[Assertion, ...]:
    """Return assertions for what a patch adds: each new definition in a Python file, exactly once."""
    changed = store.git("diff-tree", "-r", "-z", "--name-only", "--no-renames", "--diff-filter=AM", before, after)[1]
    claims = []
    for path in changed.decode(errors="surrogateescape").split("\0"):
        if not path.endswith(".py"):
            continue
        try:
            old = definitions(store.blob(before, path) or b"")
            new = definitions(store.blob(after, path) or b"")
        except SyntaxError:
            continue
        added = [name for name in new if new[name] > old[name]]
        claims += [Assertion(file=path, symbol=name, count=new[name]) for name in added]
    return tuple(claims)


class Broken(msgspec.Struct, frozen=True):
    """An assertion that does not hold."""

    claim: Assertion
    said: str
