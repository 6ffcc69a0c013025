"""Git on the controller: the user's repository, read only, and an object store of our own.

The only room that touches GitPython. Nothing here writes to the user's repository.
"""

from bisectperf.repo.ancestry import Ancestry
from bisectperf.repo.mirror import mirror
from bisectperf.repo.objects import Commit, Entry, Objects, require_order
from bisectperf.repo.plumbing import GitError, plumb
from bisectperf.repo.repository import Repository, remote_state_folder
from bisectperf.repo.store import Edits, Index, Store

__all__ = [
    "Ancestry",
    "Commit",
    "Edits",
    "Entry",
    "GitError",
    "Index",
    "Objects",
    "Repository",
    "Store",
    "mirror",
    "plumb",
    "remote_state_folder",
    "require_order",
]
