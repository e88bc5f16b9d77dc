#!/usr/bin/env python3
"""Compares veery_rope_forward and veery_rope_backward with torch.

The functions of torch are written as transformers has them: rotate_half, apply_interleaved_mrope (Qwen3-VL), sections
side by side (Qwen2.5-VL), rotate_every_two (GPT-J), and the rotation of vision towers. Angles are f64, because those of
f32 are off by 0.1 radians at position 2^20. Gradients are torch's.

f32 must be within 1e-6 of torch in f64, relative to each element; bf16 must have torch's bits.

usage: rope_torch_test.py LIBRARY     status 77 if Python has no torch, or if the library is not built
"""
import ctypes
import pathlib
import random
import sys

try:
    import torch
except ImportError:
    sys.exit(77)

INTERLEAVED, NEOX, MROPE, VISION, IMROPE = 0, 2, 8, 24, 40
I32, U32, BF16, F32 = 3, 4, 7, 8
CASES = 200


class Params(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        *((name, ctypes.c_uint32) for name in ("batch", "n_heads", "seq_len", "head_dim", "rope_dim")),
        ("mode", ctypes.c_int32),
        ("theta_base", ctypes.c_double),
        ("sections", ctypes.c_uint32 * 4),
        *((name, ctypes.c_int32) for name in
          ("pairing", "layout", "dtype", "position_dtype", "scaling", "untruncated")),
        *((name, ctypes.c_double) for name in
          ("factor", "original_context", "beta_fast", "beta_slow", "low_freq_factor", "high_freq_factor",
           "attention_factor")),
        ("frequency_factors", ctypes.c_void_p),
        ("frequency_factor_count", ctypes.c_size_t),
    ]  # fmt: skip


def library(path):
    veery = ctypes.CDLL(path)
    veery.veery_last_message.restype = ctypes.c_char_p
    arguments = [*[ctypes.c_void_p, ctypes.c_size_t] * 3, ctypes.c_void_p]
    veery.veery_rope_forward.argtypes = veery.veery_rope_backward.argtypes = arguments
    return veery


def call(veery, name, x, positions, params):
    y = torch.empty_like(x)
    status = getattr(veery, name)(x.data_ptr(), x.numel(), positions.data_ptr(), positions.numel(), y.data_ptr(),
                                  y.numel(), ctypes.byref(params))  # fmt: skip
    assert status == 0, veery.veery_last_message().decode()
    return y


def angles(p, positions):
    """[batch, seq, rope_dim / 2] in f64. positions: [4, batch, seq]."""
    dims = p.rope_dim // 2 if p.mode == VISION else p.rope_dim
    frequency = 1.0 / p.theta_base ** (torch.arange(0, p.rope_dim, 2, dtype=torch.float64) / dims)
    each = positions.double()[..., None] * frequency
    sections = list(p.sections)
    if p.mode == MROPE:
        return torch.cat([part[i] for i, part in enumerate(each.split(sections, dim=-1))], dim=-1)
    if p.mode == IMROPE:
        result = each[0].clone()
        for axis in (1, 2):
            taken = slice(axis, 3 * sections[axis], 3)
            result[..., taken] = each[axis, ..., taken]
        return result
    if p.mode == VISION:
        half = p.rope_dim // 4
        return torch.cat([each[0, ..., :half], each[1, ..., :half]], dim=-1)
    return each[0]


def rotated(p, x, positions):
    """x: [batch, seq, heads, head_dim]."""
    half = p.rope_dim // 2
    angle = angles(p, positions)[:, :, None, :]
    cos, sin = (fn(angle).to(x.dtype) * p.attention_factor for fn in (torch.cos, torch.sin))
    if p.mode == INTERLEAVED:
        part, rest = x[..., : p.rope_dim], x[..., p.rope_dim :]
        even, odd = part[..., 0::2], part[..., 1::2]
        pairs = torch.stack((even * cos - odd * sin, odd * cos + even * sin), dim=-1)
        return torch.cat((pairs.flatten(-2), rest), dim=-1)
    distance = p.head_dim // 2 if p.pairing else half
    first, second = x[..., :half], x[..., distance : distance + half]
    return torch.cat((first * cos - second * sin, x[..., half:distance],
                      second * cos + first * sin, x[..., distance + half :]), dim=-1)  # fmt: skip


def sections_for(mode, pairs, numbers):
    if mode == VISION:
        return [pairs // 2] * 4
    if mode == IMROPE:  # some pairs are left to t
        h, w = (numbers.randint(0, pairs // 3) for _ in range(2))
        return [pairs - h - w, h, w, 0]
    cuts = sorted(numbers.randint(0, pairs) for _ in range(3))
    return [cuts[0], cuts[1] - cuts[0], cuts[2] - cuts[1], pairs - cuts[2]]


def check(veery, seed):
    numbers = random.Random(seed)
    torch.manual_seed(seed)
    p = Params()
    assert veery.veery_rope_params_init(ctypes.byref(p), ctypes.c_size_t(ctypes.sizeof(p))) == 0
    p.batch, p.n_heads, p.seq_len = (numbers.randint(1, 5) for _ in range(3))
    p.mode = numbers.choice((INTERLEAVED, NEOX, MROPE, VISION, IMROPE))
    p.head_dim = 4 * numbers.randint(1, 40)
    p.rope_dim = p.head_dim if numbers.random() < 0.5 else 4 * numbers.randint(1, p.head_dim // 4)
    p.theta_base = 10 ** numbers.uniform(2, 7)
    p.sections[:] = sections_for(p.mode, p.rope_dim // 2, numbers)
    p.pairing, p.layout = (numbers.randint(0, 1) for _ in range(2))
    p.position_dtype = numbers.choice((I32, U32))
    p.attention_factor = numbers.uniform(0.5, 1.5)
    positions = torch.randint(-(2**20), 2**20 + 1, (4, p.batch, p.seq_len), dtype=torch.int32)
    order = (0, 2, 1, 3) if p.layout else (0, 1, 2, 3)
    shape = [(p.batch, p.seq_len, p.n_heads, p.head_dim)[i] for i in order]

    x, gradient = (torch.randn(shape).bfloat16().float() for _ in range(2))
    leaf = x.double().requires_grad_()
    expected = rotated(p, leaf.permute(order), positions).permute(order)
    expected.backward(gradient.double())
    for name, given, wanted in (("veery_rope_forward", x, expected.detach()), ("veery_rope_backward", gradient, leaf.grad)):
        p.dtype = F32
        found = call(veery, name, given, positions, p)
        error = ((found.double() - wanted).abs() / wanted.abs().clamp_min(1e-30)).max().item()
        assert error <= 1e-6, f"{name} {seed}: mode {p.mode}, f32 differs by {error}"
        p.dtype = BF16
        found = call(veery, name, given.bfloat16(), positions, p)
        differing = (found != wanted.float().bfloat16()).sum().item()
        assert differing == 0, f"{name} {seed}: mode {p.mode}, {differing} of {found.numel()} bf16 differ"


def main():
    if not pathlib.Path(sys.argv[1]).exists():
        return 77
    veery = library(sys.argv[1])
    for seed in range(CASES):
        check(veery, seed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
