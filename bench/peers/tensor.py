#!/usr/bin/env python3
"""Compares functions of tensors with PyTorch and MLX on the CPU, alternating, in one run.

    bench/peers/tensor.py [--program build/release/bin/tensor_bench] [--rounds N] [--threads N]
                          [--cases REGEX] [--json FILE]

Needs torch; mlx is included if it is installed. Each round measures every case once with each
program, in an order that changes from round to round. The table shows the median time and the
median of the ratios of a round (peer / veery: above 1 veery is faster).
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import time

FLOATS = {"f32": "float32", "bf16": "bfloat16"}
CASES = [f"matmul_{type}/{n}" for type in FLOATS for n in (1024, 2048, 4096)] + ["chain"]


def seconds(run, least=0.3):
    """The best time of a call that is repeated for at least `least` seconds."""
    run()
    times, end = [], time.perf_counter() + least
    while not times or time.perf_counter() < end:
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


class Torch:
    def __init__(self, threads, compiled=False):
        import torch
        self.torch, self.compiled = torch, compiled
        torch.set_num_threads(threads)
        torch.manual_seed(0)

    def chain(self, x):
        y = x * 1.5 + 0.25
        y = self.torch.exp(-0.5 * y)
        y = self.torch.tanh(y * y + x)
        return self.torch.clamp(y, min=0.1).sum()

    def measure(self, case):
        torch = self.torch
        with torch.inference_mode():
            if case == "chain":
                x = torch.randn(1 << 24)
                run = torch.compile(self.chain) if self.compiled else self.chain
                return seconds(lambda: run(x).item())
            if self.compiled:
                return None
            type, n = re.fullmatch(r"matmul_(\w+)/(\d+)", case).groups()
            a, b = (torch.randn(int(n), int(n)).to(getattr(torch, FLOATS[type])) for _ in "ab")
            return seconds(lambda: a @ b)


class Mlx:
    def __init__(self):
        import mlx.core as mx
        self.mx = mx
        mx.set_default_device(mx.cpu)

    def measure(self, case):
        mx = self.mx
        if case == "chain":
            x = mx.random.normal((1 << 24,))
            mx.eval(x)

            def run():
                y = x * 1.5 + 0.25
                y = mx.exp(-0.5 * y)
                y = mx.tanh(y * y + x)
                mx.maximum(y, 0.1).sum().item()
            return seconds(run)
        type, n = re.fullmatch(r"matmul_(\w+)/(\d+)", case).groups()
        a, b = (mx.random.normal((int(n), int(n))).astype(getattr(mx, FLOATS[type])) for _ in "ab")
        mx.eval(a, b)
        return seconds(lambda: mx.eval(a @ b))


class Veery:
    def __init__(self, program):
        self.program = program

    def measure(self, case):
        out = subprocess.run(
            [self.program, f"--benchmark_filter=^{case}/real_time$", "--benchmark_format=json",
             "--benchmark_min_time=0.3"], check=True, capture_output=True, text=True).stdout
        (row,) = json.loads(out)["benchmarks"]
        return row["real_time"] * {"ns": 1e-9, "us": 1e-6, "ms": 1e-3}[row["time_unit"]]


def programs(options):
    made = {"veery": Veery(options.program), "torch": Torch(options.threads)}
    try:
        made["mlx"] = Mlx()
    except ImportError:
        pass
    if options.compile:
        made["torch.compile"] = Torch(options.threads, compiled=True)
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--program", default="build/release/bin/tensor_bench")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--cases", default="", help="cases that match this pattern")
    parser.add_argument("--compile", action="store_true", help="measure torch.compile, too")
    parser.add_argument("--json", help="write all times to this file")
    options = parser.parse_args()
    every = programs(options)
    times = {}
    cases = [case for case in CASES if re.search(options.cases, case)]
    for round in range(options.rounds):
        for case in cases:
            order = list(every)
            for name in order[round % len(order):] + order[:round % len(order)]:
                found = every[name].measure(case)
                if found is not None:
                    times.setdefault(case, {}).setdefault(name, []).append(found)
    for case in cases:
        mine = times[case]["veery"]
        row = [f"{case:18} veery {statistics.median(mine) * 1e3:9.2f} ms"]
        for name, theirs in times[case].items():
            if name != "veery":
                ratio = statistics.median(t / m for t, m in zip(theirs, mine))
                row.append(f"{name} {statistics.median(theirs) * 1e3:.2f} ms ({ratio:.2f} x)")
        print("   ".join(row))
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(times, file, indent=1)


if __name__ == "__main__":
    main()
