"""The one question that the driver asks: next_step(State, now) -> Step."""

from bisectperf.search import compare
from bisectperf.search.before import slower_than_it_was
from bisectperf.search.budget import within
from bisectperf.search.checks import findings
from bisectperf.search.ends import stretch
from bisectperf.search.several import several
from bisectperf.search.steps import Done, Measure, Step, Stop, Wait, again
from bisectperf.search.untestable import untestable_now
from bisectperf.search.view import View
from bisectperf.state import State

__all__ = ["Done", "Measure", "Step", "Stop", "View", "Wait", "findings", "next_step", "untestable_now"]


def next_step(state: State, now: float) -> Step:
    """Return what to do next: one launch per free host, a wait, a stop before the verdict, or the verdict.

    Pure: the same state gives the same answer. `now` is seconds since the epoch.
    """
    flying = again(state)
    if flying:
        return flying
    step = compare.step(state) if state.asked.mode == "compare" else _bisect(state)
    return within(state, now, step) if isinstance(step, tuple) else step


def _bisect(state: State) -> Step:
    first = slower_than_it_was(View(state))
    if first is not None:
        return first
    found = stretch(View(state))
    return several(state, found) if isinstance(found, Done) else found
