"""Processes: which belong to a job, and how to end all of them. Shared by the supervisor and the launch script."""

import ctypes
import os
import select
import signal
import time

from files import read

MARK = "BISECTPERF_JOB"
"""The variable that names a process's job, by the path of its folder."""
PR_SET_CHILD_SUBREAPER = 36
KILL_SECONDS = 30.0
"""After this long a killed process hangs in the kernel, as below a broken driver; waiting on would help nobody."""


def boot_id():
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except OSError:
        return ""


def start_time(pid):
    """Return the start time of a process in clock ticks since boot, or None: with the pid it names one process."""
    try:
        with open("/proc/%d/stat" % pid, "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


def namespace():
    """Return what tells the process ids of this container from those of another one."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def supervisor_of(folder):
    """Return the pid of a job's living supervisor, or None; pid, start time and boot together name one process."""
    me = read(os.path.join(folder, "supervisor.json"))
    if me and me["boot"] == boot_id() and start_time(me["pid"]) == me["start"] is not None:
        return me["pid"]
    return None


def watch(pid, seconds):
    """Block until the process ends, where this python and kernel have pidfd; return whether they do."""
    if not hasattr(os, "pidfd_open"):
        return False
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


def become_subreaper():
    """Make orphans of the job our children, so that none can hide (Linux; elsewhere the environment mark helps)."""
    try:
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    except (OSError, AttributeError):
        pass


def reap(main_pid):
    """Reap whatever has ended; return the main process's status if it was among them, else None."""
    result = None
    while True:
        try:
            pid, state = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return -signal.SIGKILL if result is None else result
        if pid == 0:
            return result
        if pid == main_pid:
            result = os.WEXITSTATUS(state) if os.WIFEXITED(state) else -os.WTERMSIG(state)


def members(job, root):
    """Return the pids that belong to the job: descendants of `root`, and whoever carries the job's mark."""
    parents, marked = {}, set()
    mark = ("%s=%s" % (MARK, job)).encode()
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        pid = int(name)
        try:
            with open("/proc/%s/stat" % name, "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
            if fields[0] in (b"Z", b"X"):
                continue
            parents[pid] = int(fields[1])
            with open("/proc/%s/environ" % name, "rb") as file:
                if mark in file.read().split(b"\0"):
                    marked.add(pid)
        except OSError:
            continue
    below, grew = {root}, True
    while grew:
        more = {pid for pid, parent in parents.items() if parent in below and pid not in below}
        below |= more
        grew = bool(more)
    return (below | marked) - {root, os.getpid(), os.getppid()}


def marked_under(root):
    """Return the pids of processes that belong to any job whose folder lies in `root`."""
    found, mark = [], ("%s=%s/" % (MARK, root.rstrip("/"))).encode()
    for name in os.listdir("/proc"):
        try:
            with open("/proc/%s/environ" % name, "rb") as file:
                if name.isdigit() and any(word.startswith(mark) for word in file.read().split(b"\0")):
                    found.append(int(name))
        except OSError:
            continue
    return found


def end_tree(main_pid, job, grace):
    """TERM, grace, KILL for everything that belongs to the job; return the main process's status.

    Returns within `grace` + `KILL_SECONDS` even where a process cannot be ended: `members` has it still.
    """
    rc, sign, told = None, signal.SIGTERM, set()
    until = time.monotonic() + grace
    last = until + KILL_SECONDS
    while True:
        got = reap(main_pid) if main_pid else reap(-1)
        rc = got if rc is None and main_pid else rc
        pids, now = members(job, os.getpid()), time.monotonic()
        if not pids or now >= last:
            return -signal.SIGKILL if rc is None else rc
        if now >= until:
            sign, told, until = signal.SIGKILL, set(), now + 1.0
        for pid in pids - told:
            try:
                os.kill(pid, sign)
            except OSError:
                pass
        told |= pids
        try:
            signal.sigtimedwait([signal.SIGCHLD], 0.05)
        except InterruptedError:
            pass
