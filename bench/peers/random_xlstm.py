#!/usr/bin/env python3
"""Writes a GGUF with the shape of xLSTM 7B and random weights, without a vocabulary.

    bench/peers/random_xlstm.py OUT.gguf [--type q4_0|q4_k] [--blocks 32]

Uses veery's own keys (docs/cli.md), because no other program has such files; for `veery bench` and
`plan`. Requires only Python 3.11.
"""

import argparse
import random
from pathlib import Path

from random_llama import EMBEDDING_TYPES, TYPES, write

BLOCKS, DIM, HIDDEN, HEADS, KEY_DIM, VALUE_DIM, VOCABULARY = 32, 4096, 10_944, 8, 256, 512, 50_304


def tensors(blocks, kind):
    """Yields (name, columns, rows, type), with Q5_0 for rows that are not whole Q4_K blocks, as in quantised models."""
    down = kind if HIDDEN % TYPES[kind][1] == 0 else "q5_0"
    yield "token_embd.weight", DIM, VOCABULARY, EMBEDDING_TYPES[kind]
    yield "output_norm.weight", DIM, 1, "f32"
    yield "output.weight", DIM, VOCABULARY, EMBEDDING_TYPES[kind]
    for block in range(blocks):
        for part, columns, rows, of in [
            ("attn_norm", DIM, 1, "f32"),
            ("mlstm_q", DIM, HEADS * KEY_DIM, kind),
            ("mlstm_k", DIM, HEADS * KEY_DIM, kind),
            ("mlstm_v", DIM, HEADS * VALUE_DIM, kind),
            ("mlstm_ogate", DIM, HEADS * VALUE_DIM, kind),
            ("mlstm_igate", DIM, HEADS, "q8_0"),
            ("mlstm_fgate", DIM, HEADS, "q8_0"),
            ("mlstm_norm", HEADS * VALUE_DIM, 1, "f32"),
            ("mlstm_out", HEADS * VALUE_DIM, DIM, kind),
            ("ffn_norm", DIM, 1, "f32"),
            ("ffn_gate", DIM, HIDDEN, kind),
            ("ffn_up", DIM, HIDDEN, kind),
            ("ffn_down", HIDDEN, DIM, down),
        ]:
            yield f"blk.{block}.{part}.weight", columns, rows, of
        for part in ("mlstm_igate", "mlstm_fgate"):
            yield f"blk.{block}.{part}.bias", HEADS, 1, "f32"


def metadata(blocks):
    keys = {
        "block_count": blocks,
        "context_length": 1 << 20,
        "embedding_length": DIM,
        "feed_forward_length": HIDDEN,
        "attention.layer_norm_rms_epsilon": 1e-6,
        "mlstm.head_count": HEADS,
        "mlstm.key_length": KEY_DIM,
        "mlstm.value_length": VALUE_DIM,
        "mlstm.gate_softcapping": 15.0,
        "mlstm.divisor_epsilon": 1e-6,
        "final_logit_softcapping": 30.0,
        "vocab_size": VOCABULARY,
    }
    return {
        "general.architecture": "xlstm",
        "general.name": f"xLSTM 7B shape, {blocks} blocks, random weights",
        "tokenizer.ggml.model": "none",
    } | {f"xlstm.{key}": value for key, value in keys.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path", type=Path, metavar="OUT.gguf")
    parser.add_argument("--type", choices=EMBEDDING_TYPES, default="q4_k")
    parser.add_argument("--blocks", type=int, default=BLOCKS)
    options = parser.parse_args()
    write(options.path, metadata(options.blocks), list(tensors(options.blocks, options.type)), random.Random(1))


if __name__ == "__main__":
    main()
