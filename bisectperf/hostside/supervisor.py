"""Jobs that outlive their connection: one folder a job, one supervisor a job.

Verbs (the jobs folder is the first argument, the job's id the second):

    start   a JSON document on standard input: argv, env, secrets, files, cwd, timeout, grace
    status  {"state": absent|running|exited|lost, "rc", "reason", "seconds"}
    wait    the same, as soon as the job runs no more, or after the seconds given as third argument
    kill    end it and everything it started, wherever those processes went (its grace counts up to a minute)
    forget  remove the folder of a job that has ended; what a lost one left running is ended first

A folder appears with its supervisor written down in it, so there is no moment at which a job that is being started
looks lost. `exit.json`, written last and renamed into place, is the only evidence of an end. A job that was started
and has neither a living supervisor nor that file is lost. Secrets live in the environment of the job and nowhere
else. Exit status 64: refused, for the reason on standard error. Runs under any python3 >= 3.8, standard library only.
"""

import errno
import json
import os
import re
import shutil
import signal
import sys
import tempfile
import time

from files import Refused, read, require_private, sync, write
from processes import MARK, become_subreaper, boot_id, end_tree, reap, start_time, supervisor_of, watch

RESERVE = 64 * 1024
LONGEST_GRACE = 60.0
AWAITED = [signal.SIGCHLD, signal.SIGTERM]


def main(argv):
    verb, jobs, job = argv[1], argv[2], argv[3]
    if not re.match(r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,120}$", job):
        sys.exit("not a job id: %r" % job)
    # What is ours is private; the job's own files get the modes that they would have without us.
    umask = os.umask(0o077)
    folder = os.path.join(os.path.abspath(jobs), job)
    if verb == "start":
        answer = start(jobs, job, dict(json.load(sys.stdin.buffer), umask=umask))
    elif verb == "wait":
        answer = wait(folder, float(argv[4]))
    else:
        answer = {"status": status, "kill": kill, "forget": forget}[verb](folder)
    print(json.dumps(answer))


# -- start ----------------------------------------------------------------------------------------------------


def start(jobs, job, spec):
    """Lay a folder aside and start its supervisor, which renames it into place: the first one to do so runs."""
    os.makedirs(jobs, mode=0o700, exist_ok=True)
    require_private(os.path.dirname(jobs))
    require_private(jobs)
    folder = os.path.join(os.path.abspath(jobs), job)
    if os.path.isdir(folder):
        return status(folder)
    secrets = spec.pop("secrets", {})
    aside = tempfile.mkdtemp(prefix=".new.%s." % job, dir=jobs)
    try:
        lay(aside, spec)
        words = fork_supervisor(aside, folder, spec, secrets)
    except OSError:
        shutil.rmtree(aside, ignore_errors=True)
        raise
    if words != "started":
        shutil.rmtree(aside, ignore_errors=True)
    if words not in ("started", "known"):
        sys.exit("it could not be started: %s" % (words or "it ended at once"))
    return status(folder)


def lay(folder, spec):
    for name, text in spec.pop("files", {}).items():
        with open(os.path.join(folder, os.path.basename(name)), "w", encoding="utf-8", newline="") as file:
            file.write(text)
    with open(os.path.join(folder, "reserve"), "wb") as file:
        file.write(b"\0" * RESERVE)
    write(os.path.join(folder, "job.json"), spec)


def fork_supervisor(aside, folder, spec, secrets):
    """Return `started`, `known` where another start was quicker, or what went wrong."""
    report, tell = os.pipe()
    if os.fork() == 0:
        try:
            os.close(report)
            detach(keep=tell)
            supervise(aside, folder, spec, secrets, tell)
        except OSError as error:
            os.write(tell, str(error).encode())
        finally:
            os._exit(0)
    os.close(tell)
    with os.fdopen(report, "rb") as pipe:
        return pipe.read().decode(errors="replace")


def detach(keep):
    """Go on in a session of its own, without terminal and without descriptors but `keep`."""
    os.setsid()
    if os.fork():
        os._exit(0)
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) != keep:
            try:
                os.close(int(name))
            except OSError:
                pass


def supervise(aside, folder, spec, secrets, tell):
    # From the first moment at which others can see us, TERM is a request and the ends of children are ours to reap.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_BLOCK, AWAITED)
    become_subreaper()
    me = {"pid": os.getpid(), "start": start_time(os.getpid()), "boot": boot_id()}
    write(os.path.join(aside, "supervisor.json"), me)
    try:
        os.rename(aside, folder)
    except OSError as error:
        if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
            raise
        os.write(tell, b"known")
        return
    sync(os.path.dirname(folder))
    os.write(tell, b"started")
    os.close(tell)
    begun = time.monotonic()
    try:
        pid = spawn(folder, spec, secrets)
    except OSError as error:
        finish(folder, {"rc": 127, "reason": "not-started", "detail": str(error)}, begun)
        return
    rc, reason = await_end(pid, begun + spec.get("timeout", 3600.0))
    grace = spec.get("grace", 10.0)
    if rc is None:
        rc = end_tree(pid, folder, grace)
    end_tree(None, folder, min(grace, 2.0))
    finish(folder, {"rc": rc, "reason": reason}, begun)


