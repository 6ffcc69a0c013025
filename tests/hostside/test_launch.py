"""One launch, with a real server: what comes out when it goes well, and what when it does not."""

import itertools
import os
import re
import shutil
import socket
import sys
from pathlib import Path

import msgspec
import pytest

from bisectperf.model import HostFacts, OriginProof, Samples, TreeProof

PYTHON = shutil.which("python3", path="/usr/bin:/bin") or sys.executable
PIN = {"packages": [], "import_root": ""}


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_a_launch_that_goes_well(site, upstream):
    result = site.launch(server={"env": {"ANSWER": "at {port}"}, "expect_env": {"ANSWER": "at {port}"}})
    assert result["outcome"] == "measured", result["detail"]
    samples = msgspec.convert(result["samples"], Samples, strict=True)
    assert samples == Samples(
        repetitions=(100.5, 100.5),
        warmup=(100.5,),
        secondary={"acceptance": (2.5, 2.5)},
        findings=("cold",),
        output_digest="abc",
    )
    proofs = msgspec.convert(result["proofs"], list[TreeProof])
    assert [(p.when, p.found, p.problems) for p in proofs] == [
        ("before", site.tree_of(upstream.new), ()),
        ("after", site.tree_of(upstream.new), ()),
    ]
    origin = msgspec.convert(result["origin"], OriginProof)
    assert {o for seen in origin.origins.values() for o in seen.values()} == {
        str(site.worktree / "engine/__init__.py")
    }
    before, after = msgspec.convert(result["facts"], list[HostFacts])
    assert before.at < after.at
    assert before.facts["kernel"] == os.uname().release
    assert "python of the launch" in before.facts
    assert set(result["seconds"]) == {"checkout", "prove", "ready", "bench", "stop"}
    assert proofs[0].at < result["bench_middle"] < proofs[1].at


def test_a_command_that_is_measured_itself(site):
    """Without a server the benchmark is what is measured: its imports are recorded, its numbers read one by one."""
    code = "import engine; print('took', engine.step(41), 'ms')"
    bench = {"argv": [PYTHON, "-c", code], "regex": r"took (\d+)", "warmup": 1, "repetitions": 3}
    result = site.launch(server=None, bench=bench)
    assert result["outcome"] == "measured", result["detail"]
    assert result["samples"]["warmup"] == [43.0]
    assert result["samples"]["repetitions"] == [43.0] * 3
    assert len(result["origin"]["origins"]) == 4


def test_a_number_by_path(site):
    bench = {"argv": ["echo", '{"a": [{"b": 7}]}'], "path": "a.0.b", "warmup": 0, "repetitions": 1}
    result = site.launch(server=None, bench=bench, environment=PIN)
    assert result["samples"]["repetitions"] == [7.0]


def test_the_prologue_runs_before_the_server(site):
    result = site.launch(prologue="export MODE=sick", server={"ready": ready("log", "^up$")}, bench={"env": {}})
    assert result["outcome"] == "bench-failed"  # the server answers 503, as the prologue told it to


def ready(kind, value, timeout=60.0):
    return {"http": "", "log": "", "command": [], "timeout": timeout} | {kind: value}


@pytest.mark.parametrize(
    "ways",
    [
        ready("http", "http://127.0.0.1:{port}/health"),
        ready("log", "^up$"),
        ready("command", [PYTHON, "-c", "import socket, sys; socket.create_connection(('127.0.0.1', {port}))"]),
    ],
    ids=["http", "log", "command"],
)
def test_ready(site, ways):
    bench = {"argv": ["echo", '{"repetitions": [{"speed": 1}]}']}
    assert site.launch(server={"ready": ways}, bench=bench)["outcome"] == "measured"


def test_a_server_that_answers_503_is_not_ready(site):
    ways = ready("http", "http://127.0.0.1:{port}/health", timeout=1.0)
    result = site.launch(server={"env": {"MODE": "sick"}, "ready": ways})
    assert result["outcome"] == "not-ready"
    assert "request /health" in result["tail"]
    assert result["proofs"][-1]["when"] == "after"


def test_a_server_that_accepts_and_never_answers_is_not_ready(site):
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        result = site.launch(server={"ready": ready("http", url, timeout=1.0)})
    assert result["outcome"] == "not-ready"


