"""The language model proper: embedding, blocks, head."""

import numpy as np

from pocketlm.layers import Block, rms_norm


class LanguageModel:
    def __init__(self, seed=0, width=32, depth=12, vocabulary=512, limit=1024):
        rng = np.random.default_rng(seed)
        self.embed = rng.standard_normal((vocabulary, width)).astype(np.float32)
        self.head = (rng.standard_normal((width, vocabulary)) * width**-0.5).astype(np.float32)
        self.blocks = [Block(rng, width, limit) for _ in range(depth)]
        self.draft_layers = ()

    def new_cache(self):
        return [block.new_cache() for block in self.blocks]

    def logits(self, token, caches, position):
        x = self.embed[token]
        for block, cache in zip(self.blocks, caches):
            x = block.step(x, cache, position)
        return rms_norm(x) @ self.head

    def set_draft_layers_to_capture(self, layers):
        self.draft_layers = tuple(layers)

    def get_embed_and_head(self):
        return self.embed, self.head

    def set_embed_and_head(self, embed, head):
        self.embed, self.head = embed, head
