"""Which code ran: editable installs that would win, processes that start others, libraries of another copy."""

import json
import shutil
import subprocess
import sys
import sysconfig
from importlib.util import find_spec
from pathlib import Path

import pytest

APPENDED = """
import sys
from importlib.machinery import PathFinder
class Finder:
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return PathFinder.find_spec(name, [{folder!r}]) if name == "engine" else None
sys.meta_path.append(Finder)
"""
"""As the editable installs of setuptools: asked after the import path."""
IN_FRONT = """
import sys
from importlib.util import spec_from_file_location
import os
class Finder:
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name.partition(".")[0] != "engine":
            return None
        base = os.path.join({folder!r}, *name.split("."))
        for file, inner in ((base + ".py", None), (os.path.join(base, "__init__.py"), [base])):
            if os.path.exists(file):
                return spec_from_file_location(name, file, submodule_search_locations=inner)
        for file in os.listdir(os.path.dirname(base)):
            if file.startswith(name.rpartition(".")[2] + ".") and file.endswith(".so"):
                return spec_from_file_location(name, os.path.join(os.path.dirname(base), file))
sys.meta_path.insert(0, Finder)
"""
"""As those of meson-python and scikit-build-core: asked before the import path, and for each submodule."""
STEP = "import engine; print(engine.step(40))"
OURS, THEIRS = 42.0, 39.0


class Venv:
    """A virtual environment with an editable install of another copy of the engine."""

    def __init__(self, folder, elsewhere, style):
        self.folder, self.elsewhere = folder, elsewhere
        (elsewhere / "engine").mkdir(parents=True)
        (elsewhere / "engine/__init__.py").write_text("def step(n):\n    return n - 1\n")
        (elsewhere / "engine/extra.py").write_text("where = 'elsewhere'\n")
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
        self.python = str(folder / "bin/python")
        variables = {"base": str(folder), "platbase": str(folder)}
        self.packages = Path(sysconfig.get_path("purelib", "venv", vars=variables))
        if style == "path":
            (self.packages / "engine.pth").write_text(f"{elsewhere}\n")
        else:
            finder = {"appended": APPENDED, "in front": IN_FRONT}[style]
            (self.packages / "_editable_engine.py").write_text(finder.format(folder=str(elsewhere)))
            (self.packages / "engine.pth").write_text("import _editable_engine\n")


@pytest.fixture
def venv(tmp_path, request):
    return Venv(tmp_path / "venv", tmp_path / "elsewhere", getattr(request, "param", "path"))


def one_number(code, python):
    return {"argv": [python, "-c", code], "regex": r"^(\d+)$", "warmup": 0, "repetitions": 1}


every_style = pytest.mark.parametrize("venv", ["path", "appended", "in front"], indirect=True)


@every_style
def test_an_editable_install_elsewhere_is_overruled_and_the_overruling_proved(site, venv):
    alone = subprocess.run([venv.python, "-c", STEP], capture_output=True, check=True, cwd=site.root)
    assert float(alone.stdout) == THEIRS
    result = site.launch(server=None, bench=one_number(STEP, venv.python))
    assert result["outcome"] == "measured", result["detail"]
    assert result["samples"]["repetitions"] == [OURS]
    (origins,) = result["origin"]["origins"].values()
    assert origins == {"engine": str(site.worktree / "engine/__init__.py")}


@every_style
def test_where_it_wins_the_launch_is_void_and_its_path_is_named(site, venv):
    """As with an import root that does not hold the package."""
    (site.root / "src").mkdir()
    environment = {"import_root": str(site.root / "src")}
    result = site.launch(server=None, bench=one_number(STEP, venv.python), environment=environment)
    assert result["outcome"] == "origin-failed"
    assert f"imported engine from {venv.elsewhere}/engine/__init__.py" in result["detail"]
    assert result["samples"] is None


@pytest.mark.parametrize("venv", ["in front"], indirect=True)
def test_a_submodule_from_elsewhere_is_seen(site, venv):
    """The proved tree has no engine.extra; the finder of the editable install does."""
    bench = one_number("import engine.extra; print(1)", venv.python)
    result = site.launch(server=None, bench=bench)
    assert result["outcome"] == "origin-failed"
    assert f"imported engine.extra from {venv.elsewhere}/engine/extra.py" in result["detail"]


@pytest.fixture
def library():
    """A compiled module for the interpreter that runs the tests: any will do."""
    specs = [find_spec(name) for name in ("_json", "_ctypes", "_bz2", "markupsafe._speedups")]
    return Path(next(s.origin for s in specs if s is not None and (s.origin or "").endswith(".so")))


@pytest.mark.parametrize("venv", ["in front"], indirect=True)
def test_compiled_parts_may_come_from_the_environment(site, venv, library):
    shutil.copy(library, venv.elsewhere / "engine")
    name = library.name.partition(".")[0]
    result = site.launch(server=None, bench=one_number(f"import engine.{name}; print(1)", venv.python))
    assert result["outcome"] == "measured", result["detail"]
    assert str(venv.elsewhere / "engine" / library.name) in json.dumps(result["origin"]["origins"])


