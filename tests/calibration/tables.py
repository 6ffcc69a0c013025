"""The tables of docs/calibration.md from simulated nights: `tables.py DIR [--write docs/calibration.md]`.

Everything between the file's two marks is replaced; what stands around them is written by hand.
"""

import argparse
import json
import math
from collections import defaultdict
from pathlib import Path

import numpy as np

Z = 1.96
BEGIN, END = "<!-- tables: begin -->", "<!-- tables: end -->"
PLANNER = "bisectperf"


def wilson(hits, count):
    """Return the two bounds of Wilson's 95 % interval of a share."""
    if not count:
        return 0.0, 1.0
    share, z2 = hits / count, Z * Z
    middle = (share + z2 / (2 * count)) / (1 + z2 / count)
    half = Z / (1 + z2 / count) * math.sqrt(share * (1 - share) / count + z2 / (4 * count**2))
    return middle - half, middle + half


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--write", type=Path)
    asked = parser.parse_args()
    lines = (asked.folder / "nights.jsonl").read_text().splitlines()
    nights = [json.loads(line) for line in lines if line.endswith("}")]
    text = "\n\n".join([calibration(nights), combined(nights), replayed(nights), costs(nights)])
    if asked.write is None:
        print(text)
        return
    page = asked.write.read_text()
    before, rest = page.split(BEGIN)
    after = rest.split(END)[1]
    asked.write.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}")


def cells_of(nights, group):
    found = defaultdict(list)
    for x in nights:
        if x["group"] == group and x["method"] == PLANNER:
            found[x["cell"]].append(x)
    return found


HEAD = (
    "| {} | nights | claims | wrong | right, at least (95 %) | one commit | set (median size) | inconclusive "
    "| launches (95 %) | builds | hours |\n|---|---|---|---|---|---|---|---|---|---|---|"
)


def row(name, xs):
    claims = [x for x in xs if x["claim"]]
    wrong = sum(not x["right"] for x in claims)
    low = wilson(len(claims) - wrong, len(claims))[0] if claims else None
    single = sum(x["verdict"] == "FirstBad" for x in xs)
    sets = [len(x["named"]) for x in xs if x["verdict"] == "FirstBadAmong"]
    silent = sum(x["verdict"] == "Inconclusive" for x in xs)
    launches = [x["launches"] for x in xs]
    size = f"{len(sets)} ({np.median(sets):.0f})" if sets else "0"
    return (
        f"| {name} | {len(xs)} | {len(claims)} | {wrong} | {percent(low)} | {percent(single / len(xs))} | {size} "
        f"| {silent} | {np.mean(launches):.1f} ({np.quantile(launches, 0.95):.0f}) "
        f"| {np.mean([x['builds'] for x in xs]):.1f} | {np.mean([x['hours'] for x in xs]):.2f} |"
    )


def percent(share):
    return "" if share is None else f"{100 * share:.1f} %"


def calibration(nights):
    found = cells_of(nights, "single")
    parts = [HEAD.format("one factor from the base cell"), *(row(name, xs) for name, xs in found.items())]
    return "## Claims\n\n" + "\n".join(parts) + "\n\n" + pooled(nights)


def pooled(nights):
    mine = [x for x in nights if x["method"] == PLANNER and x["group"] in ("single", "combination", "cost")]
    claims = [x for x in mine if x["claim"]]
    right = sum(x["right"] for x in claims)
    low, high = wilson(right, len(claims))
    share = percent(right / max(len(claims), 1))
    bounds = f"(95 %: {percent(low)} to {percent(high)})"
    parts = [f"All cells together: {right} of {len(claims)} claims right, {share} {bounds}."]
    nothing = [x for x in mine if x["true"] is None]
    named = sum(x["claim"] for x in nothing)
    if nothing:
        low, high = wilson(named, len(nothing))
        told = sum(x["verdict"] == "NotReproduced" for x in nothing)
        parts.append(
            f"Where nothing changed: {named} of {len(nothing)} nights claimed something (95 %: {percent(low)} to "
            f"{percent(high)}); {told} said *not reproduced*."
        )
    covered = [x["covered"] for x in mine if x["covered"] is not None]
    if covered:
        low, high = wilson(sum(covered), len(covered))
        parts.append(
            f"The 95 % interval of the effect held the true one in {percent(sum(covered) / len(covered))} of "
            f"{len(covered)} single right commits (95 %: {percent(low)} to {percent(high)})."
        )
    return "\n".join(parts)


def combined(nights):
    found = cells_of(nights, "combination")
    if not found:
        return "## Combinations\n\nNone were run."
    worst = sorted(found.items(), key=lambda item: -sum(x["claim"] and not x["right"] for x in item[1]))
    everything = [x for xs in found.values() for x in xs]
    shown = [item for item in worst if any(x["claim"] and not x["right"] for x in item[1])]
    parts = [HEAD.format("combination"), row(f"all {len(found)}", everything), *(row(n, xs) for n, xs in shown)]
    return "## Combinations\n\nAll of them, then each that claimed a wrong commit.\n\n" + "\n".join(parts)


def replayed(nights):
    found = cells_of(nights, "replayed")
    if not found:
        return "## Replayed launches\n\nNone were run."
    parts = [HEAD.format("launches of a real server, resampled"), *(row(n, xs) for n, xs in found.items())]
    return "## Replayed launches\n\n" + "\n".join(parts)


def costs(nights):
    found = defaultdict(list)
    for x in nights:
        if x["group"] == "cost":
            found[x["cell"], x["method"]].append(x)
    parts = [
        "| case | planner | nights | right | wrong / claimed | launches (95 %) | builds | hours |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for (cell, method), xs in sorted(found.items(), key=lambda item: item[0][0]):
        claims = [x for x in xs if x["claim"]]
        wrong = sum(not x["right"] for x in claims)
        launches = [x["launches"] for x in xs]
        parts.append(
            f"| {cell} | {method} | {len(xs)} | {percent(sum(x['right'] for x in xs) / len(xs))} "
            f"| {wrong}/{len(claims)} | {np.mean(launches):.1f} ({np.quantile(launches, 0.95):.0f}) "
            f"| {np.mean([x['builds'] for x in xs]):.1f} | {np.mean([x['hours'] for x in xs]):.2f} |"
        )
    return "## Cost\n\n" + "\n".join(parts)


if __name__ == "__main__":
    main()
