"""plan: what a night will cost and find, before it is spent."""

import json
from pathlib import Path
from typing import Any

import click
import msgspec

from bisectperf.cli.common import JSON, REPO
from bisectperf.driver.home import journal_of
from bisectperf.driver.setup import home_of
from bisectperf.errors import ExitCode, UserError
from bisectperf.forecast import Forecast, Noise, bounds, forecasts, found_within, noise_of
from bisectperf.journal import read
from bisectperf.simulate import World
from bisectperf.state import State, fold

MULTIPLES = (1.0, 2.0, 3.0, 5.0, 10.0)
"""Effects that are shown when none is asked for, in spreads between launches."""
WIDTH = 40
CALIBRATION = 100


@click.command()
@REPO
@click.option("--run", "name", metavar="NAME", help="Take noise and costs from this run (a `compare A A`, say).")
@click.option(
    "--journal", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="As --run, by its file."
)
@click.option("--noise", type=click.FloatRange(0.001, 100), metavar="PERCENT", help="Assume this spread of launches.")
@click.option("--effect", "effects", type=click.FloatRange(0.01, 1000), multiple=True, metavar="PERCENT")
@click.option(
    "--smallest", type=click.FloatRange(0.01, 100), metavar="PERCENT", help="Smallest effect worth finding."
)
@click.option("--commits", type=click.IntRange(1), help="Commits between good and bad (default: the run's, else 64).")
@click.option("--build", type=click.FloatRange(0), metavar="SECONDS", help="A new build.")
@click.option("--switch", type=click.FloatRange(0), metavar="SECONDS", help="Going to a build that is there.")
@click.option("--launch", type=click.FloatRange(0.1), metavar="SECONDS", help="One launch with its repetitions.")
@click.option("--hours", type=click.FloatRange(0.01), default=8.0, show_default=True, help="How long the night is.")
@click.option("--nights", type=click.IntRange(4), default=12, show_default=True, help="Simulated nights per effect.")
@click.option("--calibrate", is_flag=True, help=f"{CALIBRATION} nights per effect: how often was a claim right?")
@click.option("--seed", type=int, default=0, show_default=True)
@JSON
def plan(*, repo: str | None, name: str | None, journal: Path | None, as_json: bool, **asked: Any) -> int:  # noqa: ANN401 -- options
    """Say what a night will cost and what it can find, from simulated nights.

    The nights run the very code that decides in a real one, on the noise and the costs of a run, or on assumed ones.

    Example: bisectperf plan --noise 1.5 --build 600 --launch 190 --hours 8
    """
    state = _state(repo, name, journal, assumed=asked["noise"] is not None)
    noise = _noise(state, asked["noise"])
    world = _world(state, noise, asked)
    effects: list[float | None] = [e / 100 for e in sorted(asked["effects"])]
    effects = effects or [round(m * noise.spread, 5) for m in MULTIPLES if m * noise.spread >= world.smallest_effect]
    nights = max(asked["nights"], CALIBRATION) if asked["calibrate"] else asked["nights"]
    click.echo(f"{nights * (len(effects) + 1)} simulated nights ...", err=True)
    rows = forecasts(world, [*effects, None], nights=nights, seed=asked["seed"])
    if as_json:
        about = {"noise": noise, "world": world, "forecasts": rows, "hours": asked["hours"]}
        about["found_within"] = found_within(rows, asked["hours"])
        click.echo(json.dumps(msgspec.to_builtins(about), indent=1))
    else:
        click.echo("\n".join(_page(noise, world, rows, asked)))
    return ExitCode.FOUND


def _state(repo: str | None, name: str | None, journal: Path | None, *, assumed: bool) -> State | None:
    """Return the run that noise and costs come from, or None where both are assumed."""
    if name and journal:
        raise UserError("--run and --journal both name a run", hint="give one of them")
    if journal:
        found = fold(read(journal))
        if found.plan is None:
            raise UserError(f"{journal} is the journal of no run", hint="give a journal.jsonl, or --noise PERCENT")
        return found
    if assumed and not name:
        return None
    return fold(journal_of(home_of(repo).run(name)))


def _noise(state: State | None, percent: float | None) -> Noise:
    if percent is not None:
        return Noise(spread=percent / 100, upper=percent / 100, launches=0)
    if state is None:
        raise UserError("there is no noise to plan with", hint="give --noise PERCENT or --run NAME")
    return noise_of(state)


