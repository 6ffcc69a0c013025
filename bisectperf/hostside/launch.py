"""One launch, whole: prove, start the server, wait until it is ready, benchmark, stop, prove again.

Reads the specification named on the command line, in the job's folder; writes `result.json` there, last and whole,
and ends with status 0 whenever it could say what happened, also when the launch itself failed. Both documents are
described in docs/proof.md. What it says of a failed launch never depends on the speed that was measured.
"""

import errno
import json
import os
import subprocess
import sys
import time

from benchmark import check_guards, last_json, one_number, samples
from bytecode import fresh_bytecode
from conditions import Conditions
from evidence import mapped_libraries, origins, serving_environment
from facts import gpu_memory_used
from failure import TAIL, Failed, tail
from processes import become_subreaper, members
from prove import prove
from readiness import Ends, wait_until_ready
from server import Server, end_everything, free_port, port_is_free

ROOM = 256 * 1024  # bytes held back for the result, should the disk be full by then
FULL = "the disk of the host is full"
LOOK = 1.0  # seconds between two looks at the size of the logs


def main(argv):
    with open(argv[1]) as file:
        spec = json.load(file)
    os.umask(0o077)
    become_subreaper()
    launch = Launch(spec)
    launch.run()
    write_result(launch.result)


def write_result(result):
    if os.path.exists("room"):
        os.unlink("room")
    with open("result.json.part", "w") as file:
        json.dump(result, file)
        file.flush()
        os.fsync(file.fileno())
    os.rename("result.json.part", "result.json")


