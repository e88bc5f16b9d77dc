#!/usr/bin/env python3
"""Describes checkpoints of the families in tiny_models.py with widths that suit quantised blocks.

  python tools/oracle/make_wide.py tests/fixtures/wide.json

For each family: {"config": config.json, "tensors": {name: [shape, mean, deviation]}}, with names,
shapes and configurations as transformers saves them. bench/h200/wide.py makes checkpoints of a few
MB with random weights from it. A family whose sizes fit neither rule of widened() is
reported and left out.
"""
import json
import os
import sys
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"
import safetensors.torch
import torch
import transformers

from make_tiny import CLASSES, OWN_LENGTH, PUBLISHED, RENAMED, fill, publish, rename, to_old_keys
from tiny_models import COMMON, MODELS, PATTERNS

HEAD = 64
POSITIONS = 2048
TEXTS = ("Gemma3", "Gemma4", "Gemma4Unified", "Llama4", "Qwen3_5", "Qwen3_5Moe")  # of multimodal models
# Excluded: storage formats, and RoPE factors that depend on widths.
FORMS = ("fp8", "mlx", "mxfp4", "mxfp8", "cuda", "fused", "longrope")
OWN = {"xlstm": {"qk_dim_factor": 0.5, "ffn_round_up_to_multiple_of": 64}}
HIDDEN = ("hidden_size", "n_embd", "d_model")
HEADS = ("num_attention_heads", "n_head", "num_heads", "n_heads")
WIDTHS = {
    "hidden_size": 256, "n_embd": 256, "d_model": 256, "intermediate_size": 320, "ffn_dim": 320,
    "ffn_hidden_size": 320, "n_inner": 320, "intermediate_size_mlp": 320, "prefix_dense_intermediate_size": 320,
    "moe_intermediate_size": 160, "shared_intermediate_size": 192, "shared_expert_intermediate_size": 192,
    "moe_shared_expert_intermediate_size": 192, "moe_latent_size": 64, "hidden_size_per_layer_input": 32,
    "head_dim": HEAD, "global_head_dim": 2 * HEAD, "q_lora_rank": 96, "kv_lora_rank": 128,
    "qk_nope_head_dim": 64, "qk_rope_head_dim": 32, "v_head_dim": 64, "index_head_dim": 64,
    "linear_key_head_dim": 64, "linear_value_head_dim": 64, "linear_head_dim": 64, "rotary_dim": 32,
    "n_positions": POSITIONS, "mamba_d_state": 32, "state_size": 32, "ssm_state_size": 32, "mamba_dt_rank": 32,
}  # fmt: skip


def widened(settings, joined):
    """Returns settings with wide layers and unchanged numbers of heads, experts and layers. joined:
    the width is heads * HEAD."""
    wide = settings | {key: value for key, value in WIDTHS.items() if settings.get(key)}
    width = next((key for key in HIDDEN if key in wide), None)
    heads = next((settings[key] for key in HEADS if key in settings), None)
    own = "head_dim" in settings or "v_head_dim" in settings
    if width and heads and (joined or not own):
        wide[width] = HEAD * heads
    if "word_embed_proj_dim" in wide:
        wide["word_embed_proj_dim"] = wide[width]
    inner = wide.get("mamba_expand", wide.get("expand", 2)) * wide.get(width, 0)
    sizes = [("mamba_n_heads", "mamba_d_head"), ("mamba_num_heads", "mamba_head_dim")]
    if "state_size" in settings:
        sizes.append(("num_heads", "head_dim"))
    for count, size in sizes:
        if count in settings and size in settings:
            wide |= {size: 32, count: inner // 32}
    if "mamba_d_ssm" in wide:
        wide["mamba_d_ssm"] = wide["mamba_n_heads"] * wide["mamba_d_head"]
    return wide | {key: 2 for key in ("mamba_n_groups", "n_groups") if key in wide}


def save(folder, name, family, old, settings):
    text = "Text" if family in TEXTS else ""
    common = COMMON | {"max_position_embeddings": POSITIONS}
    if family in OWN_LENGTH:
        common.pop("max_position_embeddings")
    config = getattr(transformers, f"{family}{text}Config")(**common, **settings)
    model = getattr(transformers, CLASSES.get(family, f"{family}ForCausalLM"))(config).float().eval()
    generator = torch.Generator().manual_seed(1)
    fill(model, generator)
    with torch.no_grad():
        logits = model(torch.tensor([[5, 9, 40, 31, 17]]), use_cache=False).logits
    if not torch.isfinite(logits).all():
        raise ValueError("logits are not finite")
    model.to(torch.bfloat16).save_pretrained(folder)
    if old:
        to_old_keys(f"{folder}/config.json", PATTERNS.get(name))
    if name in PUBLISHED:
        publish(folder, generator)
    if name in RENAMED:
        rename(folder, name)


def described(folder):
    def facts(tensor):
        value = tensor.float()
        deviation = value.std().item() if value.numel() > 1 else 0.0
        return [list(tensor.shape), *(float(f"{x:.3g}") for x in (value.mean().item(), deviation))]

    tensors = safetensors.torch.load_file(f"{folder}/model.safetensors")
    return {"config": json.load(open(f"{folder}/config.json")),
            "tensors": {name: facts(tensor) for name, tensor in sorted(tensors.items())}}


def describe(name, family, old, settings):
    failure = None
    for joined in (False, True):
        with tempfile.TemporaryDirectory() as folder:
            try:
                save(folder, name, family, old, widened(settings, joined))
                return described(folder)
            except Exception as error:  # transformers rejects the sizes
                failure = error
    print(f"{name} is left out: {type(failure).__name__}: {str(failure)[:160]}", file=sys.stderr)
    return None


def main():
    torch.set_num_threads(2)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    found = {}
    for name, (family, _, old, settings) in MODELS.items():
        if not any(form in name for form in FORMS):
            found[name] = describe(name, family, old, settings | OWN.get(name, {}))
    lines = [f"{json.dumps(name)}: {json.dumps(facts)}" for name, facts in found.items() if facts]
    with open(sys.argv[1], "w") as out:
        out.write("{\n" + ",\n".join(lines) + "\n}\n")
    print(f"{len(lines)} families")


if __name__ == "__main__":
    main()
