#!/usr/bin/env python3
"""Makes tests/fixtures/tiny/rwkv7: RWKV-7 (arXiv:2503.14456) with random weights and its logits.

  python tools/oracle/make_rwkv7.py tests/fixtures/tiny/rwkv7 [--official]

The folder has the format of flash-linear-attention. transformers does not contain this model; the
script computes the recurrence of the paper token by token in float32.
--official: computes the logits with the authors' package as well (pip install rwkv; head size 64
only) and prints the largest difference instead of writing the fixture.
"""
import json
import os
import sys
import tempfile

import safetensors.torch
import torch
import torch.nn.functional as F

SHOWN, STEPS, LEAST_GAP = 3, 16, 0.02
RANKS = {"w": "decay_low_rank_dim", "a": "a_low_rank_dim", "v": "v_low_rank_dim",
         "g": "gate_low_rank_dim"}
CONFIG = dict(model_type="rwkv7", architectures=["RWKV7ForCausalLM"], hidden_size=24,
              intermediate_size=40, num_hidden_layers=3, head_dim=8, num_heads=3, vocab_size=61,
              decay_low_rank_dim=5, a_low_rank_dim=4, v_low_rank_dim=3, gate_low_rank_dim=6,
              norm_eps=1e-5, norm_first=True, norm_bias=True, hidden_act="sqrelu", attn=None,
              value_dim=[24, 24, 24], max_position_embeddings=128, bos_token_id=1, eos_token_id=2,
              pad_token_id=0, tie_word_embeddings=False)


