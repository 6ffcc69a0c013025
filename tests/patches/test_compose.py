"""A patch goes where it was meant to go, or the commit is untestable and says why; it never goes elsewhere."""

import pytest

from bisectperf.errors import UserError
from bisectperf.recipe.schema import Assertion

BODY = "        x = self.step()\n        y = self.step()\n        return x + y\n"
MODEL = (
    "import math\n\n\nclass Model:\n"
    f"    def first(self):\n{BODY}\n    def second(self):\n{BODY}\n    def last(self):\n{BODY}"
)
PATCHED = MODEL.replace("def second(self):\n        x = self.step()", "def second(self):\n        x = self.fast()")
METHOD = "\n    def added(self):\n        return 1\n"
ADDED = Assertion(file="m.py", symbol="Model.added")


def how(composed):
    return dict(composed.applied)


@pytest.fixture
def base(history, bench):
    sha = history.commit("base", {"m.py": MODEL, "other.py": "x = 1\n"})
    bench.diff("p.diff", {"m.py": PATCHED})
    return sha


def test_a_patch_is_applied_and_moves_with_its_function(history, bench, patch, base):
    history.commit("above", {"m.py": MODEL.replace("import math\n", "import math\n" + "import os\n" * 9)})
    stack = bench.open(patch(), good=base)
    for composed in stack.compose_many([c.sha for c in bench.commits]):
        assert how(composed) == {"p": "applied"}, composed.problem
        text = bench.text(composed.tree, "m.py")
        assert text.count("self.fast()") == 1
        assert text.index("def second") < text.index("self.fast()") < text.index("def last")


def test_a_patch_whose_function_is_gone_conflicts_and_is_not_put_into_another(history, bench, patch, base):
    first, rest = MODEL.split("    def second")
    gone = history.commit("no second", {"m.py": first + "    def last" + rest.split("    def last")[1]})
    composed = bench.open(patch(), good=base).compose(gone)
    assert composed.tree is None
    assert composed.problem == "patch 'p' conflicts in m.py"
    assert (composed.failed.kind, composed.failed.patch, composed.failed.where) == ("conflict", "p", "m.py")


def test_a_patch_follows_a_renamed_file_wherever_it_goes(history, bench, patch, base):
    places = ("models/m.py", "old/m.py")
    moves = [
        history.commit("moved", {"m.py": None, places[0]: MODEL}),
        history.commit("moved on", {places[0]: None, places[1]: MODEL}),
    ]
    stack = bench.open(patch(), good=base)
    # The derived assertion names the file where the patch was made: a rename is not proved by it.
    assert [c.failed.kind for c in stack.compose_many(moves)] == ["assertion", "assertion"]
    for sha, place in zip(moves, places, strict=True):
        claims = (Assertion(file=place, text="self.fast()"),)
        trees = [c.tree for c in bench.open(patch(assertions=claims), good=base).compose_many(moves)]
        assert [tree is not None for tree in trees] == [sha == moves[0], sha == moves[1]]
        assert bench.text(trees[moves.index(sha)], place) == PATCHED


def test_a_method_that_upstream_added_in_other_words_fails_the_assertion(history, bench, patch):
    base = history.commit("base", {"m.py": MODEL + "\n\nEnd = Model\n"})
    bench.diff("p.diff", {"m.py": MODEL + METHOD + "\n\nEnd = Model\n"})
    words = "    def added(self):\n        # in other words\n        return 2\n\n"
    doubled = history.commit(
        "upstream", {"m.py": MODEL.replace("    def first", words + "    def first") + "\n\nEnd = Model\n"}
    )
    stack = bench.open(patch(), good=base)
    assert how(stack.compose(base)) == {"p": "applied"}
    composed = stack.compose(doubled)
    assert composed.failed.kind == "assertion"
    assert composed.problem == "assertion failed: with patch 'p', m.py defines Model.added 2 times, not once"


