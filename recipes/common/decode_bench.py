"""The fixed decode benchmark: a client for SGLang, OpenAI-compatible and llama.cpp servers.

Decodes fixed prompts greedily to a fixed length, streamed, and prints one JSON document as its last line: one entry
per repetition with decode and total speed, time to first token, inter-token latencies, and, under speculation, accept
length and steps per second. Standard library only, Python >= 3.8; it lives outside the measured tree, so that the
measure stays the same while the measured thing changes.

    python3 decode_bench.py --url http://127.0.0.1:30000 --api sglang --tokens 256 --concurrency 1
"""

import argparse
import concurrent.futures
import hashlib
import http.client
import itertools
import json
import random
import sys
import time
import urllib.parse

ACCEPTED_DRAFTS = ("spec_num_correct_drafts", "spec_accepted_drafts", "spec_accept_token_num")
"""One field, as its name moved between SGLang's releases."""


class ServerError(Exception):
    """The server did not answer as it should: one sentence."""


def main():
    options = parse()
    prompts = load_prompts(options)
    warmup = [fastest(options, prompts) for _ in range(options.warmup)]
    counted = [fastest(options, prompts) for _ in range(options.repetitions)]
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
    parser.add_argument("--best-of", type=int, default=1, help="a repetition is the fastest of this many tries")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds of silence after which a request fails")
    options = parser.parse_args()
    if options.tokens < 2 or min(options.concurrency, options.repetitions, options.best_of) < 1 or options.warmup < 0:
        parser.error("--tokens needs at least 2, --concurrency, --repetitions and --best-of at least 1")
    if not options.url.startswith("http://"):
        parser.error("--url needs http://: the benchmark runs beside the server")
    if bool(options.prompts) == bool(options.input_ids):
        parser.error("give one of --prompts FILE and --input-ids N")
    return options


def load_prompts(options):
    """Return one prompt per concurrent request: texts from the file, or seeded ids."""
    if options.input_ids:
        drawn, length = random.Random(options.seed), range(options.input_ids)
        return [[drawn.randrange(1, options.vocabulary) for _ in length] for _ in range(options.concurrency)]
    with open(options.prompts, encoding="utf-8") as file:
        texts = [text.strip() for text in file.read().split("\n---\n") if text.strip()]
    if not texts:
        sys.exit("%s holds no prompt" % options.prompts)
    return [texts[i % len(texts)] for i in range(options.concurrency)]


def fastest(options, prompts):
    """Return the answers of the try that took the shortest time: what a shared CPU disturbs only gets slower."""
    tries = [repetition(options, prompts) for _ in range(options.best_of)]
    return min(tries, key=lambda answers: sum(duration(answer) for answer in answers))


def duration(answer):
    """Return a request's seconds as the server timed them, else from sending it to its last token."""
    said = answer["facts"].get("e2e_latency")
    timed = isinstance(said, (int, float)) and said > 0
    return said if timed else answer["arrivals"][-1][0] - answer["sent"]


def repetition(options, prompts):
    """Send all prompts at once; return the list of their answers. Exits with one sentence when one fails."""
    try:
        if len(prompts) == 1:
            return [request(options, prompts[0])]
        with concurrent.futures.ThreadPoolExecutor(len(prompts)) as pool:
            return list(pool.map(lambda prompt: request(options, prompt), prompts))
    except (OSError, http.client.HTTPException, ServerError) as error:
        sys.exit("%s: %s" % (options.url, " ".join(str(error).split()) or type(error).__name__))
    except (AttributeError, KeyError, TypeError) as error:
        sys.exit("%s: the answer is not as '%s' servers give it: %r" % (options.url, options.api, error))


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
        kind = reply.getheader("Content-Type", "")
        if reply.status != 200 or "event-stream" not in kind:
            words = reply.read(300).decode(errors="replace")
            raise ServerError("status %d, '%s' in place of an event stream: %s" % (reply.status, kind, words))
        return read_stream(reply, read, sent)
    finally:
        connection.close()


def read_stream(reply, read, sent):
    """Follow a stream to its end; `read` turns one event into (tokens so far or None, facts, is it the last)."""
    answer = {"sent": sent, "arrivals": [], "facts": {}, "output": "", "done": False}
    for data in events(reply):
        now = time.perf_counter()
        if data == "[DONE]":
            answer["done"] = True
            continue  # to the stream's own end: a server need not see its connection broken off
        event = parsed(data)
        count, facts, ended = read(event, answer)
        answer["facts"].update(facts)
        if count is not None and count > so_far(answer):
            answer["arrivals"].append((now, count))
        answer["done"] = answer["done"] or ended
    if not answer["done"]:
        raise ServerError("the stream ended before its end, after %d pieces" % len(answer["arrivals"]))
    if len(answer["arrivals"]) < 2:
        raise ServerError("all tokens came in one piece: a decode speed cannot be read from that")
    # Where events carry no counts each was taken for one token; the final count says how many there really were.
    moment, count = answer["arrivals"][-1]
    answer["arrivals"][-1] = (moment, max(count, answer["facts"].get("completion_tokens") or 0))
    return answer


def so_far(answer):
    return answer["arrivals"][-1][1] if answer["arrivals"] else 0


def parsed(data):
    """Return an event's JSON object; raises `ServerError` for anything else, and for an error of the server's."""
    try:
        event = json.loads(data)
    except ValueError:
        event = None
    if not isinstance(event, dict):
        raise ServerError("an event is no JSON object: %s" % data[:200])
    if event.get("error"):
        raise ServerError("the server said in mid-stream: %s" % json.dumps(event["error"])[:300])
    return event


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


