#!/usr/bin/env python3
"""Makes the day sketches of an export of receipts with measurements.

    python3 recompute.py EXPORT.jsonl > sketches.jsonl

Written from core/measure/MEASURES.md (sections 2, 3, 6 and 9) and the export's form in
core/seal/RECEIPT.md section 5, with Python's standard library alone. It does not check
signatures: RECEIPT.md section 9 has a verifier that does.
"""
import base64
import bisect
import datetime
import json
import math
import sys

BUCKETS = 2702
LARGEST = 10 ** 13
MOST_TOKENS = 9_223_372_036
MOST_COUNT = 2 ** 53 - 1
COUNTS = ("uncached_input_tokens", "cache_read_tokens", "cache_write_tokens", "cache_write_1h_tokens", "output_tokens", "reasoning_tokens")


def boundaries():
    b = [1]
    while len(b) < BUCKETS:
        b.append(max(b[-1] + 1, b[-1] * 101 // 100))
    return b


STARTS = boundaries()


def bucket(value):
    return bisect.bisect_right(STARTS, max(value, 1)) - 1


def varint(n):
    out = bytearray()
    while n >= 0x80:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def encoded(counts):
    """The stored bytes of a sketch, which is a count for each bucket."""
    out, last = b"\x01" + varint(sum(counts.values())), 0
    for k in sorted(counts):
        out += varint(k - last) + varint(counts[k])
        last = k
    return out


def micros(ms):
    """A time as whole microseconds; 0: it gives nothing."""
    if ms is None or not 0 < ms <= 10 ** 10:
        return 0
    return math.floor(float(ms) * 1000.0 + 0.5)


def speed(tokens, us):
    if tokens is None or tokens <= 0 or tokens > MOST_TOKENS:
        return 0
    return max(tokens * 10 ** 9 // us, 1)


def could_count(leaf, m):
    """Section 2: settled work that writes output, and that fits into a log."""
    usage = leaf.get("usage", {})
    if any(not 0 <= usage.get(name, 0) <= MOST_COUNT for name in COUNTS):
        return False
    long = len((leaf.get("provider", "") + leaf.get("model", "")).encode()) > 320 or len(leaf.get("offer", "").encode()) > 320
    return (not long and leaf.get("outcome") == "settled" and leaf.get("kind") in ("job", "probe")
            and m.get("operation", "generate") in ("generate", "completions"))


def values(leaf, m):
    usage, timing = leaf.get("usage", {}), m.get("timing", {})
    estimated = leaf.get("usage_from") in ("estimate", "mixed")
    wait = m.get("node_timing", {}).get("slot_wait_ms")
    out = {}
    first = micros(timing.get("dispatch_to_first_token_ms"))
    if first and ("node" not in leaf or wait == 0):
        fresh = timing.get("fresh_input_tokens")
        if fresh is None and ("uncached_input_tokens" in usage or "cache_write_tokens" in usage):
            fresh = usage.get("uncached_input_tokens", 0) + usage.get("cache_write_tokens", 0)
        if fresh is not None and 0 <= fresh < 1000:
            out["base_latency_ms"] = first
        elif fresh is not None and fresh >= 16000 and not estimated:
            out["prefill_tps"] = speed(fresh, first)
    window = micros(timing.get("first_token_to_end_ms"))
    arrivals = timing.get("arrivals")
    streamed = arrivals >= 4 if arrivals is not None else window >= 250_000
    if window and streamed and not estimated:
        tokens = timing.get("streamed_output_tokens")
        out["output_tps"] = speed(usage.get("output_tokens") if tokens is None else tokens, window)
    return {name: v for name, v in out.items() if v > 0}


def error(expected, actual, of):
    """An error in millionths; None: there is none."""
    expected, actual, of = float(expected), float(actual), float(of)
    if not of > 0:
        return None
    e = abs(expected - actual) / of * 1e6
    if not math.isfinite(e):
        return None
    return math.floor(min(e, float(LARGEST)) + 0.5)


def errors(leaf, m):
    usage, timing, expected = leaf.get("usage", {}), m.get("timing", {}), m.get("expected")
    out = {}
    if "predicted_wait_ms" in m and "actual_wait_ms" in m:
        out["prediction_error"] = error(m["predicted_wait_ms"], m["actual_wait_ms"], m["actual_wait_ms"])
    if expected is not None and leaf.get("usage_from") == "provider":
        read = usage.get("cache_read_tokens", 0)
        everything = usage.get("uncached_input_tokens", 0) + read + usage.get("cache_write_tokens", 0)
        fresh, cached = expected.get("fresh_input_tokens"), expected.get("cached_input_tokens", 0)
        if fresh is not None and "fresh_input_tokens" not in timing:
            out["prompt_error"] = error(fresh + cached, everything, everything)
            out["cached_error"] = error(cached, read, everything)
        if "expected_output_tokens" in expected and "output_tokens" in usage:
            out["output_error"] = error(expected["expected_output_tokens"], usage["output_tokens"], usage["output_tokens"])
    return {name: v for name, v in out.items() if v is not None}


def day(m):
    if "counted_on" in m:
        return m["counted_on"]
    text = m["settled_at"]
    at = datetime.datetime.fromisoformat(text[:19])  # whole seconds say which day it is
    zone = text[19:].lstrip(".0123456789")
    if zone != "Z":
        hours, minutes = zone[1:].split(":")
        shift = datetime.timedelta(hours=int(hours), minutes=int(minutes))
        at = at - shift if zone[0] == "+" else at + shift
    return at.date().isoformat()


def receipts(path):
    """Each receipt's leaf with its measurements."""
    leaf = None
    with open(path, encoding="utf-8") as f:
        for line in f:
            value = json.loads(line)
            if "leaf" in value:
                leaf = value["leaf"]
            elif "measurements" in value and leaf is not None and value["id"] == leaf.get("id") and "settled_at" in value["measurements"]:
                yield leaf, value["measurements"]


def main(path):
    sketches = {}
    for leaf, m in receipts(path):
        if not leaf.get("provider") or not leaf.get("model") or not could_count(leaf, m):
            continue
        on = day(m)
        found = [(name, leaf["provider"], leaf["model"], None, v) for name, v in values(leaf, m).items()]
        if leaf.get("offer"):
            found += [(name, None, None, leaf["offer"], v) for name, v in errors(leaf, m).items()]
        for name, provider, model, offer, v in found:
            counts = sketches.setdefault((on, name, provider or "", model or "", offer or ""), {})
            counts[bucket(v)] = counts.get(bucket(v), 0) + 1
    for (on, name, provider, model, offer), counts in sorted(sketches.items()):
        line = {"day": on, "measure": name, "provider": provider, "model": model, "offer": offer,
                "jobs": sum(counts.values()), "sketch": base64.b64encode(encoded(counts)).decode()}
        print(json.dumps({k: v for k, v in line.items() if v != ""}, ensure_ascii=False))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.stdout.reconfigure(encoding="utf-8")
    main(sys.argv[1])
