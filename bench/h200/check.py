#!/usr/bin/env python3
"""Checks that an NVIDIA GPU gives the numbers and texts of the CPU for any batch, chunk and driver.

    bench/h200/check.py VEERY [--folder FOLDER] [--device cuda] [--only PART,..] [--real FILE] [--at-once N]

Parts: tiny        unmodified checkpoints of every family (tests/fixtures/tiny): logits, also with --exact
       wide        every family in Q8_0 and Q4_0 (wide.py): logits of 81 and of 3 tokens, greedy text; bf16
                   and Q4_0 also with --exact
       types       a dense, a mixture and a recurrent family in 26 types of `veery quantize`, which cover all
                   tensor types that it writes: logits of 81 and of 3 tokens, greedy text, also with --exact
       shapes      Llama 1B in Q4_K, Q8_0 and Q4_1, and a mixture (models.py): logits of up to 556 tokens,
                   greedy and sampled text, prompts in two parts
       batch       64 requests in 1, 8, 16, 40 and 64 slots, with chained decode and step by step (log-probabilities)
       bf16        rows of a 1B model in bf16 in prefill chunks of 1 to 2,100 tokens
       memory      too little memory at load, when a KV cache grows, and when another program takes the rest
       sanitizers  memcheck and racecheck of decode, batches and prefill, if compute-sanitizer is available
       real        FILE, a model with a tokenizer: logits, greedy, sampled and constrained text

Prints one line per check: "same", "near" (and how near), or the difference. Exit status 1 if a check failed. Requires only
Python 3.11.
"""

import argparse
import json
import math
import os
import random
import re
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import hold

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
NEAR_BF16 = 2e-2  # relative to the largest logit; with bf16 activations the GPU sums products in another order
PARTS = ("tiny", "wide", "types", "shapes", "batch", "bf16", "memory", "sanitizers", "real")
CPU_THREADS = "4"
TIMEOUT, SANITIZER_TIMEOUT = 600, 1200  # seconds per process


@dataclass
class Tools:
    veery: str
    device: str
    folder: Path
    real: str | None
    failures: list = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    making: threading.Lock = field(default_factory=threading.Lock)  # held while a model is created
    counts: dict = field(default_factory=dict)

    def run(self, *words, check=True):
        done = subprocess.run([str(w) for w in (self.veery, *words)], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT)
        if check and done.returncode != 0:
            raise RuntimeError(f"veery {words[0]}: {done.stderr.strip()[-300:]}")
        return done

    def say(self, part, what, verdict, good=True):
        with self.lock:
            self.counts[part, good] = self.counts.get((part, good), 0) + 1
            if not good:
                self.failures.append(f"{part}: {what}: {verdict}")
            print(f"{part:<10} {verdict:<12} {what}" if good else f"{part:<10} WRONG        {what}: {verdict}", flush=True)

    def model(self, name, *words):
        path = self.folder / f"{name}.gguf"
        with self.making:
            if path.exists():
                return path
            subprocess.run([sys.executable, HERE / "models.py", f"{path}.part", *words], check=True)
            os.replace(f"{path}.part", path)
        return path

    def same(self, part, what, verb, model, *words):
        """Compares an output of GPU and CPU, ignoring times and the device in `run --json`."""
        own = words[: words.index("-ngl")] if "-ngl" in words else words  # the last flag
        expected = shown(self.run(verb, model, *own, "--device", "cpu", "-t", CPU_THREADS).stdout)
        got = shown(self.run(verb, model, *words, "--device", self.device).stdout)
        self.say(part, what, "same" if got == expected else first_difference(expected, got), got == expected)


def shown(text):
    try:
        value = json.loads(text)
    except json.JSONDecodeError:
        return text
    return json.dumps({k: v for k, v in value.items() if k not in ("timings", "relaxed")})


def first_difference(a, b):
    at = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
    return f"differs at byte {at} of {len(a)}: {a[at : at + 40]!r}, {b[at : at + 40]!r}"


