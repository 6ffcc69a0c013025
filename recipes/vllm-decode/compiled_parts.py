"""Copy the compiled extensions of an installed package into a checkout of it: compiled_parts.py PACKAGE CHECKOUT.

Where the installed package lies is asked without importing it. Standard library only, Python >= 3.8.
"""

import importlib.util
import os
import shutil
import sys


def main(package, checkout):
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.origin:
        sys.exit("%s is not installed for %s" % (package, sys.executable))
    installed, copied = os.path.dirname(spec.origin), 0
    for folder, _, names in os.walk(installed):
        for name in names:
            if name.endswith(".so"):
                target = os.path.join(checkout, package, os.path.relpath(folder, installed), name)
                os.makedirs(os.path.dirname(target), exist_ok=True)
                shutil.copyfile(os.path.join(folder, name), target)
                copied += 1
    if not copied:
        sys.exit("%s has no compiled extension" % installed)
    print("%d compiled extensions from %s" % (copied, installed))


if __name__ == "__main__":
    main(*sys.argv[1:])
