#!/usr/bin/env python3
"""Adds a layer for multi-token prediction (MTP) to tiny checkpoints and records its drafts.

  python tools/oracle/draft_head.py tests/fixtures/tiny tests/fixtures/draft_heads

The layer has random weights under the names of published files; transformers' own layers compute
the drafts in float32. For qwen35 and qwen35moe it writes config.json, model.safetensors and
  drafts.json   prompts: ids, `next` (the greedy next token) and `drafts` (the tokens drafted after
                it);
                answer: ids, the greedy tokens after them, and `right`: the number of accepted
                drafts where every step except the first verifies one draft. No pair of
                consecutive tokens occurs twice, so prompt lookup cannot draft.

h: hidden states of the model after its final norm; e: embeddings. The input of the layer for a
token is fc([norm(e), norm(h)]) with h of that token and e of the next one. The layer has attention
and a norm, and feeds the output head; further drafts use the output of that norm as h (as in vLLM).
"""
import copy
import json
import os
import shutil
import sys

os.environ["HF_HUB_OFFLINE"] = "1"
import safetensors.torch
import torch
import transformers

CLASSES = {"qwen35": transformers.Qwen3_5ForCausalLM,
           "qwen35moe": transformers.Qwen3_5MoeForCausalLM}
LEAST_GAP = 0.02
PROMPTS = 6
STEPS = 4
ANSWER = 8


def rms(x, weight, eps):
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + eps) * (1 + weight)


def drafts(model, layer, parts, ids, steps=STEPS):
    """Returns the next token, the drafts after it and the smallest gap of the two best logits."""
    eps = model.config.rms_norm_eps
    hidden = model.model(torch.tensor([ids])).last_hidden_state[0]
    tokens = ids[1:] + [int(model.lm_head(hidden[-1]).argmax())]
    gap = 1e9
    for _ in range(steps):
        e = model.model.embed_tokens(torch.tensor(tokens))
        both = torch.cat([rms(e, parts["mtp.pre_fc_norm_embedding.weight"], eps),
                          rms(hidden, parts["mtp.pre_fc_norm_hidden.weight"], eps)], -1)
        x = both @ parts["mtp.fc.weight"].T
        out = layer.model(inputs_embeds=x[None]).last_hidden_state[0, -1]
        logits = model.lm_head(out)
        best = logits.topk(2).values
        gap = min(gap, float(best[0] - best[1]))
        tokens = tokens + [int(logits.argmax())]
        hidden = torch.cat([hidden, out[None]])
    return tokens[len(ids) - 1], tokens[len(ids):], gap


def answer(model, layer, parts, generator):
    """Returns a prompt whose answer accepts at least two drafts."""
    while True:
        ids = torch.randint(3, model.config.vocab_size, (9,), generator=generator).tolist()
        text, right, least = list(ids), 0, 1e9
        while len(text) < len(ids) + ANSWER:
            best, (draft,), gap = drafts(model, layer, parts, text, 1)
            logits = model(torch.tensor([text + [best]])).logits[0, -2:]
            tops = logits.topk(2).values
            least = min(least, gap, float((tops[:, 0] - tops[:, 1]).min()))
            following = int(logits[1].argmax())
            text += [best]
            if following == draft and len(text) < len(ids) + ANSWER:
                text, right = text + [draft], right + 1
        pairs = list(zip(text, text[1:]))
        if right >= 2 and least > LEAST_GAP and len(pairs) == len(set(pairs)):
            return {"ids": ids, "answer": text[len(ids):], "right": right}


def make(sources, folders, name):
    source, folder = os.path.join(sources, name), os.path.join(folders, name)
    os.makedirs(folder, exist_ok=True)
    shutil.copy(os.path.join(source, "config.json"), folder)
    model = CLASSES[name].from_pretrained(source, dtype=torch.float32,
                                          experts_implementation="eager").eval()
    config = copy.deepcopy(model.config)
    config.num_hidden_layers, config.layer_types = 1, ["full_attention"]
    torch.manual_seed(3)
    layer = CLASSES[name](config).float().eval()
    stored = safetensors.torch.load_file(os.path.join(source, "model.safetensors"))
    dtype = stored["model.embed_tokens.weight"].dtype
    dim = config.hidden_size
    parts = {"mtp.fc.weight": torch.randn(dim, 2 * dim) * (2 * dim) ** -0.5 * 1.5,
             "mtp.pre_fc_norm_embedding.weight": torch.randn(dim) * 0.2,
             "mtp.pre_fc_norm_hidden.weight": torch.randn(dim) * 0.2,
             "mtp.norm.weight": torch.randn(dim) * 0.3}
    for key, value in layer.model.layers.state_dict().items():
        random = torch.randn(value.shape)
        parts["mtp.layers." + key] = (random * 0.2 if "norm" in key
                                      else random * value.shape[-1] ** -0.5 * 1.5)
    parts = {key: value.to(dtype) for key, value in parts.items()}
    safetensors.torch.save_file(stored | parts, os.path.join(folder, "model.safetensors"),
                                metadata={"format": "pt"})
    parts = {key: value.float() for key, value in parts.items()}
    start = "mtp.layers."
    layer.model.layers.load_state_dict(
        {key[len(start):]: value for key, value in parts.items() if key.startswith(start)})
    layer.model.norm.weight.data = parts["mtp.norm.weight"]
    generator, found = torch.Generator().manual_seed(5), []
    while len(found) < PROMPTS:
        length = [1, 2, 7, 20, 37, 70][len(found)]
        ids = torch.randint(3, config.vocab_size, (length,), generator=generator).tolist()
        with torch.no_grad():
            following, drafted, gap = drafts(model, layer, parts, ids)
        if gap > LEAST_GAP:
            found.append({"ids": ids, "next": following, "drafts": drafted})
    with open(os.path.join(folder, "drafts.json"), "w") as out:
        with torch.no_grad():
            right = answer(model, layer, parts, generator)
        json.dump({"prompts": found, "answer": right}, out)


if __name__ == "__main__":
    for name in CLASSES:
        make(sys.argv[1], sys.argv[2], name)
