"""Jobs that outlive their connection: one folder a job, one supervisor a job.

Verbs (the jobs folder is the first argument, the job's id the second):

    start   a JSON document on standard input: argv, env, secrets, files, cwd, timeout, grace
    status  {"state": absent|running|exited|lost, "rc", "reason", "seconds"}
    wait    the same, as soon as the job runs no more, or after the seconds given as third argument
    kill    end it and everything it started, wherever those processes went
    forget  remove the folder of a job that has ended

`exit.json`, written last and renamed into place, is the only evidence of an end. A job that was started and has
neither a living supervisor nor that file is lost. Secrets live in the environment of the job and nowhere else.
Runs under any python3 >= 3.8, standard library only.
"""

import errno
import json
import os
import re
import shutil
import signal
import sys
import time

from processes import MARK, become_subreaper, boot_id, end_tree, reap, start_time

RESERVE = 64 * 1024


def main(argv):
    verb, jobs, job = argv[1], argv[2], argv[3]
    if not re.match(r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,120}$", job):
        sys.exit("not a job id: %r" % job)
    os.umask(0o077)
    folder = os.path.join(jobs, job)
    if verb == "start":
        check_owner(jobs)
        answer = start(jobs, job, json.load(sys.stdin))
    elif verb == "wait":
        answer = wait(folder, float(argv[4]))
    else:
        answer = {"status": status, "kill": kill, "forget": forget}[verb](folder)
    print(json.dumps(answer))


def check_owner(jobs):
    """Refuse a folder that somebody else could lay files into."""
    os.makedirs(jobs, mode=0o700, exist_ok=True)
    facts = os.lstat(jobs)
    if facts.st_uid != os.getuid() or facts.st_mode & 0o022:
        sys.exit("%s belongs to another user or is writable by others" % jobs)


def write(path, value):
    """Write a small JSON file so that a reader sees all of it or none, durably."""
    aside = path + ".part"
    fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.write(fd, json.dumps(value).encode())
        os.fsync(fd)
    finally:
        os.close(fd)
    os.rename(aside, path)
    sync(os.path.dirname(path))


def sync(folder):
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def read(path):
    try:
        with open(path) as file:
            return json.load(file)
    except (OSError, ValueError):
        return None


# -- start ----------------------------------------------------------------------------------------------------


def start(jobs, job, spec):
    """Lay the folder and start the supervisor; whoever renames the folder into place is the one that starts it."""
    folder = os.path.join(jobs, job)
    if os.path.isdir(folder):
        return status(folder)
    aside = os.path.join(jobs, ".new.%s.%d" % (job, os.getpid()))
    os.mkdir(aside, 0o700)
    secrets = spec.pop("secrets", {})
    for name, text in spec.pop("files", {}).items():
        with open(os.path.join(aside, os.path.basename(name)), "w") as file:
            file.write(text)
    write(os.path.join(aside, "job.json"), spec)
    with open(os.path.join(aside, "reserve"), "wb") as file:
        file.write(b"\0" * RESERVE)
    try:
        os.rename(aside, folder)
    except OSError as error:
        if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
            raise
        shutil.rmtree(aside)
        return wait_for_supervisor(folder)
    sync(jobs)
    report, tell = os.pipe()
    if os.fork() == 0:
        os.close(report)
        detach(folder, spec, secrets, tell)
    os.close(tell)
    os.read(report, 1)  # until supervisor.json is there, or its writer is gone
    os.close(report)
    return status(folder)


def wait_for_supervisor(folder):
    """Return the status once the one who won the race has written down its supervisor."""
    for _ in range(500):
        if os.path.exists(os.path.join(folder, "supervisor.json")):
            break
        time.sleep(0.01)
    return status(folder)


def detach(folder, spec, secrets, tell):
    """Become the supervisor: own session, no terminal, no inherited descriptors."""
    os.setsid()
    if os.fork():
        os._exit(0)
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    keep = tell
    for name in os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else map(str, range(256)):
        if int(name) > 2 and int(name) != keep:
            try:
                os.close(int(name))
            except OSError:
                pass
    try:
        supervise(folder, spec, secrets, tell)
    finally:
        os._exit(0)


