"""The conditions of a launch: what the host is (facts, snapshot), and the gate around the benchmark."""

import hashlib
import json
import os
import re

from facts import facts, packages
from gate import Gate
from processes import members
from snapshot import serving, take


class Conditions(object):
    """What a launch asks of its host, in the order of its methods; all of it ends in the launch's result."""

    def __init__(self, launch):
        self.launch, self.spec, self.job = launch, launch.spec, launch.job
        self.gate = Gate(self.spec["gate"], self.job, launch.say) if self.spec["gate"] else None
        launch.result["gate"] = self.gate.record if self.gate else None
        self.snapshot = {}

    def before(self):
        """Note what the host is, refuse one that has moved since the ends, wait for one that is busy."""
        self.note_facts()
        self.launch.result["facts"][0]["facts"].update(self.watched_packages())
        self.take_snapshot()
        if self.gate is not None:
            self.gate.check_facts(self.snapshot)
            self.gate.wait()
            for text in self.gate.record["not_asked"]:
                self.launch.result["facts"][0]["facts"].setdefault("gate, not asked", []).append(text)

    def watch(self):
        """Begin to watch: the benchmark starts."""
        if self.gate is not None:
            self.gate.watch()

    def after(self, ended_well):
        """Look again while the server is still up, if all went well: the clocks of an idle GPU say nothing."""
        self.note_facts()
        self.take_snapshot(members(self.job, os.getpid()))
        if self.gate is not None:
            self.gate.check(ended_well)

    def alone(self):
        """Look once more, after everything of ours has ended."""
        if self.gate is not None:
            self.gate.check_alone()

    def note_facts(self):
        found = facts(".", self.spec["facts"], members(self.job, os.getpid()))
        self.launch.result["facts"].append(found)

    def interpreter(self):
        """Return (argv, environment, folder) of the launch's Python, or None where it is not one."""
        measured = self.spec["server"] or self.spec["bench"]
        if not re.match(r"python[0-9.]*$", os.path.basename(measured["argv"][0])):
            return None
        env = self.launch.environment(measured["env"], recorded=False)
        return self.launch.command(measured["argv"][:1]), env, self.launch.fill(measured["cwd"])

    def watched_packages(self):
        found = self.interpreter()
        return packages(found[0], self.spec["environment"]["packages"], found[1], found[2]) if found else {}

    def take_snapshot(self, pids=()):
        """Take a snapshot without the packages that are measured; with `pids`, add what these have loaded."""
        about = self.spec["snapshot"]
        if not self.snapshot:
            python, env, cwd = self.interpreter() or ((), None, None)
            self.snapshot = take(python, cwd, env, digests=about["digests"])
        self.snapshot.update(serving(pids, about["secrets"]))
        for name in self.spec["environment"]["packages"]:
            self.snapshot.pop("package " + name.lower().replace("_", "-"), None)
        measured = self.spec["server"] or self.spec["bench"]
        self.snapshot["arguments"] = " ".join(measured["argv"])
        self.snapshot = {name: self.common(text) for name, text in self.snapshot.items()}
        text = json.dumps(self.snapshot, sort_keys=True)
        self.launch.result["snapshot"] = {
            "id": hashlib.sha256(text.encode()).hexdigest()[:16],
            "facts": self.snapshot,
        }

    def common(self, text):
        """Return a text without what differs from launch to launch by our own doing."""
        text = text.replace(os.path.basename(self.spec["worktree"]), "{build}").replace(os.getcwd(), "{job}")
        return re.sub(r"(?<![0-9])%d(?![0-9])" % self.launch.port, "{port}", text)
