"""The page: one file that asks for nothing, safe whatever a commit says, readable without seeing it."""

import re
from html.parser import HTMLParser

import pytest

from bisectperf.report.html import to_html

VOID = {"meta", "link", "br", "img", "input", "hr"}
HOSTILE = r"Fix <script>alert(1)</script> & \x1b[2J\x1b]0;owned\x07 \u202egnp.exe"


class Page(HTMLParser):
    """Every element with its attributes, the text, and the names of headings; fails on unbalanced tags."""

    def __init__(self, source):
        super().__init__()
        self.elements, self.text, self.open = [], "", []
        self.feed(source)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data

    def all(self, tag):
        return [attrs for name, attrs in self.elements if name == tag]


def page_of(script):
    state = script.state()
    return Page(to_html(state, state.last + 60))


@pytest.fixture(scope="session")
def source_of():
    """Return a function that gives a night's page by the night's name, drawn once."""
    drawn = {}

    def source(name, script):
        if name not in drawn:
            state = script.state()
            drawn[name] = to_html(state, state.last + 60)
        return drawn[name]

    return source


def test_no_request_leaves_the_page_and_no_script_runs(name, night, source_of):
    source = source_of(name, night)
    page = Page(source)
    assert page.all("script") == []
    for tag, attrs in page.elements:
        assert not [attr for attr in attrs if attr.startswith("on")]
        for source_attribute in ("src", "href", "xlink:href", "action", "data", "poster"):
            assert attrs.get(source_attribute, "#").startswith(("#", "data:")), (tag, attrs)
    assert "@import" not in source
    assert set(re.findall(r"url\((.)", source)) <= {"#"}


def test_the_page_refreshes_itself_only_while_the_run_goes_on(name, night, source_of):
    state = night.state()
    refresh = [m for m in Page(source_of(name, night)).all("meta") if m.get("http-equiv") == "refresh"]
    assert bool(refresh) == (state.decided is None and state.stopped is None)


def test_what_is_drawn_is_also_said(name, night, source_of):
    page = Page(source_of(name, night))
    ids = [attrs["id"] for _, attrs in page.elements if "id" in attrs]
    assert len(ids) == len(set(ids))
    charts = [attrs for attrs in page.all("svg") if "aria-hidden" not in attrs]
    for chart in charts:
        assert chart["role"] == "img"
        assert set(chart["aria-labelledby"].split()) <= set(ids)
    assert len(page.all("caption")) == len(page.all("table"))
    assert len(page.all("h1")) == 1


def test_hostile_words_stay_text(hostile_night):
    state = hostile_night.state()
    source = to_html(state, state.last)
    page = Page(source)
    assert HOSTILE in page.text
    assert page.all("script") == page.all("img") == []
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", source)


@pytest.mark.parametrize(
    ("which", "words"),
    [
        ("first-bad", ["First bad commit found", "99.7\u00a0%", "interleaved", "bisectperf reproduce"]),
        ("among-untestable", ["conflict in kimi.py"]),
        ("running", ["the job was lost on the host", "server and benchmark"]),
        ("environment-changed", ["1 fact changed", "575.51.03"]),
        ("descending", ["Inside the merge", "side branch, part 2", "The range"]),
        ("same-with-itself", ["The two revisions", "same code"]),
        ("before-the-line", ["The line is being drawn", "Nothing was measured yet"]),
    ],
)
def test_the_page_says_what_was_found(nights, source_of, which, words):
    text = Page(source_of(which, nights[which]())).text
    assert [word for word in words if word not in text] == []


def test_raw_repetitions_are_there_on_demand(nights, source_of):
    script = nights["first-bad"]()
    state = script.state()
    page = Page(source_of("first-bad", script))
    assert len(page.all("details")) == len(state.launches)
    first = state.measured()[0]
    assert f"{first.samples.repetitions[0]:.1f}, {first.samples.repetitions[1]:.1f}" in page.text


def test_a_long_range_is_shortened_without_losing_a_launch(nights, source_of):
    long = nights["long-range"]()
    page = Page(source_of("long-range", long))
    assert len(page.all("tr")) < 60
    assert "candidates without launches" in page.text
    for launch in long.state().launches.values():
        assert launch.sha[:9] in page.text


def test_an_old_journal_gives_the_same_page(nights, source_of):
    state = nights["first-bad"]().state()
    assert to_html(state, state.last + 1e6) == source_of("first-bad", nights["first-bad"]())


def test_one_tree_on_both_sides_is_called_impossible(nights, source_of):
    assert "same patched tree" not in source_of("first-bad", nights["first-bad"]())
    script = nights["first-bad"]()
    line = script.events[1].line
    twin = line.positions[8].tree
    script.events[1] = type(script.events[1])(
        at=script.events[1].at,
        line=type(line)(
            positions=tuple(
                p if k != 9 else type(p)(commits=p.commits, tree=twin, subject=p.subject)
                for k, p in enumerate(line.positions)
            )
        ),
    )
    assert "same patched tree: the code cannot have made the difference" in page_of(script).text
