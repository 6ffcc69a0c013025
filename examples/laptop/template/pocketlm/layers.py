"""The transformer's layers."""

import numpy as np


def rms_norm(x):
    return x / np.sqrt(np.mean(x * x) + 1e-6)


class Block:
    """Attention and a feed-forward part, for one token at a time."""

    def __init__(self, rng, width, limit):
        scale = width**-0.5
        self.qkv = (rng.standard_normal((width, 3 * width)) * scale).astype(np.float32)
        self.out = (rng.standard_normal((width, width)) * scale).astype(np.float32)
        self.up = (rng.standard_normal((width, 4 * width)) * scale).astype(np.float32)
        self.down = (rng.standard_normal((4 * width, width)) * scale).astype(np.float32)
        self.width = width
        self.limit = limit

    def new_cache(self):
        return np.zeros((2, self.limit, self.width), dtype=np.float32)

    def step(self, x, cache, position):
        q, k, v = np.split(rms_norm(x) @ self.qkv, 3)
        cache[0, position] = k
        cache[1, position] = v
        scores = cache[0, : position + 1] @ q * self.width**-0.5
        weights = np.exp(scores - scores.max())
        x = x + ((weights / weights.sum()) @ cache[1, : position + 1]) @ self.out
        return x + np.maximum(rms_norm(x) @ self.up, 0) @ self.down
