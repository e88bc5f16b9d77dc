#!/usr/bin/env python3
"""Measures veery and its peers alternately on the same GGUF files and prints their ratios.

    bench/peers/build_llama_cpp.sh
    bench/peers/compare.py MODEL.gguf [MODEL.gguf ...] [--ik FOLDER] [--json OUT] [--svg OUT]

README.md in this folder explains what is compared, and how. Requires only Python 3.11.
"""

import argparse
import hashlib
import json
import os
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

import machine as machines
import ratio_plot
from pairs import paired_ratios, spread
from programs import Failure, IkLlamaCpp, LlamaCpp, Settings, Veery

REPOSITORY = Path(__file__).resolve().parents[2]
PEERS = [LlamaCpp.name, IkLlamaCpp.name]
MIB = 1 << 20
QUIET_SECONDS = 5  # duration of the load measurement before and after


@dataclass(frozen=True)
class Test:
    """A row of the table."""

    name: str
    unit: str
    higher_is_better: bool


def tests(settings):
    return [
        Test(f"pp{settings.prompt}", "tok/s", True),
        Test(f"tg{settings.tokens}", "tok/s", True),
        *([Test(f"tg{settings.tokens}, sampled", "tok/s", True)] if settings.sampled else []),
        *([Test("load to first token", "ms", False)] if settings.texts else []),
        *([Test("peak memory, one token", "MiB", False)] if settings.texts else []),
        Test(f"peak memory, pp{settings.prompt} and tg{settings.tokens}", "MiB", False),
    ]


def measure_once(program, model, settings):
    """Returns {test name: value} with a value for each of tests(), in its unit."""
    speeds, bench = program.bench(model, settings)
    prefill, decode, *texts, memory_bench = (test.name for test in tests(settings))
    for name in (prefill, decode):
        if name not in speeds:
            raise Failure(f"{program.name}: no test {name} in its benchmark, only {list(speeds)}")
    found = [speeds[prefill], speeds[decode]]
    if settings.sampled:
        found.append(program.sampled(model, settings))
    if settings.texts:
        first = program.first_token(model, settings)
        found += [first.seconds * 1000, first.peak_bytes / MIB]
    return dict(zip([prefill, decode, *texts, memory_bench], [*found, bench.peak_bytes / MIB], strict=True))


def measure(programs, model, settings, rounds):
    """Returns {program name: {test name: [value per round]}} and the load during each round.

    Every round runs every program. The first one alternates, so that none always runs after the same
    other program, on a warm or throttled machine.
    """
    samples, observed = {program.name: {} for program in programs}, []
    for index in range(rounds):
        watch = machines.Watch()
        first = index % len(programs)
        for program in programs[first:] + programs[:first]:
            note(f"{model.name}: round {index + 1} of {rounds}, {program.name}")
            for name, value in measure_once(program, model, settings).items():
                samples[program.name].setdefault(name, []).append(value)
        observed.append({"model": model.name, "round": index + 1, **watch.shares()})
    return samples, observed


def read_through(path):
    """Loads a file into the page cache, because warm loading is compared; returns its SHA-256."""
    digest = hashlib.sha256()
    with open(path, "rb", buffering=0) as file:
        while part := file.read(16 * MIB):
            digest.update(part)
    return digest.hexdigest()


def summarise(model, sha256, samples, settings):
    """Returns the results for one model: a dictionary for each test, ready for JSON."""
    results = []
    for test in tests(settings):
        row = {
            "model": model.name,
            "model_bytes": model.stat().st_size,
            "model_sha256": sha256[:16],
            "test": test.name,
            "unit": test.unit,
            "higher_is_better": test.higher_is_better,
        }
        for name, values in samples.items():
            row[name] = spread(values[test.name])
        row["pairs"] = pairs(row)
        row["ratios"] = {peer: found["median"] for peer, found in row["pairs"].items()}
        results.append(row)
    return results


