"""What a host is: everything that stands still while nobody changes it, as {name: text}.

    take   a JSON document on standard input: python, cwd, pids, digests, secrets, argv; prints {"facts": ...}

What cannot be asked is absent. What moves by itself (temperatures, load, free memory) is in facts.py. Values of
variables that look like secrets are never read out. Runs under any python3 >= 3.8, standard library only.
"""

import glob
import hashlib
import json
import os
import platform
import re
import sys

from evidence import libraries
from facts import after, ask_gpu, first_line, run

GPU_FIELDS = (
    ("model", "name"),
    ("uuid", "uuid"),
    ("vbios", "vbios_version"),
    ("power limit", "enforced.power.limit"),
    ("highest clock", "clocks.max.sm"),
    ("application clock", "clocks.applications.graphics"),
    ("ECC", "ecc.mode.current"),
    ("link generation", "pcie.link.gen.max"),
    ("link width", "pcie.link.width.current"),
    ("persistence", "persistence_mode"),
    ("compute mode", "compute_mode"),
    ("MIG", "mig.mode.current"),
)
FILES = {
    "kernel command line": "/proc/cmdline",
    "cpu frequency driver": "/sys/devices/system/cpu/cpu0/cpufreq/scaling_driver",
    "cpu boost": "/sys/devices/system/cpu/cpufreq/boost",
    "cpu turbo off": "/sys/devices/system/cpu/intel_pstate/no_turbo",
    "cpu threads (SMT)": "/sys/devices/system/cpu/smt/control",
    "NUMA balancing": "/proc/sys/kernel/numa_balancing",
    "transparent huge pages": "/sys/kernel/mm/transparent_hugepage/enabled",
    "cpu limit": "/sys/fs/cgroup/cpu.max",
    "cpus allowed": "/sys/fs/cgroup/cpuset.cpus.effective",
    "memory limit": "/sys/fs/cgroup/memory.max",
}
LOADED = re.compile(
    r"lib(cuda|nv|nccl|cublas|cudnn|cufft|cusparse|torch|c10|hip|roc|rccl|gomp|iomp|mkl|tcmalloc|jemalloc)"
)
SECRET = re.compile(r"(?i)(key|token|secret|passw|credential|auth|cookie|private)")
NOISE = re.compile(
    r"_$|(OLD)?PWD$|SHLVL$|BISECTPERF_|SSH_|LS_COLORS$|PYTHON(PATH|PYCACHEPREFIX)$|XDG_SESSION|INVOCATION_ID|JOURNAL_"
)
ASK_PACKAGES = r"""
import json, platform, re
from importlib.metadata import distributions
found = {"python of the launch": platform.python_version()}
for about in distributions():
    name = (about.metadata["Name"] or "").lower().replace("_", "-")
    direct = json.loads(about.read_text("direct_url.json") or "{}")
    commit = (direct.get("vcs_info") or {}).get("commit_id")
    origin = re.sub(r"//[^/@]*@", "//", commit or direct.get("url") or about.read_text("INSTALLER") or "")
    kind = "editable, " if (direct.get("dir_info") or {}).get("editable") else ""
    found.setdefault("package " + name, "%s (%s%s)" % (about.version, kind, origin.strip()))
print(json.dumps(found))
"""


def take(python=(), cwd=None, env=None, pids=(), digests=(), secrets=()):
    """Return the facts; `python` is the argv of the launch's interpreter, `pids` the processes that serve."""
    found = {"kernel": platform.release(), "machine": platform.machine(), "cpus": str(os.cpu_count())}
    found["cpu"] = after("/proc/cpuinfo", "model name")
    found["system"] = os_name()
    found["memory"] = after("/proc/meminfo", "MemTotal")
    found.update({name: first_line(path) for name, path in FILES.items()})
    found["kernel command line"] = shown(found["kernel command line"])
    found["cpu governor"] = both(map(first_line, glob.glob("/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor")))
    nodes = sorted(glob.glob("/sys/devices/system/node/node[0-9]*/cpulist"))
    found["NUMA nodes"] = "; ".join(map(first_line, nodes))
    found["container"] = container()
    found.update(gpu_facts())
    found.update(package_facts(python, cwd, env))
    found.update(serving(pids, secrets))
    for pattern in digests:
        paths = sorted(glob.glob(os.path.expanduser(pattern)))
        found["digest of " + pattern] = digest(paths) if paths else "no such file"
    return {name: value for name, value in found.items() if value not in ("", None)}


