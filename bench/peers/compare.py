#!/usr/bin/env python3
"""Measures veery and llama.cpp alternately on the same GGUF files and prints their ratios.

    bench/peers/build_llama_cpp.sh
    bench/peers/compare.py MODEL.gguf [MODEL.gguf ...] [--json OUT.json] [--svg OUT.svg]

README.md beside this file says what is compared, and how. Needs Python 3.11 and nothing else.
"""

import argparse
import json
import os
import platform
import re
import shlex
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import ratio_plot

REPOSITORY = Path(__file__).resolve().parents[2]
PEER = "llama.cpp"
MIB = 1 << 20


class Failure(Exception):
    """A program could not be run, or printed something else than expected."""


@dataclass(frozen=True)
class Settings:
    """What both programs are asked to do."""

    threads: int
    prompt: int  # tokens of the prefill test
    tokens: int  # tokens of the decode test
    context: int  # of the one-token process and of perplexity windows
    timeout: float  # seconds for one process


@dataclass(frozen=True)
class Finished:
    """One process that ended well."""

    output: str
    errors: str
    seconds: float  # wall time from its start to its end
    peak_bytes: int  # highest resident set


def run(command, settings):
    """Runs `command` without input to its end. Raises Failure, with what it said, if it fails."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        start = time.perf_counter()
        try:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=errors
            )
        except OSError as error:
            raise Failure(f"{command[0]}: {error.strerror}") from error
        usage = wait(process, start + settings.timeout)
        seconds = time.perf_counter() - start
        texts = [read_text(output), read_text(errors)]
    if process.returncode == -signal.SIGKILL and seconds >= settings.timeout:
        raise Failure(f"{shlex.join(command)}: not done after {settings.timeout:g} s")
    if process.returncode != 0:
        last = "\n".join(texts[1].strip().splitlines()[-5:])
        raise Failure(f"{shlex.join(command)}: exit status {process.returncode}\n{last}")
    return Finished(*texts, seconds, usage.ru_maxrss * 1024)


def wait(process, deadline):
    """Waits for `process` and returns what it used; kills it at `deadline`.

    os.wait4 blocks, which is exact to the microsecond where a poll is not; an alarm ends the wait.
    ru_maxrss of a child starts at this script's own size (about 15 MiB), far below any model.
    """

    def kill(_signal, _frame):
        process.kill()

    previous = signal.signal(signal.SIGALRM, kill)
    signal.setitimer(signal.ITIMER_REAL, max(0.001, deadline - time.perf_counter()))
    try:
        _, status, usage = os.wait4(process.pid, 0)
    except BaseException:  # Ctrl-C: leave no program behind
        process.kill()
        raise
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage


def read_text(file):
    file.seek(0)
    return file.read().decode("utf-8", errors="replace")


class Veery:
    """The commands of veery."""

    name = "veery"

    def __init__(self, binary, flags):
        self.binary = str(binary)
        self.flags = flags

    def describe(self, settings):
        must_be_file(self.binary, "build the release preset, or name it with --veery")
        try:
            version = run([self.binary, "--version"], settings).output.strip()
        except Failure:
            version = "unknown"
        return {"version": version, "extra flags": " ".join(self.flags)}

    def bench(self, model, settings):
        """Returns {test: tokens per second} and the process."""
        finished = run(
            [self.binary, "bench", str(model), "-p", str(settings.prompt), "-n",
             str(settings.tokens), "-t", str(settings.threads), "-r", "1", "--json", *self.flags],
            settings)  # fmt: skip
        rows = parse_json(finished.output, "veery bench")
        return {row["test"]: row["tokens_per_second"] for row in rows}, finished

    def first_token(self, model, settings):
        return run(
            [self.binary, "run", str(model), "-p", "Hello", "-n", "1", "--raw", "--temp", "0",
             "-c", str(settings.context), "-t", str(settings.threads), *self.flags],
            settings)  # fmt: skip

    def perplexity(self, model, text, settings):
        finished = run(
            [self.binary, "perplexity", str(model), "-f", str(text), "-c", str(settings.context),
             "-t", str(settings.threads), "--json", *self.flags],
            settings)  # fmt: skip
        result = parse_json(finished.output, "veery perplexity")
        return {"perplexity": result["perplexity"], "stderr": result["stderr"]}


class LlamaCpp:
    """The commands of llama.cpp."""

    name = PEER

    def __init__(self, folder, flags):
        self.folder = Path(folder)
        self.flags = flags

    def describe(self, _settings):
        must_be_file(self.program("llama-bench"), "run build_llama_cpp.sh, or name it with --peer")
        notes = self.folder / "peer.txt"  # written by build_llama_cpp.sh
        if not notes.is_file():
            return {"version": f"unknown ({notes} is missing)", "extra flags": " ".join(self.flags)}
        lines = notes.read_text().splitlines()
        described = dict(line.split(": ", 1) for line in lines)
        return {**described, "extra flags": " ".join(self.flags)}

    def program(self, name):
        return str(self.folder / name)

    def bench(self, model, settings):
        """Returns {test: tokens per second} and the process."""
        finished = run(
            [self.program("llama-bench"), "-m", str(model), "-p", str(settings.prompt), "-n",
             str(settings.tokens), "-t", str(settings.threads), "-r", "1", "-o", "json",
             *self.flags],
            settings)  # fmt: skip
        rows = parse_json(finished.output, "llama-bench")
        speeds = {}
        for row in rows:
            kind = f"pp{row['n_prompt']}" if row["n_gen"] == 0 else f"tg{row['n_gen']}"
            speeds[kind] = row["avg_ts"]
        return speeds, finished

    def first_token(self, model, settings):
        # Without the warm-up, a whole extra evaluation that it does by default.
        return run(
            [self.program("llama-completion"), "-m", str(model), "-p", "Hello", "-n", "1",
             "-no-cnv", "--no-warmup", "--temp", "0", "-c", str(settings.context), "-t",
             str(settings.threads), *self.flags],
            settings)  # fmt: skip

    def perplexity(self, model, text, settings):
        finished = run(
            [self.program("llama-perplexity"), "-m", str(model), "-f", str(text), "-c",
             str(settings.context), "-t", str(settings.threads), *self.flags],
            settings)  # fmt: skip
        said = finished.output + finished.errors
        found = re.search(r"PPL = ([\d.]+) \+/- ([\d.]+)", said)
        if not found:
            raise Failure("llama-perplexity: no line with 'PPL = ' in what it printed")
        return {"perplexity": float(found[1]), "stderr": float(found[2])}


def must_be_file(path, hint):
    if not Path(path).is_file():
        raise Failure(f"{path}: no such file ({hint})")


def parse_json(text, what):
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise Failure(f"{what}: expected JSON, got {text[:200]!r} ({error})") from error


@dataclass(frozen=True)
class Test:
    """One row of the table."""

    name: str
    unit: str
    higher_is_better: bool


def tests(settings):
    return [
        Test(f"pp{settings.prompt}", "tok/s", True),
        Test(f"tg{settings.tokens}", "tok/s", True),
        Test("load to first token", "ms", False),
        Test("peak memory, one token", "MiB", False),
        Test(f"peak memory, pp{settings.prompt} and tg{settings.tokens}", "MiB", False),
    ]


def measure_once(program, model, settings):
    """Returns {test name: value}, one value for each of tests(), in their units."""
    speeds, bench = program.bench(model, settings)
    first = program.first_token(model, settings)
    prefill, decode, load, memory_one, memory_bench = (test.name for test in tests(settings))
    for name in (prefill, decode):
        if name not in speeds:
            raise Failure(f"{program.name}: no test {name} in its benchmark, only {list(speeds)}")
    return {
        prefill: speeds[prefill],
        decode: speeds[decode],
        load: first.seconds * 1000,
        memory_one: first.peak_bytes / MIB,
        memory_bench: bench.peak_bytes / MIB,
    }


def measure(programs, model, settings, rounds):
    """Returns {program name: {test name: [a value for each round]}}.

    Every round runs every program; the one that begins changes from round to round, so that neither
    always follows the other's warm or throttled machine.
    """
    read_through(model)
    samples = {program.name: {} for program in programs}
    for index in range(rounds):
        for program in programs if index % 2 == 0 else reversed(programs):
            note(f"{model.name}: round {index + 1} of {rounds}, {program.name}")
            for name, value in measure_once(program, model, settings).items():
                samples[program.name].setdefault(name, []).append(value)
    return samples


def read_through(path):
    """Brings a file into the page cache: loading is compared warm."""
    with open(path, "rb", buffering=0) as file:
        while file.read(16 * MIB):
            pass


def summary(values):
    return {
        "median": statistics.median(values),
        "min": min(values),
        "max": max(values),
        "samples": values,
    }


def summarise(model, samples, settings):
    """Returns the results for one model: a dictionary for each test, ready for JSON."""
    results = []
    for test in tests(settings):
        row = {
            "model": model.name,
            "model_bytes": model.stat().st_size,
            "test": test.name,
            "unit": test.unit,
            "higher_is_better": test.higher_is_better,
        }
        for name, values in samples.items():
            row[name] = summary(values[test.name])
        if Veery.name in row and PEER in row:
            row["ratio"] = row[Veery.name]["median"] / row[PEER]["median"]
        results.append(row)
    return results


def compare_perplexity(programs, model, text, settings):
    row = {"model": model.name, "text": str(text), "context": settings.context}
    for program in programs:
        note(f"{model.name}: perplexity, {program.name}")
        row[program.name] = program.perplexity(model, text, settings)
    if Veery.name in row and PEER in row:
        row["ratio"] = row[Veery.name]["perplexity"] / row[PEER]["perplexity"]
    return row


def describe_machine():
    model = platform.machine()
    try:
        info = Path("/proc/cpuinfo").read_text()
        found = re.search(r"^model name\s*:\s*(.+)$", info, re.MULTILINE)
        model = found[1] if found else model
    except OSError:
        pass  # not Linux: the architecture must do
    return {
        "cpu": model,
        "cpus": len(os.sched_getaffinity(0)),
        "system": f"{platform.system()} {platform.release()}",
        "load_average": os.getloadavg()[0],
    }


def print_machine(machine, described, settings, rounds):
    print(f"CPU:     {machine['cpu']}, {machine['cpus']} usable, {machine['system']}")
    print(f"Load:    {machine['load_average']:.2f} at the start (should be near 0)")
    for name, facts in described.items():
        print(f"{name}:")
        for key, value in facts.items():
            if value:
                print(f"  {key}: {value}")
    print(
        f"Rounds:  {rounds}, {settings.threads} threads, context {settings.context}; "
        "median (min - max); ratio = veery / llama.cpp"
    )


def cell(row, name):
    if name not in row:
        return "-"
    digits = 0 if row["unit"] == "tok/s" and row[name]["median"] >= 1000 else 1
    low, middle, high = (f"{row[name][key]:.{digits}f}" for key in ("min", "median", "max"))
    return f"{middle} ({low} - {high})"


def verdict(row):
    if "ratio" not in row:
        return "-", ""
    good = row["ratio"] >= 1 if row["higher_is_better"] else row["ratio"] <= 1
    direction = "higher" if row["higher_is_better"] else "lower"
    return f"{row['ratio']:.2f}", f"{direction} is better: {'ahead' if good else 'behind'}"


def print_results(results):
    """Prints one table a model."""
    for model in dict.fromkeys(row["model"] for row in results):
        rows = [row for row in results if row["model"] == model]
        file_mib = rows[0]["model_bytes"] / MIB
        print(f"\n{model} ({file_mib:.1f} MiB)")
        lines = [["test", "unit", Veery.name, PEER, "ratio", ""]]
        for row in rows:
            lines.append(
                [row["test"], row["unit"], cell(row, Veery.name), cell(row, PEER), *verdict(row)]
            )
        print_table(lines)
        for row in rows:
            if row["unit"] == "MiB":
                print_share_of_file(row, file_mib)


def print_table(lines):
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    for line in lines:
        print("  ".join(text.ljust(width) for text, width in zip(line, widths)).rstrip())


def print_share_of_file(row, file_mib):
    shares = [
        f"{name} {row[name]['median'] / file_mib:.2f}" for name in (Veery.name, PEER) if name in row
    ]
    print(f"{row['test']}, times the file: {', '.join(shares)}")


def print_perplexities(rows):
    for row in rows:
        print(f"\n{row['model']}: perplexity of {row['text']}, windows of {row['context']}")
        for name in (Veery.name, PEER):
            if name in row:
                print(f"  {name}: {row[name]['perplexity']:.4f} +/- {row[name]['stderr']:.4f}")
        if "ratio" in row:
            print(f"  ratio: {row['ratio']:.5f}")


def note(text):
    print(text, file=sys.stderr, flush=True)


def default_peer():
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "veery" / "peers" / "llama.cpp" / "bin"


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+", type=Path, metavar="MODEL.gguf")
    parser.add_argument(
        "--veery", type=Path, default=REPOSITORY / "build/release/bin/veery", metavar="PROGRAM"
    )
    parser.add_argument("--peer", type=Path, default=default_peer(), metavar="FOLDER",
                        help="with llama-bench in it (default: %(default)s)")  # fmt: skip
    parser.add_argument("--only", choices=[Veery.name, PEER], help="measure one program alone")
    parser.add_argument("--rounds", type=positive, default=5)
    parser.add_argument("-t", "--threads", type=positive, default=2)
    parser.add_argument("--prompt", type=positive, default=512, help="tokens of the prefill test")
    parser.add_argument("--tokens", type=positive, default=128, help="tokens of the decode test")
    parser.add_argument("-c", "--context", type=positive, default=512)
    parser.add_argument("--veery-flags", default="", help="more flags for every veery command")
    parser.add_argument("--peer-flags", default="", help='more for llama.cpp, such as "-fa off"')
    parser.add_argument("--perplexity", type=Path, metavar="FILE", help="compare on this text too")
    parser.add_argument("--timeout", type=float, default=600, help="seconds for one process")
    parser.add_argument("--json", type=Path, metavar="OUT.json")
    parser.add_argument("--svg", type=Path, metavar="OUT.svg", help="bars of the ratios")
    return parser.parse_args(arguments)


def positive(text):
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not positive")
    return number


def chosen_programs(options):
    programs = [
        Veery(options.veery, shlex.split(options.veery_flags)),
        LlamaCpp(options.peer, shlex.split(options.peer_flags)),
    ]
    return [program for program in programs if options.only in (None, program.name)]


def compare(options):
    settings = Settings(
        options.threads, options.prompt, options.tokens, options.context, options.timeout
    )
    for path in [*options.models, *([options.perplexity] if options.perplexity else [])]:
        if not path.is_file():
            raise Failure(f"{path}: no such file")
    programs = chosen_programs(options)
    machine = describe_machine()
    described = {program.name: program.describe(settings) for program in programs}
    print_machine(machine, described, settings, options.rounds)
    results, perplexities = [], []
    for model in options.models:
        samples = measure(programs, model, settings, options.rounds)
        results += summarise(model, samples, settings)
        if options.perplexity:
            perplexities.append(compare_perplexity(programs, model, options.perplexity, settings))
    print_results(results)
    print_perplexities(perplexities)
    return {
        "machine": machine,
        "programs": described,
        "settings": {**settings.__dict__, "rounds": options.rounds},
        "results": results,
        "perplexity": perplexities,
    }


def main(arguments):
    options = parse_arguments(arguments)
    try:
        report = compare(options)
        if options.json:
            options.json.write_text(json.dumps(report, indent=1) + "\n")
        if options.svg:
            options.svg.write_text(ratio_plot.draw(report))
    except (Failure, OSError) as error:
        note(f"compare: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
