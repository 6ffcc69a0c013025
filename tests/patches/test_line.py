"""The searched line: equal code is one position, and a merge can be entered."""

import pytest

from bisectperf.model import Sha
from bisectperf.patches import draw_line, inner_line

CODE = ("src",)


def drawn(bench, stack, code=CODE, pins=("pins.toml",)):
    return draw_line(bench.store, stack, bench.commits, code=code, pins=pins)


def shape(line):
    return [position.commits for position in line.positions]


@pytest.fixture
def grown(history):
    """good, docs, code, docs, pin, code: six commits."""
    files = [
        {"src/a.py": "1\n", "pins.toml": "1\n"}, {"docs": "1\n"}, {"src/a.py": "2\n"},
        {"docs": "2\n"}, {"pins.toml": "2\n"}, {"src/b.py": "3\n"},
    ]  # fmt: skip
    return [Sha(history.commit(f"c{n}", change)) for n, change in enumerate(files)]


def test_commits_that_leave_the_code_alone_join_the_one_before(bench, grown):
    line = drawn(bench, bench.open(good=grown[0]))
    assert shape(line) == [tuple(grown[:2]), tuple(grown[2:4]), (grown[4],), (grown[5],)]
    assert [p.sha for p in line.positions] == [grown[0], grown[2], grown[4], grown[5]]
    assert line.positions[1].tree == bench.store.commit(grown[2]).tree
    assert line.positions[1].subject == "c2"


def test_without_code_paths_only_equal_trees_join(history, bench, grown):
    again = history.commit("empty")
    line = drawn(bench, bench.open(good=grown[0]), code=())
    assert shape(line) == [*((sha,) for sha in grown[:-1]), (grown[-1], again)]


def test_what_a_patch_levels_out_is_one_position(history, bench, patch):
    good = history.commit("good", {"src/a.py": "def f():\n    return 1\n", "x": "x\n"})
    bench.diff("p.diff", {"src/a.py": "def f():\n    return 1\n\n\ndef g():\n    return 2\n"})
    upstream = history.commit(
        "upstream adds the same", {"src/a.py": "def f():\n    return 1\n\n\ndef g():\n    return 2\n"}
    )
    line = drawn(bench, bench.open(patch(may_be_upstream=True), good=good))
    assert shape(line) == [(good, upstream)]


def test_untestable_neighbours_with_the_same_code_and_reason_join(history, bench, patch):
    good = history.commit("good", {"src/a.py": "def f():\n    return 1\n"})
    bench.diff("p.diff", {"src/a.py": "def f():\n    return 2\n"})
    broken = history.commit("rewritten", {"src/a.py": "def f():\n    return 3\n"})
    docs = history.commit("docs", {"docs": "x\n"})
    other = history.commit("other code", {"src/b.py": "x\n"})
    line = drawn(bench, bench.open(patch(), good=good))
    assert shape(line) == [(good,), (broken, docs), (other,)]
    assert {p.untestable for p in line.positions[1:]} == {"patch 'p' conflicts in src/a.py"}
    assert {p.tree for p in line.positions[1:]} == {None}


# -- inside a merge -----------------------------------------------------------------------------------------------


@pytest.fixture
def merged(history):
    """good - main1 - merge(side1, side2 docs, side3) - bad"""
    good = history.commit("good", {"src/a.py": "1\n", "src/b.py": "1\n"})
    history.switch("side", good)
    side = [history.commit("side1", {"src/a.py": "2\n"}), history.commit("side2", {"docs": "x\n"})]
    side.append(history.commit("side3", {"src/c.py": "1\n"}))
    history.switch("main")
    main = history.commit("main1", {"src/b.py": "2\n"})
    merge = history.merge("side")
    history.commit("bad", {"src/b.py": "3\n"})
    return good, side, main, merge


def test_a_merge_is_entered_by_what_it_brought(bench, merged):
    good, side, main, merge = merged
    stack = bench.open(good=good)
    outer = drawn(bench, stack)
    inner = inner_line(bench.store, stack, outer, merge, code=CODE)
    assert inner.inside == merge
    assert shape(inner) == [(main,), (side[0], side[1]), (side[2],)]
    assert [p.onto for p in inner.positions] == [None, main, main]
    first = inner.positions[1]
    assert bench.text(first.tree, "src/a.py") == "2\n"
    assert bench.text(first.tree, "src/b.py") == "2\n"
    by_sha = {p.sha: p for p in outer.positions}
    assert inner.positions[0] == by_sha[main]
    assert inner.positions[-1].tree == by_sha[merge].tree


def test_a_merge_that_changed_more_than_it_brought_is_its_own_last_suspect(history, bench):
    good = history.commit("good", {"src/a.py": "1\n"})
    history.switch("side", good)
    side = [history.commit("s1", {"src/s.py": "1\n"}), history.commit("s2", {"src/s.py": "2\n"})]
    history.switch("main")
    main = history.commit("main", {"src/m.py": "1\n"})
    history.git("merge", "-q", "--no-ff", "--no-commit", "side")
    merge = history.commit("evil merge", {"src/a.py": "slow\n"})
    stack = bench.open(good=good)
    inner = inner_line(bench.store, stack, drawn(bench, stack), merge, code=CODE)
    assert shape(inner) == [(main,), (side[0],), (side[1],), (merge,)]


def test_a_merge_inside_a_merge_is_entered_too(history, bench):
    good = history.commit("good", {"src/a.py": "1\n"})
    history.switch("deep", good)
    deep = [history.commit("deep1", {"src/d.py": "1\n"}), history.commit("deep2", {"src/d.py": "2\n"})]
    history.switch("side", good)
    side = history.commit("side1", {"src/s.py": "1\n"})
    inner_merge = history.merge("deep")
    history.switch("main")
    main = history.commit("main", {"src/m.py": "1\n"})
    merge = history.merge("side")
    stack = bench.open(good=good)
    outer = drawn(bench, stack)
    first = inner_line(bench.store, stack, outer, merge, code=CODE)
    assert shape(first) == [(main,), (side,), (inner_merge,)]
    second = inner_line(bench.store, stack, first, inner_merge, code=CODE)
    assert shape(second) == [(side,), (deep[0],), (deep[1],)]
    middle = second.positions[1].tree
    assert [bench.text(middle, f"src/{x}.py") for x in "msd"] == ["1\n", "1\n", "1\n"]
    assert second.positions[-1].tree == first.positions[-1].tree


def test_patches_are_on_inside_a_merge_as_well(bench, patch, merged):
    good, side, main, merge = merged
    bench.diff("p.diff", {"patched.txt": "on\n"}, base=good)
    stack = bench.open(patch(), good=good)
    inner = inner_line(bench.store, stack, drawn(bench, stack), merge, code=CODE)
    assert all(bench.text(p.tree, "patched.txt") == "on\n" for p in inner.positions)
    assert side
    assert main


def test_a_merge_of_nothing_cannot_be_entered(history, bench):
    good = history.commit("good", {"src/a.py": "1\n"})
    history.switch("side", good)
    history.commit("only docs", {"docs": "x\n"})
    history.switch("main")
    history.git("merge", "-q", "--no-ff", "--no-commit", "side")
    merge = history.commit("merge", {"src/a.py": "2\n"})
    stack = bench.open(good=good)
    assert inner_line(bench.store, stack, drawn(bench, stack), merge, code=CODE) is None
