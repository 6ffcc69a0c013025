"""The fixed decode benchmark: a client for SGLang, OpenAI-compatible and llama.cpp servers.

Decodes fixed prompts greedily to a fixed length, streamed, and prints one JSON document as its last line: one entry
per repetition with decode and total speed, time to first token, inter-token latencies, and, under speculation, accept
length and steps per second. Standard library only, Python >= 3.8; it lives outside the measured tree, so that the
measure stays the same while the measured thing changes.

    python3 decode_bench.py --url http://127.0.0.1:30000 --api sglang --tokens 256 --concurrency 1
"""

import argparse
import hashlib
import http.client
import json
import random
import sys
import threading
import time
import urllib.parse

# Names of fields that moved between releases: the first that is there is read.
ACCEPT_LENGTH = ("spec_accept_length",)
VERIFY_STEPS = ("spec_verify_ct",)


class ServerError(Exception):
    """The server did not answer as it should: one sentence."""


def main():
    options = parse()
    prompts = load_prompts(options)
    warmup = [repetition(options, prompts) for _ in range(options.warmup)]
    counted = [repetition(options, prompts) for _ in range(options.repetitions)]
    print(json.dumps(document(options, warmup, counted)))


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--url", required=True)
    parser.add_argument("--api", choices=sorted(APIS), default="sglang")
    parser.add_argument("--model", default="default", help="model name for OpenAI-compatible servers")
    parser.add_argument("--prompts", help="text file, prompts divided by lines of three dashes")
    parser.add_argument("--input-ids", type=int, default=0, help="instead of text: this many seeded token ids")
    parser.add_argument("--vocabulary", type=int, default=30000, help="upper bound of the seeded ids")
    parser.add_argument("--tokens", type=int, default=128, help="tokens to decode per request")
    parser.add_argument("--concurrency", type=int, default=1)
    parser.add_argument("--warmup", type=int, default=1)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds of silence after which a request fails")
    return parser.parse_args()


def load_prompts(options):
    """Return one prompt per concurrent request: texts from the file, or seeded ids."""
    if options.input_ids:
        drawn = random.Random(options.seed)
        return [
            [drawn.randrange(1, options.vocabulary) for _ in range(options.input_ids)]
            for _ in range(options.concurrency)
        ]
    if not options.prompts:
        sys.exit("give --prompts FILE or --input-ids N")
    with open(options.prompts, encoding="utf-8") as file:
        texts = [text.strip() for text in file.read().split("\n---\n") if text.strip()]
    return [texts[i % len(texts)] for i in range(options.concurrency)]


# -- one repetition -------------------------------------------------------------------------------------------


