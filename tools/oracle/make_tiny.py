#!/usr/bin/env python3
"""Makes tests/fixtures/tiny: checkpoints of a few 10 kB with random weights, and the results of
transformers in float32.

  python tools/oracle/make_tiny.py tests/fixtures/tiny [NAME ...]

NAME/config.json, model.safetensors   as transformers writes them; "old" ones have the keys of
                                      transformers 4 (rope_theta, rope_scaling, torch_dtype)
NAME/reference.json                   prompts: ids, logits after the last positions, the best id
                                      after each position, 16 greedy tokens and the smallest gap
                                      between the two best logits
NAME: a checkpoint of tiny_models.py; default: all.
"""
import json
import os
import sys

os.environ["HF_HUB_OFFLINE"] = "1"
import safetensors.torch
import torch
import transformers

import tiny_quantised
from tiny_models import COMMON, MODELS, PATTERNS, VOCABULARY

SHOWN = 3
STEPS = 16
LEAST_GAP = 0.02
LEAST_CHOICE = 5e-5
# Families that transformers does not contain: tensor names of a family with the same computation,
# and the names that replace them.
RENAMED = {
    "internlm2": (("embed_tokens", "tok_embeddings"), ("lm_head", "output"),
                  ("self_attn.o_proj", "attention.wo"), ("input_layernorm", "attention_norm"),
                  ("post_attention_layernorm", "ffn_norm"), ("mlp.gate_proj", "feed_forward.w1"),
                  ("mlp.up_proj", "feed_forward.w3"), ("mlp.down_proj", "feed_forward.w2")),
    "exaone": (("model.embed_tokens", "transformer.wte"), ("model.norm", "transformer.ln_f"),
               ("model.layers", "transformer.h"), ("self_attn.o_proj", "attn.attention.out_proj"),
               ("self_attn", "attn.attention"), ("input_layernorm", "ln_1"),
               ("post_attention_layernorm", "ln_2"), ("mlp.gate_proj", "mlp.c_fc_0"),
               ("mlp.up_proj", "mlp.c_fc_1"), ("mlp.down_proj", "mlp.c_proj")),
    "minicpm": (),
    "internlm3": (),
}
TYPES = {"internlm2": "InternLM2", "internlm3": "InternLM3", "exaone": "Exaone",
         "minicpm": "MiniCPM"}
FP4 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])
QUANTISED = ("gpt-oss-mxfp4", "qwen3moe-mlx")
CLASSES = {"GPT2": "GPT2LMHeadModel", "Gemma3": "Gemma3ForCausalLM"}
PUBLISHED = ("gemma4-moe", "gemma4-published")  # nested in text_config, as in Google's files
OWN_LENGTH = ("GPT2", "GPTJ", "Mpt", "Bloom")  # max_position_embeddings has another name
FINAL_NORMS = ("model.norm.weight", "transformer.ln_f.weight", "gpt_neox.final_layer_norm.weight",
               "model.final_layernorm.weight", "model.decoder.final_layer_norm.weight",
               "transformer.norm_f.weight", "backbone.norm_f.weight",
               "model.embedding_norm.weight", "backbone.out_norm.weight")
EMBEDDINGS = ("embed_tokens", "backbone.embeddings", "wte", "embed_in", "wpe", "embed_positions", "word_embeddings.")


def fill(model, generator):
    """Fills every tensor with values that differ enough from its usual initial value to change the
    logits."""
    gemma = model.config.model_type.startswith("gemma")
    gemma4 = model.config.model_type in ("gemma4_text", "gemma4_unified_text")
    plus_one = (gemma and not gemma4) or model.config.model_type == "nemotron"
    tied = model.config.tie_word_embeddings
    corrections = [item for item in model.named_buffers() if item[0].endswith("correction_bias")]
    corrections += [item for item in model.named_buffers() if item[0].endswith("layer_scalar")]
    for name, value in list(model.named_parameters()) + corrections:
        is_norm = any(part in name for part in ("norm", "ln_"))
        noise = torch.randn(value.shape, generator=generator)
        if any(part in name for part in EMBEDDINGS):
            scale = value.shape[1] ** -0.5 * (0.2 if gemma else 1.0) if gemma or tied else 1.0
        elif gemma4 and name.endswith(("layer_scalar", "scale", "q_norm.weight", "k_norm.weight")):
            # Small norms of q and k, because the family does not scale scores.
            value.data = noise * 0.1 + (0.5 if "norm" in name else 1.0)
            continue
        elif name in FINAL_NORMS:
            value.data = (noise * 0.3 + (3.0 if tied else 1.0) * (1.5 if gemma else 1.0)
                          - float(plus_one and not gemma))
            continue
        elif is_norm and name.endswith("weight"):
            quiet = "embeddings_layernorm" in name  # a larger norm makes each token predict itself
            value.data = noise * 0.2 + (0.0 if plus_one else 0.2 if quiet else 1.0)
            continue
        elif name.endswith("bias"):
            scale = 0.2
        elif name.endswith("sinks"):
            scale = 2.0
        else:
            inputs = value.shape[0 if "c_" in name and model.config.model_type == "gpt2" else -1]
            is_head = "lm_head" in name or "embed_out" in name
            scale = 1.3 * inputs ** -0.5 * (2.0 if is_head else 1.0)
        value.data = noise * scale


