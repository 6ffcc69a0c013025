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
    return clean_environment(home)


def clean_environment(home):
    """Return our own environment without any GIT_* variable, with `home` as the only place of configuration."""
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
    ours = ["-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false"]
    return call(ours + where + list(argv), argv[0], env=environment(mirror), cwd=folder, **options)


def call(words, verb, **options):
    """Run `git WORDS`; return its standard output. Raises `RuntimeError` with git's words about `verb`."""
    if "input" not in options:
        options.setdefault("stdin", subprocess.DEVNULL)
    done = subprocess.run(["git"] + words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
    if done.returncode:
        raise RuntimeError("git %s: %s" % (verb, done.stderr.decode(errors="replace").strip()))
    return done.stdout


class Objects(object):
    """The objects of a repository and nothing else of it.

    A repository's configuration, index, attributes, grafts and replacement refs can all be bent to hide a change, so
    none of them may have a say in a proof: git runs here on an empty repository of ours, made in the empty folder
    `scratch`, that borrows the object store of `git_dir`.
    """

    def __init__(self, git_dir, scratch, tree):
        self.scratch = os.path.abspath(scratch)
        self.worktree = os.path.join(self.scratch, "worktree")
        for name in ("git/objects", "git/refs", "worktree"):
            os.makedirs(os.path.join(self.scratch, name))
        self.write("git/HEAD", "ref: refs/heads/none\n")
        sha256 = "[extensions]\n\tobjectFormat = sha256\n" if len(tree) == 64 else ""
        version = "[core]\n\trepositoryFormatVersion = %d\n\tbare = false\n\tsymlinks = true\n" % bool(sha256)
        self.write("git/config", version + sha256)
        self.write(".gitconfig", CONFIG)
        self.env = clean_environment(self.scratch)
        self.env.update(
            GIT_DIR=os.path.join(self.scratch, "git"),
            GIT_WORK_TREE=self.worktree,
            GIT_OBJECT_DIRECTORY=os.path.join(os.path.abspath(git_dir), "objects"),
        )

    def write(self, name, text):
        with open(os.path.join(self.scratch, name), "w") as file:
            file.write(text)

    def git(self, *argv, **options):
        """Run git on these objects; return its standard output. Raises `RuntimeError` with git's words."""
        return call(list(argv), argv[0], env=self.env, cwd=self.worktree, **options)

    def listing(self, tree):
        """Return {path (bytes): (mode, kind, id)} of every entry of `tree`."""
        found = {}
        for entry in self.git("ls-tree", "-r", "-z", "--full-tree", tree).split(b"\0"):
            if entry:
                facts, path = entry.split(b"\t", 1)
                mode, kind, name = facts.split(b" ")
                found[path] = (mode.decode(), kind.decode(), name.decode())
        return found

    def written(self, tree, paths):
        """Return the folder (bytes) into which git has written `paths` of `tree`, converted as the tree asks.

        The attributes (eol, ident, encoding) come from the tree alone. A filter driver is a program that somebody
        configured: none is known here, so such files are written as the tree has them.
        """
        self.git("read-tree", tree)
        self.git("checkout-index", "-z", "--stdin", input=b"".join(path + b"\0" for path in paths))
        return os.fsencode(self.worktree)
