"""What a launch's result file means."""

import time
from typing import Any

import msgspec

from bisectperf import events as ev
from bisectperf.errors import HostMoved, HostUnfit, LaunchFlaky, ProofFailed
from bisectperf.model import HostFacts, OriginProof, Samples, TreeProof
from bisectperf.search import Measure


def measured(result: dict[str, Any], step: Measure) -> ev.Measured:
    """Return the fact of a launch that counts; a damaged result raises `ValidationError` or `KeyError`."""
    return ev.Measured(
        at=time.time(),
        launch=step.launch,
        samples=msgspec.convert(result["samples"], Samples),
        proofs=msgspec.convert(result["proofs"], tuple[TreeProof, ...]),
        origin=msgspec.convert(result["origin"], OriginProof | None),
        facts=msgspec.convert(result["facts"], tuple[HostFacts, ...]),
        seconds=result["seconds"],
        started=result["bench_middle"],
    )


def failure(result: dict[str, Any], step: Measure) -> Exception:
    """Return the error of a launch that gave no sample, by its disposition."""
    outcome, detail, tail = result["outcome"], result["detail"], result.get("tail", "")
    said = f"{step.sha[:9]}: {detail}"
    if outcome in ("proof-failed", "origin-failed"):
        hint = "an import from elsewhere: see [environment] in the recipe" if outcome == "origin-failed" else ""
        return ProofFailed(said, detail=tail, hint=hint or "something else writes into our folder on the host")
    if outcome == "moved":
        hint = "put it back, then `bisectperf run`; or `bisectperf reset` and start again on the host as it is now"
        return HostMoved(detail, hint=hint)
    if outcome in ("leftover", "disk-full", "unfit"):
        return HostUnfit(said, detail=tail)
    return LaunchFlaky(said, detail=tail)
