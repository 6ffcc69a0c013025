"""Import recorder: each Python process of a server writes down where it took the watched packages from.

It lies first on PYTHONPATH, so every interpreter of the server runs it, forked and spawned children too. It puts the
proved checkout first on the import path (an editable install elsewhere would win otherwise), notes each import of a
watched package at once, and then hands over to whatever sitecustomize it hid.
"""

import os
import sys


def _watch():
    packages = set(filter(None, os.environ.get("BISECTPERF_WATCH", "").split(",")))
    folder = os.environ.get("BISECTPERF_ORIGINS", "")
    root = os.environ.get("BISECTPERF_IMPORT_ROOT", "")
    if not packages or not folder:
        return

    class Recorder(object):
        """First on the meta path: looks in the proved checkout before any editable finder can answer."""

        def find_spec(self, name, path=None, target=None):
            if name not in packages:
                return None
            from importlib.machinery import PathFinder

            spec = PathFinder.find_spec(name, [root]) if root else None
            if spec is None:
                for finder in sys.meta_path:
                    if finder is not self and hasattr(finder, "find_spec"):
                        spec = finder.find_spec(name, path, target)
                        if spec is not None:
                            break
            if spec is not None:
                _note(folder, name, spec)
            return spec

    if root and root not in sys.path:
        sys.path.insert(0, root)
    sys.meta_path.insert(0, Recorder())
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=lambda: _forked(folder, packages))


def _note(folder, name, spec):
    origin = spec.origin or ",".join(list(spec.submodule_search_locations or [])[:3])
    try:
        with open(os.path.join(folder, "%d" % os.getpid()), "a") as file:
            file.write("%s\t%s\n" % (name, origin))
    except OSError:
        pass


def _forked(folder, packages):
    for name in packages:
        module = sys.modules.get(name)
        spec = getattr(module, "__spec__", None)
        if spec is not None:
            _note(folder, name, spec)


def _hand_over():
    """Run the sitecustomize that ours hides, if there is one."""
    here = os.path.dirname(os.path.abspath(__file__))
    from importlib.machinery import PathFinder

    others = [p for p in sys.path if os.path.abspath(p or ".") != here]
    spec = PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        import types

        module = types.ModuleType("sitecustomize")
        module.__spec__ = spec
        module.__file__ = spec.origin
        spec.loader.exec_module(module)


_watch()
_hand_over()
