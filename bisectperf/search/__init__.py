"""The one question that the driver asks: next_step(State, now) -> Step."""

from bisectperf.search import compare
from bisectperf.search.ends import stretch
from bisectperf.search.several import several
from bisectperf.search.steps import Done, Measure, Step, Wait, again
from bisectperf.search.untestable import untestable_now
from bisectperf.search.view import View
from bisectperf.state import State

__all__ = ["Done", "Measure", "Step", "View", "Wait", "next_step", "untestable_now"]


def next_step(state: State, now: float) -> Step:
    """Return what to do next: one launch per free host, a wait, or a verdict.

    Pure: the same state gives the same answer. `now` is seconds since the epoch.
    """
    del now  # time enters through the launches' own times
    flying = again(state)
    if flying:
        return flying
    if state.asked.mode == "compare":
        return compare.step(state)
    found = stretch(View(state))
    return several(state, found) if isinstance(found, Done) else found