def test_upstream_since_leaves_the_patch_out_and_still_asserts(history, bench, patch):
    base = history.commit("base", {"m.py": MODEL})
    bench.diff("p.diff", {"m.py": MODEL + METHOD})
    upstream = history.commit("upstream", {"m.py": MODEL.replace("    def first", METHOD[1:] + "\n    def first")})
    lost = history.commit("and lost", {"m.py": MODEL})
    stack = bench.open(patch(upstream_since=upstream), good=base)
    before, there, after = stack.compose_many([base, upstream, lost])
    assert how(before) == {"p": "applied"}
    assert how(there) == {"p": "upstream"}
    assert there.tree == bench.store.commit(upstream).tree
    assert after.failed.kind == "assertion"


def test_upstream_with_the_same_words_must_be_expected(history, bench, patch):
    base = history.commit("base", {"m.py": MODEL})
    bench.diff("p.diff", {"m.py": MODEL + METHOD})
    there = history.commit("upstream", {"m.py": MODEL + METHOD})
    assert how(bench.open(patch(may_be_upstream=True), good=base).compose(there)) == {"p": "upstream"}
    composed = bench.open(patch(), good=base).compose(there)
    assert composed.tree is None
    assert "may_be_upstream" in composed.problem


def test_a_merge_that_changes_nothing_is_no_proof(history, bench, patch):
    base = history.commit("base", {"m.py": MODEL})
    bench.diff("p.diff", {"m.py": MODEL + METHOD})
    there = history.commit("upstream", {"m.py": MODEL + METHOD})
    wanted = Assertion(file="m.py", symbol="Model.added", count=2)
    composed = bench.open(patch(may_be_upstream=True, assertions=(wanted,)), good=base).compose(there)
    assert composed.failed.kind == "unchanged"
    assert "defines Model.added once, not 2 times" in composed.problem


def test_a_patch_is_left_out_where_it_is_not_in_range(history, bench, patch, base):
    since = history.commit("since", {"other.py": "x = 2\n"})
    until = history.commit("until", {"other.py": "x = 3\n"})
    stack = bench.open(patch(since=since, until=until), good=base)
    assert [how(c)["p"] for c in stack.compose_many([base, since, until])] == [
        "not in range",
        "applied",
        "not in range",
    ]
    assert stack.compose(base).tree == bench.store.commit(base).tree


def test_ranges_count_by_ancestry_and_not_by_date(history, bench, patch, base):
    since = history.commit("since", {"other.py": "x = 2\n"})
    history.switch("side", base)
    side = history.commit("later, on a side", {"new.py": "x = 1\n"})
    stack = bench.open(patch(since=since), good=base, bad="main")
    assert how(stack.compose(side)) == {"p": "not in range"}
    assert how(stack.compose(side, onto=since)) == {"p": "applied"}


def test_a_commit_that_is_newer_than_the_clone_is_not_reached_yet(bench, patch, base):
    assert how(bench.open(patch(upstream_since="85f7a0aa" * 5), good=base).compose(base)) == {"p": "applied"}


def test_a_range_that_names_nothing_is_refused(bench, patch, base):
    with pytest.raises(UserError, match="names the commit v9"):
        bench.open(patch(since="v9"), good=base).compose(base)


def test_variants_take_their_parts_of_the_range(history, bench, patch, source, base):
    other = MODEL.replace("self.step()", "self.go()")
    rewritten = history.commit("rewritten", {"m.py": other})
    bench.diff(
        "v.diff",
        {
            "m.py": other.replace(
                "def second(self):\n        x = self.go()", "def second(self):\n        x = self.fast()"
            )
        },
    )
    claims = (Assertion(file="m.py", text="self.fast()"),)
    alone = bench.open(patch(assertions=claims), good=base)
    assert alone.compose(rewritten).failed.kind == "conflict"
    for variant in (source(diff="v.diff", since=rewritten), source(diff="v.diff")):
        stack = bench.open(patch(variants=(variant,), diff="p.diff", assertions=claims), good=base)
        assert [how(c)["p"] for c in stack.compose_many([base, rewritten])] == ["applied", "variant 1"]


