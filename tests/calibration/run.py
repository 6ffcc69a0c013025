"""Simulated nights, in parallel: `python tests/calibration/run.py --workers 14 --seconds 300 --out DIR`.

One JSON line per night in DIR/nights.jsonl: an interrupted run keeps its nights, and the next one goes on where it
stopped. The jobs come in rounds: every cell gets a few nights before any gets more, the most needed ones first.
`python tests/calibration/tables.py DIR` makes the tables of them.
"""

import one_thread  # noqa: F401  # isort: skip -- before anything that loads numpy

import argparse
import concurrent.futures as cf
import itertools
import json
import time
from pathlib import Path

import baselines
import cells

from bisectperf.model import Faster, FirstBad, FirstBadAmong, NotReproduced, SeveralChanges
from bisectperf.simulate import Night, Rig, position_of, truth

ROUND = {"single": 10, "combination": 2, "cost": 5, "replayed": 10}
NIGHTS = {"single": 300, "combination": 50, "cost": 150, "replayed": 100}
PLANNER = "bisectperf"


def main():
    asked = arguments()
    asked.out.mkdir(parents=True, exist_ok=True)
    path = asked.out / "nights.jsonl"
    done = {(x["group"], x["cell"], x["method"], x["seed"]) for x in read(path)}
    todo = (job for job in jobs(asked) if job[:4] not in done)
    until = time.monotonic() + asked.seconds
    count = 0
    with path.open("a") as file, cf.ProcessPoolExecutor(asked.workers) as pool:
        flying = {pool.submit(night, job) for job in itertools.islice(todo, 2 * asked.workers)}
        while flying:
            ended, flying = cf.wait(flying, return_when=cf.FIRST_COMPLETED)
            for future in ended:
                file.write(json.dumps(future.result()) + "\n")
                count += 1
            file.flush()
            if time.monotonic() > until:
                for future in flying:
                    future.cancel()
                flying = {f for f in flying if not f.cancelled()}
            else:
                flying |= {pool.submit(night, job) for job in itertools.islice(todo, len(ended))}
    print(f"{count} nights in {time.monotonic() - until + asked.seconds:.0f} s; {path}")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no night later than this")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", default="", help="groups, by comma: single, combination, cost, replayed")
    parser.add_argument("--cell", default="", help="cells whose name contains this")
    parser.add_argument("--replay", type=Path, help="launches of a real server, as JSON lines")
    parser.add_argument("--first-seed", type=int, default=0)
    return parser.parse_args()


def read(path):
    if not path.exists():
        return []
    lines = path.read_text().splitlines()
    return [json.loads(line) for line in lines if line.endswith("}")]


def jobs(asked):
    """Yield (group, cell, method, seed, world) in the order of value."""
    groups = {"single": cells.single_factor(), "cost": cells.costs(), "combination": cells.combinations()}
    if asked.replay:
        groups["replayed"] = cells.replayed(asked.replay)
    wanted = asked.only.split(",") if asked.only else [*groups]
    for turn in range(max(NIGHTS.values())):
        for group, worlds in groups.items():
            if group not in wanted:
                continue
            seeds = range(turn * ROUND[group], min((turn + 1) * ROUND[group], NIGHTS[group]))
            for (cell, world), seed in itertools.product(worlds.items(), seeds):
                if asked.cell in cell:
                    for method in methods(group):
                        yield group, cell, method, seed + asked.first_seed, world


def methods(group):
    return [PLANNER, *baselines.METHODS] if group == "cost" else [PLANNER]


def night(job):
    """Return the record of one night."""
    group, cell, method, seed, world = job
    begun = time.process_time()
    world = truth(world, seed)
    found = planned(world, seed) if method == PLANNER else other(world, seed, method)
    about = {"group": group, "cell": cell, "method": method, "seed": seed, "true": world.first_bad}
    return {**about, **found, "cpu": round(time.process_time() - begun, 3)}


def planned(world, seed):
    outcome = Night(world, seed).run()
    verdict = outcome.verdict
    named = None
    if isinstance(verdict, FirstBad):
        named = [position_of(verdict.sha)]
    elif isinstance(verdict, FirstBadAmong):
        named = [position_of(sha) for sha in verdict.commits]
    right = named is not None and world.first_bad in named
    if isinstance(verdict, NotReproduced):
        right = world.first_bad is None
    effect = getattr(verdict, "effect", None)
    covered = None
    if isinstance(verdict, FirstBad) and right and effect is not None:
        covered = bool(effect.low <= world.effect <= effect.high)
    return {
        "verdict": type(verdict).__name__,
        "claim": isinstance(verdict, FirstBad | FirstBadAmong | SeveralChanges | Faster),
        "right": right,
        "named": named,
        "posterior": getattr(verdict, "posterior", None),
        "covered": covered,
        "launches": outcome.launches,
        "builds": outcome.builds,
        "hours": round(outcome.hours, 3),
    }


def other(world, seed, method):
    rig = Rig(world, seed)
    found = baselines.METHODS[method](rig)
    return {
        "verdict": "FirstBad" if found.place is not None else "none",
        "claim": found.place is not None,
        "right": found.place is not None and found.place == world.first_bad,
        "named": None if found.place is None else [found.place],
        "posterior": found.posterior,
        "covered": None,
        "launches": rig.launches,
        "builds": len(rig.builds),
        "hours": round(rig.now / 3600, 3),
    }


if __name__ == "__main__":
    main()
