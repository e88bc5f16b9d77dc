#!/usr/bin/env python3
"""`veery serve` with models that do not answer, with several models, and over TLS.

usage: cli_serve_models_test.py VEERY [unittest arguments]
"""
import base64
import concurrent.futures
import contextlib
import http.client
import json
import os
import shutil
import ssl
import struct
import subprocess
import time
import unittest
import warnings

import tiny_gguf
from cli_base import PROGRAM, TEMPLATE, TINY, CliTest
from serve_client import Server, chat, events, form
from sounds import noise

ENCODERS = TINY.parent / "encoders"
WHISPER = TINY.parent / "whisper" / "a"


class OtherModels(CliTest):
    def test_embeddings(self):
        server = Server(ENCODERS / "bert-mean", "-a", "bert")
        try:
            texts = ["The thrush sings.", "rain"]
            data = server.post("/v1/embeddings", {"model": "bert", "input": texts})["data"]
            self.assertEqual([one["index"] for one in data], [0, 1])
            coded = server.post("/v1/embeddings", {"input": texts[1], "encoding_format": "base64"})["data"][0]["embedding"]
            values = base64.b64decode(coded)
            self.assertEqual(list(struct.unpack(f"<{len(values) // 4}f", values)), [struct.unpack("<f", struct.pack("<f", x))[0] for x in data[1]["embedding"]])
            short = server.post("/v1/embeddings", {"input": texts[0], "dimensions": 8})["data"][0]["embedding"]
            self.assertAlmostEqual(sum(x * x for x in short), 1, 5)
            for body in [{"input": [1, 2]}, {"input": []}, {"input": 5}, {"input": "x", "dimensions": 1 << 19}, {"input": "x", "encoding_format": "hex"}]:
                self.assertEqual(server.send("POST", "/v1/embeddings", body)[0], 400, body)
            self.assertEqual(server.send("POST", "/v1/chat/completions", chat())[0], 400)
            self.assertEqual(server.post("/api/embed", {"model": "bert", "input": texts})["embeddings"][0], data[0]["embedding"])
        finally:
            server.end()

    def test_rerank(self):
        server = Server(ENCODERS / "bert-rerank")
        try:
            documents = ["a thrush", "a stone", "rain"]
            results = server.post("/v1/rerank", {"query": "bird", "documents": documents, "return_documents": True})["results"]
            scores = [result["relevance_score"] for result in results]
            self.assertEqual(scores, sorted(scores, reverse=True))
            self.assertEqual(sorted(result["index"] for result in results), [0, 1, 2])
            told = {"query": "bird", "documents": documents, "instruction": "Find birds"}
            self.assertEqual(server.send("POST", "/v1/rerank", told)[0], 400)
            self.assertEqual(len(server.post("/v1/rerank", {"query": "bird", "documents": documents, "top_n": 1})["results"]), 1)
        finally:
            server.end()

    def test_a_decoder_with_the_card_of_a_ranker_makes_scores(self):
        folder = self.folder / "ranker"
        shutil.copytree(ENCODERS / "qwen3-reranker", folder)
        (folder / "README.md").write_text("---\nlicense: x\n---\n\n# Qwen3-Reranker-0.6B\n")
        case = json.loads((folder / "reference.json").read_text())["cases"][0]
        server = Server(folder, "--exact")
        try:
            body = {"query": case["query"], "documents": [case["document"]]}
            result = server.post("/v1/rerank", body)["results"][0]
            self.assertAlmostEqual(result["relevance_score"], case["score"], delta=2e-4)
            other = server.post("/v1/rerank", body | {"instruction": "Judge whether both are about birds"})["results"][0]
            self.assertNotEqual(other["relevance_score"], result["relevance_score"])
            self.assertEqual(server.post("/v1/rerank", body)["results"][0], result)
        finally:
            server.end()

    def test_sounds_are_written_down(self):
        path = self.folder / "noise.wav"
        path.write_bytes(noise(1.2))
        files = [("file", "noise.wav", path.read_bytes())]
        options = ["--temperatures", "0.5,0.6,0.8,1", "-t", 1]
        known = json.loads(self.veery("transcribe", WHISPER, path, "--json", *options).stdout)
        server = Server(WHISPER, "-a", "tiny")

        def send(*fields, path="/v1/audio/transcriptions", files=files):
            body, headers = form([("model", "tiny"), ("temperature", "0.5"), *fields], files)
            return server.send("POST", path, body, headers)

        try:
            text = known["text"].strip(" \n")
            self.assertNotEqual(text, "")
            answer = json.loads(send()[2])
            self.assertEqual((answer["text"], answer["usage"]), (text, {"type": "duration", "seconds": 2}))
            verbose = json.loads(send(("response_format", "verbose_json"), ("timestamp_granularities[]", "segment"))[2])
            self.assertEqual([s["text"] for s in verbose["segments"]], [s["text"] for s in known["segments"]])
            self.assertEqual((verbose["task"], verbose["duration"]), ("transcribe", known["duration"]))
            self.assertIn(verbose["language"], ("english", "german"))
            self.assertNotIn("words", verbose)
            words = json.loads(send(("response_format", "verbose_json"), ("timestamp_granularities[]", "word"))[2])
            self.assertNotIn("segments", words)
            timed = json.loads(self.veery("transcribe", WHISPER, path, "--json", "--word-timestamps", *options).stdout)
            self.assertEqual([[w["word"], w["start"], w["end"]] for w in words["words"]],
                             [[w["word"].strip(" \n"), w["start"], w["end"]] for s in timed["segments"] for w in s["words"]])
            self.assertGreater(len(words["words"]), 0)
            spoken = json.loads(send(("response_format", "verbose_json"), ("chunking_strategy", "auto"))[2])
            self.assertEqual((spoken["segments"], spoken["duration"]), ([], known["duration"]))  # noise
            for name in ("srt", "vtt"):
                expected = self.veery("transcribe", WHISPER, path, "--to", name, *options).stdout
                self.assertEqual(send(("response_format", name))[2], expected)
            stream = [json.loads(event) for event in events(send(("stream", "true"))[2])]
            self.assertEqual([event["type"] for event in stream][-2:], ["transcript.text.delta", "transcript.text.done"])
            self.assertEqual("".join(event.get("delta", "") for event in stream), stream[-1]["text"])
            english = json.loads(send(("response_format", "verbose_json"), ("language", "de"), path="/v1/audio/translations")[2])
            self.assertEqual((english["task"], english["language"]), ("translate", "german"))
            for fields, more, part in [
                ([("response_format", "xml")], {}, "response_format"), ([("language", "klingon")], {}, "klingon"),
                ([("temperature", "hot")], {}, "temperature"), ([("timestamp_granularities[]", "word")], {}, "verbose_json"),
                ([("timestamp_granularities[]", "letter")], {}, "letter"), ([("chunking_strategy", "server_vad")], {}, "auto"),
                ([], {"files": []}, "file is missing"), ([], {"files": [("file", "a.wav", b"RIFF")]}, "a.wav"),
                ([("stream", "true"), ("response_format", "srt")], {}, "stream"),
            ]:  # fmt: skip
                status, _, body = send(*fields, **more)
                self.assertEqual((status, part in body.decode()), (400, True), body)
            whole, headers = form([("model", "tiny")], files)
            for body, kind in [(whole[:-30], headers), (b"", headers), (whole, {"Content-Type": "multipart/form-data"}), (b"{}", {})]:
                self.assertEqual(server.send("POST", "/v1/audio/transcriptions", body, kind)[0], 400)
            self.assertEqual(server.send("POST", "/v1/chat/completions", chat())[0], 400)
        finally:
            server.end()


