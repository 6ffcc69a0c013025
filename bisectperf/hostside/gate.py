"""Is this host fit to measure? Asked before a launch, and again before its result counts.

Before: wait, with the reason in `progress`, until everything is in order or the limit is over. After: whatever broke
the peace meanwhile voids the launch. What was measured is never looked at here. A probe that this host has no tool
for is listed as not asked; it neither stops nor passes a launch.

The specification's `gate` (all from the recipe but `reference`, which says what the launches of both ends saw):
wait, devices, ignore, memory_mib, throttle, clock_band, temperature_band, cpu_busy, disk_free_gib, clock_step,
reference {uuid: {clock: [low, high], temperature: [low, high], memory}} and {facts: {name: text}}.
"""

import fnmatch
import os
import shutil
import time

from failure import Failed
from gpus import pids_are_ours_to_match, processes, read_gpus
from processes import members

LOOK = 5.0  # seconds between two looks while waiting, at most
SAMPLE = 1.0  # seconds over which the CPUs are watched
MEMORY_SLACK = 512  # MiB by which the memory in use before a launch may exceed what the ends saw
PACKAGE = "package "
TICKS = os.sysconf("SC_CLK_TCK")


class Gate(object):
    """The gate of one launch; `record` is what becomes known, for the result."""

    def __init__(self, spec, job, say, work_dir="."):
        self.spec, self.job, self.say, self.work_dir = spec, job, say, work_dir
        self.reference = spec["reference"]
        self.ticks = self.held = None
        self.offset = clock_offset()
        self.record = {"waited": 0.0, "reasons": [], "not_asked": []}

    def wait(self):
        """Return once the host is fit; raises `Failed` ("unfit") when it is not within the limit."""
        begun, pause = time.monotonic(), 0.2
        while True:
            reasons = self.before()
            waited = time.monotonic() - begun
            if not reasons:
                self.record["waited"] = round(waited, 3) if self.record["reasons"] else 0.0
                return
            self.record["reasons"] += [text for text in reasons if text not in self.record["reasons"]]
            self.say("waiting for the host: " + "; ".join(reasons))
            if waited + pause > self.spec["wait"]:
                self.record["waited"] = round(waited, 3)
                raise Failed("unfit", "not fit within %g s: %s" % (self.spec["wait"], "; ".join(reasons)))
            time.sleep(pause)
            pause = min(pause * 1.5, LOOK)

    def before(self):
        """Return what speaks against a launch now, as sentences."""
        gpus, missing = read_gpus(self.spec["devices"])
        self.not_asked("GPU (processes, memory, throttling, clocks, temperature): " + missing if missing else "")
        reasons = self.foreign(gpus, ours=())
        for gpu in gpus:
            reasons += self.memory(gpu) + self.throttled(gpu, gpu["reasons"] or ()) + self.hot(gpu)
        return reasons + self.disk() + self.busy()

    # -- around the benchmark ---------------------------------------------------------------------------------

    def watch(self):
        """Begin to watch: from here on the benchmark runs."""
        self.ticks = cpu_ticks(self.job)
        self.held = {gpu["uuid"]: gpu["held"] for gpu in read_gpus(self.spec["devices"])[0]}

    def check(self, ended_well):
        """Raise `Failed` ("unfit") when the benchmark did not have the host to itself or ran on another one."""
        gpus, _ = read_gpus(self.spec["devices"])
        reasons = self.clock_stepped() + self.cpu_taken()
        if pids_are_ours_to_match():
            reasons += self.foreign(gpus, ours=members(self.job, os.getpid()))
        elif gpus:
            self.not_asked("GPU processes during the benchmark: process ids of the driver mean nothing in here")
        for gpu in gpus:
            reasons += self.throttled(gpu, self.reasons_since(gpu))
            reasons += self.out_of_band(gpu) if ended_well else []
        self.refuse(reasons)

    def check_alone(self):
        """Raise `Failed` when somebody else is on a GPU after everything of ours has ended."""
        self.refuse(self.foreign(read_gpus(self.spec["devices"])[0], ours=()))

    def check_facts(self, facts):
        """Raise `Failed` ("moved") when what must stand still all night has moved since the ends were measured."""
        known = self.reference.get("facts", {})
        names = set(known)
        if any(name.startswith(PACKAGE) for name in known):
            names.update(name for name in facts if name.startswith(PACKAGE))
        moved = [
            "%s: %s at the ends, now %s" % (name, known.get(name, "absent"), facts.get(name, "absent"))
            for name in sorted(names)
            if known.get(name) != facts.get(name)
        ]
        if moved:
            raise Failed("moved", "the host is not what it was when the ends were measured: " + "; ".join(moved))

    def refuse(self, reasons):
        if reasons:
            self.record["reasons"] += reasons
            raise Failed("unfit", "the gate broke: " + "; ".join(reasons))

    def not_asked(self, text):
        if text and text not in self.record["not_asked"]:
            self.record["not_asked"].append(text)

    # -- the questions ----------------------------------------------------------------------------------------

    def foreign(self, gpus, ours):
        return [
            "process %d (%s) of somebody else is on GPU %s" % (pid, name or "no name", index or "?")
            for pid, index, name in processes(gpus)
            if pid not in ours and not any(fnmatch.fnmatch(os.path.basename(name), p) for p in self.spec["ignore"])
        ]

    def memory(self, gpu):
        limit = self.spec["memory_mib"]
        seen = self.reference.get(gpu["uuid"], {}).get("memory")
        if seen is not None:
            limit = min(limit, seen + MEMORY_SLACK)
        if gpu["memory"] is None or gpu["memory"] <= limit:
            return []
        return ["%g MiB are held on GPU %s before the launch (limit %g)" % (gpu["memory"], gpu["index"], limit)]

    def throttled(self, gpu, reasons):
        unwanted = [word for word in self.spec["throttle"] if word in reasons]
        return ["GPU %s is slowed down (%s)" % (gpu["index"], ", ".join(unwanted))] if unwanted else []

    def reasons_since(self, gpu):
        """Return the reasons in force now, and those that were at any time since `watch`."""
        before = (self.held or {}).get(gpu["uuid"], {})
        return (gpu["reasons"] or []) + [word for word, n in gpu["held"].items() if n > before.get(word, n)]

    def hot(self, gpu):
        band = self.reference.get(gpu["uuid"], {}).get("temperature")
        limit = band[1] + self.spec["temperature_band"] if band else None
        if limit is None or gpu["temperature"] is None or gpu["temperature"] <= limit:
            return []
        return ["GPU %s is at %g C before the launch (limit %g)" % (gpu["index"], gpu["temperature"], limit)]

    def out_of_band(self, gpu):
        known, found = self.reference.get(gpu["uuid"], {}), []
        clock, temperature = known.get("clock"), known.get("temperature")
        if clock and gpu["clock"] is not None:
            low, high = clock[0] * (1 - self.spec["clock_band"]), clock[1] * (1 + self.spec["clock_band"])
            if not low <= gpu["clock"] <= high:
                found.append(outside(gpu, "clock", "MHz", low, high))
        if temperature and gpu["temperature"] is not None:
            low = temperature[0] - self.spec["temperature_band"]
            high = temperature[1] + self.spec["temperature_band"]
            if not low <= gpu["temperature"] <= high:
                found.append(outside(gpu, "temperature", "C", low, high))
        return found

    def disk(self):
        free, need = shutil.disk_usage(self.work_dir).free, self.spec["disk_free_gib"] * 2**30
        if free >= need:
            return []
        return ["%.1f GiB are free on our disk (limit %g)" % (free / 2**30, self.spec["disk_free_gib"])]

    def busy(self):
        """Return whether others keep the CPUs busy, from a short look: nothing of ours runs yet."""
        if self.spec["cpu_busy"] >= 1:
            return []
        before = cpu_ticks(self.job)
        time.sleep(SAMPLE)
        return self.too_busy(before, "before the launch")

    def cpu_taken(self):
        return self.too_busy(self.ticks, "during the benchmark") if self.spec["cpu_busy"] < 1 and self.ticks else []

    def too_busy(self, before, when):
        now = cpu_ticks(self.job)
        if not before or not now or now[1] <= before[1]:
            self.not_asked("load of the CPUs: no /proc/stat")
            return []
        others = max((now[0] - before[0]) - (now[2] - before[2]), 0) / (now[1] - before[1])
        if others <= self.spec["cpu_busy"]:
            return []
        words = (100 * others, when, 100 * self.spec["cpu_busy"])
        return ["others kept %.0f %% of the CPUs busy %s (limit %.0f %%)" % words]

    def clock_stepped(self):
        step = clock_offset() - self.offset
        if abs(step) <= self.spec["clock_step"]:
            return []
        return ["the clock of the host moved by %+.1f s during the launch (set, or the machine slept)" % step]


def outside(gpu, name, unit, low, high):
    words = (name, gpu["index"], gpu[name], unit, low, high)
    return "the %s of GPU %s is %g %s, out of the band of the ends (%.4g to %.4g)" % words


def clock_offset():
    return time.time() - time.monotonic()


def cpu_ticks(job):
    """Return ticks of all CPUs (busy, all) and of the job's processes, since the machine or they began; or None."""
    try:
        with open("/proc/stat") as file:
            fields = [int(word) for word in file.readline().split()[1:9]]
    except (OSError, ValueError):
        return None
    idle = fields[3] + fields[4]
    own = sum(os.times()[:4]) * TICKS
    for pid in members(job, os.getpid()):
        try:
            with open("/proc/%d/stat" % pid, "rb") as file:
                own += sum(map(int, file.read().rpartition(b")")[2].split()[11:15]))
        except OSError:
            pass  # it ended, and is counted by whoever waited for it
    return sum(fields) - idle, sum(fields), own
