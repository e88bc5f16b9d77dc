#!/usr/bin/env python3
"""Writes a GGUF with the shape of Gemma 4 E2B and random weights, without a vocabulary.

    bench/peers/random_gemma4.py OUT.gguf [--type q4_0|q4_k]

More than half of the file is the table of per-layer embeddings. A token reads one row of it. The
file is for runs on token ids: `veery bench`, `llama-bench`. Requires only Python 3.11.
"""

import argparse
import random
from pathlib import Path

from random_llama import EMBEDDING_TYPES, int32_array, write

LAYERS, DIM, HIDDEN, HEADS, KV_HEADS, VOCABULARY = 35, 1536, 6144, 8, 1, 262_144
HEAD_DIM, LOCAL_HEAD_DIM, WINDOW, SHARED, INPUT = 512, 256, 512, 20, 256
LOCAL = [(layer + 1) % 5 != 0 for layer in range(LAYERS)]


def tensors(kind):
    """Yields (name, columns, rows, type)."""
    yield "token_embd.weight", DIM, VOCABULARY, EMBEDDING_TYPES[kind]
    yield "per_layer_token_embd.weight", LAYERS * INPUT, VOCABULARY, kind
    yield "per_layer_model_proj.weight", DIM, LAYERS * INPUT, "q8_0"
    yield "per_layer_proj_norm.weight", INPUT, 1, "f32"
    yield "rope_freqs.weight", HEAD_DIM // 2, 1, "f32"
    yield "output_norm.weight", DIM, 1, "f32"
    for layer in range(LAYERS):
        size = LOCAL_HEAD_DIM if LOCAL[layer] else HEAD_DIM
        hidden = HIDDEN * (2 if layer >= LAYERS - SHARED else 1)
        for part, columns, rows in [
            ("attn_norm", DIM, 1),
            ("attn_q", DIM, HEADS * size),
            ("attn_k", DIM, KV_HEADS * size),
            ("attn_v", DIM, KV_HEADS * size),
            ("attn_q_norm", size, 1),
            ("attn_k_norm", size, 1),
            ("attn_output", HEADS * size, DIM),
            ("post_attention_norm", DIM, 1),
            ("ffn_norm", DIM, 1),
            ("ffn_gate", DIM, hidden),
            ("ffn_up", DIM, hidden),
            ("ffn_down", hidden, DIM),
            ("post_ffw_norm", DIM, 1),
            ("inp_gate", DIM, INPUT),
            ("proj", INPUT, DIM),
            ("post_norm", DIM, 1),
            ("layer_output_scale", 1, 1),
        ]:
            yield f"blk.{layer}.{part}.weight", columns, rows, "f32" if rows == 1 else kind


def metadata():
    own = LAYERS - SHARED
    keys = {
        "block_count": LAYERS,
        "context_length": 131_072,
        "embedding_length": DIM,
        "embedding_length_per_layer_input": INPUT,
        "feed_forward_length": int32_array([HIDDEN] * own + [2 * HIDDEN] * SHARED),
        "attention.head_count": HEADS,
        "attention.head_count_kv": KV_HEADS,
        "attention.layer_norm_rms_epsilon": 1e-6,
        "attention.key_length": HEAD_DIM,
        "attention.value_length": HEAD_DIM,
        "attention.key_length_swa": LOCAL_HEAD_DIM,
        "attention.value_length_swa": LOCAL_HEAD_DIM,
        "attention.shared_kv_layers": SHARED,
        "attention.sliding_window": WINDOW,
        "attention.sliding_window_pattern": int32_array([int(local) for local in LOCAL]),
        "rope.freq_base": 1e6,
        "rope.freq_base_swa": 1e4,
        "rope.dimension_count": HEAD_DIM,
        "rope.dimension_count_swa": LOCAL_HEAD_DIM,
        "final_logit_softcapping": 30.0,
        "vocab_size": VOCABULARY,
    }
    return {
        "general.architecture": "gemma4",
        "general.name": "Gemma 4 E2B shape, random weights",
        "tokenizer.ggml.model": "none",
    } | {f"gemma4.{key}": value for key, value in keys.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path", type=Path, metavar="OUT.gguf")
    parser.add_argument("--type", choices=EMBEDDING_TYPES, default="q4_0")
    options = parser.parse_args()
    write(options.path, metadata(), list(tensors(options.type)), random.Random(1))


if __name__ == "__main__":
    main()