def _world(state: State | None, noise: Noise, asked: dict[str, Any]) -> World:
    base = World(switch_seconds=5.0, max_launches=500)
    costs = state.costs() if state else None
    known = {"build": 600.0, "switch": 30.0, "launch": 190.0} if costs is None else msgspec.structs.asdict(costs)
    seconds = {key: known[key] if asked[key] is None else asked[key] for key in known}
    bisecting = state is not None and state.asked.mode == "bisect" and bool(state.lines)
    commits = asked["commits"] or (len(state.line.positions) - 1 if state and bisecting else base.candidates)
    smallest = asked["smallest"] / 100 if asked["smallest"] else None
    smallest = smallest or (state.asked.metric.smallest_effect if state else min(noise.spread, 0.03))
    return msgspec.structs.replace(
        base,
        candidates=commits,
        spread=noise.spread,
        pool=noise.pool,
        smallest_effect=smallest,
        build_seconds=seconds["build"],
        switch_seconds=seconds["switch"],
        launch_seconds=seconds["launch"],
        repetition_seconds=0.0,
        night_hours=asked["hours"],
    )


def _page(noise: Noise, world: World, rows: list[Forecast], asked: dict[str, Any]) -> list[str]:
    """Return the table, the chart and what a night of the given length finds."""
    known = (
        f"from {noise.launches} launches, 90 % sure below {100 * noise.upper:.2f} %" if noise.launches else "assumed"
    )
    costs = (
        f"build {world.build_seconds:.0f} s, switch {world.switch_seconds:.0f} s, launch {world.launch_seconds:.0f} s"
    )
    smallest = f"smallest effect worth finding {100 * world.smallest_effect:.3g} %"
    lines = [
        f"noise:   launches differ by {100 * noise.spread:.2f} % (standard deviation; {known})",
        f"costs:   {costs}; {world.candidates} commits; {smallest}",
        "",
        f"{'effect':>14}  {'launches (95 %)':>15}  {'builds':>6}  {'hours (95 %)':>13}  one commit  right",
    ]
    lines += [_row(row, noise) for row in rows]
    lines += ["", f"hours until the verdict: # mean, - 95 %, | the night of {asked['hours']:g} h"]
    lines += [_bar(row, max(asked["hours"], *(r.hours[1] for r in rows)), asked["hours"]) for row in rows]
    best = found_within(rows, asked["hours"])
    night = f"A night of {asked['hours']:g} h"
    lines.append("")
    lines.append(
        f"{night} finds {100 * best:.3g} % and more (19 of 20 nights end in time)."
        if best is not None
        else f"{night} is too short for every effect shown."
    )
    if asked["calibrate"]:
        lines.append(_calibration(rows))
    return lines


def _label(row: Forecast) -> str:
    return "no change" if row.effect is None else f"{100 * row.effect:.3g} %"


def _row(row: Forecast, noise: Noise) -> str:
    label = _label(row) + ("" if row.effect is None else f" ({row.effect / noise.spread:.1f} sd)")
    launches = f"{row.launches[0]:.0f} ({row.launches[1]:.0f})"
    hours = f"{row.hours[0]:.1f} ({row.hours[1]:.1f})"
    share = "" if row.effect is None else f"{row.named}/{row.nights}"
    return f"{label:>14}  {launches:>15}  {row.builds:6.1f}  {hours:>13}  {share:>10}  {row.right}/{row.claims}"


def _bar(row: Forecast, longest: float, night: float) -> str:
    mean, late, mark = (round(WIDTH * x / longest) for x in (row.hours[0], row.hours[1], night))
    bar = ("#" * mean + "-" * (late - mean)).ljust(WIDTH + 1)
    bar = bar[:mark] + "|" + bar[mark + 1 :]
    return f"{_label(row):>10} {bar.rstrip()}"


def _calibration(rows: list[Forecast]) -> str:
    claims, right = sum(r.claims for r in rows), sum(r.right for r in rows)
    if not claims:
        return "No night claimed anything."
    low, high = bounds(right, claims)
    text = (
        f"Claims at 99 %: {right} of {claims} right ({100 * low:.1f} to {100 * high:.1f} %, Wilson's 95 % interval)"
    )
    return f"{text}; where nothing changed, {rows[-1].claims} of {rows[-1].nights} nights claimed something."