class Memory(CliTest):
    """Two models with memory for one."""

    FLAGS = ["-np", 16, "-c", 2048]

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.paths = [cls.folder / "one.gguf", cls.folder / "two.gguf"]
        for seed, path in enumerate(cls.paths):
            tiny_gguf.write(path, TEMPLATE, context=2048, seed=seed)
        server = Server(*cls.paths, *cls.FLAGS)
        cls.bytes = server.models()[0]["meta"]["bytes"]
        cls.known = [server.post("/v1/chat/completions", chat(model=name))["choices"] for name in ("one", "two")]
        server.end()
        cls.budget = int(cls.bytes * 1.5 / 1e6)

    def start(self, *more):
        server = Server(*self.paths, *self.FLAGS, "--memory", self.budget, *more)
        self.addCleanup(server.end)
        return server

    def loaded(self, server):
        return [model["id"] for model in server.models() if model["meta"]["loaded"]]

    def test_the_one_that_was_not_used_for_longest_goes(self):
        self.assertNotEqual(*self.known)
        server = self.start()
        self.assertIn(b"two loads on request", server.said)
        self.assertEqual(self.loaded(server), ["one"])
        for turn in (1, 0, 0, 1):
            name = ("one", "two")[turn]
            self.assertEqual(server.post("/v1/chat/completions", chat(model=name))["choices"], self.known[turn])
            self.assertEqual(self.loaded(server), [name])
            running = server.post("/api/ps", None, method="GET")["models"]
            self.assertEqual([(one["name"], one["expires_at"][:4]) for one in running], [(name, "9999")])
        self.assertEqual(server.metric("model_loads_total"), 4)
        self.assertEqual(len(server.post("/api/tags", None, method="GET")["models"]), 2)

    def test_many_requests_of_both_are_all_answered(self):
        server = self.start()
        with concurrent.futures.ThreadPoolExecutor(12) as pool:
            found = list(pool.map(lambda i: server.post("/v1/chat/completions", chat(model=("one", "two")[i % 2])), range(24)))
        for i, answer in enumerate(found):
            self.assertEqual(answer["choices"], self.known[i % 2])

    def test_an_answer_in_the_making_keeps_its_model(self):
        server = self.start()
        body = chat(model="one", max_tokens=1500, stream=True)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            long = pool.submit(server.send, "POST", "/v1/chat/completions", body)
            while server.metric("num_requests_running") == 0 and not long.done():
                pass
            self.assertEqual(server.post("/v1/chat/completions", chat(model="two"))["choices"], self.known[1])
            status, _, text = long.result()
        self.assertEqual((status, events(text)[-1]), (200, "[DONE]"))

    def test_models_that_stay_leave_no_room(self):
        server = self.start("--pin", "one")
        status, headers, text = server.send("POST", "/v1/chat/completions", chat(model="two"))
        self.assertEqual((status, json.loads(text)["error"]["code"], headers.get("Retry-After")), (503, "model_too_large", None))
        self.assertEqual(self.loaded(server), ["one"])
        self.assertIn("the limit is 1000000", self.error("serve", self.paths[0], "--port", 0, "--memory", 1, *self.FLAGS))
        self.assertIn("'three' is not one of", self.error("serve", *self.paths, "--port", 0, "--pin", "three", status=2))

    def test_how_long_a_model_stays(self):
        server = self.start("--keep-alive", "5m")
        running = server.post("/api/ps", None, method="GET")["models"]
        self.assertRegex(running[0]["expires_at"], "^2")
        message = {"model": "one", "messages": [{"role": "user", "content": "x"}], "stream": False, "options": {"num_predict": 2}}
        for keep in ["soon", "5 m", "m", "", [], "1h2", "--1"]:
            self.assertEqual(server.send("POST", "/api/chat", message | {"keep_alive": keep})[0], 400, keep)
        for keep, stays in [("-1", True), (-1, True), ("1h30m", True), (0, False), ("10ms", False), ("0", False)]:
            server.post("/api/chat", message | {"keep_alive": keep})
            if not stays:
                for _ in range(500):
                    if not self.loaded(server):
                        break
                    time.sleep(0.01)
            self.assertEqual(self.loaded(server), ["one"] if stays else [])
        self.error("serve", self.model, "--keep-alive", "soon", status=2)

    def test_a_failed_load_is_reported_and_others_continue(self):
        gone = self.folder / "gone.gguf"
        shutil.copy(self.paths[1], gone)
        server = Server(self.paths[0], gone, *self.FLAGS, "--memory", self.budget)
        self.addCleanup(server.end)
        gone.write_bytes(gone.read_bytes()[:5000])
        status, _, text = server.send("POST", "/v1/chat/completions", chat(model="gone"))
        self.assertEqual((status, json.loads(text)["error"]["code"]), (500, "model_not_loaded"), text)
        self.assertIn("the model 'gone' cannot be loaded: gone: cut off", json.loads(text)["error"]["message"])
        self.assertNotIn(str(self.folder), text.decode())
        self.assertEqual(server.post("/v1/chat/completions", chat(model="one"))["choices"], self.known[0])


