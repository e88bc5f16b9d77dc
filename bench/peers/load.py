#!/usr/bin/env python3
"""Measures `veery serve` and llama-server under many streams at once, on the same GGUF file.

    bench/peers/build_llama_cpp.sh
    bench/peers/load.py MODEL.gguf [--streams 8 --streams 64] [--seconds 30] [--rounds 3] [--json OUT] [--svg OUT]

Each server runs alone, with one slot per stream, on a free loopback port. The script sends streaming
OpenAI chat completions and measures, alternating between the servers:

  tokens/s        over all streams; each sends its next request as soon as its answer has ended
  first token     milliseconds from sending a request to its first text (median, 95th percentile)
  between tokens  milliseconds between two texts of one answer (median, 95th percentile)
  long prompt     the longest pause between two tokens of any running stream during the prefill of about 2,000
                  tokens, and (veery) the longest step of that time according to /metrics
  prefix          first token of such a prompt, and of the same text with another question
  idle            memory added by idle connections, and the speed of streams with them

README.md explains what is compared and why it is fair. Requires only Python 3.11.
"""

import argparse
import asyncio
import json
import random
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import machine as machines
import ratio_plot
from pairs import paired_ratios, spread
from programs import Failure

REPOSITORY = Path(__file__).resolve().parents[2]
WORDS = """river winter letter garden music engine harbour copper silver window teacher market forest bridge
    island captain paper thunder village mountain lantern orchard meadow pepper granite valley compass violin
    anchor blanket candle diamond feather glacier hammer jungle kettle ladder mirror needle ocean pocket""".split()

LONG = 1950  # words of a long prompt: about 2,000 tokens with the template


@dataclass
class Answer:
    """A streamed answer: the times of its request and of each text, and its token counts."""

    asked: float
    times: list = field(default_factory=list)
    tokens: int = 0
    prompt: int = 0
    cached: int = 0

    def first_ms(self):
        return 1000 * (self.times[0] - self.asked)


class Server:
    """A server of either kind, as a context manager."""

    def __init__(self, name, command):
        self.name, self.command = name, [*map(str, command)]

    def __enter__(self):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.log = tempfile.TemporaryFile()
        command = [*self.command, "--port", str(self.port)]
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log, stdin=subprocess.DEVNULL)
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                self.log.seek(0)
                raise Failure(f"{self.name} ended: {self.log.read()[-400:].decode(errors='replace')}")
            if asyncio.run(healthy(self.port)):
                return self
            time.sleep(0.2)
        raise Failure(f"{self.name}: /health was not 200 within 120 s")

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()

    def resident_mib(self):
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
        return 0.0


async def healthy(port):
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.write(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    status = await reader.readline()
    writer.close()
    return b" 200 " in status


def request(messages, tokens, seed, scores=False):
    """Returns the request of a streamed chat completion of `tokens` tokens, sampled with `seed`. With `scores` it asks for
    token probabilities, so that there is an event for each token, even if its text is withheld: part of a character, white
    space that may precede a marker, a marker itself."""
    body = json.dumps({
        "messages": messages, "max_tokens": tokens, "stream": True,
        "stream_options": {"include_usage": True}, "ignore_eos": True,
        "temperature": 0.8, "top_k": 40, "top_p": 0.95, "min_p": 0.05, "seed": seed, "logprobs": scores,
    }).encode()  # fmt: skip
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body


def take(answer, event):
    """Adds one event of the stream to `answer`."""
    choices = event.get("choices") or [{}]
    delta = choices[0].get("delta", {})
    if delta.get("content") or delta.get("reasoning_content") or choices[0].get("logprobs"):
        answer.times.append(time.perf_counter())
    usage = event.get("usage")
    if usage:
        answer.tokens, answer.prompt = usage["completion_tokens"], usage["prompt_tokens"]
        answer.cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0)


async def ask(port, prompt, tokens, seed, give_up=None, scores=False):
    """Returns the answer to a prompt or a list of messages, or what arrived until the time `give_up`."""
    messages = prompt if isinstance(prompt, list) else [{"role": "user", "content": prompt}]
    answer = Answer(time.perf_counter())
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
    try:
        writer.write(request(messages, tokens, seed, scores))
        status = await reader.readline()
        if b" 200 " not in status:
            raise Failure(f"status line {status!r}: {(await reader.read(400))!r}")
        while line := await reader.readline():
            if line.startswith(b"data: {"):
                take(answer, json.loads(line[6:]))
            if line.startswith(b"data: [DONE]") or (give_up and time.perf_counter() > give_up):
                break
    finally:
        writer.close()
    answer.tokens = answer.tokens or len(answer.times)
    return answer


