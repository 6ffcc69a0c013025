"""The JSON twin: plain, complete, and described."""

import json
from pathlib import Path

import pytest

from bisectperf.report.jsonout import to_json

DOC = Path(__file__).parents[2] / "docs" / "json.md"


def test_it_is_json_without_loss(night):
    state = night.state()
    said = to_json(state, state.last + 5)
    assert json.loads(json.dumps(said, allow_nan=False)) == json.loads(json.dumps(said))
    assert len(said["launches"]) == len(state.launches)
    assert (said["verdict"] is None) == (said["phase"] != "decided")


def test_a_script_can_read_the_answer(nights):
    state = nights["first-bad"]().state()
    said = to_json(state, state.last)
    assert said["verdict"]["verdict"] == "first-bad"
    assert said["effect"]["percent"] == pytest.approx(-5.9, abs=0.05)
    assert said["effect"]["low"] < said["effect"]["percent"] < said["effect"]["high"] < 0
    culprit = said["lines"][0]["positions"][9]
    assert culprit["suspect"]
    assert culprit["commits"][0] == said["verdict"]["sha"]
    assert culprit["level_interval"][0] < culprit["level"] < culprit["level_interval"][1]
    assert [x["failure"]["kind"] for x in said["launches"] if x["failure"]] == ["unfit"]


def test_every_key_is_described(nights):
    state = nights["running"]().state()
    said = to_json(state, state.last)
    described = DOC.read_text()
    keys = {
        *said,
        *said["lines"][0],
        *said["lines"][0]["positions"][0],
        *said["launches"][0],
        *said["environment"][0],
    }
    assert sorted(key for key in keys if f"`{key}`" not in described) == []


def test_every_kind_of_verdict_is_described(night):
    verdict = to_json(night.state(), 0.0)["verdict"]
    assert verdict is None or f"`{verdict['verdict']}`" in DOC.read_text()
