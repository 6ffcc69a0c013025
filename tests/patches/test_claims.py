"""Assertions: what Python's own parser counts, text, digests; and those derived from a diff."""

import hashlib
from collections import Counter

import pytest

from bisectperf.patches.claims import definitions, derived, describe, failure
from bisectperf.recipe.schema import Assertion

SOURCE = b"""
import functools
from typing import overload
def f(): pass
class A:
    def m(self):
        def inner(): pass
    async def n(self): pass
    if True:
        def cond(self): pass
    else:
        def cond(self): pass
    try:
        def tried(self): pass
    except Exception:
        tried = None
    @property
    def p(self): pass
    @p.setter
    def p(self, value): pass
    @overload
    def o(self, x: int): ...
    @overload
    def o(self, x: str): ...
    def o(self, x): pass
    def s(): pass
    s = staticmethod(s)
    class B:
        def m(self): pass
def f(): pass
text = "def quoted(): pass"
"""


def test_definitions_are_counted_in_their_own_class_or_module():
    counted = Counter(d.name for d in definitions(SOURCE))
    expected = {"f": 2, "A": 1, "A.m": 1, "A.n": 1, "A.cond": 2, "A.tried": 2, "A.p": 1, "A.o": 1, "A.s": 1}
    assert {name: counted[name] for name in expected} == expected
    assert counted["A.B.m"] == 1
    assert not {"inner", "A.m.inner", "quoted", "m"} & counted.keys()


@pytest.mark.parametrize(
    ("claim", "said"),
    [
        ({"symbol": "A.m"}, ""),
        ({"symbol": "A.gone"}, "f.py defines A.gone 0 times, not once"),
        ({"symbol": "f"}, "f.py defines f 2 times, not once"),
        ({"symbol": "f", "count": 2}, ""),
        ({"symbol": "gone", "count": 0}, ""),
        ({"text": "quoted"}, ""),
        ({"text": "absent"}, "f.py lacks the text 'absent'"),
        ({"text": "quoted", "present": False}, "f.py has the text 'quoted'"),
        ({"text": "absent", "present": False}, ""),
        ({"sha256": hashlib.sha256(SOURCE).hexdigest().upper()}, ""),
        ({"sha256": "00"}, f"f.py has the sha256 {hashlib.sha256(SOURCE).hexdigest()}, not 00"),
    ],
)
def test_each_kind_of_assertion(claim, said):
    assert failure(SOURCE, Assertion(file="f.py", **claim)) == said


@pytest.mark.parametrize("data", [b"def f(:\n", b"\xff\xfe\n", b"x = 1\0\n"])
def test_a_file_that_is_no_python_fails_and_says_so(data):
    assert "f.py cannot be parsed by Python 3." in failure(data, Assertion(file="f.py", symbol="f"))


def test_an_assertion_on_a_file_that_is_gone_fails_whatever_it_asks(history, bench, patch):
    good = history.commit("good", {"a.py": "x = 1\n"})
    bench.diff("p.diff", {"a.py": "x = 2\n"})
    for claim in ({"symbol": "x", "count": 0}, {"text": "x", "present": False}, {"sha256": "00"}):
        stack = bench.open(patch(assertions=(Assertion(file="gone.py", **claim),)), good=good)
        assert "gone.py is not there" in stack.compose(good).problem


def from_diff(history, bench, before, after):
    history.commit("before", before)
    history.commit("after", after)
    bench.open(good=history.git("rev-parse", "HEAD~1"))
    old, new = (commit.tree for commit in bench.commits)
    return {describe(claim) for claim in derived(bench.store, old, new)}


def test_added_definitions_are_asserted_once_in_their_class(history, bench):
    old = "class A:\n    def m(self):\n        pass\n\n    def changed(self):\n        pass\n"
    new = (
        old.replace("changed(self)", "changed(self, x)")
        + "\n    def new(self):\n        pass\n\n\ndef top():\n    pass\n"
    )
    found = from_diff(history, bench, {"a.py": old, "b.py": old}, {"a.py": new})
    assert found == {f"{name} is defined once in a.py" for name in ("A.changed", "A.new", "top")}


def test_other_files_are_asserted_by_the_longest_run_of_what_is_added(history, bench):
    old = "".join(f"line {n}\n" for n in range(20))
    new = old.replace("line 3\n", "one\n").replace("line 9\n", "first of two\nsecond of two\n")
    assert from_diff(history, bench, {"a.c": old, "x": "x\n"}, {"a.c": new, "x": None}) == {
        "a.c has the text 'first of two...'"
    }
