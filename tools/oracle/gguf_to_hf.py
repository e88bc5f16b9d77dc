#!/usr/bin/env python3
"""Converts a GGUF file to a Hugging Face folder in float32, with the values that gguf dequantises.

usage: gguf_to_hf.py IN.gguf OUTDIR [TOKENIZER.json]

Writes config.json, model.safetensors, tokenizer.json and tokenizer_config.json. Supported
architectures: llama (byte-level BPE) and gemma3 (needs TOKENIZER.json, the published tokenizer).
"""
import json
import pathlib
import shutil
import sys

import gguf
import numpy as np
from safetensors.numpy import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

CONTROL, USER_DEFINED = 3, 4  # tokenizer.ggml.token_type

PROJECTIONS = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
NAMES = {
    "llama": PROJECTIONS
    | {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm"},
    "gemma3": PROJECTIONS
    | {
        "attn_norm": "input_layernorm",
        "attn_q_norm": "self_attn.q_norm",
        "attn_k_norm": "self_attn.k_norm",
        "post_attention_norm": "post_attention_layernorm",
        "ffn_norm": "pre_feedforward_layernorm",
        "post_ffw_norm": "post_feedforward_layernorm",
    },
}
OUTER = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}


class Source:
    """A GGUF file; own() reads keys of its architecture without the prefix."""

    def __init__(self, path):
        self.reader = gguf.GGUFReader(path)
        self.arch = self.get("general.architecture")

    def get(self, key, default=None):
        field = self.reader.fields.get(key)
        return default if field is None else field.contents()

    def own(self, key, default=None):
        return self.get(f"{self.arch}.{key}", default)

    def tensors(self):
        """Yields (name, float32 array of the shape that the model uses: slowest axis first)."""
        for tensor in self.reader.tensors:
            shape = [int(n) for n in reversed(tensor.shape)]
            values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
            yield tensor.name, values.astype(np.float32).reshape(shape)


