#!/usr/bin/env python3
"""Writes tests/fixtures/dtype/blocks.bin: random blocks, decoded by the gguf package.

usage: dtype_blocks.py [OUT]        needs: pip install gguf==0.19.0 numpy

For each type, little endian: 8 bytes name (zero padded), u32 number of blocks, u32 bytes per block,
u32 elements per block, the blocks, their elements as f32. Blocks are random bytes with finite
scales, except the last block of each type, whose scales may be infinite or NaN.
"""
import pathlib
import struct
import sys

import gguf
import numpy as np

BLOCKS = 10
# Byte offsets of the f16 scales in a block.
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
            # Any finite f16, including subnormal, negative and large values.
            value = np.uint16(rng.integers(0, 0x7C00) | rng.integers(0, 2) << 15)
            row[offset : offset + 2] = np.frombuffer(value.tobytes(), np.uint8)
        if size == 56:  # IQ1_M: the top bits of the scale are the top bits of the last byte
            row[55] &= 0xBF
        if size == 17:  # MXFP4: limit the exponent so that no product overflows
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
