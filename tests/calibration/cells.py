"""The worlds of the calibration: one factor at a time from a base cell, combinations of a printed seed, costs."""

from pathlib import Path

import msgspec
import numpy as np

from bisectperf.simulate import World
from bisectperf.stats.summary import center

BASE = World(spread=0.01, smallest_effect=0.01, effect=0.03)
COMBINATION_SEED = 20261201
EFFECTS = (0.01, 0.02, 0.03, 0.05, 0.10)
DRIFTS = (("none", 0.0), ("triangle", 1.0), ("ramp", 2.0), ("step", 2.0), ("walk", 1.0))
LAUNCHES_DOMINATE = {"build_seconds": 0.0, "launch_seconds": 600.0, "night_hours": 8.0}


def world(**changes):
    found = msgspec.structs.replace(BASE, **changes)
    # A smallest effect worth finding that is the effect itself would cut the prior at the truth.
    return msgspec.structs.replace(found, smallest_effect=min(found.smallest_effect, found.effect / 2))


def single_factor():
    """Name -> world; the order is that of value: what a short run must have comes first."""
    return {
        "base (64 candidates, effect 3 sd)": world(),
        "builds differ by 0.5 sd": world(offset=0.5),
        "nothing changed": world(first_bad=None),
        "effect 2 sd": world(effect=0.02),
        "effect 10 sd": world(effect=0.10),
        "drift: step of 2 sd": world(drift="step", drift_size=2.0),
        "builds differ by 0.25 sd": world(offset=0.25),
        "20 % of launches 3 sd slow": world(bimodal=0.2),
        "5 % outliers": world(outliers=0.05),
        "20 % untestable in stretches": world(untestable=0.2, stretches=True),
        "20 % untestable, scattered": world(untestable=0.2),
        "drift: ramp of 2 sd": world(drift="ramp", drift_size=2.0),
        "drift: random walk": world(drift="walk"),
        "drift: triangle of 1 sd": world(drift="triangle"),
        "nothing changed, step of 2 sd": world(first_bad=None, drift="step", drift_size=2.0),
        "nothing changed, builds differ by 0.5 sd": world(first_bad=None, offset=0.5),
        "7 candidates": world(candidates=7),
        "1,024 candidates": world(candidates=1024),
        "effect 5 sd": world(effect=0.05),
        "effect 2 sd, builds differ by 0.5 sd": world(effect=0.02, offset=0.5),
        "effect 1 sd": world(effect=0.01),
    }


def combinations(count=100):
    """Name -> world: every factor drawn, from one seed."""
    rng = np.random.default_rng(COMBINATION_SEED)
    found = {}
    for number in range(count):
        drift, size = DRIFTS[rng.integers(len(DRIFTS))]
        untestable = int(rng.integers(3))
        changes = {
            "candidates": int(rng.choice([7, 64, 1024])),
            "effect": float(rng.choice(EFFECTS[1:])),
            "outliers": float(rng.choice([0.0, 0.05])),
            "drift": drift,
            "drift_size": size,
            "untestable": 0.2 if untestable else 0.0,
            "stretches": untestable == 2,
            "bimodal": float(rng.choice([0.0, 0.2])),
            "offset": float(rng.choice([0.0, 0.25, 0.5])),
        }
        found[f"combination {number:03d}"] = world(**changes)
    return found


def costs():
    """Name -> world: the same effects under two cost profiles."""
    found = {}
    for effect in (0.03, 0.02, 0.10, 0.01):
        found[f"builds dominate, effect {effect / 0.01:.0f} sd"] = world(effect=effect)
        found[f"launches dominate, effect {effect / 0.01:.0f} sd"] = world(effect=effect, **LAUNCHES_DOMINATE)
    found["builds dominate, nothing changed"] = world(first_bad=None)
    found["builds dominate, effect 2 sd, step of 2 sd"] = world(effect=0.02, drift="step", drift_size=2.0)
    return found


def replayed(path):
    """Name -> world: launches measured on a real server (JSON lines with repetitions), resampled as the noise."""
    rows = [msgspec.json.decode(line) for line in Path(path).read_bytes().splitlines()]
    found = {}
    for batch, effect in (("bs8", 0.08), ("bs8", 0.20), ("bs1", 0.30)):
        for how in ("median", "upper-quartile"):
            logs = [np.log(row[batch]) for row in rows if batch in row]
            pool = np.array([-center(x.tolist(), how, better="higher") for x in logs])
            pool -= np.median(pool)
            name = f"replayed {batch}, {how}, effect {effect:.0%}"
            found[name] = world(effect=float(np.log1p(effect)), smallest_effect=0.03, pool=tuple(pool.tolist()))
    return found