def test_a_server_that_dies_is_noticed_at_once_with_its_words(site):
    """The time limit of an hour is the witness: nothing waits for it."""
    ways = ready("http", "http://127.0.0.1:{port}/health", timeout=3600.0)
    result = site.launch(server={"env": {"MODE": "dies"}, "ready": ways})
    assert result["outcome"] == "server-died"
    assert result["detail"] == "the server ended with status 1 before it was ready"
    assert "no such device" in result["tail"]
    assert result["samples"] is None


def test_a_server_that_dies_under_a_benchmark_that_goes_on_waiting(site):
    code = "try: urllib.request.urlopen(os.environ['URL'] + '/die')\nexcept OSError: time.sleep(3600)"
    bench = {"argv": [PYTHON, "-c", "import os, time, urllib.request\n" + code], "timeout": 3600.0}
    result = site.launch(bench=bench)
    assert result["outcome"] == "server-died"
    assert result["detail"] == "the server ended during the benchmark"


def test_a_program_that_is_not_there(site):
    result = site.launch(server={"argv": ["/no/such/server"]})
    assert result["outcome"] == "server-died"
    assert "/no/such/server" in result["detail"]
    result = site.launch(server=None, bench={"argv": ["/no/such/bench"]})
    assert result["outcome"] == "bench-failed"


@pytest.mark.parametrize("mode", ["stubborn", "strays", "forks"])
def test_nothing_outlives_the_launch(site, mode):
    result = site.launch(server={"env": {"MODE": mode}, "grace": 0.5})
    assert result["outcome"] == "measured", result["detail"]
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("127.0.0.1", result["port"]))
    log = (site.job / "server.log").read_text().split()
    assert not [pid for word, pid in itertools.pairwise(log) if word == "stray" and is_alive(pid)]
    assert not [p for p in Path("/proc").glob("[0-9]*/environ") if carries(p, site.job.name)]


def carries(path, job):
    try:
        return f"BISECTPERF_JOB={job}".encode() in path.read_bytes().split(b"\0")
    except OSError:
        return False


def test_a_port_that_somebody_else_serves_is_refused(site):
    """Or else their server would be measured."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        result = site.launch(port=port)
    assert result["outcome"] == "leftover"
    assert str(port) in result["detail"]


def test_a_benchmark_that_fails(site):
    bench = {"argv": [PYTHON, "-c", "import sys; sys.exit('model not loaded')"]}
    result = site.launch(server=None, bench=bench, environment=PIN)
    assert result["outcome"] == "bench-failed"
    assert result["detail"] == "the benchmark ended with status 1: model not loaded"


def test_a_benchmark_that_takes_too_long_is_ended(site):
    result = site.launch(server=None, bench={"argv": ["sleep", "600"], "timeout": 0.3}, environment=PIN)
    assert result["outcome"] == "bench-timeout"


@pytest.mark.parametrize(
    "said",
    [
        "no JSON here",
        "[]",
        '{"repetitions": []}',
        '{"repetitions": [{"other": 1}]}',
        '{"repetitions": [{"speed": 0}]}',
        '{"repetitions": [{"speed": NaN}]}',
        '{"repetitions": [{"speed": null}]}',
        '{"repetitions": 5}',
    ],
)
def test_output_that_is_no_measurement(site, said):
    result = site.launch(server=None, bench={"argv": ["echo", said]}, environment=PIN)
    assert result["outcome"] == "wrong-output"
    assert result["samples"] is None


GUARDS = {
    "below": ({"name": "acceptance", "minimum": 3.0}, "'acceptance' is 2.5 and must be at least 3"),
    "above": ({"name": "acceptance", "maximum": 2.0}, "'acceptance' is 2.5 and must be at most 2"),
    "no number": ({"name": "cached", "maximum": 0.0}, "the benchmark gave no number for 'cached'"),
    "log": (
        {"name": "quiet", "log_absent": "request /gen.*"},
        "the server said during the benchmark: request /generate",
    ),
}


@pytest.mark.parametrize(("guard", "says"), GUARDS.values(), ids=GUARDS)
def test_a_guard_voids_the_launch(site, guard, says):
    result = site.launch(guards=[guard])
    assert result["outcome"] == "guard-failed"
    assert result["guard"] == guard["name"]
    assert result["detail"] == says


def test_a_guard_of_the_benchmark_voids_the_launch(site):
    said = '{"repetitions": [{"speed": 1}], "guards": {"tokens": {"ok": false, "detail": "3 of 4"}}}'
    result = site.launch(server=None, bench={"argv": ["echo", said]}, environment=PIN)
    assert (result["outcome"], result["guard"], result["detail"]) == ("guard-failed", "tokens", "tokens: 3 of 4")


def test_what_the_server_said_before_the_benchmark_is_no_guards_matter(site):
    assert site.launch(guards=[{"name": "quiet", "log_absent": "^up$"}])["outcome"] == "measured"


def test_a_tree_that_is_not_proved_is_never_launched(site):
    (site.worktree / "engine/core.py").write_text("def step(n):\n    return n\n")
    result = site.launch()
    assert result["outcome"] == "proof-failed"
    assert "engine/core.py differs" in result["detail"]
    assert [p["when"] for p in result["proofs"]] == ["before"]
    assert not (site.job / "server.log").exists()


@pytest.mark.parametrize("status", [0, 1])
def test_a_tree_that_changes_meanwhile_voids_the_launch_even_one_that_failed(site, status):
    """As somebody's `git stash` in our worktree does."""
    code = f'printf \'{{"repetitions": [{{"speed": 1}}]}}\'; echo >>engine/core.py; exit {status}'
    bench = {"argv": ["sh", "-c", code], "cwd": str(site.worktree)}
    result = site.launch(server=None, bench=bench, environment=PIN)
    assert result["outcome"] == "proof-failed"
    assert [(p["when"], p["found"] is None) for p in result["proofs"]] == [("before", False), ("after", True)]
    assert result["samples"] is None


