"""What the host is at one moment. Whatever cannot be asked is absent, never guessed."""

import os
import platform
import shutil
import subprocess
import time

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
    "clocks_event_reasons.active",
)


def facts(work_dir, commands=()):
    """Return {"at": seconds since the epoch, "facts": {name: text, number or list of texts}}."""
    found = {"kernel": platform.release(), "machine": platform.machine(), "python": platform.python_version()}
    found["load_1m"], found["load_5m"] = (round(x, 2) for x in os.getloadavg()[:2])
    found["cpus"] = os.cpu_count() or 0
    found["boot_id"] = first_line("/proc/sys/kernel/random/boot_id")
    found["governor"] = first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    found["cpu"] = after("/proc/cpuinfo", "model name")
    found["memory_available_kib"] = number(after("/proc/meminfo", "MemAvailable"))
    found["disk_free_bytes"] = shutil.disk_usage(work_dir).free
    found.update(gpus())
    for argv in commands:
        found["$ " + " ".join(argv)[:80]] = run(argv) or "(failed)"
    return {"at": time.time(), "facts": {k: v for k, v in found.items() if v not in ("", None, [])}}


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


def run(argv, seconds=10):
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode(errors="replace").strip()[:4000] if done.returncode == 0 else ""


def gpus():
    """Return what nvidia-smi says of each GPU, and the processes on them; nothing where there is no nvidia-smi."""
    if not shutil.which("nvidia-smi"):
        return {}
    lines = run(["nvidia-smi", "--query-gpu=" + ",".join(GPU_FIELDS), "--format=csv,noheader,nounits"])
    busy = run(["nvidia-smi", "--query-compute-apps=gpu_uuid,pid,used_memory", "--format=csv,noheader,nounits"])
    return {"gpus": lines.splitlines(), "gpu_fields": ", ".join(GPU_FIELDS), "gpu_processes": busy.splitlines()}


def gpu_memory_used():
    """Return the MiB in use per GPU, or [] where there is no nvidia-smi."""
    if not shutil.which("nvidia-smi"):
        return []
    words = run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]).split()
    return [int(word) for word in words if word.isdigit()]