def test_where_all_sources_fail_the_first_failure_is_told(history, bench, patch, source, base):
    bench.diff("v.diff", {"other.py": "x = 5\n"})
    broken = history.commit("broken", {"m.py": "", "other.py": "x = 7\n"})
    stack = bench.open(patch(diff="p.diff", variants=(source(diff="v.diff"),)), good=base)
    assert stack.compose(broken).problem == "patch 'p' conflicts in m.py"


def test_patches_stack_in_order(history, bench, patch):
    base = history.commit("base", {"m.py": MODEL})
    bench.diff("one.diff", {"m.py": MODEL + METHOD})
    history.write({"m.py": MODEL + METHOD})
    (bench.folder / "two.diff").write_text(
        "--- a/m.py\n+++ b/m.py\n@@ -20,2 +20,3 @@\n"
        "     def added(self):\n+        # patched twice\n         return 1\n"
    )
    history.git("checkout", "-q", "--", "m.py")
    history.switch("side", base)
    on = history.commit("with the first", {"m.py": MODEL + METHOD})
    history.switch("main")
    stack = bench.open(patch("one", diff="one.diff"), patch("two", diff="two.diff", base=on), good=base)
    composed = stack.compose(base)
    assert how(composed) == {"one": "applied", "two": "applied"}, composed.problem
    assert "patched twice" in bench.text(composed.tree, "m.py")


def test_the_second_patch_is_not_tried_after_the_first_failed(history, bench, patch, base):
    bench.diff("two.diff", {"other.py": "x = 5\n"})
    broken = history.commit("broken", {"m.py": ""})
    composed = bench.open(patch(), patch("two", diff="two.diff"), good=base).compose(broken)
    assert composed.applied == ()
    assert composed.failed.patch == "p"


def test_many_at_once_are_what_each_is_alone(history, bench, patch, base):
    for number in range(4):
        text = MODEL if number % 3 else MODEL.replace("import math", f"import m{number}")
        history.commit(f"c{number}", {"m.py": text, f"f{number}": "x"})
    history.commit("gone", {"m.py": None})
    history.commit("back", {"m.py": MODEL})
    stack = bench.open(patch(), good=base)
    shas = [c.sha for c in bench.commits] * 2
    together = stack.compose_many(shas)
    assert together == [bench.open(patch(), good=base).compose(sha) for sha in shas]
    assert [c.commit for c in together] == shas


def test_the_same_tree_travels_as_the_same_commit(bench, patch, base):
    stack = bench.open(patch(), good=base)
    tree = stack.compose(base).tree
    commit = stack.commit_of(tree)
    assert commit == bench.open(patch(), good=base).commit_of(tree)
    assert bench.store.commit(commit).tree == tree
    assert bench.store.commit(commit).parents == ()


def test_a_commit_is_taken_out_of_another(history, bench, patch, base):
    culprit = history.commit("culprit", {"slow.py": "slow\n", "m.py": MODEL.replace("import math", "import slow")})
    history.commit("later", {"other.py": "x = 2\n"})
    bad = history.commit("bad", {"other.py": "x = 3\n"})
    stack = bench.open(patch(), good=base)
    reverted = stack.revert(culprit, bad)
    assert how(reverted) == {"p": "applied"}
    assert bench.text(reverted.tree, "m.py") == PATCHED
    assert bench.store.blob(reverted.tree, "slow.py") is None
    assert bench.text(reverted.tree, "other.py") == "x = 3\n"
    rewritten = history.commit("rewritten", {"m.py": MODEL.replace("import math", "import fast")})
    stack = bench.open(patch(), good=base)
    assert stack.revert(culprit, rewritten).problem == "reverting it conflicts in m.py"


def test_nothing_of_the_user_changes(history, bench, patch, base):
    bench.script("s.sh", "#!/bin/sh\necho changed > other.py\n")
    history.write({"m.py": "dirty\n", "untracked": "x"})
    claim = (Assertion(file="other.py", text="changed"),)
    script = patch("s", script=("s.sh",), assertions=claim)
    before = history.snapshot()
    stack = bench.open(patch(), script, good=base)
    assert how(stack.compose(base)) == {"p": "applied", "s": "applied"}
    stack.commit_of(stack.compose(base).tree)
    assert history.snapshot() == before
