"""Jina BERT v2 in torch, after the paper (arXiv:2310.19923) and the tensors of the published files.

transformers does not contain the published implementation. The model is BERT with post-norms and
without position embeddings: symmetric ALiBi (arXiv:2108.12409) subtracts slope_h |i - j| from the
scores of head h, and the feed-forward part is gated: wo(gelu(a) * b), [a, b] = gated_layers(x).
"""
import json
import math

import safetensors.torch
import torch
from torch import nn
from transformers.modeling_outputs import BaseModelOutput


class JinaBertConfig:
    model_type = "bert"

    def __init__(self, **settings):
        self.__dict__.update(settings)
        self.settings = settings


def slopes(heads):
    """Returns the ALiBi slopes: 2^(-8 (h + 1) / n) for the largest power of two n <= heads; the
    remaining heads take every second slope of 2n heads."""
    def geometric(count):
        return [2.0 ** (-8.0 * (i + 1) / count) for i in range(count)]

    whole = 2 ** math.floor(math.log2(heads))
    return torch.tensor(geometric(whole) + geometric(2 * whole)[0::2][: heads - whole])


class SelfAttention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.heads = c.num_attention_heads
        self.query, self.key, self.value = (nn.Linear(c.hidden_size, c.hidden_size) for _ in range(3))

    def forward(self, x):
        q, k, v = (part(x).unflatten(-1, (self.heads, -1)).transpose(0, 1) for part in (self.query, self.key, self.value))
        at = torch.arange(x.shape[0])
        scores = q @ k.transpose(1, 2) / q.shape[-1] ** 0.5
        scores = scores - slopes(self.heads)[:, None, None] * (at[None, :, None] - at[None, None, :]).abs()
        return (scores.softmax(-1) @ v).transpose(0, 1).flatten(1)


class Output(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.dense = nn.Linear(c.hidden_size, c.hidden_size)
        self.LayerNorm = nn.LayerNorm(c.hidden_size, c.layer_norm_eps)


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.self, self.output = SelfAttention(c), Output(c)


class FeedForward(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.gated_layers = nn.Linear(c.hidden_size, 2 * c.intermediate_size, bias=False)
        self.wo = nn.Linear(c.intermediate_size, c.hidden_size)
        self.layernorm = nn.LayerNorm(c.hidden_size, c.layer_norm_eps)


class Layer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.attention, self.mlp = Attention(c), FeedForward(c)

    def forward(self, x):
        output, mlp = self.attention.output, self.mlp
        x = output.LayerNorm(x + output.dense(self.attention.self(x)))
        gate, up = mlp.gated_layers(x).chunk(2, -1)
        return mlp.layernorm(x + mlp.wo(nn.functional.gelu(gate) * up))


class Embeddings(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.word_embeddings = nn.Embedding(c.vocab_size, c.hidden_size)
        self.token_type_embeddings = nn.Embedding(2, c.hidden_size)
        self.LayerNorm = nn.LayerNorm(c.hidden_size, c.layer_norm_eps)


class Encoder(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.layer = nn.ModuleList(Layer(c) for _ in range(c.num_hidden_layers))


class JinaBertModel(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.embeddings, self.encoder = Embeddings(config), Encoder(config)

    def forward(self, input_ids, token_type_ids, output_hidden_states=True):
        parts = self.embeddings
        x = parts.LayerNorm(parts.word_embeddings(input_ids[0]) + parts.token_type_embeddings(token_type_ids[0]))
        for layer in self.encoder.layer:
            x = layer(x)
        return BaseModelOutput(last_hidden_state=x[None], hidden_states=(x[None],))

    def save_pretrained(self, folder):
        folder.mkdir(parents=True, exist_ok=True)
        safetensors.torch.save_file(self.state_dict(), folder / "model.safetensors", metadata={"format": "pt"})
        config = {"architectures": ["JinaBertForMaskedLM"], "model_type": "bert", "dtype": "bfloat16"}
        (folder / "config.json").write_text(json.dumps(config | self.config.settings, indent=1) + "\n")
