#!/usr/bin/env python3
"""Makes tests/fixtures/tiny/bailing2: Ling 2.0 (arXiv:2510.22115), random weights, with logits.

  python tools/oracle/make_bailing.py tests/fixtures/tiny/bailing2 [--mlx FOLDER]

transformers does not contain this model. The script computes the formulas of the published
modeling_bailing_moe_v2.py in double precision.
--mlx FOLDER: writes a checkpoint to FOLDER, computes its logits with mlx-lm as well
(pip install "mlx[cpu]" mlx-lm) and prints the largest difference, instead of writing the fixture.
mlx-lm expects heads of hidden_size / num_attention_heads dimensions.
Needs numpy, ml_dtypes and safetensors.
"""
import json
import os
import sys

import ml_dtypes
import numpy as np
from safetensors.numpy import load_file, save_file

SHOWN, STEPS, LEAST_GAP, LEAST_CHOICE = 3, 16, 0.02, 2e-4
CONFIG = dict(
    architectures=["BailingMoeV2ForCausalLM"], model_type="bailing_moe", vocab_size=61,
    hidden_size=36, intermediate_size=30, num_hidden_layers=3, num_attention_heads=6,
    num_key_value_heads=2, head_dim=10, hidden_act="silu", max_position_embeddings=128,
    rms_norm_eps=1e-6, rope_theta=600000, rope_scaling=None, partial_rotary_factor=0.4,
    use_qk_norm=True, use_qkv_bias=False, use_bias=False, num_experts=8, num_experts_per_tok=3,
    num_shared_experts=2, moe_intermediate_size=9, moe_shared_expert_intermediate_size=9, n_group=4,
    topk_group=2, norm_topk_prob=True, routed_scaling_factor=2.5, score_function="sigmoid",
    moe_router_enable_expert_bias=True, first_k_dense_replace=1, num_nextn_predict_layers=0,
    norm_head=False, use_sliding_window=False, max_window_layers=3, tie_word_embeddings=False,
    bos_token_id=1, eos_token_id=2, pad_token_id=0, torch_dtype="bfloat16")


def weights(config, random):
    c = config
    dim, head = c["hidden_size"], c["head_dim"]
    heads, pairs = c["num_attention_heads"], c["num_key_value_heads"]
    matrix = lambda out, inputs, scale=1.3: random.standard_normal((out, inputs)) * scale * inputs ** -0.5
    norm = lambda size: 1 + 0.2 * random.standard_normal(size)
    w = {"model.word_embeddings.weight": random.standard_normal((c["vocab_size"], dim)),
         "model.norm.weight": 1 + 0.3 * random.standard_normal(dim),
         "lm_head.weight": matrix(c["vocab_size"], dim, 2.6)}

    def feed_forward(place, hidden):
        for name, shape in (("gate", (hidden, dim)), ("up", (hidden, dim)), ("down", (dim, hidden))):
            w[f"{place}.{name}_proj.weight"] = matrix(*shape)

    for layer in range(c["num_hidden_layers"]):
        p = f"model.layers.{layer}."
        w[p + "input_layernorm.weight"], w[p + "post_attention_layernorm.weight"] = norm(dim), norm(dim)
        w[p + "attention.query_key_value.weight"] = matrix((heads + 2 * pairs) * head, dim)
        w[p + "attention.dense.weight"] = matrix(dim, heads * head)
        w[p + "attention.query_layernorm.weight"], w[p + "attention.key_layernorm.weight"] = norm(head), norm(head)
        if layer < c["first_k_dense_replace"]:
            feed_forward(p + "mlp", c["intermediate_size"])
            continue
        w[p + "mlp.gate.weight"] = matrix(c["num_experts"], dim)
        w[p + "mlp.gate.expert_bias"] = 0.2 * random.standard_normal(c["num_experts"])
        for expert in range(c["num_experts"]):
            feed_forward(f"{p}mlp.experts.{expert}", c["moe_intermediate_size"])
        feed_forward(p + "mlp.shared_experts", c["moe_intermediate_size"] * c["num_shared_experts"])
    return w


def rms_norm(x, weight, eps):
    return weight * x / np.sqrt(np.mean(x * x, -1, keepdims=True) + eps)


def feed_forward(w, place, x):
    gate = x @ w[place + ".gate_proj.weight"].T
    return (gate / (1 + np.exp(-gate)) * (x @ w[place + ".up_proj.weight"].T)) @ w[place + ".down_proj.weight"].T


def attention(w, p, x, c):
    """Returns causal attention of x (rows, dim). RoPE rotates the first 2 * half dimensions of each
    head and pairs dimension i with i + half."""
    rows, head = len(x), c["head_dim"]
    heads, pairs = c["num_attention_heads"], c["num_key_value_heads"]
    qkv = (x @ w[p + "query_key_value.weight"].T).reshape(rows, heads + 2 * pairs, head).swapaxes(0, 1)
    q = rms_norm(qkv[:heads], w[p + "query_layernorm.weight"], c["rms_norm_eps"])
    k = rms_norm(qkv[heads:heads + pairs], w[p + "key_layernorm.weight"], c["rms_norm_eps"])
    v = qkv[heads + pairs:]
    half = int(head * c["partial_rotary_factor"]) // 2
    angle = np.arange(rows)[:, None] * float(c["rope_theta"]) ** (-np.arange(half) / half)
    sin, cos = np.sin(angle), np.cos(angle)

    def turn(y):
        a, b = y[..., :half], y[..., half:2 * half]
        return np.concatenate([a * cos - b * sin, b * cos + a * sin, y[..., 2 * half:]], -1)

    shared = heads // pairs
    k, v = np.repeat(turn(k), shared, 0), np.repeat(v, shared, 0)
    scores = turn(q) @ k.swapaxes(1, 2) / np.sqrt(head)
    scores[:, np.triu(np.ones((rows, rows), bool), 1)] = -np.inf
    part = np.exp(scores - scores.max(-1, keepdims=True))
    y = (part / part.sum(-1, keepdims=True)) @ v
    return y.swapaxes(0, 1).reshape(rows, -1) @ w[p + "dense.weight"].T


