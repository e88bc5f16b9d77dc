"""Quantised forms of the checkpoints of make_tiny.py.

Parameters are rounded to values of their quantised form, so the reference is computed with these.
"""
import mlx.core as mx
import numpy
import torch

FP8 = torch.float8_e4m3fn


def mlx(bits, group, mode="affine", scales=torch.bfloat16, **layers):
    """Returns an MLX form. layers: {part of a layer name: bits} for layers with other bits."""
    return dict(kind="mlx", bits=bits, group=group, mode=mode, scales=scales, layers=layers)


def fp8(rows, cols, suffix, **config):
    """Returns an FP8 form with a scale per rows x cols block; 0: the whole dimension."""
    return dict(kind="fp8", rows=rows, cols=cols, suffix=suffix, config=config)


FORMS = {
    "llama-mlx3": mlx(3, 128, lm_head=6),
    "llama-mlx6": mlx(6, 64, scales=torch.float16, lm_head=8),
    "llama-mlx8": mlx(8, 32),
    "llama-mlx8-f32": mlx(8, 64, scales=torch.float32),
    "llama-mxfp8": mlx(8, 32, "mxfp8"),
    "llama-fp8": fp8(1, 0, "_scale", quant_method="compressed-tensors"),
    "llama-fp8-blocks": fp8(24, 64, "_scale_inv", quant_method="fp8", weight_block_size=[24, 64]),
    "deepseek-v3-fp8": fp8(16, 32, "_scale_inv", quant_method="fp8", weight_block_size=[16, 32]),
    "deepseek-v3-mlx": mlx(4, 32, scales=torch.float16, down_proj=6),
}


def mlx_quantise(x, form, bits):
    """Returns the rounded values as f32, and the quantised tensors by suffix."""
    affine = form["mode"] == "affine"
    source = mx.array(x.float().numpy())
    if affine:
        source = source.astype({torch.float16: mx.float16, torch.bfloat16: mx.bfloat16,
                                torch.float32: mx.float32}[form["scales"]])
    parts = mx.quantize(source, form["group"], bits, mode=form["mode"])
    if affine:
        values = mx.dequantize(parts[0], parts[1].astype(mx.float32), parts[2].astype(mx.float32),
                               form["group"], bits)
    else:
        values = mx.dequantize(parts[0], parts[1], None, form["group"], bits, mode=form["mode"])
    tensors = {"weight": torch.from_numpy(numpy.array(parts[0])),
               "scales": torch.from_numpy(numpy.array(parts[1].astype(mx.float32) if affine
                                                      else parts[1]))}
    if affine:
        tensors["scales"] = tensors["scales"].to(form["scales"])
        tensors["biases"] = torch.from_numpy(
            numpy.array(parts[2].astype(mx.float32))).to(form["scales"])
    return torch.from_numpy(numpy.array(values.astype(mx.float32))), tensors


def fp8_quantise(x, form):
    rows = form["rows"] or x.shape[0]
    cols = form["cols"] or x.shape[1]
    across = [range(0, x.shape[0], rows), range(0, x.shape[1], cols)]
    scales = torch.tensor([[float(x[r:r + rows, c:c + cols].abs().max()) / 448 for c in across[1]]
                           for r in across[0]])
    spread = scales.repeat_interleave(rows, 0)[:x.shape[0]].repeat_interleave(cols, 1)
    codes = (x / spread[:, :x.shape[1]]).to(FP8)
    return codes.float() * spread[:, :x.shape[1]], {"weight": codes,
                                                    "weight" + form["suffix"]: scales}


class Quantiser:
    def __init__(self, form):
        self.form, self.tensors, self.layers, self.gone = form, {}, {}, set()

    def put(self, layer, x):
        """Quantises `x` (..., rows, cols) under the name `layer`; returns the rounded values."""
        if self.form["kind"] == "fp8":
            values, tensors = fp8_quantise(x, self.form)
        else:
            bits = next((b for part, b in self.form["layers"].items() if part in layer),
                        self.form["bits"])
            if bits != self.form["bits"]:
                self.layers[layer] = {"bits": bits, "group_size": self.form["group"]}
            values, tensors = mlx_quantise(x, self.form, bits)
        self.tensors |= {f"{layer}.{kind}": tensor.contiguous() for kind, tensor in tensors.items()}
        return values

    def experts(self, key, value):
        """Quantises gate_up_proj or down_proj of all experts; returns the rounded values."""
        place, parts = key[:key.index("experts.")], ["down_proj"]
        if "gate_up" in key:
            parts = ["gate_proj", "up_proj"]
        chunks = [chunk.contiguous() for chunk in value.chunk(len(parts), 1)]
        if self.form["kind"] == "mlx":
            made = [self.put(f"{place}switch_mlp.{part}", x) for part, x in zip(parts, chunks)]
        else:
            made = [torch.stack([self.put(f"{place}experts.{i}.{part}", x[i])
                                 for i in range(len(x))]) for part, x in zip(parts, chunks)]
        return torch.cat(made, 1)

    def latent(self, key, value, config):
        """Quantises kv_b_proj in the layout of mlx-lm: embed_q and unembed_out with a matrix per
        head; returns the rounded values."""
        place = key[:key.index("kv_b_proj")]
        heads = value.reshape(config.num_attention_heads, -1, value.shape[-1])
        plain = config.qk_nope_head_dim
        into = self.put(place + "embed_q", heads[:, :plain].transpose(1, 2).contiguous())
        out = self.put(place + "unembed_out", heads[:, plain:].contiguous())
        return torch.cat([into.transpose(1, 2), out], 1).reshape(value.shape)


def quantise(model, name):
    q = Quantiser(FORMS[name])
    is_mlx = q.form["kind"] == "mlx"
    for key, value in model.named_parameters():
        if ".experts." in key:
            value.data = q.experts(key, value.data)
        elif value.dim() != 2 or ".gate." in key or \
                (not is_mlx and ("embed" in key or "lm_head" in key)):
            continue
        elif is_mlx and "kv_b_proj" in key:
            value.data = q.latent(key, value.data, model.config)
            q.gone.add(key)
        elif value.shape[1] % (q.form["group"] if is_mlx else 1) == 0:
            value.data = q.put(key.removesuffix(".weight"), value.data)
            q.gone.add(key)
    return q


def configuration(q):
    if q.form["kind"] == "fp8":
        return {"quantization_config": q.form["config"]}
    common = {"group_size": q.form["group"], "bits": q.form["bits"], "mode": q.form["mode"]}
    return {"quantization": common | q.layers}
