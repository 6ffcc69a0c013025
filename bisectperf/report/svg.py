"""The charts as inline SVG: their own ids, CSS colours, and words for those who do not see them."""

import re
from collections.abc import Sequence
from html import escape

import matplotlib as mpl

from bisectperf.report.chart import PALETTE, SETTINGS, anchors_figure, range_figure, saved
from bisectperf.report.view import Row, anchors
from bisectperf.report.words import clean, in_unit, number, short
from bisectperf.state import State


def range_svg(state: State, line: int, table: Sequence[Row], size: tuple[float, float], name: str) -> str:
    """Return the chart of one line as inline SVG whose ids begin with `name`; `table` holds the line's rows."""
    with mpl.rc_context(SETTINGS):
        return inline(saved(range_figure(state, line, table, size), "svg"), name, *_said(state, table))


def anchors_svg(state: State, size: tuple[float, float], name: str) -> str:
    """Return the ends over time as inline SVG whose ids begin with `name`."""
    good, bad = anchors(state)
    about = f"{len(good)} launches of the good end and {len(bad)} of the bad end"
    with mpl.rc_context(SETTINGS):
        return inline(saved(anchors_figure(state, size), "svg"), name, "The ends over time", about)


def _said(state: State, table: Sequence[Row]) -> tuple[str, str]:
    """Return the chart's title and its description in words."""
    known = [
        f"candidate {r.index} ({short(r.sha)}) {number(in_unit(r.level.value, state.asked.metric))}"
        for r in table
        if r.level is not None
    ]
    broken = sum(bool(r.reason) for r in table)
    about = f"Mean per candidate in {state.asked.metric.unit}: {', '.join(known[:40]) or 'nothing measured yet'}."
    return "Launches over the range", clean(f"{about} {broken} untestable.")


def inline(svg: bytes, name: str, title: str, about: str) -> str:
    """Return matplotlib's SVG as an element of a page; a stylesheet inside would restyle the page, so it goes."""
    text = svg.decode()
    text = text[text.index("<svg") :]
    text = re.sub(r"<(metadata|style)\b.*?</\1>\s*", "", text, flags=re.DOTALL)
    text = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", text)
    for role, colour in PALETTE.items():
        text = text.replace(colour, f"var(--{role}, {colour})")
    words = f'<title id="{name}-t">{escape(title)}</title><desc id="{name}-d">{escape(about)}</desc>'
    text = re.sub(r'<svg ([^>]*?)width="[^"]*"', r"<svg \1", text, count=1)
    text = re.sub(r'<svg ([^>]*?)height="[^"]*"', r"<svg \1", text, count=1)
    head, rest = text.split(">", 1)
    return f'{head} role="img" aria-labelledby="{name}-t {name}-d">{words}{rest}'