def mixture(w, p, x, c, gaps):
    """Returns the MoE output. A group scores the sum of its two best experts; the experts are
    selected from the best groups. Appends the gaps between selected and rejected scores to
    `gaps`."""
    scores = 1 / (1 + np.exp(-(x @ w[p + "gate.weight"].T)))
    y = feed_forward(w, p + "shared_experts", x)
    for row, s in enumerate(scores):
        ranked = s + w[p + "gate.expert_bias"]
        groups = ranked.reshape(c["n_group"], -1)
        best = np.sort(groups, -1)[:, -2:].sum(-1)
        order = np.argsort(-best)
        gaps.append(best[order[c["topk_group"] - 1]] - best[order[c["topk_group"]]])
        masked = np.full_like(groups, -np.inf)
        taken = order[:c["topk_group"]]
        masked[taken] = groups[taken]
        order = np.argsort(-masked.ravel())
        used = c["num_experts_per_tok"]
        gaps.append(masked.ravel()[order[used - 1]] - masked.ravel()[order[used]])
        chosen = order[:used]
        for expert, weight in zip(chosen, s[chosen] / (s[chosen].sum() + 1e-20)):
            y[row] += c["routed_scaling_factor"] * weight * feed_forward(w, f"{p}experts.{expert}", x[row])
    return y


def logits_of(w, ids, c, gaps):
    x = w["model.word_embeddings.weight"][ids]
    for layer in range(c["num_hidden_layers"]):
        p = f"model.layers.{layer}."
        norm = lambda name, y: rms_norm(y, w[p + name + ".weight"], c["rms_norm_eps"])
        x = x + attention(w, p + "attention.", norm("input_layernorm", x), c)
        y = norm("post_attention_layernorm", x)
        dense = layer < c["first_k_dense_replace"]
        x = x + (feed_forward(w, p + "mlp", y) if dense else mixture(w, p + "mlp.", y, c, gaps))
    return rms_norm(x, w["model.norm.weight"], c["rms_norm_eps"]) @ w["lm_head.weight"].T


def record(w, ids, config):
    choices = []
    logits = logits_of(w, ids, config, choices)
    context, gap = list(ids), float("inf")
    for _ in range(STEPS):
        last = logits_of(w, context, config, choices)[-1]
        low, high = np.sort(last)[-2:]
        gap = min(gap, float(high - low))
        context.append(int(last.argmax()))
    found = {"ids": ids, "best": logits.argmax(-1).tolist(),
             "logits": [[float(f"{x:.7g}") for x in row] for row in logits[-SHOWN:].tolist()],
             "greedy": context[len(ids):], "gap": float(f"{gap:.3g}")}
    return found, min(choices)


def make(config, seed):
    """Returns the random generator, the weights as stored and the weights in double precision."""
    random = np.random.default_rng(seed)
    bias = lambda name: name.endswith("expert_bias")
    stored = {name: x.astype(np.float32 if bias(name) else ml_dtypes.bfloat16)
              for name, x in weights(config, random).items()}
    return random, stored, {name: x.astype(np.float64) for name, x in stored.items()}


def compare_with_mlx(folder):
    import mlx.core as mx
    from mlx_lm.utils import load_model
    from pathlib import Path
    mx.set_default_device(mx.cpu)
    config = CONFIG | dict(hidden_size=60)
    random, _, w = make(config, 1)
    ids = random.integers(3, 61, 40).tolist()
    os.makedirs(folder, exist_ok=True)
    save_file({name: x.astype(np.float32) for name, x in w.items()}, folder + "/model.safetensors",
              metadata={"format": "pt"})
    json.dump(config | dict(torch_dtype="float32"), open(folder + "/config.json", "w"))
    w = {name: x.astype(np.float64) for name, x in load_file(folder + "/model.safetensors").items()}
    model, _ = load_model(Path(folder))
    theirs, ours = np.array(model(mx.array([ids]))[0].astype(mx.float32)), logits_of(w, ids, config, [])
    print("largest difference", np.abs(ours - theirs).max(), "of", np.abs(ours).max())


if __name__ == "__main__":
    if "--mlx" in sys.argv:
        compare_with_mlx(sys.argv[sys.argv.index("--mlx") + 1])
        sys.exit()
    for seed in range(1, 400):
        random, stored, w = make(CONFIG, seed)
        prompts = [random.integers(3, 61, n).tolist() for n in (27, 5)]
        found = [record(w, ids, CONFIG) for ids in prompts]
        if min(p["gap"] for p, _ in found) >= LEAST_GAP and min(choice for _, choice in found) >= LEAST_CHOICE \
           and min(len(set(p["greedy"])) for p, _ in found) >= 5:
            break
    else:
        sys.exit("no seed gives prompts without near-ties")
    os.makedirs(sys.argv[1], exist_ok=True)
    save_file(stored, sys.argv[1] + "/model.safetensors", metadata={"format": "pt"})
    json.dump(CONFIG, open(sys.argv[1] + "/config.json", "w"), indent=1)
    json.dump({"numpy": np.__version__, "seed": seed, "prompts": [p for p, _ in found]},
              open(sys.argv[1] + "/reference.json", "w"))
    print("seed", seed, os.path.getsize(sys.argv[1] + "/model.safetensors"), "bytes")
