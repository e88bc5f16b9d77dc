#!/usr/bin/env python3
"""Records the results of transformers for the various descriptions of RoPE in config.json.

  python tools/oracle/rope_variants.py tests/fixtures/tiny tests/fixtures/rope_variants.json

Each case is a checkpoint of tests/fixtures/tiny (`base`) with some keys of its config.json set
(`set`, where null sets the key to null) and others removed (`remove`). It has the logits after the
last of `ids`, in float32, or `error`, the exception of transformers.
"""
import json
import os
import shutil
import sys
import tempfile
import warnings

os.environ["HF_HUB_OFFLINE"] = "1"
import torch
import transformers

warnings.simplefilter("ignore")
transformers.logging.set_verbosity_error()

YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}
OLD_YARN = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}
LINEAR = {"rope_type": "linear", "factor": 3.0}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 16}
DEFAULT = {"rope_type": "default"}
THETA = {"rope_theta": 500.0}
LONG = {"rope_type": "longrope", "short_factor": [1.0, 1.1, 1.3], "long_factor": [1.0, 2.0, 5.0],
        "partial_rotary_factor": 0.75}


def flat():
    """Families with one set of RoPE parameters: old keys, new keys, both; theta in both places."""
    yield {"rope_parameters": DEFAULT | THETA}
    yield {"rope_parameters": DEFAULT, "rope_theta": 500.0}
    yield {"rope_parameters": DEFAULT | THETA, "rope_theta": 77.0}
    yield {"rope_theta": 500.0}
    yield {}
    yield {"rope_parameters": LINEAR | THETA}
    yield {"rope_scaling": LINEAR, "rope_theta": 500.0}
    yield {"rope_scaling": OLD_YARN, "rope_theta": 500.0}
    yield {"rope_scaling": YARN | THETA}
    yield {"rope_scaling": YARN | THETA, "rope_theta": 77.0}
    yield {"rope_scaling": YARN}
    yield {"rope_scaling": YARN, "rope_parameters": DEFAULT | THETA}
    yield {"rope_scaling": YARN, "rope_parameters": DEFAULT | THETA, "rope_theta": 77.0}
    yield {"rope_scaling": YARN | THETA, "rope_parameters": LINEAR | {"rope_theta": 77.0}}
    yield {"rope_scaling": DEFAULT, "rope_parameters": YARN | THETA}
    yield {"rope_scaling": {}, "rope_parameters": YARN | THETA}
    yield {"rope_scaling": None, "rope_parameters": YARN | THETA}
    yield {"rope_scaling": YARN, "rope_parameters": None, "rope_theta": 77.0}
    yield {"rope_scaling": LLAMA3, "rope_theta": 500.0}
    yield {"rope_scaling": LLAMA3 | {"type": "linear"}, "rope_theta": 500.0}
    yield {"rope_scaling": {"type": "linear", "rope_type": "yarn"} | OLD_YARN | {"type": "linear"}}
    yield {"rope_scaling": {"type": "dynamic", "factor": 2.0}, "rope_theta": 500.0}
    yield {"rope_scaling": YARN, "original_max_position_embeddings": 32}
    yield {"rope_parameters": YARN | THETA, "original_max_position_embeddings": 32}
    yield {"rope_scaling": {"type": "yarn", "factor": 4.0}, "original_max_position_embeddings": 32}
    yield {"rope_scaling": {"type": "yarn", "factor": 4.0}}
    yield {"rope_scaling": YARN | {"factor": None}}
    yield {"rope_scaling": YARN | {"beta_fast": 8, "beta_slow": 2, "truncate": False}}
    yield {"rope_scaling": YARN | {"mscale": 0.7, "mscale_all_dim": 1.3}}
    yield {"rope_scaling": YARN | {"mscale": 0.7}}
    yield {"rope_scaling": YARN | {"attention_factor": 1.5}}
    yield {"rope_parameters": DEFAULT | THETA, "partial_rotary_factor": 0.5}
    yield {"rope_parameters": DEFAULT | THETA | {"partial_rotary_factor": 0.5}}
    yield {"rope_scaling": YARN, "partial_rotary_factor": 0.5}
    yield {"rope_scaling": {"rope_type": "spiral", "factor": 2.0}}
    yield {"rope_scaling": {"rope_type": "linear"}}
    yield {"rope_scaling": {"rope_type": "yarn"}}
    yield {"rope_scaling": {"rope_type": "dynamic"}}
    yield {"rope_scaling": {"rope_type": "llama3", "factor": 8.0}}
    yield {"rope_scaling": 4.0}
    yield {"rope_scaling": "yarn"}
    yield {"rope_scaling": [4.0]}
    yield {"rope_parameters": 4.0}
    yield {"rope_parameters": DEFAULT | {"rope_theta": None}}
    yield {"rope_parameters": DEFAULT | {"rope_theta": "many"}}