@pytest.mark.parametrize("own", [True, False])
def test_a_library_of_another_copy_is_seen_in_the_maps_of_the_server(site, upstream, venv, library, own):
    """It is loaded by path, past the import system; wrong only where the proved tree has its own."""
    other = venv.elsewhere / "engine" / library.name
    shutil.copy(library, other)
    tree = {"engine/load.py": f"import ctypes; ctypes.CDLL({str(other)!r})\n"}
    (upstream.folder / ".gitignore").unlink()
    commit = upstream.commit("load", tree | ({f"engine/{library.name}": library.read_bytes()} if own else {}))
    upstream.new = commit
    site.send(commit)
    site.checkout(commit)
    run = "import sys; sys.argv[0] = 'x'; import engine.load, engine.serve"
    result = site.launch(server={"argv": [sys.executable, "-c", run, "{port}"]})
    assert result["outcome"] == ("origin-failed" if own else "measured"), result["detail"]
    assert (f"mapped {other}" in result["detail"]) == own


CHILDREN = """
import multiprocessing, os, signal, sys

def work():
    import engine
    os.kill(os.getpid(), signal.SIGKILL)  # no exit handler runs

if __name__ == "__main__":
    import engine
    for way in ("fork", "spawn"):
        child = multiprocessing.get_context(way).Process(target=work)
        child.start()
        child.join()
        assert child.exitcode == -signal.SIGKILL
    print(1)
"""


def test_every_process_is_recorded_even_one_that_is_killed(site, venv):
    (site.root / "children.py").write_text(CHILDREN)
    bench = one_number("", venv.python) | {"argv": [venv.python, str(site.root / "children.py")]}
    result = site.launch(server=None, bench=bench)
    assert result["outcome"] == "measured", result["detail"]
    origins = [seen.get("engine") for seen in result["origin"]["origins"].values()]
    assert origins == [str(site.worktree / "engine/__init__.py")] * 3


@pytest.mark.parametrize(
    ("option", "code"),
    [([], "print(1)"), (["-I"], f"import sys; sys.path.insert(0, '.'); {STEP}")],
    ids=["no import", "isolated"],
)
def test_an_import_that_nobody_recorded_is_no_proof(site, venv, option, code):
    bench = one_number("", venv.python) | {"argv": [venv.python, *option, "-c", code]}
    result = site.launch(server=None, bench=bench)
    assert result["outcome"] == "origin-failed"
    assert "no process imported engine" in result["detail"]


def test_a_folder_without_code_does_not_hide_the_package(site, upstream, venv):
    """A namespace folder of that name in the import root would import as an empty package."""
    commit = upstream.commit("docs", {"docs/engine/readme.txt": "words\n"})
    upstream.new = commit
    site.send(commit)
    site.checkout(commit)
    environment = {"import_root": str(site.worktree / "docs")}
    result = site.launch(server=None, bench=one_number(STEP, venv.python), environment=environment)
    assert result["outcome"] == "origin-failed"
    assert str(venv.elsewhere) in result["detail"]


def test_a_link_within_the_tree_is_the_tree(site, upstream):
    """The import root may hold a symbolic link to the package: bytes behind it are proved as well."""
    (upstream.folder / "python").mkdir()
    (upstream.folder / "python/engine").symlink_to("../engine")
    upstream.new = upstream.commit("link")
    site.send(upstream.new)
    site.checkout(upstream.new)
    environment = {"import_root": str(site.worktree / "python")}
    result = site.launch(server=None, bench=one_number(STEP, sys.executable), environment=environment)
    assert result["outcome"] == "measured", result["detail"]


def test_the_sitecustomize_that_ours_hides_still_runs(site, venv, tmp_path):
    """In front of any that the interpreter's distributor has put behind it."""
    folder = tmp_path / "users"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text("import os; os.environ['SITE'] = '7'\n")
    code = "import engine, os; print(os.environ['SITE'])"
    inside = ["env", f"PYTHONPATH={folder}", "SITE=0"]
    result = site.launch(server=None, bench=one_number(code, venv.python), inside=inside)
    assert result["samples"]["repetitions"] == [7.0]


def test_the_versions_in_the_environment_are_recorded(site, venv):
    about = venv.packages / "engine-1.2.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: engine\nVersion: 1.2\n")
    direct = {"url": f"file://{venv.elsewhere}", "dir_info": {"editable": True}}
    (about / "direct_url.json").write_text(json.dumps(direct))
    facts = site.launch(server=None, bench=one_number(STEP, venv.python))["facts"][0]["facts"]
    assert facts["installed engine"] == f"1.2 (editable, from file://{venv.elsewhere})"
    assert facts["python of the launch"] == ".".join(map(str, sys.version_info[:3]))