def weights(config, generator):
    dim, hidden, size = (config[key] for key in ("hidden_size", "intermediate_size", "head_dim"))
    noise = lambda *shape: torch.randn(shape, generator=generator)
    matrix = lambda out, inputs, scale=1.3: noise(out, inputs) * scale * inputs ** -0.5
    w = {"model.embeddings.weight": noise(config["vocab_size"], dim),
         "lm_head.weight": matrix(config["vocab_size"], dim, 2.6)}

    def norm(name):
        w[name + ".weight"], w[name + ".bias"] = 1 + 0.2 * noise(dim), 0.2 * noise(dim)

    norm("model.norm")
    for layer in range(config["num_hidden_layers"]):
        p = f"model.layers.{layer}."
        for name in ["attn_norm", "ffn_norm", "attn.g_norm"] + ["pre_norm"] * (layer == 0):
            norm(p + name)
        for part in "rwkvag":
            w[f"{p}attn.x_{part}"] = torch.rand((1, 1, dim), generator=generator)
        w[p + "attn.k_k"], w[p + "attn.k_a"] = 0.7 + 0.2 * noise(dim), 1 + 0.2 * noise(dim)
        w[p + "attn.r_k"] = 0.3 * noise(dim // size, size)
        for part in "rkvo":
            w[f"{p}attn.{part}_proj.weight"] = matrix(dim, dim)
        for part, key in RANKS.items():
            if part == "v" and layer == 0:
                continue
            place = f"{p}attn.{part}_lora.lora."
            w[place + "0.weight"] = matrix(config[key], dim)
            w[place + "2.weight"] = matrix(dim, config[key])
            if part != "g":
                w[place + "2.bias"] = noise(dim) - (1.0 if part == "w" else 0.0)
        w[p + "ffn.x_k"] = torch.rand(dim, generator=generator)
        w[p + "ffn.key.weight"] = matrix(hidden, dim)
        w[p + "ffn.value.weight"] = matrix(dim, hidden)
    return w


def time_mix(w, p, x, first, config):
    dim, size = config["hidden_size"], config["head_dim"]
    heads, rows = dim // size, len(x)
    delta = torch.cat([torch.zeros(1, dim), x[:-1]]) - x
    mixed = {part: x + delta * w[f"{p}x_{part}"].flatten() for part in "rwkvag"}

    def lora(part, act):
        place = f"{p}{part}_lora.lora."
        return F.linear(act(mixed[part] @ w[place + "0.weight"].T), w[place + "2.weight"],
                        w.get(place + "2.bias"))

    r, k, v = (mixed[part] @ w[f"{p}{part}_proj.weight"].T for part in "rkv")
    decay = torch.exp(-torch.exp(torch.tensor(-0.5)) * torch.sigmoid(lora("w", torch.tanh)))
    if first is None:
        first = v
    else:
        v = torch.lerp(v, first, torch.sigmoid(lora("v", lambda y: y)))
    a, g = torch.sigmoid(lora("a", lambda y: y)), lora("g", torch.sigmoid)
    kk = F.normalize((k * w[p + "k_k"]).view(rows, heads, size), dim=-1)
    k = k * (1 + (a - 1) * w[p + "k_a"])
    r, decay, k, v, a = (y.view(rows, heads, size) for y in (r, decay, k, v, a))
    state, out = torch.zeros(heads, size, size), []  # [heads, value, key]
    for t in range(rows):
        removed = state @ -kk[t][..., None] @ (kk[t] * a[t])[:, None]
        state = state * decay[t][:, None] + removed + v[t][..., None] * k[t][:, None]
        out.append((state @ r[t][..., None])[..., 0])
    y = F.group_norm(torch.stack(out).view(rows, dim), heads, w[p + "g_norm.weight"],
                     w[p + "g_norm.bias"], size * config["norm_eps"])
    y = y + ((r * k * w[p + "r_k"]).sum(-1, keepdim=True) * v).view(rows, dim)
    return (y * g) @ w[p + "o_proj.weight"].T, first


def logits_of(w, ids, config):
    norm = lambda x, name: F.layer_norm(x, x.shape[-1:], w[name + ".weight"], w[name + ".bias"],
                                        config["norm_eps"])
    x, first = norm(w["model.embeddings.weight"][ids], "model.layers.0.pre_norm"), None
    for layer in range(config["num_hidden_layers"]):
        p = f"model.layers.{layer}."
        y, first = time_mix(w, p + "attn.", norm(x, p + "attn_norm"), first, config)
        x = x + y
        y = norm(x, p + "ffn_norm")
        delta = torch.cat([torch.zeros(1, y.shape[1]), y[:-1]]) - y
        mixed = y + delta * w[p + "ffn.x_k"]
        x = x + torch.relu(mixed @ w[p + "ffn.key.weight"].T) ** 2 @ w[p + "ffn.value.weight"].T
    return norm(x, "model.norm") @ w["lm_head.weight"].T


def record(w, ids, config):
    logits = logits_of(w, ids, config)
    context, gap = list(ids), float("inf")
    for _ in range(STEPS):
        best = logits_of(w, context, config)[-1].topk(2)
        gap = min(gap, float(best.values[0] - best.values[1]))
        context.append(int(best.indices[0]))
    return {"ids": ids, "best": logits.argmax(-1).tolist(),
            "logits": [[float(f"{x:.7g}") for x in row] for row in logits[-SHOWN:].tolist()],
            "greedy": context[len(ids):], "gap": float(f"{gap:.3g}")}


def official(w, ids, config):
    """Returns the logits of the authors' package for the weights, renamed as in RWKV-LM."""
    theirs = {"emb.weight": w["model.embeddings.weight"], "head.weight": w["lm_head.weight"],
              "ln_out.weight": w["model.norm.weight"], "ln_out.bias": w["model.norm.bias"]}
    names = {"attn_norm": "ln1", "ffn_norm": "ln2", "pre_norm": "ln0", "attn.g_norm": "att.ln_x",
             "attn.r_proj": "att.receptance", "attn.k_proj": "att.key", "attn.v_proj": "att.value",
             "attn.o_proj": "att.output"}
    for key, value in w.items():
        if not key.startswith("model.layers."):
            continue
        layer, part = key.removeprefix("model.layers.").split(".", 1)
        stem, _, end = part.rpartition(".")
        if "_lora.lora." in part:
            kind, number = part[len("attn.")], part.split(".")[3]
            index = 0 if end == "bias" else 1 if number == "0" else 2
            theirs[f"blocks.{layer}.att.{kind}{index}"] = value if end == "bias" else value.T
        elif stem in names:
            theirs[f"blocks.{layer}.{names[stem]}.{end}"] = value
        else:
            theirs[f"blocks.{layer}.{part.replace('attn.', 'att.')}"] = value
    for index in range(3):  # the package expects these in layer 0, too, and ignores them
        theirs[f"blocks.0.att.v{index}"] = theirs[f"blocks.0.att.a{index}"]
    os.environ["RWKV_V7_ON"], os.environ["RWKV_JIT_ON"] = "1", "0"
    from rwkv.model import RWKV
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "rwkv7")
        torch.save({key: value.contiguous() for key, value in theirs.items()}, path + ".pth")
        model = RWKV(model=path, strategy="cpu fp32")
        return model.forward(list(ids), None, full_output=True)[0]


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    if "--official" in sys.argv:
        config = CONFIG | dict(hidden_size=128, head_dim=64, num_heads=2, intermediate_size=512)
        w = weights(config, torch.Generator().manual_seed(1))
        ids = torch.randint(3, 61, (30,), generator=torch.Generator().manual_seed(2)).tolist()
        ours, theirs = logits_of(w, ids, config), official(w, ids, config).float()
        print("largest difference", float((ours - theirs).abs().max()), "of", float(ours.abs().max()))
        sys.exit()
    for seed in range(1, 60):
        generator = torch.Generator().manual_seed(seed)
        stored = {key: value.bfloat16() for key, value in weights(CONFIG, generator).items()}
        w = {key: value.float() for key, value in stored.items()}
        prompts = [torch.randint(3, 61, (n,), generator=generator).tolist() for n in (27, 5)]
        found = [record(w, ids, CONFIG) for ids in prompts]
        if min(p["gap"] for p in found) >= LEAST_GAP and \
           min(len(set(p["greedy"])) for p in found) >= 5:
            break
    os.makedirs(sys.argv[1], exist_ok=True)
    safetensors.torch.save_file({key: value.contiguous() for key, value in stored.items()},
                                sys.argv[1] + "/model.safetensors", metadata={"format": "pt"})
    json.dump(CONFIG, open(sys.argv[1] + "/config.json", "w"), indent=1)
    json.dump({"torch": torch.__version__, "seed": seed, "prompts": found},
              open(sys.argv[1] + "/reference.json", "w"))
    print("seed", seed, os.path.getsize(sys.argv[1] + "/model.safetensors"), "bytes")
