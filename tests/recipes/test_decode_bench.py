"""The fixed decode client against every stream shape that servers are known to produce."""

import argparse
import ast
import json
import shutil
import subprocess
import threading
import time
from pathlib import Path

import pytest

DONE = "data: [DONE]\n\n"


def native(count, text="", **facts):
    return {"text": text, "meta_info": {"completion_tokens": count, "cached_tokens": 0, **facts}}


def one_by_one(tokens=4, **facts):
    return [*(native(n, "x" * n, **facts) for n in range(1, tokens + 1)), DONE]


def result(done):
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def answer(*arrivals, sent=10.0, output="", **facts):
    """One request's answer as the client keeps it: (seconds after it was sent, tokens so far)."""
    return {"sent": sent, "arrivals": [(sent + t, n) for t, n in arrivals], "facts": facts, "output": output}


# -- arithmetic -----------------------------------------------------------------------------------------------


def test_the_first_token_counts_for_the_first_time_and_the_rest_for_the_speed(client):
    figures = client.numbers([answer((0.5, 1), (0.6, 2), (0.7, 3), (1.0, 4))])
    assert figures == pytest.approx(
        {
            "decode_tok_s": 3 / 0.5,
            "request_tok_s": 4,
            "total_tok_s": 3 / 0.5,
            "ttft_s": 0.5,
            "itl_p50_s": 0.1,
            "itl_p99_s": 0.3,
        }
    )


def test_a_late_first_token_cannot_flatter_the_speed_of_whole_requests(client):
    prompt, late = answer((0.5, 1), (1.0, 6)), answer((0.9, 1), (1.0, 6))
    assert client.numbers([late])["decode_tok_s"] == pytest.approx(50)
    assert client.numbers([late])["request_tok_s"] == client.numbers([prompt])["request_tok_s"] == pytest.approx(6)


def test_the_servers_own_time_of_a_request_goes_before_the_clients(client):
    figures = client.numbers([answer((0.5, 1), (1.0, 6), e2e_latency=0.75)])
    assert figures["request_tok_s"] == pytest.approx(8)
    assert client.numbers([answer((0.5, 1), (1.0, 6), e2e_latency="?")])["request_tok_s"] == pytest.approx(6)


def test_a_repetition_is_the_fastest_of_its_tries(server, bench):
    server.answers = [one_by_one(e2e_latency=latency) for latency in (9.0, 4.0, 1.0, 2.0)]
    said = result(bench("--warmup", "1", "--repetitions", "1", "--best-of", "2"))
    assert len(server.asked) == 4
    assert [one["request_tok_s"] for one in said["warmup"]] == [1.0]  # 4 tokens in 4 s
    assert [one["request_tok_s"] for one in said["repetitions"]] == [4.0]


def test_a_piece_of_several_tokens_counts_as_that_many(client):
    figures = client.numbers([answer((0.5, 1), (0.9, 5), (1.0, 6))])
    assert figures["decode_tok_s"] == pytest.approx(5 / 0.5)
    assert figures["itl_p50_s"] == pytest.approx(0.1)


def test_total_speed_runs_from_the_first_to_the_last_token_of_all_requests(client):
    figures = client.numbers([answer((0.5, 1), (1.5, 11)), answer((1.5, 1), (2.5, 11))])
    assert figures["decode_tok_s"] == pytest.approx(10)
    assert figures["total_tok_s"] == pytest.approx(20 / 2)
    assert figures["ttft_s"] == pytest.approx(1.5)


@pytest.mark.parametrize(
    "facts",
    [
        {"spec_accept_length": 2.5},
        {"spec_verify_ct": 4},
        {"spec_accept_token_num": 6},
        {"spec_accepted_drafts": 6},
        {"spec_num_correct_drafts": 6, "spec_num_proposed_drafts": 12},
    ],
    ids=lambda facts: next(iter(facts)),
)
def test_accept_length_times_steps_is_the_speed_under_every_name_of_the_fields(client, facts):
    figures = client.numbers([answer((0.5, 1), (1.4, 10), completion_tokens=10, **facts)])
    assert figures["accept_length"] == pytest.approx(2.5)
    assert figures["accept_length"] * figures["steps_s"] == pytest.approx(figures["decode_tok_s"])


def test_without_speculation_no_accept_length_is_made_up(client):
    assert "accept_length" not in client.numbers([answer((0.5, 1), (1.4, 10), completion_tokens=10)])


def test_seeded_ids_are_the_same_every_time_and_differ_between_requests(client):
    options = argparse.Namespace(input_ids=16, vocabulary=100, seed=7, concurrency=2)
    first, second = client.load_prompts(options)
    assert client.load_prompts(options) == [first, second]
    assert first != second
    assert len(first) == 16


# -- stream shapes --------------------------------------------------------------------------------------------