def words(count, seed):
    chosen = random.Random(seed)
    return " ".join(chosen.choice(WORDS) for _ in range(count))


def question(number):
    return f"Write a long story. It has these words: {words(24, number)}."


async def stream(port, first, end, tokens, answers, step):
    number = first
    while time.perf_counter() < end:
        answers.append(await ask(port, question(number), tokens, number, end))
        number += step


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")


async def throughput(server, streams, seconds, tokens):
    await asyncio.gather(*(ask(server.port, question(-1 - i), 4, i) for i in range(min(streams, 8))))  # warm-up
    start = time.perf_counter()
    answers = []
    await asyncio.gather(*(stream(server.port, i, start + seconds, tokens, answers, streams) for i in range(streams)))
    took = time.perf_counter() - start
    firsts = [a.first_ms() for a in answers if a.times]
    gaps = [1000 * (b - a) for one in answers for a, b in zip(one.times, one.times[1:])]
    return {
        "tokens/s": sum(a.tokens for a in answers) / took,
        "first token, median ms": statistics.median(firsts),
        "first token, p95 ms": percentile(firsts, 0.95),
        "between tokens, median ms": statistics.median(gaps),
        "between tokens, p95 ms": percentile(gaps, 0.95),
        "resident MiB": server.resident_mib(),
    }