class Tls(CliTest):
    """HTTPS with certificates made by openssl."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.certificate, cls.key = cls.folder / "cert.pem", cls.folder / "key.pem"
        cls.make(cls.certificate, cls.key)
        cls.server = Server(cls.model, "-a", "tiny", "--tls-cert", cls.certificate, "--tls-key", cls.key)

    @staticmethod
    def make(certificate, key, *more):
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-keyout", key, "-out", certificate, "-days", "2",
             "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", *(more or ["-nodes"])],
            check=True, capture_output=True)  # fmt: skip

    @classmethod
    def tearDownClass(cls):
        cls.server.end()
        super().tearDownClass()

    def send(self, *request):
        with contextlib.closing(self.connect()) as connection:
            return self.server.send(*request, connection=connection)

    def connect(self):
        trusting = ssl.create_default_context(cafile=self.certificate)
        return http.client.HTTPSConnection("localhost", self.server.port, timeout=60, context=trusting)

    def test_answers_and_streams_come_as_without(self):
        plain = Server(self.model, "-a", "tiny")
        try:
            for body in [chat(), chat(stream=True)]:
                text = [one.send("POST", "/v1/chat/completions", body)[2] for one in (self, plain)]
                self.assertEqual(*([self.words(one, body) for one in text]))
        finally:
            plain.end()
        self.assertIn(b"https://localhost:", self.server.said.replace(b"127.0.0.1", b"localhost"))

    @staticmethod
    def words(text, body):
        if not body.get("stream"):
            return json.loads(text)["choices"][0]["message"]["content"]
        pieces = [json.loads(event) for event in events(text) if event != "[DONE]"]
        return "".join(piece["choices"][0]["delta"].get("content") or "" for piece in pieces if piece["choices"])

    def test_one_connection_serves_many_requests(self):
        connection = self.connect()
        self.addCleanup(connection.close)
        for _ in range(3):
            self.assertEqual(self.server.send("GET", "/health", connection=connection)[0], 200)
        big = {"content": "x" * 200_000}
        self.assertEqual(self.server.send("POST", "/v1/tokenize", big, connection=connection)[0], 200)

    def test_clients_without_tls_block_nothing(self):
        with self.server.raw() as plain:
            plain.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            self.assertNotIn(b"200", plain.recv(100))
        silent = [self.server.raw() for _ in range(20)]
        self.assertEqual(self.send("GET", "/health")[0], 200)
        for one in silent:
            one.close()
        old = ssl.create_default_context(cafile=self.certificate)
        with warnings.catch_warnings(action="ignore"), self.server.raw() as plain:
            old.maximum_version = ssl.TLSVersion.TLSv1_1
            old.set_ciphers("ALL:@SECLEVEL=0")
            with self.assertRaises((ssl.SSLError, OSError)):
                old.wrap_socket(plain, server_hostname="localhost")

    def test_clients_that_leave_end_their_answer(self):
        before = self.metric("request_success_total", "abort")
        connection = self.connect()
        connection.request("POST", "/v1/chat/completions", json.dumps(chat(max_tokens=60, n=100, stream=True)))
        reply = connection.getresponse()
        reply.read(50)
        reply.close()
        connection.close()
        for _ in range(200):
            if self.metric("num_requests_running") == 0 and self.metric("num_requests_waiting") == 0:
                break
        self.assertGreaterEqual(self.metric("request_success_total", "abort"), before + 1)

    def metric(self, name, label=""):
        text = self.send("GET", "/metrics")[2].decode()
        return sum(float(line.split()[-1]) for line in text.splitlines()
                   if line.startswith("veery_" + name + "{") and label in line)  # fmt: skip

    def test_wrong_files_are_named(self):
        other, locked, locked_key = (self.folder / name for name in ["other.pem", "locked.pem", "locked-key.pem"])
        self.make(self.folder / "unused.pem", other)
        self.make(locked, locked_key, "-passout", "pass:secret")
        none = self.write("none.pem", "no certificate")
        for certificate, key, said in [
            (none, self.key, "none.pem: has no certificate"), (self.certificate, none, "none.pem: is not the key"),
            (self.certificate, other, "other.pem: is not the key of"), (locked, locked_key, "without a password"),
            (self.folder / "gone.pem", self.key, "gone.pem"), (self.certificate, self.folder, "is a folder"),
        ]:  # fmt: skip
            with self.subTest(said=said):
                self.assertIn(said, self.error("serve", self.model, "--port", 0, "--tls-cert", certificate, "--tls-key", key))
        self.assertIn("--tls-key", self.error("serve", self.model, "--tls-cert", self.certificate, status=2))


if __name__ == "__main__":
    assert PROGRAM and os.path.exists(PROGRAM), __doc__
    unittest.main()
