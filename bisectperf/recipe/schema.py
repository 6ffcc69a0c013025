"""The recipe's shape: what a `recipe.toml` may say, with every default.

A recipe is data. Strings in `argv`, `env` and paths may use `{name}` for a parameter, and these names that the
driver fills in on the host: `{worktree}` (the proved checkout), `{recipe}` (the folder with the copied files),
`{job}` (an empty folder of this launch), `{build}` (the build's own folder), `{cache}` (a folder that all launches
share, for compile caches), `{port}`, `{python}`, `{warmup}`, `{repetitions}`, `{seed}`. Durations are seconds.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from bisectperf.model import Metric

Seconds = Annotated[float, Meta(gt=0)]
Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._-]*$", max_length=64)]
Argv = Annotated[tuple[str, ...], Meta(min_length=1)]


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Base of every table in a recipe: unknown keys are errors."""


class Repository(Section, frozen=True, kw_only=True):
    """Where the history is: a local path, or `host:path` for one that lives only on the host."""

    path: str = "."
    code: tuple[str, ...] = ()
    """Paths whose content can matter to the metric (empty: all of them); commits that leave them equal are one."""
    pins: tuple[str, ...] = ()
    """Files that pin dependencies; always among the code paths."""
    submodules: bool = False


class Host(Section, frozen=True, kw_only=True):
    """Where it runs: this machine when neither `ssh` nor `container` is given."""

    ssh: str = ""
    ssh_config: str = ""
    """Another configuration file than the user's own, as `ssh -F` takes it."""
    container: str = ""
    engine: Literal["docker", "podman"] = "docker"
    work_dir: str = ""
    """Folder for everything of ours; default `$XDG_CACHE_HOME/bisectperf` on the host."""
    cache_gb: Annotated[float, Meta(gt=0)] = 100.0
    """Builds take at most so many gigabytes there; those used longest ago go first, those of the ends never."""
    prologue: str = ""
    """Shell lines run before every build and launch (`source activate`, modules)."""


class Assertion(Section, frozen=True, kw_only=True):
    """One claim about the patched tree; exactly one of `symbol`, `text`, `sha256` is given."""

    file: str
    symbol: str = ""
    """`Class.method`, `function` or `Class`: defined exactly `count` times in `file`, by Python's own parser."""
    count: Annotated[int, Meta(ge=0)] = 1
    text: str = ""
    present: bool = True
    sha256: str = ""


class Source(Section, frozen=True, kw_only=True):
    """What changes the tree; exactly one of `diff`, `overlay`, `script` is given, relative to the recipe."""

    diff: str = ""
    overlay: str = ""
    script: tuple[str, ...] = ()
    base: str = ""
    """The revision that a plain diff (or an overlay) was made on, where the file itself does not say."""
    since: str = ""
    """First commit (by ancestry) to which it applies."""
    until: str = ""
    """First commit (by ancestry) to which it applies no more."""


class Patch(Source, frozen=True, kw_only=True):
    """One out-of-tree patch: its own source, or variants for parts of the range, and what must hold after it."""

    name: Name
    variants: tuple[Source, ...] = msgspec.field(name="variant", default=())
    upstream_since: str = ""
    """From this commit on upstream has it: not applied, its assertions still checked."""
    may_be_upstream: bool = False
    assertions: tuple[Assertion, ...] = msgspec.field(name="assert", default=())
    timeout: Seconds = 60.0


class Environment(Section, frozen=True, kw_only=True):
    """Which Python the measured code runs under, and from where its packages may be imported."""

    policy: Literal["overlay", "own", "none"] = "none"
    python: str = "python3"
    import_root: str = "."
    """Folder of the worktree that comes first on the import path."""
    packages: tuple[str, ...] = ()
    """Packages that must be imported from the worktree by every process that serves."""
    requirements: tuple[str, ...] = ()
    """Policy `own`: arguments to `pip install` for the environment made per build key."""
    pins: Literal["follow", "frozen"] = "frozen"


class Rule(Section, frozen=True, kw_only=True):
    """Arguments and variables for the part of the history from `since` up to, not including, `until`."""

    argv: tuple[str, ...] = ()
    env: dict[str, str] = msgspec.field(default_factory=dict)
    since: str = ""
    until: str = ""
    missing: Literal["error", "before", "after"] = "error"
    """How to read a `since` or `until` that this repository lacks."""


class BuildSteps(Section, frozen=True, kw_only=True):
    """How a checkout becomes something to launch; no commands means nothing to build."""

    commands: tuple[Argv, ...] = ()
    env: dict[str, str] = msgspec.field(default_factory=dict)
    depends: tuple[str, ...] = ()
    """Paths that the build's result depends on (empty: the whole tree)."""
    artifacts: tuple[str, ...] = ()
    """Ignored paths (globs) that the build may leave in the worktree; any other extra file fails the proof."""
    timeout: Seconds = 3600.0


class Ready(Section, frozen=True, kw_only=True):
    """When a server counts as started; exactly one of `http`, `log`, `command` is given."""

    http: str = ""
    log: str = ""
    command: tuple[str, ...] = ()
    timeout: Seconds = 600.0


