#!/usr/bin/env python3
"""Measures the data that docs/performance.md shows for one model, and writes it as JSON.

    bench/performance/measure.py MODEL.gguf OUT.json [--veery PROGRAM] [-t THREADS]

Measures the time of each part of a step (`veery plan --profile`, for 1 and 256 tokens), and speed by
threads, batch size and context depth (`veery bench --sweep`). plots.py draws the results. Requires only
Python 3.11.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "bench" / "peers"))

import machine  # noqa: E402

# The part that a row of the table belongs to: the first one with a word in the weight's name.
PARTS = [
    ("q, k, v", ["attn_q", "attn_k", "attn_v"]),
    ("attention out", ["attn_output"]),
    ("gate, up", ["ffn_gate", "ffn_up"]),
    ("down", ["ffn_down"]),
    ("head", ["token_embd", "output.weight"]),
]


def run(command):
    print(" ".join(map(str, command)), file=sys.stderr, flush=True)
    done = subprocess.run(list(map(str, command)), capture_output=True, check=False)
    if done.returncode != 0:
        sys.exit(f"measure: {done.stderr.decode().strip()}")
    return json.loads(done.stdout)


def part_of(row):
    if row["op"].startswith(("linear", "fused_linear")):
        for part, words in PARTS:
            if any(word in row["detail"] for word in words):
                return part
    return "attention" if row["op"] == "attend" else "rest"


def profile(veery, model, threads, rows, repetitions):
    """Sums the profile of a run by parts."""
    plan = run([veery, "plan", model, "--profile", "--json", "--rows", rows, "-t", threads, "-r", repetitions])
    parts = {}
    for row in plan.pop("table"):
        part = parts.setdefault(part_of(row), {"dispatches": 0, "seconds": 0, "limit_seconds": 0,
                                               "weight_bytes": 0, "flops": 0, "limits": {}})  # fmt: skip
        part["dispatches"] += 1
        for key in ("seconds", "limit_seconds", "weight_bytes", "flops"):
            part[key] += row[key]
        limits = part["limits"]
        limits[row["limit"]] = limits.get(row["limit"], 0) + row["limit_seconds"]
    return {**plan, "tokens": rows, "parts": parts}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--veery", type=Path, default=REPOSITORY / "build/release/bin/veery")
    parser.add_argument("-t", "--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--tokens", type=int, default=64, help="tokens to decode per sweep point [64]")
    parser.add_argument("--depths", default="0,512,1024,2048,4096")
    parser.add_argument("--batches", default="1,2,4,8,16,32")
    parser.add_argument("-r", "--repetitions", type=int, default=3)
    options = parser.parse_args()
    bench = [options.veery, "bench", options.model, "--json", "-r", options.repetitions]
    decode = [*bench, "-p", 0, "-n", options.tokens, "-t", options.threads]
    report = {
        "model": options.model.name,
        "model_bytes": options.model.stat().st_size,
        "tree": machine.describe_tree(REPOSITORY),
        "machine": {**machine.describe(), "load_average": os.getloadavg()[0]},
        "threads": options.threads,
        "decode": profile(options.veery, options.model, options.threads, 1, 30),
        "prefill": profile(options.veery, options.model, options.threads, 256, 5),
        "batch": run([*decode, "--sweep", f"batch={options.batches}"]),
        "depth": run([*decode, "--sweep", f"depth={options.depths}"]),
        "threads_sweep": run([*bench, "-p", 512, "-n", options.tokens, "--sweep", "threads"]),
    }
    options.out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
