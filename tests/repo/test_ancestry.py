"""Ancestry for many commits at once agrees with git's own answer for each."""

import random

from bisectperf.repo import Ancestry


def test_many_answers_agree_with_git(history, open_store):
    seed = 20260219
    print(f"seed {seed}")
    draw = random.Random(seed)
    shas = [history.commit("root")]
    for number in range(14):
        history.git("checkout", "-q", "--detach", draw.choice(shas))
        other = draw.choice(shas)
        if draw.random() < 0.4 and history.git("merge-base", "HEAD", other) != other:
            shas.append(history.merge(other))
        else:
            shas.append(history.commit(str(number), {f"f{number}": "x"}))
    for number, sha in enumerate(shas):
        history.git("branch", f"b{number}", sha)
    store = open_store()[1]
    covered = draw.sample(shas, 9)
    quick = Ancestry(store, covered)
    for old in shas:
        for new in shas:
            assert quick(old, new) == store.is_ancestor(old, new), (old, new, new in covered)


def test_a_revision_that_is_not_there_is_neither_yes_nor_no(history, open_store):
    sha = history.commit("one")
    assert Ancestry(open_store()[1], [sha])("v9.9", sha) is None
