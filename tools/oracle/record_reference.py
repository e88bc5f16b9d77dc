#!/usr/bin/env python3
"""Records results of transformers in float32: logits, greedy continuations, perplexity.

usage: record_reference.py MODEL.gguf HFDIR OUT.json    HFDIR: output of gguf_to_hf.py

Reads prompts.json in the folder of this script, and tests/fixtures/text.txt for the perplexity.
README.md describes OUT.json.
"""
import hashlib
import importlib.metadata
import json
import math
import pathlib
import sys
import time

import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from gguf_to_hf import Source

HERE = pathlib.Path(__file__).resolve().parent
TEXT = HERE.parent.parent / "tests" / "fixtures" / "text.txt"
TOP = 20
SPREAD = 64
STEPS = 48
CONTEXT = 512


def rounded(value, digits=5):
    return round(float(value), digits)


class Recorder:
    def __init__(self, gguf_path, folder):
        self.source = Source(gguf_path)
        self.bos = None
        if self.source.get("tokenizer.ggml.add_bos_token", False):
            self.bos = self.source.get("tokenizer.ggml.bos_token_id")
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        config = AutoConfig.from_pretrained(folder)
        self.model = AutoModelForCausalLM.from_pretrained(
            folder, config=config, dtype=torch.float32, attn_implementation="eager"
        ).eval()
        self.vocabulary = config.vocab_size
        stride = self.vocabulary // SPREAD
        self.spread = [stride // 2 + i * stride for i in range(SPREAD)]

    def encode(self, text):
        return self.tokenizer.backend_tokenizer.encode(text, add_special_tokens=False).ids

    def prompt_ids(self, prompt):
        start = [] if self.bos is None else [self.bos]
        if prompt.get("only_bos") and start:
            return start
        if "scatter" in prompt:  # a multiplicative sequence, so that adjacent ids are far apart
            size = self.vocabulary
            return start + [(i * 7919 * 31 + 1234) % size for i in range(prompt["scatter"])]
        if "file_tokens" in prompt:
            first, last = prompt["file_tokens"]
            return start + self.encode(TEXT.read_text(encoding="utf-8"))[first:last]
        text = prompt["text"]
        if "messages" in prompt and self.tokenizer.chat_template:
            text = self.tokenizer.apply_chat_template(
                prompt["messages"], tokenize=False, add_generation_prompt=True
            )
        return start + self.encode(text)

    def logits(self, ids):
        """Returns the logits (len(ids), vocabulary) of a new sequence."""
        return self.model(torch.tensor([ids]), use_cache=False).logits[0]

    def position(self, index, row):
        values, ids = row.topk(TOP)
        wide = row.double()
        return {
            "position": index,
            "logsumexp": rounded(wide.logsumexp(0)),
            "mean": rounded(wide.mean()),
            "absmax": rounded(wide.abs().max()),
            "top": [[int(i), rounded(v)] for i, v in zip(ids, values)],
            "spread": [rounded(v) for v in row[self.spread]],
        }

    def greedy(self, ids):
        """Decodes STEPS tokens with the KV cache and ignores end tokens; returns the best and
        second best ids and the gaps between their logits."""
        result = {"ids": [], "second": [], "gaps": []}
        step = self.model(torch.tensor([ids]), use_cache=True, logits_to_keep=1)
        for _ in range(STEPS):
            values, best = step.logits[0, -1].topk(2)
            result["ids"].append(int(best[0]))
            result["second"].append(int(best[1]))
            result["gaps"].append(rounded(values[0] - values[1]))
            step = self.model(
                torch.tensor([[int(best[0])]]), past_key_values=step.past_key_values, use_cache=True
            )
        return result

    def check_greedy(self, name, ids, greedy):
        """Repeats the continuation without a cache; returns the largest difference of the gaps and
        fails if it exceeds 1e-3."""
        rows = self.logits(ids + greedy["ids"][:-1])[len(ids) - 1 :]
        best, second = torch.tensor(greedy["ids"]), torch.tensor(greedy["second"])
        steps = torch.arange(STEPS)
        off = (rows[steps, best] - rows[steps, second] - torch.tensor(greedy["gaps"])).abs().max()
        above = (rows.max(-1).values - rows[steps, best]).max()
        if off > 1e-3 or above > 1e-3:
            raise SystemExit(f"{name}: cached and uncached decoding differ by {off} and {above}")
        return float(off)

    def case(self, prompt):
        ids = self.prompt_ids(prompt)
        stride = 16 if len(ids) > 64 else 8
        chosen = sorted({*range(0, len(ids), stride), len(ids) - 1})
        rows = self.logits(ids)
        greedy = self.greedy(ids)
        off = self.check_greedy(prompt["name"], ids, greedy)
        smallest = min(greedy["gaps"])
        print(f"  {prompt['name']}: {len(ids)} ids, smallest gap {smallest}, cache {off:.1g}")
        return {
            "name": prompt["name"],
            "ids": ids,
            "positions": [self.position(i, rows[i]) for i in chosen],
            "greedy": greedy,
        }

    def perplexity(self):
        """Returns the perplexity as llama.cpp computes it: consecutive full windows, each a new
        sequence whose first token is replaced by BOS if the model has one; scores the second half
        of each."""
        data = TEXT.read_bytes()
        ids = ([] if self.bos is None else [self.bos]) + self.encode(data.decode("utf-8"))
        windows, losses = [], []
        half = CONTEXT // 2
        for start in range(0, len(ids) - CONTEXT + 1, CONTEXT):
            window = ids[start : start + CONTEXT]
            if self.bos is not None:
                window[0] = self.bos
            rows = self.logits(window)[half : CONTEXT - 1].double()
            wanted = torch.tensor(window[half + 1 :])
            loss = rows.logsumexp(-1) - rows.gather(-1, wanted[:, None])[:, 0]
            windows.append(rounded(loss.mean(), 6))
            losses.append(loss)
        losses = torch.cat(losses)
        value = math.exp(losses.mean())
        return {
            "file": TEXT.name,
            "sha256": hashlib.sha256(data).hexdigest(),
            "context": CONTEXT,
            "ids": ids,
            "windows": windows,
            "scored": len(losses),
            "perplexity": rounded(value),
            "stderr": rounded(value * float(losses.std()) / math.sqrt(len(losses))),
        }


def report(result):
    gaps = [gap for case in result["prompts"] for gap in case["greedy"]["gaps"]]
    near = {limit: sum(gap < limit for gap in gaps) for limit in (0.005, 0.25)}
    print(f"  perplexity {result['perplexity']['perplexity']} +- {result['perplexity']['stderr']}")
    print(f"  greedy steps {len(gaps)}, of which with a gap below: {near}")


def write(path, result):
    """Writes the JSON with one prompt per line."""
    def dump(value):
        return json.dumps(value, separators=(",", ":"))

    prompts = ",\n".join(map(dump, result.pop("prompts")))
    head = ",\n".join(f"{dump(key)}:{dump(value)}" for key, value in result.items())
    path.write_text(f'{{{head},\n"prompts":[\n{prompts}\n]}}\n', encoding="utf-8")
    print(f"{path}: {path.stat().st_size:,} bytes")


@torch.no_grad()
def main():
    if len(sys.argv) != 4:
        raise SystemExit(__doc__)
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    gguf_path, folder, out = map(pathlib.Path, sys.argv[1:])
    recorder, began = Recorder(gguf_path, folder), time.time()
    prompts = json.loads((HERE / "prompts.json").read_text(encoding="utf-8"))
    versions = {m.__name__: m.__version__ for m in (torch, transformers)}
    versions["gguf"] = importlib.metadata.version("gguf")
    result = {
        "model": {
            "file": gguf_path.name,
            "sha256": hashlib.sha256(gguf_path.read_bytes()).hexdigest(),
            "architecture": recorder.source.arch,
            "vocabulary": recorder.vocabulary,
            "bos": recorder.bos,
        },
        "oracle": versions,
        "spread_ids": recorder.spread,
        "perplexity": recorder.perplexity(),
        "prompts": [recorder.case(prompt) for prompt in prompts],
    }
    report(result)
    write(out, result)
    print(f"  {time.time() - began:.0f} s")


if __name__ == "__main__":
    main()