def ids_of(count, seed, below=61):
    numbers = random.Random(seed)
    return ",".join(str(numbers.randrange(3, below)) for _ in range(count))


def far(rows, expected):
    """Returns the largest difference of logits, relative to the largest logit."""
    worst = 0.0
    for row, other in zip(rows, expected, strict=True):
        logits = {top["id"]: top["logit"] for top in other["top"]}
        largest = max(map(abs, logits.values()))
        shared = [abs(top["logit"] - logits[top["id"]]) / largest for top in row["top"] if top["id"] in logits]
        worst = max(worst, *shared) if len(shared) >= len(row["top"]) // 2 else math.inf
    return worst


def positions(tools, model, ids, *words):
    return json.loads(tools.run("logits", model, "--ids", ids, "--all", "--json", *words).stdout)["positions"]


def tiny(tools):
    def one(folder):
        ids, top = ids_of(40, 3), ("--top", "61")
        for mode in ((), ("--exact",)):
            what = " ".join((folder.name, *mode))
            expected = positions(tools, folder, ids, *top, "--device", "cpu", *mode)
            got = positions(tools, folder, ids, *top, "--device", tools.device, *mode)
            distance, same = far(got, expected), got == expected
            good = same or (not mode and distance <= NEAR_BF16)
            allowed = f"{NEAR_BF16:.0e} is allowed" if not mode else "they are to be the same"
            verdict = "same" if same else f"near {distance:.0e}" if good else f"logits are {distance:.1e} away, {allowed}"
            tools.say("tiny", what, verdict, good)

    return [(folder.name, one, folder) for folder in sorted((REPOSITORY / "tests/fixtures/tiny").iterdir()) if folder.is_dir()]


def wide_checkpoints(tools):
    checkpoints = tools.folder / "wide"
    if not checkpoints.exists():
        subprocess.run([sys.executable, HERE / "wide.py", checkpoints], check=True)
    return checkpoints


def wide(tools):
    checkpoints = wide_checkpoints(tools)

    def one(folder):
        some, exact = ("--ids", ids_of(81, 81), "--all", "--top", "61", "--json"), "logits of 81 --exact"
        tools.same("wide", f"{folder.name} bf16, {exact}", "logits", folder, *some, "--exact")
        for number, kind in enumerate(("Q8_0", "Q4_0")):
            path = tools.folder / f"wide-{folder.name}-{kind}.gguf"
            tools.run("quantize", folder, path, kind, "--force", "-t", "2")
            name = f"{folder.name} {kind}"
            for count in (81, 3):
                tools.same("wide", f"{name}, logits of {count}", "logits", path, "--ids", ids_of(count, count), "--all", "--top", "61", "--json")
            if number:
                tools.same("wide", f"{name}, {exact}", "logits", path, *some, "--exact")
            tools.same("wide", f"{name}, greedy", "run", path, "--ids", ids_of(20, 9), "-n", "40", "--temp", "0", "--ignore-eos", "--json", "-q")
            path.unlink()

    return [(folder.name, one, folder) for folder in sorted(checkpoints.iterdir())]


def types(tools):
    checkpoints = wide_checkpoints(tools)

    def one(job):
        family, kind = job
        path = tools.folder / f"types-{family}-{kind}.gguf"
        tools.run("quantize", checkpoints / family, path, kind, "--force", "-t", "2")
        for mode in ((), ("--exact",)) if kind != "BF16" else (("--exact",),):
            name = " ".join((family, kind, *mode))
            for count in (81, 3):
                tools.same("types", f"{name}, logits of {count}", "logits", path, "--ids", ids_of(count, count), "--all", "--top", "61", "--json", *mode)
            tools.same("types", f"{name}, greedy", "run", path, "--ids", ids_of(20, 9), "-n", "40", "--temp", "0", "--ignore-eos", "--json", "-q", *mode)
        path.unlink()

    return [(f"{family} {kind}", one, (family, kind)) for family in ("minicpm", "mixtral", "qwen35") for kind in TYPES]


