"""One launch -> one number."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from scipy import stats

Center = Literal["median", "trimmed", "upper-quartile", "minimum"]


def center(logs: Sequence[float], how: Center, *, better: Literal["higher", "lower"]) -> float:
    """Return the centre of the log repetitions of one launch.

    `upper-quartile` and `minimum` mean the undisturbed speed: the better quartile and the best repetition, on
    whichever side the metric calls better. `trimmed` leaves out a fifth at either end. Raises `ValueError` on
    no repetitions.
    """
    x = np.asarray(logs, dtype=float)
    if x.size == 0:
        raise ValueError("no repetitions to reduce")
    if how == "median":
        return float(np.median(x))
    if how == "trimmed":
        return float(stats.trim_mean(x, 0.2))
    good_side = 1.0 if better == "higher" else 0.0
    return float(np.quantile(x, good_side if how == "minimum" else 0.25 + 0.5 * good_side))