def await_end(pid, limit):
    """Return the job's status and why it ended; the status is None where it has yet to be ended."""
    asked = False
    while True:
        rc = reap(pid)
        if rc is not None:
            return rc, "exited" if rc >= 0 else "signalled"
        left = limit - time.monotonic()
        if asked or left <= 0:
            return None, "killed" if asked else "timeout"
        seen = signal.sigtimedwait(AWAITED, min(left, 3600.0))
        asked = seen is not None and seen.si_signo == signal.SIGTERM


def environment(folder, spec, secrets):
    """Return the job's environment as bytes: its values are UTF-8 whatever the locale of this host."""
    ours = {MARK: folder}  # not the id alone: another folder of jobs may hold the same one
    env = dict(os.environb)
    for values in (spec.get("env", {}), secrets, ours):
        env.update({name.encode(): value.encode() for name, value in values.items()})
    return env


def spawn(folder, spec, secrets):
    """Start the job in a session of its own; return its pid. Raises `OSError` when the program cannot be run."""
    env = environment(folder, spec, secrets)
    argv = [word.encode() for word in spec["argv"]]
    failed, tell = os.pipe()
    pid = os.fork()
    if pid:
        os.close(tell)
        with os.fdopen(failed, "rb") as pipe:
            words = pipe.read()
        if words:
            os.waitpid(pid, 0)
            raise OSError(words.decode(errors="replace"))
        return pid
    try:
        os.setsid()
        for number in (*AWAITED, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        for fd, name in ((1, "stdout"), (2, "stderr")):
            file = os.open(os.path.join(folder, name), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            os.dup2(file, fd)
            os.close(file)
        os.umask(spec["umask"])
        os.chdir(spec.get("cwd") or folder)
        os.execvpe(argv[0], argv, env)
    except OSError as error:
        os.write(tell, ("%s: %s" % (spec["argv"][0], error.strerror)).encode())
    finally:
        os._exit(127)


def finish(folder, end, begun):
    end["seconds"] = round(time.monotonic() - begun, 3)
    for name in ("stdout", "stderr"):
        path = os.path.join(folder, name)
        if os.path.exists(path):
            try:
                with open(path, "rb") as file:
                    os.fsync(file.fileno())
            except OSError:
                pass
    # A full disk must not hide the end: the reserve makes room for this one file.
    free = os.statvfs(folder)
    if free.f_bavail * free.f_frsize < RESERVE:
        end["reason"] = "disk-full"
    try:
        os.unlink(os.path.join(folder, "reserve"))
    except OSError:
        pass
    write(os.path.join(folder, "exit.json"), end)


# -- the other verbs ------------------------------------------------------------------------------------------


def status(folder):
    for _ in range(2):  # a supervisor that ended between our two looks has left its word by the second round
        end = read(os.path.join(folder, "exit.json"))
        if end is not None:
            return {"state": "exited", "rc": end["rc"], "reason": end["reason"], "seconds": end["seconds"]}
        if not os.path.isdir(folder):
            return {"state": "absent"}
        if supervisor_of(folder) is not None:
            return {"state": "running"}
    return {"state": "lost"}


def wait(folder, seconds):
    until, pause = time.monotonic() + seconds, 0.01
    while True:
        now = status(folder)
        left = until - time.monotonic()
        if now["state"] != "running" or left <= 0:
            return now
        pid = supervisor_of(folder)
        if pid is None or not watch(pid, left):
            # Without pidfd we look ever more rarely: the job is a measurement.
            time.sleep(min(pause, left))
            pause = min(pause * 1.5, 0.5)


def kill(folder):
    grace = min((read(os.path.join(folder, "job.json")) or {}).get("grace", 10.0), LONGEST_GRACE)
    for number, patience in ((signal.SIGTERM, grace + 5.0), (signal.SIGKILL, 5.0)):  # it may be frozen
        pid = supervisor_of(folder)
        if pid is not None:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass
            wait(folder, patience)
    clear_lost(folder)
    return status(folder)


def clear_lost(folder):
    if status(folder)["state"] == "lost":
        end_tree(None, folder, 2.0)


def forget(folder):
    if status(folder)["state"] == "running":
        sys.exit("the job still runs")
    clear_lost(folder)
    shutil.rmtree(folder, ignore_errors=True)
    return {"state": "absent"}


if __name__ == "__main__":
    try:
        main(sys.argv)
    except Refused as refusal:
        print(refusal, file=sys.stderr)
        sys.exit(64)
