"""A repository, a recipe folder beside it, and the stack that both make."""

import pytest

from bisectperf.patches import Stack
from bisectperf.recipe.schema import Patch, Source
from bisectperf.repo import Ancestry, Repository, Store


@pytest.fixture(autouse=True)
def _alone(own_home):
    pass


class Bench:
    """What the tests of patches need: make diffs, open the stack, compose."""

    def __init__(self, history, folder):
        self.history = history
        self.folder = folder
        folder.mkdir()

    def diff(self, name, files, *argv, base="HEAD"):
        """Write `files` onto `base`, keep `git diff` of that beside the recipe, and clean up."""
        here = self.history.git("rev-parse", "--abbrev-ref", "HEAD")
        self.history.git("checkout", "-q", "--detach", base)
        self.history.write(files)
        self.history.git("add", "--all")
        text = self.history.git("diff", "--cached", *argv) + "\n"
        (self.folder / name).write_bytes(text.encode(errors="surrogateescape"))
        self.history.git("reset", "-q", "--hard")
        self.history.git("clean", "-qfd")
        self.history.switch(here)
        return text

    def script(self, name, text):
        path = self.folder / name
        path.write_text(text)
        path.chmod(0o755)
        return (name,)

    def open(self, *patches, good, bad="HEAD"):
        """Return the store, the commits from `good` to `bad` and the stack of `patches`."""
        repository = Repository.open(str(self.history.folder))
        self.store = Store.of(repository, repository.state_folder / "store")
        bad = repository.resolve(bad)
        self.store.bring(repository, [good, bad])
        self.commits = self.store.path(good, bad)
        shas = [commit.sha for commit in self.commits]
        self.stack = Stack(self.store, self.folder, patches, good=good, line=shas, reached=Ancestry(self.store, shas))
        return self.stack

    def text(self, tree, path):
        return self.store.blob(tree, path).decode()


@pytest.fixture
def bench(history, tmp_path):
    return Bench(history, tmp_path / "recipe")


@pytest.fixture
def patch():
    """Make a patch of the recipe, by default from `p.diff`."""

    def made(name="p", **fields):
        if not {"diff", "overlay", "script", "variants"} & fields.keys():
            fields["diff"] = "p.diff"
        return Patch(name=name, **fields)

    return made


@pytest.fixture
def source():
    return Source
