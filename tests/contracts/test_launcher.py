"""What every launcher must do, on every host."""

import json
import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from bisectperf.errors import HostUnfit, UserError
from bisectperf.launchers.base import Job
from bisectperf.launchers.detached import Detached

OURS = os.getpid()
"""Part of each sleep that is looked for by its words: other workers run the same tests at the same time."""

HOSTILE = "a'; touch x; \"$(id)"


def sh(job_id, script, **more):
    return Job(id=job_id, argv=("sh", "-c", script), **more)


def alive(host, word):
    """Return the processes whose command line has `word`."""
    script = (
        'for f in /proc/[0-9]*/cmdline; do tr "\\0" " " < "$f" 2>/dev/null | grep -F -- "$1" | grep -vF "tr "; done'
    )
    found = host.raw(["sh", "-c", script, "sh", word]).out.decode().splitlines()
    return [line for line in found if "for f in" not in line and "grep" not in line]


def test_a_job_runs_once_and_says_how_it_ended(launcher, host):
    job = sh("one", f"echo run >> {host.room}/runs; echo out; echo err >&2; exit 5")
    assert launcher.status("one").state == "absent"
    launcher.start(job)
    launcher.start(job)
    end = launcher.wait("one", 20)
    assert (end.state, end.rc, end.reason) == ("exited", 5, "exited")
    launcher.start(job)
    assert launcher.read("one", "stdout") == b"out\n"
    assert launcher.read("one", "stderr") == b"err\n"
    assert host.get(f"{host.room}/runs") == b"run\n"


def test_many_starts_at_once_are_one_run(launcher, host):
    job = sh("many", f"echo run >> {host.room}/many; sleep 1")
    with ThreadPoolExecutor(20) as pool:
        list(pool.map(lambda _: launcher.start(job), range(20)))
    assert launcher.wait("many", 20).rc == 0
    assert host.get(f"{host.room}/many") == b"run\n"
    assert host.raw(["ls", "-A", f"{launcher.root}/jobs"]).out == b"many\n"


def test_reading_from_an_offset_and_from_the_end(launcher):
    launcher.start(sh("read", "printf 0123456789"))
    launcher.wait("read", 20)
    assert launcher.read("read", "stdout", 4) == b"456789"
    assert launcher.read("read", "stdout", 4, 2) == b"45"
    assert launcher.read("read", "stdout", -3) == b"789"
    assert launcher.read("read", "no-such-file") == b""


def test_waiting_gives_up_after_its_seconds_and_leaves_the_job(launcher):
    launcher.start(sh("long", "sleep 60"))
    assert launcher.wait("long", 0.2).state == "running"
    assert launcher.kill("long").reason == "killed"


def test_the_time_limit_is_kept_on_the_host(launcher, host):
    launcher.start(sh("limit", f"trap '' TERM; sleep 61.{OURS}", timeout=0.5, grace=0.3))
    end = launcher.wait("limit", 30)
    assert (end.state, end.reason) == ("exited", "timeout")
    assert alive(host, f"sleep 61.{OURS}") == []


def test_children_that_hide_do_not_survive(launcher, host):
    hide = f"(setsid env -i sh -c 'trap \"\" TERM; sleep 62.{OURS}; sleep 63' &) ; exit 0"
    launcher.start(sh("hide", hide, grace=0.3))
    assert launcher.wait("hide", 30).rc == 0
    assert alive(host, f"sleep 62.{OURS}") == []


def test_kill_ends_what_ignores_it(launcher, host):
    launcher.start(sh("stubborn", f"trap '' TERM; while :; do sleep 64.{OURS}; done", grace=0.3))
    end = launcher.kill("stubborn")
    assert (end.state, end.reason) == ("exited", "killed")
    assert alive(host, f"sleep 64.{OURS}") == []


def test_killing_a_job_leaves_one_of_the_same_id_elsewhere(launcher, host):
    other = Detached(host, f"{host.room}/other", launcher.tools)
    launcher.start(sh("same", "sleep 600"))
    other.start(sh("same", "until [ -e go ]; do sleep 0.02; done; exit 4"))
    assert launcher.kill("same").reason == "killed"
    assert other.status("same").state == "running"
    host.put(f"{other.folder('same')}/go", b"")
    assert other.wait("same", 20).rc == 4


