"""Out-of-tree patches: composed with each commit by three-way merge of trees, then asserted."""

from bisectperf.patches.line import draw_line, inner_line
from bisectperf.patches.stack import Composed, Stack

__all__ = ["Composed", "Stack", "draw_line", "inner_line"]
