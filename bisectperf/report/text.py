"""Plain text: one screen of status, the verdict, and one greppable line per fact."""

import textwrap
from collections.abc import Sequence

from bisectperf import events as ev
from bisectperf.model import Effect
from bisectperf.report.excerpt import interesting
from bisectperf.report.verdict import advice, details, headline, verdict_sentence
from bisectperf.report.view import Posterior, Row, elapsed, posterior_of, rows
from bisectperf.report.words import (
    clean,
    count,
    cut,
    duration,
    in_unit,
    moment,
    named,
    number,
    percent,
    probability,
    quantity,
    short,
)
from bisectperf.search.eta import Eta
from bisectperf.state import Launch, State

DOING = {"planned": "checkout and build", "built": "about to start", "running": "server and benchmark"}
ROWS = 10
"""Lines of commits in `status`, so that it fits a screen of 24 lines."""
MOST = 3
"""Commits that are named where a run stopped early."""


def status(state: State, now: float, width: int = 80, found: Eta | None = None) -> str:
    """Return what is known on one screen: 24 lines at 80 columns, as long as the verdict takes no more than five.

    `found` says when a verdict is expected.
    """
    metric = state.asked.metric
    about = f"{metric.name} in {metric.unit}, {metric.better} is better"
    lines = [cut(title(state), width), cut(about, width), cut(progress(state, now), width)]
    eta = eta_text(found, state, now)
    lines += [cut(eta, width), ""] if eta else [""]
    lines += wrapped(so_far(state), width)
    table = rows(state)
    if any(row.launches or row.known == "untestable" for row in table):
        lines += ["", *commit_table(table, state, width, ROWS)]
    lines += [""] if state.in_flight() or state.notes else []
    lines += [cut(in_hand(launch, now), width) for launch in state.in_flight()[:1]]
    lines += [cut(f"{note.kind}: {note.text}", width) for note in state.notes[-1:]]
    following = advice(state.decided, state)
    lines += ["", *wrapped(following, width)] if following else []
    return "\n".join(lines)


def title(state: State) -> str:
    """Return where it stands and what was asked: recipe and ends."""
    plan = state.asked
    return f"{headline(state.decided, state)} · {plan.recipe} · {short(plan.good)}..{short(plan.bad)}"


def progress(state: State, now: float) -> str:
    """Return how far it is: time, launches, commits."""
    counted = len(state.measured())
    void = sum(x.status == "void" for x in state.launches.values())
    parts = [duration(elapsed(state, now)), f"{count(counted, 'launch')} counted", f"{void} void"]
    if state.lines:
        table = rows(state)
        untestable = sum(row.known == "untestable" for row in table)
        tried = sum(row.known == "measured" for row in table)
        parts.append(f"{tried} of {count(len(table), 'candidate')} measured")
        parts += [f"{untestable} untestable"] if untestable else []
        parts += [f"inside the merge {short(state.line.inside)}"] if state.line.inside else []
    return " · ".join(parts)


def so_far(state: State) -> str:
    """Return the verdict's sentence; before there is one, why it stopped or who is suspected most."""
    if state.decided is not None:
        return verdict_sentence(state.decided, state)
    parts = []
    if state.stopped is not None:
        parts.append(f"Stopped ({state.stopped.why}): {clean(state.stopped.reason)}{remains(state.stopped)}.")
    weights = posterior_of(state)
    if weights is None:
        parts.append("The ends are not both known yet." if state.asked.mode == "bisect" else "Not decided yet.")
    else:
        parts.append(_suspicion(weights, state))
    return " ".join(parts)


def remains(stopped: ev.Stopped) -> str:
    """Return what a stop left open, as `; 12 commits left, 83.0 % on these 3: ...; about 1 h 40 min more`."""
    text = ""
    if stopped.left:
        most = list(stopped.left.items())[:MOST]
        named_ = ", ".join(short(sha) for sha, _ in most)
        held = probability(sum(p for _, p in most))
        those = f"these {len(most)}: {named_}" if len(most) > 1 else named_
        text += f"; {count(len(stopped.left), 'commit')} left, {held} on {those}"
    if stopped.seconds is not None and stopped.high_seconds is not None:
        text += f"; about {duration(stopped.seconds)} more (90 %: {duration(stopped.high_seconds)})"
    return text


