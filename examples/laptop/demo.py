"""Run the demo: write the repository, bisect it, say whether the answer is right.

python examples/laptop/demo.py [--seed N] [--folder DIR]
"""

import argparse
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import make_repo

HERE = Path(__file__).resolve().parent


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--folder", type=Path, default=Path(".demo"))
    options = parser.parse_args()
    folder = options.folder.resolve()
    shutil.rmtree(folder, ignore_errors=True)
    seed = random.randrange(10_000) if options.seed is None else options.seed
    culprit = make_repo.make(folder / "repo", seed)
    print(
        f"seed {seed}: wrote {folder / 'repo'}; somewhere between its tags good and bad decoding got slower",
        flush=True,
    )
    command = [sys.executable, "-m", "bisectperf", "start", "good", "bad", "--recipe", str(HERE / "recipe")]
    command += ["--set", f"python={sys.executable}"]
    print("$ bisectperf start good bad --recipe examples/laptop/recipe", flush=True)
    begun = time.monotonic()
    env = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache")}
    code = subprocess.run(command, cwd=folder / "repo", env=env, check=False).returncode
    took = time.monotonic() - begun
    found = subprocess.run(
        [sys.executable, "-m", "bisectperf", "status", "--json"],
        cwd=folder / "repo",
        capture_output=True,
        check=False,
    )
    named = culprit in found.stdout.decode()
    answer = "which is right" if code == 0 and named else "the answer is " + culprit[:9]
    print(f"took {took:.0f} s; the generator made {culprit[:9]} slow: {answer}")
    return code


if __name__ == "__main__":
    sys.exit(main())