def test_one_token_a_piece(server, bench):
    server.pieces = one_by_one()
    said = result(bench())
    assert len(said["repetitions"]) == 2
    assert len(said["warmup"]) == 1
    assert all(guard["ok"] for guard in said["guards"].values())
    assert said["findings"] == []
    path, body = server.asked[0]
    assert path == "/generate"
    assert body["sampling_params"] == {"max_new_tokens": 4, "temperature": 0, "ignore_eos": True}
    assert len(body["input_ids"]) == 8


def test_two_events_in_one_piece_and_comment_lines(server, bench):
    events = [f"data: {json.dumps(native(n))}\n\n" for n in (1, 2, 3, 4)]
    server.pieces = [
        ": ping\n\n",
        events[0],
        events[1] + events[2],
        "event: x\r\n" + events[3].replace("\n", "\r\n"),
        DONE,
    ]
    assert result(bench())["guards"]["tokens_as_asked"]["ok"]


def test_cumulative_and_incremental_text_give_the_same_digest(server, bench):
    server.pieces = [native(1, "a"), native(2, "ab"), native(4, "abcd"), DONE]
    cumulative = result(bench())
    server.pieces = [native(1, "a"), native(2, "b"), native(4, "cd"), DONE]
    assert result(bench())["output_digest"] == cumulative["output_digest"]
    server.pieces = [native(1, "a"), native(2, "ab"), native(4, "abxx"), DONE]
    assert result(bench())["output_digest"] != cumulative["output_digest"]


def test_token_ids_in_place_of_text_are_digested(server, bench):
    server.pieces = [{"output_ids": [5] * n, "meta_info": {"completion_tokens": n}} for n in (1, 4)] + [DONE]
    first = result(bench())["output_digest"]
    server.pieces = [{"output_ids": [6] * n, "meta_info": {"completion_tokens": n}} for n in (1, 4)] + [DONE]
    assert result(bench())["output_digest"] != first


def test_each_prompt_has_its_digest_and_texts_come_from_the_file(server, bench, tmp_path):
    (tmp_path / "prompts").write_text("One fine day\n---\nAnother day\n")
    server.pieces = one_by_one()
    said = result(bench("--concurrency", "3", prompt=("--prompts", tmp_path / "prompts")))
    assert len(said["output_digest"].split()) == 3
    texts = sorted(body["text"] for _, body in server.asked[:3])
    assert texts == ["Another day", "One fine day", "One fine day"]


def test_a_slow_first_byte_is_time_to_first_token(server, bench):
    server.pieces = [lambda: time.sleep(0.2), *one_by_one()]
    assert all(r["ttft_s"] >= 0.2 for r in result(bench())["repetitions"])


def test_too_few_tokens_and_cached_prompts_fail_their_guards(server, bench):
    server.pieces = [native(1), native(3, cached_tokens=6), DONE]
    guards = result(bench())["guards"]
    assert guards["tokens_as_asked"] == {"ok": False, "detail": "3 tokens came, 4 were asked"}
    assert guards["nothing_cached"] == {"ok": False, "detail": "6 prompt tokens came from a cache"}


def test_missing_fields_are_no_reason_to_stop(server, bench):
    server.pieces = [
        {"text": "a"},
        {"meta_info": {"completion_tokens": 1}},
        {"meta_info": {"completion_tokens": 4}},
        DONE,
    ]
    assert result(bench())["guards"]["tokens_as_asked"]["ok"]


def test_drafts_that_are_never_accepted_are_a_finding(server, bench):
    server.pieces = one_by_one(spec_accept_length=1.0)
    assert "no draft token was ever accepted" in result(bench())["findings"][0]


def test_outputs_that_differ_between_repetitions_are_a_finding(server, bench):
    words = iter("abcdefgh")
    server.pieces = [lambda: server.pieces.__setitem__(1, native(1, next(words))), None, native(4, "z"), DONE]
    assert result(bench())["findings"] == ["greedy outputs differ between repetitions"]


# -- other servers --------------------------------------------------------------------------------------------


def chunk(text, tokens=None):
    usage = {"completion_tokens": tokens, "prompt_tokens": 8} if tokens else None
    return {"choices": [{"text": text}], "usage": usage}


