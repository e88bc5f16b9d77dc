#!/usr/bin/env python3
"""Writes the tables of docs/performance.md and README.md from the JSON in docs/performance.

    bench/performance/tables.py            # after a measurement was added to docs/performance
    bench/performance/tables.py --check    # for tests: fails if a page does not match the JSON

Reads docs/performance/peers-*.json (bench/peers/compare.py), model-*.json (measure.py), load-*.json (peers/load.py),
labels-*.json (peers/classify.py) and drafts-*.json (drafts.py), and replaces the text between
`<!-- tables: NAME -->` and `<!-- end -->` in both pages. Missing facts are "not recorded"; a test that was
not measured has no row. Requires only Python 3.11.
"""

import argparse
import json
import re
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "bench" / "peers"))

import other_tables  # noqa: E402
from cells import UNKNOWN, commit_text, load_text, machine_of, number, ratio_text, table, title  # noqa: E402
from pairs import paired_ratios, spread  # noqa: E402

PROGRAMS = ["veery", "llama.cpp", "ik_llama.cpp"]


def version_text(facts):
    return facts["version"].splitlines()[0] + (f", {facts['extra flags']}" if facts.get("extra flags") else "")


def conditions(report):
    """Returns the conditions of a table of peers as (name, value) pairs."""
    machine = report["machine"]
    hypervisor = {True: "under a hypervisor", False: "no hypervisor", None: "hypervisor " + UNKNOWN}
    caches = machine.get("caches")
    memory = machine.get("memory_bytes")
    settings = report["settings"]
    return [
        ("Date", machine.get("date", UNKNOWN)),
        ("Commit", commit_text(report)),
        ("Versions", "; ".join(version_text(facts) for facts in report["programs"].values())),
        ("Compilers", "; ".join(f"{name}: {facts['compiler']}" for name, facts in report["programs"].items()
                                if "compiler" in facts) or UNKNOWN),
        ("System", f"{machine['system']}, {hypervisor[machine.get('hypervisor')]}"),
        ("Features", " ".join(machine["features"]) if machine.get("features") else UNKNOWN),
        ("Caches", ", ".join(f"{key} {value}" for key, value in caches.items()) if caches else UNKNOWN),
        ("Memory", f"{memory / 2**30:.1f} GiB" if memory else UNKNOWN),
        ("Load", load_text(report)),
        ("Settings", f"{settings['rounds']} round{'s' if settings['rounds'] > 1 else ''}, "
                     f"{settings['threads']} threads, context {settings['context']}"),
    ]  # fmt: skip


def ratio(row, peer):
    """Returns the ratio veery / peer of each round."""
    return spread(paired_ratios(row["veery"]["samples"], row[peer]["samples"]))


def measured(report):
    return [name for name in PROGRAMS if name in report["programs"]]


def peer_rows(report):
    names = measured(report)
    peers = [name for name in names if name != "veery"]
    yield ["test", *names, *(f"to {peer}" for peer in peers)]
    for row in report["results"]:
        yield [f"{row['test']}, {row['unit']}", *(number(row[name]["median"]) for name in names),
               *(ratio_text(ratio(row, peer)) for peer in peers)]  # fmt: skip


def peer_section(report):
    rows = report["results"]
    for name in dict.fromkeys(row["model"] for row in rows):
        own = [row for row in rows if row["model"] == name]
        size = own[0]["model_bytes"] / 1e6
        yield f"#### {title(name)}"
        yield f"\n`{name}`, {size:.0f} MB, SHA-256 {own[0].get('model_sha256', UNKNOWN)}\n"
        yield from table(list(peer_rows({**report, "results": own})))
        yield ""
    yield from (f"- {name}: {value}" for name, value in conditions(report))
    yield ""


def step_row(report, key):
    step, tokens = report[key], report[key]["tokens"]
    limits = step["limits"]
    return [
        title(report["model"]), f"{tokens} token{'s' if tokens > 1 else ''}", f"{step['seconds'] * 1e3:.2f}",
        f"{step['weight_bytes_per_second'] / 1e9:.1f}", f"{limits['memory_bytes_per_second'] / 1e9:.1f}",
        f"{step['share']:.0%}", f"{limits['f32_operations_per_second'] / 1e9:.0f}",
        f"{limits['int8_operations_per_second'] / 1e9:.0f}", f"{limits['barrier_seconds'] * 1e6:.2f}",
    ]  # fmt: skip


def step_section(reports):
    yield "#### Where the time of a step goes\n"
    yield from table([
        ["model", "step", "ms", "weights, GB/s", "read loop, GB/s", "share of the limits", "f32 GFLOP/s", "int8 GOP/s",
         "barrier, us"],
        *(step_row(report, key) for report in reports for key in ("decode", "prefill")),
    ])  # fmt: skip
    yield ""
    for report in reports:
        yield f"- {title(report['model'])}: {load_text(report)}, {report['threads']} threads, commit {commit_text(report)}"
    yield ""


