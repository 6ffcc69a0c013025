"""The posterior: where it must be sure, and where it must not be."""

import numpy as np
import pytest

from bisectperf.stats.changepoint import posterior
from bisectperf.stats.effect import interval, pooled
from bisectperf.stats.information import information
from bisectperf.stats.launches import Launches
from bisectperf.stats.summary import center
from bisectperf.stats.variance import Components, components, repetitions_that_pay


def launches(at, y, *, builds=None, hours=None):
    at = np.asarray(at)
    hours = np.arange(at.size) / 10 if hours is None else np.asarray(hours)
    return Launches(at=at, y=np.asarray(y, float), hours=hours, build=at if builds is None else np.asarray(builds))


def noisy(at, k, effect, seed=3, sd=0.01):
    rng = np.random.default_rng(seed)
    at = np.asarray(at)
    return launches(at, effect * (at >= k) + rng.normal(0, sd, at.size))


def test_probabilities_sum_to_one_and_the_good_end_is_never_first_bad():
    found = posterior(noisy([0, 8, 8, 0, 4], 5, 0.1), 9, smallest=0.02)
    assert found.first_bad.sum() + found.none == pytest.approx(1)
    assert found.first_bad[0] == 0
    assert found.first_bad[1:5].sum() < 0.06


def test_a_clear_step_is_found_with_its_effect():
    found = posterior(noisy([0, 8, 8, 0, 4, 6, 5, 4, 5, 5, 4], 5, 0.1), 9, smallest=0.02)
    assert found.first_bad[5] > 0.99
    mean, sd = found.effect_given(5)
    assert abs(mean - 0.1) < 3 * sd < 0.06


def test_no_difference_becomes_none():
    found = posterior(noisy([0, 8, 8, 0] * 6, 99, 0.0), 9, smallest=0.03)
    assert found.none > 0.9


def test_one_bad_launch_does_not_decide():
    at = [0, 8, 8, 0, 4, 4, 4]
    clean = noisy(at, 5, 0.1)
    y = clean.y.copy()
    y[4] += 0.12
    found = posterior(launches(at, y), 9, smallest=0.02)
    assert found.first_bad[1:5].sum() < 0.2


def test_repeating_one_build_cannot_prove_a_step_of_the_size_of_its_offset():
    rng = np.random.default_rng(5)
    at = [0, 8] * 4 + [4, 5] * 30
    y = 0.03 * (np.asarray(at) >= 5) + rng.normal(0, 0.01, len(at))
    one = posterior(launches(at, y), 9, smallest=0.01).first_bad[5]
    fresh = [0, 8] * 4 + list(range(100, 160))
    several = posterior(launches(at, y, builds=fresh), 9, smallest=0.01).first_bad[5]
    assert several > one


def test_a_step_of_the_environment_is_not_a_commit():
    at = [0, 8, 8, 0, 0, 8, 8, 0, 0, 8, 8, 0]
    y = np.where(np.arange(12) >= 6, 0.03, 0.0) + np.random.default_rng(2).normal(0, 0.01, 12)
    assert posterior(launches(at, y), 9, smallest=0.02).none > 0.3


def test_weights_of_zero_rule_a_place_out():
    weights = np.ones(9)
    weights[5] = 0
    found = posterior(noisy([0, 8, 8, 0, 4, 6], 5, 0.1), 9, smallest=0.02, weights=weights)
    assert found.first_bad[5] == 0


def test_both_ends_are_needed():
    with pytest.raises(ValueError, match="both ends"):
        posterior(noisy([0, 4], 5, 0.1), 9, smallest=0.02)


def test_information_is_what_it_must_be_at_its_limits():
    half, far = np.array([0.5, 0.5]), np.array([0.0, 50.0])
    one = np.array([1.0, 1.0])
    assert information(half, far, one, np.array([0, 1])) == pytest.approx(1.0, abs=1e-3)
    assert information(half, np.zeros(2), one, np.array([0, 1])) == pytest.approx(0.0, abs=1e-6)
    assert information(half, far, one, np.array([0, 0])) == pytest.approx(0.0, abs=1e-6)


def test_intervals_of_two_groups():
    a, b = [0.0, 0.01, -0.01, 0.0], [0.1, 0.11, 0.09, 0.1]
    found = interval(a, b)
    assert found.value == pytest.approx(0.1)
    assert 0.08 < found.low < 0.1 < found.high < 0.12
    assert pooled(a, b).high - pooled(a, b).low <= found.high - found.low + 1e-12
    with pytest.raises(ValueError, match="two launches"):
        interval([0.0], b)


def test_variance_components_are_found_again():
    rng = np.random.default_rng(7)
    groups = [
        [(level + rng.normal(0, 0.02) + rng.normal(0, 0.05, 8)).tolist() for _ in range(40)] for level in (0.0, 0.3)
    ]
    found = components(groups)
    assert found.between == pytest.approx(0.02, rel=0.35)
    assert found.within == pytest.approx(0.05, rel=0.1)


def test_repetitions_that_pay():
    assert repetitions_that_pay(Components(0.01, 0.02), 100.0, 4.0) == pytest.approx(10.0)
    assert repetitions_that_pay(Components(0.0, 0.02), 100.0, 4.0) == float("inf")


@pytest.mark.parametrize(
    ("how", "better", "value"),
    [
        ("median", "higher", 3.0),
        ("upper-quartile", "higher", 4.0),
        ("upper-quartile", "lower", 2.0),
        ("minimum", "lower", 1.0),
        ("minimum", "higher", 5.0),
    ],
)
def test_centres(how, better, value):
    assert center([1.0, 2.0, 3.0, 4.0, 5.0], how, better=better) == value
