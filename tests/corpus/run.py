"""Run bisectperf on a folder of known regressions and print a table.

    python tests/corpus/run.py CASES HISTORIES [--only NAME ...] [--work DIR] [--out FILE]

CASES holds one folder a case with a `case.toml` (repository, good, bad, python, setup, build, bench); HISTORIES
holds the repositories, as `NAME`, `NAME.git` or `OWNER+NAME/repo`. The driver is told the range, how to build and
how to measure, and one smallest effect for all; the answers are read only after its verdict.
"""

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
import tomllib
from pathlib import Path

SMALLEST_EFFECT = 0.03
ANSWERS = ("culprit", "culprits", "also_acceptable", "parent", "measured", "notes", "source", "tags")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", type=Path)
    parser.add_argument("histories", type=Path)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--work", type=Path, default=Path(".corpus"))
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rows = []
    for folder in sorted(p.parent for p in options.cases.glob("*/case.toml")):
        if options.only and folder.name not in options.only:
            continue
        row = one(folder.resolve(), options.histories.resolve(), options.work.resolve() / folder.name)
        rows.append(row)
        print(json.dumps(row), flush=True)
    text = table(rows)
    print(text)
    if options.out:
        options.out.write_text(text)


def one(folder, histories, work):
    """Run one case; return its row."""
    case = tomllib.loads((folder / "case.toml").read_text())
    question = {k: v for k, v in case.items() if k not in ANSWERS}
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    repo = clone(question["repo"], histories, work / "repo")
    good, bad = ends(repo, question)
    recipe = write_recipe(question, folder, work)
    command = [sys.executable, "-m", "bisectperf", "start", "--json", "--recipe", str(recipe), "--repo", str(repo)]
    begin = time.monotonic()
    with (work / "log").open("wb") as log:
        done = subprocess.run([*command, good, bad], stdout=subprocess.PIPE, stderr=log, check=False)
    minutes = (time.monotonic() - begin) / 60
    try:
        said = json.loads(done.stdout)
    except ValueError:
        said = {"verdict": {"verdict": "error", "exit": done.returncode}}
    (work / "verdict.json").write_text(json.dumps(said, indent=1))
    return {"case": folder.name, "minutes": round(minutes, 1), **summary(said), "right": judge(said["verdict"], case)}


def clone(name, histories, target):
    owner, _, short = name.removeprefix("github:").partition("/")
    places = [histories / f"{owner}+{short}" / "repo", histories / short, histories / f"{short}.git"]
    source = next((p for p in places if p.is_dir()), None)
    if source is None:
        sys.exit(f"no history of {name} under {histories}: looked for {', '.join(map(str, places))}")
    subprocess.run(["git", "clone", "-q", "--no-checkout", str(source), str(target)], check=True)
    return target


def ends(repo, question):
    """Return good and bad; where good is no ancestor of bad, their merge base, as the driver's hint says."""
    good, bad = question["good"], question["bad"]
    base = subprocess.run(
        ["git", "-C", str(repo), "merge-base", good, bad], capture_output=True, text=True, check=True
    ).stdout.strip()
    return base, bad


def python_for(question, work):
    """Return a python of the case's version in an environment of its own, prepared by the case's setup."""
    version = question.get("python")
    if version is None:
        return "python3"
    found = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python")) or [
        Path(p) for p in [shutil.which(f"python{version}")] if p
    ]
    if not found:
        sys.exit(f"this case needs python {version}")
    subprocess.run([found[-1], "-m", "venv", work / "venv"], check=True)
    return str(work / "venv" / "bin" / "python")


def write_recipe(question, folder, work):
    py = python_for(question, work)
    building = bool(question.get("build"))
    src = "{build}/src" if building else "{worktree}"
    words = {"{py}": py, "{case}": str(folder), "{src}": src}

    def put(text):
        for key, value in words.items():
            text = text.replace(key, value)
        return text

    for line in question.get("setup", []):
        subprocess.run(put(line), shell=True, check=True, stdout=subprocess.DEVNULL)  # noqa: S602 -- the case's own words
    commands = []
    if building:
        copy = "rm -rf {build}/src && mkdir -p {build}/src && cp -a {worktree}/. {build}/src/ && cd {build}/src"
        commands = [
            ["sh", "-c", f"set -e; {copy}; export SRC={{build}}/src; " + "; ".join(map(put, question["build"]))]
        ]
    lines = [
        f"name = {json.dumps(folder.name)}",
        "warmup = 0",
        "repetitions = 3",
        "[build]",
        f"commands = {json.dumps(commands)}",
        "timeout = 600",
        "[bench]",
        f"argv = {json.dumps(shlex.split(put(question['bench'])))}",
        f"env = {{ SRC = {json.dumps(src)}, PYTHONDONTWRITEBYTECODE = '' }}",
        r"regex = '([0-9][0-9.eE+-]*)\s*\Z'",
        f"cwd = {json.dumps(src)}",
        "timeout = 120",
        "[metric]",
        f"name = {json.dumps(question['metric'])}",
        'unit = "s"',
        f'better = "{question["direction"].split("-")[0]}"',
        f"smallest_effect = {SMALLEST_EFFECT}",
        "[host]",
        f"work_dir = {json.dumps(str(work / 'host'))}",
    ]
    path = work / "recipe.toml"
    path.write_text("\n".join(lines) + "\n")
    return path


def summary(said):
    verdict = said["verdict"]
    named = [verdict["sha"]] if "sha" in verdict else verdict.get("commits", [])
    if "steps" in verdict:
        named = [s.get("sha") or "|".join(c[:9] for c in s["commits"]) for s in verdict["steps"]]
    runs = said.get("launches", [])
    return {
        "verdict": verdict["verdict"],
        "named": [n[:20] for n in named][:6],
        "posterior": verdict.get("posterior"),
        "launches": sum(r["status"] == "measured" for r in runs),
        "void": sum(r["status"] == "void" for r in runs),
        "builds": len({r["build"]["key"] for r in runs if r.get("build")}),
        "range": sum(len(p["commits"]) for line in said.get("lines", [])[:1] for p in line["positions"]),
    }


def judge(verdict, case):
    """Return right, wrong (a wrong claim) or open (no claim), now that the answer may be read."""
    answers = {case.get("culprit"), *case.get("culprits", []), *case.get("also_acceptable", [])} - {None}
    kind = verdict["verdict"]
    if "none" in answers:
        return {"not-reproduced": "right", "inconclusive": "open"}.get(kind, "wrong")
    if kind == "first-bad":
        return "right" if verdict["sha"] in answers else "wrong"
    if kind == "first-bad-among":
        return "right" if answers & set(verdict["commits"]) else "wrong"
    if kind == "several-changes":
        named = {c for s in verdict["steps"] for c in s.get("commits", [s.get("sha")])}
        return "right" if answers & named else "wrong"
    return "open" if kind == "inconclusive" else "wrong"


def table(rows):
    head = (
        "| case | commits in range | launches | void | builds | minutes | verdict | named | answer |\n"
        + "|---" * 9
        + "|\n"
    )
    return head + "".join(
        f"| {r['case']} | {r['range']} | {r['launches']} | {r['void']} | {r['builds']} | {r['minutes']} "
        f"| {r['verdict']} | {' '.join(n[:9] for n in r['named'])} | {r['right']} |\n"
        for r in rows
    )


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