LAST = {"choices": [], "usage": {"completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 0}}}


def test_openai_with_a_running_count(server, bench):
    server.pieces = [chunk("a", 1), chunk("bcd", 4), LAST, DONE]
    said = result(bench("--model", "m", api="openai"))
    assert said["guards"]["tokens_as_asked"]["ok"]
    path, body = server.asked[0]
    assert (path, body["model"], body["max_tokens"], body["ignore_eos"]) == ("/v1/completions", "m", 4, True)


def test_openai_without_a_running_count_is_put_right_by_the_last_one(server, bench):
    server.pieces = [chunk("a"), chunk("bcd"), LAST, DONE]
    assert result(bench(api="openai"))["guards"]["tokens_as_asked"]["ok"]


def test_openai_says_what_was_cached(server, bench):
    cached = {"completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 5}}
    server.pieces = [chunk("a"), chunk("bcd"), {"choices": [], "usage": cached}, DONE]
    assert not result(bench(api="openai"))["guards"]["nothing_cached"]["ok"]


def test_llamacpp(server, bench):
    end = {"content": "", "stop": True, "tokens_predicted": 4, "timings": {"predicted_n": 4}}
    server.pieces = [{"content": c, "stop": False} for c in "abcd"] + [end]
    said = result(bench(api="llamacpp"))
    assert said["guards"]["tokens_as_asked"]["ok"]
    path, body = server.asked[0]
    assert (path, body["n_predict"], body["cache_prompt"]) == ("/completion", 4, False)


def test_llamacpp_that_stops_early_fails_the_guard(server, bench):
    end = {"content": "", "stop": True, "timings": {"predicted_n": 2, "cache_n": 3}}
    server.pieces = [{"content": c, "tokens": [1]} for c in "ab"] + [end]
    guards = result(bench(api="llamacpp"))["guards"]
    assert (guards["tokens_as_asked"]["ok"], guards["nothing_cached"]["ok"]) == (False, False)


# -- what is no measurement: exit 1 and one sentence ----------------------------------------------------------


def refused(done):
    assert done.returncode == 1
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    (sentence,) = done.stderr.splitlines()
    return sentence


@pytest.mark.parametrize(
    ("pieces", "words"),
    [
        ([native(1), {"error": {"message": "out of memory"}}, DONE], "out of memory"),
        ([native(1), native(2)], "the stream ended before its end, after 2 pieces"),
        ([native(4), DONE], "all tokens came in one piece"),
        ([DONE], "all tokens came in one piece"),
        ([native(1), "data: {not json\n\n", DONE], "no JSON object: {not json"),
        ([native(1), "data: [1]\n\n", DONE], "no JSON object: [1]"),
        ([{"meta_info": {"completion_tokens": "two"}}, DONE], "not as 'sglang' servers give it"),
    ],
    ids=["error in mid-stream", "truncated", "in one piece", "empty", "no JSON", "no object", "no number"],
)
def test_what_is_no_measurement_is_one_sentence(server, bench, pieces, words):
    server.pieces = pieces
    assert words in refused(bench())


def test_a_connection_that_breaks(server, bench):
    server.pieces, server.cut = [native(1), native(2)], True
    assert server.url in refused(bench())


def test_a_wrong_content_type(server, bench):
    server.kind, server.pieces = "text/html", ["<h1>hello</h1>"]
    assert "'text/html' in place of an event stream: <h1>hello</h1>" in refused(bench())


def test_a_refusal_is_quoted_on_one_line(server, bench):
    server.status, server.kind, server.pieces = 400, "application/json", ['{"error":\n "too long"}']
    assert "status 400" in (sentence := refused(bench()))
    assert "too long" in sentence


def test_silence_ends_the_wait(server, bench):
    gate = threading.Event()
    server.pieces = [native(1), gate.wait]
    sentence = refused(bench("--timeout", "0.3"))
    gate.set()
    assert "timed out" in sentence


def test_no_server(server, bench):
    server.url = "http://127.0.0.1:1"
    assert "127.0.0.1:1: [Errno" in refused(bench())


@pytest.mark.parametrize(
    "words", [("--tokens", "1"), ("--repetitions", "0"), ("--prompts", "x"), ("--url", "https://x")]
)
def test_senseless_options_are_refused(bench, words):
    assert bench(*words).returncode == 2


def interpreters():
    """Return every other python3 >= 3.8 of this machine, the ones of pyenv too; ours is used by all tests here."""
    names = [f"python3.{minor}" for minor in range(8, 20)]
    found = [*filter(None, map(shutil.which, names))]
    found += map(str, Path("~/.pyenv/versions").expanduser().glob("3.*/bin/python3"))
    versions = {}
    for path in found:
        done = subprocess.run(
            [path, "-c", "import sys; print(*sys.version_info[:2])"], capture_output=True, check=False
        )
        if done.returncode == 0 and (version := tuple(map(int, done.stdout.split()))) >= (3, 8):
            versions.setdefault(version, path)
    return [pytest.param(path, id=f"{a}.{b}") for (a, b), path in sorted(versions.items())]


@pytest.mark.parametrize("python", interpreters())
def test_it_runs_under_every_interpreter(server, bench, python):
    server.pieces = one_by_one()
    assert len(result(bench(python=python))["repetitions"]) == 2


def test_it_uses_nothing_newer_than_the_oldest(client):
    """Syntax alone, where the oldest interpreter is not at hand."""
    ast.parse(Path(client.__file__).read_text(), feature_version=(3, 8))
