#!/usr/bin/env python3
"""`veery serve` where clients, their number, the machine's memory or a schema are hostile: nothing ends the server, no answer is kept
in the making, and each request gets the status that says what happened.

usage: cli_serve_faults_test.py VEERY [unittest arguments]
"""
import asyncio
import collections
import concurrent.futures
import json
import os
import resource
import signal
import socket
import subprocess
import time
import unittest

import tiny_gguf
from cli_base import PROGRAM, TEMPLATE, CliTest
from serve_client import Server, chat, events

CONTEXT = 512
SOFT, HARD = resource.getrlimit(resource.RLIMIT_NOFILE)


def has_address_sanitizer():
    return b"libasan" in subprocess.run(["ldd", PROGRAM], capture_output=True, check=False).stdout


def message(body, path="/v1/chat/completions"):
    """Returns the bytes of one request that closes the connection."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return f"POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data


class Faults(CliTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        resource.setrlimit(resource.RLIMIT_NOFILE, (HARD, HARD))
        cls.long = cls.folder / "long.gguf"
        tiny_gguf.write(cls.long, TEMPLATE, context=CONTEXT)

    def serve(self, *arguments, **more):
        server = Server(self.long, "-a", "tiny", *arguments, **more)
        self.addCleanup(server.end)
        return server

    def still_works(self, server, before):
        """Checks that nothing is running and that the answer is the same as before."""
        server.idle()
        self.assertEqual(server.post("/v1/chat/completions", chat())["choices"], before["choices"])


class Clients(Faults):
    def test_readers_that_stop_reading_do_not_block_others(self):
        server = self.serve("-np", 4)
        before = server.post("/v1/chat/completions", chat())
        readers = []
        for seed in range(8):
            reader = socket.socket()
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            reader.connect(("127.0.0.1", server.port))
            reader.sendall(message(chat(max_tokens=450, n=60, stream=True, seed=seed)))
            reader.recv(64)
            readers.append(reader)
        # Their answers complete without a reader, and others are answered meanwhile.
        for _ in range(20):
            self.assertEqual(server.post("/v1/chat/completions", chat())["choices"], before["choices"])
        if not has_address_sanitizer():  # it quarantines freed memory
            self.assertLess(self.resident(server), 256 << 20, "what nobody reads is not kept in memory without bound")
        for reader in readers:
            reader.close()
        self.still_works(server, before)

    def test_slow_readers_get_all_of_their_answer(self):
        server = self.serve()
        whole = server.post("/v1/chat/completions", chat(max_tokens=60))["choices"][0]["message"]["content"]
        with server.raw() as reader:
            reader.sendall(message(chat(max_tokens=60, stream=True)))
            data = b""
            while piece := reader.recv(97):
                data += piece
                time.sleep(0.002)
        chunks = [json.loads(line) for line in events(data) if line != "[DONE]"]
        self.assertEqual("".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks), whole)
        self.assertIn(b"data: [DONE]", data)

    def test_clients_that_reset_their_connections_leave_no_slot_taken(self):
        server = self.serve("-np", 2)
        before = server.post("/v1/chat/completions", chat())
        for index in range(40):
            client = server.raw()
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
            client.sendall(message(chat(max_tokens=450, n=8, stream=index % 2 == 0, seed=index)))
            if index % 4 == 0:
                client.recv(100)
            client.close()  # with a reset
        self.still_works(server, before)

    def test_ten_thousand_requests_at_once(self):
        count = min(10_000, (HARD - 200) // 2)
        server = self.serve("-np", 8)
        before = server.post("/v1/chat/completions", chat(max_tokens=3))

        async def one():
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
                writer.write(message(chat(max_tokens=3)))
                data = await reader.read(-1)
                writer.close()
            except OSError:
                return "refused", b""
            return (data.split(b" ", 2)[1].decode() if data else "closed"), data

        async def all_of_them():
            return await asyncio.wait_for(asyncio.gather(*(one() for _ in range(count))), 240)

        found = collections.Counter()
        for status, data in asyncio.run(all_of_them()):
            found[status] += 1
            if status == "200":
                self.assertEqual(json.loads(data.partition(b"\r\n\r\n")[2])["choices"], before["choices"])
            elif status in ("429", "503"):
                self.assertIn(b"Retry-After", data)
        self.assertLessEqual(set(found), {"200", "429", "503", "closed", "refused"}, found)
        self.assertGreaterEqual(found["200"], min(count, 1000), found)
        server.idle()
        self.assertEqual(server.post("/v1/chat/completions", chat(max_tokens=3))["choices"], before["choices"])

    def test_a_signal_under_load_ends_every_stream_with_its_end_or_an_error(self):
        server = self.serve("-np", 4, "--grace", 1)

        def stream(client, seed):
            with client:
                client.sendall(message(chat(max_tokens=450, n=20, stream=True, seed=seed)))
                return b"".join(iter(lambda: client.recv(65536), b""))

        # All connect before the signal, because the server stops listening after it.
        clients = [server.raw() for _ in range(24)]
        with concurrent.futures.ThreadPoolExecutor(24) as pool:
            asked = [pool.submit(stream, client, seed) for seed, client in enumerate(clients)]
            while server.metric("num_requests_running") < 4:
                time.sleep(0.01)
            server.process.send_signal(signal.SIGTERM)
            replies = [one.result(timeout=30) for one in asked]
        self.assertEqual(server.process.wait(timeout=30), 0)
        for reply in replies:
            if not reply.startswith(b"HTTP/1.1 200"):
                self.assertRegex(reply, rb"^(HTTP/1.1 503 |$)")
                continue
            last = events(reply)[-1]
            self.assertTrue(last == "[DONE]" or "error" in json.loads(last), last)

    @staticmethod
    def resident(server):
        with open(f"/proc/{server.process.pid}/status", encoding="ascii") as status:
            return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmRSS:"))


class Limits(Faults):
    def test_bodies_of_odd_sizes(self):
        server = self.serve("--max-body", 1)
        before = server.post("/v1/chat/completions", chat())
        for length, status in [("1048577", 413), ("99999999999999999999", 400), ("-1", 400), ("1e3", 400)]:
            with self.subTest(length=length), server.raw() as client:
                client.sendall(f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n".encode())
                client.shutdown(socket.SHUT_WR)
                reply = b"".join(iter(lambda: client.recv(65536), b""))
                self.assertTrue(reply.startswith(f"HTTP/1.1 {status} ".encode()), reply[:80])
        with server.raw() as client:  # chunks that never end
            client.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
            reply = b""
            try:
                for _ in range(64):
                    client.sendall(b"10000\r\n" + b"a" * 65536 + b"\r\n")
                reply = client.recv(65536)
            except ConnectionError:
                pass
            self.assertTrue(not reply or reply.startswith(b"HTTP/1.1 413"), reply[:80])
        self.still_works(server, before)

    def test_requests_fail_without_memory_and_the_server_continues(self):
        if has_address_sanitizer():
            self.skipTest("AddressSanitizer wants more addresses than that")

        def limit():
            resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))  # mostly used by the stacks of threads

        server = self.serve("-np", 4, prepare=limit)
        before = server.post("/v1/chat/completions", chat())
        large = message(chat("word " * (3 << 20)))

        def one(index):
            try:
                with server.raw() as client:
                    client.sendall(large if index % 2 else message(chat(max_tokens=200, seed=index, stream=True)))
                    return b"".join(iter(lambda: client.recv(65536), b""))[:12]
            except ConnectionError:
                return b""

        with concurrent.futures.ThreadPoolExecutor(200) as pool:
            replies = collections.Counter(pool.map(one, range(200)))
        self.assertLessEqual(set(replies), {b"", b"HTTP/1.1 200", b"HTTP/1.1 400", b"HTTP/1.1 429", b"HTTP/1.1 500",
                                            b"HTTP/1.1 503"}, replies)  # fmt: skip
        self.still_works(server, before)

    def test_hostile_schemas_are_refused_or_kept_and_soon(self):
        server = self.serve("-np", 2)
        before = server.post("/v1/chat/completions", chat())
        deep, wide = {"type": "string"}, {"type": "object", "properties": {}}
        for index in range(60):
            deep = {"type": "array", "items": deep, "minItems": 1}
            wide["properties"][f"name{index}"] = {"anyOf": [{"type": "integer"}, {"$ref": "#"}]}
        for name, schema in {
            "itself": {"$ref": "#"},
            "in a circle": {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
            "by alternatives": {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]},
            "no end": {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"], "additionalProperties": False},
            "a tree": {"type": "object", "properties": {"a": {"$ref": "#"}, "b": {"$ref": "#"}}},
            "deep": deep,
            "wide and recursive": wide,
            "left recursion": {"anyOf": [{"$ref": "#"}, {"type": "string"}]},
            "many values": {"enum": [f"value {index}" for index in range(19_000)]},
            "long values": {"enum": [f"value {index}" * 20 for index in range(19_000)]},
            "no end behind a choice": {"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {
                "a": {"type": "object", "properties": {"b": {"$ref": "#/$defs/a"}}, "required": ["b"]}}},
            "many names": {"type": "object", "properties": {f"name {index}": {"type": "integer"} for index in range(9_000)}},
            "as many names as may be": {"type": "object", "properties": {f"name {index}": {"type": "integer"} for index in range(512)}},
            "as long a constant as may be": {"const": "a" * 65_000},
            "many repeats": {"type": "string", "minLength": 10_000, "maxLength": 10_000},
            "repeats of repeats": {"type": "array", "minItems": 10_000, "items": {
                "type": "array", "minItems": 10_000, "items": {"const": 1}}},
            "repeats by references": {"$ref": "#/$defs/a", "$defs": {
                "a": {"type": "array", "minItems": 1_000, "items": {"$ref": "#/$defs/b"}},
                "b": {"type": "array", "minItems": 1_000, "items": {"$ref": "#/$defs/c"}},
                "c": {"type": "array", "minItems": 1_000, "items": {"const": 1}}}},
            "a long constant": {"const": "a" * 200_000},
            "a pattern of repeats": {"type": "string", "pattern": "^((a{1,1000}){1,1000}){1,1000}$"},
            "a pattern that backtracks": {"type": "string", "pattern": "^(a|a)*(a|a|b)*c$"},
            "nothing": {"enum": []},
            "long names": {"type": "object", "properties": {"x" * 100_000: {"type": "null"}}},
        }.items():
            with self.subTest(name=name):
                form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
                start = time.monotonic()
                status, _, text = server.send("POST", "/v1/chat/completions", chat(max_tokens=8, response_format=form))
                self.assertIn(status, (200, 400), text[:300])
                if status == 400:
                    self.assertEqual(json.loads(text)["error"]["type"], "invalid_request_error")
                self.assertLess(time.monotonic() - start, 100 if has_address_sanitizer() else 20)
        self.still_works(server, before)


if __name__ == "__main__":
    assert PROGRAM and os.path.exists(PROGRAM), __doc__
    unittest.main()
