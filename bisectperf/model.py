"""The nouns: frozen values without behaviour beyond what their fields imply."""

from typing import Literal, NewType

import msgspec

Sha = NewType("Sha", str)
"""A full commit id."""
TreeId = NewType("TreeId", str)
"""The id of a git tree: with patches composed in, the identity of what is measured."""
LaunchId = NewType("LaunchId", str)
BuildKey = NewType("BuildKey", str)
HostName = NewType("HostName", str)
Better = Literal["higher", "lower"]


class Noun(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of everything that is written to the journal or read from a recipe."""


class Metric(Noun, frozen=True, kw_only=True):
    """What is measured: `smallest_effect` is the fraction (0.03 = 3 %) below which a change is not worth a night."""

    name: str
    unit: str
    better: Better
    smallest_effect: float = 0.03
    center: Literal["median", "trimmed", "upper-quartile", "minimum"] = "median"


class Position(Noun, frozen=True, kw_only=True):
    """One place on the searched line: all neighbouring commits whose code is the same after patching.

    `commits[0]` introduced the code, so it is the one that is named; `onto` is set inside a merge, where the
    tree is `commits[0]` merged into `onto`. `tree` is the patched tree, or None with `untestable` saying why.
    """

    commits: tuple[Sha, ...]
    tree: TreeId | None
    subject: str = ""
    onto: Sha | None = None
    parents: tuple[Sha, ...] = ()
    untestable: str = ""
    weight: float = 1.0

    @property
    def sha(self) -> Sha:
        """Return the commit that introduced this code."""
        return self.commits[0]


class Line(Noun, frozen=True, kw_only=True):
    """Positions from the good end (index 0) to the bad end; `inside` names the merge that it lies within."""

    positions: tuple[Position, ...]
    inside: Sha | None = None


class Baseline(Noun, frozen=True, kw_only=True):
    """What the good end once gave: log values of its launches (larger is slower), and the host's snapshot then."""

    name: str
    values: tuple[float, ...]
    snapshot: dict[str, str] = msgspec.field(default_factory=dict)


class Plan(Noun, frozen=True, kw_only=True):
    """What was asked for, fixed when the bisection starts."""

    mode: Literal["bisect", "compare"]
    good: Sha
    bad: Sha
    metric: Metric
    recipe: str
    recipe_digest: str
    repetitions: int
    warmup: int
    seed: int
    confidence: float = 0.99
    hosts: tuple[HostName, ...] = (HostName("local"),)
    max_launches: int = 1000
    build_seconds: float = 60.0
    launch_seconds: float = 60.0
    baseline: Baseline | None = None
    search_anyway: bool = False


class Limits(Noun, frozen=True, kw_only=True):
    """What one sitting may cost: until when (seconds since the epoch), and up to how many launches of the run."""

    until: float | None = None
    launches: int | None = None


class Samples(Noun, frozen=True, kw_only=True):
    """What one launch gave: the primary metric per repetition after warm-up, in the metric's own unit."""

    repetitions: tuple[float, ...]
    warmup: tuple[float, ...] = ()
    secondary: dict[str, tuple[float, ...]] = msgspec.field(default_factory=dict)
    findings: tuple[str, ...] = ()
    output_digest: str = ""


class TreeProof(Noun, frozen=True, kw_only=True):
    """The bytes on the host held against the tree that was meant; `problems` is empty when they agree."""

    expected: TreeId
    found: TreeId | None
    files: int
    when: Literal["before", "after"]
    at: float
    problems: tuple[str, ...] = ()


class OriginProof(Noun, frozen=True, kw_only=True):
    """Where the processes that served took their code from: pid -> package -> origin."""

    root: str
    origins: dict[str, dict[str, str]]
    problems: tuple[str, ...] = ()


class HostFacts(Noun, frozen=True, kw_only=True):
    """What the host was at one moment; whatever could not be asked is absent."""

    at: float
    facts: dict[str, str | float | list[str]]


class Build(Noun, frozen=True, kw_only=True):
    """One build: `key` covers patched tree (what the build depends on), build recipe and toolchain."""

    key: BuildKey
    tree: TreeId
    seconds: float
    path: str
    cached: bool = False


class Effect(Noun, frozen=True, kw_only=True):
    """A ratio of two groups as a log: `value` > 0 is slower; `low` and `high` bound it with `level` probability."""

    value: float
    low: float
    high: float
    level: float = 0.95


# -- verdicts -------------------------------------------------------------------------------------------------


class Verdict(Noun, frozen=True, kw_only=True, tag_field="verdict"):
    """Base of all verdicts: `launches` counted, `assumed` in words."""

    launches: int
    assumed: tuple[str, ...] = ()


class FirstBad(Verdict, frozen=True, kw_only=True, tag="first-bad"):
    """One commit carries the change."""

    sha: Sha
    parent: Sha
    posterior: float
    effect: Effect
    share: float | None = None


class FirstBadAmong(Verdict, frozen=True, kw_only=True, tag="first-bad-among"):
    """One of these commits carries it; `why` says what could not part them."""

    commits: tuple[Sha, ...]
    posterior: float
    effect: Effect
    why: Literal["untestable", "evidence"]
    untestable: dict[Sha, str] = msgspec.field(default_factory=dict)


class SeveralChanges(Verdict, frozen=True, kw_only=True, tag="several-changes"):
    """More than one commit changed the level: each step with its share of the whole gap."""

    steps: tuple[FirstBad | FirstBadAmong, ...]
    whole: Effect
    unexplained: Effect | None = None


class NotReproduced(Verdict, frozen=True, kw_only=True, tag="not-reproduced"):
    """The endpoints do not differ today by more than `largest` (a fraction, 95 %)."""

    posterior: float
    largest: float
    effect: Effect


class EnvironmentChanged(Verdict, frozen=True, kw_only=True, tag="environment-changed"):
    """The good end is slower today than it was known to be: `was` and `now` in the metric's unit."""

    was: float
    now: float
    effect: Effect
    differences: tuple[str, ...] = ()


class Inconclusive(Verdict, frozen=True, kw_only=True, tag="inconclusive"):
    """No answer: `why`, with what is left (commit -> probability) and what it would cost in seconds."""

    why: str
    left: dict[Sha, float] = msgspec.field(default_factory=dict)
    none: float = 0.0
    cost_seconds: float | None = None


class Faster(Verdict, frozen=True, kw_only=True, tag="faster"):
    """The bad end measures faster than the good end: the question is the wrong way round."""

    effect: Effect


class Compared(Verdict, frozen=True, kw_only=True, tag="compared"):
    """Two revisions, interleaved: `answer` is yes (slower), no (inside the smallest effect) or undecided."""

    a: Sha
    b: Sha
    answer: Literal["yes", "no", "undecided", "faster"]
    effect: Effect
    between_sd: float
    within_sd: float


AnyVerdict = (
    FirstBad | FirstBadAmong | SeveralChanges | NotReproduced | EnvironmentChanged | Inconclusive | Faster | Compared
)
