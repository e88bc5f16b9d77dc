#!/usr/bin/env python3
"""The table of docs/fields.md against the endpoints: a kept field is read, an ignored one changes nothing, a refused one is
refused by name, and any other name is reported.

usage: cli_serve_fields_test.py VEERY [unittest arguments]
"""
import copy
import json
import pathlib
import re
import unittest

import tiny_gguf
from cli_base import TEMPLATE, CliTest
from cli_serve_models_test import ENCODERS
from serve_client import Server

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "fields.md"
WRONG = [[]]  # of a type that no field accepts
PARTS = [{"type": "text", "text": "Hello"}]
MESSAGES = [{"role": "user", "content": PARTS}]
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
SAMPLING = {"temperature": 0, "max_tokens": 3}
OLLAMA = {"model": "tiny", "stream": False, "options": {"temperature": 0, "num_predict": 3}}
# A valid request for each endpoint.
BODIES = {
    "/v1/chat/completions": {"messages": MESSAGES, "tools": TOOLS, **SAMPLING},
    "/v1/completions": {"prompt": "Hello", **SAMPLING},
    "/v1/responses": {"input": [{"role": "user", "content": "Hello"}], "tools": [{"type": "function", "name": "f"}],
                      "temperature": 0, "max_output_tokens": 3},
    "/v1/messages": {"messages": MESSAGES, "system": [{"type": "text", "text": "Hello"}], "tools": [{"name": "f"}], **SAMPLING},
    "/v1/messages/count_tokens": {"messages": MESSAGES, "system": [{"type": "text", "text": "Hello"}], "tools": [{"name": "f"}]},
    "/api/chat": {"messages": MESSAGES, "tools": TOOLS, **OLLAMA},
    "/api/generate": {"prompt": "Hello", **OLLAMA},
    "/completion": {"prompt": "Hello", "temperature": 0, "n_predict": 3},
    "/infill": {"input_prefix": "Hello", "input_suffix": "!", "temperature": 0, "n_predict": 3},
    "/v1/embeddings": {"input": "Hello"},
    "/embedding": {"content": "Hello"},
    "/api/embeddings": {"model": "tiny", "prompt": "Hello"},
    "/v1/rerank": {"query": "Hello", "documents": ["a"]},
    "/v1/classify": {"input": "Hello", "labels": ["a", "b"]},
    "/v1/inspect": {"input": "Hello"},
    "/v1/tokenize": {"content": "Hello"},
    "/v1/detokenize": {"tokens": [97]},
    "/v1/apply-template": {"messages": MESSAGES, "tools": TOOLS},
    "/api/show": {"model": "tiny"},
    "/api/embed": {"model": "tiny", "input": "Hello"},
}
# Two names of one field: the other is removed when one is tested.
INSTEAD = {("/v1/tokenize", "prompt"): "content", ("/v1/rerank", "texts"): "documents", ("/api/show", "name"): "model",
           ("/v1/inspect", "tokens"): "input", ("/api/embeddings", "name"): "model", ("/embedding", "input"): "content"}  # fmt: skip
# The other members that an object needs beside a field.
BESIDE = {"thinking.budget_tokens": {"thinking": {"type": "enabled"}}, "thinking.display": {"thinking": {"type": "enabled"}},
          "tool_choice.name": {"tool_choice": {"type": "tool"}},
          "tool_choice.disable_parallel_tool_use": {"tool_choice": {"type": "auto"}}}  # fmt: skip
FORMS = {"/v1/audio/transcriptions"}  # endpoints with form fields


def read_page():
    """{endpoint: {field: use}}, {(endpoint, field): accepted values}"""
    rules, accepted, columns = {}, {}, []
    for line in PAGE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")] if line.startswith("|") else []
        cells = [cell.strip("|").strip() for cell in cells]
        if cells and cells[0] == "field":
            columns = [cell.strip("`") for cell in cells[1:]]
        elif cells and columns and columns[0].startswith("/"):
            for endpoint, use in zip(columns, cells[1:]):
                if use:
                    rules.setdefault(endpoint, {})[cells[0].strip("`")] = use
        elif cells and "accepted: " in line:
            values = json.loads("[" + re.search(r"accepted: `(.*)` \|$", line)[1] + "]")
            for endpoint in re.findall(r"`(/[^`]*)`", cells[2]):
                accepted[endpoint, cells[0].strip("`")] = values
    return rules, accepted


def sampling_fields():
    """(field, lowest value, highest value, whole) of each name in the page's table of sampling parameters."""
    table = PAGE.read_text().split("## Sampling parameters")[1].split("## Text generation")[0]
    row = re.compile(r"^\| `([^|]*)` \| ([-.\d]+) (?:to|or) ([-.\d]+)(, whole)? \|", re.MULTILINE)
    for names, low, high, whole in row.findall(table):
        for name in names.split("`, `"):
            yield name, json.loads(low), json.loads(high), bool(whole)


def with_field(body, name, value):
    """Returns a copy of `body` with a field set in the first item of each list of its path."""
    body = copy.deepcopy(body)
    place = body
    *path, last = name.split(".")
    for step in path:
        key = step.removesuffix("[]")
        if step.endswith("[]"):
            if not isinstance(place.get(key), list):
                place[key] = [{}]
            place = place[key][0]
        else:
            place = place.setdefault(key, {})
    place[last] = value
    return body


