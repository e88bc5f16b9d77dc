"""Records weights and the results of mlx.core.quantize (mlx 0.32.4) on a CPU.

usage: make_mlx_quantized.py OUT.safetensors
"""
import sys

import mlx.core as mx
import numpy as np

mx.set_default_device(mx.cpu)
random = np.random.default_rng(3)
rows, columns = 10, 128
weights = random.standard_normal((rows, columns)) * np.exp(random.uniform(-9, 4, (rows, 1)))
weights[0, :32] = 0
weights[1] = 1  # groups whose minimum is their maximum
weights[2, :64] = np.abs(weights[2, :64])
weights[3, :64] = -np.abs(weights[3, :64])
weights[4] = random.integers(-14, 15, columns) * 0.5  # values halfway between codes
weights[5] = random.integers(-28, 29, columns) * 0.25
weights[6] *= 1e-9
weights[7] = random.standard_normal(columns) * 1e4

tensors = {}
for dtype in (mx.float32, mx.float16, mx.bfloat16):
    w = mx.array(weights.astype(np.float32)).astype(dtype)
    name = str(dtype).split(".")[-1]
    tensors[name] = w
    formats = [("affine", b, g) for b, g in ((2, 32), (3, 64), (4, 128), (5, 32), (6, 64), (8, 128))]
    for mode, bits, group in formats + [("mxfp4", 4, 32), ("mxfp8", 8, 32), ("nvfp4", 4, 16)]:
        parts = mx.quantize(w, group_size=group, bits=bits, mode=mode)
        for part, tensor in zip(("codes", "scales", "biases"), parts):
            tensors[f"{name}/{mode}/{bits}/{group}/{part}"] = tensor
mx.save_safetensors(sys.argv[1], tensors, metadata={"format": "mlx"})
