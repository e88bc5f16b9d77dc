#!/usr/bin/env python3
"""Compares the gradients that examples/attention_block.cpp writes with those of torch, in f64.

The functions of torch are elementary ones, written as the modules of transformers' Llama are.

usage: attention_torch_test.py PROGRAM     status 77 if Python has no torch
"""
import json
import pathlib
import struct
import subprocess
import sys
import tempfile

try:
    import torch
except ImportError:
    print("skipped: Python has no torch")
    sys.exit(77)

HEAD_DIM, EPS = 8, 1e-5
TOLERANCE = 1e-5  # of the largest element of each gradient; f32 has a precision of 6e-8


def load(path):
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    tensors = {}
    for name, entry in json.loads(data[8 : 8 + length]).items():
        if name != "__metadata__":
            assert entry["dtype"] == "F32", name
            begin, end = (8 + length + offset for offset in entry["data_offsets"])
            values = torch.frombuffer(bytearray(data[begin:end]), dtype=torch.float32)
            tensors[name] = values.reshape(entry["shape"]).double()
    return tensors


def rms_norm(x, weight):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPS) * weight


def heads(x):
    return x.unflatten(-1, (-1, HEAD_DIM)).transpose(-3, -2)


def rotated(x):
    """x: [batch, heads, tokens, head_dim]."""
    frequencies = 10000 ** (-torch.arange(0, HEAD_DIM, 2, dtype=torch.float64) / HEAD_DIM)
    angles = torch.outer(torch.arange(x.shape[-2], dtype=torch.float64), frequencies).repeat(1, 2)
    first, second = x.chunk(2, dim=-1)
    return x * angles.cos() + torch.cat((-second, first), dim=-1) * angles.sin()


def attention(q, k, v):
    k, v = (each.repeat_interleave(q.shape[1] // k.shape[1], dim=1) for each in (k, v))
    scores = q @ k.transpose(-2, -1) / HEAD_DIM**0.5
    hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
    return scores.masked_fill(hidden, -torch.inf).softmax(-1) @ v


def loss(w):
    h = rms_norm(w["x"], w["norm1"])
    q, k, v = (heads(h @ w[name].T) for name in "qkv")
    joined = attention(rotated(q), rotated(k), v).transpose(1, 2).flatten(-2)
    y = w["x"] + joined @ w["out"].T
    n = rms_norm(y, w["norm2"])
    y = y + (torch.nn.functional.silu(n @ w["gate"].T) * (n @ w["up"].T)) @ w["down"].T
    return y.pow(2).mean()


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "block.safetensors"
        subprocess.run([sys.argv[1], path], check=True, stdout=subprocess.DEVNULL)
        found = load(path)
    weights = {name: value.requires_grad_() for name, value in found.items() if name + ".gradient" in found}
    assert len(weights) == 10, sorted(found)
    expected = loss(weights)
    expected.backward()
    compared = {"loss": (found["loss"], expected.detach()),
                **{name: (found[name + ".gradient"], value.grad) for name, value in weights.items()}}  # fmt: skip
    failed = 0
    for name, (ours, theirs) in compared.items():
        error = ((ours - theirs).abs().max() / theirs.abs().max()).item()
        print(f"{name}: error {error:.1e}")
        failed += not error <= TOLERANCE  # NaN fails
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
