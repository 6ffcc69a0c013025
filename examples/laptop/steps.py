"""What each commit of the demo repository changes: small edits of the template's files, in order."""

SERVER, WRAPPER = "pocketlm/server.py", "pocketlm/pocket.py"
TAGS = ("good", "rewrite", "upstream")


def edit(path, old, new):
    """Return a change that replaces `old`, which must be there once."""

    def change(folder):
        file = folder / path
        text = file.read_text()
        if text.count(old) != 1:
            raise ValueError(f"{path} has {old!r} {text.count(old)} times")
        file.write_text(text.replace(old, new))

    return change


def append(path, text):
    """Return a change that adds text at the end of a file (made where it is missing)."""

    def change(folder):
        file = folder / path
        file.write_text((file.read_text() if file.exists() else "") + text)

    return change


def nothing(_folder):
    """Change nothing: the first commit is the template itself."""


slow = edit(
    "pocketlm/layers.py",
    "        weights = np.exp(scores - scores.max())\n",
    "        weights = np.exp(scores - scores.max())\n"
    "        # How concentrated the attention is: one over the number of positions that it rests on.\n"
    "        self.focus = float(weights @ weights / weights.sum() ** 2)\n",
)
"""Make each token cost about 6 % more: real work, for a number that nobody reads."""

model_name = edit(SERVER, '"text": "",\n', '"text": "",\n            "model": "pocket",\n')

REWRITTEN = '''"""The model as the server sees it: a wrapper around the language model, ready for more than text."""

from pocketlm.language_model import LanguageModel
from pocketlm.sampler import greedy


class PocketForCausalLM:
    """Wraps the language model; towers for other modalities are registered by name."""

    def __init__(self, seed=0):
        self.language_model = LanguageModel(seed)
        self.towers = {}

    def new_cache(self):
        return self.language_model.new_cache()

    def decode(self, token, caches, position):
        return greedy(self.language_model.logits(token, caches, position))

    def prefill(self, tokens, caches):
        for position, token in enumerate(tokens):
            logits = self.language_model.logits(token, caches, position)
        return greedy(logits)

    def register_tower(self, name, tower):
        self.towers[name] = tower
'''

UPSTREAM = """
    # -- speculation: a draft shares what the wrapped model owns

    def get_embed_and_head(self):
        inner = self.language_model
        return inner.get_embed_and_head()

    def set_embed_and_head(self, embed, head):
        inner = self.language_model
        inner.set_embed_and_head(embed, head)

    def set_draft_layers_to_capture(self, layers):
        inner = self.language_model
        inner.set_draft_layers_to_capture(layers)
"""


def rewrite(folder):
    (folder / WRAPPER).write_text(REWRITTEN)


# (name, subject, change); the names "branch" and "merge" steer, a name in TAGS is tagged.
HISTORY = (
    ("first", "pocketlm: a language model that fits in a pocket", nothing),
    ("good", "docs: how to start it", append("README.md", "\nIt answers /health with 200 once it is loaded.\n")),
    ("docs-1", "docs: endpoints", append("README.md", "\nEndpoints: /health, /generate.\n")),
    (
        "cache-note",
        "layers: say what a cache holds",
        edit(
            "pocketlm/layers.py",
            "    def new_cache(self):\n",
            "    def new_cache(self):\n        # keys, then values\n",
        ),
    ),
    (
        "log-time",
        "server: name the default port",
        append("pocketlm/settings.py", '"""Defaults."""\n\nPORT = 30000\n'),
    ),
    ("docs-2", "docs: licence", append("LICENCE", "Do what you like.\n")),
    ("branch", "", nothing),
    (
        "branch-1",
        "batching: where requests will wait",
        append("pocketlm/batching.py", '"""Where requests wait."""\n\nLIMIT = 8\n'),
    ),
    ("branch-2", "batching: a queue", append("pocketlm/batching.py", "\n\ndef queue():\n    return []\n")),
    (
        "branch-3",
        "batching: its size",
        append("pocketlm/batching.py", "\n\ndef full(waiting):\n    return len(waiting) >= LIMIT\n"),
    ),
    ("merge", "Merge batching", nothing),
    (
        "limits",
        "server: refuse empty prompts",
        edit(
            SERVER,
            "        with LOCK:\n",
            "        if not tokens:\n"
            '            return self.reply(400, {"error": "no prompt"})\n'
            "        with LOCK:\n",
        ),
    ),
    ("docs-3", "docs: batching", append("README.md", "\nRequests are answered one after another.\n")),
    (
        "broken-1",
        "server: count requests",
        edit(
            SERVER,
            "from pocketlm.pocket import",
            "from pocketlm.counters import REQUESTS\nfrom pocketlm.pocket import",
        ),
    ),
    (
        "broken-2",
        "server: show the count",
        edit(SERVER, "self.reply(200 if STATE", "self.reply(200 if REQUESTS is not None and STATE"),
    ),
    (
        "mended",
        "counters: the module that was left out",
        append("pocketlm/counters.py", '"""Counters."""\n\nREQUESTS = 0\n'),
    ),
    (
        "errors",
        "server: a reason with 404",
        edit(
            SERVER,
            '            self.reply(404, {"error": "not found"})\n\n',
            '            self.reply(404, {"error": "no such page"})\n\n',
        ),
    ),
    ("rewrite", "pocket: room for more than text", rewrite),
    (
        "after-rewrite",
        "pocket: say what a tower is",
        edit(WRAPPER, "        self.towers = {}\n", "        # name -> module\n        self.towers = {}\n"),
    ),
    ("docs-4", "docs: towers", append("README.md", "\nTowers for other modalities can be registered.\n")),
    ("usage", "settings: a limit for tokens", append("pocketlm/settings.py", "MAX_TOKENS = 1024\n")),
    ("version", "version 0.2", edit("pocketlm/__init__.py", '"0.1"', '"0.2"')),
    ("upstream", "pocket: what a draft needs from the wrapped model", append(WRAPPER, UPSTREAM)),
    ("docs-5", "docs: speculation", append("README.md", "\nStart it with --draft to speculate.\n")),
    ("late-1", "settings: a name", append("pocketlm/settings.py", 'NAME = "pocket"\n')),
    (
        "late-2",
        "server: a longer backlog",
        edit(
            SERVER,
            "class Handler(BaseHTTPRequestHandler):\n",
            "ThreadingHTTPServer.request_queue_size = 64\n\n\nclass Handler(BaseHTTPRequestHandler):\n",
        ),
    ),
    ("late-3", "version 0.3", edit("pocketlm/__init__.py", '"0.2"', '"0.3"')),
)
