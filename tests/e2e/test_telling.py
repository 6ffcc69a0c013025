"""The owner is told, no secret is, and neither can hurt the run."""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

SECRET = "a'; touch x; -value"  # noqa: S105 -- the test's own


@pytest.fixture
def inbox():
    """An HTTP server on loopback; returns its port and the list of what it was sent."""
    got = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_port, got
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_verdict_by_command_and_by_apprise(world, slower, tmp_path, inbox):
    port, got = inbox
    hook = tmp_path / "hook"
    hook.write_text(f'#!/bin/sh\nprintf "%s\\n" "$1" "$2" > {tmp_path}/told\n')
    hook.chmod(0o755)
    world.env = {"MY_INBOX": f"json://user:pa55word@127.0.0.1:{port}"}
    world.write_recipe(more=f'[notify]\nurls_from = ["MY_INBOX"]\ncommand = ["{hook}"]\n')
    done = world.start(slower[0], slower[-1])
    assert done.returncode == 0, done.stderr
    title, text = (tmp_path / "told").read_text().splitlines()
    assert title.startswith("First bad commit found: written ")
    assert slower[7][:9] in text
    assert [(m["title"], m["message"]) for m in got] == [(title, text)]
    assert "not told" not in done.stderr
    for file in Path(world.history.folder, ".git", "bisectperf", "runs").rglob("*"):
        assert file.is_dir() or b"pa55word" not in file.read_bytes()


def test_telling_that_fails_hurts_nothing(world, slower):
    world.env = {"MY_INBOX": "json://user:pa55word@127.0.0.1:1"}
    table = '[notify]\nurls_from = ["MY_INBOX", "NOT_THERE"]\ncommand = ["/no/such/hook"]\non = ["stop"]\n'
    world.write_recipe(more=table)
    done = world.start(slower[0], slower[-1], "--max-launches", "1")
    assert done.returncode == 8
    for words in ("MY_INBOX could not be reached", "NOT_THERE of [notify]", "/no/such/hook failed"):
        assert words in done.stderr
    assert "pa55word" not in done.stderr + done.stdout
    assert "not told" not in world.run("run").stderr, "a verdict was not to be told"


def test_the_same_failure_at_both_ends_needs_the_owner_and_shows_no_secret(world, slower, tmp_path):
    world.env = {"HF_TOKEN": SECRET, "EXTRA": "another-secret"}
    told = f'[notify]\ncommand = ["sh", "-c", "cat > {tmp_path}/told"]\non = ["needs-you"]\n'
    world.write_recipe(more=told)
    recipe = world.recipe_folder / "recipe.toml"
    recipe.write_text('env_from = ["HF_TOKEN", "EXTRA"]\n' + recipe.read_text())
    bench = world.recipe_folder / "bench.py"
    wrong = 'import os, sys\nsys.exit("no access with %s and %s" % (os.environ["HF_TOKEN"], os.environ["EXTRA"]))\n'
    bench.write_text(wrong)
    done = world.start(slower[0], slower[-1])
    assert done.returncode == 3
    stopped = json.loads(done.stdout)["stopped"]
    assert "both ends fail in the same way" in stopped["reason"]
    assert "no access with <HF_TOKEN> and <EXTRA>" in stopped["detail"]
    assert len([e for e in world.events() if e["event"] == "LaunchPlanned"]) == 2
    assert "both ends fail" in (tmp_path / "told").read_text()
    world.run("report")
    places = [world.folder / "host", Path(world.history.folder, ".git", "bisectperf", "runs"), tmp_path / "told"]
    said = {"bench.err", "result.json"}  # what the benchmark itself wrote, in a folder of its user alone
    files = [x for place in places for x in [place, *place.rglob("*")] if x.is_file() and x.name not in said]
    for secret in (SECRET, "another-secret"):
        assert not [file for file in files if secret.encode() in file.read_bytes()]
        assert secret not in done.stdout + done.stderr