TYPES = (
    "F32", "F16", "BF16", "Q8_0", "Q6_K", "Q5_K_S", "Q5_1", "Q5_0", "Q4_K_M", "Q4_1", "Q4_0", "IQ4_NL", "IQ4_XS", "Q3_K_M", "IQ3_S",
    "IQ3_XXS", "Q2_K", "IQ2_S", "IQ2_XS", "IQ2_XXS", "IQ1_M", "IQ1_S", "TQ2_0", "TQ1_0", "MXFP4", "NVFP4",
)  # fmt: skip


def shapes(tools):
    models = [("1b-q4_k", "1b", "q4_k", "q6_k"), ("1b-q8_0", "1b", "q8_0"), ("1b-q8_0-outliers", "1b", "q8_0", "--outliers"),
              ("1b-q4_0-outliers", "1b", "q4_0", "q6_k", "--outliers"), ("1b-q4_1-outliers", "1b", "q4_1", "q6_k", "--outliers"),
              ("tiny-moe-q4_k", "tiny-moe", "q4_k", "q6_k"), ("tiny-moe-q8_0", "tiny-moe", "q8_0"), ("tiny-q5_k", "tiny", "q5_k"),
              ("tiny-q5_0", "tiny", "q5_0")]  # fmt: skip

    def one(words):
        name, path = words[0], tools.model(*words)
        for count in (556, 81, 12, 3):
            some = ("logits", path, "--ids", ids_of(count, count, 2800), "--all", "--top", "8", "--json")
            tools.same("shapes", f"{name}, logits of {count}", *some)
            if count == 81:
                tools.same("shapes", f"{name}, logits of {count} --exact", *some, "--exact")
        start = ("run", path, "-p", "once upon a time", "--ignore-eos")
        tools.same("shapes", f"{name}, greedy", *start, "-n", "150", "--temp", "0")
        tools.same("shapes", f"{name}, sampled", *start, "-n", "100", "--temp", "0.9", "--seed", "7")
        tools.same("shapes", f"{name}, penalties", *start, "-n", "60", "--temp", "0.7", "--seed", "3", "--repeat-penalty", "1.2", "--min-p", "0.1")
        in_parts(tools, name, path)

    return [(words[0], one, words) for words in models]


def in_parts(tools, name, path):
    """Compares a prompt in one run with the same prompt continued from a saved session."""
    ids = ids_of(400, 5, 2800)
    expected = json.loads(tools.run("run", path, "--ids", ids, "-n", "20", "--temp", "0", "--ignore-eos", "--json", "-q", "--device", "cpu", "-t", CPU_THREADS).stdout)["ids"]
    for cut in (1, 130, 399):
        session = tools.folder / f"{name}-{cut}.session"
        session.unlink(missing_ok=True)
        for part, count in ((",".join(ids.split(",")[:cut]), 1), (ids, 20)):
            got = json.loads(tools.run("run", path, "--ids", part, "-n", count, "--temp", "0", "--ignore-eos", "--json", "-q", "--session", session, "--device", tools.device).stdout)["ids"]
        tools.say("shapes", f"{name}, a prompt cut after {cut}", "same" if got == expected else f"ids are {got}, not {expected}", got == expected)


