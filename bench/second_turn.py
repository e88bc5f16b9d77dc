#!/usr/bin/env python3
"""Measures the latency of the second answer of a chat, whose prompt repeats the first turn.

    bench/second_turn.py MODEL [--tokens 2000] [--rounds 5] [--json OUT]

Each round starts a new chat with a text of about --tokens tokens. After the model's answer it sends a
short question with the whole conversation, in which a fixed short answer replaces the model's. Requests
go to `veery serve` as from any client. Prints the time to first token of both turns and of an unseen
prompt as long as the second turn, and the number of tokens that each evaluated. For this, models with
recurrent layers keep state snapshots at the ends of messages. Requires only Python 3.11; the model needs
a chat template.
"""

import argparse
import asyncio
import json
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY / "bench" / "peers"))

import machine as machines  # noqa: E402
from load import Server, ask, words  # noqa: E402
from pairs import paired_ratios, spread  # noqa: E402
from programs import Failure  # noqa: E402

QUESTION = "Which of these words is first?"
# Replaces the model's answer: the text of a model with random weights may be tokenised differently.
ANSWER = "There are many words about rivers, winter and music."


def user(text):
    return {"role": "user", "content": text}


def assistant(text):
    return {"role": "assistant", "content": text}


async def tokens_of(port, count):
    """Returns the number of tokens of a prompt of `count` words."""
    return (await ask(port, words(count, -1), 1, 0)).prompt


async def round_of(port, count, seed, answer_tokens):
    """Runs a chat of two turns, and an unrelated prompt as long as the second turn."""
    text = user(words(count, 2 * seed))
    first = await ask(port, [text], answer_tokens, seed)
    second = await ask(port, [text, assistant(ANSWER), user(QUESTION)], 4, seed)
    other = user(words(count, 2 * seed + 1))
    fresh = await ask(port, [other, assistant(ANSWER), user(QUESTION)], 4, seed)
    return {
        "first_turn_ms": first.first_ms(),
        "second_turn_ms": second.first_ms(),
        "fresh_ms": fresh.first_ms(),
        "second_turn_tokens": second.prompt,
        "second_turn_read": second.prompt - second.cached,
        "fresh_tokens": fresh.prompt,
        "fresh_read": fresh.prompt - fresh.cached,
    }


async def measure(server, options):
    port = server.port
    count = max(1, round(100 * options.tokens / await tokens_of(port, 100)))
    found = []
    for index in range(options.rounds):
        found.append(await round_of(port, count, index + 1, options.answer))
        print(f"round {index + 1} of {options.rounds}: {found[-1]}", file=sys.stderr)
    return {name: [one[name] for one in found] for name in found[0]}


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--tokens", type=int, default=2000, help="tokens of the first message [2000]")
    parser.add_argument("--answer", type=int, default=64, help="tokens of the first answer [64]")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("-t", "--threads", type=int, default=2)
    parser.add_argument("--veery", type=Path, default=REPOSITORY / "build/release/bin/veery")
    parser.add_argument("--json", type=Path, help="write all values to this file")
    return parser.parse_args()


def main():
    options = parse()
    command = [options.veery, "serve", options.model, "-c", 2 * options.tokens + 1024, "-t", options.threads]
    before = machines.observe(3)
    with Server("veery", command) as server:
        found = asyncio.run(measure(server, options))
    ratio = spread(paired_ratios(found["fresh_ms"], found["second_turn_ms"]))
    for name, values in found.items():
        print(f"{name:20}{spread(values)['median']:10.1f}")
    print(f"{'fresh / second turn':20}{ratio['median']:10.1f} ({ratio['q1']:.1f} - {ratio['q3']:.1f})")
    if options.json:
        document = {"machine": machines.describe(), "tree": machines.describe_tree(REPOSITORY), "before": before,
                    "model": options.model.name, "threads": options.threads, "rounds": options.rounds,
                    "values": found, "ratio": ratio}  # fmt: skip
        options.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    try:
        main()
    except Failure as error:
        sys.exit(f"second_turn: {error}")