def partial():
    """Families with partial rotary embeddings."""
    yield {}
    yield {"rope_parameters": DEFAULT | THETA}
    yield {"rope_parameters": DEFAULT | THETA | {"partial_rotary_factor": 1.0}}
    yield {"rope_parameters": DEFAULT | THETA, "partial_rotary_factor": 1.0}
    yield {"rope_parameters": DEFAULT | THETA | {"partial_rotary_factor": 0.5},
           "partial_rotary_factor": 1.0}
    yield {"rope_scaling": YARN, "rope_theta": 500.0}
    yield {"rope_scaling": YARN, "rope_theta": 500.0, "partial_rotary_factor": 1.0}
    yield {"rope_scaling": LINEAR | {"partial_rotary_factor": 1.0}, "partial_rotary_factor": 0.5}


def neox():
    """GPT-NeoX, which has its own key names."""
    yield {"rotary_pct": 0.5}
    yield {"rotary_emb_base": 500.0, "rotary_pct": 1.0}
    yield {"rope_theta": 500.0, "rotary_pct": 1.0}
    yield {"rope_theta": 500.0, "rotary_emb_base": 77.0, "rotary_pct": 0.5,
           "partial_rotary_factor": 1.0}
    yield {"rope_parameters": DEFAULT | THETA, "rotary_emb_base": 77.0, "rotary_pct": 1.0}
    yield {"rope_parameters": DEFAULT | THETA | {"partial_rotary_factor": 0.5}, "rotary_pct": 1.0}
    yield {"rope_scaling": LINEAR, "rope_parameters": DEFAULT | THETA, "rotary_pct": 1.0}
    yield {"rope_scaling": YARN | THETA, "rotary_pct": 0.5}


def two_sets():
    """Families with separate RoPE parameters for sliding-window layers."""
    full = {"full_attention": LINEAR | THETA, "sliding_attention": DEFAULT | {"rope_theta": 77.0}}
    yield {}
    yield {"rope_theta": 500.0}
    yield {"rope_theta": 500.0, "rope_local_base_freq": 77.0}
    yield {"rope_scaling": LINEAR, "rope_theta": 500.0, "rope_local_base_freq": 77.0}
    yield {"rope_scaling": LINEAR | THETA, "rope_theta": 77.0}
    yield {"rope_scaling": LINEAR}
    yield {"rope_parameters": full}
    yield {"rope_parameters": full, "rope_theta": 3000.0, "rope_local_base_freq": 4000.0}
    yield {"rope_parameters": full, "rope_scaling": YARN}
    yield {"rope_parameters": full, "rope_scaling": {"factor": 5.0}}
    yield {"rope_parameters": full, "rope_scaling": {"rope_theta": 4000.0}}
    yield {"rope_parameters": full, "rope_scaling": {}}
    yield {"rope_parameters": {"full_attention": DEFAULT, "sliding_attention": DEFAULT},
           "rope_theta": 500.0, "rope_local_base_freq": 77.0}
    yield {"rope_parameters": {"full_attention": LINEAR}, "rope_theta": 500.0}
    yield {"rope_parameters": {"sliding_attention": LINEAR | THETA}}
    yield {"rope_parameters": {"full_attention": None, "sliding_attention": LINEAR | THETA}}
    yield {"rope_parameters": LINEAR | THETA}
    yield {"rope_parameters": LINEAR | THETA, "rope_theta": 77.0}
    yield {"rope_parameters": LINEAR | THETA, "rope_scaling": YARN}
    yield {"rope_parameters": {"sliding_attention": DEFAULT}, "rope_scaling": YARN}
    yield {"rope_scaling": 4.0}
    yield {"rope_parameters": {"full_attention": YARN | THETA}}
    yield {"rope_parameters": {"full_attention": YARN | THETA},
           "original_max_position_embeddings": 32}


