"""The founding case in small: a patch of three methods over a range in which upstream moves."""

from bisectperf.patches import range_map
from bisectperf.recipe.schema import Assertion

NAMES = ("set_layers", "get_head", "set_head")
METHODS = "".join(f"\n    def {name}(self, *words):\n        return self.inner.{name}(*words)\n" for name in NAMES)
OLD = "class Model:\n    def load(self, weights):\n        self.inner.load(weights)\n{}\n\nEntry = [Model]\n"
NEW = OLD.replace("{}", "\n    def save(self):\n        return self.inner.save()\n{}")
UPSTREAM = NEW.format("").replace(
    "    def load",
    "".join(f"    def {n}(self, *args):\n        # ours\n        return None\n\n" for n in NAMES) + "    def load",
)
CLAIMS = tuple(Assertion(file="m.py", symbol=f"Model.{name}") for name in NAMES)


def founded(history, bench):
    """Return the ids of: good, docs, rewritten, docs, upstream has it, docs."""
    good = history.commit("good", {"m.py": OLD.format("")})
    bench.diff("p.diff", {"m.py": OLD.format(METHODS)})
    shas = [good, history.commit("docs 1", {"docs": "1\n"})]
    shas.append(history.commit("rewritten", {"m.py": NEW.format("")}))
    bench.diff("v.diff", {"m.py": NEW.format(METHODS)})
    shas.append(history.commit("docs 2", {"docs": "2\n"}))
    shas.append(history.commit("upstream has it in other words", {"m.py": UPSTREAM}))
    shas.append(history.commit("docs 3", {"docs": "3\n"}))
    return shas


def mapped(bench, patch, good):
    (only,) = range_map(bench.open(patch, good=good), bench.commits)
    return [(s.status, s.commits, s.testable) for s in only.stretches], only


def test_the_patch_alone(history, bench, patch):
    shas = founded(history, bench)
    stretches, found = mapped(bench, patch(), shas[0])
    assert stretches == [("applies", 2, True), ("conflict in m.py", 4, False)]
    assert (found.stretches[1].first, found.stretches[1].last) == (shas[2], shas[5])


def test_with_a_variant_upstreams_own_methods_are_seen_to_double(history, bench, patch, source):
    shas = founded(history, bench)
    variant = source(diff="v.diff", since=shas[2])
    stretches, _ = mapped(bench, patch(diff="p.diff", variants=(variant,), assertions=CLAIMS), shas[0])
    doubled = "assertion failed: m.py defines Model.set_layers 2 times, not once"
    assert stretches == [("applies", 2, True), ("variant 1", 2, True), (doubled, 2, False)]


def test_with_all_that_the_recipe_can_say_every_commit_is_testable(history, bench, patch, source):
    shas = founded(history, bench)
    variant = source(diff="v.diff", since=shas[2])
    whole = patch(diff="p.diff", variants=(variant,), assertions=CLAIMS, upstream_since=shas[4])
    stretches, _ = mapped(bench, whole, shas[0])
    assert stretches == [("applies", 2, True), ("variant 1", 2, True), ("upstream already", 2, True)]


def test_a_second_patch_is_not_tried_where_the_first_failed(history, bench, patch):
    shas = founded(history, bench)
    bench.diff("d.diff", {"new": "x\n"})
    maps = range_map(bench.open(patch(), patch("d", diff="d.diff"), good=shas[0]), bench.commits)
    assert [(s.status, s.commits) for s in maps[1].stretches] == [
        ("applies", 2),
        ("not tried: the commit is untestable before it", 4),
    ]
