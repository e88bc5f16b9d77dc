#!/usr/bin/env python3
"""Makes tiny xLSTM language models with mLSTM and sLSTM blocks, and records the float32 results of
the package `xlstm` (PyPI) without its kernels.

  pip install xlstm==2.0.6
  python tools/oracle/make_xlstm_lm.py tests/fixtures/tiny

xlstm-lm: both types of blocks; xlstm-lm-cuda: sLSTM blocks only, with recurrent weights in the
layout of the package's CUDA kernels. The files have the format of make_tiny.py.
"""
import dataclasses
import json
import os
import sys

import safetensors.torch
import torch
from xlstm.blocks.mlstm.block import mLSTMBlockConfig
from xlstm.blocks.mlstm.layer import mLSTMLayerConfig
from xlstm.blocks.slstm.block import sLSTMBlockConfig
from xlstm.blocks.slstm.layer import sLSTMLayerConfig
from xlstm.components.feedforward import FeedForwardConfig
from xlstm.xlstm_lm_model import xLSTMLMModel, xLSTMLMModelConfig

VOCABULARY, SHOWN, STEPS, LEAST_GAP = 61, 3, 16, 0.02


def settings(name):
    slstm = sLSTMBlockConfig(
        slstm=sLSTMLayerConfig(backend="vanilla", num_heads=2, conv1d_kernel_size=3, dtype="float32",
                               enable_automatic_mixed_precision=False),
        feedforward=FeedForwardConfig(proj_factor=1.3, act_fn="gelu"))
    common = dict(slstm_block=slstm, context_length=128, num_blocks=3, embedding_dim=24,
                  vocab_size=VOCABULARY)
    if name == "xlstm-lm-cuda":
        return xLSTMLMModelConfig(**common, slstm_at="all", tie_weights=True)
    mlstm = mLSTMBlockConfig(mlstm=mLSTMLayerConfig(
        conv1d_kernel_size=4, qkv_proj_blocksize=4, num_heads=4))
    return xLSTMLMModelConfig(**common, mlstm_block=mlstm, slstm_at=[1])


def fill(model, generator):
    for name, value in model.named_parameters():
        noise = torch.randn(value.shape, generator=generator)
        if "norm" in name or name.endswith("_bias_") or name.endswith("bias"):
            value.data = noise * 0.3
        elif "embedding" in name:
            value.data = noise
        else:
            value.data = noise * 1.5 * value.shape[-1] ** -0.5
    if model.config.tie_weights:
        model.token_embedding.weight.data *= 24 ** -0.5 * 3


def greedy(model, ids):
    gap, made = 1e9, []
    for _ in range(STEPS):
        logits = model(torch.tensor([ids + made]))[0, -1]
        best = logits.topk(2).values
        gap = min(gap, float(best[0] - best[1]))
        made.append(int(logits.argmax()))
    return made, gap


def as_cuda(tensors, heads):
    for name, value in tensors.items():
        if name.endswith("_recurrent_kernel_"):
            size = value.shape[-1]
            value = value.view(heads, 4, size, size).permute(0, 3, 1, 2)
            tensors[name] = value.reshape(heads, size, 4 * size).contiguous()
        elif name.endswith("_bias_"):
            tensors[name] = value.view(4, heads, -1).permute(1, 0, 2).reshape(-1).contiguous()


def without_private(value):
    if isinstance(value, dict):
        return {k: without_private(v) for k, v in value.items() if not k.startswith("_")}
    return value


def make(root, name):
    folder = os.path.join(root, name)
    os.makedirs(folder, exist_ok=True)
    torch.manual_seed(7)
    config = settings(name)
    model = xLSTMLMModel(config).float().eval()
    generator = torch.Generator().manual_seed(11)
    fill(model, generator)
    tensors = {key: value.clone() for key, value in model.state_dict().items()}
    if config.tie_weights:
        del tensors["lm_head.weight"]
    said = without_private(dataclasses.asdict(config))
    if name == "xlstm-lm-cuda":
        as_cuda(tensors, 2)
        said["slstm_block"]["slstm"]["backend"] = "cuda"
    safetensors.torch.save_file(tensors, os.path.join(folder, "model.safetensors"),
                                metadata={"format": "pt"})
    with open(os.path.join(folder, "config.json"), "w") as out:
        json.dump(said, out, indent=1)
    prompts = []
    for length in (1, 9, 40):
        while True:
            ids = torch.randint(3, VOCABULARY, (length,), generator=generator).tolist()
            with torch.no_grad():
                made, gap = greedy(model, ids)
                logits = model(torch.tensor([ids]))[0]
            if gap > LEAST_GAP:
                break
        prompts.append({"ids": ids, "logits": logits[-SHOWN:].tolist(),
                        "best": logits.argmax(-1).tolist(), "greedy": made, "gap": gap})
    with open(os.path.join(folder, "reference.json"), "w") as out:
        json.dump({"prompts": prompts}, out)


if __name__ == "__main__":
    for name in ("xlstm-lm", "xlstm-lm-cuda"):
        make(sys.argv[1], name)
