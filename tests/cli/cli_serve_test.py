#!/usr/bin/env python3
"""`veery serve`: replies to clients of several APIs, under load and with invalid requests.

usage: cli_serve_test.py VEERY [unittest arguments]
"""
import base64
import concurrent.futures
import gzip
import http.client
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import time
import unittest

import tiny_gguf
from cli_base import PROGRAM, TEMPLATE, TINY, CliTest
from serve_client import Server, chat, events

CONTEXT = 512


class Document:
    """Checks values against the schemas of an OpenAPI document."""

    def __init__(self, document):
        self.document = document

    def wrong(self, value, schema, where="reply"):
        """Returns how a value violates its schema, or None."""
        if "$ref" in schema:
            place = self.document
            for name in schema["$ref"].removeprefix("#/").split("/"):
                place = place[name]
            return self.wrong(value, place, where)
        kinds = schema.get("type", [])
        kinds = [kinds] if isinstance(kinds, str) else kinds
        types = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None),
                 "integer": int, "number": (int, float)}  # fmt: skip
        if kinds and not any(isinstance(value, types[kind]) and not (kind in ("integer", "number") and value is True)
                             for kind in kinds):  # fmt: skip
            return f"{where} is {value!r:.60}, expected {kinds}"
        if ("const" in schema and value != schema["const"]) or value not in schema.get("enum", [value]):
            return f"{where} is {value!r:.60}"
        if isinstance(value, (int, float)) and value < schema.get("minimum", value):
            return f"{where} is {value}"
        found = []
        if isinstance(value, dict):
            found += [f"{where} has no {name}" for name in schema.get("required", []) if name not in value]
            found += [self.wrong(value[name], inner, f"{where}.{name}")
                      for name, inner in schema.get("properties", {}).items() if name in value]  # fmt: skip
        if isinstance(value, list):
            found += [self.wrong(item, schema.get("items", {}), f"{where}[{i}]") for i, item in enumerate(value)]
        return next((what for what in found if what), None)

    def reply(self, path, status, body):
        operation = next(iter(self.document["paths"][path].values()))["responses"]
        response = operation.get(str(status), operation["default"])
        if "$ref" in response:
            response = self.document["components"]["responses"][response["$ref"].split("/")[-1]]
        return self.wrong(body, response["content"]["application/json"]["schema"])


