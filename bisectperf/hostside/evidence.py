"""What the serving processes themselves say: origins of imports, mapped libraries, variables in force."""

import os

LIBRARY = ".so"


def origins(folder, about, worktree, problems):
    """Return the package's `OriginProof` from what the recorder wrote down in `folder`, with `problems` added to.

    `about` is the specification's environment: every watched package must come from its import root, by path, and
    from the worktree once symbolic links are followed.
    """
    root = os.path.abspath(about["import_root"])
    found, problems = {}, list(problems)
    for pid in sorted(os.listdir(folder), key=int) if os.path.isdir(folder) else []:
        with open(os.path.join(folder, pid), errors="surrogateescape") as file:
            for line in file:
                name, _, origin = line.rstrip("\n").partition("\t")
                found.setdefault(pid, {})[name] = origin
                if not comes_from(origin, root, worktree, about["packages"]):
                    problems.append("process %s imported %s from %s, not from the proved tree" % (pid, name, origin))
    for name in about["packages"]:
        if not any(name in seen for seen in found.values()):
            problems.append("no process imported %s: nothing proves which code was measured" % name)
    return {"root": root, "origins": found, "problems": problems}


def comes_from(origin, root, worktree, packages):
    """Return whether an origin (for a namespace, each of its folders) is the proved tree's."""
    real = os.path.realpath(worktree)
    return bool(origin) and all(
        (is_below(part, root) and is_below(os.path.realpath(part), real)) or is_borrowed(part, root, packages)
        for part in origin.split(os.pathsep)
    )


def is_below(path, folder):
    return path.startswith(folder.rstrip(os.sep) + os.sep)


def is_borrowed(path, root, packages):
    """Return whether a compiled part may come from the environment: the proved tree has none of that name."""
    name = copy_of(path, packages)
    if not name or LIBRARY not in os.path.basename(path):
        return False
    parts = path.split(os.sep)
    relative = os.sep.join(parts[parts.index(name) :])
    return not os.path.exists(os.path.join(root, relative))


def copy_of(path, packages):
    """Return the watched package that `path` lies in a copy of, or the empty string."""
    parts = path.split(os.sep)[:-1]
    return next((name for name in packages if name in parts), "")


def serving_environment(main, expected):
    """Return problems with the variables that the recipe set, as the server's own process has them."""
    try:
        with open("/proc/%d/environ" % main, "rb") as file:
            pairs = dict(p.split(b"=", 1) for p in file.read().split(b"\0") if b"=" in p)
    except OSError:
        return []
    # A process may have written its title over its environment: a variable that is absent proves nothing.
    return [
        "process %d has another value of %s than the recipe sets" % (main, name)
        for name, value in sorted(expected.items())
        if pairs.get(os.fsencode(name), os.fsencode(value)) != os.fsencode(value)
    ]


def mapped_libraries(pids, about):
    """Return problems with libraries that a process has mapped from another copy of a watched package."""
    if not about["import_root"]:
        return []
    root = os.path.abspath(about["import_root"])
    return [
        "process %d mapped %s, though the proved tree has its own" % (pid, path)
        for pid in sorted(pids)
        for path in libraries(pid)
        if copy_of(path, about["packages"])
        and not is_below(path, os.path.realpath(root))
        and not is_borrowed(path, root, about["packages"])
    ]


def libraries(pid):
    """Return the shared libraries that a process has mapped; none where it is gone or not ours to ask."""
    try:
        with open("/proc/%d/maps" % pid, errors="surrogateescape") as file:
            fields = [line.rstrip("\n").split(None, 5) for line in file]
    except OSError:
        return []
    return sorted({f[5] for f in fields if len(f) == 6 and f[5].startswith("/") and LIBRARY in f[5]})
