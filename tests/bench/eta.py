"""How far off were the forecasts? From journals of runs that ended, or from simulated nights.

python tests/bench/eta.py [JOURNAL ...]        journals of finished bisections
python tests/bench/eta.py --nights N [--seed S]  simulated nights in four worlds

Before each launch after the ends are known, the forecast of that moment is held against what the rest really took.
A good forecast has half of the cases below its median and nine in ten below its 90 % bound.
"""

import argparse
import sys
from pathlib import Path

import numpy as np

from bisectperf import events as ev
from bisectperf.journal import read
from bisectperf.search.eta import eta
from bisectperf.simulate import Night, World, truth
from bisectperf.state import State, apply

WORLDS = {
    "clear effect": World(effect=0.05, offset=0.2),
    "small effect": World(effect=0.02, offset=0.3, outliers=0.02),
    "400 candidates, quick builds": World(candidates=400, build_seconds=60, offset=0.3),
    "commits that fail": World(untestable=0.15, offset=0.2),
}


def scored(events):
    """Return (median, 90 % bound, what it really took), in seconds, for each forecast up to the first verdict."""
    ends = [event.at for event in events if isinstance(event, ev.Decided)]
    rows, state = [], State()
    for event in events if ends else ():
        if isinstance(event, ev.Decided):
            break
        if isinstance(event, ev.LaunchPlanned) and (found := eta(state)) is not None:
            rows.append((found.median, found.high, ends[0] - found.since))
        state = apply(state, event)
    return rows


class Recorded(Night):
    """A simulated night that keeps its facts."""

    def __init__(self, world, seed):
        self.events = []
        super().__init__(world, seed)

    def _append(self, event):
        self.events.append(event)
        super()._append(event)


def night(world, seed):
    placed = Recorded(truth(world, seed), seed)
    outcome = placed.run()
    begun = placed.state
    head = [ev.Started(at=0.0, plan=begun.plan, version="simulated"), ev.LineDrawn(at=0.0, line=begun.lines[0])]
    return [*head, *placed.events, ev.Decided(at=placed.rig.now, verdict=outcome.verdict)]


def show(name, rows):
    if not rows:
        print(f"| {name} | 0 | | | |")
        return
    median, high, took = np.array(rows).T
    ratio = np.quantile(took / np.maximum(median, 1e-9), [0.1, 0.5, 0.9])
    low, middle, most = (f"{x:.2f}" for x in ratio)
    print(
        f"| {name} | {len(rows)} | {100 * np.mean(took <= median):.0f} % | {100 * np.mean(took <= high):.0f} % "
        f"| {low} / {middle} / {most} |",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("journals", nargs="*", type=Path)
    parser.add_argument("--nights", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    print("| runs | forecasts | took less than the median | than the 90 % bound | took / median: 10, 50, 90 % |")
    print("|---|---|---|---|---|")
    if options.journals:
        show("journals", [row for path in options.journals for row in scored(read(path))])
    for name, world in WORLDS.items() if options.nights else ():
        seeds = range(options.seed, options.seed + options.nights)
        show(name, [row for seed in seeds for row in scored(night(world, seed))])


if __name__ == "__main__":
    sys.exit(main())
