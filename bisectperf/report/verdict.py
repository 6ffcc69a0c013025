"""A verdict in one sentence, with what it could not decide; and what to do next."""

from bisectperf.model import (
    AnyVerdict,
    Compared,
    EnvironmentChanged,
    Faster,
    FirstBad,
    FirstBadAmong,
    Inconclusive,
    Metric,
    NotReproduced,
    SeveralChanges,
    Sha,
)
from bisectperf.report.view import phase
from bisectperf.report.words import (
    change,
    clean,
    count,
    duration,
    effect_text,
    named,
    percent,
    probability,
    quantity,
    short,
    subject_of,
)
from bisectperf.state import State

WHY_NOT_PARTED = {
    "untestable": "the commits between two testable ones cannot be measured",
    "evidence": "the evidence cannot part them",
}


def verdict_sentence(verdict: AnyVerdict, state: State) -> str:
    """Return one sentence: what was found, how large, how sure, from how many launches."""
    metric, seen = state.asked.metric, f"from {count(verdict.launches, 'launch')}"
    match verdict:
        case FirstBad():
            where = _inside(verdict, state)
            return (
                f"The first bad commit is {named(state, verdict.sha)}{where}: {effect_text(verdict.effect, metric)}, "
                f"probability {probability(verdict.posterior)}, {seen}."
            )
        case FirstBadAmong():
            return (
                f"The first bad commit is one of {_list(verdict.commits)}, because {WHY_NOT_PARTED[verdict.why]}: "
                f"{effect_text(verdict.effect, metric)}, probability {probability(verdict.posterior)} for the set, "
                f"{seen}."
            )
        case SeveralChanges():
            return _several(verdict, metric, seen)
        case NotReproduced():
            return (
                f"The ends do not differ today: {effect_text(verdict.effect, metric)}; a loss above "
                f"{_loss(verdict.largest, metric)} is excluded at 95 %, probability of no change "
                f"{probability(verdict.posterior)}, {seen}."
            )
        case EnvironmentChanged():
            return (
                f"The environment changed, not the code: the good end gave {quantity(verdict.was, metric)} and gives "
                f"{quantity(verdict.now, metric)} today, {effect_text(verdict.effect, metric)}, {seen}."
            )
        case Faster():
            return f"The bad end is faster than the good end: {effect_text(verdict.effect, metric)}, {seen}."
        case Compared():
            return _compared(verdict, state, seen)
        case Inconclusive():
            return _inconclusive(verdict, seen)


def _inside(verdict: FirstBad, state: State) -> str:
    if state.decided is not verdict or len(state.lines) < 2:
        return ""
    merge = state.line.inside
    if merge is None or merge == verdict.sha:
        return " (the merge itself, not a commit that it brought in)" if merge else ""
    return f", inside the merge {short(merge)}"


def _list(commits: tuple[Sha, ...]) -> str:
    if len(commits) <= 4:
        return f"{count(len(commits), 'commit')} ({', '.join(map(short, commits))})"
    return f"{count(len(commits), 'commit')} ({short(commits[0])} to {short(commits[-1])})"


def _several(verdict: SeveralChanges, metric: Metric, seen: str) -> str:
    steps = "; ".join(_step(step, metric) for step in verdict.steps)
    rest = ""
    if verdict.unexplained is not None:
        rest = f"; unexplained: {percent(change(verdict.unexplained.value, metric))}"
    return (
        f"{count(len(verdict.steps), 'change')} found that make up the gap of "
        f"{effect_text(verdict.whole, metric)}: {steps}{rest}; {seen}."
    ).replace("1 change found that make up", "1 change found that makes up only part of")


def _step(step: FirstBad | FirstBadAmong, metric: Metric) -> str:
    size = percent(change(step.effect.value, metric))
    if isinstance(step, FirstBadAmong):
        return f"one of {_list(step.commits)} {size}"
    share = f", {100 * step.share:.0f} % of the gap" if step.share is not None else ""
    return f"{short(step.sha)} {size}{share}"


def _loss(fraction: float, metric: Metric) -> str:
    """Return a slow-down given as a fraction, as the size of the metric's change."""
    kept = 1 / (1 + fraction) - 1 if metric.better == "higher" else fraction
    return percent(100 * kept).lstrip("+-")