class Serve(CliTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.long = cls.folder / "long.gguf"
        tiny_gguf.write(cls.long, TEMPLATE, context=CONTEXT)
        cls.server = Server(cls.long, "-a", "tiny", "-np", 4, "--max-body", 1)

    @classmethod
    def tearDownClass(cls):
        cls.server.end()
        super().tearDownClass()

    def refuse(self, path, body, status=400, **more):
        found, _, text = self.server.send("POST", path, body, **more)
        self.assertEqual(found, status, text)
        return json.loads(text)["error"]

    def test_chat(self):
        answer = self.server.post("/v1/chat/completions", chat(n=2, logprobs=True, top_logprobs=2))
        self.assertEqual(answer["object"], "chat.completion")
        self.assertEqual(len(answer["choices"]), 2)
        one = answer["choices"][1]
        self.assertEqual((one["index"], one["finish_reason"], one["message"]["role"]), (1, "length", "assistant"))
        scores = one["logprobs"]["content"]
        self.assertEqual(len(scores), 12)
        self.assertEqual(scores[0]["top_logprobs"][0]["token"], scores[0]["token"])
        self.assertLessEqual(scores[0]["logprob"], 0)
        usage = answer["usage"]
        self.assertEqual((usage["completion_tokens"], usage["total_tokens"]), (24, usage["prompt_tokens"] + 24))

    def test_a_stream_is_the_answer_in_pieces(self):
        whole = self.server.post("/chat/completions", chat())["choices"][0]["message"]["content"]
        status, headers, text = self.server.send(
            "POST", "/v1/chat/completions", chat(stream=True, stream_options={"include_usage": True}))  # fmt: skip
        self.assertEqual((status, headers["Content-Type"]), (200, "text/event-stream"))
        lines = events(text)
        self.assertEqual(lines[-1], "[DONE]")
        chunks = [json.loads(line) for line in lines[:-1]]
        self.assertEqual(len({chunk["id"] for chunk in chunks}), 1)
        self.assertEqual(chunks[0]["choices"][0]["delta"], {"role": "assistant", "content": ""})
        self.assertEqual(chunks[-2]["choices"][0]["finish_reason"], "length")
        self.assertEqual((chunks[-1]["choices"], chunks[-1]["usage"]["completion_tokens"]), ([], 12))
        self.assertTrue(all(chunk["usage"] is None for chunk in chunks[:-1]))
        self.assertEqual("".join(c["choices"][0]["delta"].get("content", "") for c in chunks[:-1]), whole)

    def test_the_answer_is_that_of_run(self):
        for temperature, seed in [(0, 0), (1.3, 5)]:
            run = self.json("run", self.long, "-t", 1, "-p", "Hello", "-n", 12, "--temp", temperature, "--seed", seed,
                            "--ignore-eos", "-c", CONTEXT)  # fmt: skip
            answer = self.server.post("/v1/chat/completions", chat(temperature=temperature, seed=seed))
            self.assertEqual(answer["choices"][0]["message"]["content"], run["text"])

    def test_load_does_not_change_answers(self):
        bodies = [chat("Hello " * (i % 5 + 1), max_tokens=5 + i, temperature=i % 2, seed=i) for i in range(24)]
        alone = [self.server.post("/v1/chat/completions", body)["choices"][0]["message"] for body in bodies]
        with concurrent.futures.ThreadPoolExecutor(24) as pool:
            together = list(pool.map(lambda body: self.server.post("/v1/chat/completions", body), bodies))
        self.assertEqual([answer["choices"][0]["message"] for answer in together], alone)

    def test_cached_prompt_tokens_are_reported(self):
        first = self.server.post("/v1/chat/completions", chat("A" * 100))["usage"]
        again = self.server.post("/v1/chat/completions", chat("A" * 100 + "B"))["usage"]
        self.assertGreaterEqual(again["prompt_tokens_details"]["cached_tokens"], 100)
        self.assertLess(again["prompt_tokens_details"]["cached_tokens"], first["prompt_tokens"] + 1)

    def test_completions(self):
        body = {"prompt": "Hello", "max_tokens": 6, "temperature": 0, "logprobs": 1, "echo": True, "ignore_eos": True}
        choice = self.server.post("/v1/completions", body)["choices"][0]
        scores = choice["logprobs"]
        self.assertIsNone(scores["token_logprobs"][0])
        self.assertEqual(len(scores["tokens"]), 1 + 5 + 6)  # BOS, bytes, the answer
        self.assertTrue(choice["text"].endswith("".join(scores["tokens"][6:])) or "\ufffd" in choice["text"])
        none = self.server.post("/v1/completions", {**body, "max_tokens": 0})["choices"][0]["logprobs"]
        self.assertEqual(none["token_logprobs"], scores["token_logprobs"][:6])
        many = self.server.post("/v1/completions", {**body, "prompt": ["Hello", "Hello"], "n": 2, "echo": False})
        self.assertEqual([c["index"] for c in many["choices"]], [0, 1, 2, 3])
        ids = self.server.post("/tokenize", {"content": "Hello", "add_special": True})["tokens"]
        same = self.server.post("/v1/completions", {**body, "prompt": ids})["choices"][0]["text"]
        self.assertEqual(same, choice["text"])

    def test_texts_and_tokens(self):
        ids = self.server.post("/tokenize", {"content": "abc"})["tokens"]
        self.assertEqual(ids, [97, 98, 99])
        self.assertEqual(self.server.post("/detokenize", {"tokens": ids})["content"], "abc")
        prompt = self.server.post("/apply-template", {"messages": chat()["messages"]})["prompt"]
        self.assertEqual(prompt, "<s>[user]Hello[assistant]")
        self.refuse("/detokenize", {"tokens": [-1]})
        self.refuse("/detokenize", {"tokens": [1 << 40]})

    def test_labels_are_scored(self):
        found = self.server.post("/v1/classify", {"input": ["good", "so so"], "labels": ["up", "down"]})
        known = self.json("classify", self.long, "-t", 1, "-c", CONTEXT, "--labels", "up,down", "-p", "so so")
        self.assertEqual(found["data"][1]["logprobs"], known["results"][0]["logprobs"])
        self.assertEqual((found["data"][1]["label"], found["data"][1]["index"]), (known["results"][0]["label"], 1))
        for wrong, said in (({"input": "a"}, "labels"), ({"input": [], "labels": ["a", "b"]}, "input"),
                            ({"input": "a", "labels": ["a", "a"]}, "twice")):  # fmt: skip
            self.assertIn(said, self.refuse("/v1/classify", wrong)["message"])

    def test_inspect_over_http(self):
        lens = self.server.post("/v1/inspect", {"input": "hi", "top": 2})
        known = self.json("inspect", self.long, "-p", "hi", "--top", 2)
        self.assertEqual([token["id"] for token in lens["tokens"]], [token["id"] for token in known["tokens"]])
        for found, own in zip(lens["layers"], known["layers"], strict=True):
            for row, same in zip(found["lens"], own["lens"], strict=True):
                self.assertEqual([token["id"] for token in row], [token["id"] for token in same])
        whole = self.server.post("/v1/inspect", {"tokens": [256, 97, 98], "layers": [1], "heads": [0], "what":
                                                 ["attention", "queries", "keys", "hidden"]})  # fmt: skip
        layer, = whole["layers"]
        self.assertEqual([len(layer[part]) for part in ("attention", "queries", "keys", "hidden")], [1, 1, 1, 3])
        self.assertEqual([[len(row) for row in layer["attention"][0]], len(whole["embedding"])], [[3, 3, 3], 3])
        for row in layer["attention"][0]:
            self.assertAlmostEqual(sum(row), 1, places=5)
        for wrong, said in (({}, "input"), ({"input": "a", "tokens": [97]}, "input"), ({"input": "a", "what": "x"}, "'x'"),
                            ({"input": "a", "layers": [9]}, "layers"), ({"input": "a", "layers": [1, 0]}, "ascending"),
                            ({"input": "a", "top": 0}, "top"), ({"tokens": []}, "without tokens"),
                            ({"input": "a" * 5000}, "5001 tokens"), ({"tokens": [97] * 513}, "513 tokens")):  # fmt: skip
            with self.subTest(wrong=str(wrong)[:60]):
                self.assertIn(said, self.refuse("/v1/inspect", wrong)["message"])

    def test_replies_are_as_the_document_says(self):
        document = Document(json.loads(self.server.send("GET", "/openapi.json")[2]))
        self.assertEqual(document.document["info"]["version"], self.server.send("GET", "/api/version")[2].decode()[12:-2])
        bodies = {"/v1/chat/completions": chat(logprobs=True, top_logprobs=1, max_tokens=3), "/v1/tokenize": {"content": "a"},
                  "/v1/completions": {"prompt": "a", "max_tokens": 2, "logprobs": 1}, "/v1/inspect": {"input": "a", "what": [
                      "lens", "hidden", "attention", "keys", "queries"]}, "/v1/responses": {"input": "a", "max_output_tokens": 2},
                  "/v1/messages": {**chat(), "max_tokens": 2}, "/v1/messages/count_tokens": chat(),
                  "/v1/detokenize": {"tokens": [97]}, "/v1/apply-template": chat(), "/api/show": {"model": "tiny"},
                  "/api/chat": {**chat(), "model": "tiny", "stream": False}, "/api/generate":
                  {"model": "tiny", "prompt": "a", "stream": False, "options": {"num_predict": 2}}}  # fmt: skip
        stored = self.server.post("/v1/responses", bodies["/v1/responses"])["id"]
        for path, methods in document.document["paths"].items():
            with self.subTest(path=path):
                own = path.replace("{id}", stored if "responses" in path else "tiny")
                allowed = self.server.send("OPTIONS", own)[1]["Allow"]
                self.assertEqual(allowed.lower(), ", ".join(methods))
                if "json" not in str(next(iter(methods.values()))["responses"]["200"]["content"]):
                    continue
                method = allowed.split(", ")[0] if path not in bodies else "POST"
                status, _, text = self.server.send(method, own, bodies.get(path, None if method == "GET" else {}))
                self.assertEqual(status, 200 if method == "GET" or path in bodies else 400, text)
                self.assertIsNone(document.reply(path, status, json.loads(text)))
        self.assertIn("expected", document.reply("/v1/inspect", 200, {"object": "inspection", "model": 1, "tokens": [],
                                                                      "layers": []}))  # fmt: skip

    def test_stop_texts(self):
        whole = self.server.post("/v1/chat/completions", chat(max_tokens=40))["choices"][0]["message"]["content"]
        stop = whole[10:12]
        cut = self.server.post("/v1/chat/completions", chat(max_tokens=40, stop=[stop]))["choices"][0]
        self.assertEqual(cut["message"]["content"], whole[: whole.index(stop)])
        self.assertEqual(cut["finish_reason"], "stop")

    def test_the_bias_of_a_token(self):
        answer = self.server.post("/v1/chat/completions", chat(logit_bias={"97": 100}, max_tokens=5))
        self.assertEqual(answer["choices"][0]["message"]["content"], "aaaaa")

    def test_an_answer_goes_on(self):
        messages = [{"role": "user", "content": "Hello"}]
        letters = {str(letter): 50 for letter in range(97, 123)}
        whole = self.server.post("/v1/chat/completions", chat(logit_bias=letters))["choices"][0]["message"]["content"]
        begun = {**chat(max_tokens=12 - 4, logit_bias=letters), "messages": [*messages, {"role": "assistant", "content": whole[:4]}]}
        self.assertEqual(self.server.post("/v1/chat/completions", begun)["choices"][0]["message"]["content"], whole[4:])

    def structured(self, schema, seed, **more):
        """Returns an answer of random weights that a schema constrains."""
        form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
        body = {**chat(max_tokens=400, temperature=1.5, seed=seed, response_format=form), "ignore_eos": False, **more}
        status, _, text = self.server.send("POST", "/v1/chat/completions", body)
        if status == 400 and b"built without xgrammar" in text:
            self.skipTest("built without xgrammar")
        self.assertEqual(status, 200, text)
        choice = json.loads(text)["choices"][0]
        self.assertEqual(choice["finish_reason"], "stop", choice)
        return json.loads(choice["message"]["content"])

    def test_schemas_are_kept(self):
        schema = {
            "type": "object", "required": ["name", "kind", "count", "tags"], "additionalProperties": False,
            "properties": {"name": {"type": "string", "maxLength": 12}, "kind": {"enum": ["a", "b", 5]},
                           "count": {"type": "integer", "minimum": 3, "maximum": 17},
                           "tags": {"type": "array", "items": {"type": "boolean"}, "maxItems": 3}},
        }  # fmt: skip
        for seed in range(6):
            found = self.structured(schema, seed)
            self.assertEqual(set(found), set(schema["properties"]))
            self.assertLessEqual(len(found["name"]), 12)
            self.assertIn(found["kind"], ["a", "b", 5])
            self.assertTrue(3 <= found["count"] <= 17)
            self.assertTrue(len(found["tags"]) <= 3 and all(isinstance(tag, bool) for tag in found["tags"]))
        self.assertEqual(self.structured({"const": {"a": [1, None]}}, 1), {"a": [1, None]})
        date = {"type": "regex", "pattern": "[0-9]{4}-[01][0-9]"}
        text = self.server.post("/v1/chat/completions", chat(response_format=date, ignore_eos=False, temperature=2))
        self.assertRegex(text["choices"][0]["message"]["content"], r"^[0-9]{4}-[01][0-9]$")
        same = self.server.post("/api/chat", {"model": "tiny", "messages": chat()["messages"], "stream": False, "format": {"const": 7}})
        self.assertEqual(same["message"]["content"], "7")

    def test_schemas_that_cannot_be_kept_are_refused(self):
        self.structured({"const": 1}, 0)
        deep = {"type": "string"}
        for _ in range(120):
            deep = {"type": "array", "items": deep}
        for schema, word in [
            ({"type": "object", "not": {}}, "has no value"), ({"items": {"uniqueItems": True}}, "uniqueItems"),
            ({"type": "strin"}, "strin"), ({"$ref": "#/nowhere"}, "nowhere"), ({"type": "string", "pattern": "("}, "$.pattern"),
            ({"type": "array", "minItems": 1 << 40}, "has no value of at most"), (deep, "nested"), ({"enum": [1] * 300000}, "262144 bytes"),
            ({"$ref": "https://example.org/x"}, "another document"), ({"allOf": [{"type": "string"}, {"type": "integer"}]}, "$ has no value"),
            ({"type": "object", "properties": {"a": {"enum": [1], "minimum": 2}}, "required": ["a"]}, "$.properties.a has no value"),
            (7, "schema"),
        ]:  # fmt: skip
            form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
            error = self.refuse("/v1/chat/completions", {**chat(), "response_format": form})
            self.assertIn(word, error["message"])
            self.assertEqual(error["param"], "response_format")

    def test_annotations_are_no_restriction(self):
        annotated = {"type": "boolean", "x-order": 1, "example": True, "nullable": True, "contentEncoding": "base64", "format": "color"}
        for seed in range(3):
            self.assertIsInstance(self.structured(annotated, seed), bool)

    def test_strings_are_matched_not_their_json(self):
        self.assertEqual(self.structured({"type": "string", "pattern": '^"x"$'}, 1), '"x"')
        self.assertEqual(self.structured({"type": "string", "pattern": r"^\\n\n$"}, 1), "\\n\n")
        self.assertEqual(self.structured({"const": (1 << 64) - 1}, 1), (1 << 64) - 1)

    def test_a_grammar_that_cannot_end_is_refused(self):
        self.structured({"const": 1}, 0)
        for rules, word in [
            ('root ::= "a" root', "'root' derives no text"), ('root ::= "a" | b\nb ::= "b" b', "'b' derives no text"),
            ("root ::= nowhere", "nowhere"), ('x ::= "a"', "root"),
        ]:  # fmt: skip
            form = {"type": "grammar", "grammar": rules}
            error = self.refuse("/v1/chat/completions", {**chat(), "response_format": form})
            self.assertIn(word, error["message"])

    def test_an_ambiguous_grammar_ends_with_its_own_error(self):
        self.structured({"const": 1}, 0)
        form = {"type": "grammar", "grammar": 'root ::= s\ns ::= s s | [a-z ] | ""'}
        status, _, text = self.server.send("POST", "/v1/chat/completions", chat(max_tokens=2000, response_format=form))
        self.assertEqual(status, 400, text)
        self.assertIn(b"too ambiguous", text)
        self.assertTrue(self.server.post("/v1/chat/completions", chat(max_tokens=4))["choices"])

    def test_wrong_fields_are_named(self):
        for change, param in [
            ({"temperature": -1}, "temperature"), ({"temperature": "hot"}, "temperature"), ({"top_p": 2}, "top_p"),
            ({"n": 0}, "n"), ({"n": 1e9}, "n"), ({"max_tokens": -7}, "max_tokens"), ({"stop": [""]}, "stop"), ({"stop": 5}, "stop"),
            ({"messages": []}, "messages"), ({"messages": "Hello"}, "messages"), ({"messages": None}, "messages"),
            ({"logit_bias": {"x": "1"}}, "logit_bias"), ({"logit_bias": {"-1": 1}}, "logit_bias"), ({"top_logprobs": 21, "logprobs": True}, "top_logprobs"),
            ({"messages": [{"role": "king", "content": "x"}]}, "messages[0]"), ({"messages": [{"content": "x"}]}, "messages[0]"),
            ({"messages": [{"role": "user"}]}, "messages[0]"), ({"messages": [5]}, "messages[0]"),
            ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]}, "messages[0]"),
            ({"stream": "yes"}, "stream"), ({"seed": 1.5}, "seed"), ({"response_format": {"type": "yaml"}}, "response_format"),
            ({"tools": [{"type": "function"}]}, "tools"),
        ]:  # fmt: skip
            with self.subTest(change=change):
                error = self.refuse("/v1/chat/completions", {**chat(), **change})
                self.assertEqual((error["type"], error["param"]), ("invalid_request_error", param))
        error = self.refuse("/v1/chat/completions", chat("word " * 200))
        self.assertEqual(error["code"], "context_length_exceeded")
        error = self.refuse("/v1/chat/completions", chat(chat_template="{{ raise_exception('not so') }}"))
        self.assertIn("not so", error["message"])
        # A template that refuses tool results gets them as user messages.
        self.server.post("/v1/chat/completions", {**chat(), "messages": [{"role": "tool", "content": "x"}]})

    def test_bodies_that_are_none(self):
        for body in [b"", b"{", b"[]", b"nothing", b'{"messages": NaN}', b'{"messages": "\xff"}', b"[" * 5000, b'"' + b"a" * 1000]:
            with self.subTest(body=body[:20]):
                self.refuse("/v1/chat/completions", body)
        self.refuse("/v1/chat/completions", b'{"a":"' + b"a" * (1 << 21) + b'"}', status=413)

    def test_paths_and_methods(self):
        self.assertEqual(self.server.send("GET", "/nothing")[0], 404)
        status, headers, _ = self.server.send("GET", "/v1/chat/completions")
        self.assertEqual((status, headers["Allow"]), (405, "POST"))
        status, headers, body = self.server.send("HEAD", "/health")
        self.assertEqual((status, body), (200, b""))
        self.assertGreater(int(headers["Content-Length"]), 0)
        status, headers, _ = self.server.send("OPTIONS", "/v1/models")
        self.assertEqual((status, headers.get("Content-Length")), (204, None))
        models = json.loads(self.server.send("GET", "/v1/models")[2])["data"]
        self.assertEqual([model["id"] for model in models], ["tiny"])
        self.assertEqual(self.server.send("GET", "/v1/models/tiny")[0], 200)
        self.assertEqual(self.server.send("GET", "/v1/models/other")[0], 404)

    def test_the_web_page_is_compressed_kept_and_strict(self):
        status, headers, page = self.server.send("GET", "/")
        self.assertEqual((status, headers["Content-Type"]), (200, "text/html; charset=utf-8"))
        self.assertTrue(page.startswith(b"<!doctype html>") and page.rstrip().endswith(b"</html>"))
        self.assertIn("default-src 'none'", headers["Content-Security-Policy"])
        self.assertNotIn("unsafe", headers["Content-Security-Policy"])
        for inline in (rb"<script(?![^>]*\bsrc=)", rb"<style", rb"\sstyle=", rb"\son\w+=", rb"(?:src|href)=[\"']?(?:https?:)?//"):
            self.assertIsNone(re.search(inline, page), inline)
        files = re.findall(rb'(?:src|href)="(page/[^"]+)"', page)
        self.assertGreater(len(files), 5)
        for name in ["", *(file.decode() for file in files)]:
            with self.subTest(name=name):
                whole = self.server.send("GET", "/" + name)
                packed = self.server.send("GET", "/" + name, headers={"Accept-Encoding": "br, gzip;q=0.5"})
                self.assertEqual((whole[0], packed[0], packed[1]["Content-Encoding"]), (200, 200, "gzip"))
                self.assertNotIn("Content-Encoding", whole[1])
                self.assertEqual(gzip.decompress(packed[2]), whole[2])
                again = {"If-None-Match": f'"other", W/{whole[1]["ETag"]}'}
                status, headers, text = self.server.send("GET", "/" + name, headers=again)
                self.assertEqual((status, text, headers["ETag"]), (304, b"", whole[1]["ETag"]))
                self.assertNotIn("Content-Length", headers)
        refused = self.server.send("GET", "/", headers={"Accept-Encoding": "gzip;q=0"})
        self.assertNotIn("Content-Encoding", refused[1])
        for name in ("/page/nothing", "/page/../page.h", "/page/%2e%2e/page.h", "/page/"):
            self.assertEqual(self.server.send("GET", name)[0], 404, name)
        self.assertEqual(self.server.send("POST", "/page/main.js", {})[0], 405)

    def test_a_connection_serves_many_requests(self):
        connection = self.server.connect()
        for i in range(20):
            self.assertEqual(self.server.send("POST", "/tokenize", {"content": "a" * i}, connection=connection)[0], 200)
        connection.close()

    def test_requests_that_are_not_http(self):
        for data in [b"\x16\x03\x01\x02\x00\x01\x00", b"GET\r\n\r\n", b"POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n",
                     b"GET / HTTP/9.9\r\n\r\n", b"A" * 200000]:  # fmt: skip
            with self.subTest(data=data[:20]), self.server.raw() as stream:
                try:
                    stream.sendall(data)
                    stream.shutdown(socket.SHUT_WR)
                    reply = b"".join(iter(lambda: stream.recv(4096), b""))
                except ConnectionError:
                    reply = b""
                self.assertTrue(not reply or reply.startswith((b"HTTP/1.1 4", b"HTTP/1.1 505")), reply[:80])
        self.assertEqual(self.server.send("GET", "/health")[0], 200)

    def test_clients_that_leave_end_their_answer(self):
        before = self.server.metric("request_success_total", finished_reason="abort")
        for stream in (True, False):
            body = json.dumps(chat(max_tokens=400, n=100, stream=stream)).encode()
            with self.server.raw() as client:
                client.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
                if stream:
                    client.recv(100)
            self.server.idle()
        self.assertGreaterEqual(self.server.metric("request_success_total", finished_reason="abort"), before + 1)

    def test_partial_requests_block_nothing(self):
        halves = [self.server.raw() for _ in range(50)]
        for stream in halves:
            stream.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: 1000\r\n\r\n{")
        self.server.post("/v1/chat/completions", chat())
        for stream in halves:
            stream.close()

    def test_access_control(self):
        _, headers, _ = self.server.send("GET", "/v1/models", headers={"Origin": f"http://127.0.0.1:{self.server.port}"})
        self.assertIn("Access-Control-Allow-Origin", headers)
        self.assertEqual(self.server.send("GET", "/v1/models", headers={"Origin": "http://evil.example"})[0], 403)
        self.assertEqual(self.server.send("GET", "/v1/models", headers={"Host": "evil.example"})[0], 403)

    def test_messages_of_anthropic(self):
        body = {"max_tokens": 8, "messages": [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}], "system": "Be brief", "temperature": 0}
        message = self.server.post("/v1/messages", body)
        self.assertEqual((message["type"], message["role"]), ("message", "assistant"))
        self.assertIn(message["usage"]["output_tokens"], {8} if message["stop_reason"] == "max_tokens" else range(1, 9))
        _, _, text = self.server.send("POST", "/v1/messages", {**body, "stream": True})
        parts = [json.loads(line) for line in events(text)]
        self.assertEqual([parts[0]["type"], parts[-1]["type"]], ["message_start", "message_stop"])
        joined = "".join(p["delta"]["text"] for p in parts if p["type"] == "content_block_delta")
        self.assertEqual(joined, "".join(block["text"] for block in message["content"]))
        count = self.server.post("/v1/messages/count_tokens", body)["input_tokens"]
        usage = message["usage"]
        self.assertEqual(count, usage["input_tokens"] + usage["cache_read_input_tokens"])
        found, _, text = self.server.send("POST", "/v1/messages", {"messages": []})
        self.assertEqual((found, json.loads(text)["type"]), (400, "error"))

    def test_responses(self):
        body = {"input": "Hello", "max_output_tokens": 8, "temperature": 0}
        whole = self.server.post("/v1/responses", body)
        text = "".join(part["text"] for item in whole["output"] for part in item["content"])
        _, _, stream = self.server.send("POST", "/v1/responses", {**body, "stream": True})
        parts = [json.loads(line) for line in events(stream)]
        self.assertEqual([part["sequence_number"] for part in parts], list(range(len(parts))))
        self.assertEqual(parts[0]["type"], "response.created")
        self.assertEqual("".join(p["delta"] for p in parts if p["type"] == "response.output_text.delta"), text)
        self.assertEqual(self.refuse("/v1/responses", {**body, "previous_response_id": "x"})["param"], "previous_response_id")

    def test_ollama(self):
        self.assertEqual(json.loads(self.server.send("GET", "/api/tags")[2])["models"][0]["name"], "tiny")
        self.assertEqual(self.server.send("POST", "/api/show", {"model": "tiny:latest"})[0], 200)
        body = {"model": "tiny", "messages": chat()["messages"], "options": {"temperature": 0, "num_predict": 6}}
        lines = [json.loads(line) for line in self.server.send("POST", "/api/chat", body)[2].splitlines()]
        self.assertTrue(lines[-1]["done"])
        whole = self.server.post("/api/chat", {**body, "stream": False})
        self.assertEqual("".join(line["message"]["content"] for line in lines), whole["message"]["content"])
        self.assertEqual(whole["eval_count"], lines[-1]["eval_count"])
        text = self.server.post("/api/generate", {"model": "tiny", "prompt": "Hello", "stream": False, "options": {"temperature": 0, "num_predict": 6}})
        self.assertEqual(text["response"], whole["message"]["content"])

    def test_signals_end_streams(self):
        server = Server(self.long, "--grace", 1)
        body = json.dumps(chat(max_tokens=450, n=100, stream=True)).encode()
        with server.raw() as client:
            client.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            client.recv(10)
            server.process.send_signal(signal.SIGTERM)
            rest = b"".join(iter(lambda: client.recv(65536), b""))
        self.assertIn(b"data: ", rest)
        self.assertEqual(server.process.wait(timeout=30), 0)
        server.end()

    def test_keys(self):
        keys = self.write("keys", "first\n\n second \n")
        server = Server(self.long, "--api-key-file", keys)
        try:
            self.assertEqual(server.send("GET", "/health")[0], 200)
            for header in [{}, {"Authorization": "Bearer firs"}, {"Authorization": "first"}, {"x-api-key": ""}]:
                self.assertEqual(server.send("GET", "/v1/models", headers=header)[0], 401)
            for header in [{"Authorization": "Bearer first"}, {"x-api-key": "second"}]:
                self.assertEqual(server.send("GET", "/v1/models", headers=header)[0], 200)
        finally:
            server.end()

    def test_queues_are_bounded(self):
        server = Server(self.long, "-np", 1, "--queue", 2)
        try:
            with concurrent.futures.ThreadPoolExecutor(20) as pool:
                found = list(pool.map(lambda i: server.send("POST", "/v1/chat/completions", chat(max_tokens=200, seed=i)), range(20)))
            statuses = [status for status, _, _ in found]
            self.assertEqual(set(statuses), {200, 429})
            refused = next(headers for status, headers, _ in found if status == 429)
            self.assertIn("Retry-After", refused)
        finally:
            server.end()

    def test_failed_starts_are_reported(self):
        self.assertIn("--host", self.error("serve", self.long, "--host", "no.such.name", "--port", 0, status=2))
        self.assertIn("cannot listen", self.error("serve", self.long, "--port", self.server.port))
        done = subprocess.run([PROGRAM, "serve", self.folder / "none.gguf", "--port", "0"], capture_output=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(b"none.gguf", done.stderr)
        self.error("serve", self.long, "--port", 70000, status=2)


if __name__ == "__main__":
    assert PROGRAM and os.path.exists(PROGRAM), __doc__
    unittest.main()