def batch(tools):
    requests = []
    for i in range(64):
        body = {"model": "m", "prompt": f"Line {i} of a story about {['birds', 'ships', 'rain'][i % 3] * (1 + i)}", "max_tokens": 20 + i,
                "temperature": [0, 0.8, 1.3][i % 3], "seed": i}  # fmt: skip
        if i % 4 == 1:
            body["frequency_penalty"] = 0.5
        requests.append(body)

    def one(words):
        name, path = words[0], tools.model(*words)
        for kind, more in (("chains", {}), ("log-probabilities", {"logprobs": 3})):
            given = tools.folder / f"{name}-{kind}.jsonl"
            given.write_text("".join(json.dumps({"custom_id": str(i), "method": "POST", "url": "/v1/completions", "body": body | more}) + "\n"
                                     for i, body in enumerate(requests)))  # fmt: skip
            expected = None
            for slots, device in ((64, "cpu"), *((n, tools.device) for n in (1, 8, 16, 40, 64))):
                if kind != "chains" and slots in (16, 40):
                    continue
                out = tools.folder / f"{name}-{kind}-{slots}-{device.replace(',', '')}.out"
                out.unlink(missing_ok=True)
                tools.run("batch", path, given, out, "-np", slots, "--device", device)
                lines = [json.loads(line) for line in out.read_text().splitlines()]
                choices = {line["custom_id"]: line["response"]["body"]["choices"][0] for line in lines}
                if expected is None:
                    expected = choices
                    continue
                wrong = [key for key in expected if choices.get(key) != expected[key]]
                tools.say("batch", f"{name}, {len(choices)} requests in {slots} slots, {kind}", "same" if not wrong else f"{len(wrong)} differ: {wrong[:6]}", not wrong)

    models = [("1b-q4_k", "1b", "q4_k", "q6_k"), ("1b-q8_0-outliers", "1b", "q8_0", "--outliers"), ("tiny-moe-q4_k", "tiny-moe", "q4_k", "q6_k")]
    return [(words[0], one, words) for words in models]


def bf16(tools):
    def one(_):
        path = tools.model("1b-bf16", "1b", "bf16")
        ids = [str(11 + 3 * (i % 900)) for i in range(2100)]

        def rows(count):
            found = positions(tools, path, ",".join(ids[:count]), "--top", "20", "--device", tools.device)
            return [(row["logsumexp"], row["top"]) for row in found]

        longest = rows(len(ids))
        for count in (1, 2, 3, 7, 17, 40, 70, 129, 300, 556, 900):
            wrong = [i for i, row in enumerate(rows(count)) if row != longest[i]]
            tools.say("bf16", f"the first {count} rows of 2,100", "same" if not wrong else f"{len(wrong)} rows differ, first {wrong[:5]}", not wrong)
        some, top = ",".join(ids[:300]), ("--top", "2000")
        distance = far(positions(tools, path, some, *top, "--device", tools.device), positions(tools, path, some, *top, "--device", "cpu"))
        tools.say("bf16", "300 rows beside the CPU's", f"near {distance:.0e}" if distance <= NEAR_BF16 else f"{distance:.1e} away", distance <= NEAR_BF16)

    return [("1b", one, None)]


def memory(tools):
    return [("limits", lambda _: hold.check(tools), None)]


def sanitizers(tools):
    if not shutil.which("compute-sanitizer"):
        print("sanitizers: compute-sanitizer not found", flush=True)
        return []
    prompt = ids_of(300, 5, 2800)

    def one(job):
        tool, name, words = job
        tools.model(*MODELS_OF[name])
        path = tools.folder / f"{name}.gguf"
        command = ["compute-sanitizer", "--tool", tool, tools.veery, words[0], path, *words[1:]]
        began = time.monotonic()
        done = subprocess.run([str(w) for w in command], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=SANITIZER_TIMEOUT)
        summary = re.findall(r"(?:ERROR|RACECHECK) SUMMARY: (.*)", done.stdout + done.stderr)
        good = done.returncode == 0 and bool(summary) and re.match(r"0 (errors|hazards)", summary[-1]) is not None
        what = f"{tool}, {name}, {words[0]} {' '.join(w for w in words[1:] if len(w) < 40)}, {time.monotonic() - began:.0f} s"
        tools.say("sanitizers", what, "clean" if good else f"status {done.returncode}, {summary or (done.stdout + done.stderr)[-300:]}", good)

    jobs = []
    for tool in ("racecheck", "memcheck"):
        for name in MODELS_OF:
            jobs.append((tool, name, ("logits", "--ids", prompt, "--top", "1", "--device", tools.device)))
            jobs.append((tool, name, ("logits", "--ids", ids_of(20, 5, 2800), "--top", "1", "--exact", "--device", tools.device)))
            for rows in ("1", "12", "40"):
                jobs.append((tool, name, ("bench", "-p", "0", "-n", "1", "-r", "1", "-b", rows, "--chain", "1", "--device", tools.device)))
    jobs.append(("memcheck", "tiny-q4_k", ("bench", "-p", "40", "-n", "8", "-r", "1", "--chain", "4", "--sampled", "--device", tools.device)))
    return [(f"{tool} {name}", one, (tool, name, words)) for tool, name, words in jobs]