def test_a_variable_that_is_not_in_force(site):
    result = site.launch(server={"env": {"SPEED": "slow"}, "expect_env": {"SPEED": "fast"}})
    assert result["outcome"] == "origin-failed"
    assert "another value of SPEED" in result["detail"]


def test_a_log_without_end_is_stopped(site):
    result = site.launch(server={"env": {"MODE": "chatty"}}, limits={"log_bytes": 50_000})
    assert result["outcome"] == "bench-failed"
    assert result["detail"] == "server.log grew over 50000 bytes"


def test_no_bytecode_of_another_commit_is_run(site, upstream):
    """Python compares size and second of change: both are made equal here, as a quick switch does by chance."""
    site.send(upstream.old)
    code = "import engine; print(engine.step(40))"
    bench = {"argv": [PYTHON, "-c", code], "regex": r"(\d+)", "warmup": 0, "repetitions": 1}
    numbers = []
    for commit in (upstream.old, upstream.new, upstream.old):
        site.checkout(commit)
        os.utime(site.worktree / "engine/core.py", (1_700_000_000, 1_700_000_000))
        result = site.launch(server=None, bench=bench, tree=site.tree_of(commit))
        numbers += result["samples"]["repetitions"]
    assert numbers == [41.0, 42.0, 41.0]
    assert list(site.root.glob("pycache/**/core.*.pyc"))


def test_bytecode_is_kept_where_the_environment_forbids_it(site):
    """As container images do; a large server then compiles its sources anew at each launch, half a minute."""
    result = site.launch(inside=("env", "PYTHONDONTWRITEBYTECODE=1"))
    assert result["outcome"] == "measured"
    assert list(site.root.glob("pycache/**/core.*.pyc"))
    assert not list(site.worktree.glob("**/__pycache__"))


def test_there_is_room_above_the_port(site):
    """SGLang takes another port 10000 above its own, and does not start where that is none."""
    assert site.launch()["port"] + 10000 < 65536


def test_under_the_interpreter_of_the_tests_too(site):
    assert site.launch(python=sys.executable)["outcome"] == "measured"


DOCS = Path(__file__).parents[2] / "docs" / "proof.md"
HOSTSIDE = Path(__file__).parents[2] / "bisectperf" / "hostside"


def test_the_document_in_the_docs_is_a_measurement(site):
    (document,) = re.findall(r"```json\n(.*?)```", DOCS.read_text(), re.DOTALL)
    result = site.launch(server=None, bench={"argv": ["echo", document]}, environment=PIN)
    assert result["outcome"] == "measured", result["detail"]
    assert result["samples"]["secondary"] == {"acceptance": [2.9]}


def test_the_docs_name_every_outcome():
    code = "".join(path.read_text() for path in HOSTSIDE.glob("*.py"))
    used = set(re.findall(r'Failed\(\s*"([a-z-]+)"', code)) | {"measured", "not-ready", "server-died"}
    (table,) = re.findall(r"\| `outcome` \|.*?\n\n", DOCS.read_text(), re.DOTALL)
    rows = [line.split("|")[1] for line in table.splitlines()[2:] if line]
    assert {name for row in rows for name in re.findall(r"`([a-z-]+)`", row)} == used
