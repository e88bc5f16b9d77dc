#!/usr/bin/env python3
"""Writes a GGUF with the shape of Qwen 3.5 0.8B or 2B and random weights.

    bench/peers/random_qwen35.py OUT.gguf [--size 0.8b|2b] [--type q4_0|q4_k]

Three of four layers are gated DeltaNet, the fourth is attention. The vocabulary is random, with the
real size and a chat template. Requires only Python 3.11.
"""

import argparse
import random
from pathlib import Path

from random_llama import EMBEDDING_TYPES, int32_array, special_tokens, vocabulary, write

# Width of the model, and of its feed-forward part.
SIZES = {"0.8b": (1024, 3584), "2b": (2048, 6144)}
LAYERS, HEADS, KV_HEADS, HEAD_DIM, ROTATED = 24, 8, 2, 256, 64
ATTENTION_EVERY = 4  # layers
STATE_HEADS, STATE_DIM, CONV_WIDTH = 16, 128, 4  # as many key heads as value heads
VOCABULARY, SPECIAL_TOKENS = 248_320, 256
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def attention(dim):
    """Yields (name, columns, rows)."""
    return [
        ("attn_q", dim, 2 * HEADS * HEAD_DIM),  # each head's query followed by its gate
        ("attn_k", dim, KV_HEADS * HEAD_DIM),
        ("attn_v", dim, KV_HEADS * HEAD_DIM),
        ("attn_q_norm", HEAD_DIM, 1),
        ("attn_k_norm", HEAD_DIM, 1),
        ("attn_output", HEADS * HEAD_DIM, dim),
    ]


def recurrence(dim):
    """Yields (name, columns, rows)."""
    inner = STATE_HEADS * STATE_DIM
    return [
        ("attn_qkv", dim, 3 * inner),
        ("attn_gate", dim, inner),
        ("ssm_alpha", dim, STATE_HEADS),
        ("ssm_beta", dim, STATE_HEADS),
        ("ssm_norm", STATE_DIM, 1),
        ("ssm_out", inner, dim),
    ]


def tensors(size, kind):
    """Yields (name, columns, rows, type)."""
    dim, hidden = SIZES[size]
    yield "token_embd.weight", dim, VOCABULARY, EMBEDDING_TYPES[kind]
    yield "output_norm.weight", dim, 1, "f32"
    for layer in range(LAYERS):
        recurrent = (layer + 1) % ATTENTION_EVERY != 0
        parts = [
            ("attn_norm", dim, 1),
            *(recurrence(dim) if recurrent else attention(dim)),
            ("post_attention_norm", dim, 1),
            ("ffn_gate", dim, hidden),
            ("ffn_up", dim, hidden),
            ("ffn_down", hidden, dim),
        ]
        for part, columns, rows in parts:
            yield f"blk.{layer}.{part}.weight", columns, rows, "f32" if rows == 1 else kind
        if recurrent:
            yield f"blk.{layer}.ssm_conv1d.weight", CONV_WIDTH, 3 * STATE_HEADS * STATE_DIM, "f32"
            yield f"blk.{layer}.ssm_a", STATE_HEADS, 1, "-f32"
            yield f"blk.{layer}.ssm_dt.bias", STATE_HEADS, 1, "f32"


def metadata(size, numbers):
    dim, hidden = SIZES[size]
    special = ["<|im_start|>", "<|im_end|>", *special_tokens(SPECIAL_TOKENS - 2)]
    plain = VOCABULARY - len(special)
    tokens, merges = vocabulary(numbers, plain, special, plain)
    keys = {
        "block_count": LAYERS,
        "context_length": 262_144,
        "embedding_length": dim,
        "feed_forward_length": hidden,
        "attention.head_count": HEADS,
        "attention.head_count_kv": KV_HEADS,
        "attention.key_length": HEAD_DIM,
        "attention.value_length": HEAD_DIM,
        "attention.layer_norm_rms_epsilon": 1e-6,
        "full_attention_interval": ATTENTION_EVERY,
        "rope.freq_base": 1e7,
        "rope.dimension_count": ROTATED,
        "rope.dimension_sections": int32_array([11, 11, 10, 0]),
        "ssm.conv_kernel": CONV_WIDTH,
        "ssm.state_size": STATE_DIM,
        "ssm.group_count": STATE_HEADS,
        "ssm.time_step_rank": STATE_HEADS,
        "ssm.inner_size": STATE_HEADS * STATE_DIM,
        "vocab_size": VOCABULARY,
    }
    return {
        "general.architecture": "qwen35",
        "general.name": f"Qwen 3.5 {size.upper()} shape, random weights",
        **{f"qwen35.{key}": value for key, value in keys.items()},
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "qwen35",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": int32_array([1] * plain + [3] * len(special)),
        "tokenizer.ggml.merges": merges,
        "tokenizer.ggml.eos_token_id": plain + 1,
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.chat_template": TEMPLATE,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path", type=Path, metavar="OUT.gguf")
    parser.add_argument("--size", choices=SIZES, default="0.8b")
    parser.add_argument("--type", choices=EMBEDDING_TYPES, default="q4_0")
    options = parser.parse_args()
    numbers = random.Random(1)
    write(options.path, metadata(options.size, numbers), list(tensors(options.size, options.type)), numbers)


if __name__ == "__main__":
    main()
