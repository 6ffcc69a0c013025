"""Every recipe that ships: right, documented, and true to what it says of flags and patches."""

import json
import re
import shutil
import subprocess
import sys

import pytest

from bisectperf.measure.spec import active
from bisectperf.patches.claims import failure
from bisectperf.recipe.load import load, shipped

NAMES = sorted(path.parent.name for path in shipped().glob("*/recipe.toml"))
RENAMED = "2495c02c2"


@pytest.fixture(params=NAMES)
def recipe(request):
    return load(shipped() / request.param / "recipe.toml")


def test_these_ship():
    expected = {"command", "llamacpp-decode", "sglang-decode", "sglang-eagle3", "torch-decode", "vllm-decode"}
    assert set(NAMES) == expected


def test_what_was_run_for_the_docs_still_loads():
    found = sorted((shipped().parent / "docs/evidence").glob("*/recipe.toml"))
    assert [load(path).recipe.name for path in found] == ["sglang-decode"]


def test_each_says_what_it_is_and_what_to_edit(recipe):
    readme = (recipe.folder / "README.md").read_text()
    assert recipe.recipe.name == recipe.folder.name
    assert recipe.recipe.about
    assert "EDIT" in recipe.path.read_text()
    missing = [name for name in recipe.recipe.params if f"`{name}`" not in readme]
    assert missing == []
    assert len(readme.splitlines()) <= 55


def test_each_parameter_is_used(recipe):
    text = recipe.path.read_text().partition("[params]")
    unused = [name for name in recipe.recipe.params if f"{{{name}}}" not in text[0] + text[2] and name != "python"]
    assert unused == []


def test_what_is_measured_runs_alone_on_the_loopback_interface(recipe):
    launch = recipe.recipe.launch
    if launch:
        assert "127.0.0.1" in launch.argv
        assert "{port}" in launch.argv
        assert launch.ready.http.startswith("http://127.0.0.1:{port}/")


def test_caches_are_set_and_shared(recipe):
    launch = recipe.recipe.launch
    env = launch.env if launch else recipe.recipe.bench.env
    caches = {name: value for name, value in env.items() if "CACHE" in name or "WORKSPACE" in name}
    assert all(value.startswith("{cache}/") for value in caches.values())
    assert caches or recipe.recipe.name == "command"


def rules(name, after):
    """Return the words of the rules that hold where `after` says of each revision: reached, or not there."""
    launch = load(shipped() / name / "recipe.toml").recipe.launch
    reached = {RENAMED: after}
    return [rule.argv[0] for rule in launch.rules if active(rule, "sha", lambda revision, _: reached[revision])]


@pytest.mark.parametrize("name", ["sglang-decode", "sglang-eagle3"])
def test_the_renamed_flag_is_given_by_the_name_that_the_commit_knows(name):
    assert rules(name, after=False) == ["--cuda-graph-max-bs"]
    assert rules(name, after=True) == ["--cuda-graph-max-bs-decode"]
    assert rules(name, after=None) == ["--cuda-graph-max-bs"]


# -- the founding patch ---------------------------------------------------------------------------------------

UPSTREAM = """
    def set_eagle3_layers_to_capture(self, layer_ids: Optional[List[int]] = None) -> None:
        if self.language_model is None:
            raise AttributeError
        self.language_model.set_eagle3_layers_to_capture(layer_ids)

    def get_embed_and_head(self) -> Tuple[Tensor, Tensor]:
        return self.language_model.get_embed_and_head()

    def set_embed_and_head(self, embed: Tensor, head: Tensor) -> None:
        self.language_model.set_embed_and_head(embed, head)
"""


BEFORE = {
    "delegation.patch": """
    def load_weights(self, language_weights):
        if language_weights:
            self.language_model.load_weights(language_weights)
""",
    "delegation-npu.patch": """
    def expert_location(self, text_config):
        return dict(
            num_groups=text_config.n_group,
        )
""",
}
END = "\n\nEntryClass = [KimiK25ForConditionalGeneration]\n"


