#!/usr/bin/env python3
"""Compares `veery inspect` with transformers in float32 on the tiny checkpoints; records test data.

  python tools/oracle/compare_inspect.py VEERY tests/fixtures/tiny [NAME ...]
  python tools/oracle/compare_inspect.py VEERY tests/fixtures/tiny --record tests/fixtures/inspect.json

Compared values, over all positions of the first prompt of NAME/reference.json:
- attention maps: largest absolute difference;
- the embedding, the residual stream after each layer and the output of the final norm: largest
  difference divided by the largest value;
- keys after RoPE: as above, where the cache of transformers holds them unchanged.
NAME: a folder to compare; default: all folders that transformers can read.
"""
import json
import os
import subprocess
import sys
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"
import numpy
import torch
import transformers

ALLOWED = 2e-4
# The checkpoints recorded for the tests: plain attention, sliding windows and soft caps, sinks,
# latent attention, ALiBi, layers that share keys, recurrence in parallel to attention and between
# attention layers, chunked attention.
RECORDED = ["llama-llama3", "gemma2", "gemma4", "gpt-oss", "deepseek-v2", "qwen3moe", "mpt", "bloom",
            "qwen3next", "falcon-h1", "llama4", "cohere2", "phi3-longrope", "gpt2"]
SHOWN = 2  # number of last positions that are recorded


def of_transformers(folder, ids):
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager",
        experts_implementation="eager").eval()
    text = model.config.get_text_config()
    with torch.no_grad():
        out = model(torch.tensor([ids]), output_attentions=True, output_hidden_states=True,
                    use_cache=False)
    kept = {}
    try:
        with torch.no_grad():
            cache = model(torch.tensor([ids]), use_cache=True).past_key_values
        for i, layer in enumerate(cache.layers):
            keys = getattr(layer, "keys", None)
            if keys is not None and keys.dim() == 4 and keys.shape[2] == len(ids):
                kept[i] = keys[0].numpy()
    except Exception:  # noqa: BLE001 - some families have caches of another kind
        pass
    attentions = [None if a is None else a[0].numpy() for a in getattr(out, "attentions", None) or ()]
    return attentions, [h[0].numpy() for h in getattr(out, "hidden_states", None) or ()], kept, text


def of_veery(veery, folder, ids, into):
    command = [veery, "inspect", folder, "--ids", ",".join(map(str, ids)), "--exact", "--out", into,
               "--top", "3", "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip())
    return json.load(open(f"{into}/index.json"))


def relative(found, expected):
    return float(numpy.abs(found - expected).max() / max(numpy.abs(expected).max(), 1e-30))


def compare(name, index, into, theirs):
    attentions, hidden, kept, text = theirs
    load = lambda entry: numpy.load(f"{into}/{entry['file']}")
    worst = {"attention": 0.0, "hidden": 0.0, "keys": 0.0}
    counted = {"attention": 0, "hidden": 0, "keys": 0}

    def note(what, value):
        worst[what] = max(worst[what], value)
        counted[what] += 1

    layers = index["layers"]
    attending = [layer for layer in layers if layer["attends"]]
    # Some families return maps for attention layers only, others an entry (or None) per layer.
    maps = dict(enumerate(attentions)) if len(attentions) == len(layers) else \
        {layer["layer"]: a for layer, a in zip(attending, attentions)}
    for layer in attending:
        a = maps.get(layer["layer"])
        if a is not None and a.ndim == 3:
            found = load(layer["files"]["attention"])
            if found.shape != a.shape:
                raise RuntimeError(f"{name}: maps of layer {layer['layer']} have the shape "
                                   f"{found.shape}, expected {a.shape}")
            if layer["sinks"] and numpy.abs(a.sum(-1) - 1).max() < 1e-4:
                found = found / found.sum(-1, keepdims=True)  # maps of Granite exclude the sinks
            note("attention", float(numpy.abs(found - a).max()))
    if hidden:
        # transformers returns the layers' outputs for Mamba-2 and their inputs for other families.
        states = [layer["files"]["hidden"] for layer in layers]
        if text.model_type != "mamba2":
            states = [index["files"]["embedding"], *states[:-1]]
        pairs = [*zip(states, hidden), (index["files"]["final_hidden"], hidden[-1])]
        for entry, h in pairs:
            note("hidden", relative(load(entry), h))
    for layer in attending:
        keys = kept.get(layer["layer"])
        if keys is not None and layer["mixer"].startswith("attention"):
            found = load(layer["files"]["keys"])
            if found.shape == keys.shape:
                note("keys", relative(found, keys))
    return worst, counted


def rounded(values):
    return [float(f"{x:.6g}") for x in numpy.asarray(values, dtype=numpy.float64).ravel()]


def record(index, theirs, ids):
    """Returns the data that the tests read: maps and hidden states of the last positions."""
    attentions, hidden, _, _ = theirs
    attending = [layer["layer"] for layer in index["layers"] if layer["attends"]]
    numbers = range(len(index["layers"])) if len(attentions) == len(index["layers"]) else attending
    maps = {str(i): rounded(a[:, -SHOWN:, :]) for i, a in zip(numbers, attentions)
            if a is not None and i in attending}
    return {"ids": ids, "mixers": [layer["mixer"] for layer in index["layers"]], "attention": maps,
            "hidden": [rounded(h[-SHOWN:]) for h in hidden]}


def main():
    veery, root, *names = sys.argv[1:]
    target = None
    if "--record" in names:
        at = names.index("--record")
        target, names = names[at + 1], RECORDED
    recorded, failed = {}, []
    for name in names or sorted(os.listdir(root)):
        folder = f"{root}/{name}"
        ids = json.load(open(f"{folder}/reference.json"))["prompts"][0]["ids"]
        if "quantization" in json.load(open(f"{folder}/config.json")):
            print(f"{name:20} not read by transformers: quantised by MLX")
            continue
        try:
            theirs = of_transformers(folder, ids)
        except Exception as error:  # noqa: BLE001
            print(f"{name:20} not read by transformers: {str(error).splitlines()[0][:80]}")
            continue
        with tempfile.TemporaryDirectory() as temporary:
            into = f"{temporary}/out"
            try:
                index = of_veery(veery, folder, ids, into)
                worst, counted = compare(name, index, into, theirs)
            except RuntimeError as error:
                print(f"{name:20} FAILED {error}")
                failed.append(name)
                continue
        good = max(worst.values()) < ALLOWED
        failed += [] if good else [name]
        print(f"{name:20} {'ok' if good else 'DIFFERS'} " + ", ".join(
            f"{what} {worst[what]:.1e} ({counted[what]})" for what in worst), flush=True)
        recorded[name] = record(index, theirs, ids)
    if target:
        json.dump({"transformers": transformers.__version__, "shown": SHOWN, "models": recorded},
                  open(target, "w"), separators=(",", ":"))
    if failed:
        sys.exit(f"different: {', '.join(failed)}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    main()