def common_config(source):
    heads = source.own("attention.head_count")
    vocabulary = len(source.get("tokenizer.ggml.tokens"))
    return {
        "hidden_size": source.own("embedding_length"),
        "num_hidden_layers": source.own("block_count"),
        "intermediate_size": source.own("feed_forward_length"),
        "num_attention_heads": heads,
        "num_key_value_heads": source.own("attention.head_count_kv", heads),
        "head_dim": source.own("attention.key_length", source.own("embedding_length") // heads),
        "max_position_embeddings": source.own("context_length"),
        "rms_norm_eps": source.own("attention.layer_norm_rms_epsilon"),
        "vocab_size": source.own("vocab_size", vocabulary),
        "attention_bias": False,
        "dtype": "float32",
        "bos_token_id": source.get("tokenizer.ggml.bos_token_id"),
        "eos_token_id": source.get("tokenizer.ggml.eos_token_id"),
        "pad_token_id": source.get("tokenizer.ggml.padding_token_id"),
    }


def llama_config(source):
    base = source.own("rope.freq_base", 10000.0)
    return common_config(source) | {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_act": "silu",
        "mlp_bias": False,
        "rope_theta": base,
        "rope_parameters": {"rope_type": "default", "rope_theta": base},
    }


def gemma3_config(source):
    """Adds facts that the file lacks: every 6th layer is global, local layers have the RoPE base
    10,000, queries are scaled by head_dim**-0.5 (all sizes except 27B), logits are not capped."""
    config = common_config(source)
    layers, pattern = config["num_hidden_layers"], 6
    kinds = ["sliding_attention"] * (pattern - 1) + ["full_attention"]
    rope = {"full_attention": source.own("rope.freq_base"), "sliding_attention": 10000.0}
    return config | {
        "architectures": ["Gemma3ForCausalLM"],
        "model_type": "gemma3_text",
        "hidden_activation": "gelu_pytorch_tanh",
        "query_pre_attn_scalar": config["head_dim"],
        "sliding_window": source.own("attention.sliding_window"),
        "layer_types": [kinds[i % pattern] for i in range(layers)],
        "attn_logit_softcapping": None,
        "final_logit_softcapping": None,
        "use_bidirectional_attention": False,
        "rope_parameters": {
            kind: {"rope_type": "default", "rope_theta": theta} for kind, theta in rope.items()
        },
    }


def unpermute(weight, heads):
    """Reorders rows of q and k from (head, pair, half) in the file to (head, half, pair)."""
    pairs = weight.shape[0] // heads // 2
    return weight.reshape(heads, pairs, 2, -1).swapaxes(1, 2).reshape(weight.shape)


def gemma_norm(weight, name):
    """Returns weight - 1, because transformers multiplies by 1 + weight; fails if that rounds."""
    stored = weight - np.float32(1)
    if not np.array_equal(np.float32(1) + stored, weight):
        raise SystemExit(f"{name}: 1 + (weight - 1) is not weight in float32")
    return stored


def weights(source, config):
    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
    result = {}
    for name, values in source.tensors():
        *block, part, kind = name.split(".")
        target = OUTER[part] if not block else f"model.layers.{block[1]}.{NAMES[source.arch][part]}"
        if source.arch == "llama" and part in heads:
            values = unpermute(values, heads[part])
        if source.arch == "gemma3" and part.endswith("norm"):
            values = gemma_norm(values, name)
        result[f"{target}.{kind}"] = np.ascontiguousarray(values)
    return result


def bpe_tokenizer(source):
    """Builds byte-level BPE with pre-tokenizer "smollm": single digits, then GPT-2's pattern."""
    pre = source.get("tokenizer.ggml.pre")
    if source.get("tokenizer.ggml.model") != "gpt2" or pre != "smollm":
        raise SystemExit(f"unsupported pre-tokenizer {pre}, expected smollm; pass TOKENIZER.json")
    tokens = source.get("tokenizer.ggml.tokens")
    merges = [tuple(merge.split(" ")) for merge in source.get("tokenizer.ggml.merges")]
    result = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=merges))
    digits = pre_tokenizers.Digits(individual_digits=True)
    words = pre_tokenizers.ByteLevel(add_prefix_space=False)
    result.pre_tokenizer = pre_tokenizers.Sequence([digits, words])
    result.decoder = decoders.ByteLevel()
    for token, kind in zip(tokens, source.get("tokenizer.ggml.token_type")):
        if kind in (CONTROL, USER_DEFINED):
            result.add_tokens([AddedToken(token, special=kind == CONTROL, normalized=False)])
    return result


def tokenizer_config(source):
    tokens = source.get("tokenizer.ggml.tokens")
    result = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False}
    for name, key in (("bos", "bos"), ("eos", "eos"), ("unk", "unknown"), ("pad", "padding")):
        token = source.get(f"tokenizer.ggml.{key}_token_id")
        if token is not None:
            result[f"{name}_token"] = tokens[token]
    template = source.get("tokenizer.chat_template")
    return result | ({"chat_template": template} if template else {})


def write_json(path, value):
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def main():
    if len(sys.argv) not in (3, 4):
        raise SystemExit(__doc__)
    source, out = Source(sys.argv[1]), pathlib.Path(sys.argv[2])
    config = {"llama": llama_config, "gemma3": gemma3_config}[source.arch](source)
    tensors = weights(source, config)
    config["tie_word_embeddings"] = "lm_head.weight" not in tensors
    out.mkdir(parents=True, exist_ok=True)
    if len(sys.argv) == 4:
        shutil.copyfile(sys.argv[3], out / "tokenizer.json")
    else:
        bpe_tokenizer(source).save(str(out / "tokenizer.json"))
    write_json(out / "tokenizer_config.json", tokenizer_config(source))
    write_json(out / "config.json", config)
    save_file(tensors, out / "model.safetensors", metadata={"format": "pt"})
    print(f"{out}: {len(tensors)} tensors, {sum(t.size for t in tensors.values()):,} weights")


if __name__ == "__main__":
    main()
