"""What the serving processes themselves say: origins of imports, mapped libraries, variables in force."""

import os


def origins(folder, about, problems):
    """Return {"root", "origins": {pid: {package: origin}}, "problems"} from what the recorder wrote down."""
    root = os.path.realpath(about["import_root"])
    found, problems = {}, list(problems)
    for pid in sorted(os.listdir(folder) if os.path.isdir(folder) else []):
        with open(os.path.join(folder, pid)) as file:
            for line in file:
                name, _, origin = line.rstrip("\n").partition("\t")
                found.setdefault(pid, {})[name] = origin
                if not inside(origin, root):
                    problems.append("process %s imported %s from %s, not from the proved tree" % (pid, name, origin))
    for name in about["packages"]:
        if not any(name in seen for seen in found.values()):
            problems.append("no process imported %s: nothing proves which code was measured" % name)
    return {"root": root, "origins": found, "problems": problems}


def inside(origin, root):
    return all(os.path.realpath(part).startswith(root + os.sep) for part in origin.split(",") if part)


def serving_environment(main, pids, expected, fill):
    """Return problems with the variables that the recipe set, as the server's own process has them."""
    problems = []
    for pid in sorted({main} & set(pids)):
        try:
            with open("/proc/%d/environ" % pid, "rb") as file:
                pairs = dict(p.split(b"=", 1) for p in file.read().split(b"\0") if b"=" in p)
        except OSError:
            continue
        for name, value in expected.items():
            # A process may have rewritten its title over its environment: absent altogether proves nothing.
            if pairs and pairs.get(name.encode(), fill(value).encode()) != fill(value).encode():
                problems.append("process %d has another value of %s than the recipe sets" % (pid, name))
    return problems


def check_processes(pids, about):
    """Return problems with libraries mapped from another copy of a watched package."""
    root = os.path.realpath(about["import_root"]) if about["import_root"] else ""
    problems = []
    if not root:
        return problems
    for pid in sorted(pids):
        try:
            with open("/proc/%d/maps" % pid) as file:
                paths = {line.split(None, 5)[5].strip() for line in file if ".so" in line and line.count("/")}
        except (OSError, IndexError):
            continue
        for path in sorted(paths):
            parts = path.split(os.sep)
            if any(name in parts for name in about["packages"]) and not path.startswith(root + os.sep):
                # Compiled parts may come from the environment; only where the tree has them must they be its own.
                name = next(n for n in about["packages"] if n in parts)
                relative = os.sep.join(parts[parts.index(name) :])
                if os.path.exists(os.path.join(root, relative)):
                    problems.append("process %d mapped %s, though the proved tree has its own" % (pid, path))
    return problems
