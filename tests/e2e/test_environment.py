"""The good end first: where it is slower than it was, no commit is measured."""

import json


def test_a_good_end_that_is_slower_than_it_was_is_the_answer(world, slower, tmp_path):
    tuned = tmp_path / "tuned.json"
    tuned.write_text("{}")
    world.write_recipe()
    recipe = world.recipe_folder / "recipe.toml"
    recipe.write_text(f'configuration = ["{tuned}"]\n' + recipe.read_text())
    bench = (world.recipe_folder / "bench.py").read_text()
    slow = bench.replace("engine.speed() *", "engine.speed() * float(os.environ.get('SLOW', '1')) *")
    (world.recipe_folder / "bench.py").write_text(slow)

    done = world.run("start", slower[0], slower[-1], "--recipe", str(world.recipe_folder), "--json", "--was", "133")
    assert done.returncode == 5, done.stderr
    verdict = world.verdict(done)
    assert (verdict["verdict"], verdict["launches"]) == ("environment-changed", 3)
    assert (round(verdict["was"]), round(verdict["now"], -1)) == (133, 100)
    assert {e["sha"] for e in world.events() if e["event"] == "LaunchPlanned"} == {slower[0]}
    launches = [e["launch"] for e in world.events() if e["event"] == "Snapshotted"]
    assert len(launches) == 3
    assert world.run("diff", launches[0], launches[2]).stdout == "nothing that is recorded differs\n"

    assert "3 launches kept" in world.run("baseline", "save", "good-days").stdout
    tuned.write_text("{1}")
    world.env = {"SLOW": "0.8"}
    argv = ["start", slower[0], slower[-1], "--recipe", str(world.recipe_folder), "--json", "--against"]
    done = world.run(*argv, "good-days")
    assert done.returncode == 5, done.stderr
    (difference,) = world.verdict(done)["differences"]
    assert difference.startswith(f"digest of {tuned}: ")
    assert difference.endswith("(configuration that the launch reads)")
    shown = json.loads(world.run("diff", "good-days", "L0001", "--json").stdout)
    assert [one["name"] for one in shown] == [f"digest of {tuned}"]


def test_a_snapshot_of_the_moment_and_words_that_are_none(world, slower, tmp_path):
    world.write_recipe()
    options = ["--recipe", str(world.recipe_folder)]
    assert "kernel: " in world.run("snapshot", *options).stdout
    file = tmp_path / "today.json"
    assert world.run("snapshot", *options, "-o", str(file)).returncode == 0
    assert file.stat().st_mode & 0o077 == 0
    assert world.run("diff", str(file), str(file)).returncode == 0
    (tmp_path / "none.json").write_text("[1]")
    for argv, said in (
        (["diff", str(file), "nowhere"], "there is no baseline 'nowhere'"),
        (["diff", str(file), str(tmp_path / "none.json")], "is no snapshot"),
        (["start", slower[0], slower[-1], *options, "--against", "x/y"], "is no name for a baseline"),
        (["start", slower[0], slower[-1], *options, "--against", "x", "--was", "3"], "give one of them"),
    ):
        done = world.run(*argv)
        assert done.returncode == 2
        assert said in done.stderr
        assert "Traceback" not in done.stderr
