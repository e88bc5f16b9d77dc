#!/usr/bin/env python3
"""Writes a GGUF with a Llama shape and random weights, many times faster than bench/peers/random_llama.py, because
blocks repeat and the vocabulary is small.

    bench/h200/models.py OUT.gguf SHAPE TYPE [TYPE of the embedding] [--outliers]

SHAPE: 1b, 8b (Llama 3.2 1B, 3.1 8B; tied embeddings), moe (the shape of Qwen3 30B A3B with the
routing of Mixtral), or tiny and tiny-moe (1b and moe with two layers).
TYPE: f32, bf16, q4_0, q4_1, q5_0, q5_k, q8_0, q4_k, q6_k. Requires only Python 3.11.
--outliers: the norm weight of one of 341 columns is 8 instead of 1, so that one activation block in 25 is an outlier block
(docs/numerics.md), as in trained models; otherwise there are hardly any.
"""

import argparse
import random
import struct
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "peers"))
import random_llama as llama  # noqa: E402

PLAIN_TOKENS = {"1b": 32_000, "8b": 128_000, "tiny": 4_000, "moe": 128_000, "tiny-moe": 4_000}
MORE_TYPES = {
    "q4_1": (3, 32, 20, {0: 5e-3, 2: 3e-2}),
    "q5_0": (6, 32, 22, {0: 5e-3}),
    "q5_k": (13, 256, 176, {0: 2e-4, 2: 1.5e-3}),
    "bf16": (30, 1, 2, None),
}
REPEATED = 1 << 18  # blocks
REPEATED_BF16 = 1 << 23  # weights
OUTLIERS = 1 / 341  # of the columns
# Mixtures of experts (the shape of Qwen3 30B A3B): experts, active experts, expert width.
EXPERTS = {"moe": (128, 8, 768), "tiny-moe": (128, 8, 768)}


def with_experts(tensors, experts, hidden):
    """Yields the tensors with each dense feed-forward part replaced by a mixture."""
    for name, columns, rows, of in tensors:
        layer, _, part = name.rpartition("ffn_")
        if part == "gate.weight":
            yield f"{layer}ffn_gate_inp.weight", columns, experts, "router"
        if part in ("gate.weight", "up.weight"):
            yield name.replace(".weight", "_exps.weight"), columns, (hidden, experts), of
        elif part == "down.weight":
            yield name.replace(".weight", "_exps.weight"), hidden, (rows, experts), of
        else:
            yield name, columns, rows, of


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", metavar="OUT.gguf")
    parser.add_argument("shape", choices=PLAIN_TOKENS)
    parser.add_argument("kind", metavar="TYPE")
    parser.add_argument("embedding", nargs="?", metavar="TYPE of the embedding")
    parser.add_argument("--outliers", action="store_true")
    options = parser.parse_args()
    path, shape, kind = options.path, options.shape, options.kind
    llama.TYPES.update(MORE_TYPES)
    llama.EMBEDDING_TYPES[kind] = options.embedding or kind
    llama.PLAIN_TOKENS = PLAIN_TOKENS[shape]
    if shape == "8b":
        llama.LAYERS, llama.DIM, llama.HIDDEN, llama.HEAD_DIM = 32, 4096, 14336, 128
    elif shape == "tiny":
        llama.LAYERS = 2
    elif shape in EXPERTS:
        llama.LAYERS, llama.DIM, llama.HEADS, llama.KV_HEADS, llama.HEAD_DIM = 48, 2048, 32, 4, 128
        llama.LAYERS = 2 if shape == "tiny-moe" else 48
        llama.TYPES["router"] = (0, 1, 4, None)
    numbers = random.Random(1)
    made = {}
    # Sign, mantissa and the last bit of the exponent are random: magnitudes of 1/128 to 1/32.
    upper_bytes = bytes(0xBC if byte & 1 else 0x3C for byte in range(256))
    plain = llama.blocks

    def blocks(of, count, _):
        if of == "f32" and count < REPEATED:
            large = (options.outliers and numbers.random() < OUTLIERS for _ in range(count))
            return struct.pack(f"<{count}f", *(8.0 if is_large else 1.0 for is_large in large))
        if of == "router":
            return struct.pack(f"<{count}f", *(numbers.gauss(0, 0.05) for _ in range(count)))
        repeated = REPEATED_BF16 if of == "bf16" else REPEATED
        if of == "bf16" and of not in made:
            data = bytearray(numbers.randbytes(2 * repeated))
            data[1::2] = data[1::2].translate(upper_bytes)
            made[of] = bytes(data)
        elif of not in made:
            made[of] = bytes(plain(of, repeated, numbers))
        return (made[of] * (count // repeated + 1))[: count * llama.TYPES[of][2]]

    llama.blocks = blocks
    metadata, tensors = llama.metadata(numbers), llama.tensors(kind)
    if shape in EXPERTS:
        experts, used, hidden = EXPERTS[shape]
        metadata |= {"llama.expert_count": experts, "llama.expert_used_count": used, "llama.feed_forward_length": hidden}
        tensors = with_experts(tensors, experts, hidden)
    llama.write(path, metadata, list(tensors), numbers)


if __name__ == "__main__":
    main()
