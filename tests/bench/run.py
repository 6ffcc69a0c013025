"""Speeds as ratios within one run: `make bench`."""

import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import tracemalloc
from pathlib import Path

import numpy as np

from bisectperf.hosts.local import LocalHost
from bisectperf.launchers.base import Job
from bisectperf.launchers.detached import Detached
from bisectperf.measure.site import interpreter, lay_tools
from bisectperf.stats.changepoint import posterior
from bisectperf.stats.launches import Launches


def main():
    help_ratio()
    deciding()
    a_job()


def help_ratio():
    """The time of `bisectperf --help` against `import click`, interleaved."""
    ours, click = [], []
    for _ in range(9):
        ours.append(seconds([sys.executable, "-m", "bisectperf", "--help"]))
        click.append(seconds([sys.executable, "-c", "import click"]))
    ratio = statistics.median(a / b for a, b in zip(ours, click, strict=True))
    print(f"bisectperf --help / import click: {ratio:.2f} (at most 2.5)")


def seconds(argv):
    begun = time.perf_counter()
    subprocess.run(argv, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - begun


def deciding():
    """One decision over n positions after m launches: milliseconds and peak memory."""
    print("positions  launches  ms     MiB")
    for n, m in ((100, 12), (100, 100), (100, 1000), (10_000, 12), (10_000, 100), (1_000_000, 12), (1_000_000, 100)):
        launches = scripted(n, m)
        times = []
        for _ in range(3):
            begun = time.perf_counter()
            posterior(launches, n, smallest=0.02)
            times.append(time.perf_counter() - begun)
        tracemalloc.start()
        posterior(launches, n, smallest=0.02)
        peak = tracemalloc.get_traced_memory()[1] / 2**20
        tracemalloc.stop()
        print(f"{n:9d}  {m:8d}  {min(times) * 1e3:5.1f}  {peak:5.1f}")


def scripted(n, m):
    rng = np.random.default_rng(1)
    places = np.array([0, n - 1, *np.unique(rng.integers(1, n - 1, 10))])  # both ends first
    at = places[np.arange(m) % places.size]
    y = 0.05 * (at >= n // 3) + rng.normal(0, 0.01, m)
    return Launches(at=at, y=y, hours=np.arange(m) / 20, build=at)


def a_job():
    """What a job costs beside the command itself, on this machine."""
    folder = Path(tempfile.mkdtemp())
    host, root = LocalHost(), str(folder)
    launcher = Detached(host, root, lay_tools(host, root), interpreter(host))
    times = []
    for number in range(9):
        begun = time.perf_counter()
        launcher.start(Job(id=f"j{number}", argv=("true",)))
        launcher.wait(f"j{number}", 10)
        times.append(time.perf_counter() - begun)
    plain = [seconds(["true"]) for _ in range(9)]
    print(
        f"a job that does nothing: {statistics.median(times) * 1e3:.0f} ms (the command: {min(plain) * 1e3:.0f} ms)"
    )
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