def supervise(folder, spec, secrets, tell):
    become_subreaper()
    me = {"pid": os.getpid(), "start": start_time(os.getpid()), "boot": boot_id()}
    write(os.path.join(folder, "supervisor.json"), me)
    os.write(tell, b"1")
    os.close(tell)
    begun = time.monotonic()
    # The supervisor reacts to TERM like to a kill request: the job must not outlive it unwatched.
    asked = False
    awaited = [signal.SIGCHLD, signal.SIGTERM]
    signal.pthread_sigmask(signal.SIG_BLOCK, awaited)
    try:
        pid = spawn(folder, spec, secrets)
    except OSError as error:
        finish(folder, {"rc": 127, "reason": "not-started", "detail": str(error)}, begun)
        return
    limit = begun + spec.get("timeout", 3600.0)
    rc, reason = None, ""
    while rc is None:
        rc = reap(pid)
        if rc is not None:
            break
        left = limit - time.monotonic()
        if asked or left <= 0:
            reason = "killed" if asked else "timeout"
            break
        seen = signal.sigtimedwait(awaited, min(left, 3600.0))
        asked = asked or (seen is not None and seen.si_signo == signal.SIGTERM)
    if rc is None:
        rc = end_tree(pid, os.path.basename(folder), spec.get("grace", 10.0))
    else:
        reason = "exited" if rc >= 0 else "signalled"
    end_tree(None, os.path.basename(folder), min(spec.get("grace", 10.0), 2.0))
    finish(folder, {"rc": rc, "reason": reason}, begun)


def spawn(folder, spec, secrets):
    """Start the job in a session of its own; return its pid. Raises `OSError` when the program cannot be run."""
    env = dict(os.environ)
    env.update(spec.get("env", {}))
    env.update(secrets)
    env[MARK] = os.path.basename(folder)
    env["BISECTPERF_JOB_FOLDER"] = folder
    env.pop("PYTHONSTARTUP", None)
    failed, tell = os.pipe()
    pid = os.fork()
    if pid:
        os.close(tell)
        words = os.read(failed, 4096)
        os.close(failed)
        if words:
            os.waitpid(pid, 0)
            raise OSError(words.decode(errors="replace"))
        return pid
    try:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        for fd, name in ((1, "stdout"), (2, "stderr")):
            file = os.open(os.path.join(folder, name), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            os.dup2(file, fd)
            os.close(file)
        os.chdir(spec.get("cwd") or folder)
        os.execvpe(spec["argv"][0], spec["argv"], env)
    except OSError as error:
        os.write(tell, ("%s: %s" % (spec["argv"][0], error.strerror)).encode())
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
    end = read(os.path.join(folder, "exit.json"))
    if end is not None:
        return {"state": "exited", "rc": end["rc"], "reason": end["reason"], "seconds": end["seconds"]}
    if not os.path.isdir(folder):
        return {"state": "absent"}
    return {"state": "running" if supervisor_of(folder) else "lost"}


def supervisor_of(folder):
    """Return the pid of the living supervisor, or None; pid, start time and boot together name one process."""
    me = read(os.path.join(folder, "supervisor.json"))
    if me and me["boot"] == boot_id() and start_time(me["pid"]) == me["start"] is not None:
        return me["pid"]
    return None


def wait(folder, seconds):
    until = time.monotonic() + seconds
    while True:
        now = status(folder)
        left = until - time.monotonic()
        if now["state"] != "running" or left <= 0:
            return now
        pid = supervisor_of(folder)
        if pid is None or not watch(pid, left):
            time.sleep(min(0.02, left))


def watch(pid, seconds):
    """Block until the process ends, where the kernel lets us (pidfd); return whether it did."""
    if not hasattr(os, "pidfd_open"):
        return False
    import select

    try:
        fd = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        poll.poll(seconds * 1000)
        return True
    finally:
        os.close(fd)


def kill(folder):
    pid = supervisor_of(folder)
    if pid is not None:
        os.kill(pid, signal.SIGTERM)
        wait(folder, (read(os.path.join(folder, "job.json")) or {}).get("grace", 10.0) + 10.0)
    if status(folder)["state"] == "lost":
        end_tree(None, os.path.basename(folder), 2.0)
    return status(folder)


def forget(folder):
    if status(folder)["state"] == "running":
        sys.exit("the job still runs")
    shutil.rmtree(folder, ignore_errors=True)
    return {"state": "absent"}


if __name__ == "__main__":
    main(sys.argv)
