#!/usr/bin/env python3
"""Operation of `veery serve`: log, metrics, keys with limits, fair shares, no paths in answers.

usage: cli_serve_ops_test.py VEERY [unittest arguments]
"""
import concurrent.futures
import json
import os
import re
import shutil
import signal
import subprocess
import time
import unittest

import tiny_gguf
from cli_base import PROGRAM, TEMPLATE, CliTest
from serve_client import Server, chat, events

CHAT = "/v1/chat/completions"


def bearer(key):
    return {"Authorization": f"Bearer {key}"}


def fields(line):
    """Returns the fields of a line of the text log."""
    return {name: json.loads(value) if value.startswith('"') else value
            for name, value in re.findall(r' (\w+)=("(?:[^"\\]|\\.)*"|\S*)', line)}  # fmt: skip


class Ops(CliTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        tiny_gguf.write(cls.model, TEMPLATE, context=4096)
        cls.slow = cls.folder / "slow.gguf"  # half a millisecond a token
        tiny_gguf.write(cls.slow, TEMPLATE, context=4096, dim=256, hidden=2048, tied=False)
        cls.server = Server(cls.model, "-a", "tiny", "-c", 1024)

    @classmethod
    def tearDownClass(cls):
        cls.server.end()
        super().tearDownClass()

    def start(self, *arguments):
        server = Server(*arguments)
        self.addCleanup(server.end)
        return server

    # Paths

    def assert_no_paths(self, *texts):
        for text in texts:
            self.assertNotIn(str(self.folder), text)
            self.assertNotIn(os.path.realpath(self.folder), text)

    def test_answers_name_models_not_files(self):
        for path in ["/props", "/v1/models", "/v1/models/tiny", "/slots", "/api/tags", "/api/ps", "/tokenizer_info", "/metrics", "/openapi.json"]:
            status, headers, body = self.server.send("GET", path)
            self.assertEqual(status, 200)
            self.assert_no_paths(body.decode(), str(headers))
        self.assertEqual(self.server.post("/props", None, method="GET")["model_path"], "tiny")
        self.assert_no_paths(json.dumps(self.server.post("/api/show", {"model": "tiny"})))

    def wait_until_unloaded(self, server):
        for _ in range(100):
            if not server.post("/api/ps", None, method="GET")["models"]:
                return
            time.sleep(0.1)
        self.fail("a model is still loaded after 10 s")

    def test_a_model_that_is_gone_is_named_not_its_file(self):
        work = self.folder / "inner"
        work.mkdir()
        shutil.copy(self.model, work / "first.gguf")
        shutil.copy(self.model, work / "second.gguf")
        size = (work / "first.gguf").stat().st_size
        server = self.start(work / "first.gguf", work / "second.gguf", "-a", "one", "-a", "two", "--memory", 40, "--keep-alive", 0)
        self.wait_until_unloaded(server)  # a model in memory answers without its file
        for i, (cut, damage) in enumerate([(0, None), (100, None), (size - 1000, None), (None, b"GGUF garbage")]):
            for name in ("first", "second"):
                if cut is None:
                    (work / f"{name}.gguf").write_bytes(damage)
                else:
                    os.truncate(work / f"{name}.gguf", cut)
            for path, body in [(CHAT, chat(model="two")), (CHAT, chat(model="one")), ("/v1/messages", chat(model="one")),
                               ("/api/chat", chat(model="one")), ("/api/show", {"model": "two"})]:  # fmt: skip
                status, _, text = server.send("POST", path, body, {"X-Request-Id": f"gone-{i}-{path}"})
                if status == 200 and path == "/api/show":
                    continue
                self.assertGreaterEqual(status, 400, (path, text))
                self.assert_no_paths(text.decode())
                self.assertRegex(text.decode(), "one|two")
        os.remove(work / "first.gguf")
        status, _, text = server.send("POST", CHAT, chat(model="one"), {"X-Request-Id": "last"})
        self.assertGreaterEqual(status, 500, text)
        self.assert_no_paths(text.decode())
        self.assertIn("one", text.decode())
        line = server.log(r"id=last .*error=")[0]
        self.assertIn(str(work / "first.gguf"), line, "the log has the path")
        self.assertIn(" error request ", line)

    def test_a_model_that_changes_is_named_not_its_file(self):
        path = self.folder / "changing.gguf"
        shutil.copy(self.slow, path)
        server = self.start(path, "-a", "tiny")
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            answers = [pool.submit(server.send, "POST", CHAT, chat(max_tokens=3000, temperature=1, stream=stream)) for stream in (True, False)]
            while server.metric("generation_tokens_total") < 10:
                pass
            os.truncate(path, 4096)
            replies = [answer.result()[2].decode() for answer in answers]
        for text in replies:
            self.assertIn("tiny", text)
            self.assert_no_paths(text)
        self.assertIn(str(path), server.log("error=.*changing.gguf")[0])

    # Log

    def test_every_answer_has_an_id(self):
        for given, kept in [("abc-1", True), ("a/b:c", True), ("two words", False), ("x" * 201, False), ('quo"te', False), ("", False)]:
            reply = self.server.send("GET", "/health", headers={"X-Request-Id": given})[1]["X-Request-Id"]
            self.assertEqual(reply == given, kept, given)
            self.assertTrue(kept or re.fullmatch(r"req_\w{24}", reply), reply)
        for method, path in [("GET", "/none"), ("PUT", "/health"), ("POST", CHAT), ("OPTIONS", CHAT), ("HEAD", "/health")]:
            self.assertIn("X-Request-Id", self.server.send(method, path)[1])
        headers = self.server.send("GET", "/v1/models", headers={"anthropic-version": "2023-06-01"})[1]
        self.assertEqual(headers["request-id"], headers["X-Request-Id"])
        with self.server.raw() as client:
            client.sendall(b"GET / HTTP/1.1\r\nX-Request-Id: early\r\n\r\n")
            self.assertIn(b"X-Request-Id: early", client.recv(4000))
        self.assertEqual(fields(self.server.log("id=early ")[0])["status"], "400")

    def test_the_access_line_has_what_a_request_took(self):
        for stream in (False, True):
            name = f"line-{stream}"
            answer = self.server.send("POST", CHAT, chat(stream=stream), {"X-Request-Id": name})[2]
            line = self.server.log(f"id={name} ")[0]
            self.assertRegex(line, r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z info request id=")
            found = fields(line)
            wanted = {"client": "127.0.0.1", "method": "POST", "route": CHAT, "status": "200", "model": "tiny",
                      "answer_tokens": "12", "finish": "length", "bytes": str(len(answer))}  # fmt: skip
            self.assertEqual({key: found[key] for key in wanted}, wanted, line)
            self.assertGreater(int(found["prompt_tokens"]), 5)
            self.assertIn("cached_tokens", found)
            self.assertLessEqual(float(found["first_token_ms"]), float(found["total_ms"]))
            self.assertNotIn("error", found)
            self.assertNotIn("Hello", line)

    def test_errors_of_clients_are_not_errors_of_the_server(self):
        self.server.send("POST", CHAT, {"messages": "secret words"}, {"X-Request-Id": "wrong"})
        line = self.server.log("id=wrong ")[0]
        self.assertIn(" info request ", line)
        self.assertEqual(fields(line)["status"], "400")
        self.assertNotIn("secret", line)

    def test_clients_cannot_forge_log_lines(self):
        self.server.send("GET", "/a%0a2026-01-01T00:00:00.000Z%20error%20forged%1b[31m%ff", headers={"X-Request-Id": "forged"})
        self.server.send("POST", CHAT, chat(model="m\n2026 error\x1b"), {"X-Request-Id": "forged-model"})
        path = self.server.log("id=forged ")[0]
        self.assertIn(r"\n2026-01-01T00:00:00.000Z error forged\x1b", path)
        self.server.log("id=forged-model ")
        for line in self.server.said.split(b"\n")[:-1]:
            self.assertRegex(line, rb"^\d{4}-\d\d-\d\dT[\d:.]+Z (error|warn|info|debug) ")
            self.assertNotIn(b"\x1b", line)

    def test_clients_that_leave(self):
        for stream in (True, False):
            data = json.dumps(chat(max_tokens=900, n=20, stream=stream)).encode()
            with self.server.raw() as client:
                client.sendall(f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: left-{stream}\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data)
                if stream:
                    client.recv(100)
            found = fields(self.server.log(f"id=left-{stream} ")[0])
            self.assertEqual((found["status"], found.get("finish", "cancelled")), ("499", "cancelled"))
        self.server.idle()
        self.assertGreaterEqual(self.server.metric("http_requests_total", status="499", handler=CHAT), 2)

    def test_json_lines_levels_and_files(self):
        log = self.folder / "log"
        keys = self.write("named.json", {"keys": [{"key": "secret-of-alice", "name": "alice \" x"}]})
        server = self.start(self.model, "-a", "tiny", "--log-format", "json", "--log-level", "debug", "--log-file", log,
                            "--log-prompts", "--api-key-file", keys)  # fmt: skip
        server.send("POST", CHAT, chat("Tell \u00e4\n"), bearer("secret-of-alice"))
        server.send("GET", "/health")
        self.assertIn(b"serving on", server.said, "people see the start")
        moved = log.with_suffix(".1")
        self.wait(lambda: b"/health" in log.read_bytes() and CHAT.encode() in log.read_bytes())
        log.rename(moved)
        server.process.send_signal(signal.SIGHUP)
        self.wait(log.exists)
        server.send("GET", "/v1/models")
        self.wait(lambda: b"401" in log.read_bytes())
        server.end()
        lines = [json.loads(line) for line in moved.read_text().splitlines()]
        request = next(line for line in lines if line.get("route") == CHAT)
        self.assertEqual((request["key"], request["status"], request["answer_tokens"], request["level"]), ('alice " x', 200, 12, "info"))
        self.assertIn("Tell", json.loads(request["request"])["messages"][0]["content"])
        self.assertTrue(request["answer"])
        self.assertEqual(next(line for line in lines if line.get("route") == "/health")["level"], "debug")
        self.assertNotIn("secret-of-alice", moved.read_text() + log.read_text())
        self.assertIn("stopping", log.read_text())

    def wait(self, condition):
        for _ in range(500):
            if condition():
                return
            time.sleep(0.02)
        self.fail("it did not become true")

    def test_a_full_disk_stops_no_request(self):
        server = self.start(self.model, "--log-file", "/dev/full")
        for _ in range(5):
            self.assertEqual(server.send("POST", CHAT, chat())[0], 200)
        self.wait(lambda: server.metric("log_lines_lost_total") >= 5)
        self.assertEqual(server.process.poll(), None)

    def test_an_unread_log_blocks_no_request(self):
        process = subprocess.Popen([PROGRAM, "serve", str(self.model), "--port", "0", "-t", "1"], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
        self.addCleanup(process.stderr.close)
        said = b""
        while b"serving on" not in said:
            said += process.stderr.readline()
        quiet = Server.__new__(Server)
        quiet.port, quiet.process = int(re.search(rb":(\d+)", said.split(b"serving on")[1])[1]), process
        connection = quiet.connect()
        for _ in range(1200):
            self.assertEqual(quiet.send("GET", "/v1/models", connection=connection)[0], 200)
        connection.close()
        process.terminate()
        self.assertEqual(process.wait(timeout=20), 0)

    def test_wrong_flags_are_named(self):
        self.assertIn("--log-format", self.error("serve", self.model, "--log-format", "xml", status=2))
        self.assertIn("error, warn, info, debug", self.error("serve", self.model, "--log-level", "loud", status=2))
        self.assertIn("no/log", self.error("serve", self.model, "--log-file", self.folder / "no" / "log"))

    # Metrics

    def test_metrics_tell_of_requests_and_latencies(self):
        before = {name: self.server.metric(name) for name in ("generation_tokens_total", "prefix_cache_queries_total", "n_decode_total")}
        for _ in range(3):
            self.server.send("POST", CHAT, chat("What is it?"))
        self.assertEqual(self.server.metric("generation_tokens_total") - before["generation_tokens_total"], 36)
        self.assertGreater(self.server.metric("prefix_cache_hits_total"), 0)
        self.assertGreater(self.server.metric("n_decode_total"), before["n_decode_total"])
        self.assertGreater(self.server.metric("kv_cache_usage_ratio", model_name="tiny"), 0)
        self.assertLessEqual(self.server.metric("kv_cache_usage_ratio"), 1)
        for name in ("time_to_first_token_seconds", "inter_token_latency_seconds", "request_queue_time_seconds", "e2e_request_latency_seconds"):
            total = self.server.metric(name + "_count", model_name="tiny")
            self.assertGreaterEqual(total, 3, name)
            self.assertEqual(self.server.metric(name + "_bucket", le="+Inf"), total)
        self.wait(lambda: self.server.metric("http_requests_total", handler=CHAT, method="POST", status="200") >= 3)

    def test_tokens_are_counted_while_they_are_made(self):
        server = self.start(self.slow, "-a", "tiny")
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            answer = pool.submit(server.send, "POST", CHAT, chat(max_tokens=1500, temperature=1))
            self.wait(lambda: server.metric("generation_tokens_total") > 5)
            self.assertEqual(server.metric("num_requests_running"), 1)
            self.assertFalse(answer.done())
            answer.result()
        self.wait(lambda: server.metric("generation_tokens_total") == 1500)

    def test_labels_are_bounded(self):
        for i in range(20):
            self.server.send("GET", f"/made/up/{i}")
            self.server.send(f"VERB{i}", "/health")
        self.wait(lambda: self.server.metric("http_requests_total", handler="other") >= 20)
        text = self.server.send("GET", "/metrics")[2].decode()
        self.assertNotIn("/up/", text)
        self.assertNotIn("VERB", text)

    def test_promtool_takes_them(self):
        tool = shutil.which("promtool") or os.environ.get("PROMTOOL")
        if not tool:
            self.skipTest("no promtool here")
        text = self.server.send("GET", "/metrics")[2]
        done = subprocess.run([tool, "check", "metrics"], input=text, capture_output=True, check=False)
        self.assertEqual((done.returncode, done.stdout + done.stderr), (0, b""))

    # Keys

    def limited(self, **limits):
        keys = self.write("limits.json", {"keys": [{"key": "k", "name": "kim", **limits}, {"key": "other", "name": "other"}]})
        return self.start(self.slow, "-a", "tiny", "--api-key-file", keys)

    def test_requests_per_minute(self):
        server = self.limited(requests_per_minute=2)
        headers = [server.send("POST", CHAT, chat(), bearer("k"))[1] for _ in range(2)]
        self.assertEqual([one["x-ratelimit-remaining-requests"] for one in headers], ["1", "0"])
        self.assertEqual(headers[0]["x-ratelimit-limit-requests"], "2")
        self.assertRegex(headers[1]["x-ratelimit-reset-requests"], r"^(\d+m)?[\d.]+s$")
        self.assertNotIn("x-ratelimit-limit-tokens", headers[0])
        status, reply, text = server.send("POST", CHAT, chat(), bearer("k"))
        error = json.loads(text)["error"]
        self.assertEqual((status, error["type"], error["code"]), (429, "rate_limit_error", "rate_limit_exceeded"))
        self.assertTrue(25 <= int(reply["Retry-After"]) <= 30, reply)
        self.assertIn("kim", error["message"])
        status, reply, text = server.send("POST", "/v1/messages", chat(), {"x-api-key": "k", "anthropic-version": "2023-06-01"})
        self.assertEqual((status, json.loads(text)["error"]["type"]), (429, "rate_limit_error"))
        self.assertEqual(reply["anthropic-ratelimit-requests-remaining"], "0")
        self.assertRegex(reply["anthropic-ratelimit-requests-reset"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        self.assertEqual(server.send("POST", "/api/chat", chat(model="tiny"), bearer("k"))[0], 429)
        self.assertEqual(server.send("GET", "/v1/models", headers=bearer("k"))[0], 200, "only requests of models count")
        self.assertEqual(server.send("POST", CHAT, chat(), bearer("other"))[0], 200)
        self.assertEqual(fields(server.log("key=other .*status=200")[0])["key"], "other")

    def test_tokens_per_minute(self):
        server = self.limited(tokens_per_minute=40)
        first = server.send("POST", CHAT, chat(max_tokens=60), bearer("k"))
        self.assertEqual((first[0], first[1]["x-ratelimit-remaining-tokens"]), (200, "40"))
        status, reply, text = server.send("POST", CHAT, chat(), bearer("k"))
        self.assertEqual(status, 429, text)
        self.assertGreater(int(reply["Retry-After"]), 20)
        self.assertEqual(reply["x-ratelimit-remaining-tokens"], "0")

    def test_requests_at_a_time(self):
        server = self.limited(concurrent_requests=2)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            running = [pool.submit(server.send, "POST", CHAT, chat(max_tokens=1000, temperature=1), bearer("k")) for _ in range(2)]
            while server.send("GET", "/metrics", headers=bearer("k"))[2].decode().count('num_requests_running{model_name="tiny"} 2') == 0:
                pass
            status, reply, _ = server.send("POST", CHAT, chat(), bearer("k"))
            self.assertEqual((status, reply["Retry-After"]), (429, "1"))
            self.assertEqual(server.send("POST", CHAT, chat(), bearer("other"))[0], 200)
            self.assertEqual([one.result()[0] for one in running], [200, 200])
        self.assertEqual(server.send("POST", CHAT, chat(), bearer("k"))[0], 200)

    def test_wrong_key_files_are_named(self):
        for text, said in [('{"keys": [{"key": "a", "limit": 3}]}', "unknown member 'limit'"), ("{", "bad.json"), ("\n", "the file has no key")]:
            self.assertIn(said, self.error("serve", self.model, "--api-key-file", self.write("bad.json", text)))

    def test_a_light_user_is_served_beside_many_requests_of_another(self):
        keys = self.write("two.json", {"keys": [{"key": "h", "name": "heavy"}, {"key": "l", "name": "light"}]})
        server = self.start(self.slow, "-a", "tiny", "-np", 4, "--api-key-file", keys)

        def body(i):
            return chat(f"{i}", max_tokens=150, temperature=1, seed=i)

        def value(name):
            text = server.send("GET", "/metrics", headers=bearer("l"))[2].decode()
            return float(re.search(rf"^veery_{name}{{[^}}]*}} (\S+)$", text, re.M)[1])

        with concurrent.futures.ThreadPoolExecutor(30) as pool:
            heavy = [pool.submit(server.send, "POST", CHAT, body(i), bearer("h")) for i in range(30)]
            self.wait(lambda: value("num_requests_running") == 4 and value("num_requests_waiting") == 26)
            answer = server.send("POST", CHAT, chat(max_tokens=5), bearer("l"))
            done = sum(one.done() for one in heavy)
            self.assertEqual(answer[0], 200)
            self.assertLessEqual(done, 4, "those that ran")
            self.assertEqual({one.result()[0] for one in heavy}, {200})
        texts = [json.loads(one.result()[2])["choices"] for one in heavy[:4]]
        for i, text in enumerate(texts):
            self.assertEqual(json.loads(server.send("POST", CHAT, body(i), bearer("h"))[2])["choices"], text)

    def test_streams_end_as_before(self):
        body = self.server.send("POST", CHAT, chat(stream=True))[2]
        self.assertEqual(events(body)[-1], "[DONE]")


if __name__ == "__main__":
    assert PROGRAM and os.path.exists(PROGRAM), __doc__
    unittest.main()
