"""The GPUs as the tools of their makers show them, one dictionary a GPU; without a tool, a sentence that says so.

A reading has `index`, `uuid`, `driver`, `clock` (MHz), `temperature` (degrees C), `memory` (MiB in use), `reasons`
(why the clocks are held down, now) and `held` (microseconds of each reason so far); what a tool does not say is None.
"""

import json
import os
import re

from facts import REASONS, THROTTLE, ask_gpu, run

FIELDS = ("index", "uuid", "driver_version", "clocks.sm", "temperature.gpu", "memory.used")
COUNTERS = {
    "power cap": "sw_power_cap",
    "sync boost": "sync_boost",
    "software thermal": "sw_thermal_slowdown",
    "hardware thermal": "hw_thermal_slowdown",
    "power brake": "hw_power_brake_slowdown",
}
INITIAL_NAMESPACE = "pid:[4026531836]"  # PROC_PID_INIT_INO: here our process ids are those that the driver shows


def read_gpus(wanted=()):
    """Return (readings, why there are none or the empty string); `wanted` are indices or uuids, empty for all."""
    found = nvidia() or amd()
    if not found:
        return [], "neither nvidia-smi nor rocm-smi answers here"
    chosen = [gpu for gpu in found if not wanted or gpu["index"] in wanted or gpu["uuid"] in wanted]
    return (chosen, "") if chosen else ([], "no GPU is called %s" % ", ".join(wanted))


def nvidia():
    counters = ["clocks_event_reasons_counters." + name for name in COUNTERS.values()]
    # One question where the driver is new enough to know all of it: each costs a tenth of a second.
    for more in ([THROTTLE[0]] + counters, [THROTTLE[0]], [THROTTLE[1]], []):
        lines = ask_gpu("--query-gpu=" + ",".join(list(FIELDS) + more))
        if lines:
            return [reading([cell.strip() for cell in line.split(",")]) for line in lines]
    return []


def reading(cells):
    gpu = {"index": cells[0], "uuid": cells[1], "driver": cells[2]}
    gpu.update(zip(("clock", "temperature", "memory"), map(number, cells[3:6])))
    gpu["reasons"] = in_words(cells[6]) if len(cells) > 6 else None
    gpu["held"] = {name: n for name, n in zip(COUNTERS, map(number, cells[7:])) if n is not None}
    return gpu


def in_words(mask):
    """Return the reasons in a bit mask (hexadecimal) as words, or None where it is none."""
    try:
        bits = int(mask, 16)
    except ValueError:
        return None
    return [word for bit, word in REASONS.items() if bits & bit]


def amd():
    """Return what rocm-smi says; its keys have changed with its releases, so they are found by their words."""
    said = rocm("--showmeminfo", "vram", "--showtemp", "--showclocks", "--showuniqueid", "--showdriverversion")
    driver = str(said.get("system", {}).get("Driver version", ""))
    found = []
    for card in sorted(said):
        if not card.startswith("card"):
            continue
        about = said[card]
        used = worded(about, "VRAM Total Used")
        found.append(
            {
                "index": card[4:],
                "uuid": str(about.get("Unique ID", card)),
                "driver": driver,
                "clock": number(worded(about, "sclk clock speed")),
                "temperature": number(worded(about, "Temperature (Sensor junction)") or worded(about, "Temperature")),
                "memory": number(used) / 2**20 if number(used) is not None else None,
                "reasons": None,
                "held": {},
            }
        )
    return found


def rocm(*options):
    try:
        said = json.loads(run(["rocm-smi", *options, "--json"]) or "{}")
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


def worded(about, words):
    return next((value for name, value in about.items() if name.startswith(words)), None)


def number(text):
    found = re.search(r"-?[0-9]+(\.[0-9]+)?", str(text))
    return float(found.group(0)) if found else None


def processes(gpus):
    """Return [(pid, GPU, name)] of the compute processes on these GPUs."""
    by_uuid = {gpu["uuid"]: gpu["index"] for gpu in gpus}
    found = []
    for line in ask_gpu("--query-compute-apps=gpu_uuid,pid,process_name"):
        uuid, pid, name = ([cell.strip() for cell in line.split(",", 2)] + ["", ""])[:3]
        if uuid in by_uuid and pid.isdigit():
            found.append((int(pid), by_uuid[uuid], name))
    for key, value in rocm("--showpids").get("system", {}).items() if gpus else []:
        if key.startswith("PID") and key[3:].isdigit() and number(str(value).split(",")[1:2]) != 0:
            found.append((int(key[3:]), "", str(value).split(",")[0]))
    return found


def pids_are_ours_to_match():
    """Return whether the driver's process ids mean the same here: not so inside a container of its own."""
    try:
        return os.readlink("/proc/self/ns/pid") == INITIAL_NAMESPACE
    except OSError:
        return False
