"""The state for machines. The schema is described in docs/json.md; `schema` counts its breaking changes."""

import math
from typing import Any

import msgspec

from bisectperf.model import Effect, Metric
from bisectperf.report.environment import environment
from bisectperf.report.verdict import verdict_sentence
from bisectperf.report.view import Row, effect_of, elapsed, phase, posterior_of, rows, verdict_on
from bisectperf.report.words import change, in_unit
from bisectperf.search.eta import eta
from bisectperf.state import Launch, State

SCHEMA = 1


def to_json(state: State, now: float) -> dict[str, Any]:
    """Return everything that a report says as plain JSON values; times are seconds since the epoch."""
    verdict = state.decided
    return {
        "schema": SCHEMA,
        "phase": phase(state),
        "began": state.began,
        "last": state.last,
        "elapsed_seconds": elapsed(state, now),
        "plan": msgspec.to_builtins(state.asked),
        "verdict": None if verdict is None else _plain(verdict),
        "sentence": "" if verdict is None else verdict_sentence(verdict, state),
        "effect": _effect(effect_of(verdict), state.asked.metric),
        "no_change": _no_change(state),
        "stopped": None if state.stopped is None else _plain(state.stopped),
        "limits": _plain(state.limits),
        "eta": _eta(state),
        "lines": [_line(state, k) for k in range(len(state.lines))],
        "launches": [_launch(x, state) for x in state.launches.values()],
        "in_flight": [x.id for x in state.in_flight()],
        "marks": dict(state.marks),
        "notes": [{"at": n.at, "kind": n.kind, "text": n.text, "launch": n.launch} for n in state.notes],
        "environment": [_plain(fact) for fact in environment(state)],
    }


def _line(state: State, k: int) -> dict[str, Any]:
    verdict = verdict_on(state, k)
    return {
        "inside": state.lines[k].inside,
        "verdict": None if verdict is None else _plain(verdict),
        "positions": [_row(row, state.asked.metric) for row in rows(state, k)],
    }


def _row(row: Row, metric: Metric) -> dict[str, Any]:
    return {
        "index": row.index,
        "commits": list(row.position.commits),
        "subject": row.position.subject,
        "tree": row.position.tree,
        "onto": row.position.onto,
        "known": row.known,
        "untestable": row.reason,
        "suspect": row.suspect,
        "probability": row.probability,
        "level": None if row.level is None else in_unit(row.level.value, metric),
        "level_interval": _level_interval(row.level, metric),
        "launches": [x.id for x in row.launches],
    }


def _level_interval(level: Effect | None, metric: Metric) -> list[float] | None:
    """Return a level's interval in the metric's unit, low to high; None while nothing is known of the spread."""
    if level is None or not math.isfinite(level.high):
        return None
    return sorted((in_unit(level.low, metric), in_unit(level.high, metric)))


def _launch(launch: Launch, state: State) -> dict[str, Any]:
    metric = state.asked.metric
    return {
        "id": launch.id,
        "commit": launch.sha,
        "tree": launch.tree,
        "host": launch.host,
        "why": launch.why,
        "reason": launch.reason,
        "status": launch.status,
        "planned": launch.planned,
        "value": None if launch.value is None else in_unit(launch.value, metric),
        "samples": None if launch.samples is None else msgspec.to_builtins(launch.samples),
        "build": None if launch.build is None else msgspec.to_builtins(launch.build),
        "seconds": launch.seconds,
        "failure": {"kind": launch.void_kind, "reason": launch.void, "detail": launch.detail}
        if launch.void
        else None,
        "proofs": msgspec.to_builtins(launch.proofs),
        "origin": None if launch.origin is None else msgspec.to_builtins(launch.origin),
        "facts": msgspec.to_builtins(launch.facts),
    }


def _effect(effect: Effect | None, metric: Metric) -> dict[str, float] | None:
    """Return an effect as the change of the metric in percent, with its interval low to high."""
    if effect is None:
        return None
    low, high = sorted((change(effect.low, metric), change(effect.high, metric)))
    return {"percent": change(effect.value, metric), "low": low, "high": high, "level": effect.level}


def _eta(state: State) -> dict[str, float] | None:
    """Return when a verdict is expected: seconds from `since`, in half and in 90 % of all cases."""
    found = None if state.stopped is not None else eta(state)
    return (
        None if found is None else {"since": found.since, "median_seconds": found.median, "high_seconds": found.high}
    )


def _no_change(state: State) -> float | None:
    weights = posterior_of(state)
    return None if weights is None else weights.none


def _plain(value: msgspec.Struct) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(value)
    return plain
