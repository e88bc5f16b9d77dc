#!/usr/bin/env python3
"""Writes tests/fixtures/dtype/blocks.bin: random blocks and what Python's gguf package decodes them to.

usage: dtype_blocks.py [OUT]        needs: pip install gguf==0.19.0 numpy

For each type, little endian: 8 bytes name (zero padded), u32 blocks, u32 bytes a block, u32 elements a block,
the blocks, then their elements as f32. Most blocks are random bytes with finite scales; the last one of each type
is wholly random, so its scales may be infinite or NaN.
"""
import pathlib
import struct
import sys

import gguf
import numpy as np

BLOCKS = 10
# Offsets of the f16 scales in a block.
SCALES = {
    "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "BF16": [],
    "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208],
    "IQ4_NL": [0], "IQ4_XS": [0], "MXFP4": [], "NVFP4": [], "IQ2_XXS": [0], "IQ2_XS": [0], "IQ2_S": [0],
    "IQ3_XXS": [0], "IQ3_S": [0], "IQ1_S": [0], "IQ1_M": [], "TQ1_0": [52], "TQ2_0": [64],
}


def random_blocks(rng, size, offsets):
    blocks = rng.integers(0, 256, (BLOCKS, size), dtype=np.uint8)
    for row in blocks[:-1]:
        for offset in offsets:
            # Any finite f16: subnormal, negative, large.
            value = np.uint16(rng.integers(0, 0x7C00) | rng.integers(0, 2) << 15)
            row[offset : offset + 2] = np.frombuffer(value.tobytes(), np.uint8)
        if size == 56:  # IQ1_M: the scale's top bits are on top of the last byte
            row[55] &= 0xBF
        if size == 17:  # MXFP4: no product overflows
            row[0] = min(row[0], 250)
    return blocks


def main():
    root = pathlib.Path(__file__).resolve().parents[2]
    out = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else root / "tests/fixtures/dtype/blocks.bin"
    rng = np.random.default_rng(20240517)
    data = b""
    for name, offsets in SCALES.items():
        kind = gguf.GGMLQuantizationType[name]
        elements, size = gguf.GGML_QUANT_SIZES[kind]
        blocks = random_blocks(rng, size, offsets)
        with np.errstate(all="ignore"):
            decoded = np.stack([gguf.quants.dequantize(b, kind) for b in blocks]).astype("<f4")
        assert decoded.shape == (BLOCKS, elements)
        data += name.encode().ljust(8, b"\0") + struct.pack("<III", BLOCKS, size, elements)
        data += blocks.tobytes() + decoded.tobytes()
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_bytes(data)
    print(f"{out}: {len(data)} bytes")


if __name__ == "__main__":
    main()
