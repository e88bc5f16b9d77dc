#!/usr/bin/env python3
"""Converts a Whisper folder of transformers to a whisper.cpp file (ggml, f16), so that both read the same weights.

    bench/peers/ggml_whisper.py whisper-tiny.en ggml-tiny.en.bin

Matrices become f16; vectors, positions and the biases of the convolutions stay f32. Requires numpy,
safetensors and transformers (for the mel filters).
"""

import argparse
import json
import re
import struct
import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file
from transformers.audio_utils import mel_filter_bank

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "cli"))
from tiny_gguf import byte_letters  # noqa: E402

MAGIC, F32, F16 = 0x67676D6C, 0, 1
# Replacements in names, applied in this order.
PARTS = [
    (r"^model\.", ""),
    (r"\.layers\.", ".blocks."),
    (r"self_attn_layer_norm", "attn_ln"),
    (r"encoder_attn_layer_norm", "cross_attn_ln"),
    (r"self_attn", "attn"),
    (r"encoder_attn", "cross_attn"),
    (r"q_proj", "query"),
    (r"k_proj", "key"),
    (r"v_proj", "value"),
    (r"out_proj", "out"),
    (r"fc1", "mlp.0"),
    (r"fc2", "mlp.2"),
    (r"final_layer_norm", "mlp_ln"),
    (r"^encoder\.layer_norm", "encoder.ln_post"),
    (r"^decoder\.layer_norm", "decoder.ln"),
    (r"embed_positions\.weight", "positional_embedding"),
    (r"embed_tokens", "token_embedding"),
]


def ggml_name(name):
    for pattern, replacement in PARTS:
        name = re.sub(pattern, replacement, name)
    return name


def integers(*values):
    return struct.pack(f"<{len(values)}i", *values)


def head(config, filters, words):
    width = config["d_model"]
    yield integers(MAGIC, config["vocab_size"], config["max_source_positions"], width,
                   config["encoder_attention_heads"], config["encoder_layers"], config["max_target_positions"],
                   width, config["decoder_attention_heads"], config["decoder_layers"], len(filters), F16)  # fmt: skip
    yield integers(*filters.shape) + filters.astype("<f4").tobytes()
    yield integers(len(words))
    for word in words:
        yield integers(len(word)) + word


def tensor(name, data):
    if re.fullmatch(r"encoder\.conv\d\.bias", name):
        data = data.reshape(-1, 1)
    is_f32 = data.ndim < 2 or name.endswith("conv1.bias") or name.endswith("conv2.bias") or "positional" in name
    encoded = name.encode()
    yield integers(data.ndim, len(encoded), F32 if is_f32 else F16, *reversed(data.shape)) + encoded
    yield data.astype("<f4" if is_f32 else "<f2").tobytes()


def vocabulary(folder):
    """Returns the bytes of each text token, in the order of ids."""
    letters = {letter: byte for byte, letter in enumerate(byte_letters())}
    known = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
    return [bytes(letters[letter] for letter in word) for word, _ in sorted(known.items(), key=lambda item: item[1])]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path, metavar="OUT.bin")
    options = parser.parse_args()
    config = json.loads((options.folder / "config.json").read_text())
    filters = mel_filter_bank(201, config["num_mel_bins"], 0.0, 8000.0, 16000, norm="slaney", mel_scale="slaney").T
    with open(options.out, "wb") as file:
        for part in head(config, filters, vocabulary(options.folder)):
            file.write(part)
        for name, data in load_file(options.folder / "model.safetensors").items():
            if name == "proj_out.weight":  # equals the embedding
                continue
            for part in tensor(ggml_name(name), data.squeeze()):
                file.write(part)


if __name__ == "__main__":
    main()