MODELS_OF = {
    "tiny-q4_k": ("tiny-q4_k", "tiny", "q4_k", "q6_k"),
    "tiny-q8_0-outliers": ("tiny-q8_0-outliers", "tiny", "q8_0", "--outliers"),
    "tiny-bf16": ("tiny-bf16", "tiny", "bf16"),
    "tiny-moe-q4_k": ("tiny-moe-q4_k", "tiny-moe", "q4_k", "q6_k"),
}


def real(tools):
    if not tools.real:
        return []
    schema = '{"type":"object","properties":{"bird":{"type":"string","maxLength":20},"wingspan":{"type":"integer"}},"required":["bird","wingspan"]}'
    text = (REPOSITORY / "docs/numerics.md").read_text()

    def one(job):
        what, verb, *words = job
        tools.same("real", what, verb, tools.real, *words)

    jobs = [
        ("greedy", "run", "-p", "Why is the sky blue?", "-n", "200", "--temp", "0"),
        ("sampled", "run", "-p", "Write a short poem about a thrush.", "-n", "200", "--temp", "0.8", "--seed", "11"),
        ("a long prompt", "run", "-p", text[:6000] + " Summarise.", "-n", "100", "--temp", "0"),
        ("logits of a text", "logits", "-p", text[:2000], "--all", "--top", "5", "--json"),
        ("a schema", "run", "-p", "Name a bird and its wingspan in cm.", "-n", "60", "--temp", "0.7", "--seed", "2", "--json-schema", schema),
        ("16 layers on the GPU", "run", "-p", "Name three colours.", "-n", "60", "--temp", "0", "-ngl", "16"),
    ]
    return [(job[0], one, job) for job in jobs]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("veery")
    parser.add_argument("--folder", default="/tmp/veery-check", help="folder for models and outputs, 12 GB with all parts")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--real")
    parser.add_argument("--at-once", type=int, default=max(1, (os.cpu_count() or 4) // 4), help="number of concurrent checks")
    options = parser.parse_args()
    chosen = options.only.split(",")
    if unknown := [part for part in chosen if part not in PARTS]:
        parser.error(f"--only: expected some of {', '.join(PARTS)}, found {', '.join(unknown)}")
    folder = Path(options.folder)
    folder.mkdir(parents=True, exist_ok=True)
    tools = Tools(options.veery, options.device, folder, options.real)
    for part in chosen:
        began = time.monotonic()
        jobs = globals()[part](tools)

        def guarded(job, part=part):
            try:
                job[1](job[2])
            except Exception as error:
                tools.say(part, job[0], f"{type(error).__name__}: {error}", good=False)

        with ThreadPoolExecutor(options.at_once) as pool:
            list(pool.map(guarded, jobs))
        good, bad = (tools.counts.get((part, kind), 0) for kind in (True, False))
        print(f"-- {part}: {good} as expected, {bad} not, {time.monotonic() - began:.0f} s", flush=True)
    for failure in tools.failures:
        print(f"WRONG {failure}")
    sys.exit(1 if tools.failures else 0)


if __name__ == "__main__":
    main()
