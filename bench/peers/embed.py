#!/usr/bin/env python3
"""Measures embeddings of veery, sentence-transformers and llama.cpp alternately, in texts per second.

    bench/peers/build_llama_cpp.sh
    bench/peers/embed.py ~/.cache/veery/models/all-MiniLM-L6-v2 [--gguf FILE.gguf ...] [--json OUT]

All programs embed the same texts, the paragraphs and sentences of the repository's documents. The folder
is embedded by veery and, if installed, by sentence-transformers on the CPU (float32; its own batches,
sorted by length); each GGUF file by veery and by llama-embedding. Prints speeds and cosines to the
vectors of sentence-transformers. The time for one text, which is mostly start-up and loading, is
subtracted from the time for all texts; sentence-transformers is timed inside its process, without
loading. README.md explains why that is fair.
"""

import argparse
import json
import re
import sys
import tempfile
import time
from pathlib import Path

import machine as machines
from pairs import paired_ratios, spread
from programs import Failure, Settings, run

REPOSITORY = Path(__file__).resolve().parents[2]
LONGEST = 900  # characters per text: within the limit of small encoders, 256 tokens


def read_texts(count, longest=LONGEST):
    """Returns `count` texts: paragraphs, sentences and pairs of sentences of all documents."""
    found = []
    for path in sorted([*REPOSITORY.glob("*.md"), *REPOSITORY.glob("docs/*.md")]):
        for paragraph in re.split(r"\n\s*\n", path.read_text(encoding="utf-8")):
            words = " ".join(paragraph.split())
            if not words or words.startswith(("|", "```", "<!--")):
                continue
            sentences = re.split(r"(?<=[.:;]) ", words)
            found += [words, *sentences, *(" ".join(pair) for pair in zip(sentences, sentences[1:]))]
    texts = [text for text in dict.fromkeys(found) if 10 <= len(text) <= longest]
    if len(texts) < count:
        raise Failure(f"the documents have {len(texts)} texts, expected {count}: a smaller --texts")
    step = len(texts) / count
    return [texts[int(index * step)] for index in range(count)]


class VeeryTexts:
    """Runs `veery embed`; vectors are read from a file."""

    def __init__(self, binary, model, settings, folder):
        self.name = f"veery, {model.name}"
        self.binary, self.model, self.settings, self.folder = binary, model, settings, folder

    def seconds(self, texts):
        lines = self.folder / "texts.jsonl"
        lines.write_text("".join(json.dumps(text) + "\n" for text in texts), encoding="utf-8")
        self.output = self.folder / f"{self.model.name}.npy"
        command = [self.binary, "embed", self.model, "--jsonl", lines, "--npy", self.output, "--force"]
        return run([*map(str, command), "-t", str(self.settings.threads)], self.settings).seconds

    def vectors(self):
        import numpy

        return numpy.load(self.output)


class LlamaTexts:
    """Runs `llama-embedding`: one text per line, vectors as JSON."""

    def __init__(self, folder, model, settings, scratch):
        self.name = f"llama.cpp, {model.name}"
        self.binary, self.model, self.settings, self.scratch = folder / "llama-embedding", model, settings, scratch

    def seconds(self, texts):
        lines = self.scratch / "texts.txt"
        lines.write_text("\n".join(texts), encoding="utf-8")
        command = [self.binary, "-m", self.model, "-f", lines, "--no-escape", "--embd-output-format", "array", "-t",
                   self.settings.threads, "-tb", self.settings.threads, "-c", 2048, "-b", 2048, "-ub", 2048, "-ngl", 0]  # fmt: skip
        finished = run([*map(str, command)], self.settings)
        self.output = finished.output
        return finished.seconds

    def vectors(self):
        import numpy

        return numpy.array(json.loads(self.output), dtype=numpy.float32)


class SentenceTransformers:
    """Runs sentence-transformers in this process, on the CPU."""

    def __init__(self, folder, settings):
        import torch
        from sentence_transformers import SentenceTransformer, __version__

        torch.set_num_threads(settings.threads)
        self.name = f"sentence-transformers {__version__}, torch {torch.__version__}"
        self.model = SentenceTransformer(str(folder), device="cpu")

    def seconds(self, texts):
        start = time.perf_counter()
        self.found = self.model.encode(texts, show_progress_bar=False)
        return time.perf_counter() - start

    def vectors(self):
        return self.found


