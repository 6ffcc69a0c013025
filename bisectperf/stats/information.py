"""How much a launch would tell, in bits."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_POINTS = 96


def information(weight: Array, mean: Array, variance: Array, group: NDArray[np.int64]) -> float:
    """Return the mutual information in bits between a class and one observation.

    Component i has probability `weight[i]` (they sum to one) and predicts a normal observation; components with the
    same `group` are one class, whose inner differences tell nothing. H(y) - sum_c p_c H(y | c), by the rectangle
    rule over a grid that covers five standard deviations of every component.
    """
    sd = np.sqrt(variance)
    y = np.linspace(float((mean - 5 * sd).min()), float((mean + 5 * sd).max()), _POINTS)
    density = np.exp(-((y[None, :] - mean[:, None]) ** 2) / (2 * variance[:, None])) / sd[:, None]
    classes, place = np.unique(group, return_inverse=True)
    joint = np.zeros((classes.size, y.size))
    np.add.at(joint, place, weight[:, None] * density)
    mass = np.bincount(place, weights=weight)
    joint /= joint.sum()
    given = joint / np.maximum(joint.sum(axis=1, keepdims=True), 1e-300)
    inner = -(given * np.log2(np.maximum(given, 1e-300))).sum(axis=1)
    whole = joint.sum(axis=0)
    outer = -float((whole * np.log2(np.maximum(whole, 1e-300))).sum())
    return max(outer - float(mass @ inner) / float(mass.sum()), 0.0)
