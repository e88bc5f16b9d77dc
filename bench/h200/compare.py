#!/usr/bin/env python3
"""Compares veery with llama.cpp on an NVIDIA GPU, alternately, on random models with Llama shapes.

    bench/h200/compare.py VEERY LLAMA.CPP [--folder FOLDER] [--rounds N] [--shapes 1b,8b] [--json OUT] [--svg OUT]

LLAMA.CPP: the folder of llama-bench and llama-batched-bench (`CUDA=90 bench/peers/build_llama_cpp.sh`). FOLDER contains
the models of models.py, which are created if missing (31 GB for both shapes). A round runs each test with one program, then
with the other. Prints medians; the ratio is the median of the rounds' ratios. Requires only Python 3.11.
"""

import argparse
import json
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "peers"))

import machine  # noqa: E402
import ratio_plot  # noqa: E402
from pairs import paired_ratios, spread  # noqa: E402

PROMPT, TOKENS, SEQUENCES = 2048, 128, 64
MODELS = {"q4_k": ["q4_k", "q6_k"], "q8_0": ["q8_0"], "bf16": ["bf16"]}  # weights, embedding
TIMEOUT = 600  # seconds per process


@dataclass(frozen=True)
class Test:
    name: str
    shape: str
    weights: str
    veery: tuple[str, ...]  # arguments of `veery bench`
    peer: str  # the peer's number to compare with: prompt, steps, sequences
    goal: int | None = None  # target in tokens/s on an H200


def tests_of(shapes):
    prompt = ("-p", str(PROMPT), "-n", "0")
    steps = ("-p", "0", "-n", str(TOKENS))
    found = [
        *(Test("steps", "8b", weights, steps, "steps", goal)
          for weights, goal in (("bf16", 250), ("q8_0", 400), ("q4_k", 570))),
        Test("steps", "1b", "q4_k", steps, "steps", 2150),
        Test(f"steps of {SEQUENCES} sequences", "8b", "q4_k", ("-p", "0", "-n", "64", "-b", str(SEQUENCES)), "sequences", 9000),
        Test(f"prompt of {PROMPT}", "8b", "q4_k", prompt, "prompt", 16000),
        Test(f"prompt of {PROMPT}", "8b", "q8_0", prompt, "prompt"),
        Test(f"prompt of {PROMPT}", "8b", "bf16", prompt, "prompt"),
        Test(f"prompt of {PROMPT} --relaxed", "8b", "q4_k", (*prompt, "--relaxed"), "prompt", 38000),
        Test(f"prompt of {PROMPT} --relaxed", "8b", "bf16", (*prompt, "--relaxed"), "prompt", 42000),
        Test(f"prompt of {PROMPT}", "1b", "q4_k", prompt, "prompt"),
    ]  # fmt: skip
    return [test for test in found if test.shape in shapes]


def run(command):
    """Returns the program's output. Exits with its error output if it fails."""
    done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=TIMEOUT, check=False)  # fmt: skip
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout


class Peer:
    def __init__(self, folder):
        self.folder = Path(folder)

    def measure(self, what, model):
        """Returns tokens/s."""
        if what == "sequences":
            output = run([self.folder / "llama-batched-bench", "-m", model, "-ngl", 99, "-fa", "on", "-npp", 16, "-ntg", 64,
                          "-npl", SEQUENCES, "-c", SEQUENCES * 128, "-b", 2048, "-ub", 2048, "--output-format", "jsonl"])  # fmt: skip
            found = [json.loads(line)["speed_tg"] for line in output.splitlines() if line.startswith("{")]
        else:
            count = ["-p", PROMPT, "-n", 0] if what == "prompt" else ["-p", 0, "-n", TOKENS]
            output = run([self.folder / "llama-bench", "-m", model, "-ngl", 99, "-fa", 1, "-b", 2048, "-ub", 2048, "-r", 3,
                          "-o", "json", *count])  # fmt: skip
            found = [statistics.median(test["samples_ts"]) for test in json.loads(output)]
        if len(found) != 1:
            sys.exit(f"{self.folder}: expected one test, found {len(found)} in:\n{output[-2000:]}")
        return found[0]

    def version(self):
        facts = self.folder / "peer.txt"
        return facts.read_text().splitlines()[0].removeprefix("version: ") if facts.exists() else "llama.cpp"


def measure_veery(program, device, test, model):
    output = run([program, "bench", model, "--device", device, "-r", 3, "--json", *test.veery])
    return json.loads(output)[0]["tokens_per_second"]


def gpu():
    facts = run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]).splitlines()[0]
    name, driver = facts.split(", ")
    return {"name": name, "driver": driver}


def measure(options, tests):
    """Returns {test: {"veery": [..], "llama.cpp": [..]}} with one value per round."""
    peer = Peer(options.peer)
    found = {test: {"veery": [], "llama.cpp": []} for test in tests}
    for number in range(options.rounds):
        theirs = {}  # tests with and without --relaxed are compared with the same number
        for test in tests:
            model = model_of(options.folder, test)
            if (test.peer, model) not in theirs:
                theirs[test.peer, model] = peer.measure(test.peer, model)
            found[test]["llama.cpp"].append(theirs[test.peer, model])
            found[test]["veery"].append(measure_veery(options.veery, options.device, test, model))
        print(f"round {number + 1} of {options.rounds}", file=sys.stderr)
    return found


def model_of(folder, test):
    path = Path(folder) / f"{test.shape}-{test.weights}.gguf"
    if not path.exists():
        run([sys.executable, HERE / "models.py", path, test.shape, *MODELS[test.weights]])
    return path


def report_of(options, found):
    card = gpu()
    rows = [
        {
            "test": test.name,
            "model": f"{test.shape.upper()} {test.weights}",
            "unit": "tok/s",
            "higher_is_better": True,
            "goal": test.goal,
            **{name: spread(values) for name, values in values_of.items()},
            "ratios": {"llama.cpp": statistics.median(paired_ratios(values_of["veery"], values_of["llama.cpp"]))},
        }
        for test, values_of in found.items()
    ]
    return {
        "subtitle": f"{card['name']}, driver {card['driver']}, random weights",
        "gpu": card,
        "machine": machine.describe(),
        "commit": run([options.veery, "--version"]).strip(),
        "peer": Peer(options.peer).version(),
        "settings": {"rounds": options.rounds},
        "results": rows,
    }


def table(report):
    lines = [
        f"{report['subtitle']}; {report['commit'].splitlines()[0]}; {report['peer']}; {report['machine']['date']}",
        "",
        "| | | llama.cpp | veery | ratio | aimed at on an H200 |",
        "|---|---|---|---|---|---|",
    ]
    for row in report["results"]:
        numbers = [f"{row[name]['median']:,.0f}" for name in ("llama.cpp", "veery")]
        goal = f"{row['goal']:,}" if row["goal"] else ""
        lines.append(f"| {row['model']} | {row['test']} | {' | '.join(numbers)} | {row['ratios']['llama.cpp']:.2f} | {goal} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("veery", type=Path)
    parser.add_argument("peer", type=Path, metavar="LLAMA.CPP")
    parser.add_argument("--folder", type=Path, default=Path("/tmp/veery-h200"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--shapes", default="1b,8b")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--svg", type=Path)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    tests = tests_of(options.shapes.split(","))
    for test in tests:
        model_of(options.folder, test)
    report = report_of(options, measure(options, tests))
    print(table(report))
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n")
    if options.svg:
        options.svg.write_text(ratio_plot.draw(report))


if __name__ == "__main__":
    main()