def mxfp4(x):
    """Quantises (..., n); returns codes (..., n / 32, 16), two per byte, and scales (..., n / 32)
    with the value 2 ** (scale - 127)."""
    groups = x.reshape(*x.shape[:-1], -1, 32)
    power = torch.floor(torch.log2(groups.abs().amax(-1))) - 2
    scaled = groups / (2.0 ** power)[..., None]
    codes = (scaled.abs()[..., None] - FP4).abs().argmin(-1) + 8 * (scaled < 0)
    return (codes[..., ::2] + 16 * codes[..., 1::2]).to(torch.uint8), (power + 127).to(torch.uint8)


def from_mxfp4(blocks, scales):
    codes = torch.stack([blocks & 15, blocks >> 4], -1).flatten(-2).long()
    values = FP4[codes & 7] * torch.where(codes > 7, -1.0, 1.0)
    return (values * (2.0 ** (scales.float() - 127))[..., None]).flatten(-2)


def affine4(x):
    """Quantises (..., n) as MLX does; returns codes (..., n / 8), eight per 32-bit word, and scales
    and biases (..., n / 32)."""
    groups = x.reshape(*x.shape[:-1], -1, 32)
    low = groups.amin(-1)
    scale = (groups.amax(-1) - low) / 15
    codes = ((groups - low[..., None]) / scale[..., None]).round().clamp(0, 15).flatten(-2).long()
    packed = (codes.reshape(*codes.shape[:-1], -1, 8) << (4 * torch.arange(8))).sum(-1)
    return packed.to(torch.uint32), scale, low


def from_affine4(packed, scales, biases):
    codes = (packed.long()[..., None] >> (4 * torch.arange(8)) & 15).flatten(-2).float()
    return codes * scales.repeat_interleave(32, -1) + biases.repeat_interleave(32, -1)


def quantise_experts(model, name):
    """Rounds the experts to values of their quantised form; returns the quantised tensors."""
    packed = {}
    for key, value in model.named_parameters():
        if not any(part in key for part in ("experts.gate_up_proj", "experts.down_proj")) or \
           key.endswith("bias"):
            continue
        if name.endswith("mxfp4"):
            blocks, scales = mxfp4(value.data.transpose(1, 2).contiguous())
            value.data = from_mxfp4(blocks, scales).transpose(1, 2).contiguous()
            packed |= {key + "_blocks": blocks, key + "_scales": scales}
            continue
        tensors = affine4(value.data)
        value.data = from_affine4(*tensors)
        parts = ["gate_proj", "up_proj"] if "gate_up" in key else ["down_proj"]
        place = key[:key.index("experts.")] + "switch_mlp."
        for kind, tensor in zip(("weight", "scales", "biases"), tensors):
            for part, chunk in zip(parts, tensor.chunk(len(parts), 1)):
                packed[f"{place}{part}.{kind}"] = chunk.contiguous()
    return packed


def write_quantised(folder, packed, name):
    path = f"{folder}/model.safetensors"
    tensors = {key: value for key, value in safetensors.torch.load_file(path).items()
               if ".experts." not in key or key.endswith("bias")}
    safetensors.torch.save_file(tensors | packed, path, metadata={"format": "pt"})
    config = json.load(open(f"{folder}/config.json"))
    if name.endswith("mlx"):
        config["quantization"] = {"group_size": 32, "bits": 4}
    else:
        config["quantization_config"] = {"quant_method": "mxfp4"}
    json.dump(config, open(f"{folder}/config.json", "w"), indent=1)


