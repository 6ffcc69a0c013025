"""Import recorder: each Python process of a launch writes down where it took the watched packages from.

It lies first on PYTHONPATH, so every interpreter of the launch runs it, forked and spawned children too. It puts the
proved checkout first on the import path (an editable install elsewhere could win otherwise), notes each import of a
watched package at once (a process that is killed leaves its note), and hands over to the sitecustomize that it hides.
It imports nothing that the interpreter has not loaded already: it must not slow down what is measured.
"""

import os
import sys
from _frozen_importlib_external import PathFinder


def _watch():
    packages = frozenset(filter(None, os.environ.get("BISECTPERF_WATCH", "").split(",")))
    folder = os.environ.get("BISECTPERF_ORIGINS", "")
    root = os.environ.get("BISECTPERF_IMPORT_ROOT", "")
    if not packages or not folder or not root:
        return
    if root not in sys.path:
        sys.path.insert(0, root)
    sys.meta_path.insert(0, _Recorder(packages, folder, root))
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=lambda: _forked(folder, packages))


class _Recorder(object):
    """First on the meta path: it looks in the proved checkout before any finder of an editable install can answer."""

    def __init__(self, packages, folder, root):
        self.packages, self.folder, self.root = packages, folder, root

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in self.packages:
            return None
        if "." not in name:
            spec = PathFinder.find_spec(name, [self.root])
            # A folder without __init__.py is a package only where no real one is to be found.
            if spec is None or spec.origin is None or spec.loader is None:
                spec = self.elsewhere(name, path, target)
            _note(self.folder, name, spec)
            return spec
        spec = PathFinder.find_spec(name, path, target) or self.elsewhere(name, path, target)
        if spec is not None and spec.origin and not spec.origin.startswith(self.root + os.sep):
            _note(self.folder, name, spec)
        return spec

    def elsewhere(self, name, path, target):
        """Return what the other finders answer."""
        for finder in sys.meta_path:
            spec = (
                finder.find_spec(name, path, target) if finder is not self and hasattr(finder, "find_spec") else None
            )
            if spec is not None:
                return spec
        return None


def _note(folder, name, spec):
    if spec is None:
        return
    origin = spec.origin or os.pathsep.join(list(spec.submodule_search_locations or []))
    try:
        with open(os.path.join(folder, "%d" % os.getpid()), "a") as file:
            file.write("%s\t%s\n" % (name, origin))
    except OSError:
        pass  # what was not noted is missing from the evidence, which fails the launch


def _forked(folder, packages):
    """Note what a forked process has inherited."""
    for name in packages:
        spec = getattr(sys.modules.get(name), "__spec__", None)
        if spec is not None:
            _note(folder, name, spec)


def _hand_over():
    """Run the sitecustomize that ours hides, if there is one."""
    here = os.path.dirname(os.path.abspath(__file__))
    spec = PathFinder.find_spec("sitecustomize", [p for p in sys.path if os.path.abspath(p or ".") != here])
    if spec is not None and spec.loader is not None:
        module = type(sys)("sitecustomize")
        module.__spec__, module.__file__ = spec, spec.origin
        spec.loader.exec_module(module)


_watch()
_hand_over()
