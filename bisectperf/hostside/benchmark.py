"""What the benchmark printed, as samples; and whether the launch was valid. Nothing here judges the speed."""

import json
import re
import statistics

from failure import TAIL, Failed


def one_number(text, bench):
    """Return the one number in a command's output, by regular expression (its first group) or JSON path."""
    try:
        if bench["regex"]:
            return float(re.search(bench["regex"], text, re.MULTILINE).group(1))
        value = last_json(text)
        for key in bench["path"].split("."):
            value = value[int(key)] if isinstance(value, list) else value[key]
        return float(value)
    except (AttributeError, KeyError, IndexError, TypeError, ValueError):
        asked = bench["regex"] or bench["path"]
        raise Failed("wrong-output", "the benchmark printed no number at '%s'" % asked, text[-TAIL:])


def last_json(text):
    """Return the JSON document of an output: its last line, else all of it."""
    lines = [line for line in text.splitlines() if line.strip()]
    for candidate in (lines[-1] if lines else "", text):
        try:
            return json.loads(candidate)
        except ValueError:
            continue
    raise Failed("wrong-output", "the benchmark printed no JSON", text[-TAIL:])


def samples(document, metric, secondary):
    """Return the document's samples as the package's `Samples`; raises `Failed` when it is not of that form."""
    try:
        repetitions = [float(r[metric]) for r in document["repetitions"]]
        warmup = [float(r[metric]) for r in document.get("warmup", [])]
        more = {n: [float(r[n]) for r in document["repetitions"] if n in r] for n in secondary}
        findings = [str(f) for f in document.get("findings", [])]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise Failed("wrong-output", "the benchmark's JSON lacks numbers for '%s' (%r)" % (metric, error))
    if not repetitions or any(not 0 < r < float("inf") for r in repetitions):
        raise Failed("wrong-output", "the benchmark gave no positive number for '%s'" % metric)
    return {
        "repetitions": repetitions,
        "warmup": warmup,
        "secondary": {n: v for n, v in more.items() if v},
        "findings": findings,
        "output_digest": str(document.get("output_digest", "")),
    }


def check_guards(document, guards, log, log_from):
    """Raise `Failed` for what makes a launch invalid: the benchmark's own guards, then the recipe's.

    `log` is the server's log (or None); what it said before the byte `log_from` was before the benchmark.
    """
    said = document.get("guards", {})
    for name in sorted(said):
        if not said[name].get("ok", True):
            raise Failed("guard-failed", "%s: %s" % (name, said[name].get("detail", "")), guard=name)
    for guard in guards:
        check_bounds(document, guard)
        if guard.get("log_absent") and log is not None:
            check_log(guard, log, log_from)


def check_bounds(document, guard):
    name, low, high = guard["name"], guard.get("minimum"), guard.get("maximum")
    if low is None and high is None:
        return
    values = [float(r[name]) for r in document["repetitions"] if name in r]
    if not values:
        raise Failed("guard-failed", "the benchmark gave no number for '%s'" % name, guard=name)
    middle = statistics.median(values)
    if (low is not None and not middle >= low) or (high is not None and not middle <= high):
        bounds = " and ".join(word % n for word, n in (("at least %g", low), ("at most %g", high)) if n is not None)
        raise Failed("guard-failed", "'%s' is %g and must be %s" % (name, middle, bounds), guard=name)


def check_log(guard, log, log_from):
    with open(log, "rb") as file:
        file.seek(log_from)
        seen = re.search(guard["log_absent"].encode(), file.read())
    if seen:
        words = seen.group(0).decode(errors="replace")[:200]
        raise Failed("guard-failed", "the server said during the benchmark: %s" % words, guard=guard["name"])