def _compared(verdict: Compared, state: State, seen: str) -> str:
    metric = state.asked.metric
    a, b = short(verdict.a), short(verdict.b)
    effect = effect_text(verdict.effect, metric)
    small = _loss(metric.smallest_effect, metric)
    if verdict.answer == "no":
        return f"No: {b} does not differ from {a} by {small} or more: {effect}, {seen}."
    if verdict.answer == "undecided":
        return f"Undecided: whether {b} differs from {a} by {small} cannot be said yet: {effect}, {seen}."
    word = "Yes" if verdict.answer == "yes" else "No, the other way round"
    comparison = "slower" if verdict.answer == "yes" else "faster"
    return f"{word}: {named(state, verdict.b)} is {comparison} than {a}: {effect}, {seen}."


def _inconclusive(verdict: Inconclusive, seen: str) -> str:
    likeliest = sorted(verdict.left.items(), key=lambda item: -item[1])[:3]
    parts = [f"No verdict: {clean(verdict.why)}"]
    if likeliest:
        listed = ", ".join(f"{short(sha)} {probability(p)}" for sha, p in likeliest)
        parts.append(f"{count(len(verdict.left), 'commit')} left, likeliest {listed}")
    if verdict.none >= 0.001:
        parts.append(f"no change at all {probability(verdict.none)}")
    if verdict.cost_seconds is not None:
        parts.append(f"about {duration(verdict.cost_seconds)} more to decide")
    return "; ".join([*parts, seen]) + "."


# -- beside the sentence --------------------------------------------------------------------------------------


def headline(verdict: AnyVerdict | None, state: State) -> str:
    """Return two to five words for a title or a badge."""
    match verdict:
        case FirstBad():
            return "First bad commit found"
        case FirstBadAmong():
            return "First bad commit narrowed to a set"
        case SeveralChanges():
            return "Several changes"
        case NotReproduced():
            return "Not reproduced"
        case EnvironmentChanged():
            return "The environment changed"
        case Faster():
            return "The bad end is faster"
        case Compared(answer=answer):
            return {"yes": "Slower", "no": "No difference", "undecided": "Undecided", "faster": "Faster"}[answer]
        case Inconclusive():
            return "No verdict"
        case None:
            return "Stopped" if phase(state) == "stopped" else "Running"


def advice(verdict: AnyVerdict | None, state: State) -> str:
    """Return what to do next, in one sentence, or an empty text where nothing follows."""
    match verdict:
        case FirstBadAmong(why="evidence") | Inconclusive():
            return "`bisectperf run` goes on from here; whatever was measured counts."
        case FirstBadAmong():
            return "Mend one of the commits that cannot be measured (a patch of the stack) to part them."
        case NotReproduced():
            return "Look at the environment, the recipe and the benchmark: the code between the ends did not do it."
        case EnvironmentChanged():
            return "Compare the host with what it was before spending a night on commits."
        case Faster():
            return "Swap the ends to search for the commit that made it faster."
        case SeveralChanges(unexplained=rest) if rest is not None and rest.low > 0:
            return "Search on with the commits found reverted as patches of the stack."
        case FirstBad(sha=sha):
            return f"`bisectperf reproduce {short(sha)}` measures it against its parent again."
        case None if phase(state) == "stopped":
            return "`bisectperf run` goes on from here; whatever was measured counts."
        case _:
            return ""


def details(verdict: AnyVerdict, state: State) -> list[tuple[str, str]]:
    """Return what stands beside the sentence: (name, text), the commits with their reasons included."""
    metric = state.asked.metric
    found: list[tuple[str, str]] = []
    match verdict:
        case FirstBad():
            found.append(("parent", named(state, verdict.parent)))
            if verdict.share is not None:
                found.append(("share of the gap", f"{100 * verdict.share:.0f} %"))
        case FirstBadAmong():
            reasons = verdict.untestable
            found += [
                (short(sha), f"{subject_of(state, sha)}: {clean(reasons.get(sha, 'can be measured'))}")
                for sha in verdict.commits
            ]
        case SeveralChanges():
            found += [("change", verdict_sentence(step, state)) for step in verdict.steps]
            if verdict.unexplained is not None:
                found.append(("unexplained", effect_text(verdict.unexplained, metric)))
        case EnvironmentChanged():
            found += [("changed", clean(text)) for text in verdict.differences]
        case Compared():
            found.append(("launches differ by", f"{100 * verdict.between_sd:.2f} % (standard deviation)"))
            found.append(("repetitions differ by", f"{100 * verdict.within_sd:.2f} % (standard deviation)"))
        case Inconclusive():
            left = sorted(verdict.left.items(), key=lambda item: -item[1])[:10]
            found += [(short(sha), f"{subject_of(state, sha)}: {probability(p)}") for sha, p in left]
        case _:
            pass
    return found + [("assumed", clean(text)) for text in verdict.assumed]