def pairs(row):
    """Returns {peer: spread of the rounds' ratios veery / peer} for the measured peers."""
    if Veery.name not in row:
        return {}
    ours = row[Veery.name]["samples"]
    return {peer: spread(paired_ratios(ours, row[peer]["samples"])) for peer in PEERS if peer in row}


def ratios(row, value):
    """Returns {peer: veery / peer} for the measured peers."""
    if Veery.name not in row:
        return {}
    return {peer: row[Veery.name][value] / row[peer][value] for peer in PEERS if peer in row}


def compare_perplexity(programs, model, text, settings):
    row = {"model": model.name, "text": str(text), "context": settings.context}
    for program in programs:
        note(f"{model.name}: perplexity, {program.name}")
        row[program.name] = program.perplexity(model, text, settings)
    row["ratios"] = ratios(row, "perplexity")
    return row


def print_machine(tree, machine, before, described, settings, rounds):
    changed = {True: ", with changes", False: "", None: ""}[tree["dirty"]]
    print(f"Commit:  {tree['commit'] or 'unknown'}{changed}")
    print(f"CPU:     {machine['cpu']}, {machine['cpus']} usable, {' '.join(machine['features'])}")
    print(f"System:  {machine['system']}{', under a hypervisor' if machine['hypervisor'] else ''}")
    print(f"Load:    {before['load_average']:.2f} at the start (should be near 0)")
    for name, facts in described.items():
        print(f"{name}:")
        for key, value in facts.items():
            if value:
                print(f"  {key}: {value}")
    print(
        f"Rounds:  {rounds}, {settings.threads} threads, context {settings.context}; "
        "median (min - max); ratio = median (quartiles) of veery / peer, round by round"
    )


def cell(row, name):
    digits = 0 if row["unit"] == "tok/s" and row[name]["median"] >= 1000 else 1
    low, middle, high = (f"{row[name][key]:.{digits}f}" for key in ("min", "median", "max"))
    return f"{middle} ({low} - {high})"


def ratio_cell(found):
    return f"{found['median']:.2f} ({found['q1']:.2f} - {found['q3']:.2f})"


def verdict(row):
    """Returns the direction of the measure, and whether veery is ahead of every peer."""
    if not row["ratios"]:
        return ""
    higher = row["higher_is_better"]
    good = all(ratio >= 1 if higher else ratio <= 1 for ratio in row["ratios"].values())
    return f"{'higher' if higher else 'lower'} is better: {'ahead' if good else 'behind'}"


def print_results(results):
    """Prints one table per model."""
    for model in dict.fromkeys(row["model"] for row in results):
        rows = [row for row in results if row["model"] == model]
        file_mib = rows[0]["model_bytes"] / MIB
        print(f"\n{model} ({file_mib:.1f} MiB)")
        names = [name for name in [Veery.name, *PEERS] if name in rows[0]]
        compared = list(rows[0]["ratios"])
        lines = [["test", "unit", *names, *(f"to {peer}" for peer in compared), ""]]
        for row in rows:
            cells = [cell(row, name) for name in names]
            shown = [ratio_cell(row["pairs"][peer]) for peer in compared]
            lines.append([row["test"], row["unit"], *cells, *shown, verdict(row)])
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
        f"{name} {row[name]['median'] / file_mib:.2f}"
        for name in [Veery.name, *PEERS]
        if name in row
    ]
    print(f"{row['test']}, times the file: {', '.join(shares)}")


def print_perplexities(rows):
    for row in rows:
        print(f"\n{row['model']}: perplexity of {row['text']}, windows of {row['context']}")
        for name in [Veery.name, *PEERS]:
            if name in row:
                print(f"  {name}: {row[name]['perplexity']:.4f} +/- {row[name]['stderr']:.4f}")
        for peer, ratio in row["ratios"].items():
            print(f"  to {peer}: {ratio:.5f}")


def note(text):
    print(text, file=sys.stderr, flush=True)


def default_peer():
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "veery" / "peers" / "llama.cpp" / "bin"


