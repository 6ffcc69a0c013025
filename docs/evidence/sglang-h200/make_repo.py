"""Make the repository that was bisected: an installed SGLang, 14 small commits, one slow one, one that cannot start.

    python make_repo.py SITE_PACKAGES DESTINATION --seed 20261201

Where the slow commit is, and by how much it is slower, follows from the seed, which is printed. The slow commit makes
the first layers of the Llama model compute their feed-forward part twice: real work on the GPU. The commit that
cannot start imports a name that is not there, and lies in the middle, where a search looks early; the next one mends
it. Needs git and the standard library.
"""

import argparse
import os
import random
import shutil
import subprocess
from pathlib import Path

COMMITS = 14
LEFT_OUT = ("multimodal_gen", "test", "benchmark", "eval", "__pycache__", "*.pyc", "*.so")
LAYERS = 32
# Of a decode step at batch 8, an 8B Llama spends about two thirds on the feed-forward parts: 352 MB of 501 MB of
# weights in each layer, and the head. What it really costs is measured afterwards.
SHARE = 0.66
QUIET = [
    "managers/io_struct.py",
    "managers/schedule_batch.py",
    "managers/schedule_policy.py",
    "managers/tokenizer_manager.py",
    "managers/detokenizer_manager.py",
    "mem_cache/memory_pool.py",
    "model_executor/forward_batch_info.py",
    "layers/layernorm.py",
    "layers/linear.py",
    "layers/sampler.py",
    "layers/radix_attention.py",
    "sampling/sampling_params.py",
]
LLAMA = "models/llama.py"
FEED_FORWARD = "        hidden_states = self.mlp(hidden_states)\n        return hidden_states, residual\n"
BROKEN = "server_args.py"
MISSING = "\nfrom sglang.srt.utils import metrics_helper\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("site", type=Path)
    parser.add_argument("destination", type=Path)
    parser.add_argument("--seed", type=int, required=True)
    options = parser.parse_args()
    drawn = random.Random(options.seed)
    broken = COMMITS // 2
    slow = drawn.choice([n for n in range(2, COMMITS) if n not in (broken, broken + 1)])
    layers = round(drawn.uniform(0.17, 0.23) / SHARE * LAYERS)
    said = f"{slow} is slow ({layers} of {LAYERS} layers), {broken} does not start"
    print(f"seed {options.seed}: {COMMITS} commits, {said}")
    begin(options.site, options.destination)
    quiet = iter(QUIET)
    for number in range(1, COMMITS + 1):
        if number == slow:
            title = "llama: feed-forward without the fused path in the first layers"
            edit(options.destination, LLAMA, slow_down(layers))
        elif number == broken:
            title = "server_args: use the new metrics helper"
            edit(options.destination, BROKEN, lambda text: text + MISSING)
        elif number == broken + 1:
            title = "server_args: the metrics helper is not there yet"
            edit(options.destination, BROKEN, lambda text: text.replace(MISSING, ""))
        else:
            path = next(quiet)
            title = f"{Path(path).stem}: a note"
            edit(options.destination, path, lambda text, n=number: f"{text}\n# Note {n}.\n")
        commit(options.destination, title, number)


def begin(site, destination):
    """Lay the installed package down as SGLang's own repository has it, and its pins beside it."""
    shutil.copytree(site / "sglang", destination / "python/sglang", ignore=shutil.ignore_patterns(*LEFT_OUT))
    (about,) = site.glob("sglang-0*.dist-info/METADATA")
    needs = [line.partition(": ")[2] for line in about.read_text().splitlines() if line.startswith("Requires-Dist:")]
    pins = "".join(f"    {need.split(';')[0].strip()!r},\n" for need in needs if "extra ==" not in need)
    (destination / "python/pyproject.toml").write_text(f"[project]\nname = 'sglang'\ndependencies = [\n{pins}]\n")
    git(destination, "init", "--quiet", "--initial-branch=main")
    commit(destination, "the installed release", 0)


def slow_down(layers):
    """Return the edit that makes the first `layers` layers compute their feed-forward part twice."""

    def edited(text):
        assert text.count("        self.mlp = LlamaMLP(\n") == 1
        assert text.count(FEED_FORWARD) == 1
        text = text.replace(
            "        self.mlp = LlamaMLP(\n", "        self.layer_id = layer_id\n        self.mlp = LlamaMLP(\n"
        )
        twice = f"        if self.layer_id < {layers}:\n            self.mlp(hidden_states.clone())\n"
        return text.replace(FEED_FORWARD, twice + FEED_FORWARD)

    return edited


def edit(destination, path, change):
    file = destination / "python/sglang/srt" / path
    file.write_text(change(file.read_text()))


def commit(destination, title, number):
    when = f"2026-06-{number + 1:02d}T12:00:00+0000"
    who = {"GIT_AUTHOR_NAME": "E", "GIT_AUTHOR_EMAIL": "e@example.org", "GIT_AUTHOR_DATE": when}
    who |= {name.replace("AUTHOR", "COMMITTER"): value for name, value in who.items()}
    git(destination, "add", "--all", "--force")
    git(destination, "commit", "--quiet", "--message", title, env=os.environ | who)


def git(destination, *argv, env=None):
    subprocess.run(["git", "-C", str(destination), *argv], check=True, env=env)


if __name__ == "__main__":
    main()