def long():
    """longrope of Phi-3: a factor for each rotated pair."""
    parts = {key: value for key, value in LONG.items() if key != "rope_type"}
    outside = {key: value for key, value in LONG.items() if key != "partial_rotary_factor"}
    yield {"rope_scaling": LONG}
    yield {"rope_scaling": {"type": "longrope"} | parts}
    yield {"rope_scaling": outside, "partial_rotary_factor": 0.75}
    yield {"rope_scaling": LONG | {"rope_type": "yarn"}}
    yield {"rope_scaling": LONG | {"original_max_position_embeddings": 48}}
    yield {"rope_scaling": LONG, "rope_parameters": DEFAULT | THETA}
    yield {"rope_scaling": LONG | {"factor": 3.0}}
    yield {"rope_scaling": LONG | {"attention_factor": 1.5}}
    yield {"rope_scaling": {key: LONG[key] for key in ("rope_type", "short_factor")}}
    yield {"rope_scaling": LONG | {"short_factor": [1.0], "long_factor": [1.0]}}


def latent():
    """DeepSeek, where YaRN also scales attention scores (mscale)."""
    yield {"rope_scaling": YARN | {"mscale": 1.0, "mscale_all_dim": 1.0}}
    yield {"rope_scaling": YARN | {"mscale_all_dim": 0.7}}
    yield {"rope_parameters": DEFAULT | THETA | {"mscale_all_dim": 1.0, "factor": 4.0}}
    yield {"rope_scaling": YARN | {"mscale_all_dim": 1.0}, "rope_parameters": DEFAULT | THETA}


def nothing():
    """The defaults of a family."""
    yield {}
    yield {"rope_theta": 500.0}


def nothing_or_all():
    yield from nothing()
    yield {"rope_scaling": LINEAR}
    yield {"rope_parameters": DEFAULT}


FAMILIES = {"llama-yarn": flat, "glm": partial, "gpt-neox": neox, "gemma3": two_sets,
            "olmo3": two_sets, "phi3-longrope": long, "deepseek-v3": latent, "gpt-oss": nothing_or_all,
            "mistral3": nothing, "apertus": nothing_or_all}
KEYS = ("rope_parameters", "rope_scaling", "rope_theta", "partial_rotary_factor", "rotary_emb_base",
        "rotary_pct", "rope_local_base_freq")


def logits_of(folder, ids):
    config = transformers.AutoConfig.from_pretrained(folder)
    kind = transformers.AutoModelForCausalLM
    options = {"attn_implementation": "eager", "dtype": torch.float32}
    if hasattr(config, "num_experts_per_tok"):
        options["experts_implementation"] = "eager"
    model = kind.from_pretrained(folder, **options).eval()
    with torch.no_grad():
        row = model(torch.tensor([ids]), use_cache=False).logits[0, -1]
    if not torch.isfinite(row).all():
        raise ValueError("logits are not finite")
    return [float(f"{value:.6g}") for value in row]


def main(tiny, out):
    cases = []
    for base, variants in FAMILIES.items():
        source = f"{tiny}/{base}"
        original = json.load(open(f"{source}/config.json"))
        prompt = json.load(open(f"{source}/reference.json"))["prompts"][0]
        for change in variants():
            remove = [key for key in KEYS if key in original and key not in change]
            case = {"base": base, "remove": remove, "set": change, "ids": prompt["ids"]}
            config = {key: value for key, value in original.items() if key not in remove} | change
            with tempfile.TemporaryDirectory() as folder:
                shutil.copy(f"{source}/model.safetensors", folder)
                json.dump(config, open(f"{folder}/config.json", "w"))
                try:
                    case["logits"] = logits_of(folder, prompt["ids"])
                except Exception as error:  # any exception means that transformers rejects the file
                    case["error"] = f"{type(error).__name__}: {error}".splitlines()[0]
            cases.append(case)
    head = {"transformers": transformers.__version__, "torch": torch.__version__}
    lines = ",\n ".join(json.dumps(case) for case in cases)
    with open(out, "w") as file:
        file.write(json.dumps(head)[:-1] + ', "cases": [\n ' + lines + "]}\n")


main(*sys.argv[1:])
