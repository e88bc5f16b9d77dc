#!/usr/bin/env python3
"""Writes a GGUF with the shape of Llama 3.2 1B and random weights: a model larger than any cache.

    bench/peers/random_llama.py OUT.gguf [--type q4_0|q4_k]

Speed does not depend on the values of the weights, so the real ones need not be downloaded. The
vocabulary is random too: 128,256 tokens and their merges, so that tokenisation costs as much as with
the real one. The output is reproducible. Requires only Python 3.11.
"""

import argparse
import random
import struct
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "cli"))
from tiny_gguf import byte_letters, text, typed  # noqa: E402

LAYERS, DIM, HIDDEN, HEADS, KV_HEADS, HEAD_DIM = 16, 2048, 8192, 32, 8, 64
PLAIN_TOKENS, SPECIAL_TOKENS, MERGES = 128_000, 256, 280_147
ALIGNMENT = 32
AT_ONCE = 1 << 20  # blocks; random.randbytes is limited to 256 MiB

# Block types: number in GGUF, weights and bytes per block, and the f16 scales at these offsets, which
# are not random: they are small enough that products with a row keep the magnitude of the input.
TYPES = {
    "f32": (0, 1, 4, {}),
    "-f32": (0, 1, 4, {}),
    "q4_0": (2, 32, 18, {0: 5e-3}),
    "q5_0": (6, 32, 22, {0: 2.5e-3}),
    "q8_0": (8, 32, 34, {0: 2e-4}),
    "q4_k": (12, 256, 144, {0: 2e-4, 2: 1.5e-3}),
    "q6_k": (14, 256, 210, {208: 1e-5}),
}
CONSTANTS = {"f32": 1.0, "-f32": -1.0}
# As in quantised models, the tied embedding gets more bits.
EMBEDDING_TYPES = {"q4_0": "q8_0", "q4_k": "q6_k"}


def tensors(kind):
    """Yields (name, columns, rows, type)."""
    yield "token_embd.weight", DIM, PLAIN_TOKENS + SPECIAL_TOKENS, EMBEDDING_TYPES[kind]
    yield "output_norm.weight", DIM, 1, "f32"
    for layer in range(LAYERS):
        for part, columns, rows in [
            ("attn_norm", DIM, 1),
            ("attn_q", DIM, HEADS * HEAD_DIM),
            ("attn_k", DIM, KV_HEADS * HEAD_DIM),
            ("attn_v", DIM, KV_HEADS * HEAD_DIM),
            ("attn_output", HEADS * HEAD_DIM, DIM),
            ("ffn_norm", DIM, 1),
            ("ffn_gate", DIM, HIDDEN),
            ("ffn_up", DIM, HIDDEN),
            ("ffn_down", HIDDEN, DIM),
        ]:
            yield f"blk.{layer}.{part}.weight", columns, rows, "f32" if rows == 1 else kind


def blocks(kind, count, numbers):
    """Returns `count` blocks as bytes."""
    if kind in CONSTANTS:
        return struct.pack("<f", CONSTANTS[kind]) * count
    _, _, size, scales = TYPES[kind]
    data = bytearray(numbers.randbytes(count * size))
    for offset, scale in scales.items():
        low, high = struct.pack("<e", scale)
        data[offset::size] = bytes([low]) * count
        data[offset + 1 :: size] = bytes([high]) * count
    return data


def vocabulary(numbers, plain, special, most_merges):
    """Returns tokens, `plain` ones followed by `special`, and merges. Each token beyond the bytes joins
    two earlier ones, as in a trained tokenizer; additional merges produce the same tokens in other
    ways."""
    tokens = byte_letters()
    known = set(tokens)
    merges = []
    while len(tokens) < plain:
        # Mostly joins common pieces, i.e. early ones.
        pair = [tokens[int(len(tokens) * numbers.random() ** 3)] for _ in range(2)]
        joined = "".join(pair)
        if joined not in known and len(joined) <= 16:
            known.add(joined)
            tokens.append(joined)
            merges.append(" ".join(pair))
    first = set(merges)
    for token in tokens[256:]:
        for cut in range(1, len(token)):
            pair = token[:cut] + " " + token[cut:]
            if token[:cut] in known and token[cut:] in known and pair not in first:
                merges.append(pair)
    return tokens + special, merges[:most_merges]


def special_tokens(count):
    return [f"<|special_{index}|>" for index in range(count)]


def int32_array(numbers):
    """Returns the type number and the bytes of a value."""
    return 9, struct.pack(f"<IQ{len(numbers)}i", 5, len(numbers), *numbers)


def metadata(numbers):
    tokens, merges = vocabulary(numbers, PLAIN_TOKENS, special_tokens(SPECIAL_TOKENS), MERGES)
    return {
        "general.architecture": "llama",
        "general.name": "Llama 3.2 1B shape, random weights",
        "llama.block_count": LAYERS,
        "llama.context_length": 8192,
        "llama.embedding_length": DIM,
        "llama.feed_forward_length": HIDDEN,
        "llama.attention.head_count": HEADS,
        "llama.attention.head_count_kv": KV_HEADS,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "llama.attention.key_length": HEAD_DIM,
        "llama.attention.value_length": HEAD_DIM,
        "llama.rope.freq_base": 500000.0,
        "llama.rope.dimension_count": HEAD_DIM,
        "llama.vocab_size": len(tokens),
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "llama-bpe",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": int32_array([1] * PLAIN_TOKENS + [3] * SPECIAL_TOKENS),
        "tokenizer.ggml.merges": merges,
        "tokenizer.ggml.bos_token_id": PLAIN_TOKENS,
        "tokenizer.ggml.eos_token_id": PLAIN_TOKENS + 1,
    }


def write(path, values, wanted, numbers):
    """Writes a GGUF of metadata and tensors (name, columns, rows, type) with random weights. `rows` is a number, or a
    tuple of the rows of a matrix and the number of matrices."""
    infos, sizes, offset = b"", [], 0
    shapes = [(name, columns, *(rows if isinstance(rows, tuple) else (rows, 1)), of) for name, columns, rows, of in wanted]
    wanted = [(name, columns, rows * count, of) for name, columns, rows, count, of in shapes]
    for name, columns, height, count, of in shapes:
        rows = height * count
        number, weights, size, _ = TYPES[of]
        shape = [columns] if rows == 1 else [columns, rows] if count == 1 else [columns, height, count]
        infos += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, number, offset)
        sizes.append(columns * rows // weights * size)
        offset += -(-sizes[-1] // ALIGNMENT) * ALIGNMENT
    head = b"GGUF" + struct.pack("<IQQ", 3, len(wanted), len(values))
    for key, value in values.items():
        number, encoded = value if isinstance(value, tuple) else typed(value)
        head += text(key) + struct.pack("<I", number) + encoded
    head += infos
    with open(path, "wb") as file:
        file.write(head + bytes(-len(head) % ALIGNMENT))
        for (_, columns, rows, of), size in zip(wanted, sizes):
            for first in range(0, count := columns * rows // TYPES[of][1], AT_ONCE):
                file.write(blocks(of, min(AT_ONCE, count - first), numbers))
            file.write(bytes(-size % ALIGNMENT))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path", type=Path, metavar="OUT.gguf")
    parser.add_argument("--type", choices=EMBEDDING_TYPES, default="q4_0")
    options = parser.parse_args()
    numbers = random.Random(1)
    write(options.path, metadata(numbers), list(tensors(options.type)), numbers)


if __name__ == "__main__":
    main()
