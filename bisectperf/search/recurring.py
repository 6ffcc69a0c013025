"""The same failure at both ends says nothing about commits: the recipe or the host needs its owner."""

import re

from bisectperf.search.steps import Measure, Stop, launch_of
from bisectperf.search.view import View
from bisectperf.state import Launch

_VARYING = re.compile(r"\b[0-9a-f]{7,40}\b|0x[0-9a-f]+|\d+")


def recurring(view: View) -> tuple[Measure, ...] | Stop | None:
    """Return the stop for a failure that both ends share, a launch that asks the other end, or None.

    Only failures since the owner was here last count: afterwards each end has its chance again.
    """
    ends = (0, len(view) - 1)
    if view.counts[0] or view.counts[-1]:
        return None
    failed = [_last_failure(view, k) for k in ends]
    good, bad = failed
    if good is not None and bad is not None:
        if _words(good) != _words(bad):
            return None
        return Stop(why="needs-you", reason=f"both ends fail in the same way: {bad.void}", detail=bad.detail)
    if good is None and bad is None:
        return None
    other = ends[1 if bad is None else 0]
    if not view.testable[other]:
        return None
    return launch_of(view.state, view.positions[other], "endpoint", "the other end failed: does this one too?")


def _last_failure(view: View, k: int) -> Launch | None:
    tree, since = view.positions[k].tree, view.state.attended
    runs = [x for x in view.state.launches.values() if x.tree == tree and x.planned >= since]
    failed = [x for x in runs if x.void_kind in ("flaky", "guard") or x.status == "untestable"]
    return failed[-1] if failed else None


def _words(launch: Launch) -> str:
    """Return a failure's words without what differs from launch to launch: ids, addresses, numbers."""
    return _VARYING.sub("#", launch.void)