def sglang(options, prompt):
    what = {"text": prompt} if isinstance(prompt, str) else {"input_ids": prompt}
    sampling = {"max_new_tokens": options.tokens, "temperature": 0, "ignore_eos": True}
    return "/generate", dict(what, sampling_params=sampling, stream=True), read_sglang


def read_sglang(event, answer):
    """Native events are cumulative: text or ids so far, and `meta_info` with the tokens so far."""
    about = event.get("meta_info") or {}
    new = event.get("text") or event.get("output_ids") or ""
    old = answer["output"] or type(new)()
    # Some releases and options send only what is new.
    answer["output"] = new if new[: len(old)] == old else old + new
    return about.get("completion_tokens"), about, False


def openai(options, prompt):
    sampling = {"max_tokens": options.tokens, "temperature": 0, "ignore_eos": True}
    stream = {"stream": True, "stream_options": {"include_usage": True, "continuous_usage_stats": True}}
    return "/v1/completions", dict(sampling, model=options.model, prompt=prompt, **stream), read_openai


def read_openai(event, answer):
    """Events carry new text; a running usage count where the server sends one, else each event is one token."""
    choices, usage, facts = event.get("choices") or [], event.get("usage") or {}, {}
    answer["output"] += "".join(choice.get("text") or "" for choice in choices)
    if usage:
        facts = {"completion_tokens": usage.get("completion_tokens")}
        facts["cached_tokens"] = (usage.get("prompt_tokens_details") or {}).get("cached_tokens")
    if not choices:
        return None, facts, False
    return usage.get("completion_tokens") or so_far(answer) + 1, facts, False


def llamacpp(options, prompt):
    sampling = {"n_predict": options.tokens, "temperature": 0, "ignore_eos": True}
    return "/completion", dict(sampling, prompt=prompt, cache_prompt=False, stream=True), read_llamacpp


def read_llamacpp(event, answer):
    """Events carry new text; the last one has `stop` and the timings."""
    answer["output"] += event.get("content", "")
    if event.get("stop"):
        timings = event.get("timings") or {}
        total = event.get("tokens_predicted", timings.get("predicted_n"))
        return None, {"completion_tokens": total, "cached_tokens": timings.get("cache_n")}, True
    return event.get("tokens_predicted") or so_far(answer) + len(event.get("tokens") or [0]), {}, False


APIS = {"sglang": sglang, "openai": openai, "llamacpp": llamacpp}


def document(options, warmup, counted):
    """Return what is printed: figures per repetition, guards, findings, and a digest of each prompt's output."""
    lengths, cached = [], []
    for answer in itertools.chain(*counted):
        got, hit = answer["arrivals"][-1][1], answer["facts"].get("cached_tokens")
        lengths += ["%d tokens came, %d were asked" % (got, options.tokens)] if got != options.tokens else []
        cached += ["%d prompt tokens came from a cache" % hit] if hit else []
    outputs = [[digest(answer["output"]) for answer in answers] for answers in counted]
    figures = [numbers(answers) for answers in counted]
    return {
        "repetitions": figures,
        "warmup": [numbers(answers) for answers in warmup],
        "guards": {
            "tokens_as_asked": {"ok": not lengths, "detail": lengths[0] if lengths else ""},
            "nothing_cached": {"ok": not cached, "detail": cached[0] if cached else ""},
        },
        "findings": findings(outputs, figures),
        "output_digest": " ".join(outputs[0]),
    }


def digest(output):
    return hashlib.sha256(json.dumps(output).encode()).hexdigest()[:16]


def findings(outputs, figures):
    """Return what is worth saying about a launch that is valid all the same."""
    said = []
    if any(output != outputs[0] for output in outputs):
        said.append("greedy outputs differ between repetitions")
    accepted = [r["accept_length"] for r in figures if "accept_length" in r]
    if accepted and max(accepted) <= 1.0:
        said.append("the accept length is 1.0 throughout: no draft token was ever accepted")
    return said


def numbers(answers):
    """Return one repetition's figures. Decode speed is tokens after the first arrival over the time they took.

    The request speed is tokens over the whole time of a request: a late first arrival cannot flatter it.
    """
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
        "request_tok_s": sum(a["arrivals"][-1][1] / duration(a) for a in answers) / len(answers),
        "ttft_s": max(firsts),
        "itl_p50_s": gaps[len(gaps) // 2],
        "itl_p99_s": gaps[min(len(gaps) - 1, int(len(gaps) * 0.99))],
    }
    return dict(found, **speculation(answers, found["decode_tok_s"]))


def speculation(answers, rate):
    """Return accept length and steps per second, whose product is the decode speed; nothing without speculation."""
    lengths = [length for length in (accept_length(a["facts"]) for a in answers) if length]
    if not lengths:
        return {}
    length = sum(lengths) / len(lengths)
    return {"accept_length": length, "steps_s": rate / length}


def accept_length(facts):
    """Return tokens per step, as the server says it, else from its counts; None without speculation."""
    if facts.get("spec_accept_length"):
        return float(facts["spec_accept_length"])
    total, steps = facts.get("completion_tokens") or 0, facts.get("spec_verify_ct")
    accepted = [facts[name] for name in ACCEPTED_DRAFTS if facts.get(name) is not None]
    if not steps and accepted:
        steps = total - accepted[0]  # each step gives the accepted drafts and one token of its own
    return total / steps if steps and steps > 0 else None


if __name__ == "__main__":
    main()
