"""How much a launch would tell, in bits."""

import numpy as np
from numpy.polynomial.hermite import hermgauss
from numpy.typing import NDArray

Array = NDArray[np.float64]

_NODES, _WEIGHTS = hermgauss(24)
_X = np.sqrt(2.0) * _NODES
_W = _WEIGHTS / np.sqrt(np.pi)


def entropy(p: Array) -> Array:
    """Return the entropy of a yes with probability p, in bits."""
    q = np.clip(p, 1e-15, 1 - 1e-15)
    return np.asarray(-(q * np.log2(q) + (1 - q) * np.log2(1 - q)))


def information(p: Array, separation: Array) -> Array:
    """Return the mutual information in bits between a yes/no with P(yes) = p and one normal observation.

    The two means are `separation` standard deviations apart. Computed as H(p) minus the mean posterior entropy, by
    Gauss-Hermite quadrature (24 nodes) under each of the two answers. Shapes broadcast.
    """
    p, separation = np.broadcast_arrays(np.asarray(p, dtype=float), np.asarray(separation, dtype=float))
    q = np.clip(p, 1e-15, 1 - 1e-15)[..., None]
    delta = separation[..., None]
    prior = np.log(q) - np.log1p(-q)
    remaining = np.zeros((*np.shape(p), 1))
    for yes, weight in ((1.0, q), (0.0, 1 - q)):
        y = _X + yes * delta
        odds = prior + delta * y - delta**2 / 2
        posterior = 1 / (1 + np.exp(-np.clip(odds, -700, 700)))
        remaining = remaining + (weight * entropy(posterior) * _W).sum(axis=-1, keepdims=True)
    return np.asarray(np.maximum(entropy(q[..., 0]) - remaining[..., 0], 0.0))


def new_precision(spread: float, offset: float, count: Array) -> Array:
    """Return by how much one more launch sharpens a commit's level, as a precision.

    A build with n launches knows its commit's level to offset^2 + spread^2 / n, however often it is launched: the
    difference of the precisions at n + 1 and n is what the next launch is worth. `count` is n, 0 for a new build.
    """
    n = np.asarray(count, dtype=float)
    with np.errstate(divide="ignore"):
        before = np.where(n > 0, 1 / (offset**2 + spread**2 / np.maximum(n, 1)), 0.0)
    return np.asarray(1 / (offset**2 + spread**2 / (n + 1)) - before)
