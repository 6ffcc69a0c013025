"""A wrong recipe is refused in one sentence that says where and what to do."""

import pytest

from bisectperf.errors import UserError
from bisectperf.recipe.load import fill, load

GOOD = """
name = "x"
files = ["client.py"]
[params]
model = "m"
tp = 8
[bench]
argv = ["python3", "{recipe}/client.py", "{model}"]
regex = "speed: ([0-9.]+)"
[metric]
name = "speed"
unit = "tok/s"
better = "higher"
"""


@pytest.fixture
def recipe(tmp_path):
    (tmp_path / "client.py").write_text("print('speed: 1')")

    def write(text=GOOD, **settings):
        (tmp_path / "recipe.toml").write_text(text)
        return load(tmp_path / "recipe.toml", settings)

    return write


def test_a_good_recipe_loads_with_its_files(recipe):
    loaded = recipe()
    assert loaded.files == {"client.py": b"print('speed: 1')"}
    assert loaded.recipe.metric.better == "higher"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('name = "x"', 'name = "x"\nnmae = "y"', "recipe.toml:3: unknown key 'nmae'"),
        ("argv = [", "args = [", "recipe.toml:8: unknown key 'bench.args'"),
        ('better = "higher"', 'better = "up"', "metric.better"),
        ('unit = "tok/s"', "unit = 3", "recipe.toml:12: metric.unit: expected 'str', got 'int'"),
        ("{model}", "{modle}", "bench uses {modle}, which is no parameter"),
        ('files = ["client.py"]', 'files = ["cleint.py"]', "files names 'cleint.py'"),
        ("([0-9.]+)", "[0-9.]+", "bench.regex has 0 groups"),
        ("([0-9.]+)", "([0-9.]+", "no regular expression"),
        ('name = "x"', 'name = "x', "not valid TOML"),
        ("[metric]", '[[patch]]\nname = "p"\n[metric]', "exactly one of diff, overlay, script"),
        ("[metric]", '[[patch]]\nname = "p"\ndiff = "no.patch"\n[metric]', "names 'no.patch', which is not there"),
        ("[metric]", '[launch]\nargv = ["x"]\n[launch.ready]\n[metric]', "exactly one of http, log, command"),
    ],
)
def test_what_is_wrong_is_named(recipe, old, new, said):
    with pytest.raises(UserError) as caught:
        recipe(GOOD.replace(old, new, 1))
    assert said in caught.value.message
    assert caught.value.hint


def test_set_keeps_the_type_of_the_parameter(recipe):
    assert recipe(tp="4").recipe.params["tp"] == 4
    with pytest.raises(UserError, match="not a number"):
        recipe(tp="four")
    with pytest.raises(UserError, match="no parameter 'mdoel'"):
        recipe(mdoel="x")


def test_the_local_file_sets_params_and_host_only(recipe, tmp_path):
    (tmp_path / "bisectperf.local.toml").write_text('[params]\nmodel = "mine"\n[host]\nssh = "box"\n')
    loaded = recipe()
    assert (loaded.recipe.params["model"], loaded.recipe.host.ssh) == ("mine", "box")
    (tmp_path / "bisectperf.local.toml").write_text("repetitions = 3\n")
    with pytest.raises(UserError, match="only \\[params\\]"):
        recipe()


def test_the_digest_follows_what_is_measured_and_not_where(recipe, tmp_path):
    first = recipe().digest
    assert recipe(GOOD + '\n[host]\nssh = "box"\n').digest == first
    assert recipe(tp="4").digest != first
    (tmp_path / "client.py").write_text("print('speed: 2')")
    assert recipe().digest != first


def test_braces_and_placeholders():
    assert fill('{{"a": {tp}}}', {"tp": 8}) == '{"a": 8}'
