"""The stack: commit -> the tree that is measured, or why there is none. Thousands of commits at a time."""

import hashlib
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from bisectperf.errors import UserError
from bisectperf.model import Sha, TreeId
from bisectperf.patches.claims import Claims
from bisectperf.patches.outcome import Composed, Problem
from bisectperf.patches.pairs import Range
from bisectperf.patches.sources import Change, read_source
from bisectperf.recipe.schema import Assertion, Patch, Source
from bisectperf.repo import Edits, Store

_FULL_ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
OWN = 0
"""Number of a patch's own source; its variants are 1, 2, ..."""


class _Work(msgspec.Struct):
    """A commit on its way: the tree so far, and the commits that decide which ranges it lies in."""

    commit: Sha
    within: tuple[Sha, ...]
    tree: TreeId
    applied: list[tuple[str, str]] = msgspec.field(default_factory=list)
    failed: Problem | None = None
    untried: list[int] = msgspec.field(default_factory=list)
    """Numbers of the sources of the patch in hand that may still go on."""


class Stack:
    """Ordered patches over one range. `reached(revision, sha)` answers ancestry; None: not in the repository."""

    def __init__(
        self,
        store: Store,
        folder: Path,
        patches: Sequence[Patch],
        *,
        good: Sha,
        line: Sequence[Sha],
        reached: Callable[[str, Sha], bool | None],
    ) -> None:
        self.store = store
        self.folder = folder
        self.patches = tuple(patches)
        self.range = Range(good, tuple(line))
        self.reached = reached
        self._claims = Claims(store)
        self._changes: dict[tuple[str, int], Change] = {}

    @property
    def digest(self) -> str:
        """Return the digest of the stack's description."""
        return hashlib.sha256(msgspec.json.encode(self.patches, order="sorted")).hexdigest()

    # -- composing ---------------------------------------------------------------------------------------------

    def compose(self, sha: Sha, onto: Sha | None = None) -> Composed:
        """Return `sha` (merged into `onto`, where given) with every patch that belongs there."""
        return self.compose_many([sha], onto)[0]

    def compose_many(self, shas: Sequence[Sha], onto: Sha | None = None) -> list[Composed]:
        """Return each commit (merged into `onto`, where given) with every patch that belongs there.

        Raises `UserError` for a patch that could be applied nowhere, or whose range names what is not there.
        """
        commits = self.store.read_commits(shas)
        if onto is None:
            return self._run([_Work(c.sha, (c.sha,), c.tree) for c in commits])
        works = [_Work(c.sha, (c.sha, onto), c.tree) for c in commits]
        for work in works:
            work.tree, conflicts = self.store.merge(onto, work.commit)
            if conflicts:
                work.failed = Problem(kind="merge", where=", ".join(conflicts[:3]))
        return self._run(works)

    def revert(self, sha: Sha, onto: Sha) -> Composed:
        """Return `onto` without what `sha` changed against its first parent, with every patch that belongs there."""
        commit = self.store.commit(sha)
        if not commit.parents:
            raise UserError(
                f"{sha[:12]} is the first commit: there is nothing to go back to", hint="name a later one"
            )
        parent = self.store.commit(commit.parents[0])
        tree, conflicts = self.store.merge_trees(commit.tree, self.store.commit(onto).tree, parent.tree)
        work = _Work(onto, (onto,), tree)
        if conflicts:
            work.failed = Problem(kind="revert", where=", ".join(conflicts[:3]))
        return self._run([work])[0]

    def commit_of(self, tree: TreeId) -> Sha:
        """Return the commit that carries `tree` to a host, kept from pruning; always the same one.

        It has no parents: a host needs the code that is measured, not the history before it.
        """
        manifest = json.dumps({"bisectperf": 1, "stack": self.digest, "tree": tree}, sort_keys=True)
        commit = self.store.commit_tree(tree, message=manifest)
        self.store.keep(f"tree/{commit}", commit)
        return commit

    def assertions(self, patch: Patch) -> tuple[Assertion, ...]:
        """Return what must hold once `patch` is on: its own assertions, else those derived from its sources."""
        if patch.assertions:
            return patch.assertions
        found = [claim for number, _ in _sources(patch) for claim in self._change(patch, number).claims]
        return tuple(dict.fromkeys(found))

    # -- one patch ---------------------------------------------------------------------------------------------

    def _run(self, works: Sequence[_Work]) -> list[Composed]:
        for patch in self.patches:
            self._patch(patch, [work for work in works if work.failed is None])
        return [
            Composed(
                commit=work.commit,
                tree=None if work.failed else work.tree,
                applied=tuple(work.applied),
                failed=work.failed,
            )
            for work in works
        ]

    def _patch(self, patch: Patch, works: Sequence[_Work]) -> None:
        """Put `patch` on each of `works`: from the first of its sources that goes on and proves itself."""
        upstream = []
        for work in works:
            if patch.upstream_since and self._at(patch, patch.upstream_since, work):
                upstream.append(work)
                continue
            work.untried = [number for number, source in _sources(patch) if self._in_range(patch, source, work)]
            if not work.untried:
                work.applied.append((patch.name, "not in range"))
        if upstream:
            self._settle(patch, upstream, "upstream", self.assertions(patch))
        pending = [work for work in works if work.untried]
        while pending:
            by_source: dict[int, list[_Work]] = {}
            for work in pending:
                by_source.setdefault(work.untried.pop(0), []).append(work)
            for number, group in by_source.items():
                self._apply(patch, number, group)
            pending = [work for work in pending if work.failed and work.untried]
        for work in works:
            work.untried = []

    def _apply(self, patch: Patch, number: int, works: Sequence[_Work]) -> None:
        """Try one source on `works`; a work that it fails on keeps its first failure."""
        change = self._change(patch, number)
        claims = patch.assertions or change.claims
        changed: list[tuple[_Work, Edits, str]] = []
        unchanged: list[tuple[_Work, str]] = []
        for work, outcome in zip(works, change.apply([work.tree for work in works]), strict=True):
            if isinstance(outcome, Problem):
                work.failed = work.failed or outcome
            elif outcome[0]:
                changed.append((work, *outcome))
            else:
                unchanged.append((work, outcome[1]))
        trees = self.store.edit([(work.tree, edits) for work, edits, _ in changed])
        how = "applied" if number == OWN else f"variant {number}"
        self._settle(
            patch,
            [work for work, _, _ in changed],
            how,
            claims,
            trees=trees,
            said=[said for _, _, said in changed],
        )
        self._settle_unchanged(patch, unchanged, claims)

    def _settle(
        self,
        patch: Patch,
        works: Sequence[_Work],
        how: str,
        claims: Sequence[Assertion],
        *,
        trees: Sequence[TreeId] | None = None,
        said: Sequence[str] | None = None,
    ) -> None:
        """Give each work its new tree (default: the one it has) if the assertions hold on it, else the failure."""
        trees = trees if trees is not None else [work.tree for work in works]
        words = said if said is not None else [""] * len(works)
        broken = self._claims.broken(trees, claims)
        for work, tree, wrong, spoken in zip(works, trees, broken, words, strict=True):
            if wrong:
                work.failed = work.failed or Problem(kind="assertion", patch=patch.name, where=wrong, said=spoken)
            else:
                work.tree, work.failed = tree, None
                work.applied.append((patch.name, how))

    def _settle_unchanged(
        self, patch: Patch, works: Sequence[tuple[_Work, str]], claims: Sequence[Assertion]
    ) -> None:
        """Decide on a patch that changes nothing here: upstream has it only if that is proved and was expected."""
        broken = self._claims.broken([work.tree for work, _ in works], claims)
        for (work, said), wrong in zip(works, broken, strict=True):
            if not wrong and patch.may_be_upstream:
                work.failed = None
                work.applied.append((patch.name, "upstream"))
                continue
            where = wrong or "all that it does is there already, and the recipe does not say `may_be_upstream`"
            work.failed = work.failed or Problem(kind="unchanged", patch=patch.name, where=where, said=said)

    def _change(self, patch: Patch, number: int) -> Change:
        key = (patch.name, number)
        if key not in self._changes:
            source = dict(_sources(patch))[number]
            self._changes[key] = read_source(self.store, self.folder, patch, source, self.range)
        return self._changes[key]

    # -- ranges ------------------------------------------------------------------------------------------------

    def _in_range(self, patch: Patch, source: Source, work: _Work) -> bool:
        # A variant that names no range of its own has the patch's.
        bounds = source if source.since or source.until else patch
        if bounds.since and not self._at(patch, bounds.since, work):
            return False
        return not (bounds.until and self._at(patch, bounds.until, work))

    def _at(self, patch: Patch, revision: str, work: _Work) -> bool:
        answers = [self.reached(revision, sha) for sha in work.within]
        if None not in answers:
            return any(answers)
        if _FULL_ID.fullmatch(revision):
            return False  # a history that is complete contains every ancestor of its commits
        raise UserError(
            f"patch '{patch.name}' names the commit {revision}, which this repository does not have",
            hint="fetch it, correct it, or give all 40 digits if it is newer than this clone",
        )


def _sources(patch: Patch) -> list[tuple[int, Source]]:
    """Return the patch's sources with their numbers, as they are tried: ranged variants, its own, other variants."""
    variants = list(enumerate(patch.variants, start=1))
    own: list[tuple[int, Source]] = [(OWN, patch)] if patch.diff or patch.overlay or patch.script else []
    ranged = [(n, v) for n, v in variants if v.since or v.until]
    return [*ranged, *own, *((n, v) for n, v in variants if not (v.since or v.until))]
