"""Overlays refuse files that upstream changed; of a script only the tree counts that it leaves."""

from pathlib import Path

import pytest

from bisectperf.errors import UserError
from bisectperf.recipe.schema import Assertion

EDITED = (Assertion(file="f.txt", text="edited"),)


@pytest.fixture
def good(history):
    return history.commit("good", {"f.txt": "one\n", "g.txt": "one\n", ".gitignore": "*.log\n"})


# -- overlays -----------------------------------------------------------------------------------------------------


@pytest.fixture
def overlay(bench):
    folder = bench.folder / "over"
    (folder / "sub").mkdir(parents=True)
    (folder / "f.txt").write_text("overlaid\n")
    (folder / "sub" / "run").write_text("#!/bin/sh\n")
    (folder / "sub" / "run").chmod(0o755)
    (folder / "sub" / "link").symlink_to("run")
    return "over"


def test_an_overlay_is_laid_over_the_files_that_it_was_made_on(history, bench, patch, good, overlay):
    later = history.commit("elsewhere", {"g.txt": "two\n"})
    composed = bench.open(patch(overlay=overlay), good=good).compose(later)
    assert composed.applied == (("p", "applied"),)
    assert bench.text(composed.tree, "f.txt") == "overlaid\n"
    (row,) = bench.store.entries([composed.tree], ["sub/run", "sub/link"])
    assert [entry.mode for entry in row] == ["100755", "120000"]


def test_an_overlay_refuses_a_file_that_upstream_changed(history, bench, patch, good, overlay):
    changed = history.commit("changed", {"f.txt": "two\n"})
    stack = bench.open(patch(overlay=overlay), good=good)
    composed = stack.compose(changed)
    assert composed.tree is None
    assert (composed.failed.kind, composed.failed.where) == ("overlaid", "f.txt")
    stack = bench.open(patch(overlay=overlay, base=changed), good=good)
    assert stack.compose(changed).tree is not None
    assert stack.compose(good).tree is None


def test_an_overlay_refuses_a_file_that_upstream_added(history, bench, patch, good, overlay):
    added = history.commit("added", {"sub/run": "upstream's own\n"})
    assert bench.open(patch(overlay=overlay), good=good).compose(added).failed.where == "sub/run"


def test_an_empty_overlay_is_refused(bench, patch, good):
    (bench.folder / "over").mkdir()
    with pytest.raises(UserError, match="holds no file"):
        bench.open(patch(overlay="over"), good=good).compose(good)


# -- scripts ------------------------------------------------------------------------------------------------------


def composed_by(bench, patch, good, text, **fields):
    script = bench.script("edit.sh", "#!/bin/sh\n" + text)
    return bench.open(patch(script=script, **{"assertions": EDITED, **fields}), good=good).compose(good)


def test_a_scripts_tree_counts(bench, patch, good):
    composed = composed_by(
        bench, patch, good, "echo edited > f.txt; rm g.txt; mkdir d; echo x > d/new; chmod +x d/new\n"
    )
    assert composed.applied == (("p", "applied"),)
    changed = bench.store.changes(bench.store.commit(good).tree, composed.tree)
    assert {path: entry and entry.mode for path, entry in changed.items()} == {
        "f.txt": "100644",
        "g.txt": None,
        "d/new": "100755",
    }


def test_a_script_that_lies_makes_the_commit_untestable_with_its_words(bench, patch, good):
    composed = composed_by(bench, patch, good, "echo already present\n")
    assert composed.tree is None
    assert composed.claimed == "already present"
    assert composed.failed.kind == "unchanged"
    assert composed.problem == "patch 'p' changes nothing: f.txt lacks the text 'edited'; it said: 'already present'"


def test_a_script_that_does_something_else_fails_its_assertion(bench, patch, good):
    composed = composed_by(bench, patch, good, "echo x > g.txt; echo edited f.txt\n")
    assert composed.failed.kind == "assertion"
    assert composed.claimed == "edited f.txt"


def test_a_script_whose_work_is_upstream_already_must_be_expected(history, bench, patch, good):
    there = history.commit("upstream", {"f.txt": "edited\n"})
    assert composed_by(bench, patch, there, "true", may_be_upstream=True).applied == (("p", "upstream"),)
    assert "may_be_upstream" in composed_by(bench, patch, there, "true").problem


def test_a_script_that_fails_or_does_not_end_makes_the_commit_untestable(bench, patch, good):
    failed = composed_by(bench, patch, good, "echo edited > f.txt; echo no target >&2; exit 7\n")
    assert failed.problem == "the script of patch 'p' ended with status 7; it said: 'no target'"
    late = composed_by(bench, patch, good, "echo edited > f.txt; sleep 600\n", timeout=0.3)
    assert late.problem == "the script of patch 'p' did not end within 0.3 s"


def test_a_process_that_a_script_leaves_behind_holds_nobody_up(bench, patch, good, tmp_path):
    text = f"sleep 600 & echo $! > {tmp_path}/pid; setsid sleep 2 & echo edited > f.txt\n"
    assert composed_by(bench, patch, good, text).tree is not None
    pid = (tmp_path / "pid").read_text().strip()
    stat = Path(f"/proc/{pid}/stat")
    # Gone, or dead and not yet reaped.
    assert not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z"


def test_a_script_sees_neither_home_nor_repository_nor_secrets(bench, patch, good, monkeypatch, own_home):
    (own_home / "token").write_text("x")
    monkeypatch.setenv("HF_TOKEN", "secret")
    text = "ls -A ~ | grep . && exit 1; git log && exit 2; env | grep secret && exit 3; echo edited > f.txt\n"
    composed = composed_by(bench, patch, good, text)
    assert composed.tree is not None, composed.problem


def test_ignored_files_are_no_part_of_the_tree(bench, patch, good):
    composed = composed_by(bench, patch, good, "echo edited > f.txt; echo x > run.log\n")
    assert list(bench.store.changes(bench.store.commit(good).tree, composed.tree)) == ["f.txt"]


def test_files_that_a_script_writes_as_they_were_keep_their_bytes(history, bench, patch):
    history.git("config", "core.autocrlf", "false")
    history.commit("plain", {"crlf.txt": b"a\r\nb\r\n", "id.txt": b"$Id$\n", "f.txt": b"one\n"})
    history.write({".gitattributes": "*.txt text ident\n"})
    history.git("add", ".gitattributes")
    history.git("commit", "-q", "-m", "from here on git would convert them")
    good = history.git("rev-parse", "HEAD")
    text = "for f in crlf.txt id.txt; do cp $f copy; cat copy > $f; rm copy; done; echo edited > f.txt\n"
    composed = composed_by(bench, patch, good, text)
    assert list(bench.store.changes(bench.store.commit(good).tree, composed.tree)) == ["f.txt"]


def test_a_script_needs_an_assertion(bench, patch, good):
    with pytest.raises(UserError, match="script without an assertion"):
        composed_by(bench, patch, good, "true", assertions=())


def test_a_script_that_cannot_be_started_is_the_users_matter(bench, patch, good):
    bench.script("edit.sh", "#!/bin/sh\n")
    (bench.folder / "edit.sh").chmod(0o644)
    for script in (("no-such-command",), ("edit.sh",)):
        with pytest.raises(UserError, match="cannot be run"):
            bench.open(patch(script=script, assertions=EDITED), good=good).compose(good)