class Fields(CliTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        model = cls.folder / "tiny.gguf"
        fim = {f"tokenizer.ggml.fim_{part}_token_id": id for id, part in enumerate(("pre", "suf", "mid"), 1)}
        tiny_gguf.write(model, TEMPLATE, context=512, changed=fim)
        cls.texts = Server(model, "-a", "tiny")
        cls.encoder = Server(ENCODERS / "bert-mean", "-a", "tiny")
        cls.ranker = Server(ENCODERS / "bert-rerank", "-a", "tiny")
        cls.rules, cls.accepted = read_page()

    @classmethod
    def tearDownClass(cls):
        for server in (cls.texts, cls.encoder, cls.ranker):
            server.end()
        super().tearDownClass()

    def send(self, endpoint, body):
        server = self.ranker if "rerank" in endpoint else self.encoder if "embed" in endpoint else self.texts
        status, headers, text = server.send("POST", endpoint, body)
        return status, headers.get("Veery-Ignored-Fields", ""), text.decode()

    def answer(self, endpoint, body):
        """Returns the part of an answer that is the same for equal requests."""
        status, unknown, text = self.send(endpoint, body)
        self.assertEqual((status, unknown), (200, ""), text)
        if endpoint == "/v1/responses":  # the reply repeats the fields
            text = json.dumps(json.loads(text)["output"], separators=(",", ":"))
        drop = r'"(id|created|created_at|completed_at|call_id|[a-z_]*duration|expires_at|cached_tokens|prompt_tokens|input_tokens|cache_[a-z_]*|seed|prompt_n|[a-z_]*_ms|[a-z_]*_per_second)":("[^"]*"|[^,}]*)'
        return re.sub(drop, "", text)

    def each(self, use, test):
        """Calls a test with endpoint, field and a body for each field of that use."""
        count = 0
        for endpoint, rules in self.rules.items():
            for name, found in rules.items() if endpoint not in FORMS else ():
                if found == use:
                    count += 1
                    with self.subTest(endpoint=endpoint, field=name):
                        test(endpoint, name, BODIES[endpoint])
        self.assertGreater(count, 20)

    def test_the_page_covers_all_endpoints(self):
        self.assertEqual(set(self.rules), set(BODIES) | FORMS)

    def test_a_kept_field_is_read(self):
        def test(endpoint, name, body):
            if "[]" in name:  # members of an item depend on its type; see cli_agents_test.py
                return
            body = {key: value for key, value in body.items() if key != INSTEAD.get((endpoint, name))}
            status, _, text = self.send(endpoint, with_field({**body, **BESIDE.get(name, {})}, name, WRONG))
            self.assertEqual(status, 400, text)
            self.assertIn(name.split(".")[-1], text)

        self.each("kept", test)

    def test_sampling_parameters_have_the_ranges_of_the_page(self):
        fields = list(sampling_fields())
        self.assertGreater(len(fields), 20)
        for endpoint, rules in self.rules.items():
            prefix = "options." if "options.top_k" in rules else ""
            if prefix + "top_k" not in rules:  # no text is generated
                continue
            for limits in zip(*((low, high) for _, low, high, _ in fields)):  # all lowest values, all highest values
                body = BODIES[endpoint]
                for (name, *_), value in zip(fields, limits):
                    body = with_field(body, prefix + name, value)
                self.assertEqual(self.send(endpoint, body)[:2], (200, ""), endpoint)
            for name, low, high, whole in fields:
                for value in [low - 1, high * 2 + 1, "1", True] + ([0.5] if whole else []):
                    with self.subTest(endpoint=endpoint, field=name, value=value):
                        status, _, text = self.send(endpoint, with_field(BODIES[endpoint], prefix + name, value))
                        self.assertEqual(status, 400, text)
                        self.assertIn(f"{prefix + name} is ", text)

    def test_an_ignored_field_changes_nothing(self):
        plain = {endpoint: self.answer(endpoint, body) for endpoint, body in BODIES.items()}

        def test(endpoint, name, body):
            self.assertEqual(self.answer(endpoint, with_field(body, name, WRONG)), plain[endpoint])

        self.each("ignored", test)

    def test_a_refused_field_is_refused_by_name(self):
        def test(endpoint, name, body):
            status, _, text = self.send(endpoint, with_field(body, name, {"veery": 1}))
            self.assertEqual(status, 400, text)
            self.assertIn(name.split(".")[-1], text)
            for value in [None, "", [], {}, *self.accepted.get((endpoint, name), [])]:
                status, _, text = self.send(endpoint, with_field(body, name, value))
                self.assertEqual(status, 200, (value, text))

        self.each("refused", test)

    def test_other_names_are_reported(self):
        for endpoint, body in BODIES.items():
            with self.subTest(endpoint=endpoint):
                status, unknown, text = self.send(endpoint, {**body, "a_new_field": 1, "an\r\nodd: name\u00e4": 2})
                self.assertEqual(status, 200, text)
                self.assertRegex(unknown, r"^a_new_field, an\?\?odd\?\?name\?\?$")
        nested = with_field(BODIES["/v1/chat/completions"], "messages[].content[].odd", 1)
        self.assertEqual(self.send("/v1/chat/completions", nested)[1], "messages[].content[].odd")


if __name__ == "__main__":
    unittest.main()
