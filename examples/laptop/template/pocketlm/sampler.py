"""How the next token is chosen."""

import numpy as np


def greedy(logits):
    return int(np.argmax(logits))
