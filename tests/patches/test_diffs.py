"""Whatever form a diff has, its base is found exactly, or the recipe's owner is asked for it."""

import pytest

from bisectperf.errors import UserError
from bisectperf.recipe.schema import Assertion

TEXT = "".join(f"line {n}\n" for n in range(30))
CHANGED = TEXT.replace("line 15\n", "patched\n")
PLAIN = "--- a/f.txt\n+++ b/f.txt\n@@ -15,3 +15,3 @@\n line 14\n-line 15\n+patched\n line 16\n"


def composed_text(bench, patch, good, sha, path="f.txt"):
    composed = bench.open(patch, good=good).compose(sha)
    assert composed.tree is not None, composed.problem
    return bench.text(composed.tree, path)


@pytest.mark.parametrize("argv", [(), ("--full-index",), ("--abbrev=4",), ("-U0",), ("--patience", "-U25")])
def test_git_diff_finds_the_commit_that_it_was_made_on(history, bench, patch, argv):
    good = history.commit("good", {"f.txt": TEXT.replace("line 14\n", "")})
    made_on = history.commit("base", {"f.txt": TEXT})
    bench.diff("p.diff", {"f.txt": CHANGED}, *argv)
    newer = history.commit("newer", {"f.txt": "first\n" * 5 + TEXT})
    assert composed_text(bench, patch(), good, made_on) == CHANGED
    assert composed_text(bench, patch(), good, newer) == "first\n" * 5 + CHANGED


def test_a_base_outside_of_the_range_is_found(history, bench, patch):
    made_on = history.commit("old", {"f.txt": TEXT})
    bench.diff("p.diff", {"f.txt": CHANGED})
    good = history.commit("good", {"f.txt": TEXT + "more\n"})
    assert made_on != good
    assert composed_text(bench, patch(), good, good) == CHANGED + "more\n"


def test_files_that_were_never_together_in_a_commit_are_a_base_too(history, bench, patch):
    history.commit("one", {"f.txt": TEXT, "g.txt": "old\n"})
    one = bench.diff("1.diff", {"f.txt": CHANGED})
    good = history.commit("two", {"f.txt": TEXT + "more\n", "g.txt": TEXT})
    two = bench.diff("2.diff", {"g.txt": CHANGED})
    (bench.folder / "p.diff").write_text(one + two)
    assert composed_text(bench, patch(), good, good) == CHANGED + "more\n"
    assert composed_text(bench, patch(), good, good, "g.txt") == CHANGED


def test_format_patch_is_read(history, bench, patch):
    good = history.commit("good", {"f.txt": TEXT})
    history.switch("mine", good)
    history.commit("my change", {"f.txt": CHANGED})
    (bench.folder / "p.diff").write_text(history.git("format-patch", "--stdout", "-1", "--base", good) + "\n")
    history.switch("main")
    assert composed_text(bench, patch(), good, history.commit("newer", {"f.txt": "x\n" + TEXT})) == "x\n" + CHANGED


def test_a_series_is_not_held_against_its_base_commit(history, bench, patch):
    good = history.commit("good", {"f.txt": TEXT})
    history.switch("mine", good)
    history.commit("first of two", {"f.txt": "new\n" + TEXT})
    history.commit("second of two", {"f.txt": "new\n" + CHANGED})
    (bench.folder / "p.diff").write_text(history.git("format-patch", "--stdout", "-1", "--base", good) + "\n")
    history.switch("main")
    assert composed_text(bench, patch(), good, good) == CHANGED


def test_a_plain_diff_holds_at_the_good_end(history, bench, patch):
    good = history.commit("good", {"f.txt": TEXT})
    (bench.folder / "p.diff").write_text(PLAIN)
    assert composed_text(bench, patch(), good, history.commit("newer", {"f.txt": "x\n" + TEXT})) == "x\n" + CHANGED


def test_a_plain_diff_that_fits_only_at_other_lines_is_refused(history, bench, patch):
    good = history.commit("good", {"f.txt": "x\n" + TEXT})
    (bench.folder / "p.diff").write_text(PLAIN)
    with pytest.raises(UserError, match="fits only at other lines") as seen:
        bench.open(patch(), good=good).compose(good)
    assert "`base`" in seen.value.hint


def test_a_plain_diff_holds_at_the_base_that_the_recipe_names(history, bench, patch):
    history.commit("old", {"f.txt": TEXT})
    history.git("tag", "v1")
    good = history.commit("good", {"f.txt": "x\n" + TEXT})
    (bench.folder / "p.diff").write_text(PLAIN)
    assert composed_text(bench, patch(base="v1"), good, good) == "x\n" + CHANGED
    with pytest.raises(UserError, match="its base v2 is no commit"):
        bench.open(patch(base="v2"), good=good).compose(good)


