"""A decode loop on random weights, replayed as one CUDA graph: the speed of a GPU host without any server.

Builds a model (its own, or `MODULE:FUNCTION` from the measured checkout), captures one decode step in a CUDA graph,
and prints one JSON document with tokens per second as its last line. Needs torch and nothing else, Python >= 3.8.

A function that builds a model takes (batch, context, device, seed) and returns a callable. That one takes token ids
(int64, [batch]) and the position (int64, a scalar tensor), keeps its own cache, returns logits [batch, vocabulary].
"""

import argparse
import hashlib
import importlib
import json
import os
import sys
import time

try:
    import torch
except ImportError:
    sys.exit("torch is not installed for %s" % sys.executable)
F = torch.nn.functional
PROMPT = 16  # positions that are taken for a prompt: decoding starts behind them


class Weights:
    """Draws matrices, always the same ones."""

    def __init__(self, device, seed):
        self.device, self.dtype = device, torch.bfloat16 if device == "cuda" else torch.float32
        self.generator = torch.Generator(device=device).manual_seed(seed)

    def matrix(self, rows, columns):
        """Return a matrix that keeps the scale of what it is multiplied with."""
        drawn = torch.randn((rows, columns), generator=self.generator, device=self.device)
        return (drawn * columns**-0.5).to(self.dtype)


class Block:
    """Attention over a cache, and a feed-forward part, for one token of each sequence."""

    def __init__(self, weights, width, cache):
        self.qkv, self.out = weights.matrix(3 * width, width), weights.matrix(width, width)
        self.up, self.down = weights.matrix(4 * width, width), weights.matrix(width, 4 * width)
        self.keys = torch.zeros(cache, dtype=weights.dtype, device=weights.device)
        self.values = torch.zeros_like(self.keys)

    def step(self, x, position, mask):
        """Return the block's output for `x` at `position`; `mask` is true where the cache holds something."""
        batch, heads, _, size = self.keys.shape
        q, k, v = (part.view(batch, heads, 1, size) for part in F.linear(norm(x), self.qkv).chunk(3, dim=-1))
        self.keys.index_copy_(2, position.view(1), k)
        self.values.index_copy_(2, position.view(1), v)
        seen = F.scaled_dot_product_attention(q, self.keys, self.values, mask)
        x = x + F.linear(seen.reshape(x.shape), self.out)
        return x + F.linear(F.silu(F.linear(norm(x), self.up)), self.down)


def norm(x):
    return x * torch.rsqrt(x.float().square().mean(-1, keepdim=True) + 1e-6).to(x.dtype)


def build(batch, context, device, seed):
    """Return a model of 2.5 billion parameters, bound by memory bandwidth (on a CPU: a small one)."""
    width, depth, heads, vocabulary = (4096, 12, 32, 32000) if device == "cuda" else (128, 2, 4, 1000)
    weights = Weights(device, seed)
    embed, head = weights.matrix(vocabulary, width), weights.matrix(vocabulary, width)
    blocks = [Block(weights, width, (batch, heads, context, width // heads)) for _ in range(depth)]
    places = torch.arange(context, device=device)

    def model(tokens, position):
        x, mask = embed[tokens], (places <= position).view(1, 1, 1, -1)
        for block in blocks:
            x = block.step(x, position, mask)
        return F.linear(norm(x), head)

    return model


class Loop:
    """Greedy decoding of a batch, one step at a time; on a GPU a step is the replay of one graph."""

    def __init__(self, model, batch, device):
        self.tokens = torch.ones(batch, dtype=torch.int64, device=device)
        self.position = torch.full((), PROMPT, dtype=torch.int64, device=device)
        self.step = self._captured(model) if device == "cuda" else lambda: self._step(model)
        self.wait = torch.cuda.synchronize if device == "cuda" else lambda: None

    def _step(self, model):
        self.tokens.copy_(model(self.tokens, self.position).argmax(dim=-1))
        self.position.add_(1)

    def _captured(self, model):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):  # libraries allocate at their first calls, which a capture does not allow
            for _ in range(3):
                self._step(model)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._step(model)
        return graph.replay

    def repetition(self, count):
        """Decode `count` tokens of each sequence from the beginning; return (seconds, the last tokens)."""
        self.tokens.fill_(1)
        self.position.fill_(PROMPT)
        self.wait()
        begun = time.perf_counter()
        for _ in range(count):
            self.step()
        self.wait()
        return time.perf_counter() - begun, self.tokens.tolist()


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="", help="MODULE:FUNCTION on the import path (default: the one in here)")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--tokens", type=int, default=512, help="tokens to decode per sequence and repetition")
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--repetitions", type=int, default=15)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cpu", action="store_true", help="a small model without a graph, to try the script out")
    return parser.parse_args()


def builder(name):
    """Return the function that `MODULE:FUNCTION` names, or our own."""
    if not name:
        return build
    # What is measured comes from the checkout (the present folder) before anything else of that name.
    sys.path.insert(0, os.getcwd())
    module, _, function = name.partition(":")
    try:
        return getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        sys.exit("--model %s: %s" % (name, error))


@torch.no_grad()
def main():
    options = parse()
    if not options.cpu and not torch.cuda.is_available():
        sys.exit("torch %s sees no GPU" % torch.__version__)
    device = "cpu" if options.cpu else "cuda"
    model = builder(options.model)(options.batch, PROMPT + options.tokens, device, options.seed)
    loop = Loop(model, options.batch, device)
    runs = [loop.repetition(options.tokens) for _ in range(options.warmup + options.repetitions)]
    ends = {json.dumps(last) for _, last in runs}
    figures = [
        {"decode_tok_s": options.tokens / seconds, "total_tok_s": options.batch * options.tokens / seconds}
        for seconds, _ in runs
    ]
    document = {
        "repetitions": figures[options.warmup :],
        "warmup": figures[: options.warmup],
        "guards": {},
        "findings": ["greedy outputs differ between repetitions"] if len(ends) > 1 else [],
        "output_digest": hashlib.sha256(min(ends).encode()).hexdigest()[:16],
    }
    print(json.dumps(document))


if __name__ == "__main__":
    main()
