#!/usr/bin/env python3
"""Loads `veery serve` for a long time with clients of every kind, and checks its behaviour.

    bench/soak.py MODEL [--minutes 20] [--streams 16] [--idle 200] [--program veery] [--json OUT] [-- FLAGS OF SERVE]

Concurrent clients, all on loopback:

  streams     chats, greedy and sampled with a seed; each text must equal the one from an idle server
  vanishing   clients that reset the connection during an answer
  slow        clients that read a few bytes at a time and then disconnect
  half        requests whose header or body never ends
  wrong       bad JSON, invalid UTF-8, wrong types, numbers out of range, hostile schemas: each must get a 4xx status
  held        answers constrained to a JSON schema; each must parse
  schemas     distinct random schemas at temperature 2: complete answers must validate (with jsonschema, if installed)
  others      tokens, log-probabilities, metrics, health
  idle        connections without requests

Prints a line every ten seconds: seconds, resident MiB, running and waiting answers, finished answers. The exit status is 0 if
no check failed, no answer is still running at the end, and memory in the last third is at most 5 % and 16 MiB above that of the
middle third. Requires Python 3.11; jsonschema is optional.
"""

import argparse
import asyncio
import json
import random
import re
import resource
import socket
import statistics
import struct
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

try:
    import jsonschema
except ImportError:
    jsonschema = None

REPOSITORY = Path(__file__).resolve().parents[1]
SCHEMA = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer", "minimum": 0, "maximum": 99}},
          "required": ["name", "age"], "additionalProperties": False}  # fmt: skip


def held(schema):
    return {"messages": [{"role": "user", "content": "Describe a person."}], "max_tokens": 60, "temperature": 0,
            "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}}  # fmt: skip


def wrong_bodies():
    """Returns request bodies that must be rejected."""
    chat = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4}
    yield b"{"
    yield b"[" * 100_000
    yield b'{"messages": [{"role": "user", "content": "\xff\xfe"}]}'
    yield b'{"messages": [{"role": "user", "content": "a"}], "temperature": NaN}'
    for name, value in [
        ("messages", "text"), ("messages", []), ("messages", [1]), ("temperature", -1), ("temperature", "hot"), ("temperature", 1e300),
        ("top_p", -0.5), ("max_tokens", -3), ("max_tokens", 1.5), ("n", 1_000_000), ("seed", "x"), ("stop", 5), ("logit_bias", {"1": "much"}),
        ("response_format", {"type": "nonsense"}), ("tools", 7),
    ]:  # fmt: skip
        yield json.dumps({**chat, name: value}).encode()
    for schema in [{"$ref": "#/definitions/missing"}, {"type": "nonsense"}, {"not": {}}]:
        yield json.dumps(held(schema)).encode()
    deep = '{"type": "object", "properties": {"a": ' * 3000 + "true" + "}}" * 3000
    yield json.dumps(held(None)).replace('"schema": null', f'"schema": {deep}').encode()


