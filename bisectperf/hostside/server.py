"""The server of a launch: started in a session of its own, and ended with everything that it started."""

import errno
import os
import random
import signal
import socket
import subprocess
import time

from facts import gpu_memory_used
from failure import Failed
from processes import end_tree, members

STRAY = 2.0  # seconds between SIGTERM and SIGKILL for what outlives the server or the benchmark
GPU_SETTLES = 60.0  # seconds: a driver frees memory some time after its process ended
GPU_SLACK = 256  # MiB by which the memory in use may differ from before
PORT_SETTLES = 5.0  # seconds
PORTS = range(20000, 32000)


class Server(subprocess.Popen):
    """A server process in its own session, with its output in a log."""

    def __init__(self, argv, cwd, env, log):
        subprocess.Popen.__init__(
            self,
            argv,
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def ask_to_end(self, job, grace, ends):
        """Send SIGTERM to every process of the server's session and wait up to `grace` seconds for its main one."""
        until = time.monotonic() + grace
        for pid in members(job, os.getpid()):
            try:
                if os.getsid(pid) == self.pid:
                    os.kill(pid, signal.SIGTERM)
            except OSError:
                pass
        while self.poll() is None and time.monotonic() < until:
            ends.wait(until - time.monotonic())
        if self.poll() is None:
            self.kill()
            self.wait()


def end_everything(server, job, grace, ends, port, memory):
    """End `server` (or None) and all else that the job started, wherever it went.

    `memory` is what each GPU had in use before (MiB). Raises `Failed` where a process, the port or GPU memory stays:
    the host is not fit for the next launch.
    """
    if server is not None:
        server.ask_to_end(job, grace, ends)
    end_tree(None, job, STRAY)
    left = members(job, os.getpid())
    if left:
        raise Failed("leftover", "processes of the launch could not be ended: %s" % sorted(left))
    if server is not None and not settles(lambda: port_is_free(port), PORT_SETTLES):
        raise Failed("leftover", "port %d stays in use after the server ended" % port)
    if not settles(lambda: memory_is_free(memory), GPU_SETTLES):
        raise Failed("leftover", "GPU memory stays in use after the server ended")


def settles(condition, seconds):
    """Return whether `condition` comes true within `seconds`."""
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.2)
    return True


def memory_is_free(before):
    """Return whether no GPU has noticeably more memory in use than `before` (MiB)."""
    return not before or all(now <= then + GPU_SLACK for now, then in zip(gpu_memory_used(), before))


def free_port():
    """Return a port of the loopback interface that was free a moment ago.

    Servers take further ports at an offset from the one that they were given (SGLang: 10000 above), so it comes from
    where such sums are ports too, and below where Linux takes ports for outgoing connections.
    """
    for port in random.SystemRandom().sample(PORTS, 100):
        if port_is_free(port):
            return port
    raise Failed("leftover", "no free port was found between %d and %d" % (PORTS[0], PORTS[-1]))


def port_is_free(port):
    """Return whether nothing listens on a port (connections that are only winding down do not count)."""
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind(("127.0.0.1", port))
        except OSError as error:
            return error.errno != errno.EADDRINUSE
    return True
