"""Write the demo repository: a small LLM server, thirty commits, one of them slower.

    python make_repo.py FOLDER [--seed N]

The seed draws where the slow commit stands; it is printed. The same seed gives the same commit ids. The history has a
merge, two neighbouring commits that cannot start, commits that touch only documentation, a rewrite of the file that
the user's patch changes, and, late, the patched methods added by upstream itself in other words. Tags mark the ends
(`good`, `bad`) and the commits that the patch's ranges name (`rewrite`, `upstream`).
"""

import argparse
import os
import random
import shutil
import subprocess
from pathlib import Path

import steps

HERE = Path(__file__).resolve().parent
CANDIDATE_PLACES = ("cache-note", "log-time", "branch-2", "branch-3", "limits", "errors", "after-rewrite", "usage")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args()
    seed = random.randrange(10_000) if options.seed is None else options.seed
    commit = make(options.folder, seed)
    print(f"seed {seed}: {options.folder} has {count(options.folder)} commits")
    (options.folder / ".git" / "answer").write_text(commit + "\n")


def make(folder, seed):
    """Write the repository; return the id of the slow commit."""
    place = random.Random(seed).choice(CANDIDATE_PLACES)
    folder.mkdir(parents=True)
    history = History(folder)
    for name, subject, change in steps.HISTORY:
        if name == "branch":
            history.git("checkout", "-q", "-b", "batching")
        elif name == "merge":
            history.git("checkout", "-q", "main")
            history.commit("server: say the model's name", steps.model_name)
            history.merge("batching", subject)
        else:
            history.commit(subject, change)
            if name in steps.TAGS:
                history.git("tag", name)
        if name == place:
            history.commit("layers: keep how concentrated the attention is", steps.slow)
            culprit = history.git("rev-parse", "HEAD")
    history.git("tag", "bad")
    return culprit


def count(folder):
    return History(folder).git("rev-list", "--count", "HEAD")


class History:
    """A repository that is written commit by commit, with fixed names and dates."""

    def __init__(self, folder):
        self.folder = folder
        self.clock = 1_760_000_000
        if not (folder / ".git").exists():
            self.git("init", "-q", "-b", "main")
            shutil.copytree(
                HERE / "template", folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__")
            )

    def git(self, *argv):
        env = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
        for role in ("AUTHOR", "COMMITTER"):
            env[f"GIT_{role}_NAME"] = "Pocket"
            env[f"GIT_{role}_EMAIL"] = "pocket@example.invalid"
            env[f"GIT_{role}_DATE"] = f"{self.clock} +0000"
        env["GIT_CONFIG_GLOBAL"] = os.devnull
        done = subprocess.run(["git", "-C", self.folder, *argv], env=env, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def commit(self, subject, change):
        change(self.folder)
        self.clock += 3600
        self.git("add", "-A")
        self.git("commit", "-q", "-m", subject)

    def merge(self, branch, subject):
        self.clock += 3600
        self.git("merge", "-q", "--no-ff", "-m", subject, branch)
        self.git("branch", "-q", "-d", branch)


if __name__ == "__main__":
    main()
