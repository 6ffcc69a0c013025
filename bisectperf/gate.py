"""What the gate of a launch is told: the recipe's limits, and what the first launches of both ends saw."""

import csv
from typing import Any

import msgspec.structs

from bisectperf.model import HostFacts
from bisectperf.recipe.schema import Recipe
from bisectperf.state import Launch, State

ENDS = 4
"""Launches of the ends (good, bad, bad, good) that make the band; with fewer there is none yet."""
FIXED = ("kernel", "driver", "python of the launch")
"""Facts of a snapshot that must stand still all night, as do the versions of packages."""


def gate_spec(recipe: Recipe, state: State) -> dict[str, Any] | None:
    """Return the gate's part of a launch's specification, or None where the recipe wants no gate."""
    gate = recipe.gate
    if not gate.enabled:
        return None
    spec: dict[str, Any] = msgspec.structs.asdict(gate)
    visible = (recipe.launch.env if recipe.launch else recipe.bench.env).get("CUDA_VISIBLE_DEVICES", "")
    spec["devices"] = list(gate.devices) or [word.strip() for word in visible.split(",") if word.strip()]
    spec["reference"] = reference(state, packages=_packages_stand_still(recipe))
    return spec


def _packages_stand_still(recipe: Recipe) -> bool:
    """Return whether no build of ours writes into the environment of the launches."""
    policy = recipe.environment.policy
    frozen = recipe.environment.pins == "frozen"
    return frozen and (policy == "overlay" or (policy == "none" and not recipe.build.commands))


def reference(state: State, *, packages: bool) -> dict[str, Any]:
    """Return {uuid: {clock, temperature: [low, high], memory}} of the ends' launches; "facts": what stood still.

    `packages` leaves out the versions of packages where each build has an environment of its own.
    """
    ends = [x for x in state.measured() if x.why in ("endpoint", "compare")][:ENDS]
    found: dict[str, Any] = {"facts": _standing(state, ends, packages=packages)}
    if len(ends) < ENDS:
        return found
    for launch in ends:
        if len(launch.facts) < 2:
            continue
        for uuid, gpu in _gpus(launch.facts[1]).items():
            band = found.setdefault(uuid, {"clock": [], "temperature": [], "memory": None})
            for name, field in (("clock", "clocks.sm"), ("temperature", "temperature.gpu")):
                if (value := _number(gpu.get(field))) is not None:
                    band[name] = [min([value, *band[name]]), max([value, *band[name]])]
            before = _number(_gpus(launch.facts[0]).get(uuid, {}).get("memory.used"))
            if before is not None:
                band["memory"] = max(before, band["memory"] or 0.0)
    return found


def _standing(state: State, ends: list[Launch], *, packages: bool) -> dict[str, str]:
    facts = state.snapshots.get(ends[0].snapshot, {}) if ends else {}
    return {name: text for name, text in facts.items() if name in FIXED or (packages and name.startswith("package "))}


def _gpus(moment: HostFacts) -> dict[str, dict[str, str]]:
    """Return the table of GPUs as uuid -> field -> text."""
    lines, fields = moment.facts.get("gpus"), moment.facts.get("gpu_fields")
    if not isinstance(lines, list) or not isinstance(fields, str):
        return {}
    names = [name.strip() for name in fields.split(",")]
    rows = (dict(zip(names, cells, strict=False)) for cells in csv.reader(lines, skipinitialspace=True))
    return {row["uuid"]: row for row in rows if "uuid" in row}


def _number(text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return None
