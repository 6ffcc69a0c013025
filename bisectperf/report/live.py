"""The live screen: a pure function of the state to something that rich can print.

Colours are the terminal's own sixteen without white, black or yellow, so that light and dark terminals both read
well; every colour only repeats what a word or a sign says, so nothing is lost under NO_COLOR.
"""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from bisectperf.report.excerpt import interesting
from bisectperf.report.text import DOING, eta_text, level_text, progress, so_far, title, wrapped
from bisectperf.report.verdict import advice
from bisectperf.report.view import Row, anchors, phase, rows
from bisectperf.report.words import change, clean, count, cut, duration, in_unit, number, percent, probability, short
from bisectperf.search.eta import Eta
from bisectperf.state import Launch, State

_EIGHTHS = " ▏▎▍▌▋▊▉█"
_STYLE = {"running": "cyan", "stopped": "magenta", "decided": "green"}
_EVENTS = 4
"""Lines of last events that a small screen keeps free."""


def screen(
    state: State,
    now: float,
    width: int,
    height: int,
    *,
    doing: str = "",
    recent: Sequence[str] = (),
    found: Eta | None = None,
) -> RenderableType:
    """Return one screen of at most `height` lines of `width` columns.

    `doing` is the last line of the build or benchmark in hand, `recent` are the last facts as dated lines,
    oldest first; `found` says when a verdict is expected.
    """
    table = rows(state)
    above = [
        *_heading(state, now, width, found),
        Text(),
        *(Text(line) for line in wrapped(so_far(state), width)),
        Text(),
    ]
    below = [*_in_hand(state, now, width, doing), *_levels(state, width), *_following(state, width)]
    below = [Text(), *below] if below else []
    room = max(height - len(above) - len(below) - 1 - min(len(recent), _EVENTS), 3)
    middle = _candidates(table, state, width, room)
    left = height - len(above) - len(middle) - len(below) - 1
    return Group(*(above + middle + below + _events(recent, width, left))[:height])


def bar(share: float, width: int) -> str:
    """Return a bar of `width` columns filled to `share`, in eighths of a column; anything above zero is visible."""
    eighths = round(min(max(share, 0.0), 1.0) * width * 8)
    eighths = max(eighths, 1) if share > 0.0005 else eighths
    return ("█" * (eighths // 8) + (_EIGHTHS[eighths % 8] if eighths % 8 else "")).ljust(width)


def _heading(state: State, now: float, width: int, found: Eta | None) -> list[Text]:
    metric = state.asked.metric
    return [
        Text(cut(title(state), width), style=f"bold {_STYLE[phase(state)]}"),
        Text(cut(f"{metric.name} in {metric.unit}, {metric.better} is better", width)),
        Text(cut(progress(state, now), width)),
        *([Text(cut(eta, width))] if (eta := eta_text(found, state, now)) else []),
    ]


def _candidates(table: Sequence[Row], state: State, width: int, room: int) -> list[Text]:
    """Return the range: the candidates that say most, with their probability as a bar."""
    if not table:
        return [Text("drawing the line: composing each commit with the patches")]
    bars = 0 if state.asked.mode == "compare" else max(min(width // 6, 30), 8)
    chosen = interesting(table, room - 1)
    while len(lines := _drawn(table, chosen, state, width, bars)) > room - 1 and len(chosen) > 2:
        chosen = interesting(table, len(chosen) - 1)
    heading = "P(first bad)".ljust(bars + 8)[: bars + 8] if bars else ""
    head = f"{'#':>5}  {'commit':9}  {clean(state.asked.metric.unit)[:14]:>14} {'runs':>4}  {heading} subject"
    return [Text(cut(head, width), style="dim"), *lines]


def _drawn(table: Sequence[Row], chosen: Sequence[Row], state: State, width: int, bars: int) -> list[Text]:
    lines, before = [], -1
    for row in chosen:
        hidden = table[before + 1 : row.index]
        if hidden:
            together = sum(r.probability or 0.0 for r in hidden)
            lines.append(_fitted(f"{'':7}{'… ' + count(len(hidden), 'candidate'):31} {_odds(together, bars)}", width))
        before = row.index
        lines.append(_one(row, state, width, bars))
    return lines


def _one(row: Row, state: State, width: int, bars: int) -> Text:
    flying = any(x.status in DOING for x in row.launches)
    sign = ">" if flying else "*" if row.suspect else "x" if row.known == "untestable" else ""
    words = f"({row.reason})" if row.reason else row.position.subject
    line = _fitted(
        f"{sign + str(row.index):>5}  {short(row.sha)}  {level_text(row.level, state):>14} "
        f"{len(row.counted) or '':>4}  {_odds(row.probability, bars)} {clean(words)}",
        width,
    )
    style = "cyan" if flying else "bold red" if row.suspect else "dim" if row.known == "untestable" else ""
    line.stylize(style)
    return line


def _odds(p: float | None, bars: int) -> str:
    """Return a probability as a bar and a number, `bars` + 8 columns wide; nothing where bars are not shown."""
    if not bars:
        return ""
    if p is None or p < 0.0005:
        return " " * (bars + 8)
    odds = probability(p).replace("over ", ">").replace("under ", "<")
    return f"{bar(p, bars)} {odds:>7}"


def _fitted(text: str, width: int) -> Text:
    return Text(cut(text.rstrip(), width), no_wrap=True)


def _in_hand(state: State, now: float, width: int, doing: str) -> list[Text]:
    lines = []
    for launch in state.in_flight():
        since = duration(max(now - launch.planned, 0.0))
        phase_text = DOING[launch.status]
        what = f"now    {short(launch.sha)} on {launch.host}: {phase_text}, {since}{_usual(launch, state)}"
        lines.append(Text(cut(what, width), style="cyan"))
    if lines and doing:
        lines.append(Text(cut(f"       {doing}", width), style="dim"))
    return lines


def _usual(launch: Launch, state: State) -> str:
    """Return how long a launch like this takes, once that was measured."""
    if not state.measured():
        return ""
    costs = state.costs()
    seconds = costs.launch + (costs.build if launch.build is None or not launch.build.cached else costs.switch)
    return f" of about {duration(seconds)}"


def _levels(state: State, width: int) -> list[Text]:
    """Return the two ends, their gap, and how far each moved since it was first measured."""
    metric, sides, means = state.asked.metric, [], []
    for name, launches in zip(("good", "bad"), anchors(state), strict=True):
        values = [x.value for x in launches if x.value is not None]
        if not values:
            continue
        means.append(sum(values) / len(values))
        moved = f", first to last {percent(change(values[-1] - values[0], metric))}" if len(values) > 1 else ""
        sides.append(f"{name} {number(in_unit(means[-1], metric))} ({count(len(values), 'launch')}{moved})")
    if not sides:
        return []
    gap = f"{percent(change(means[1] - means[0], metric))}: " if len(means) == 2 else ""
    return [Text(cut(f"ends   {gap}{', '.join(sides)}", width))]


def _following(state: State, width: int) -> list[Text]:
    text = advice(state.decided, state)
    return [Text(cut(f"next   {text}", width))] if text else []


def _events(recent: Sequence[str], width: int, room: int) -> list[Text]:
    if not recent or room <= 0:
        return []
    return [Text(), *(Text(cut(line, width), style="dim") for line in recent[-room:])]
