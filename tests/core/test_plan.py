"""plan: what a night costs, from assumed noise, a run's own, and what is said where there is none."""

import json
import math

import pytest

from bisectperf import cli
from bisectperf.errors import ExitCode
from bisectperf.forecast import Forecast, found_within, noise_of
from bisectperf.simulate import Night, World

SMALL = ("--commits", "8", "--nights", "4", "--effect", "10")


def test_assumed_noise(capsys):
    assert cli.run(["plan", "--noise", "1", "--build", "60", "--launch", "30", "--hours", "6", *SMALL]) == 0
    page = capsys.readouterr().out
    assert "launches differ by 1.00 % (standard deviation; assumed)" in page
    assert "10 % (10.0 sd)" in page
    assert "4/4" in page
    assert "A night of 6 h finds 10 % and more" in page


def test_as_json(capsys):
    assert cli.run(["plan", "--noise", "1", "--json", *SMALL]) == 0
    found = json.loads(capsys.readouterr().out)
    effect, nothing = found["forecasts"]
    assert effect["right"] == effect["claims"] == 4
    assert nothing["effect"] is None
    assert found["world"]["candidates"] == 8


def test_without_a_run_and_without_noise(history, monkeypatch, capsys):
    monkeypatch.chdir(history.folder)
    assert cli.run(["plan"]) == ExitCode.NO_BISECTION
    assert "Traceback" not in capsys.readouterr().err


def test_the_noise_of_a_run_is_found_again():
    night = Night(World(candidates=8, spread=0.02, effect=0.1), 3)
    night.run()
    found = noise_of(night.state)
    assert 0.01 < found.spread < 0.04
    assert found.upper > found.spread
    assert len(found.pool) >= 10


def row(effect, hours):
    return Forecast(
        effect=effect, nights=4, launches=(1, 1), builds=1, hours=(1.0, hours), claims=4, right=4, named=4
    )


@pytest.mark.parametrize(("night", "effect"), [(9.0, 0.01), (5.0, 0.02), (2.0, 0.05), (0.5, None)])
def test_what_a_night_finds(night, effect):
    rows = [row(0.01, 8.0), row(0.02, 4.0), row(0.05, 1.5), row(None, math.inf)]
    assert found_within(rows, night) == effect
