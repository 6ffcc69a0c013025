"""Whether one commit comes after another, for many commits at once."""

from collections.abc import Iterable

from bisectperf.model import Sha
from bisectperf.repo.objects import Objects


class Ancestry:
    """Answers, called with a revision and a commit, whether the one is an ancestor of the other or the same.

    None where the repository has no such revision. Commits given beforehand are answered from one walk per revision;
    any other costs a walk of its own.
    """

    def __init__(self, objects: Objects, commits: Iterable[Sha] = ()) -> None:
        self.objects = objects
        self.covered = frozenset(commits)
        self._found: dict[str, Sha | None] = {}
        self._after: dict[Sha, frozenset[str]] = {}

    def __call__(self, revision: str, sha: Sha) -> bool | None:
        """Return the answer, or None for a revision that is not there."""
        if revision not in self._found:
            self._found[revision] = self.objects.find(revision)
        start = self._found[revision]
        if start is None:
            return None
        if sha not in self.covered:
            return self.objects.is_ancestor(start, sha)
        if start not in self._after:
            self._after[start] = self._walk(start)
        return sha in self._after[start]

    def _walk(self, start: Sha) -> frozenset[str]:
        """Return the covered commits that contain `start`, and `start`."""
        stdin = "".join([f"^{start}\n", *(f"{sha}\n" for sha in self.covered)]).encode()
        out = self.objects.git("rev-list", "--ancestry-path", "--stdin", stdin=stdin)[1]
        return frozenset([start, *out.decode().split()])