class Founding:
    """A small file with the lines around the place where a patch of the recipe goes."""

    def __init__(self, root, name):
        recipe = load(shipped() / "sglang-eagle3" / "recipe.toml")
        (delegation,) = recipe.recipe.patches
        self.root, self.diff, self.claims = root, recipe.folder / name, delegation.assertions
        self.file = root / self.claims[0].file
        self.file.parent.mkdir(parents=True)
        self.before = "class KimiK25ForConditionalGeneration:" + BEFORE[name]

    def apply(self, *program):
        with self.diff.open() as text:
            return subprocess.run(
                [*program, "-p1"], cwd=self.root, stdin=text, capture_output=True, check=False
            ).returncode

    def broken(self):
        return [said for claim in self.claims if (said := failure(self.file.read_bytes(), claim))]


@pytest.fixture(params=sorted(BEFORE))
def founding(request, tmp_path):
    return Founding(tmp_path, request.param)


def test_the_founding_patch_adds_what_is_asserted(founding):
    founding.file.write_text(founding.before + END)
    assert len(founding.broken()) == 3
    assert founding.apply("git", "apply") == 0
    assert founding.broken() == []


@pytest.mark.skipif(not shutil.which("patch"), reason="there is no patch(1) here")
def test_a_doubled_patch_is_caught_although_patch_is_content(founding):
    founding.file.write_text(founding.before + UPSTREAM + END)
    assert founding.broken() == []
    assert founding.apply("patch", "-s") == 0
    assert [said.rpartition(" defines ")[2] for said in founding.broken()] == [
        f"{claim.symbol} 2 times, not once" for claim in founding.claims
    ]


def test_its_ranges_meet_and_end_where_upstream_has_it():
    (delegation,) = load(shipped() / "sglang-eagle3" / "recipe.toml").recipe.patches
    early, late = delegation.variants
    assert early.until == late.since == late.base
    revisions = [early.base, early.until, delegation.upstream_since]
    assert all(re.fullmatch("[0-9a-f]{40}", revision) for revision in revisions)


# -- scripts that ship with recipes ---------------------------------------------------------------------------


def run(script, *words, path=""):
    env = {"PYTHONPATH": str(path)}
    argv = [sys.executable, shipped() / script, *map(str, words)]
    return subprocess.run(argv, env=env, capture_output=True, text=True, check=False)


def test_compiled_parts_are_copied_from_the_installed_package(tmp_path):
    installed, checkout = tmp_path / "site" / "engine", tmp_path / "checkout"
    (installed / "ops").mkdir(parents=True)
    (installed / "__init__.py").write_text("raise RuntimeError('it must not be imported')")
    (installed / "_C.so").write_bytes(b"one")
    (installed / "ops" / "moe.so").write_bytes(b"two")
    done = run("vllm-decode/compiled_parts.py", "engine", checkout, path=tmp_path / "site")
    assert done.returncode == 0, done.stderr
    assert "2 compiled extensions" in done.stdout
    assert {p.name: p.read_bytes() for p in checkout.rglob("*.*")} == {"_C.so": b"one", "moe.so": b"two"}


def test_a_package_that_is_not_there_is_said_so(tmp_path):
    done = run("vllm-decode/compiled_parts.py", "no_such_engine", tmp_path)
    assert done.returncode == 1
    assert re.fullmatch(r"no_such_engine is not installed for \S+\n", done.stderr)


def test_torch_decode_says_what_is_missing(tmp_path):
    (tmp_path / "torch.py").write_text("raise ImportError('not here')")
    done = run("torch-decode/torch_decode.py", "--cpu", path=tmp_path)
    assert done.returncode == 1
    assert re.fullmatch(r"torch is not installed for \S+\n", done.stderr)


def test_torch_decode_on_a_cpu():
    pytest.importorskip("torch")
    done = run("torch-decode/torch_decode.py", "--cpu", "--tokens", 4, "--warmup", 1, "--repetitions", 2)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    assert len(said["repetitions"]) == 2
    assert said["findings"] == []


@pytest.mark.parametrize(
    ("output", "number"),
    [("took 12.5", 12.5), ("3 runs\ntime: 1.5e-3 s\n", 1.5e-3), ("a 7\nb 8\n\n", 8), ("v2 is done in 40ms", 40)],
)
def test_command_reads_the_last_number(output, number):
    bench = load(shipped() / "command" / "recipe.toml").recipe.bench
    assert float(re.search(bench.regex, output, re.MULTILINE).group(1)) == number


def test_command_reads_no_number_where_there_is_none():
    bench = load(shipped() / "command" / "recipe.toml").recipe.bench
    assert re.search(bench.regex, "done\n", re.MULTILINE) is None