def random_schema(chosen, depth=3):
    """Returns a schema of a few levels with interacting keywords; some have no valid value."""
    kinds = ["string", "pattern", "integer", "number", "boolean", "enum"] + ["array", "object", "object", "anyOf", "allOf"] * (depth > 0)
    kind, least = chosen.choice(kinds), chosen.randrange(4)
    most = least + chosen.randrange(6)
    if kind == "string":
        return {"type": "string", "minLength": least, "maxLength": most}
    if kind == "pattern":
        return {"type": "string", "pattern": chosen.choice(["^[a-z]{2,6}$", "^\\d+-\\d+$", "^(ab|cd)*$", "[aeiou]"]), "maxLength": 8 + most}
    if kind in ("integer", "number"):
        return {"type": kind, "minimum": least * chosen.choice([-7, 1]), "maximum": most * 11}
    if kind == "enum":
        return {"enum": chosen.sample(["red", "", 1, 2.5, None, True, [1], {"a": 1}, "\u00e9\n"], 1 + least)}
    if kind == "array":
        return {"type": "array", "items": random_schema(chosen, depth - 1), "minItems": least // 2, "maxItems": most}
    if kind in ("anyOf", "allOf"):
        return {kind: [random_schema(chosen, depth - 1) for _ in range(2)]}
    if kind == "object":
        names = [f"{chosen.choice('abcd')}{i}" for i in range(1 + most)]
        return {"type": "object", "properties": {name: random_schema(chosen, depth - 1) for name in names}, "required": names[:least],
                "additionalProperties": chosen.choice([False, {"type": "boolean"}]), "maxProperties": 8}  # fmt: skip
    return {"type": kind}


def message(path, body, method="POST"):
    """Returns a request that closes its connection."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n"
    return f"{head}Connection: close\r\n\r\n".encode() + data


def joined(chunks):
    """Returns the body of a chunked response."""
    parts = []
    while (end := chunks.find(b"\r\n")) > 0 and (size := int(chunks[:end], 16)) > 0:
        parts.append(chunks[end + 2 : end + 2 + size])
        chunks = chunks[end + 4 + size :]
    return b"".join(parts)


def question(number):
    """Returns one of eight chats; every other one is sampled with a seed."""
    topics = ["rivers", "bread", "clocks", "the moon", "glass", "trains", "owls", "salt"]
    body = {"messages": [{"role": "user", "content": f"Tell me about {topics[number]}."}], "max_tokens": 40, "stream": True}
    return {**body, "temperature": 0} if number % 2 else {**body, "temperature": 1.0, "seed": number}


class Soak:
    """The clients of one server and their results."""

    def __init__(self, port, process, end):
        self.port, self.process, self.end = port, process, end
        self.counts, self.faults, self.rows, self.texts = Counter(), [], [], {}

    def going(self):
        return time.monotonic() < self.end and self.process.poll() is None

    def fault(self, text):
        self.faults.append(text)
        if len(self.faults) <= 20:
            print(f"fault: {text}", file=sys.stderr, flush=True)

    async def open(self):
        return await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 20)

    async def reply(self, path, body, method="POST"):
        """Returns status and body of a request."""
        reader, writer = await self.open()
        try:
            writer.write(message(path, body, method))
            data = await asyncio.wait_for(reader.read(-1), 300)
        finally:
            writer.close()
        head, _, text = data.partition(b"\r\n\r\n")
        found = re.match(rb"HTTP/1.1 (\d+)", head)
        if b"chunked" in head.lower():
            text = joined(text)
        return int(found[1]) if found else 0, text

    async def text(self, number):
        """Returns the text of a streamed answer."""
        status, body = await self.reply("/v1/chat/completions", question(number))
        if status != 200 or b"data: [DONE]" not in body:
            raise ValueError(f"a stream ended with status {status}: {body[-200:]!r}")
        events = [json.loads(line[6:]) for line in body.split(b"\n") if line.startswith(b"data: {")]
        return "".join(c["delta"].get("content") or "" for e in events for c in e["choices"])

    async def alone(self):
        """Records the texts of an otherwise idle server."""
        while self.process.poll() is None and (await self.reply("/health", b"", "GET"))[0] != 200:
            await asyncio.sleep(0.1)
        for number in range(8):
            self.texts[number] = await self.text(number)

    async def streams(self, chosen):
        number = chosen.randrange(8)
        if await self.text(number) != self.texts[number]:
            self.fault(f"another text of question {number} under load")

    async def vanishing(self, chosen):
        reader, writer = await self.open()
        writer.write(message("/v1/chat/completions", {**question(chosen.randrange(8)), "max_tokens": 400}))
        for _ in range(chosen.randrange(1, 30)):
            if not await reader.readline():
                break
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()

    async def slow(self, chosen):
        reader, writer = await self.open()
        writer.write(message("/v1/chat/completions", {**question(chosen.randrange(8)), "max_tokens": 300}))
        for _ in range(chosen.randrange(5, 60)):
            if not await reader.read(16):
                break
            await asyncio.sleep(0.05)
        writer.close()

    async def half(self, chosen):
        _, writer = await self.open()
        whole = message("/v1/chat/completions", question(0))
        writer.write(whole[: chosen.randrange(1, len(whole) - 1)])
        await asyncio.sleep(chosen.uniform(0.1, 3))
        writer.close()

    async def wrong(self, chosen):
        body = chosen.choice(self.wrong_bodies)
        status, _ = await self.reply("/v1/chat/completions", body)
        if not 400 <= status < 500:
            self.fault(f"status {status} for {body[:120]!r}")

    async def held(self, _):
        status, body = await self.reply("/v1/chat/completions", held(SCHEMA))
        try:
            answer = json.loads(json.loads(body)["choices"][0]["message"]["content"])
            assert set(answer) == {"name", "age"} and status == 200
        except (ValueError, KeyError, AssertionError) as error:
            self.fault(f"an answer held to a schema: status {status}, {body[:300]!r} ({error!r})")

    async def schemas(self, chosen):
        schema = random_schema(chosen)
        status, body = await self.reply("/v1/chat/completions", {**held(schema), "temperature": 2, "max_tokens": 200})
        if status == 400 and b"schema" in body:
            self.counts["schemas refused"] += 1
            return
        try:
            choice = json.loads(body)["choices"][0]
            if choice["finish_reason"] == "length":
                self.counts["schemas cut"] += 1
                return
            value = json.loads(choice["message"]["content"])
            if jsonschema:
                jsonschema.Draft202012Validator(schema).validate(value)
        except Exception as error:  # including errors of jsonschema
            self.fault(f"schema {json.dumps(schema)}: status {status}, {body[:300]!r} ({str(error)[:200]!r})")

    async def others(self, chosen):
        for path, body, method in [
            ("/tokenize", {"content": "x y " * chosen.randrange(1, 200)}, "POST"), ("/metrics", b"", "GET"), ("/health", b"", "GET"),
            ("/v1/completions", {"prompt": "One, two,", "max_tokens": 8, "logprobs": 3}, "POST"), ("/v1/models", b"", "GET"),
        ]:  # fmt: skip
            status, text = await self.reply(path, body, method)
            if status != 200:
                self.fault(f"{path}: status {status}, {text[:200]!r}")

    async def client(self, kind, seed, pause):
        chosen = random.Random(f"{kind}{seed}")
        while self.going():
            try:
                await getattr(self, kind)(chosen)
                self.counts[kind] += 1
            except (OSError, ValueError, asyncio.TimeoutError, asyncio.LimitOverrunError) as error:
                if self.process.poll() is None and kind not in ("vanishing", "slow", "half"):
                    self.fault(f"{kind}: {error!r}")
            await asyncio.sleep(pause * chosen.random())

    async def metric(self, name):
        text = (await self.reply("/metrics", b"", "GET"))[1].decode()
        return sum(float(line.split()[-1]) for line in text.splitlines() if line.startswith(f"veery_{name}{{"))

    def resident(self):
        found = re.search(r"VmRSS:\s*(\d+)", Path(f"/proc/{self.process.pid}/status").read_text())
        return int(found[1]) / 1024 if found else 0.0

    async def watch(self):
        start = time.monotonic()
        while self.going():
            row = [time.monotonic() - start, self.resident(), await self.metric("num_requests_running"), await self.metric("num_requests_waiting")]
            self.rows.append(row)
            print(f"{row[0]:7.0f} s {row[1]:8.1f} MiB {row[2]:4.0f} running {row[3]:4.0f} waiting  "
                  + ", ".join(f"{count} {kind}" for kind, count in sorted(self.counts.items())), flush=True)  # fmt: skip
            await asyncio.sleep(min(10, max(0.1, self.end - time.monotonic())))

    async def run(self, streams, idle):
        self.wrong_bodies = list(wrong_bodies())
        await self.alone()
        sockets = [await self.open() for _ in range(idle)]
        kinds = [("vanishing", 3, 1), ("slow", 2, 0.5), ("half", 4, 1), ("wrong", 2, 0.3), ("held", 2, 0.5), ("schemas", 4, 0), ("others", 2, 0.5)]
        clients = [self.client("streams", i, 0) for i in range(streams)]
        clients += [self.client(kind, i, pause) for kind, count, pause in kinds for i in range(count)]
        await asyncio.gather(self.watch(), *clients)
        for _, writer in sockets:
            writer.close()
        await self.settled()

    async def settled(self):
        """Checks that no answer is still running, and that the server gives the same answers as before."""
        if self.process.poll() is not None:
            return self.fault(f"the server ended with status {self.process.returncode}")
        for _ in range(100):
            if await self.metric("num_requests_running") == 0 and await self.metric("num_requests_waiting") == 0:
                break
            await asyncio.sleep(0.2)
        else:
            self.fault("answers are still in the making 20 s after the last client left")
        if await self.text(1) != self.texts[1]:
            self.fault("another text than at the beginning")
        size = len(self.rows) // 3
        if size > 0:
            middle, last = (statistics.median(row[1] for row in rows) for rows in (self.rows[size : 2 * size], self.rows[-size:]))
            print(f"resident: {middle:.1f} MiB in the middle third, {last:.1f} in the last")
            if last > 1.05 * middle and last > middle + 16:
                self.fault(f"memory grew from {middle:.1f} to {last:.1f} MiB")


def start(arguments, rest):
    """Starts the server on a free port; returns it and its process."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen([arguments.program, "serve", arguments.model, "--port", str(port), *rest], stderr=subprocess.DEVNULL)
    for _ in range(600):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return port, process
        if process.poll() is not None:
            sys.exit(f"{arguments.program} serve ended with status {process.returncode}")
        time.sleep(0.1)
    process.kill()
    sys.exit("the server did not listen within 60 s")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--streams", type=int, default=16)
    parser.add_argument("--idle", type=int, default=200)
    parser.add_argument("--program", default=str(REPOSITORY / "build/release/bin/veery"))
    parser.add_argument("--json", help="file for the rows and counts")
    cut = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    arguments, rest = parser.parse_args(sys.argv[1:cut]), sys.argv[cut + 1 :]
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    port, process = start(arguments, rest)
    soak = Soak(port, process, time.monotonic() + 60 * arguments.minutes)
    try:
        asyncio.run(soak.run(arguments.streams, arguments.idle))
    finally:
        process.terminate()
        process.wait(30)
    if arguments.json:
        found = {"rows": soak.rows, "counts": soak.counts, "faults": soak.faults}
        Path(arguments.json).write_text(json.dumps(found, indent=1) + "\n")
    print(f"{sum(soak.counts.values())} requests, {len(soak.faults)} faults")
    return 1 if soak.faults else 0


if __name__ == "__main__":
    sys.exit(main())
