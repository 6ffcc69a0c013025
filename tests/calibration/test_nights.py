"""Simulated nights: right when it claims. Small here; the seeds are fixed and named in a failure."""

import pytest

from bisectperf.model import FirstBad, FirstBadAmong, NotReproduced, SeveralChanges
from bisectperf.simulate import World, nights, position_of, truth

NIGHTS = 6
BASE = {"candidates": 32, "spread": 0.01, "smallest_effect": 0.02}


def claimed(verdict):
    """Return the positions that a verdict names, or None when it claims nothing."""
    if isinstance(verdict, FirstBad):
        return {position_of(verdict.sha)}
    if isinstance(verdict, FirstBadAmong):
        return {position_of(sha) for sha in verdict.commits}
    if isinstance(verdict, SeveralChanges):
        return {-1}
    return None


@pytest.mark.parametrize(
    ("name", "world"),
    [
        ("effect 10 sd", World(**BASE, effect=0.10)),
        ("effect 5 sd, builds differ", World(**BASE, effect=0.05, offset=0.5)),
        ("effect 5 sd, untestable stretches", World(**BASE, effect=0.05, untestable=0.2, stretches=True)),
        ("effect 5 sd, outliers", World(**BASE, effect=0.05, outliers=0.05)),
        ("effect 5 sd, the environment steps", World(**BASE, effect=0.05, drift="step", drift_size=2)),
    ],
)
def test_no_wrong_commit_is_named(name, world):
    right = 0
    for seed, outcome in zip(range(NIGHTS), nights(world, range(NIGHTS)), strict=True):
        found = claimed(outcome.verdict)
        true = truth(world, seed).first_bad
        assert found is None or true in found, f"{name}, seed {seed}: {outcome.verdict}, true {true}"
        right += found is not None
    assert right >= NIGHTS - 1, f"{name}: it won by silence"


@pytest.mark.parametrize("drift", ["none", "step"])
def test_nothing_is_named_when_nothing_changed(drift):
    world = World(**BASE, first_bad=None, drift=drift, drift_size=2)
    outcomes = nights(world, range(NIGHTS))
    assert not [o for o in outcomes if claimed(o.verdict)]
    assert sum(isinstance(o.verdict, NotReproduced) for o in outcomes) >= NIGHTS - 2


def test_two_steps_are_two_steps():
    world = World(**BASE, levels=((10, 0.08), (24, 0.12)))
    for seed, outcome in zip(range(3), nights(world, range(3)), strict=True):
        assert isinstance(outcome.verdict, SeveralChanges), f"seed {seed}: {outcome.verdict}"
        assert {position_of(step.sha) for step in outcome.verdict.steps} == {10, 24}


def test_a_spike_that_comes_and_goes_is_not_blamed():
    world = World(**BASE, levels=((8, 0.30), (10, -0.30), (20, 0.10)))
    for seed, outcome in zip(range(3), nights(world, range(3)), strict=True):
        found = claimed(outcome.verdict)
        assert found is None or found <= {8, 20, -1}, f"seed {seed}: {outcome.verdict}"