def eta_text(found: Eta | None, state: State, now: float) -> str:
    """Return when a verdict is expected, or an empty text where that is not known yet."""
    if found is None or state.decided is not None or state.stopped is not None:
        return ""
    median, high = (max(found.since + seconds - now, 0.0) for seconds in (found.median, found.high))
    text = f"verdict in about {duration(median)} (90 %: {duration(high)})"
    if state.limits.until is not None:
        left = duration(max(state.limits.until - now, 0.0))
        text += f"; {left} left: {probability(found.chance(state.limits.until))}"
    return text


def _suspicion(weights: Posterior, state: State) -> str:
    """Return who holds 95 % of the probability that anything changed."""
    ranked = sorted(range(len(weights.of)), key=lambda k: -weights.of[k])
    held = 0.0
    chosen: list[int] = []
    while held < 0.95 * sum(weights.of):
        chosen.append(ranked[len(chosen)])
        held += weights.of[chosen[-1]]
    if not chosen:
        return f"No change at all: {probability(weights.none)}."
    if len(chosen) == 1:
        lead = f"Most suspected: {named(state, state.line.positions[chosen[0]].sha)}, {probability(held)}"
    else:
        first, last = (short(state.line.positions[k].sha) for k in (min(chosen), max(chosen)))
        lead = f"{len(chosen)} candidates from {first} to {last} are suspected, together {probability(held)}"
    return f"{lead}; no change at all: {probability(weights.none)}."


def in_hand(launch: Launch, now: float) -> str:
    """Return what a launch in flight is doing and for how long."""
    since = duration(max(now - launch.planned, 0.0))
    return (
        f"now: {launch.id} on {launch.host}: {short(launch.sha)}, {DOING.get(launch.status, launch.status)}, "
        f"{since} ({launch.why}: {launch.reason})"
    )


def commit_table(table: Sequence[Row], state: State, width: int, limit: int) -> list[str]:
    """Return a header and at most `limit` lines: the commits that say most, good end first, gaps counted."""
    p_first = "P(first bad)" if state.asked.mode == "bisect" else ""
    header = f"{'#':>5}  {'commit':9}  {state.asked.metric.unit[:14]:>14}  {'runs':>4}  {p_first:>12}  subject"
    chosen = interesting(table, limit)
    while len(lines := _table_lines(table, chosen, state)) > limit and len(chosen) > 2:
        chosen = interesting(table, len(chosen) - 1)
    return [cut(line.rstrip(), width) for line in [header, *lines]]


def _table_lines(table: Sequence[Row], chosen: Sequence[Row], state: State) -> list[str]:
    lines, before = [], -1
    for row in chosen:
        lines += _gap(table[before + 1 : row.index])
        before = row.index
        mark = "*" if row.suspect else ""
        words = f"({row.reason})" if row.reason else row.position.subject
        lines.append(
            f"{mark + str(row.index):>5}  {short(row.sha)}  {level_text(row.level, state):>14}  "
            f"{len(row.counted) or '':>4}  {_chance(row.probability):>12}  {words}"
        )
    return lines


def _gap(hidden: Sequence[Row]) -> list[str]:
    """Return the line that stands for rows left out, with their probability together."""
    if not hidden:
        return []
    together = sum(row.probability or 0.0 for row in hidden)
    return [f"{'':5}  {'… ' + count(len(hidden), 'candidate'):31}  {_chance(together):>12}"]


def _chance(p: float | None) -> str:
    return "" if p is None or p < 0.0005 else probability(p)


def level_text(level: Effect | None, state: State) -> str:
    """Return a level in the metric's unit with half the width of its interval, where that is known."""
    if level is None:
        return ""
    metric = state.asked.metric
    middle = in_unit(level.value, metric)
    half = abs(in_unit(level.high, metric) - in_unit(level.low, metric)) / 2 if level.high < 50 else 0.0
    return f"{number(middle)} ±{100 * half / middle:.1f} %" if half else number(middle)


