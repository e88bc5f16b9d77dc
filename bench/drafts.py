#!/usr/bin/env python3
"""Measures prompt-lookup decoding on answers that quote their prompt: small edits of code.

    bench/drafts.py MODEL [--rounds 5] [--tokens 160] [--json OUT]

Each edit is a piece of a program or a settings file, and the request to print it with one change.
`veery run` answers it greedily with drafts (the default) and without (`--draft-max 0`), alternately;
the script fails unless both texts are equal. Prints the ratio of the two decode speeds for each edit
and overall. Requires only Python 3.11; the model needs a chat template.
"""

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY / "bench" / "peers"))

import machine as machines  # noqa: E402
from pairs import paired_ratios, spread  # noqa: E402
from programs import Failure  # noqa: E402

EDITS = {
    "rename a variable": (
        "Rename the variable `total` to `result`.",
        "python",
        """def weighted_mean(values, weights):
    if len(values) != len(weights):
        raise ValueError("values and weights differ in length")
    total = 0.0
    weight_sum = 0.0
    for value, weight in zip(values, weights):
        total += value * weight
        weight_sum += weight
    if weight_sum == 0:
        return 0.0
    return total / weight_sum
""",
    ),
    "add a check": (
        "Raise a ValueError where `path` is empty.",
        "python",
        """def read_table(path, separator=","):
    rows = []
    with open(path, encoding="utf-8") as file:
        header = file.readline().rstrip("\\n").split(separator)
        for line in file:
            cells = line.rstrip("\\n").split(separator)
            row = {}
            for name, cell in zip(header, cells):
                row[name] = cell
            rows.append(row)
    return header, rows
""",
    ),
    "change a constant": (
        "Change the timeout to 30 seconds.",
        "python",
        """class Client:
    def __init__(self, host, port):
        self.host = host
        self.port = port
        self.timeout = 10
        self.socket = None

    def connect(self):
        self.socket = socket.create_connection((self.host, self.port), self.timeout)
        self.socket.settimeout(self.timeout)

    def close(self):
        if self.socket is not None:
            self.socket.close()
            self.socket = None
""",
    ),
    "add a docstring": (
        "Add a docstring to the function.",
        "python",
        """def merge_sorted(left, right):
    merged = []
    i = j = 0
    while i < len(left) and j < len(right):
        if left[i] <= right[j]:
            merged.append(left[i])
            i += 1
        else:
            merged.append(right[j])
            j += 1
    merged.extend(left[i:])
    merged.extend(right[j:])
    return merged
""",
    ),
    "fix a typo": (
        "Fix the typo `recieved` in the message.",
        "c",
        """#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BUFFER_SIZE 4096

static int read_all(int fd, char *buffer, size_t size) {
    size_t used = 0;
    while (used < size) {
        ssize_t count = read(fd, buffer + used, size - used);
        if (count < 0)
            return -1;
        if (count == 0)
            break;
        used += (size_t)count;
    }
    return (int)used;
}

int handle_client(int client) {
    char buffer[BUFFER_SIZE];
    int count = read_all(client, buffer, sizeof(buffer));
    if (count < 0) {
        perror("read");
        close(client);
        return -1;
    }
    printf("recieved %d bytes\\n", count);
    close(client);
    return count;
}
""",
    ),
    "change a setting": (
        "Set `retries` to 5.",
        "json",
        """{
  "name": "mirror",
  "version": "2.4.1",
  "sources": [
    {"url": "https://one.example.org/files", "weight": 10},
    {"url": "https://two.example.org/files", "weight": 5}
  ],
  "download": {
    "directory": "/var/cache/mirror",
    "parallel": 4,
    "retries": 3,
    "timeout_seconds": 20
  },
  "log": {"level": "info", "file": "/var/log/mirror.log"}
}
""",
    ),
}


def prompt(request, language, code):
    return f"{request} Print the whole program and nothing else.\n\n```{language}\n{code}```"


def answer(options, text, *flags):
    command = [options.veery, "run", options.model, "-p", text, "-n", options.tokens, "--temp", 0, "--json",
               "-t", options.threads, *flags]  # fmt: skip
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise Failure(f"veery run: {done.stderr.strip()[-400:]}")
    return json.loads(done.stdout)


def measure(options):
    """Returns {edit: {"drafts": [tokens/s per round], "plain": [...], "accepted": number of accepted draft tokens}}."""
    found = {}
    for index in range(options.rounds):
        for name, (request, language, code) in EDITS.items():
            text = prompt(request, language, code)
            order = ((), ("--draft-max", 0)) if index % 2 == 0 else (("--draft-max", 0), ())
            answers = {bool(flags): answer(options, text, *flags) for flags in order}
            drafted, plain = answers[False], answers[True]
            if drafted["text"] != plain["text"]:
                raise Failure(f"{name}: the text with drafts differs from the text without")
            values = found.setdefault(name, {"drafts": [], "plain": []})
            values["drafts"].append(drafted["timings"]["decode_tokens_per_second"])
            values["plain"].append(plain["timings"]["decode_tokens_per_second"])
            values["tokens"] = drafted["timings"]["decode_tokens"]
            values["accepted"] = drafted["timings"]["accepted_tokens"]
            values["drafted"] = drafted["timings"]["drafted_tokens"]
            print(f"round {index + 1} of {options.rounds}: {name}", file=sys.stderr)
    return found


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--tokens", type=int, default=160, help="maximum length of an answer [160]")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("-t", "--threads", type=int, default=2)
    parser.add_argument("--veery", type=Path, default=REPOSITORY / "build/release/bin/veery")
    parser.add_argument("--json", type=Path, help="write all values to this file")
    return parser.parse_args()


def main():
    options = parse()
    before = machines.observe(3)
    found = measure(options)
    print(f"{'edit':20}{'drafts':>9}{'plain':>9}{'ratio':>7}   accepted of drafted, tokens")
    ratios = []
    for name, values in found.items():
        ratio = spread(paired_ratios(values["drafts"], values["plain"]))
        ratios.append(ratio["median"])
        print(f"{name:20}{statistics.median(values['drafts']):9.1f}{statistics.median(values['plain']):9.1f}"
              f"{ratio['median']:7.2f}   {values['accepted']} of {values['drafted']}, {values['tokens']}")  # fmt: skip
    print(f"{'geometric mean':38}{statistics.geometric_mean(ratios):7.2f}")
    if options.json:
        document = {"machine": machines.describe(), "tree": machines.describe_tree(REPOSITORY), "before": before,
                    "model": options.model.name, "threads": options.threads, "rounds": options.rounds,
                    "edits": found}  # fmt: skip
        options.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    try:
        main()
    except Failure as error:
        sys.exit(f"drafts: {error}")
