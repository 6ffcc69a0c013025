"""A server that says what a test tells it to, and the decode client, as a module and as a program."""

import importlib.util
import json
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

CLIENT = Path(__file__).parents[2] / "recipes" / "common" / "decode_bench.py"


class Scripted(ThreadingHTTPServer):
    """Answers every POST with `pieces`: dicts become events, texts are sent as they are, callables are called.

    `answers`, where given, holds the pieces of one POST after the other.
    """

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.pieces, self.asked, self.answers = [], [], []
        self.status, self.kind, self.cut = 200, "text/event-stream", False
        self.url = f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append((self.path, body))
        self.send_response(self.server.status)
        self.send_header("Content-Type", self.server.kind)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for piece in self.server.answers.pop(0) if self.server.answers else self.server.pieces:
            if callable(piece):
                piece()
                continue
            text = piece if isinstance(piece, str) else f"data: {json.dumps(piece)}\n\n"
            self.wfile.write(b"%x\r\n%s\r\n" % (len(text.encode()), text.encode()))
        if not self.server.cut:
            self.wfile.write(b"0\r\n\r\n")
        self.close_connection = True


@pytest.fixture
def server():
    """A scripted server on loopback."""
    scripted = Scripted()
    thread = threading.Thread(target=scripted.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield scripted
    scripted.shutdown()
    scripted.server_close()
    thread.join()


@pytest.fixture(scope="session")
def client():
    """The client's functions."""
    spec = importlib.util.spec_from_file_location("decode_bench", CLIENT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def bench(server):
    """Run the client against the scripted server; return the finished process."""

    def run(*words, python=sys.executable, api="sglang", tokens=4, prompt=("--input-ids", "8")):
        argv = [python, CLIENT, "--url", server.url, "--api", api, "--tokens", str(tokens), *prompt]
        argv += ["--warmup", "1", "--repetitions", "2", *words]
        return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)

    return run