def write_form(folder, form):
    path = f"{folder}/model.safetensors"
    kept = {key: value for key, value in safetensors.torch.load_file(path).items()
            if key not in form.gone and ".experts." not in key}
    safetensors.torch.save_file(kept | form.tensors, path, metadata={"format": "pt"})
    config = json.load(open(f"{folder}/config.json")) | tiny_quantised.configuration(form)
    json.dump(config, open(f"{folder}/config.json", "w"), indent=1)


def rename(folder, name):
    path = f"{folder}/model.safetensors"
    tensors = {}
    for key, value in safetensors.torch.load_file(path).items():
        for theirs, ours in RENAMED[name]:
            key = key.replace(theirs, ours)
        tensors[key] = value
    config = json.load(open(f"{folder}/config.json"))
    if name == "internlm2":  # wqkv: for each key head, its query heads, the key, the value
        groups, heads = config["num_key_value_heads"], config["num_attention_heads"]
        for key in [key for key in tensors if "q_proj" in key]:
            q, k, v = (tensors.pop(key.replace("q_proj", part)) for part in
                       ("q_proj", "k_proj", "v_proj"))
            size = k.shape[0] // groups
            joint = torch.cat([q.view(groups, heads // groups, size, -1),
                               k.view(groups, 1, size, -1), v.view(groups, 1, size, -1)], 1)
            tensors[key.replace("self_attn.q_proj", "attention.wqkv")] = joint.flatten(0, 2)
    if name == "exaone":
        config["num_layers"] = config.pop("num_hidden_layers")
        config["layer_norm_epsilon"] = config.pop("rms_norm_eps")
        config["activation_function"] = config.pop("hidden_act")
    if name == "minicpm":
        config["scale_emb"] = config.pop("embedding_multiplier")
        config["scale_depth"] = (config.pop("residual_multiplier")
                                 * config["num_hidden_layers"] ** 0.5)
        config["dim_model_base"] = config["hidden_size"] / config.pop("logits_scaling")
        config.pop("attention_multiplier")
    config["model_type"] = TYPES[name].lower()
    config["architectures"] = [f"{TYPES[name]}ForCausalLM"]
    safetensors.torch.save_file(tensors, path, metadata={"format": "pt"})
    json.dump(config, open(f"{folder}/config.json", "w"), indent=1)


def publish(folder, generator):
    """Rewrites Gemma 4 as Google publishes it: names, nesting, and unused K and V of layers that
    share the KV cache of another layer."""
    path = f"{folder}/model.safetensors"
    tensors = safetensors.torch.load_file(path)
    text = json.load(open(f"{folder}/config.json"))
    one = next(iter(text.pop("per_layer_config").values()))
    text["global_head_dim"] = one["head_dim"]
    text["num_global_key_value_heads"] = one.get("num_key_value_heads")
    for layer in range(text["num_hidden_layers"] - text["num_kv_shared_layers"],
                       text["num_hidden_layers"]):
        size = text["head_dim" if text["layer_types"][layer][0] == "s" else "global_head_dim"]
        place = f"model.layers.{layer}.self_attn."
        width = text["hidden_size"], text["num_key_value_heads"] * size
        for part, shape in ("k_proj", width[::-1]), ("v_proj", width[::-1]), ("k_norm", (size,)):
            noise = torch.randn(shape, generator=generator)
            tensors[f"{place}{part}.weight"] = noise.to(next(iter(tensors.values())).dtype)
    tensors = {key.replace("model.", "model.language_model.", 1): value
               for key, value in tensors.items()}
    safetensors.torch.save_file(tensors, path, metadata={"format": "pt"})
    text.pop("architectures")
    config = {"architectures": ["Gemma4ForConditionalGeneration"], "model_type": "gemma4",
              "text_config": text, "tie_word_embeddings": text["tie_word_embeddings"]}
    json.dump(config, open(f"{folder}/config.json", "w"), indent=1)


def fuse_xlstm(folder):
    """Concatenates projections of the same input, as in weight_mode "fused"."""
    path = f"{folder}/model.safetensors"
    tensors = safetensors.torch.load_file(path)
    joints = {"mlstm_layer.qkv_opreact": ["mlstm_layer.q", "mlstm_layer.k", "mlstm_layer.v",
                                          "mlstm_layer.ogate_preact"],
              "mlstm_layer.ifgate_preact": ["mlstm_layer.igate_preact", "mlstm_layer.fgate_preact"],
              "ffn.proj_up_gate_z": ["ffn.proj_up_gate", "ffn.proj_up"]}
    for key in list(tensors):
        for joint, parts in joints.items():
            for kind in (".weight", ".bias"):
                if key.endswith("." + parts[0] + kind):
                    place = key[:-len(parts[0] + kind)]
                    tensors[place + joint + kind] = torch.cat(
                        [tensors.pop(place + part + kind) for part in parts])
    safetensors.torch.save_file(tensors, path, metadata={"format": "pt"})
    config = json.load(open(f"{folder}/config.json")) | {"weight_mode": "fused"}
    json.dump(config, open(f"{folder}/config.json", "w"), indent=1)


def fold_falcon(folder):
    """Multiplies weights by the multipliers and transposes convolutions, as mlx-lm writes
    Falcon-H1. key_multiplier, and attention_in_multiplier of v_proj, are not folded."""
    path = f"{folder}/model.safetensors"
    tensors = safetensors.torch.load_file(path)
    config = json.load(open(f"{folder}/config.json"))
    inner = config["mamba_d_ssm"]
    keys = config["mamba_n_groups"] * config["mamba_d_state"]
    sizes = [inner, inner, keys, keys, config["mamba_n_heads"]]
    rows = torch.cat([torch.full((size, 1), factor)
                      for size, factor in zip(sizes, config["ssm_multipliers"])])
    factors = {"embed_tokens": config["embedding_multiplier"], "lm_head": config["lm_head_multiplier"],
               "q_proj": config["attention_in_multiplier"], "k_proj": config["attention_in_multiplier"],
               "o_proj": config["attention_out_multiplier"], "out_proj": config["ssm_out_multiplier"],
               "gate_proj": config["mlp_multipliers"][0], "down_proj": config["mlp_multipliers"][1],
               "in_proj": config["ssm_in_multiplier"] * rows}
    for key in tensors:
        part = key.split(".")[-2]
        if key.endswith(".weight") and part in factors:
            tensors[key] = (tensors[key] * factors[part]).contiguous()
        if part == "conv1d" and key.endswith(".weight"):
            tensors[key] = tensors[key].transpose(1, 2).contiguous()
    safetensors.torch.save_file(tensors, path, metadata={"format": "mlx"})


def as_mlx_qwen35(folder):
    """Adds one to norms and transposes convolutions, as mlx-lm writes Qwen 3.5 and Qwen3-Next."""
    path = f"{folder}/model.safetensors"
    tensors = safetensors.torch.load_file(path)
    for key in tensors:
        if key.endswith("norm.weight") and not key.endswith("linear_attn.norm.weight"):
            tensors[key] = tensors[key] + 1
        if key.endswith("conv1d.weight"):
            tensors[key] = tensors[key].transpose(1, 2).contiguous()
    safetensors.torch.save_file(tensors, path, metadata={"format": "mlx"})


def to_old_keys(path, pattern):
    config = json.load(open(path))
    rope_set = config.pop("rope_parameters")
    if "full_attention" in rope_set:
        config["rope_local_base_freq"] = rope_set["sliding_attention"]["rope_theta"]
        rope_set = rope_set["full_attention"]
    if config["model_type"] == "gpt_neox":
        config["rotary_emb_base"] = rope_set.pop("rope_theta")
        config["rotary_pct"] = rope_set.pop("partial_rotary_factor")
        rope_set = {"rope_type": "default"}
    else:
        config["rope_theta"] = rope_set.pop("rope_theta")
        if "partial_rotary_factor" in rope_set and rope_set["rope_type"] == "default":
            config["partial_rotary_factor"] = rope_set.pop("partial_rotary_factor")
    config["rope_scaling"] = None if rope_set["rope_type"] == "default" else rope_set
    config.pop("layer_types", None)
    if pattern:
        config["sliding_window_pattern"] = pattern
        config.pop("_sliding_window_pattern", None)
    config["torch_dtype"] = config.pop("dtype")
    json.dump(config, open(path, "w"), indent=1)


def logits_of(model, ids):
    with torch.no_grad():
        return model(torch.tensor([ids]), use_cache=False).logits[0]


def record(model, ids):
    logits = logits_of(model, ids)
    context, gap = list(ids), float("inf")
    for _ in range(STEPS):
        best = logits_of(model, context)[-1].topk(2)
        gap = min(gap, float(best.values[0] - best.values[1]))
        context.append(int(best.indices[0]))
    return {"ids": ids,
            "best": logits.argmax(-1).tolist(),
            "logits": [[float(f"{x:.7g}") for x in row] for row in logits[-SHOWN:].tolist()],
            "greedy": context[len(ids):],
            "gap": float(f"{gap:.3g}")}


class Choices:
    """Watches topk: `least` is the smallest gap between the last selected and the first rejected
    score of an indexer."""

    def __enter__(self):
        self.least, self.topk = float("inf"), torch.Tensor.topk

        def watched(x, k, dim=-1, **more):
            if x.dim() == 3 and k < x.shape[-1]:
                best = self.topk(x, k + 1, -1).values
                gaps = (best[..., -2] - best[..., -1])[best[..., -1] > -1e30]
                self.least = min([self.least, *gaps.tolist()])
            return self.topk(x, k, dim, **more)

        torch.Tensor.topk = watched
        return self

    def __exit__(self, *_):
        torch.Tensor.topk = self.topk


def make(folder, name, family, dtype, old, settings):
    for seed in range(1, 60):
        generator = torch.Generator().manual_seed(seed)
        torch.manual_seed(seed)
        text = "Text" if family in ("Gemma3", "Gemma4", "Gemma4Unified", "Llama4", "Qwen3_5",
                                    "Qwen3_5Moe") else ""
        common = {key: value for key, value in COMMON.items()
                  if family not in OWN_LENGTH or key != "max_position_embeddings"}
        config = getattr(transformers, f"{family}{text}Config")(**common, **settings)
        kind = getattr(transformers, CLASSES.get(family, f"{family}ForCausalLM"))
        model = kind(config).float().eval()
        fill(model, generator)
        packed = quantise_experts(model, name) if name in QUANTISED else {}
        form = tiny_quantised.quantise(model, name) if name in tiny_quantised.FORMS else None
        model.to(getattr(torch, dtype)).save_pretrained(folder)
        if old:
            to_old_keys(f"{folder}/config.json", PATTERNS.get(name))
        experts = {"experts_implementation": "eager"} if "num_experts_per_tok" in settings \
            or any(key in settings for key in (
                "moe_k", "moe_topk", "top_k_experts", "num_experts_per_token")) else {}
        for extra in ("generation_config.json",):
            if os.path.exists(f"{folder}/{extra}"):
                os.unlink(f"{folder}/{extra}")
        model = kind.from_pretrained(folder, dtype=torch.float32,
                                     attn_implementation="eager", **experts).eval()
        # One prompt exceeds the 24 positions at which longrope changes its factors; the other one
        # stays below with 16 more tokens.
        prompts = [torch.randint(3, VOCABULARY, (n,), generator=generator).tolist()
                   for n in (27, 5)]
        with Choices() as choices:
            found = [record(model, ids) for ids in prompts]
        chosen = choices.least if "index_topk" in settings else LEAST_CHOICE
        if min(p["gap"] for p in found) >= LEAST_GAP and chosen >= LEAST_CHOICE and \
           min(len(set(p["greedy"])) for p in found) >= 5:
            break
    else:
        raise SystemExit(f"{name}: no seed without near-ties")
    if packed:
        write_quantised(folder, packed, name)
    if form:
        write_form(folder, form)
    if name in PUBLISHED:
        publish(folder, generator)
    if name in RENAMED:
        rename(folder, name)
    if name == "falcon-h1-mlx":
        fold_falcon(folder)
    if name == "qwen35-mlx":
        as_mlx_qwen35(folder)
    if name == "xlstm-fused":
        fuse_xlstm(folder)
    json.dump({"transformers": transformers.__version__, "torch": torch.__version__, "seed": seed,
               "prompts": found}, open(f"{folder}/reference.json", "w"))
    print(name, "seed", seed, os.path.getsize(f"{folder}/model.safetensors"), "bytes")


if __name__ == "__main__":
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    for name, (family, dtype, old, settings) in MODELS.items():
        if len(sys.argv) == 2 or name in sys.argv[2:]:
            make(f"{sys.argv[1]}/{name}", name, family, dtype, old, settings)
