"""What the first launches say of the recipe: short warm-up, repetitions that pay, two speeds in a launch."""

import numpy as np
import pytest

from bisectperf import events as ev
from bisectperf.model import Samples
from bisectperf.search import findings
from bisectperf.search.checks import SPLIT
from bisectperf.simulate import Night, World
from bisectperf.state import apply
from bisectperf.stats.variance import split


def told(repetitions, *, bench=70.0, ready=120.0):
    """Return the findings of a night whose launches have these repetitions (a function of a generator)."""
    night = Night(World(candidates=4, effect=0.3, spread=0.01), 1)
    state, rng = night.state, np.random.default_rng(4)
    for number, k in enumerate((0, 4, 4, 0, 0, 4)):
        where = night.state.line.positions[k]
        about = {"launch": f"L{number}", "sha": where.sha, "tree": where.tree, "host": "local", "reason": ""}
        state = apply(state, ev.LaunchPlanned(at=number, why="endpoint", **about))
        samples = Samples(repetitions=tuple(np.exp(0.3 * (k == 4) + repetitions(rng))))
        seconds = {"ready": ready, "bench": bench}
        state = apply(
            state,
            ev.Measured(
                at=number,
                launch=f"L{number}",
                samples=samples,
                proofs=(),
                origin=None,
                facts=(),
                seconds=seconds,
                started=number,
            ),
        )
    return findings(state), state


def test_a_warm_up_that_is_too_short():
    texts, state = told(lambda rng: rng.normal(0, 0.02) + rng.normal(0, 0.01, 12) + 0.06 * (np.arange(12) < 2))
    assert any("the warm-up (0) is too short" in text for text in texts)
    for text in texts:
        state = apply(state, ev.Noted(at=9, kind="finding", text=text))
    assert not findings(state)


def test_repetitions_that_cost_more_than_they_tell():
    (text,), _ = told(lambda rng: rng.normal(0, 0.02) + rng.normal(0, 0.01, 30), bench=300.0, ready=5.0)
    assert "30 repetitions a launch" in text


def test_two_speeds():
    texts, _ = told(lambda rng: rng.normal(0, 0.005, 16) + 0.4 * (rng.random(16) < 0.5))
    assert any("jump between two speeds" in text for text in texts)


def test_a_sound_recipe_gets_no_word():
    assert told(lambda rng: rng.normal(0, 0.01) + rng.normal(0, 0.02, 7))[0] == []


@pytest.mark.parametrize("draw", ["normal", "uniform"])
def test_one_level_is_not_split(draw):
    rng = np.random.default_rng(3)
    assert np.mean([split(getattr(rng, draw)(size=12))[0] > SPLIT for _ in range(200)]) < 0.02