def verdict_text(state: State) -> str:
    """Return the verdict for the end of a run: the sentence, what stands beside it, what to do next."""
    if state.decided is None:
        return so_far(state)
    lines = [verdict_sentence(state.decided, state)]
    lines += [f"  {name}: {text}" for name, text in details(state.decided, state)]
    following = advice(state.decided, state)
    return "\n".join([*lines, *([following] if following else [])])


def wrapped(text: str, width: int) -> list[str]:
    """Return `text` as lines that part no number from its percent sign."""
    lines = textwrap.wrap(text.replace(" %", "\u00a0%"), max(width, 20), break_on_hyphens=False)
    return [line.replace("\u00a0", " ") for line in lines]


# -- one fact, one line ---------------------------------------------------------------------------------------


def event_line(event: ev.AnyEvent, state: State) -> str:
    """Return one fact as one line that begins with what happened; `state` is the state after it."""
    match event:
        case ev.Started(plan=plan):
            return clean(
                f"started {plan.mode} {short(plan.good)}..{short(plan.bad)} recipe {plan.recipe} "
                f"({plan.recipe_digest[:12]}) seed {plan.seed} confidence {100 * plan.confidence:g} %"
            )
        case ev.LineDrawn(line=line):
            commits = sum(len(p.commits) for p in line.positions)
            broken = sum(p.tree is None for p in line.positions)
            inside = f", inside the merge {short(line.inside)}" if line.inside else ""
            return (
                f"line {count(len(line.positions), 'candidate')} from {count(commits, 'commit')}, "
                f"{broken} untestable{inside}"
            )
        case ev.Marked(sha=sha, mark=mark, reason=reason):
            return clean(f"marked {short(sha)} {mark}{': ' + reason if reason else ''}")
        case ev.Waited(host=host, seconds=seconds, reason=reason):
            return clean(f"waiting {duration(seconds)} for {host}: {reason}")
        case ev.Noted(kind=kind, text=text):
            return clean(f"{kind}: {text}")
        case ev.Decided(verdict=verdict):
            return f"decided: {verdict_sentence(verdict, state)}"
        case ev.Stopped(why=why, reason=reason):
            return clean(f"stopped ({why}): {reason}{remains(event)}")
        case ev.Limited(limits=limits):
            launches = "" if limits.launches is None else f" {count(limits.launches, 'launch')} in all"
            return f"limits:{launches}{'' if limits.until is None else f' until {moment(limits.until)}'}"
        case ev.Resumed(version=version):
            return clean(f"resumed by bisectperf {version}")
        case _:
            return clean(_launch_line(event, state))


def _launch_line(event: ev.AnyEvent, state: State) -> str:
    match event:
        case ev.LaunchPlanned():
            return f"planned {event.launch} {short(event.sha)} {event.why} on {event.host}: {event.reason}"
        case ev.Built(launch=launch, build=build):
            return f"{'found' if build.cached else 'built'} {launch} in {duration(build.seconds)}: {build.path}"
        case ev.LaunchRan(launch=launch, job=job):
            return f"running {launch} as {job}"
        case ev.Measured(launch=launch):
            return _measured_line(state.launches[launch], state)
        case ev.Voided():
            which = state.launches[event.launch]
            return f"void {event.launch} {short(which.sha)} {event.kind}: {event.reason}"
        case ev.FoundUntestable(sha=sha, reason=reason):
            return f"untestable {short(sha)}: {reason}"
        case _:
            return type(event).__name__.lower()


def _measured_line(launch: Launch, state: State) -> str:
    metric = state.asked.metric
    if launch.value is None or launch.samples is None:
        raise ValueError("a measured launch has its samples")
    repetitions = launch.samples.repetitions
    spread = 100 * (max(repetitions) / min(repetitions) - 1)
    return (
        f"measured {launch.id} {short(launch.sha)} {metric.name} {quantity(in_unit(launch.value, metric), metric)} "
        f"({count(len(repetitions), 'repetition')}, range {percent(spread).lstrip('+')})"
    )
