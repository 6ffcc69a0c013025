"""One launch, whole: prove, start the server, wait until it is ready, benchmark, stop, prove again.

Reads the specification named on the command line, in the job's folder; writes `result.json` there, last and whole,
and ends with status 0 whenever it could say what happened, also when the launch itself failed. What it says of a
failed launch never depends on the speed that was measured.
"""

import json
import os
import re
import signal
import socket
import statistics
import subprocess
import sys
import time

from evidence import check_processes, origins, serving_environment
from facts import facts, gpu_memory_used
from processes import become_subreaper, end_tree, members
from prove import prove
from readiness import wait_until_ready

TAIL = 4096


class Failed(Exception):
    """The launch gives no sample: `outcome` is the kind, the message one sentence."""

    def __init__(self, outcome, detail, tail="", guard=""):
        Exception.__init__(self, detail)
        self.outcome, self.tail, self.guard = outcome, tail, guard


def main(argv):
    with open(argv[1]) as file:
        spec = json.load(file)
    os.umask(0o077)
    become_subreaper()
    result = Launch(spec).run()
    aside = "result.json.part"
    with open(aside, "w") as file:
        json.dump(result, file)
        file.flush()
        os.fsync(file.fileno())
    os.rename(aside, "result.json")


class Launch(object):
    """The state of one launch; `result` is what will be written."""

    def __init__(self, spec):
        self.spec = spec
        self.job = os.environ.get("BISECTPERF_JOB", spec["launch"])
        self.server = None
        self.port = spec["port"] or free_port()
        self.result = {
            "launch": spec["launch"],
            "outcome": "measured",
            "detail": "",
            "tail": "",
            "guard": "",
            "samples": None,
            "proofs": [],
            "origin": None,
            "facts": [],
            "seconds": {"checkout": round(spec.get("checkout_seconds", 0.0), 3)},
            "bench_middle": time.time(),
            "port": self.port,
        }

    def run(self):
        """Go through the phases and return the result; a failure is noted and the rest is still cleaned up."""
        try:
            self.prove("before")
            self.memory = gpu_memory_used()
            self.facts()
            try:
                self.start()
                self.benchmark()
                self.check_server()
            finally:
                self.stop()
            self.facts()
            self.prove("after")
            self.guards()
        except Failed as failure:
            self.result.update(
                outcome=failure.outcome, detail=str(failure), tail=failure.tail, guard=failure.guard, samples=None
            )
        return self.result

    def say(self, text):
        with open("progress", "a") as file:
            file.write(text + "\n")

    def timed(self, name, begun):
        seconds = self.result["seconds"]
        seconds[name] = round(seconds.get(name, 0.0) + time.monotonic() - begun, 3)

    def prove(self, when):
        self.say("proving the tree %s the launch" % when)
        begun = time.monotonic()
        spec = self.spec
        proof = prove(spec["worktree"], spec["git_dir"], spec["tree"], spec["allow"], spec["submodules"])
        proof["when"] = when
        self.result["proofs"].append(proof)
        self.timed("prove", begun)
        if proof["problems"]:
            raise Failed("proof-failed", "the tree is not what was asked for: " + "; ".join(proof["problems"][:3]))

    def facts(self):
        self.result["facts"].append(facts(".", self.spec["facts"]))

    # -- the server -------------------------------------------------------------------------------------------

    def environment(self, extra):
        """Return the environment of server and benchmark: the proved checkout first on the import path."""
        env = dict(os.environ)
        about = self.spec["environment"]
        env["PYTHONPYCACHEPREFIX"] = about["pycache"]
        if about["import_root"]:
            here = os.path.dirname(os.path.abspath(__file__))
            os.makedirs("origins", exist_ok=True)
            before = [p for p in env.get("PYTHONPATH", "").split(os.pathsep) if p]
            env["PYTHONPATH"] = os.pathsep.join([os.path.join(here, "recorder"), about["import_root"]] + before)
            env["BISECTPERF_IMPORT_ROOT"] = about["import_root"]
            env["BISECTPERF_WATCH"] = ",".join(about["packages"])
            env["BISECTPERF_ORIGINS"] = os.path.abspath("origins")
        env.update({name: self.fill(value) for name, value in extra.items()})
        return env

    def fill(self, text):
        return text.replace("{port}", str(self.port)).replace("{job}", os.getcwd())

    def command(self, argv):
        """Return argv with the port filled in, behind the recipe's shell prologue if it has one."""
        argv = [self.fill(word) for word in argv]
        prologue = self.spec["prologue"]
        return ["sh", "-c", prologue + '\nexec "$@"', "sh"] + argv if prologue else argv

    def start(self):
        server = self.spec["server"]
        if server is None:
            return
        self.say("starting the server")
        begun = time.monotonic()
        with open("server.log", "wb") as log:
            try:
                self.server = subprocess.Popen(
                    self.command(server["argv"]),
                    cwd=server["cwd"],
                    env=self.environment(server["env"]),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            except OSError as error:
                raise Failed("server-died", "the server cannot be started: %s" % error)
        ready = dict(server["ready"], http=self.fill(server["ready"]["http"]))
        ready["command"] = [self.fill(word) for word in ready["command"]]
        said = wait_until_ready(self.server, ready, "server.log", self.environment(server["env"]), server["cwd"])
        self.timed("ready", begun)
        if said:
            outcome = "server-died" if self.server.poll() is not None else "not-ready"
            raise Failed(outcome, said, tail("server.log"))

    def stop(self):
        """End the server and everything that it started; a process or GPU memory that stays makes the host unfit."""
        begun = time.monotonic()
        if self.server is not None:
            self.say("stopping the server")
            grace = self.spec["server"]["grace"]
            if self.server.poll() is None:
                try:
                    os.killpg(self.server.pid, signal.SIGTERM)
                    self.server.wait(grace)
                except (ProcessLookupError, subprocess.TimeoutExpired):
                    pass
        # Whatever the benchmark or the server left behind, wherever it went.
        end_tree(None, self.job, 2.0)
        if self.server is not None:
            self.server.poll()
        self.timed("stop", begun)
        left = members(self.job, os.getpid())
        if left:
            raise Failed("leftover", "processes of the launch could not be ended: %s" % sorted(left))
        self.wait_for_gpu_memory()

    def wait_for_gpu_memory(self, limit=60.0):
        until = time.monotonic() + limit
        while self.memory and any(n > b + 256 for n, b in zip(gpu_memory_used(), self.memory)):
            if time.monotonic() > until:
                raise Failed("leftover", "GPU memory stays in use after the server ended")
            time.sleep(0.5)

    def check_server(self):
        """Read back from the live processes where their code came from and which variables they have."""
        about, server = self.spec["environment"], self.spec["server"]
        problems = []
        if server is not None:
            if self.server.poll() is not None:
                raise Failed("server-died", "the server ended during the benchmark", tail("server.log"))
            pids = members(self.job, os.getpid())
            problems += serving_environment(self.server.pid, pids, server["expect_env"], self.fill)
            problems += check_processes(pids, about)
        if about["import_root"] and about["packages"]:
            self.result["origin"] = origins("origins", about, problems)
            problems = self.result["origin"]["problems"]
        if problems:
            raise Failed("origin-failed", problems[0])

    # -- the benchmark ----------------------------------------------------------------------------------------

    def benchmark(self):
        bench = self.spec["bench"]
        begun, wall = time.monotonic(), time.time()
        log_from = os.path.getsize("server.log") if self.server else 0
        if bench["regex"] or bench["path"]:
            numbers = []
            for number in range(bench["warmup"] + bench["repetitions"]):
                self.say("repetition %d of %d" % (number + 1, bench["warmup"] + bench["repetitions"]))
                numbers.append(one_number(self.run_bench(bench), bench))
            metric = self.spec["metric"]
            document = {
                "warmup": [{metric: n} for n in numbers[: bench["warmup"]]],
                "repetitions": [{metric: n} for n in numbers[bench["warmup"] :]],
            }
        else:
            self.say("benchmark")
            document = last_json(self.run_bench(bench))
        self.timed("bench", begun)
        self.result["bench_middle"] = (wall + time.time()) / 2
        self.document, self.log_from = document, log_from
        self.result["samples"] = self.samples(document)

    def run_bench(self, bench):
        out = open("bench.out", "wb+")
        with out, open("bench.err", "ab") as err:
            try:
                child = subprocess.Popen(
                    self.command(bench["argv"]),
                    cwd=bench["cwd"],
                    env=self.environment(bench["env"]),
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=err,
                )
                child.wait(bench["timeout"])
            except OSError as error:
                raise Failed("bench-failed", "the benchmark cannot be started: %s" % error)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
                raise Failed(
                    "bench-timeout", "the benchmark took longer than %g s" % bench["timeout"], tail("bench.err")
                )
            out.seek(0)
            text = out.read().decode(errors="replace")
        if child.returncode:
            if self.server and self.server.poll() is not None:
                raise Failed("server-died", "the server ended during the benchmark", tail("server.log"))
            said = tail("bench.err").strip().splitlines()
            detail = "the benchmark ended with status %d%s" % (child.returncode, ": " + said[-1] if said else "")
            raise Failed("bench-failed", detail, tail("bench.err") + text[-TAIL:])
        return text

    def samples(self, document):
        """Return the samples of a benchmark's document; raises `Failed` when it is not of the form asked for."""
        metric, secondary = self.spec["metric"], self.spec["secondary"]
        try:
            repetitions = [float(r[metric]) for r in document["repetitions"]]
            warmup = [float(r[metric]) for r in document.get("warmup", [])]
            more = {n: [float(r[n]) for r in document["repetitions"] if n in r] for n in secondary}
        except (KeyError, TypeError, ValueError) as error:
            raise Failed("wrong-output", "the benchmark's JSON lacks numbers for '%s' (%r)" % (metric, error))
        if not repetitions or any(not 0 < r < float("inf") for r in repetitions):
            raise Failed("wrong-output", "the benchmark gave no positive number for '%s'" % metric)
        return {
            "repetitions": repetitions,
            "warmup": warmup,
            "secondary": {n: v for n, v in more.items() if v},
            "findings": [str(f) for f in document.get("findings", [])],
            "output_digest": str(document.get("output_digest", "")),
        }

    def guards(self):
        """Void the launch for what makes it invalid; none of these looks at the metric."""
        for name, said in sorted(self.document.get("guards", {}).items()):
            if not said.get("ok", True):
                raise Failed("guard-failed", "%s: %s" % (name, said.get("detail", "")), guard=name)
        for guard in self.spec["guards"]:
            values = self.result["samples"]["secondary"].get(guard["name"], [])
            middle = statistics.median(values) if values else None
            low, high = guard.get("minimum"), guard.get("maximum")
            if (
                (middle is not None
                and not (low is None or middle >= low))
                or (middle is not None and not (high is None or middle <= high))
            ):
                detail = "%s is %g, outside of %s to %s" % (guard["name"], middle, low, high)
                raise Failed("guard-failed", detail, guard=guard["name"])
            pattern = guard.get("log_absent")
            if pattern and self.server is not None:
                with open("server.log", "rb") as file:
                    file.seek(self.log_from)
                    seen = re.search(pattern.encode(), file.read())
                if seen:
                    words = seen.group(0).decode(errors="replace")[:200]
                    raise Failed("guard-failed", "the server said: %s" % words, guard=guard["name"])


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def tail(path):
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.path.getsize(path) - TAIL))
            return file.read().decode(errors="replace")
    except OSError:
        return ""


def one_number(text, bench):
    """Return the one number in a command's output, by regular expression or JSON path."""
    try:
        if bench["regex"]:
            return float(re.search(bench["regex"], text).group(1))
        value = last_json(text)
        for key in bench["path"].split("."):
            value = value[int(key)] if isinstance(value, list) else value[key]
        return float(value)
    except (AttributeError, KeyError, IndexError, TypeError, ValueError):
        asked = bench["regex"] or bench["path"]
        raise Failed("wrong-output", "the benchmark printed no number at %s" % asked, text[-TAIL:])


def last_json(text):
    """Return the JSON document of an output: its last line, else all of it."""
    lines = [line for line in text.splitlines() if line.strip()]
    for candidate in (lines[-1] if lines else "", text):
        try:
            return json.loads(candidate)
        except ValueError:
            continue
    raise Failed("wrong-output", "the benchmark printed no JSON", text[-TAIL:])


if __name__ == "__main__":
    main(sys.argv)