def repetition(options, prompts):
    """Send all prompts at once; return the list of their answers. Exits with one sentence when one fails."""
    answers, failures = [None] * len(prompts), []

    def one(number, prompt):
        try:
            answers[number] = request(options, prompt)
        except (OSError, http.client.HTTPException, ServerError) as error:
            failures.append("request %d: %s" % (number, error or type(error).__name__))

    threads = [threading.Thread(target=one, args=item) for item in enumerate(prompts)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        sys.exit(failures[0])
    return answers


def request(options, prompt):
    """Return what one streamed request gave: arrival times with cumulative token counts, and what the server said."""
    path, body, read = APIS[options.api](options, prompt)
    where = urllib.parse.urlsplit(options.url)
    connection = http.client.HTTPConnection(where.hostname, where.port, timeout=options.timeout)
    try:
        sent = time.perf_counter()
        headers = {"Content-Type": "application/json", "Accept": "text/event-stream"}
        connection.request("POST", where.path.rstrip("/") + path, json.dumps(body), headers)
        reply = connection.getresponse()
        if reply.status != 200:
            raise ServerError("status %d: %s" % (reply.status, reply.read(300).decode(errors="replace")))
        kind = reply.getheader("Content-Type", "")
        if "event-stream" not in kind:
            raise ServerError(
                "the answer is '%s', not an event stream: %s" % (kind, reply.read(200).decode(errors="replace"))
            )
        return read_stream(reply, read, sent)
    finally:
        connection.close()


def read_stream(reply, read, sent):
    """Follow a stream to its end; `read` turns one event into (tokens so far or new, text or ids, facts)."""
    answer = {"sent": sent, "arrivals": [], "facts": {}, "output": "", "done": False}
    for data in events(reply):
        now = time.perf_counter()
        if data == "[DONE]":
            answer["done"] = True
            break
        try:
            event = json.loads(data)
        except ValueError:
            raise ServerError("an event is no JSON: %s" % data[:200])
        if "error" in event:
            raise ServerError("the server said in mid-stream: %s" % json.dumps(event["error"])[:300])
        count, facts, ended = read(event, answer)
        answer["facts"].update(facts)
        if count is not None and (not answer["arrivals"] or count > answer["arrivals"][-1][1]):
            answer["arrivals"].append((now, count))
        answer["done"] = answer["done"] or ended
    if not answer["done"]:
        raise ServerError("the stream ended before its end")
    if len(answer["arrivals"]) < 2:
        raise ServerError("all tokens came in one piece: a decode speed cannot be read from that")
    return answer


def events(reply):
    """Yield the data of each server-sent event."""
    lines = []
    while True:
        line = reply.readline()
        if not line:
            return
        text = line.decode("utf-8", errors="replace").rstrip("\r\n")
        if text.startswith("data:"):
            lines.append(text[5:].lstrip())
        elif not text and lines:
            yield "\n".join(lines)
            lines = []


# -- the servers' languages -----------------------------------------------------------------------------------


def sglang(options, prompt):
    what = {"text": prompt} if isinstance(prompt, str) else {"input_ids": prompt}
    sampling = {"max_new_tokens": options.tokens, "temperature": 0, "ignore_eos": True}
    return "/generate", dict(what, sampling_params=sampling, stream=True), read_sglang


def read_sglang(event, answer):
    """Native events are cumulative: text or ids so far, and `meta_info` with the tokens so far."""
    about = event.get("meta_info", {})
    answer["output"] = event.get("text") or json.dumps(event.get("output_ids", ""))
    return about.get("completion_tokens"), about, False


def openai(options, prompt):
    body = {
        "model": options.model,
        "prompt": prompt,
        "max_tokens": options.tokens,
        "temperature": 0,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
    }
    return "/v1/completions", body, read_openai


def read_openai(event, answer):
    """Events carry new text; a running usage count where the server sends one, else each event is one token."""
    text = "".join(choice.get("text") or "" for choice in event.get("choices", []))
    answer["output"] += text
    usage = event.get("usage") or {}
    facts = {}
    if usage:
        facts = {"prompt_tokens": usage.get("prompt_tokens"), "completion_tokens": usage.get("completion_tokens")}
        cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens")
        facts["cached_tokens"] = cached or 0
    if not event.get("choices"):
        return None, facts, False
    seen = answer["arrivals"][-1][1] if answer["arrivals"] else 0
    return usage.get("completion_tokens") or seen + 1, facts, False


def llamacpp(options, prompt):
    body = {
        "prompt": prompt,
        "n_predict": options.tokens,
        "temperature": 0,
        "ignore_eos": True,
        "cache_prompt": False,
        "stream": True,
    }
    return "/completion", body, read_llamacpp


def read_llamacpp(event, answer):
    """Events carry new text; the last one has `stop` and the timings."""
    answer["output"] += event.get("content", "")
    timings = event.get("timings") or {}
    facts = {}
    if event.get("stop"):
        total = event.get("tokens_predicted", timings.get("predicted_n"))
        facts = {"completion_tokens": total, "prompt_tokens": event.get("tokens_evaluated"), "cached_tokens": 0}
        return None, facts, True
    seen = answer["arrivals"][-1][1] if answer["arrivals"] else 0
    return event.get("tokens_predicted") or seen + max(len(event.get("tokens") or [0]), 1), facts, False


APIS = {"sglang": sglang, "openai": openai, "llamacpp": llamacpp}


# -- what is reported -----------------------------------------------------------------------------------------


def document(options, warmup, counted):
    asked, said = options.tokens, []
    cached = []
    for answers in counted:
        for answer in answers:
            got = answer["facts"].get("completion_tokens") or answer["arrivals"][-1][1]
            said += [] if got == asked else ["%s tokens came, %d were asked" % (got, asked)]
            hit = answer["facts"].get("cached_tokens") or 0
            cached += ["%d prompt tokens came from a cache" % hit] if hit else []
    digests = [hashlib.sha256("\0".join(a["output"] for a in answers).encode()).hexdigest() for answers in counted]
    findings = ["greedy outputs differ between repetitions"] if len(set(digests)) > 1 else []
    lengths = [r["accept_length"] for r in map(numbers, counted) if "accept_length" in r]
    if lengths and max(lengths) <= 1.0:
        findings.append("the accept length is 1.0 throughout: no draft token was ever accepted")
    return {
        "repetitions": [numbers(answers) for answers in counted],
        "warmup": [numbers(answers) for answers in warmup],
        "guards": {
            "tokens_as_asked": {"ok": not said, "detail": said[0] if said else ""},
            "nothing_cached": {"ok": not cached, "detail": cached[0] if cached else ""},
        },
        "findings": findings,
        "output_digest": digests[0] if digests else "",
    }


def numbers(answers):
    """Return one repetition's figures. Decode speed is tokens after the first arrival over the time they took."""
    rates, firsts, gaps = [], [], []
    for answer in answers:
        (start, n_first), (end, n_last) = answer["arrivals"][0], answer["arrivals"][-1]
        rates.append((n_last - n_first) / (end - start))
        firsts.append(start - answer["sent"])
        pairs = zip(answer["arrivals"], answer["arrivals"][1:])
        # A chunk of several tokens counts as that many equal gaps.
        gaps += [(t2 - t1) / (n2 - n1) for (t1, n1), (t2, n2) in pairs for _ in range(n2 - n1)]
    begun = min(a["arrivals"][0][0] for a in answers)
    ended = max(a["arrivals"][-1][0] for a in answers)
    tokens = sum(a["arrivals"][-1][1] - a["arrivals"][0][1] for a in answers)
    gaps.sort()
    found = {
        "decode_tok_s": sum(rates) / len(rates),
        "total_tok_s": tokens / (ended - begun),
        "ttft_s": max(firsts),
        "itl_p50_s": gaps[len(gaps) // 2],
        "itl_p99_s": gaps[min(len(gaps) - 1, int(len(gaps) * 0.99))],
    }
    return dict(found, **speculation(answers, found["decode_tok_s"]))


def speculation(answers, rate):
    """Return accept length and steps per second, whose product is the decode speed; nothing without speculation."""
    lengths = []
    for answer in answers:
        facts = answer["facts"]
        length = first(facts, ACCEPT_LENGTH)
        steps = first(facts, VERIFY_STEPS)
        if length is None and steps:
            length = facts.get("completion_tokens", 0) / steps
        if length:
            lengths.append(float(length))
    if not lengths:
        return {}
    length = sum(lengths) / len(lengths)
    return {"accept_length": length, "steps_s": rate / length}


def first(facts, names):
    return next((facts[n] for n in names if facts.get(n) is not None), None)


if __name__ == "__main__":
    main()
