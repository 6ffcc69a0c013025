"""Whatever bytes they are given, the parsers answer or refuse in a sentence: no traceback, no hang.

A hundred thousand inputs each in `make slow` (a few hundred in `make test`); the seed is printed, and
`BISECTPERF_FUZZ_SEED` sets it.
"""

import contextlib
import importlib
import json
import os
import random
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from bisectperf import events as ev
from bisectperf.errors import BisectperfError
from bisectperf.journal import encode, parse
from bisectperf.recipe.load import load
from bisectperf.state import fold

SEED = int(os.environ.get("BISECTPERF_FUZZ_SEED") or random.randrange(2**32))
HOSTSIDE = str(Path(__file__).parents[2] / "bisectperf" / "hostside")
RECIPE = (Path(__file__).parents[2] / "examples" / "laptop" / "recipe" / "recipe.toml").read_text()
JOURNAL = b"".join(
    encode(n, event)
    for n, event in enumerate(
        [
            ev.Noted(at=1.0, kind="warning", text="words"),
            ev.Stopped(at=2.0, why="budget", reason="over"),
            ev.Resumed(at=3.0, version="1"),
        ]
    )
)
OUTPUT = '{"warmup": [{"speed": 1}], "repetitions": [{"speed": 100.5, "more": 2}], "guards": {"a": {"ok": true}}}'
RUNS = [pytest.param(300, id="few"), pytest.param(100_000, id="many", marks=pytest.mark.slow)]


@pytest.fixture(scope="module", autouse=True)
def said():
    sys.stderr.write(f"\nfuzz seed {SEED}\n")


def mutated(whole):
    """Return a strategy: `whole` with pieces cut, moved and replaced; or bytes of no kind at all."""
    piece = st.tuples(st.integers(0, len(whole)), st.integers(0, 40), st.binary(max_size=12))

    def apply(pieces):
        data = whole
        for at, length, new in pieces:
            data = data[:at] + new + data[min(at + length, len(data)) :]
        return data

    return st.one_of(st.lists(piece, max_size=4).map(apply), st.binary(max_size=300))


def fuzz(strategy, times, target):
    """Call `target` with that many inputs; one that takes ten seconds fails."""

    @seed(SEED)
    @settings(max_examples=times, deadline=10_000, database=None, suppress_health_check=list(HealthCheck))
    @given(strategy)
    def run(data):
        target(data)

    run()


@pytest.mark.parametrize("times", RUNS)
def test_journal(times):
    def target(data):
        with contextlib.suppress(BisectperfError):
            events, good = parse(data)
            assert good <= len(data)
            with contextlib.suppress(BisectperfError):
                fold(events)

    fuzz(mutated(JOURNAL), times, target)


@pytest.mark.parametrize("times", RUNS)
def test_recipe(times):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "recipe.toml")

        def target(data):
            path.write_bytes(data)
            with contextlib.suppress(BisectperfError):
                load(path)

        fuzz(mutated(RECIPE.encode()), times, target)


def numbers_and_nests():
    leaf = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5))
    return st.recursive(leaf, lambda x: st.one_of(st.lists(x, max_size=3), st.dictionaries(KEYS, x, max_size=4)))


KEYS = st.sampled_from(["repetitions", "warmup", "speed", "guards", "findings", "ok", "detail", "more", "0"])


@pytest.mark.parametrize("times", RUNS)
def test_benchmark_output(times, monkeypatch):
    monkeypatch.syspath_prepend(HOSTSIDE)
    benchmark, failed = importlib.import_module("benchmark"), importlib.import_module("failure").Failed
    ways = [{"regex": "", "path": "repetitions.0.speed"}, {"regex": r'speed": (\S+)', "path": ""}]
    guard = {"name": "more", "minimum": 1.0, "maximum": None, "log_absent": ""}

    def target(text):
        for way in ways:
            with contextlib.suppress(failed):
                assert isinstance(benchmark.one_number(text, way), float)
        with contextlib.suppress(failed):
            document = benchmark.last_json(text)
            found = benchmark.samples(document, "speed", ["more"])
            assert all(0 < r < float("inf") for r in found["repetitions"])
            benchmark.check_guards(document, [guard], None, 0)

    texts = mutated(OUTPUT.encode()).map(lambda data: data.decode(errors="replace"))
    fuzz(st.one_of(texts, numbers_and_nests().map(json.dumps)), times, target)