def test_secrets_arrive_and_are_nowhere_else(launcher, host):
    launcher.start(sh("secret", 'printf %s "$TOKEN"; cat /proc/self/cmdline >&2', secrets={"TOKEN": HOSTILE}))
    launcher.wait("secret", 20)
    assert launcher.read("secret", "stdout") == HOSTILE.encode()
    found = host.raw(["grep", "-rlF", "touch x", host.room, "--exclude=stdout"])
    assert found.out == b""
    assert host.raw(["find", host.room, "-name", "x"]).out == b""


def test_files_lie_there_before_the_job_starts_and_are_private(launcher, host):
    launcher.start(sh("files", "cat spec.json; stat -c %a . spec.json", files={"spec.json": '{"a": 1}'}))
    launcher.wait("files", 20)
    assert launcher.read("files", "stdout") == b'{"a": 1}700\n600\n'


def test_a_program_that_is_not_there(launcher):
    launcher.start(Job(id="none", argv=("no-such-program",)))
    assert launcher.wait("none", 20).reason == "not-started"


@pytest.mark.parametrize("bad", ["../up", ".hidden", "a b", "a/b", ""])
def test_ids_that_could_leave_the_folder_are_refused(launcher, bad):
    with pytest.raises(HostUnfit):
        launcher.status(bad)


def test_a_killed_supervisor_is_lost_and_its_job_is_cleared(launcher, host):
    launcher.start(sh("lost", f"sleep 65.{OURS}"))
    pid = json.loads(launcher.read("lost", "supervisor.json"))["pid"]
    host.raw(["kill", "-KILL", str(pid)])
    assert launcher.wait("lost", 10).state == "lost"
    assert launcher.kill("lost").state == "lost"
    assert alive(host, f"sleep 65.{OURS}") == []


def test_a_reboot_makes_a_job_lost(launcher, host):
    launcher.start(sh("boot", "sleep 66"))
    path = f"{launcher.folder('boot')}/supervisor.json"
    facts = json.loads(host.get(path))
    host.put(path, json.dumps({**facts, "boot": "another"}).encode())
    assert launcher.status("boot").state == "lost"
    host.put(path, json.dumps({**facts, "start": 1}).encode())
    assert launcher.status("boot").state == "lost"
    host.put(path, json.dumps(facts).encode())
    assert launcher.kill("boot").reason == "killed"


@pytest.mark.parametrize("inside", ["", "/jobs"])
def test_a_folder_that_others_may_write_is_refused(launcher, host, inside):
    host.raw(["mkdir", "-p", f"{launcher.root}/jobs"])
    host.raw(["chmod", "0770", launcher.root + inside])
    with pytest.raises(UserError, match="is writable by others; run there: chmod go-w"):
        launcher.start(sh("open", "true"))
    assert launcher.status("open").state == "absent"


def test_words_arrive_as_they_are_whatever_they_hold(launcher):
    odd = "\u00e4\u20ac 'x' \n$(id)"
    job = Job(
        id="odd",
        argv=("sh", "-c", 'printf "%s|" "$1" "$WORD"; cat note', "sh", odd),
        env={"WORD": odd},
        files={"note": odd + "\r\n"},
    )
    launcher.start(job)
    launcher.wait("odd", 20)
    assert launcher.read("odd", "stdout").decode() == f"{odd}|{odd}|{odd}\r\n"


def test_what_a_job_writes_has_the_modes_that_its_user_is_used_to(launcher, host):
    launcher.start(sh("modes", "umask"))
    launcher.wait("modes", 20)
    assert launcher.read("modes", "stdout") == host.raw(["sh", "-c", "umask"]).out


def test_forgetting_removes_an_ended_job_only(launcher):
    launcher.start(sh("gone", "sleep 67"))
    with pytest.raises(HostUnfit):
        launcher.forget("gone")
    launcher.kill("gone")
    launcher.forget("gone")
    assert launcher.status("gone").state == "absent"
