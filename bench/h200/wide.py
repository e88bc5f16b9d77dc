#!/usr/bin/env python3
"""Creates checkpoints of many families with random bf16 weights, 0.5 to 13 MB each.

    bench/h200/wide.py FOLDER [NAME ...]

FOLDER/NAME gets a config.json and a model.safetensors with the names, shapes and spreads of tests/fixtures/wide.json (written
by tools/oracle/make_wide.py), for all families or the named ones; `veery quantize` accepts them. Requires only Python 3.11.
"""

import json
import math
import random
import struct
import sys
from array import array
from pathlib import Path

FACTS = Path(__file__).resolve().parents[2] / "tests" / "fixtures" / "wide.json"
PERIOD = 8191  # numbers repeat after this many; a prime, so that rows differ


def numbers():
    random_numbers = random.Random(5)
    return [random_numbers.gauss(0, 1) for _ in range(2 * PERIOD)]


def filled(count, mean, deviation, start, pool):
    """Returns `count` bf16 numbers (the upper halves of f32) as bytes."""
    values = array("f", [mean + deviation * x for x in pool[start : start + min(count, PERIOD)]])
    if sys.byteorder == "big":
        values.byteswap()
    low_first = values.tobytes()
    halves = bytearray(2 * len(values))
    halves[0::2], halves[1::2] = low_first[2::4], low_first[3::4]
    return bytes(halves) * (count // len(values)) + bytes(halves[: 2 * (count % len(values))])


def make(folder, facts, pool):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(facts["config"], indent=1))
    header, parts, end = {}, [], 0
    for number, (name, (shape, mean, deviation)) in enumerate(facts["tensors"].items()):
        parts.append(filled(math.prod(shape), mean, deviation, 37 * number % PERIOD, pool))
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [end, end + len(parts[-1])]}
        end += len(parts[-1])
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    (folder / "model.safetensors").write_bytes(b"".join([struct.pack("<Q", len(text)), text, *parts]))


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__.strip())
    facts_of = json.loads(FACTS.read_text())
    names = sys.argv[2:] or list(facts_of)
    unknown = [name for name in names if name not in facts_of]
    if unknown:
        sys.exit(f"wide.py: no family {', '.join(unknown)}; there are {', '.join(facts_of)}")
    pool = numbers()
    for name in names:
        make(Path(sys.argv[1]) / name, facts_of[name], pool)


if __name__ == "__main__":
    main()
