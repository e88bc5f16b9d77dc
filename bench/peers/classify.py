#!/usr/bin/env python3
"""Measures `veery classify` and llama.cpp's batched prompts alternately, in texts per second.

    bench/peers/build_llama_cpp.sh
    bench/peers/classify.py MODEL.gguf [--texts 1000] [--rounds 5] [--json OUT]

veery scores ten labels for each text. llama.cpp has no such program, so only its prompt evaluation is measured, without
scoring: the same prompts through llama-embedding, and llama-batched-bench with prompts as long as the average remainder
after the common prefix, as if llama.cpp had cached that prefix. README.md explains this.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

import machine as machines
from embed import absolute, read_texts
from pairs import paired_ratios, spread
from programs import Failure, Settings, run

REPOSITORY = Path(__file__).resolve().parents[2]
LONGEST = 200  # characters per text
LABELS = ["files", "numbers", "graphics cards", "memory", "speed", "tests", "languages", "servers", "tokens", "sound"]
HEAD = f"Classify the text. Answer with one of these labels alone: {', '.join(LABELS)}.\n\n"
BORDER = "<#next#>"


def rest(text):
    """Returns the part of a prompt after the common prefix."""
    return f"Text: {text}\nLabel:"


class Veery:
    """Runs `veery classify` with all texts and labels in one call."""

    name = "veery, ten labels scored"

    def __init__(self, options, settings, folder):
        self.options, self.settings, self.folder = options, settings, folder

    def seconds(self, texts):
        lines = self.folder / "texts.jsonl"
        lines.write_text("".join(json.dumps(text) + "\n" for text in texts), encoding="utf-8")
        command = [self.options.veery, "classify", self.options.model, "--jsonl", lines, "--labels", ",".join(LABELS), "--raw",
                   "--form", HEAD + rest("{text}"), "--json", "-t", self.settings.threads, "-c", 2048]  # fmt: skip
        finished = run([*map(str, command)], self.settings)
        results = json.loads(finished.output)["results"]
        self.computed = sum(result["prompt_tokens"] for result in results) / len(results)
        self.known = sum(result["reused_tokens"] for result in results) / len(results)
        return finished.seconds

    def rate(self, texts):
        return rate(self, texts)


class LlamaPrompts:
    """Runs `llama-embedding`: the last hidden state of each complete prompt."""

    name = "llama.cpp, whole prompts"

    def __init__(self, options, settings, folder):
        self.options, self.settings, self.folder = options, settings, folder

    def seconds(self, texts):
        prompts = self.folder / "prompts.txt"
        prompts.write_text(BORDER.join(HEAD + rest(text) for text in texts), encoding="utf-8")
        command = [self.options.llama / "llama-embedding", "-m", self.options.model, "-f", prompts, "--no-escape",
                   "--embd-separator", BORDER, "--pooling", "last", "--embd-output-format", "array", "-t", self.settings.threads,
                   "-tb", self.settings.threads, "-c", 2048, "-b", 2048, "-ub", 2048, "-ngl", 0]  # fmt: skip
        finished = run([*map(str, command)], self.settings)
        found = len(json.loads(finished.output))
        if found != len(texts):
            raise Failure(f"{self.name}: {found} vectors, expected {len(texts)}")
        return finished.seconds

    def rate(self, texts):
        return rate(self, texts[: self.options.peer_texts])


class LlamaBatches:
    """Runs `llama-batched-bench`: prompts as long as the part that veery computes, 16 at a time."""

    name = "llama.cpp, texts alone"

    def __init__(self, options, settings, ours):
        self.options, self.settings, self.ours = options, settings, ours

    def rate(self, _):
        tokens = round(self.ours.computed)
        command = [self.options.llama / "llama-batched-bench", "-m", self.options.model, "-npp", tokens, "-ntg", 1, "-npl", 16,
                   "-c", 16 * (tokens + 2) + 256, "-b", 2048, "-ub", 512, "-t", self.settings.threads, "-tb", self.settings.threads,
                   "-ngl", 0, "--output-format", "jsonl"]  # fmt: skip
        finished = run([*map(str, command)], self.settings)
        line = next(line for line in finished.output.splitlines() if line.startswith("{"))
        return json.loads(line)["speed_pp"] / self.ours.computed


def rate(program, texts):
    """Returns texts/s, excluding start-up and loading."""
    started = program.seconds(texts[:1])
    return len(texts) / (program.seconds(texts) - started)


def measure(programs, texts, rounds):
    samples = {program.name: [] for program in programs}
    for index in range(rounds):
        for program in programs:
            print(f"round {index + 1} of {rounds}: {program.name}", file=sys.stderr)
            samples[program.name].append(program.rate(texts))
    return samples


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=absolute, help="a GGUF file")
    parser.add_argument("--veery", type=absolute, default=REPOSITORY / "build/release/bin/veery", help="the program")
    parser.add_argument("--llama", type=absolute, default=Path.home() / ".cache/veery/peers/llama.cpp/bin",
                        help="folder with llama-embedding and llama-batched-bench")  # fmt: skip
    parser.add_argument("--texts", type=int, default=1000)
    parser.add_argument("--peer-texts", type=int, help="number of texts for llama-embedding, which is slow [all]")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("-t", "--threads", type=int, default=2)
    parser.add_argument("--busy-ok", action="store_true", help="measure even on a busy machine")
    parser.add_argument("--json", type=Path, help="write all results to this file")
    return parser.parse_args()


def main():
    options = parse()
    busy = machines.why_busy(machines.observe(5), 5)
    if busy and not options.busy_ok:
        raise Failure(busy)
    settings = Settings(threads=options.threads, prompt=0, tokens=0, context=0, timeout=600)
    texts = read_texts(options.texts, LONGEST)
    with tempfile.TemporaryDirectory() as scratch:
        ours = Veery(options, settings, Path(scratch))
        programs = [ours, LlamaPrompts(options, settings, Path(scratch)), LlamaBatches(options, settings, ours)]
        samples = measure(programs, texts, options.rounds)
    print(f"{len(texts)} texts, {len(LABELS)} labels, prompts of {ours.computed + ours.known:.1f} tokens, {ours.known:.1f} of them computed once")
    compared = {}
    for name, values in samples.items():
        found = spread(values)
        line = f"{name}: {found['median']:.0f} texts/s ({found['min']:.0f} - {found['max']:.0f})"
        if name != ours.name:
            compared[name] = spread(paired_ratios(samples[ours.name], values))
            line += f"; veery / it {compared[name]['median']:.2f} ({compared[name]['q1']:.2f} - {compared[name]['q3']:.2f})"
        print(line)
    if options.json:
        document = {"machine": machines.describe(), "tree": machines.describe_tree(REPOSITORY), "busy": busy,
                    "model": options.model.name, "texts": len(texts), "peer_texts": options.peer_texts or len(texts),
                    "computed_tokens": ours.computed, "known_tokens": ours.known, "labels": LABELS,
                    "threads": options.threads, "texts_per_second": samples, "ratios": compared}  # fmt: skip
        options.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    try:
        main()
    except Failure as error:
        sys.exit(f"classify: {error}")
