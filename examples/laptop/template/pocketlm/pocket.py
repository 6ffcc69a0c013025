"""The model as the server sees it: a wrapper around the language model."""

from pocketlm.language_model import LanguageModel
from pocketlm.sampler import greedy


class PocketForCausalLM:
    """Wraps the language model; other modalities would be wrapped here too."""

    def __init__(self, seed=0):
        self.language_model = LanguageModel(seed)

    def new_cache(self):
        return self.language_model.new_cache()

    def prefill(self, tokens, caches):
        for position, token in enumerate(tokens):
            logits = self.language_model.logits(token, caches, position)
        return greedy(logits)

    def decode(self, token, caches, position):
        return greedy(self.language_model.logits(token, caches, position))