def sweep_section(reports):
    for sweep, column in (("batch", "sequences"), ("depth", "tokens in the cache")):
        yield f"#### Answers by {column}, tokens per second\n"
        values = [row[sweep] for row in reports[0][sweep]]
        yield from table([
            ["model", *map(str, values)],
            *([title(report["model"]), *(number(row["tokens_per_second"]) for row in report[sweep])]
              for report in reports if [row[sweep] for row in report[sweep]] == values),
        ])  # fmt: skip
        yield ""


def page_tables(peers, models):
    for machine in dict.fromkeys(map(machine_of, peers)):
        yield f"### {machine}\n"
        for report in peers:
            if machine_of(report) == machine:
                yield from peer_section(report)
    for machine in dict.fromkeys(map(machine_of, models)):
        yield f"### One model, {machine}\n"
        own = [report for report in models if machine_of(report) == machine]
        yield from step_section(own)
        yield from sweep_section(own)


def newest(peers):
    """Returns {model: (report, rows)}. Prefers reports of machines without AMX, because llama.cpp is built without it; among
    these the ones with the most programs, and of those the latest. Reports without a date count as the oldest."""
    found = {}

    def weight(report):
        machine = report["machine"]
        return "amx" not in str(machine.get("features", "")), len(report["programs"]), machine.get("date", "")

    for report in sorted(peers, key=weight):
        for name in dict.fromkeys(row["model"] for row in report["results"]):
            found[name] = (report, [row for row in report["results"] if row["model"] == name])
    return dict(sorted(found.items(), key=lambda item: item[1][1][0]["model_bytes"]))


README_COLUMNS = ["model", "processor", "prefill", "vs llama.cpp", "vs ik_llama.cpp", "decode", "vs llama.cpp",
                  "vs ik_llama.cpp"]  # fmt: skip
SHAPES = {"8B": "Llama 3.1 8B shape", "1B": "Llama 3.2 1B shape"}  # bench/h200/models.py


def short_cells(row):
    """Tokens per second and the median ratio to each peer; "-" for what was not measured."""
    if row is None:
        return ["-"] * len(PROGRAMS)
    return [number(row["veery"]["median"]),
            *(f"{ratio(row, peer)['median']:.2f}" if peer in row else "-" for peer in PROGRAMS[1:])]  # fmt: skip


def readme_row(name, processor, prefill, decode):
    return [name, processor, *short_cells(prefill), *short_cells(decode)]


def readme_table(peers, gpus=()):
    """One row per model and processor: prefill and greedy decoding. docs/performance.md has the other tests.
    `gpus` are reports of bench/h200/compare.py."""
    lines = [README_COLUMNS]
    for name, (report, rows) in newest(peers).items():
        tests = {re.sub(r"\d+$", "", row["test"]): row for row in rows}
        lines.append(readme_row(title(name), f"{report['machine']['cpus']} CPU cores", tests.get("pp"), tests.get("tg")))
    for report in gpus:
        processor = re.search(r"[A-Z]\d+", report["gpu"]["name"])[0]
        for model in dict.fromkeys(row["model"] for row in report["results"]):
            tests = {re.sub(r" of \d+$", "", row["test"]): row for row in report["results"] if row["model"] == model}
            size, kind = model.split()
            name = f"{SHAPES[size]}, {kind.upper()}"
            lines.append(readme_row(name, processor, tests.get("prompt"), tests.get("steps")))
    return table(lines)


def replaced(text, name, lines):
    """Returns `text` with `lines` between the markers of `name`."""
    begin, end = f"<!-- tables: {name} -->", "<!-- end -->"
    if begin not in text or end not in text[text.index(begin) :]:
        sys.exit(f"tables: found no '{begin}' with '{end}' after it")
    at = text.index(begin) + len(begin)
    return text[:at] + "\n" + "\n".join(lines).strip() + "\n" + text[text.index(end, at) :]


def read(folder, pattern):
    reports = [json.loads(path.read_text()) for path in sorted(folder.glob(pattern))]
    return sorted(reports, key=lambda r: r.get("model_bytes") or r["results"][0]["model_bytes"])


def pages(repository):
    """Returns {path: expected contents}."""
    data = repository / "docs/performance"
    peers, models = read(data, "peers-*.json"), read(data, "model-*.json")
    page, readme = repository / "docs/performance.md", repository / "README.md"
    gpus = [json.loads(path.read_text()) for path in sorted((repository / "bench/h200").glob("compare-*.json"))[-1:]]
    text = replaced(page.read_text(), "performance", page_tables(peers, models))
    for name, lines in other_tables.sections(data).items():
        text = replaced(text, name, lines)
    return {
        page: text,
        readme: replaced(readme.read_text(), "speed", readme_table(peers, gpus)),
    }


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only fail if a page is not up to date")
    parser.add_argument("--repository", type=Path, default=REPOSITORY)
    options = parser.parse_args(arguments)
    stale = {path: text for path, text in pages(options.repository).items() if path.read_text() != text}
    for path, text in stale.items():
        if options.check:
            print(f"{path}: its tables are not those of docs/performance/*.json: run bench/performance/tables.py")
        else:
            path.write_text(text)
    return bool(options.check and stale)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
