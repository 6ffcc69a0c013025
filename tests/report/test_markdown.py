"""The text of an upstream issue: complete, masked, and markup only where it is ours."""

import re
from pathlib import PurePosixPath

import pytest

from bisectperf import events as ev
from bisectperf.report.markdown import code, prose, to_markdown
from bisectperf.report.mask import mask_of


def test_every_night_has_its_text(night):
    text = to_markdown(night.state(), private=False)
    assert text.startswith("# ")
    assert text.count("<details>") == text.count("</details>")
    commands = [line for line in text.split("```sh\n")[1].split("```")[0].splitlines() if line]
    assert 1 <= len(commands) <= 3
    assert all(line.startswith("bisectperf ") for line in commands)


def test_the_proof_and_the_way_back_are_there(nights):
    state = nights["first-bad"]().state()
    text = to_markdown(state, private=False)
    assert "bisectperf reproduce" in text
    assert "14 of 14 counted launches had every file on the host hashed" in text
    assert "`<tree>/serve/__init__.py`" in text
    assert sum(line.startswith("| `L0") for line in text.splitlines()) == 15
    assert state.decided.sha in text


def private_night(nights):
    script = nights["first-bad"]()
    reason = (
        f"gpu7.lab: {PurePosixPath('/', 'home', 'alice')}/models/secret-70b is gone; "
        "alice@gpu7.lab:/data/x 10.1.2.3 fe80::1:2:3:4 "
        "http://user:pw@build.corp/x?t=1 db.internal ~/notes/x"
    )
    script.void(9, reason=reason)
    script.events.append(ev.Noted(at=script.now, kind="finding", text="alice changed /scratch/alice/run on gpu7"))
    return script.state()


def test_private_names_are_masked(nights):
    state = private_night(nights)
    text = to_markdown(state, private=False)
    for secret in (
        "alice",
        "gpu7",
        "secret-70b",
        "10.1.2.3",
        "fe80",
        "corp",
        "internal",
        "/home",
        "/scratch",
        "GPU-0b7e",
    ):
        assert secret not in text, secret
    assert "NVIDIA H200" in text
    assert "host-1" in text


def test_private_names_are_shown_on_request(nights):
    text = to_markdown(private_night(nights), private=True)
    for name in ("alice", "gpu7.lab", "secret-70b", "10.1.2.3", "GPU-0b7e"):
        assert name in text


@pytest.mark.parametrize(
    "text",
    [
        "decode 884.0 tok/s at 12:34:56",
        "patch delegation: conflict in python/serve/models/kimi.py",
        "torch.cuda.OutOfMemoryError: 3/4 of 80 GiB",
        "driver 570.86.10, kernel 6.8.0-45-generic",
    ],
)
def test_what_names_nobody_is_left_alone(nights, text):
    assert mask_of(nights["first-bad"]().state())(text) == text


def test_hostile_words_stay_text(hostile_night):
    text = to_markdown(hostile_night.state(), private=False)
    outside = re.sub(r"(`+)(?!`).+?(?<!`)\1(?!`)", "", text)
    assert "<script" not in outside
    assert "<img" not in outside
    assert "\x1b" not in text
    assert "\u202e" not in text
    tables = [line for line in text.splitlines() if line.startswith("| `L0")]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in tables} == {5}


def test_nobody_is_mentioned_and_no_issue_is_closed():
    shown = prose("fixes #12, thanks @alice, see https://example.org [x](y) *b* _i_")
    assert not re.search(r"@\w|#\d|https://|(?<!\\)[\[\]*_]", shown)
    assert prose("1. first") == r"1\. first"
    assert prose("882.2 tok/s") == "882.2 tok/s"


@pytest.mark.parametrize(
    ("text", "shown"), [("a`b", "``a`b``"), ("`a", "`` `a ``"), ("a|b", r"`a\|b`"), ("", ""), ("a", "`a`")]
)
def test_code_holds_any_text(text, shown):
    assert code(text) == shown
