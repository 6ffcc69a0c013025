"""Make the repository that was bisected with torch-decode: 12 small commits to a model, one of them slow.

    python make_repo.py DESTINATION --seed 20261202

The model is the one of the recipe's own script, as a package. Where the slow commit is, and by how much it is slower,
follows from the seed, which is printed: the first blocks compute their feed-forward part twice. Needs git and the
standard library.
"""

import argparse
import os
import random
import subprocess
from pathlib import Path

COMMITS = 12
BLOCKS = 12
SHARE = 0.63  # of the weights that a step reads, what lies in the feed-forward parts
SCRIPT = Path(__file__).resolve().parents[3] / "recipes/torch-decode/torch_decode.py"
FEED_FORWARD = "        return x + F.linear(F.silu(F.linear(norm(x), self.up)), self.down)\n"
TWICE = "        if self.number < {blocks}:\n            F.linear(F.silu(F.linear(norm(x), self.up)), self.down)\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("destination", type=Path)
    parser.add_argument("--seed", type=int, required=True)
    options = parser.parse_args()
    drawn = random.Random(options.seed)
    slow, blocks = drawn.randint(2, COMMITS - 1), round(drawn.uniform(0.10, 0.20) / SHARE * BLOCKS)
    print(f"seed {options.seed}: commit {slow} of {COMMITS} is slow ({blocks} of {BLOCKS} blocks)")
    model = options.destination / "decode_model/__init__.py"
    model.parent.mkdir(parents=True)
    text = SCRIPT.read_text()
    # Each block knows its place from the beginning: the slow commit adds work and nothing else.
    text = text.replace(
        "def __init__(self, weights, width, cache):", "def __init__(self, weights, width, cache, number):"
    )
    text = text.replace("        self.qkv, self.out =", "        self.number = number\n        self.qkv, self.out =")
    text = text.replace("width // heads)) for _ in range(depth)]", "width // heads), n) for n in range(depth)]")
    assert text.count(FEED_FORWARD) == 1
    assert text.count("cache, number):") == text.count("self.number = number\n") == text.count("heads), n) for") == 1
    model.write_text(text)
    git(options.destination, "init", "--quiet", "--initial-branch=main")
    commit(options.destination, "the model", 0)
    for number in range(1, COMMITS + 1):
        if number == slow:
            text = text.replace(FEED_FORWARD, TWICE.format(blocks=blocks) + FEED_FORWARD)
        else:
            text += f"# Note {number}.\n"
        model.write_text(text)
        commit(
            options.destination, "blocks: check the feed-forward part" if number == slow else f"note {number}", number
        )


def commit(destination, title, number):
    when = f"2026-06-{number + 1:02d}T12:00:00+0000"
    who = {"GIT_AUTHOR_NAME": "E", "GIT_AUTHOR_EMAIL": "e@example.org", "GIT_AUTHOR_DATE": when}
    who |= {name.replace("AUTHOR", "COMMITTER"): value for name, value in who.items()}
    git(destination, "add", "--all")
    git(destination, "commit", "--quiet", "--message", title, env=os.environ | who)


def git(destination, *argv, env=None):
    subprocess.run(["git", "-C", str(destination), *argv], check=True, env=env)


if __name__ == "__main__":
    main()