def rate(program, texts):
    """Returns texts/s, excluding start-up and loading."""
    started = 0.0 if isinstance(program, SentenceTransformers) else program.seconds(texts[:1])
    taken = program.seconds(texts) - started
    if taken <= 0:
        raise Failure(f"{program.name}: {len(texts)} texts took no longer than one: more --texts")
    return len(texts) / taken


def measure(programs, texts, rounds):
    samples = {program.name: [] for program in programs}
    for index in range(rounds):
        first = index % len(programs)
        for program in programs[first:] + programs[:first]:
            print(f"round {index + 1} of {rounds}: {program.name}", file=sys.stderr)
            samples[program.name].append(rate(program, texts))
    return samples


def cosines(programs):
    """Returns {name: (mean, minimum) cosine to sentence-transformers' vectors}."""
    import numpy

    reference = next((program for program in programs if isinstance(program, SentenceTransformers)), None)
    if reference is None:
        return {}
    wanted, found = reference.vectors(), {}
    for program in programs:
        ours = program.vectors()
        if ours.shape != wanted.shape:
            raise Failure(f"{program.name}: vectors of shape {ours.shape}, expected {wanted.shape}")
        products = (ours * wanted).sum(1) / numpy.linalg.norm(ours, axis=1) / numpy.linalg.norm(wanted, axis=1)
        found[program.name] = (float(products.mean()), float(products.min()))
    return found


def make_programs(options, settings, scratch):
    programs = [VeeryTexts(options.veery, options.folder, settings, scratch)]
    try:
        programs.append(SentenceTransformers(options.folder, settings))
    except ImportError as error:
        print(f"skipping sentence-transformers: {error}", file=sys.stderr)
    for path in options.gguf:
        programs.append(VeeryTexts(options.veery, path, settings, scratch))
        if not options.llama:
            continue
        programs.append(LlamaTexts(options.llama, path, settings, scratch))
    return programs


def print_results(samples, compared, alike):
    for name, values in samples.items():
        found = spread(values)
        line = f"{name}: {found['median']:.0f} texts/s ({found['min']:.0f} - {found['max']:.0f})"
        if name in alike:
            line += f"; cosine {alike[name][0]:.6f}, least {alike[name][1]:.6f}"
        print(line)
    for name, found in compared.items():
        print(f"{name}: {found['median']:.2f} ({found['q1']:.2f} - {found['q3']:.2f})")


def compare(samples):
    """Returns {"ours / theirs": spread of the ratios}, comparing programs with the same model."""
    found = {}
    for ours in [name for name in samples if name.startswith("veery, ")]:
        model = ours.removeprefix("veery, ")
        for theirs in samples:
            same = theirs == f"llama.cpp, {model}"
            if same or theirs.startswith("sentence-transformers"):
                found[f"{ours} / {theirs}"] = spread(paired_ratios(samples[ours], samples[theirs]))
    return found


def absolute(text):
    return Path(text).absolute()


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=absolute, help="sentence-transformers folder of an encoder")
    parser.add_argument("--gguf", type=absolute, action="append", default=[], help="the same model as GGUF")
    parser.add_argument("--veery", type=absolute, default=REPOSITORY / "build/release/bin/veery", help="the program")
    parser.add_argument("--llama", type=absolute, default=Path.home() / ".cache/veery/peers/llama.cpp/bin",
                        help="folder with llama-embedding")  # fmt: skip
    parser.add_argument("--texts", type=int, default=500)
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
    texts = read_texts(options.texts)
    with tempfile.TemporaryDirectory() as scratch:
        programs = make_programs(options, settings, Path(scratch))
        samples = measure(programs, texts, options.rounds)
        alike = cosines(programs)
    compared = compare(samples)
    print_results(samples, compared, alike)
    if options.json:
        document = {"machine": machines.describe(), "tree": machines.describe_tree(REPOSITORY), "busy": busy,
                    "texts": len(texts), "threads": options.threads, "texts_per_second": samples,
                    "ratios": compared, "cosines": alike}  # fmt: skip
        options.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    try:
        main()
    except Failure as error:
        sys.exit(f"embed: {error}")
