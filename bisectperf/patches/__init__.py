"""Out-of-tree patches: composed with each commit by three-way merge of trees, then asserted."""

from bisectperf.patches.capture import Captured, capture
from bisectperf.patches.line import draw_line, inner_line
from bisectperf.patches.outcome import Composed, Problem
from bisectperf.patches.stack import Stack
from bisectperf.patches.survey import PatchMap, Stretch, range_map

__all__ = [
    "Captured",
    "Composed",
    "PatchMap",
    "Problem",
    "Stack",
    "Stretch",
    "capture",
    "draw_line",
    "inner_line",
    "range_map",
]
