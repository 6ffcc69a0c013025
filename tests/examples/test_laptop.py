"""The demo: its history is what its README says, its server what its client expects, its lie is not believed."""

import contextlib
import http.client
import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

LAPTOP = Path(__file__).parents[2] / "examples" / "laptop"
CLIENT = Path(__file__).parents[2] / "recipes" / "common" / "decode_bench.py"


def bisectperf(*words, cwd):
    argv = [sys.executable, "-m", "bisectperf", *words]
    env = {**os.environ, "XDG_CACHE_HOME": str(cwd / ".git" / "cache")}
    return subprocess.run(argv, cwd=cwd, env=env, capture_output=True, text=True, check=False)


# -- the history ----------------------------------------------------------------------------------------------


def test_a_seed_gives_the_same_commits_and_seeds_move_the_slow_one(generator, demo, tmp_path):
    assert generator.make(tmp_path / "again", 5) == demo.culprit
    places = {generator.make(tmp_path / str(seed), seed) for seed in range(3)}
    assert len(places) > 1


def test_about_thirty_commits_with_a_merge_of_a_side_branch(demo):
    assert 25 <= len(demo.lines("rev-list", "bad")) <= 35
    (merge,) = demo.lines("rev-list", "--merges", "bad")
    assert len(demo.lines("rev-list", f"{merge}^1..{merge}^2")) >= 3


def test_the_slow_commit_can_be_inside_of_the_merge(generator, tmp_path):
    inside = set()
    for seed in range(8):
        folder = tmp_path / str(seed)
        culprit = generator.make(folder, seed)
        argv = ["git", "-C", folder, "rev-list", "--first-parent", "bad"]
        inside.add(culprit not in subprocess.run(argv, check=True, capture_output=True, text=True).stdout)
    assert inside == {True, False}


def starts(folder):
    """Return whether the server's modules can be imported, all of them."""
    argv = [sys.executable, "-B", "-c", "import pocketlm.server, pocketlm.draft"]
    return subprocess.run(argv, cwd=folder, capture_output=True, check=False).returncode == 0


def test_two_neighbours_cannot_start_and_some_commits_touch_only_documentation(demo, tmp_path):
    line = demo.lines("rev-list", "--first-parent", "--reverse", "good..bad")
    broken = [n for n, sha in enumerate(line) if not starts(demo.tree(sha, tmp_path / sha))]
    assert len(broken) == 2
    assert broken[1] == broken[0] + 1
    touched = [demo.lines("diff-tree", "-r", "--name-only", "--no-commit-id", "-m", sha) for sha in line]
    assert sum(not any(name.startswith("pocketlm/") for name in names) for names in touched) >= 3


def test_the_slow_commit_changes_nothing_that_is_answered(demo, tmp_path):
    answers = set()
    for name in ("parent", "culprit"):
        revision = demo.culprit + "^" * (name == "parent")
        code = "from pocketlm.pocket import *; m = PocketForCausalLM(); print(m.prefill([1, 2, 3], m.new_cache()))"
        argv = [sys.executable, "-B", "-c", code]
        folder = demo.tree(revision, tmp_path / name)
        answers.add(subprocess.run(argv, cwd=folder, check=True, capture_output=True, text=True).stdout)
    assert len(answers) == 1


# -- the patch ------------------------------------------------------------------------------------------------


def test_the_patch_is_proved_on_every_commit_in_three_stretches(demo):
    done = bisectperf("patches", "good..bad", "--recipe", str(LAPTOP / "recipe"), cwd=demo.folder)
    assert done.returncode == 0, done.stderr
    stretches = re.findall(r"(\d+) commits? +(.+)", done.stdout)
    assert [status for _, status in stretches] == ["variant 1", "variant 2", "upstream already"]
    assert sum(int(count) for count, _ in stretches) == len(demo.lines("rev-list", "--first-parent", "good^..bad"))


def test_the_lying_script_is_quoted_and_not_believed(demo):
    words = ["start", "good", "bad", "--recipe", str(LAPTOP / "recipe" / "lying.toml")]
    done = bisectperf(*words, cwd=demo.folder)
    assert done.returncode == 2
    assert "PocketForCausalLM.set_draft_layers_to_capture" in done.stderr
    assert demo.git("rev-parse", "good")[:12] in done.stderr
    assert "already present" in done.stderr
    assert not list(demo.folder.glob(".git/bisectperf/runs/*"))


# -- the server -----------------------------------------------------------------------------------------------


class Server:
    """The demo's server, started from a folder."""

    def __init__(self, folder, *words):
        with socket.socket() as sock:
            sock.bind(("127.0.0.1", 0))
            self.port = sock.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        argv = [sys.executable, "-B", "-m", "pocketlm.server", "--port", str(self.port), *words]
        env = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        self.process = subprocess.Popen(argv, cwd=folder, env=env, stderr=subprocess.PIPE, text=True)

    def __enter__(self):
        while self.process.poll() is None:
            with contextlib.suppress(ConnectionError):
                if self.request("GET", "/health")[0] == 200:
                    return self
        raise AssertionError(self.process.stderr.read())

    def __exit__(self, *_):
        self.process.terminate()
        self.process.communicate()

    def ask(self, **body):
        status, answer = self.request("POST", "/generate", {"sampling_params": {"max_new_tokens": 6}, **body})
        assert status == 200
        return answer

    def request(self, verb, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        with contextlib.closing(connection):
            connection.request(verb, path, json.dumps(body))
            reply = connection.getresponse()
            return reply.status, json.loads(reply.read())


@pytest.fixture(scope="module")
def good(demo, tmp_path_factory):
    """The good end, with the patch on it and without."""
    bare = demo.tree("good", tmp_path_factory.mktemp("trees") / "bare")
    patched = demo.tree("good", bare.parent / "patched")
    patch = (LAPTOP / "recipe" / "delegation.patch").read_bytes()
    subprocess.run(["git", "apply", "-"], cwd=patched, input=patch, check=True)
    return bare, patched


def test_without_the_patch_the_draft_option_cannot_start(good):
    bare, _ = good
    server = Server(bare, "--draft")
    said = server.process.communicate(timeout=60)[1]
    assert server.process.returncode != 0
    assert "get_embed_and_head" in said


def test_it_answers_as_sglang_does(good):
    with Server(good[1], "--draft") as server:
        answer = server.ask(input_ids=[1, 2, 3])
        assert len(answer["output_ids"]) == 6
        about = answer["meta_info"]
        assert (about["prompt_tokens"], about["completion_tokens"], about["cached_tokens"]) == (3, 6, 0)
        assert about["e2e_latency"] > 0
        assert server.ask(input_ids=[1, 2, 3])["output_ids"] == answer["output_ids"]
        assert server.ask(text="abc")["meta_info"]["prompt_tokens"] == 3


def test_the_client_of_the_recipes_measures_it(good):
    with Server(good[1], "--draft") as server:
        argv = [sys.executable, CLIENT, "--url", server.url, "--input-ids", "4", "--vocabulary", "512"]
        argv += ["--tokens", "20", "--warmup", "1", "--repetitions", "3", "--concurrency", "2"]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True)
    said = json.loads(done.stdout.splitlines()[-1])
    assert len(said["repetitions"]) == 3
    assert all(guard["ok"] for guard in said["guards"].values())
    assert said["findings"] == []
    assert all(r["request_tok_s"] > 0 for r in said["repetitions"])