class Launch(object):
    """The state of one launch; `result` is what will be written."""

    def __init__(self, spec):
        self.spec, self.about = spec, spec["environment"]
        self.job = os.environ.get("BISECTPERF_JOB", spec["launch"])
        self.ends = Ends()
        self.server, self.document, self.log_from = None, {}, 0
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
            "snapshot": None,
            "seconds": {"checkout": round(spec.get("checkout_seconds", 0.0), 3)},
            "bench_middle": time.time(),
            "port": self.port,
        }
        self.conditions = Conditions(self)

    def run(self):
        """Go through the phases; a failure is noted, and everything is stopped and the tree proved all the same."""
        if self.tried(self.prepare):
            ended_well = self.tried(self.measure)
            self.tried(lambda: self.conditions.after(ended_well))
            self.tried(self.stop)
            self.tried(self.conditions.alone)
            self.tried(lambda: self.prove("after"))

    def tried(self, phase):
        """Run a phase and note its failure; return whether it went well. Causes outweigh what followed from them."""
        try:
            phase()
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            failure = Failed("disk-full", FULL)
        except Failed as caught:
            failure = caught if room_left(".", self.spec["worktree"]) else Failed("disk-full", FULL, caught.tail)
        else:
            return True
        if self.result["outcome"] == "measured" or failure.outcome in ("proof-failed", "disk-full", "unfit"):
            self.result.update(
                outcome=failure.outcome, detail=str(failure), tail=failure.tail, guard=failure.guard, samples=None
            )
        return False

    def prepare(self):
        with open("room", "wb") as file:
            file.write(b"\0" * ROOM)
        fresh_bytecode(self.about["pycache"], self.spec["worktree"], self.spec["tree"])
        self.prove("before")
        self.conditions.before()
        self.memory = gpu_memory_used()

    def measure(self):
        if self.spec["server"] is not None:
            self.start()
        self.conditions.watch()
        self.benchmark()
        self.check_origin()
        log = "server.log" if self.server else None
        check_guards(self.document, self.spec["guards"], log, self.log_from)

    def stop(self):
        self.say("stopping")
        begun = time.monotonic()
        grace = self.spec["server"]["grace"] if self.server else 0.0
        try:
            end_everything(self.server, self.job, grace, self.ends, self.port, self.memory)
        finally:
            self.timed("stop", begun)

    def say(self, text):
        try:
            with open("progress", "a") as file:
                file.write(text + "\n")
        except OSError:
            pass  # a full disk must not keep us from stopping the server

    def timed(self, name, begun):
        seconds = self.result["seconds"]
        seconds[name] = round(seconds.get(name, 0.0) + time.monotonic() - begun, 3)

    # -- proof ------------------------------------------------------------------------------------------------

    def prove(self, when):
        self.say("proving the tree %s the launch" % when)
        begun = time.monotonic()
        spec = self.spec
        try:
            proof = prove(spec["worktree"], spec["git_dir"], spec["tree"], spec["allow"], spec["submodules"])
        except RuntimeError as error:
            raise Failed("proof-failed", "the tree cannot be read from our mirror: %s" % error)
        finally:
            self.timed("prove", begun)
        self.result["proofs"].append(dict(proof, when=when))
        if proof["problems"]:
            raise Failed("proof-failed", "the tree is not what was asked for: " + "; ".join(proof["problems"][:3]))

    def check_origin(self):
        """Read back from the live processes where their code came from and which variables they have."""
        problems = []
        if self.server is not None:
            expected = {name: self.fill(value) for name, value in self.spec["server"]["expect_env"].items()}
            problems += serving_environment(self.server.pid, expected)
            problems += mapped_libraries(members(self.job, os.getpid()), self.about)
        if self.about["import_root"] and self.about["packages"]:
            self.result["origin"] = origins("origins", self.about, self.spec["worktree"], problems)
            problems = self.result["origin"]["problems"]
        if problems:
            raise Failed("origin-failed", problems[0])

    # -- commands ---------------------------------------------------------------------------------------------

    def environment(self, extra, *, recorded=True):
        """Return the environment of server and benchmark: the proved checkout first on the import path."""
        env = dict(os.environ)
        env["PYTHONPYCACHEPREFIX"] = self.about["pycache"]
        # It goes into a folder of ours; compiling all sources anew at each launch costs a large server half a minute.
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        if self.about["import_root"] and recorded:
            here = os.path.dirname(os.path.abspath(__file__))
            os.makedirs("origins", exist_ok=True)
            before = [p for p in env.get("PYTHONPATH", "").split(os.pathsep) if p]
            path = [os.path.join(here, "recorder"), self.about["import_root"]] + before
            env["PYTHONPATH"] = os.pathsep.join(path)
            env["BISECTPERF_IMPORT_ROOT"] = self.about["import_root"]
            env["BISECTPERF_WATCH"] = ",".join(self.about["packages"])
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
        """Start the server and wait until it is ready."""
        server = self.spec["server"]
        if not port_is_free(self.port):
            raise Failed("leftover", "port %d is in use before the launch" % self.port)
        self.say("starting the server")
        begun = time.monotonic()
        env = self.environment(server["env"])
        with open("server.log", "ab") as log:
            try:
                self.server = Server(self.command(server["argv"]), server["cwd"], env, log)
            except OSError as error:
                raise Failed("server-died", "the server cannot be started: %s" % error)
        ready = dict(server["ready"], http=self.fill(server["ready"]["http"]))
        ready["command"] = [self.fill(word) for word in ready["command"]]
        said = wait_until_ready(self.server, ready, "server.log", env, server["cwd"], self.ends, self.check_logs)
        self.timed("ready", begun)
        if said:
            outcome = "server-died" if self.server.poll() is not None else "not-ready"
            raise Failed(outcome, said, tail("server.log"))

    # -- the benchmark ----------------------------------------------------------------------------------------

    def benchmark(self):
        bench, metric = self.spec["bench"], self.spec["metric"]
        begun, wall = time.monotonic(), time.time()
        self.log_from = os.path.getsize("server.log") if self.server else 0
        if bench["regex"] or bench["path"]:
            whole = bench["warmup"] + bench["repetitions"]
            runs = [{metric: one_number(self.repetition(n, whole), bench)} for n in range(whole)]
            self.document = {"warmup": runs[: bench["warmup"]], "repetitions": runs[bench["warmup"] :]}
        else:
            self.document = last_json(self.repetition(0, 1))
        self.timed("bench", begun)
        self.result["bench_middle"] = (wall + time.time()) / 2
        self.result["samples"] = samples(self.document, metric, self.spec["secondary"])

    def repetition(self, number, whole):
        """Run the benchmark's command once and return what it prints."""
        self.say("repetition %d of %d" % (number + 1, whole) if whole > 1 else "benchmark")
        bench = self.spec["bench"]
        with open("bench.out", "wb+") as out, open("bench.err", "ab") as err:
            try:
                child = subprocess.Popen(
                    self.command(bench["argv"]),
                    cwd=self.fill(bench["cwd"]),
                    env=self.environment(bench["env"]),
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=err,
                )
            except OSError as error:
                raise Failed("bench-failed", "the benchmark cannot be started: %s" % error)
            self.watch(child, bench["timeout"])
            out.seek(0)
            text = out.read().decode(errors="replace")
        if child.returncode:
            said = tail("bench.err").strip().splitlines()
            detail = "the benchmark ended with status %d%s" % (child.returncode, ": " + said[-1] if said else "")
            raise Failed("bench-failed", detail, (tail("bench.err") + text[-TAIL:])[-TAIL:])
        return text

    def watch(self, child, timeout):
        """Wait for the benchmark; raises `Failed` at once when the server ends, and when time or a log runs over."""
        until = time.monotonic() + timeout
        while child.poll() is None:
            left = until - time.monotonic()
            if self.server and self.server.poll() is not None:
                break
            if left <= 0:
                detail = "the benchmark took longer than %g s" % timeout
                raise Failed("bench-timeout", detail, tail("bench.err"))
            self.check_logs()
            self.ends.wait(min(left, LOOK))
        if self.server and self.server.poll() is not None:
            raise Failed("server-died", "the server ended during the benchmark", tail("server.log"))

    def check_logs(self):
        """Raise `Failed` when a log has grown over its limit: one that never ends would fill the disk."""
        limit = self.spec["limits"]["log_bytes"]
        for log in ("server.log", "bench.out", "bench.err"):
            if os.path.exists(log) and os.path.getsize(log) > limit:
                raise Failed("bench-failed", "%s grew over %d bytes" % (log, limit), tail(log))


def room_left(*folders):
    """Return whether each folder's disk has at least `ROOM` bytes for us."""
    return all(s.f_bavail * s.f_frsize >= ROOM for s in map(os.statvfs, filter(os.path.isdir, folders)))


if __name__ == "__main__":
    main(sys.argv)
