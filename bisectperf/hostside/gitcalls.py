"""Git as we call it on a host: nobody's configuration, hooks, replacements or locks but ours."""

import os
import subprocess

CONFIG = """[safe]
\tdirectory = *
[core]
\tautocrlf = false
\tfsmonitor = false
\thooksPath = /dev/null
[gc]
\tauto = 0
[advice]
\tdetachedHead = false
[protocol "file"]
\tallow = always
"""


def environment(mirror):
    """Return the environment of our git calls: an own HOME beside the mirror, no GIT_* of anyone else's."""
    home = os.path.join(os.path.dirname(mirror), ".home")
    config = os.path.join(home, ".gitconfig")
    if not os.path.exists(config):
        os.makedirs(home, mode=0o700, exist_ok=True)
        aside = "%s.%d" % (config, os.getpid())
        with open(aside, "w") as file:
            file.write(CONFIG)
        os.rename(aside, config)
    env = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    env.update(
        HOME=home,
        XDG_CONFIG_HOME=home,
        GIT_CONFIG_NOSYSTEM="1",
        GIT_NO_REPLACE_OBJECTS="1",
        GIT_OPTIONAL_LOCKS="0",
        GIT_TERMINAL_PROMPT="0",
        GIT_LFS_SKIP_SMUDGE="1",
        LC_ALL="C",
    )
    return env


def git(mirror, *argv, **options):
    """Run git on our mirror; return its standard output. Raises `RuntimeError` with git's words."""
    folder = options.pop("cwd", None)
    where = [] if folder else ["--git-dir=" + mirror]
    done = subprocess.run(
        ["git", "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false"] + where + list(argv),
        cwd=folder,
        env=environment(mirror),
        stdin=options.pop("stdin", subprocess.DEVNULL),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        **options,
    )
    if done.returncode:
        raise RuntimeError("git %s: %s" % (argv[0], done.stderr.decode(errors="replace").strip()))
    return done.stdout


def listing(mirror, tree):
    """Return {path (bytes): (mode, kind, id)} of every entry of `tree`, read from our mirror's objects."""
    found = {}
    for entry in git(mirror, "ls-tree", "-r", "-z", "--full-tree", tree).split(b"\0"):
        if entry:
            facts, path = entry.split(b"\t", 1)
            mode, kind, name = facts.split(b" ")
            found[path] = (mode.decode(), kind.decode(), name.decode())
    return found
