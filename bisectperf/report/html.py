"""The HTML report: one file that asks for nothing else, refreshes itself while the run goes on, without scripts."""

from typing import Any

import jinja2
from markupsafe import Markup, escape

from bisectperf import __version__
from bisectperf.report import svg, words
from bisectperf.report.chart import NARROW, WIDE
from bisectperf.report.environment import environment
from bisectperf.report.excerpt import slots, stretches
from bisectperf.report.proof import again, bundle
from bisectperf.report.text import DOING, level_text, so_far
from bisectperf.report.verdict import advice, details, headline
from bisectperf.report.view import anchors, effect_of, elapsed, phase, posterior_of, rows, verdict_on
from bisectperf.state import Launch, State

REFRESH = 15
"""Seconds between two looks of a page whose run goes on."""


def to_html(state: State, now: float) -> str:
    """Return the whole page; `now` only shows in the elapsed time of a run that goes on."""
    page = _environment().get_template("report.html.j2")
    shown = phase(state)
    return page.render(
        state=state,
        plan=state.asked,
        metric=state.asked.metric,
        phase=shown,
        refresh=REFRESH if shown == "running" else None,
        now=now,
        version=__version__,
        headline=headline(state.decided, state),
        sentence=so_far(state),
        details=details(state.decided, state) if state.decided is not None else [],
        advice=advice(state.decided, state),
        figures=_figures(state, now),
        lines=[_line(state, k) for k in reversed(range(len(state.lines)))],
        ends=_ends(state),
        launches=[_launch(x, state) for x in state.launches.values()],
        environment=environment(state),
        proof=bundle(state),
        again=again(state),
    )


def _environment() -> jinja2.Environment:
    """Return jinja2 with escaping, and with every text made visible by `clean` on its way out."""
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("bisectperf.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    made.filters |= {
        "block": lambda text: Markup(escape(words.clean_block(text))),  # noqa: S704 -- escaped right here
        "short": words.short,
        "moment": words.moment,
        "duration": words.duration,
        "probability": words.probability,
        "count": words.count,
        "coded": _coded,
    }
    return made


def _shown(value: object) -> object:
    """Return what an expression of the template puts on the page; a number is not parted from its percent sign."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return words.clean(value).replace(" %", "\u00a0%")
    return value


def _coded(text: str) -> Markup:
    """Return `text` with what stands between backticks as code."""
    parts = [escape(words.clean(part)) for part in text.split("`")]
    return Markup("").join(Markup("<code>{}</code>").format(p) if k % 2 else p for k, p in enumerate(parts))


def _figures(state: State, now: float) -> list[tuple[str, str, str]]:
    """Return the figures under the sentence: (name, value, what stands beside it)."""
    metric, verdict = state.asked.metric, state.decided
    found = []
    effect = effect_of(verdict)
    if effect is not None:
        value = words.percent(words.change(effect.value, metric))
        found.append((f"change of {metric.name}", value, words.interval(effect, metric)))
    sure = getattr(verdict, "posterior", None)
    if sure is not None:
        found.append(("probability", words.probability(sure), f"asked for {100 * state.asked.confidence:g} %"))
    counted, void = len(state.measured()), sum(x.status == "void" for x in state.launches.values())
    found.append(("launches", str(counted), f"{void} void, {state.asked.repetitions} repetitions each"))
    if state.lines:
        positions = state.lines[0].positions
        measured = {x.tree for x in state.measured()}
        tried = sum(position.tree in measured for position in positions)
        commits = sum(len(position.commits) for position in positions)
        found.append(("candidates", f"{tried} of {len(positions)}", f"measured, {words.count(commits, 'commit')}"))
    found.append(("time", words.duration(elapsed(state, now)), f"since {words.moment(state.began)}"))
    return found


def _line(state: State, k: int) -> dict[str, Any]:
    """Return one searched line with its charts and its table."""
    table = rows(state, k)
    weights = posterior_of(state) if k == len(state.lines) - 1 else None
    return {
        "name": f"line{k}",
        "title": _title(state, k),
        "charts": _charts(svg.range_svg, state, k, table, f"line{k}") if any(row.launches for row in table) else [],
        "places": slots(table),
        "none": None if weights is None else weights.none,
        "decided": verdict_on(state, k),
        "stretches": stretches(table),
        "level": lambda row: level_text(row.level, state),
    }


def _title(state: State, k: int) -> str:
    inside = state.lines[k].inside
    if inside is not None:
        return f"Inside the merge {words.named(state, inside)}"
    return "The two revisions" if state.asked.mode == "compare" else "The range"


def _charts(draw: Any, *args: Any) -> list[tuple[str, Markup]]:  # noqa: ANN401 -- one of two drawing functions
    """Return a chart for wide and for narrow pages; the style sheet shows one of them."""
    *before, name = args
    drawn = [(kind, draw(*before, size, f"{name}-{kind}")) for kind, size in (("wide", WIDE), ("narrow", NARROW))]
    return [(kind, Markup(text)) for kind, text in drawn]  # noqa: S704 -- made and escaped by svg.inline


def _ends(state: State) -> dict[str, Any] | None:
    good, bad = anchors(state)
    if len(good) + len(bad) < 3:
        return None
    return {
        "charts": _charts(svg.anchors_svg, state, "ends"),
        "notes": [note for note in state.notes if note.kind == "drift"],
    }


def _launch(launch: Launch, state: State) -> dict[str, Any]:
    metric = state.asked.metric
    value = "" if launch.value is None else words.quantity(words.in_unit(launch.value, metric), metric)
    return {
        "it": launch,
        "value": value,
        "status": DOING.get(launch.status, launch.status),
        "subject": words.subject_of(state, launch.sha),
        "seconds": [(name, words.duration(seconds)) for name, seconds in launch.seconds.items()],
        "numbers": lambda values: ", ".join(map(words.number, values)),
    }