def shown(line):
    """Return a command line without the values of what looks like a secret."""
    words = [word.partition("=") for word in line.split()]
    return " ".join(name + ("=..." if value and SECRET.search(name) else eq + value) for name, eq, value in words)


def both(values):
    return " / ".join(sorted(set(filter(None, values))))


def os_name():
    try:
        with open("/etc/os-release") as file:
            pairs = dict(line.rstrip("\n").split("=", 1) for line in file if "=" in line)
    except OSError:
        return ""
    return pairs.get("PRETTY_NAME", "").strip('"')


def container():
    """Return the container that we are in, with its image where it tells."""
    try:
        with open("/run/.containerenv") as file:
            image = re.search(r'^image="(.*)"', file.read(), re.MULTILINE)
        return "podman, %s" % image.group(1) if image else "podman"
    except OSError:
        return "docker" if os.path.exists("/.dockerenv") else ""


def gpu_facts():
    """Return what nvidia-smi says that stands still; fields that it may not know are asked for singly."""
    found = {}
    driver = ask_gpu("--query-gpu=driver_version")
    if not driver:
        return found
    found["driver"] = both(driver)
    cuda = re.search(r"CUDA Version *: *([0-9.]+)", run(["nvidia-smi"]))
    found["CUDA of the driver"] = cuda.group(1) if cuda else ""
    fields = ",".join(field for _, field in GPU_FIELDS)
    table = [line.split(",") for line in ask_gpu("--query-gpu=" + fields)]
    if not table:
        columns = [ask_gpu("--query-gpu=" + field) for _, field in GPU_FIELDS]
        table = [[column[k] if k < len(column) else "" for column in columns] for k in range(len(driver))]
    for k, cells in enumerate(table):
        for (name, _), cell in zip(GPU_FIELDS, cells):
            found["gpu %d %s" % (k, name)] = cell.strip()
    found["GPU links"] = re.sub(r"\s+", " ", run(["nvidia-smi", "topo", "-m"]))[:1000]
    return found


def package_facts(python, cwd, env):
    if not python:
        return {}
    said = run(list(python) + ["-c", ASK_PACKAGES], seconds=60, limit=None, cwd=cwd, env=env)
    try:
        return json.loads(said.splitlines()[-1]) if said else {}
    except ValueError:
        return {}


def serving(pids, secrets):
    """Return the libraries that matter as loaded, and the variables in force, over all processes given."""
    found, files, variables = {}, {}, {}
    for pid in sorted(pids):
        for path in libraries(pid):
            if LOADED.match(os.path.basename(path)):
                files.setdefault("loaded " + re.sub(r"\.so\b.*", ".so", os.path.basename(path)), set()).add(path)
        for name, value in variables_of(pid):
            if not NOISE.match(name):
                hidden = SECRET.search(name) or name in secrets
                variables.setdefault("variable " + name, set()).add("(set, not read out)" if hidden else value)
    for name, paths in files.items():
        found[name] = " / ".join("%s (%s bytes)" % (os.path.realpath(p), size(p)) for p in sorted(paths))
    found.update({name: " / ".join(sorted(values)) for name, values in variables.items()})
    return found


def variables_of(pid):
    try:
        with open("/proc/%d/environ" % pid, "rb") as file:
            pairs = [p.decode(errors="replace").partition("=") for p in file.read().split(b"\0") if b"=" in p]
    except OSError:
        return []
    return [(name, value) for name, _, value in pairs]


def size(path):
    try:
        return os.stat(path).st_size
    except OSError:
        return "?"


def digest(paths):
    seen = hashlib.sha256()
    for path in paths:
        try:
            with open(path, "rb") as file:
                for piece in iter(lambda: file.read(1 << 20), b""):
                    seen.update(piece)
        except OSError as error:
            seen.update(str(error.errno).encode())
    return "%s (%d files)" % (seen.hexdigest()[:16], len(paths))


def main(argv):
    if argv[1] != "take":
        sys.exit("not a verb: %s" % argv[1])
    print(json.dumps({"facts": take(**json.load(sys.stdin.buffer))}))


if __name__ == "__main__":
    main(sys.argv)