def absolute(text):
    return Path(text).absolute()


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+", type=absolute, metavar="MODEL.gguf")
    parser.add_argument(
        "--veery", type=absolute, default=REPOSITORY / "build/release/bin/veery", metavar="PROGRAM"
    )
    parser.add_argument("--llama", "--peer", type=absolute, default=default_peer(), metavar="FOLDER",
                        help="folder of llama.cpp's programs (default: %(default)s)")  # fmt: skip
    parser.add_argument("--ik", type=absolute, metavar="FOLDER",
                        help="folder of ik_llama.cpp's programs; default: not measured")  # fmt: skip
    parser.add_argument("--only", choices=[Veery.name, *PEERS], help="measure only this program")
    parser.add_argument("--rounds", type=positive, default=5)
    parser.add_argument("-t", "--threads", type=positive, default=2)
    parser.add_argument("--prompt", type=positive, default=512, help="tokens of the prefill test")
    parser.add_argument("--tokens", type=positive, default=128, help="tokens of the decode test")
    parser.add_argument("-c", "--context", type=positive, default=512)
    parser.add_argument("--veery-flags", default="", help="additional flags for every veery command")
    parser.add_argument("--llama-flags", "--peer-flags", default="",
                        help='additional flags for llama.cpp, such as "-fa off"')  # fmt: skip
    parser.add_argument("--ik-flags", default="", help='additional flags for its benchmark, such as "-thp 1"')
    parser.add_argument("--perplexity", type=absolute, metavar="FILE", help="also compare perplexity on this text")
    parser.add_argument("--no-sampled", dest="sampled", action="store_false",
                        help="skip answers with default sampling")  # fmt: skip
    parser.add_argument("--speeds-only", dest="texts", action="store_false",
                        help="use token ids only, for files without a vocabulary")  # fmt: skip
    parser.add_argument("--busy-ok", action="store_true", help="measure even on a busy machine")
    parser.add_argument("--timeout", type=float, default=600, help="timeout of a process in seconds [600]")
    parser.add_argument("--json", type=Path, metavar="OUT.json")
    parser.add_argument("--svg", type=Path, metavar="OUT.svg", help="draw the ratios as bars")
    return parser.parse_args(arguments)


def positive(text):
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not positive")
    return number


def chosen_programs(options):
    programs = [
        Veery(options.veery, shlex.split(options.veery_flags)),
        LlamaCpp(options.llama, shlex.split(options.llama_flags)),
    ]
    if options.ik:
        programs.append(IkLlamaCpp(options.ik, shlex.split(options.ik_flags)))
    return [program for program in programs if options.only in (None, program.name)]


def check_quiet(busy_ok):
    """Measures the load of the machine. Raises Failure if it is busy, unless that is allowed."""
    found = machines.observe(QUIET_SECONDS)
    reason = machines.why_busy(found, QUIET_SECONDS)
    if reason and not busy_ok:
        raise Failure(reason)
    if reason:
        note(f"compare: {reason}")
    return found


def check_files(options):
    for path in [*options.models, *([options.perplexity] if options.perplexity else [])]:
        if not path.is_file():
            raise Failure(f"{path}: no such file")


def compare(options):
    settings = Settings(
        options.threads, options.prompt, options.tokens, options.context, options.timeout,
        options.sampled and options.texts, options.texts
    )  # fmt: skip
    check_files(options)
    programs = chosen_programs(options)
    tree, machine = machines.describe_tree(REPOSITORY), machines.describe()
    described = {program.name: program.describe(settings) for program in programs}
    load = {"before": check_quiet(options.busy_ok), "during": []}
    print_machine(tree, machine, load["before"], described, settings, options.rounds)
    results, perplexities = [], []
    for model in options.models:
        sha256 = read_through(model)
        samples, observed = measure(programs, model, settings, options.rounds)
        load["during"] += observed
        results += summarise(model, sha256, samples, settings)
        if options.perplexity:
            perplexities.append(compare_perplexity(programs, model, options.perplexity, settings))
    load["after"] = machines.observe(QUIET_SECONDS)
    print_results(results)
    print_perplexities(perplexities)
    return {
        "tree": tree,
        "machine": machine,
        "load": load,
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