async def counters(reader, writer):
    """Returns (steps, their seconds) of veery so far; nothing for other servers."""
    writer.write(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    length = re.search(r"content-length: (\d+)", head, re.IGNORECASE)
    text = (await reader.readexactly(int(length[1]))).decode() if length else ""
    found = [re.search(rf"^veery_{name}{{.*}} (\S+)$", text, re.MULTILINE) for name in ("n_decode_total", "busy_seconds_total")]
    return tuple(float(one[1]) for one in found) if all(found) else None


async def longest_step(port):
    """Returns the longest step in milliseconds until cancelled, by polling the counters more often than long steps end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    longest = float("nan")
    try:
        before = await counters(reader, writer)
        while before:
            await asyncio.sleep(0.01)
            now = await counters(reader, writer)
            if now[0] > before[0]:
                longest = max(1000 * (now[1] - before[1]) / (now[0] - before[0]), longest)
            before = now
    except asyncio.CancelledError:
        pass
    finally:
        writer.close()
    return longest


async def long_prompt(server, streams):
    """Measures the longest pause between two tokens of running streams during the chunked prefill of another client's long
    prompt. Each stream should get a token in each step, so no pause should be much longer than the longest step."""
    answers = [asyncio.create_task(ask(server.port, question(1000 + i), 400, i, scores=True)) for i in range(streams - 1)]
    await asyncio.sleep(1.5)
    begun = time.perf_counter()
    steps = asyncio.create_task(longest_step(server.port))
    late = await ask(server.port, words(LONG, 7) + "\nWhat are these words?", 8, 1)
    ended = time.perf_counter()
    steps.cancel()
    step = await steps
    pauses = [1000 * (b - a) for one in await asyncio.gather(*answers) for a, b in zip(one.times, one.times[1:])
              if a < ended and b > begun]  # fmt: skip
    longest = max(pauses, default=float("nan"))
    of_steps = {} if step != step else {"long prompt: the longest step, ms": step, "long prompt: pause / step": longest / step}
    return {"long prompt: longest pause of any stream, ms": longest} | of_steps | {
        "long prompt: its first token, ms": late.first_ms(),
        "long prompt: its tokens": late.prompt,
    }


async def prefix(server):
    text = words(LONG, 11)
    fresh = await ask(server.port, text + "\nWhich word is first?", 4, 1)
    again = await ask(server.port, text + "\nWhich word is last?", 4, 1)
    return {
        "prefix: first token, fresh, ms": fresh.first_ms(),
        "prefix: first token, seen before, ms": again.first_ms(),
        "prefix: times faster": fresh.first_ms() / again.first_ms(),
        "prefix: tokens reused": again.cached,
    }


async def idle_connections(server, count, streams, seconds, tokens):
    """Measures the memory of `count` idle connections, and throughput with them."""
    before = server.resident_mib()
    opened = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(count)]
    await healthy(server.port)  # all connections are accepted
    added = server.resident_mib() - before
    found = await throughput(server, streams, seconds, tokens)
    for _, writer in opened:
        writer.close()
    kept = ("tokens/s", "between tokens, p95 ms")
    return {f"idle {count}: {name}": found[name] for name in kept} | {f"idle {count}: MiB that they add": added}


def commands(options, streams):
    context = options.context
    veery = [options.veery, "serve", options.model, "-np", streams, "-c", context, "-t", options.threads,
             *options.veery_flags.split()]  # fmt: skip
    llama = [options.llama / "llama-server", "-m", options.model, "-np", streams, "-c", context * streams,
             "-t", options.threads, "-tb", options.threads, "-ngl", 0, "--host", "127.0.0.1"]  # fmt: skip
    return [("veery", veery)] if options.only_veery else [("veery", veery), ("llama.cpp", llama)]


def measure(options, streams):
    """Returns {server: {measure: [value per round]}}."""
    found = {}
    for index in range(options.rounds):
        pair = commands(options, streams)
        for name, command in pair if index % 2 == 0 else pair[::-1]:
            print(f"{streams} streams, round {index + 1} of {options.rounds}: {name}", file=sys.stderr)
            with Server(name, command) as server:
                values = asyncio.run(throughput(server, streams, options.seconds, options.tokens))
                values |= asyncio.run(long_prompt(server, min(streams, 8)))
                values |= asyncio.run(prefix(server))
                if options.idle:
                    values |= asyncio.run(idle_connections(server, options.idle, streams, options.seconds, options.tokens))
            for what, value in values.items():
                found.setdefault(name, {}).setdefault(what, []).append(value)
    return found


def print_table(streams, found):
    print(f"\n{streams} streams" + "".join(f"{name:>14}" for name in found) + f"{'ratio':>8}")
    for what in found["veery"]:
        middle = [statistics.median(values[what]) for values in found.values() if what in values]
        ratio = f"{middle[0] / middle[1]:8.2f}" if len(middle) == 2 and middle[1] else ""
        print(f"  {what:42}" + "".join(f"{value:14.1f}" for value in middle) + ratio)


def rows(results):
    """Returns rows for ratio_plot: the speed-related numbers that both servers have."""
    drawn = []
    for streams, found in results.items():
        for what, ours in found["veery"].items():
            theirs = found.get("llama.cpp", {}).get(what)
            if not theirs or not ("tokens/s" in what or what.endswith("ms") or "MiB" in what):
                continue
            ratio = statistics.median(paired_ratios(ours, theirs))
            unit = "tok/s" if "tokens/s" in what else what.split()[-1]
            drawn.append({"model": f"{streams} streams", "test": what.removesuffix(" ms").removesuffix(" MiB").removesuffix(",").replace("longest ", ""),
                          "unit": unit, "higher_is_better": unit == "tok/s", "veery": spread(ours),
                          "llama.cpp": spread(theirs), "ratios": {"llama.cpp": ratio}})  # fmt: skip
    return drawn


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--streams", type=int, action="append", help="streams and slots; repeatable [8, 64]")
    parser.add_argument("--seconds", type=float, default=30, help="duration of each throughput measurement [30]")
    parser.add_argument("--tokens", type=int, default=128, help="tokens per answer [128]")
    parser.add_argument("--context", type=int, default=4096, help="context per slot [4096]")
    parser.add_argument("--idle", type=int, default=0, help="idle connections for a second measurement [0]")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("-t", "--threads", type=int, default=2)
    parser.add_argument("--veery", type=Path, default=REPOSITORY / "build/release/bin/veery")
    parser.add_argument("--llama", type=Path, default=Path.home() / ".cache/veery/peers/llama.cpp/bin", help="folder of llama-server")
    parser.add_argument("--veery-flags", default="", help='additional flags for veery, such as "--device cuda"')
    parser.add_argument("--only-veery", action="store_true", help="measure only veery")
    parser.add_argument("--json", type=Path, help="write all values to this file")
    parser.add_argument("--svg", type=Path, help="draw the ratios into this file")
    options = parser.parse_args()
    for program in [options.veery, *([] if options.only_veery else [options.llama / "llama-server"])]:
        if not program.is_file():
            parser.error(f"{program}: no such program")
    return options


def main():
    options = parse()
    results = {}
    before = machines.observe(3)
    for streams in options.streams or [8, 64]:
        results[streams] = measure(options, streams)
        print_table(streams, results[streams])
    if options.json:
        document = {"machine": machines.describe(), "tree": machines.describe_tree(REPOSITORY), "before": before,
                    "model": options.model.name, "threads": options.threads, "tokens": options.tokens,
                    "seconds": options.seconds, "context": options.context, "streams": results}  # fmt: skip
        options.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    if options.svg:
        report = {"machine": machines.describe(), "settings": vars(options), "results": rows(results)}
        options.svg.write_text(ratio_plot.draw(report), encoding="utf-8")


if __name__ == "__main__":
    try:
        main()
    except Failure as error:
        sys.exit(f"load: {error}")
