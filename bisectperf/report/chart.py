"""The charts, by matplotlib: every launch over the commits with the probabilities below, and the ends over time.

Only this module knows matplotlib. In SVG each colour is a CSS variable with the light colour as its fallback, so
that a page can recolour one drawing for dark screens; text stays text.
"""

import io
import math
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from bisectperf.model import AnyVerdict, FirstBad, FirstBadAmong, SeveralChanges, Sha
from bisectperf.report.excerpt import Slot, slots
from bisectperf.report.view import Row, anchors, happened, rows, verdict_on
from bisectperf.report.words import clean, in_unit, short
from bisectperf.state import State

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PALETTE = {
    "ink": "#1c2128",
    "muted": "#57606a",
    "rule": "#d0d7de",
    "launch": "#0969da",
    "good": "#0f7b5c",
    "bad": "#b34a00",
    "void": "#76569b",
    "paper": "#fefefe",
}
SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "bisectperf",
    "text.parse_math": False,
    "font.family": "sans-serif",
    "font.size": 8.5,
    "axes.edgecolor": PALETTE["rule"],
    "axes.labelcolor": PALETTE["muted"],
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": PALETTE["muted"],
    "ytick.color": PALETTE["muted"],
    "text.color": PALETTE["ink"],
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "legend.frameon": False,
    "legend.handlelength": 1.2,
    "legend.handletextpad": 0.4,
    "legend.columnspacing": 1.2,
    "legend.fontsize": 8,
}
WIDE, NARROW = (8.0, 4.4), (3.7, 4.8)


# -- drawing --------------------------------------------------------------------------------------------------


def range_figure(state: State, line: int, table: Sequence[Row], size: tuple[float, float]) -> Figure:
    """Return the chart of one line from its rows: launches, levels with intervals, bands, step; probabilities."""
    figure = Figure(figsize=size, layout="constrained")
    places = slots(table)
    if state.asked.mode == "compare" or all(row.probability is None for row in table):
        top = figure.subplots()
        _axis_of_places(top, places, state)
    else:
        top, below = figure.subplots(2, sharex=True, height_ratios=(3, 1))
        _probabilities(below, places)
        _axis_of_places(below, places, state)
    _bands(top, table, state)
    _launches(top, places, state)
    _gaps_in_knowledge(top, places)
    _step(top, places, verdict_on(state, line), table, state)
    _axis_of_levels(top, state)
    handles, labels = top.get_legend_handles_labels()
    if handles:
        figure.legend(handles, labels, loc="outside upper left", ncols=2 if size == NARROW else 7)
    return figure


def _bands(axes: "Axes", table: Sequence[Row], state: State) -> None:
    metric = state.asked.metric
    names = ("A", "B") if state.asked.mode == "compare" else ("good end", "bad end")
    for row, colour, name in zip((table[0], table[-1]), ("good", "bad"), names, strict=True):
        if row.level is None or not math.isfinite(row.level.high):
            continue
        low, high = (in_unit(x, metric) for x in (row.level.low, row.level.high))
        axes.axhspan(low, high, facecolor=PALETTE[colour], alpha=0.18, linewidth=0, label=f"{name}, 95 %")


def _launches(axes: "Axes", places: Sequence[Slot], state: State) -> None:
    metric = state.asked.metric
    xs, ys, at, means, errors = [], [], [], [], ([], [])  # type: ignore[var-annotated]
    for x, slot in enumerate(places):
        row = slot.row
        if row is None or row.level is None:
            continue
        count = len(row.counted)
        for k, launch in enumerate(row.counted):
            xs.append(x + (0.36 * (k + 0.5) / count - 0.18 if count > 1 else 0.0))
            ys.append(in_unit(launch.value or 0.0, metric))
        at.append(x)
        means.append(in_unit(row.level.value, metric))
        ends = sorted(in_unit(v, metric) for v in (row.level.low, row.level.high))
        known = math.isfinite(row.level.high)
        errors[0].append(means[-1] - ends[0] if known else 0.0)
        errors[1].append(ends[1] - means[-1] if known else 0.0)
    if not xs:
        return
    axes.errorbar(
        at, means, yerr=errors, fmt="_", color=PALETTE["ink"], markersize=9, elinewidth=1.1, label="mean, 95 %"
    )
    axes.plot(xs, ys, "o", color=PALETTE["launch"], markersize=3.6, alpha=0.85, markeredgewidth=0, label="one launch")


def _gaps_in_knowledge(axes: "Axes", places: Sequence[Slot]) -> None:
    """Mark what could not be measured along the bottom, and void launches along the top."""
    broken = [x for x, slot in enumerate(places) if slot.row is not None and slot.row.reason]
    for k, x in enumerate(broken):
        axes.axvspan(
            x - 0.5,
            x + 0.5,
            facecolor=PALETTE["muted"],
            alpha=0.22,
            linewidth=0,
            label="untestable" if k == 0 else None,
        )
    void = [x for x, slot in enumerate(places) if slot.row is not None for _ in slot.row.void]
    if void:
        axes.plot(
            void,
            [0.97] * len(void),
            "v",
            transform=axes.get_xaxis_transform(),
            color=PALETTE["void"],
            markerfacecolor="none",
            markersize=5,
            label="void launch",
        )


