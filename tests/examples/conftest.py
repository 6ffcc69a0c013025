"""The demo's generator, and a history that it wrote."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

LAPTOP = Path(__file__).parents[2] / "examples" / "laptop"


@pytest.fixture(scope="session")
def generator():
    """The generator's module; it imports its steps from beside itself."""
    sys.path.insert(0, str(LAPTOP))
    try:
        spec = importlib.util.spec_from_file_location("make_repo", LAPTOP / "make_repo.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(LAPTOP))
    return module


class Demo:
    """A generated repository."""

    def __init__(self, folder, culprit):
        self.folder, self.culprit = folder, culprit

    def git(self, *argv):
        argv = ["git", "-C", self.folder, *argv]
        return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()

    def lines(self, *argv):
        return self.git(*argv).splitlines()

    def tree(self, revision, folder):
        """Write the files of a revision; return the folder."""
        folder.mkdir()
        archive = subprocess.run(["git", "-C", self.folder, "archive", revision], check=True, capture_output=True)
        subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
        return folder


@pytest.fixture(scope="session")
def demo(generator, tmp_path_factory):
    """The demo's history of one seed."""
    folder = tmp_path_factory.mktemp("demo") / "repo"
    return Demo(folder, generator.make(folder, 5))
