"""What the host is at one moment. Whatever cannot be asked is absent, never guessed."""

import json
import os
import platform
import shutil
import subprocess
import time

THROTTLE = ("clocks_event_reasons.active", "clocks_throttle_reasons.active")  # the new name and the old one
GPU_FIELDS = (
    "uuid",
    "name",
    "driver_version",
    "clocks.sm",
    "clocks.mem",
    "temperature.gpu",
    "power.draw",
    "power.limit",
    "memory.used",
)
# Bits of NVML's nvmlClocksEventReasons; that a GPU is idle or its clocks are set on purpose is no throttling.
REASONS = {
    0x04: "power cap",
    0x08: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal",
    0x40: "hardware thermal",
    0x80: "power brake",
}
ASK_PYTHON = """
import json, platform, sys
try:
    from importlib.metadata import PackageNotFoundError, distribution
except ImportError:
    sys.exit(1)
found = {"python of the launch": platform.python_version()}
for name in sys.argv[1:]:
    try:
        about = distribution(name)
    except PackageNotFoundError:
        continue
    found["installed " + name] = about.version
    direct = json.loads(about.read_text("direct_url.json") or "{}")
    if direct.get("dir_info", {}).get("editable"):
        found["installed " + name] += " (editable, from %s)" % direct.get("url")
print(json.dumps(found))
"""


def facts(work_dir, commands=(), ours=()):
    """Return {"at": seconds since the epoch, "facts": {name: text, number or list of texts}}.

    `commands` are argvs whose output is recorded; `ours` are process ids that are not listed as others' on a GPU.
    """
    found = {"kernel": platform.release(), "machine": platform.machine(), "python": platform.python_version()}
    found["load_1m"], found["load_5m"] = (round(x, 2) for x in os.getloadavg()[:2])
    found["cpus"] = os.cpu_count() or 0
    found["boot_id"] = first_line("/proc/sys/kernel/random/boot_id")
    found["governor"] = first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    found["cpu"] = after("/proc/cpuinfo", "model name")
    found["memory_available_kib"] = number(after("/proc/meminfo", "MemAvailable"))
    found["disk_free_bytes"] = shutil.disk_usage(work_dir).free
    found.update(gpus(ours))
    for argv in commands:
        found["$ " + " ".join(argv)[:80]] = run(argv) or "(failed)"
    return {"at": time.time(), "facts": {k: v for k, v in found.items() if v not in ("", None, [])}}


def packages(python, names, env, cwd):
    """Return what an interpreter (argv) says of itself and of the installed distributions `names`."""
    said = run(list(python) + ["-c", ASK_PYTHON] + list(names), env=env, cwd=cwd)
    try:
        return json.loads(said.splitlines()[-1]) if said else {}
    except ValueError:
        return {}


def first_line(path):
    try:
        with open(path, errors="replace") as file:
            return file.readline().strip()
    except OSError:
        return ""


def after(path, key):
    """Return what stands behind `key:` in a file of /proc."""
    try:
        with open(path, errors="replace") as file:
            for line in file:
                name, _, value = line.partition(":")
                if name.strip() == key:
                    return value.strip()
    except OSError:
        pass
    return ""


def number(text):
    return int(text.split()[0]) if text else None


def run(argv, seconds=10, limit=4000, **options):
    """Return what a command prints, up to `limit` characters; empty where it fails or takes longer than `seconds`."""
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds, **options)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode(errors="replace").strip()[:limit] if done.returncode == 0 else ""


def ask_gpu(query):
    """Return the lines of an nvidia-smi query; none where there is no such tool, or it does not know a field."""
    if not shutil.which("nvidia-smi"):
        return []
    return run(["nvidia-smi", query, "--format=csv,noheader,nounits"]).splitlines()


def gpus(ours=()):
    """Return what nvidia-smi says of each GPU, and whose processes but `ours` are on them."""
    lines = ask_gpu("--query-gpu=" + ",".join(GPU_FIELDS))
    if not lines:
        return {}
    reasons = next(filter(None, (ask_gpu("--query-gpu=" + field) for field in THROTTLE)), [])
    if len(reasons) == len(lines):
        lines = ["%s, %s" % (line, throttle(said)) for line, said in zip(lines, reasons)]
        fields = GPU_FIELDS + ("throttle",)
    else:
        fields = GPU_FIELDS
    busy = ask_gpu("--query-compute-apps=gpu_uuid,pid,used_memory")
    others = [line for line in busy if not set(line.split(", ")) & {str(pid) for pid in ours}]
    return {"gpus": lines, "gpu_fields": ", ".join(fields), "gpu_processes": others}


def throttle(mask):
    """Return the reasons in a bit mask (hexadecimal) in words."""
    try:
        bits = int(mask, 16)
    except ValueError:
        return mask.strip()
    return " + ".join(word for bit, word in REASONS.items() if bits & bit) or "none"


def gpu_memory_used():
    """Return the MiB in use per GPU; [] where there is no nvidia-smi."""
    return [int(word) for word in ask_gpu("--query-gpu=memory.used") if word.strip().isdigit()]
