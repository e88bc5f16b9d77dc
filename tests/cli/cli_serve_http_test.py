#!/usr/bin/env python3
"""`veery serve`: HTTP conformance (hosts, schemes, codings, request forms) and threads after a burst.

usage: cli_serve_http_test.py VEERY [unittest arguments]
"""
import concurrent.futures
import os
import pathlib
import re
import time
import unittest

from cli_base import PROGRAM, CliTest
from serve_client import Server, chat


def wait_for(condition, seconds=20):
    """Returns whether it becomes true within `seconds`."""
    end = time.time() + seconds
    while time.time() < end:
        if condition():
            return True
        time.sleep(0.05)
    return False


class Http(CliTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.keys = cls.folder / "keys.txt"
        cls.keys.write_text("secret\n")
        cls.server = Server(cls.model, "-a", "tiny")
        cls.locked = Server(cls.model, "--api-key-file", cls.keys)

    @classmethod
    def tearDownClass(cls):
        cls.server.end()
        cls.locked.end()
        super().tearDownClass()

    def raw(self, request, server=None):
        """Returns status and the whole reply."""
        with (server or self.server).raw() as connection:
            connection.settimeout(10)
            connection.sendall(request.encode() if isinstance(request, str) else request)
            reply = b""
            while True:
                more = connection.recv(65536)
                reply += more
                if not more or (b"\r\n\r\n" in reply and b"Connection: keep-alive" not in reply and len(reply) > 5
                                and self.whole(reply)):  # fmt: skip
                    break
        found = re.match(rb"HTTP/1\.[01] (\d+)", reply)
        return int(found[1]) if found else 0, reply

    @staticmethod
    def whole(reply):
        head, _, body = reply.partition(b"\r\n\r\n")
        length = re.search(rb"(?i)content-length: (\d+)", head)
        return length is None or len(body) >= int(length[1])

    def get(self, *lines, target="/v1/models", version="1.1"):
        return self.raw(f"GET {target} HTTP/{version}\r\n" + "".join(line + "\r\n" for line in lines) + "\r\n")

    def test_names_of_hosts(self):
        for host, status in [("localhost", 200), ("LOCALHOST:80", 200), ("LocalHost.", 200), ("localhost.:8080", 200), ("127.0.0.1", 200),
                             ("[::1]:8080", 200), ("[::FFFF:127.0.0.1]", 200), ("evil.example", 403), ("localhost.evil.example", 403),
                             ("user@localhost", 200), ("localhost@evil.example", 403)]:  # fmt: skip
            self.assertEqual(self.get(f"Host: {host}", "Connection: close")[0], status, host)
        named = Server(self.model, "--allow-host", "Veery.Example")
        self.addCleanup(named.end)
        self.assertEqual(self.raw("GET /health HTTP/1.1\r\nHost: vEERY.example.\r\nConnection: close\r\n\r\n", named)[0], 200)
        for heads in [(), ("Host: localhost", "Host: localhost")]:
            self.assertEqual(self.get(*heads, "Connection: close")[0], 400, heads)
        self.assertEqual(self.get("Connection: close", version="1.0")[0], 200)

    def test_schemes_of_keys(self):
        for value, status in [("Bearer secret", 200), ("bearer secret", 200), ("BEARER   secret", 200), ("Bearer secret ", 200), ("Basic secret", 401),
                              ("Bearersecret", 401), ("Bearer", 401), ("Bearer Secret", 401)]:  # fmt: skip
            self.assertEqual(self.locked.send("GET", "/v1/models", headers={"Authorization": value})[0], status, value)
        self.assertEqual(self.locked.send("GET", "/v1/models", headers={"X-API-KEY": "secret"})[0], 200)

    def test_codings(self):
        def post(*lines, body=""):
            return self.raw("POST /v1/tokenize HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" + "\r\n".join(lines) + "\r\n\r\n" + body)

        for coding in ["gzip", "gzip, chunked", "chunked, gzip", "identity", "x"]:
            self.assertEqual(post(f"Transfer-Encoding: {coding}", body="0\r\n\r\n")[0], 501, coding)
        text = '{"content":"x"}'
        for coding, body in [("chunked", f"f\r\n{text}\r\n0\r\n\r\n"), ("CHUNKED", f"F;name=value;other=\"x\"\r\n{text}\r\n0\r\nTrailer: x\r\n\r\n")]:
            self.assertEqual(post(f"Transfer-Encoding: {coding}", body=body)[0], 200, coding)
        for lines in [("Transfer-Encoding: chunked", "Content-Length: 15"), ("Content-Length: 15", "Content-Length: 15"), ("Content-Length: 15", "Content-Length: 16"),
                      ("Content-Length: -1",), ("Content-Length: 1x",), ("Transfer-Encoding: chunked", "Transfer-Encoding: chunked")]:  # fmt: skip
            self.assertIn(post(*lines, body=text)[0], (400, 501), lines)
        for coding, status in [("gzip", 415), ("GZIP", 415), ("br", 415), ("identity", 200), ("Identity", 200)]:
            found, reply = post(f"Content-Encoding: {coding}", f"Content-Length: {len(text)}", body=text)
            self.assertEqual(found, status, coding)
            self.assertEqual(b"Accept-Encoding: identity" in reply, status == 415)

    def test_expectations_and_forms_of_targets(self):
        with self.server.raw() as connection:
            connection.settimeout(10)
            connection.sendall(b"POST /v1/tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 15\r\nExpect: 100-CONTINUE\r\n\r\n")
            self.assertTrue(connection.recv(100).startswith(b"HTTP/1.1 100"))
            connection.sendall(b'{"content":"x"}')
            self.assertTrue(connection.recv(1000).startswith(b"HTTP/1.1 200"))
        self.assertEqual(self.get("Host: localhost", "Expect: magic", "Connection: close")[0], 417)
        for target, status in [("http://localhost/v1/models", 200), ("HTTP://LOCALHOST:99/health?x=1", 200), ("http://localhost", 200),
                               ("http://evil.example/v1/models", 403), ("//evil", 404), ("*", 404)]:  # fmt: skip
            self.assertEqual(self.get("Host: localhost", "Connection: close", target=target)[0], status, target)
        self.assertEqual(self.raw("PRI * HTTP/2.0\r\n\r\n")[0], 505)
        self.assertEqual(self.get("Host: localhost", "X: " + "y" * 70000)[0], 431)

    def test_head_answers_as_get_without_a_body(self):
        for path in ["/", "/health", "/metrics", "/slots", "/props", "/v1/models", "/v1/models/tiny", "/tokenizer_info", "/openapi.json",
                     "/api/version", "/api/tags", "/api/ps"]:  # fmt: skip
            status, headers, body = self.server.send("HEAD", path)
            self.assertEqual((status, body), (200, b""), path)
            whole = self.server.send("GET", path)
            self.assertEqual((whole[0], whole[1]["Content-Type"]), (200, headers["Content-Type"]), path)
            self.assertIn("Content-Length", headers)

    def test_connection_tokens(self):
        for value in ["close", "Close", "x, CLOSE"]:
            with self.server.raw() as connection:
                connection.sendall(f"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: {value}\r\n\r\n".encode())
                connection.settimeout(5)
                reply = b""
                while more := connection.recv(4096):
                    reply += more
                self.assertIn(b"200 OK", reply)

    def test_the_page_stands_in_no_frame(self):
        headers = self.server.send("GET", "/")[1]
        self.assertIn("frame-ancestors 'none'", headers["Content-Security-Policy"])
        self.assertEqual(headers["X-Frame-Options"], "DENY")

    def test_threads_of_a_burst_end(self):
        threads = pathlib.Path(f"/proc/{self.server.process.pid}/task")
        few = len(list(threads.iterdir()))
        with concurrent.futures.ThreadPoolExecutor(40) as pool:
            found = list(pool.map(lambda i: self.server.send("POST", "/v1/chat/completions", chat(max_tokens=40))[0], range(40)))
            self.assertEqual(set(found), {200})
            self.assertGreater(len(list(threads.iterdir())), few + 5)
        self.assertTrue(wait_for(lambda: len(list(threads.iterdir())) <= few + 2, 30), "threads without work end")
        self.assertEqual(self.server.send("GET", "/health")[0], 200)


if __name__ == "__main__":
    assert PROGRAM and os.path.exists(PROGRAM), __doc__
    unittest.main()
