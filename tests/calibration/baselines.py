"""What others do, on the same rig: each meets the very launches that the planner would meet.

Each of them is given what it cannot know: the threshold halfway between the true levels.
"""

import numpy as np
from scipy import stats

try:
    from git_bayesect import Bisector
except ImportError:  # a bare machine may lack it: its nights are left out there
    Bisector = None

LIMIT = 1000


class Found:
    """What a baseline came to: a position or None, its confidence where it states one."""

    def __init__(self, place, posterior=None):
        self.place = place
        self.posterior = posterior


def threshold(rig):
    return rig.world.effect / 2


def halving(rig, verdict):
    """git bisect on the line: `verdict(k)` is True for bad, False for good, None for untestable (skip)."""
    good, bad = 0, rig.world.candidates
    skipped = set()
    while True:
        open_ = [k for k in range(good + 1, bad) if k not in skipped]
        if not open_:
            return Found(bad if bad - good == 1 else None)
        middle = min(open_, key=lambda k: abs(2 * k - good - bad))
        answer = verdict(middle)
        if answer is None:
            skipped.add(middle)
        elif answer:
            bad = middle
        else:
            good = middle


def git_bisect_run(rig):
    """One launch of seven repetitions a commit, both ends once first (whoever writes the script checks them)."""
    return _with_ends(rig, 1)


def majority_of_five(rig):
    return _with_ends(rig, 5)


def _with_ends(rig, launches):
    def verdict(k):
        values = [rig.launch(k) for _ in range(launches)]
        if values[0] is None:
            return None
        return sum(x.value > threshold(rig) for x in values) * 2 > launches

    for end in (0, rig.world.candidates):
        for _ in range(launches):
            rig.launch(end)
    return halving(rig, verdict)


def bayesect(rig, confidence=0.99):
    """git-bayesect's own class: its index 0 is the newest commit, "yes" is a slow launch."""
    n = rig.world.candidates
    found = Bisector(np.ones(n + 1))
    for end in (0, n):
        found.record(n - end, rig.launch(end).value > threshold(rig))
    while found.distribution.max() < confidence and rig.launches < LIMIT:
        index = found.select()
        taken = rig.launch(n - index)
        found.record(index, None if taken is None else taken.value > threshold(rig))
    best = int(np.argmax(found.distribution))
    top = float(found.distribution[best])
    return Found(n - best if top >= confidence else None, top)


SAME, DIFFERENT = 0.05, 0.01
"""Significance levels of Pinpoint's rule: above the first the samples are the same, below the second different."""


def pinpoint(rig, first=10, most=160):
    """Chromium Pinpoint: ten attempts a commit, doubled while unknown; every neighbouring pair that differs is split.

    A pair's p is the lesser of the Kolmogorov-Smirnov and the Mann-Whitney test's.
    """
    samples = {}
    queue, found, skipped = [(0, rig.world.candidates)], [], set()
    while queue and rig.launches < 20 * LIMIT:
        a, b = queue.pop()
        size = first
        while (differ := _differ(rig, samples, a, b, size)) is None and size < most:
            size *= 2
        if not differ:
            continue
        inner = [k for k in range(a + 1, b) if k not in skipped]
        while inner:
            middle = inner[len(inner) // 2]
            if _sampled(rig, samples, middle, first):
                queue += [(a, middle), (middle, b)]
                break
            skipped.add(middle)
            inner.remove(middle)
        else:
            found.append((a, b))
    one = len(found) == 1 and found[0][1] - found[0][0] == 1
    return Found(found[0][1] if one else None)


def _sampled(rig, samples, k, size):
    mine = samples.setdefault(k, [])
    while len(mine) < size:
        taken = rig.launch(k)
        if taken is None:
            return False
        mine.append(taken.value)
    return True


def _differ(rig, samples, a, b, size):
    for k in (a, b):
        _sampled(rig, samples, k, size)
    x, y = samples[a], samples[b]
    p = min(stats.ks_2samp(x, y).pvalue, stats.mannwhitneyu(x, y).pvalue)
    return True if p < DIFFERENT else False if p > SAME else None


METHODS = {
    "git bisect run": git_bisect_run,
    "majority of five": majority_of_five,
    "Pinpoint's rule": pinpoint,
}
if Bisector is not None:
    METHODS["git-bayesect 1.2"] = bayesect
