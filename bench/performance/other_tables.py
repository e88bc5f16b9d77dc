"""The remaining tables of docs/performance.md: servers under load, label scoring, prompt-lookup drafts."""

import json
import statistics

from cells import commit_text, machine_of, number, ratio_text, table, title
from pairs import paired_ratios, spread


def load_cells(values):
    """Yields tables of medians over rounds, of rows that both programs or only veery have."""
    return number(statistics.median(values)) if values else "-"


def servers(report):
    counts = list(report["streams"])
    head = [""]
    for count in counts:
        head += [f"{count} streams: {name}" for name in report["streams"][count]]
    rows = [head]
    whats = dict.fromkeys(what for count in counts for found in report["streams"][count].values() for what in found)
    for what in whats:
        cells = [found.get(what) for count in counts for found in report["streams"][count].values()]
        rows.append([what, *map(load_cells, cells)])
    yield from table(rows)
    rounds = len(report["streams"][counts[0]]["veery"]["tokens/s"])
    yield f"""
{title(report["model"])}, {report["threads"]} threads, as many slots as streams, answers of {report["tokens"]} tokens, {report["seconds"]:.0f} s of streams a round, medians of
{rounds} round{"s" if rounds > 1 else ""}; {machine_of(report)}; commit {commit_text(report)}; load average {report["before"]["load_average"]:.2f} before."""


def labels(report):
    rows = [["", "texts/s", "veery to it"]]
    for name, values in report["texts_per_second"].items():
        found = report["ratios"].get(name)
        rows.append([name, number(statistics.median(values)), ratio_text(found) if found else ""])
    yield from table(rows)
    rounds = len(next(iter(report["texts_per_second"].values())))
    yield f"""
{title(report["model"])}, {report["texts"]} texts ({report["peer_texts"]} for whole prompts in llama.cpp), {len(report["labels"])} labels, {report["computed_tokens"]:.1f} tokens of a prompt computed and
{report["known_tokens"]:.1f} common to all; {rounds} round{"s" if rounds > 1 else ""}, {report["threads"]} threads; {machine_of(report)}; commit {commit_text(report)}."""


def drafts(report):
    rows = [["edit", "with drafts, tok/s", "without", "ratio", "accepted of drafted"]]
    ratios = []
    for name, values in report["edits"].items():
        found = spread(paired_ratios(values["drafts"], values["plain"]))
        ratios.append(found["median"])
        rows.append([name, number(statistics.median(values["drafts"])), number(statistics.median(values["plain"])),
                     ratio_text(found), f"{values['accepted']} of {values['drafted']}"])  # fmt: skip
    yield from table(rows)
    yield f"""
Geometric mean of the ratios {statistics.geometric_mean(ratios):.2f}; {title(report["model"])}, greedy, {report["rounds"]} rounds in turns, {report["threads"]} threads, equal texts; {machine_of(report)}; commit {commit_text(report)}."""


SECTIONS = {"servers": ("load", servers), "labels": ("labels", labels), "drafts": ("drafts", drafts)}


def sections(folder):
    """Returns {marker: lines}, with the files of each kind in sequence."""
    found = {}
    for marker, (kind, lines_of) in SECTIONS.items():
        lines = []
        for path in sorted(folder.glob(f"{kind}-*.json")):
            lines += [*lines_of(json.loads(path.read_text())), ""]
        found[marker] = lines or ["Nothing is recorded yet."]
    return found
