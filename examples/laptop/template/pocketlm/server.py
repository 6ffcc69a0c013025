"""The HTTP server: /health and /generate."""

import argparse
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from pocketlm.pocket import PocketForCausalLM

LOCK = threading.Lock()
STATE = {"model": None}


def load(seed, draft):
    model = PocketForCausalLM(seed)
    if draft:
        from pocketlm.draft import Draft

        STATE["draft"] = Draft(model)
    STATE["model"] = model


def generate(tokens, count):
    """Yield the tokens of a greedy continuation."""
    model = STATE["model"]
    caches = model.new_cache()
    token = model.prefill(tokens, caches)
    yield token
    for position in range(len(tokens), len(tokens) + count - 1):
        token = model.decode(token, caches, position)
        yield token


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def reply(self, status, document):
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        if self.path == "/health":
            self.reply(200 if STATE["model"] else 503, {})
        else:
            self.reply(404, {"error": "not found"})

    def do_POST(self):
        if self.path != "/generate":
            return self.reply(404, {"error": "not found"})
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        tokens = asked.get("input_ids") or [ord(c) % 512 for c in asked["text"]]
        count = asked["sampling_params"]["max_new_tokens"]
        with LOCK:
            if asked.get("stream"):
                self.stream(tokens, count)
            else:
                begun = time.perf_counter()
                out = list(generate(tokens, count))
                self.reply(200, self.document(tokens, out, begun))

    def document(self, tokens, out, begun):
        return {
            "text": "",
            "output_ids": out,
            "meta_info": {
                "prompt_tokens": len(tokens),
                "completion_tokens": len(out),
                "cached_tokens": 0,
                "e2e_latency": time.perf_counter() - begun,
            },
        }

    def stream(self, tokens, count):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        begun = time.perf_counter()
        out = []
        for token in generate(tokens, count):
            out.append(token)
            if len(out) % 8 in (0, 1) or len(out) == count:
                self.event(json.dumps(self.document(tokens, out, begun)))
        self.event("[DONE]")
        self.wfile.write(b"0\r\n\r\n")

    def event(self, text):
        data = b"data: " + text.encode() + b"\n\n"
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--draft", action="store_true")
    options = parser.parse_args()
    server = ThreadingHTTPServer(("127.0.0.1", options.port), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    load(options.seed, options.draft)
    threading.Event().wait()


if __name__ == "__main__":
    main()