def _step(
    axes: "Axes", places: Sequence[Slot], verdict: AnyVerdict | None, table: Sequence[Row], state: State
) -> None:
    """Draw the levels that the verdict claims, with the commits that it names."""
    where = {slot.row.sha: x for x, slot in enumerate(places) if slot.row is not None}
    steps = _steps(verdict)
    start = table[0].level
    if not steps or start is None or any(sha not in where for step in steps for sha in _shas(step)):
        return
    metric = state.asked.metric
    xs, ys, height = [-0.4], [start.value], start.value
    for step in steps:
        spot = [where[sha] for sha in _shas(step)]
        xs += [min(spot) - 0.5, max(spot) - 0.5 if len(spot) == 1 else max(spot)]
        ys += [height, height + step.effect.value]
        height += step.effect.value
        name = short(_shas(step)[0]) + (" …" if len(spot) > 1 else "")
        axes.annotate(
            name,
            (min(spot) - 0.5, 1.0),
            xycoords=axes.get_xaxis_transform(),
            ha="right" if min(spot) > len(places) / 2 else "left",
            va="bottom",
            color=PALETTE["bad"],
            fontweight="bold",
        )
    axes.plot(
        [*xs, len(places) - 0.6],
        [in_unit(y, metric) for y in [*ys, height]],
        color=PALETTE["bad"],
        linewidth=1.4,
        label="verdict",
    )


def _steps(verdict: AnyVerdict | None) -> tuple[FirstBad | FirstBadAmong, ...]:
    match verdict:
        case FirstBad() | FirstBadAmong():
            return (verdict,)
        case SeveralChanges(steps=steps):
            return steps
        case _:
            return ()


def _shas(step: FirstBad | FirstBadAmong) -> tuple[Sha, ...]:
    return (step.sha,) if isinstance(step, FirstBad) else step.commits


def _probabilities(axes: "Axes", places: Sequence[Slot]) -> None:
    colours = [PALETTE["launch"] if slot.row is not None else PALETTE["muted"] for slot in places]
    axes.bar(range(len(places)), [100 * slot.probability for slot in places], width=0.8, color=colours)
    axes.set_ylabel("P(first bad), %")
    axes.set_ylim(0, 105)
    axes.set_yticks([0, 50, 100])


def _axis_of_places(axes: "Axes", places: Sequence[Slot], state: State) -> None:
    axes.set_xlim(-0.7, len(places) - 0.3)
    if state.asked.mode == "compare":
        names = [f"{side}  {short(p.row.sha)}" if p.row else "" for side, p in zip("AB", places, strict=False)]
        axes.set_xticks(range(len(places)), names)
        return
    shortened = ", unknown stretches shortened" if any(slot.row is None for slot in places) else ""
    axes.set_xlabel(f"candidate (0 is the good end{shortened})")
    known = [x for x, slot in enumerate(places) if slot.row is not None]
    ticks = known[:: math.ceil(len(known) / 13)]
    axes.set_xticks(ticks, [str(places[x].members[0].index) for x in ticks])


def _axis_of_levels(axes: "Axes", state: State) -> None:
    metric = state.asked.metric
    values = [in_unit(x.value, metric) for x in state.measured() if x.value is not None]
    if values and max(values) > 5 * min(values):
        axes.set_yscale("log")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.5g}"))
    axes.grid(axis="y", color=PALETTE["rule"], linewidth=0.6, alpha=0.7)
    axes.set_axisbelow(True)
    axes.set_ylabel(f"{clean(metric.name)}, {clean(metric.unit)}")


def anchors_figure(state: State, size: tuple[float, float]) -> Figure:
    """Return the launches of both ends over time: a level that wanders is the environment, not the code."""
    figure = Figure(figsize=(size[0], size[1] * 0.55), layout="constrained")
    axes = figure.subplots()
    sides = list(zip(("good end", "bad end"), ("good", "bad"), "os", anchors(state), strict=True))
    moments = [happened(x) for *_, launches in sides for x in launches]
    hours = max(moments, default=0.0) - min(moments, default=0.0) > 7200
    unit, seconds = ("hours", 3600) if hours else ("minutes", 60)
    for name, colour, marker, launches in sides:
        xs = [(happened(x) - state.began) / seconds for x in launches]
        ys = [in_unit(x.value or 0.0, state.asked.metric) for x in launches]
        axes.plot(xs, ys, marker + "-", color=PALETTE[colour], markersize=4, linewidth=0.8, label=name)
    axes.set_xlabel(f"{unit} since the start")
    _axis_of_levels(axes, state)
    figure.legend(loc="outside upper left", ncols=2)
    return figure


# -- writing --------------------------------------------------------------------------------------------------


def to_png(state: State) -> bytes:
    """Return the chart of the line in hand alone, as PNG on white."""
    with mpl.rc_context({**SETTINGS, "figure.facecolor": PALETTE["paper"]}):
        return saved(range_figure(state, -1, rows(state), WIDE), "png")


def saved(figure: Figure, kind: str) -> bytes:
    """Return the figure as a file of `kind`, the same bytes for the same figure."""
    out = io.BytesIO()
    metadata = {"Date": None, "Creator": None, "Format": None, "Type": None} if kind == "svg" else None
    with warnings.catch_warnings():
        # A unit in a script that the font lacks is drawn as boxes; that is no reason to fail.
        warnings.simplefilter("ignore", UserWarning)
        figure.savefig(out, format=kind, dpi=160, metadata=metadata)
    return out.getvalue()