class Launch(Section, frozen=True, kw_only=True):
    """The server that is started for each launch."""

    argv: Argv
    env: dict[str, str] = msgspec.field(default_factory=dict)
    rules: tuple[Rule, ...] = msgspec.field(name="rule", default=())
    ready: Ready
    grace: Seconds = 20.0
    """Time between SIGTERM and SIGKILL when it is stopped."""


class Bench(Section, frozen=True, kw_only=True):
    """The fixed benchmark; with `regex` or `path` the command runs once per repetition and prints one number."""

    argv: Argv
    env: dict[str, str] = msgspec.field(default_factory=dict)
    rules: tuple[Rule, ...] = msgspec.field(name="rule", default=())
    regex: str = ""
    """First group is the number."""
    path: str = ""
    """Dotted path to the number in the command's JSON output."""
    timeout: Seconds = 1800.0
    cwd: str = "{worktree}"


class Guard(Section, frozen=True, kw_only=True):
    """A question whether a launch is *valid*; a failed one voids the launch and never says anything on speed."""

    name: Name
    log_absent: str = ""
    """Regex that must not appear in the server's log while the benchmark runs."""
    minimum: float | None = None
    maximum: float | None = None
    """Bounds on the median of the secondary metric of this name."""


Share = Annotated[float, Meta(ge=0, le=1)]
Throttle = Literal[
    "power cap", "hardware slowdown", "sync boost", "software thermal", "hardware thermal", "power brake"
]


class Gate(Section, frozen=True, kw_only=True):
    """Whether the host is fit: a launch waits until it is, and one during which it was not is void.

    Limits "of the ends" are what the first launches of both ends saw.
    """

    enabled: bool = True
    wait: Seconds = 1800.0
    """How long a launch waits for the host before it is void and planned anew."""
    devices: tuple[str, ...] = ()
    """GPUs by index or uuid; empty: those in the server's `CUDA_VISIBLE_DEVICES`, else all of them."""
    ignore: tuple[str, ...] = ()
    """Names of programs (globs) that may be on the GPU."""
    memory_mib: Annotated[float, Meta(ge=0)] = 1024.0
    """Memory that may be in use on a GPU before the launch, whoever holds it; never 512 MiB more than at the ends."""
    throttle: tuple[Throttle, ...] = ("hardware slowdown", "software thermal", "hardware thermal", "power brake")
    """Reasons for lower clocks that void a launch; a power cap is how many GPUs run at full load."""
    clock_band: Share = 0.05
    """How far the GPU's clock at the benchmark's end may lie beyond those of the ends."""
    temperature_band: Annotated[float, Meta(ge=0)] = 10.0
    """How many degrees the GPU's temperature may lie beyond those of the ends."""
    cpu_busy: Share = 0.5
    """Share of the host's CPUs that others may keep busy; 1: not asked."""
    disk_free_gib: Annotated[float, Meta(ge=0)] = 1.0
    clock_step: Seconds = 1.0
    """Seconds by which the host's clock may move against its steady one during a launch."""


class Notify(Section, frozen=True, kw_only=True):
    """How to tell the owner that a run has its verdict, has stopped, or needs them."""

    urls_from: tuple[str, ...] = ()
    """Variables of the environment that hold apprise addresses; the addresses themselves are written nowhere."""
    command: tuple[str, ...] = ()
    """A command here that gets two more words: a title and a text (which is on its standard input too)."""
    on: tuple[Literal["verdict", "stop", "needs-you"], ...] = ("verdict", "stop", "needs-you")


class Recipe(Section, frozen=True, kw_only=True):
    """All of `recipe.toml`."""

    name: Name
    about: str = ""
    repo: Repository = msgspec.field(default_factory=Repository)
    host: Host = msgspec.field(default_factory=Host)
    params: dict[str, str | int | float | bool] = msgspec.field(default_factory=dict)
    env_from: tuple[str, ...] = ()
    """Variables passed through from the controller's environment, never stored."""
    secrets: tuple[str, ...] = ()
    """More variables whose values are masked wherever they turn up; names such as `..._TOKEN` are known."""
    notify: Notify = msgspec.field(default_factory=Notify)
    patches: tuple[Patch, ...] = msgspec.field(name="patch", default=())
    environment: Environment = msgspec.field(default_factory=Environment)
    build: BuildSteps = msgspec.field(default_factory=BuildSteps)
    launch: Launch | None = None
    bench: Bench
    metric: Metric
    secondary: tuple[Name, ...] = ()
    guards: tuple[Guard, ...] = msgspec.field(name="guard", default=())
    gate: Gate = msgspec.field(default_factory=Gate)
    configuration: tuple[str, ...] = ()
    """Files on the host (globs) whose digests belong to its snapshot: tuned tables, model configuration."""
    facts: tuple[Argv, ...] = ()
    """Commands whose output is recorded with each launch."""
    warmup: Annotated[int, Meta(ge=0)] = 1
    repetitions: Annotated[int, Meta(ge=1)] = 5
    files: tuple[str, ...] = ()
    """Files beside the recipe (or in `common/`) that are copied to the host; they are part of the digest."""
