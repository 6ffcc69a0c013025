"""The report as Markdown for an upstream issue: short on top, everything else folded, private names masked."""

import re
from collections.abc import Iterable

from bisectperf.model import Line
from bisectperf.report import words
from bisectperf.report.environment import environment
from bisectperf.report.excerpt import slots, stretches
from bisectperf.report.mask import Mask, mask_of, masked, public
from bisectperf.report.proof import again, bundle
from bisectperf.report.text import level_text, so_far
from bisectperf.report.verdict import details, headline
from bisectperf.report.view import rows
from bisectperf.state import Launch, State


def to_markdown(state: State, *, private: bool) -> str:
    """Return the report; hosts, people, addresses and paths are masked unless `private`."""
    mask: Mask = str if private else mask_of(state)
    shown = state if private else masked(state)
    metric = shown.asked.metric
    parts = [
        f"# {prose(headline(shown.decided, shown))}: {code(metric.name)} of {code(shown.asked.recipe)}",
        f"**{prose(so_far(shown))}**",
        *(_pairs(shown) if shown.decided is not None else []),
        "## How it was measured",
        _how(shown),
        *_folded("Environment", _environment(state, mask, private=private)),
        *(part for k, line in enumerate(shown.lines) for part in _folded(_range_title(line), _range(shown, k))),
        *_folded(f"Launches ({len(shown.launches)})", _launches(shown)),
        "## Measure it again",
        "```sh\n" + "\n".join(f"{command}  # {does}" for command, does in again(shown)) + "\n```",
        "## Proof",
        *_proof(state, mask),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


# -- text that stays text -------------------------------------------------------------------------------------


def prose(text: str) -> str:
    """Return untrusted `text` so that Markdown shows it as it is: no markup, links, HTML, mentions or references."""
    text = words.clean(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    text = re.sub(r"([\\`*_{}\[\]|~])", r"\\\1", text)
    text = re.sub(r"^(\d*)([-+#.)])(?=\s|$)", r"\1\\\2", text)
    return re.sub(r"([@#])(?=\w)|(?<=\w)(:)(?=//)", lambda found: found.group() + "<!-- -->", text)


def code(text: str) -> str:
    """Return untrusted `text` as a code span, also inside a table."""
    text = words.clean(text).replace("|", "\\|")
    fence = "`" * (max(map(len, re.findall("`+", text)), default=0) + 1)
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{pad}{text}{pad}{fence}" if text else ""


def table(head: Iterable[str], body: Iterable[Iterable[str]]) -> str:
    """Return a table; the cells are Markdown already."""
    cells = [list(head), *map(list, body)]
    lines = ["| " + " | ".join(row) + " |" for row in cells]
    return "\n".join([lines[0], "|" + "---|" * len(cells[0]), *lines[1:]]) if len(cells) > 1 else ""


def _folded(title: str, content: str) -> list[str]:
    return [f"<details><summary>{title}</summary>", content, "</details>"] if content else []


# -- sections -------------------------------------------------------------------------------------------------


def _pairs(state: State) -> list[str]:
    assert state.decided is not None
    pairs = details(state.decided, state)
    return ["\n".join(f"- {prose(name)}: {prose(text)}" for name, text in pairs)] if pairs else []


def _how(state: State) -> str:
    plan, metric = state.asked, state.asked.metric
    counted, void = len(state.measured()), sum(x.status == "void" for x in state.launches.values())
    ask = "compared" if plan.mode == "compare" else "searched"
    small = f"smallest effect worth finding {100 * metric.smallest_effect:g} %"
    each = f"each {plan.repetitions} repetitions after {plan.warmup} of warm-up, reduced to their {metric.center}"
    lines = [
        f"{ask}: {code(plan.good)} to {code(plan.bad)}",
        f"metric: {code(metric.name)} in {prose(metric.unit)}, {metric.better} is better; {small}",
        f"{words.count(counted, 'launch')} counted, {void} void; {each}",
        f"recipe {code(plan.recipe)}, digest {code(plan.recipe_digest[:16])}, seed {plan.seed}",
        f"hosts: {', '.join(map(code, plan.hosts))}",
    ]
    return "\n".join(f"- {line}" for line in lines)


def _environment(state: State, mask: Mask, *, private: bool) -> str:
    facts = [fact for fact in environment(state) if private or public(fact)]
    return table(
        ("fact", "first", "last", ""),
        (
            (prose(f.name), code(mask(f.first)), code(mask(f.last)), "**changed**" if f.changed else prose(f.range))
            for f in facts
        ),
    )


def _range_title(line: Line) -> str:
    return f"Inside the merge {words.short(line.inside)}" if line.inside else "Commits"


def _range(state: State, k: int) -> str:
    found = rows(state, k)
    body = []
    for place in slots(found, whole=0):
        row = place.row
        if row is None:
            body.append(["…", f"{words.count(len(place.members), 'candidate')} without launches", "", "", "", ""])
            continue
        p = "" if row.probability is None or row.probability < 0.0005 else words.probability(row.probability)
        about = code(row.position.subject) + (f" untestable: {prose(row.reason)}" if row.reason else "")
        level = level_text(row.level, state)
        body.append([str(row.index), code(words.short(row.sha)), level, str(len(row.counted) or ""), p, about])
    head = ("#", "commit", prose(state.asked.metric.unit), "launches", "P(first bad)", "subject")
    broken = [s for s in stretches(found) if s.reason]
    said = (
        f"Untestable: {words.count(len(broken), 'stretch')}." if broken else "No candidate is known to be untestable."
    )
    return f"{table(head, body)}\n\n{said}" if found else ""


def _launches(state: State) -> str:
    return table(("launch", "commit", "for", "result"), (_launch(x, state) for x in state.launches.values()))


def _launch(launch: Launch, state: State) -> list[str]:
    metric = state.asked.metric
    if launch.value is not None and launch.samples is not None:
        each = ", ".join(map(words.number, launch.samples.repetitions))
        result = f"**{prose(words.quantity(words.in_unit(launch.value, metric), metric))}** ({each})"
    else:
        result = f"{launch.status}{': ' + prose(launch.void) if launch.void else ''}"
    return [code(launch.id), code(words.short(launch.sha)), launch.why, result]


def _proof(state: State, mask: Mask) -> list[str]:
    proof = bundle(state)
    if not proof.counted:
        return ["Nothing was measured yet."]
    whole = f"{proof.whole} of {words.count(proof.counted, 'counted launch')}"
    said = (
        f"{whole} had every file on the host hashed before and after the run, and both times it was the tree that "
        f"was meant; in {proof.traced} the serving processes reported where they imported from."
    )
    parts = [said]
    if proof.same_tree and state.asked.mode == "bisect":
        parts.append("**Parent and culprit are the same patched tree: the code cannot have made the difference.**")
    sides = [
        [side.role, code(side.sha), code(side.tree), level_text(side.level, state), str(len(side.launches))]
        for side in proof.sides
    ]
    parts.append(table(("", "commit", "patched tree", prose(state.asked.metric.unit), "launches"), sides))
    if proof.reverted is not None:
        parts.append(f"The bad end without the culprit: {level_text(proof.reverted, state)}.")
    parts += [f"- problem: {prose(mask(text))}" for text in proof.problems]
    parts += _folded(
        "Where packages were imported from",
        table(
            ("package", "origin"),
            ((code(name), ", ".join(code(mask(x)) for x in places)) for name, places in proof.origins.items()),
        ),
    )
    return parts
