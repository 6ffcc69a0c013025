"""Bytecode of another commit: Python may take it for that of the present one."""

import hashlib
import os
import shutil


def fresh_bytecode(prefix, worktree, tree):
    """Remove the bytecode that was compiled from another tree in this worktree.

    Python trusts bytecode whose source has the same size and the same second of change: a switch between two commits
    within one second ran the old code. Bytecode of the interpreter's own library and packages stays.
    """
    stamp = os.path.join(prefix, "trees", hashlib.sha256(os.fsencode(worktree)).hexdigest()[:20])
    try:
        with open(stamp) as file:
            if file.read() == tree:
                return
    except OSError:
        pass
    shutil.rmtree(os.path.join(prefix, worktree.lstrip(os.sep)), ignore_errors=True)
    os.makedirs(os.path.dirname(stamp), mode=0o700, exist_ok=True)
    with open(stamp, "w") as file:
        file.write(tree)