def test_a_diff_that_fits_nowhere_is_refused(history, bench, patch):
    good = history.commit("good", {"f.txt": "nothing like it\n"})
    (bench.folder / "p.diff").write_text(PLAIN)
    with pytest.raises(UserError, match=r"patch 'p': p\.diff does not fit"):
        bench.open(patch(), good=good).compose(good)


def test_a_plain_diff_that_only_deletes_needs_an_assertion(history, bench, patch):
    good = history.commit("good", {"f.txt": TEXT})
    (bench.folder / "p.diff").write_text(
        "--- a/f.txt\n+++ b/f.txt\n@@ -15,3 +15,2 @@\n line 14\n-line 15\n line 16\n"
    )
    with pytest.raises(UserError, match="neither what it was made on nor what it adds"):
        bench.open(patch(), good=good).compose(good)
    claim = Assertion(file="f.txt", text="line 15\n", present=False)
    assert "line 15" not in composed_text(bench, patch(assertions=(claim,)), good, good)


def test_new_deleted_binary_executable_and_linked_files_are_all_in_a_diff(history, bench, patch):
    good = history.commit("good", {"gone": "x\n", "b.bin": bytes(range(256)), "run": "#!/bin/sh\n", "a b": "x\n"})
    (history.folder / "run").chmod(0o755)
    (history.folder / "link").symlink_to("run")
    new = {"gone": None, "b.bin": bytes(reversed(range(256))), "dir/new file": "new\n", "a b": "y\n"}
    bench.diff("p.diff", new, "--binary")
    stack = bench.open(patch(), good=good)
    later = history.commit("later", {"c": "x\n"})
    tree = stack.compose(bench.open(patch(), good=good).compose(later).commit).tree
    rows = bench.store.entries([tree], ["gone", "b.bin", "run", "link", "dir/new file", "a b"])[0]
    assert [row and row.mode for row in rows] == [None, "100644", "100755", "120000", "100644", "100644"]
    assert bench.store.blob(tree, "b.bin") == bytes(reversed(range(256)))


def test_a_file_that_upstream_made_executable_stays_so(history, bench, patch):
    good = history.commit("good", {"f.txt": TEXT})
    bench.diff("p.diff", {"f.txt": CHANGED})
    (history.folder / "f.txt").chmod(0o755)
    executable = history.commit("executable")
    stack = bench.open(patch(), good=good)
    trees = [c.tree for c in stack.compose_many([good, executable])]
    assert [row[0].mode for row in bench.store.entries(trees, ["f.txt"])] == ["100644", "100755"]


def test_a_new_file_does_not_replace_what_stands_in_its_way(history, bench, patch):
    good = history.commit("good", {"f.txt": TEXT})
    bench.diff("p.diff", {"dir/new.txt": "new\n"})
    fine = history.commit("fine", {"dir/other": "x"})
    taken = history.commit("taken", {"dir/new.txt": "upstream's own\n"})
    history.git("rm", "-rq", "dir")
    blocked = history.commit("blocked", {"dir": "a file\n"})
    stack = bench.open(patch(), good=good)
    composed = stack.compose_many([good, fine, taken, blocked])
    assert [c.tree is not None for c in composed] == [True, True, False, False]
    assert {c.failed.kind for c in composed[2:]} == {"conflict"}


def test_windows_line_ends_are_kept(history, bench, patch):
    text = TEXT.replace("\n", "\r\n")
    history.git("config", "core.autocrlf", "false")
    good = history.commit("good", {"f.txt": text, ".gitattributes": "*.txt text eol=crlf -text\n"})
    bench.diff("p.diff", {"f.txt": text.replace("line 15", "patched")})
    composed = bench.open(patch(), good=good).compose(good)
    assert bench.store.blob(composed.tree, "f.txt") == text.replace("line 15", "patched").encode()


def test_a_diff_without_context_is_not_believed_about_other_files(history, bench, patch):
    history.commit("old", {"f.txt": TEXT})
    bench.diff("p.diff", {"f.txt": TEXT.replace("line 15\n", "line 15\nadded\n")}, "-U0")
    good = history.commit("good", {"f.txt": "x\n" + TEXT})
    with pytest.raises(UserError, match="does not fit"):
        bench.open(patch(base=good), good=good).compose(good)


def test_a_diff_that_changes_nothing_is_refused(history, bench, patch):
    good = history.commit("good", {"f.txt": TEXT})
    (bench.folder / "p.diff").write_text("--- a/f.txt\n+++ b/f.txt\n@@ -1,2 +1,2 @@\n line 0\n-line 1\n+line 1\n")
    with pytest.raises(UserError, match=r"changes nothing|does not fit"):
        bench.open(patch(), good=good).compose(good)
