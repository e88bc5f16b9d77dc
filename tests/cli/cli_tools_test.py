#!/usr/bin/env python3
"""Tool calls that a request forces, through each API, with a model of random weights.

usage: cli_tools_test.py VEERY [unittest arguments]
"""
import json
import unittest

import tiny_gguf
from cli_base import CliTest
from serve_client import Server

# The syntax of Qwen and Hermes.
TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}<|user|>{{ m.role }}\n{{ m.content }}{% for c in m.tool_calls or [] %}"
    "{% if not loop.first %}{{ '\\n' }}{% endif %}<tool_call>\n"
    '{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}\n</tool_call>{% endfor %}'
    "{{ eos_token }}{% endfor %}{% if add_generation_prompt %}<|user|>assistant\n{% endif %}"
)
SCHEMAS = {
    "add": {"type": "object", "properties": {"a": {"type": "integer", "minimum": 0, "maximum": 99}, "b": {"enum": [1, 2]}},
            "required": ["a", "b"], "additionalProperties": False},
    "say": {"type": "object", "properties": {"word": {"enum": ["yes", "no"]}}, "required": ["word"],
            "additionalProperties": False},
}  # fmt: skip
TOOLS = [{"type": "function", "function": {"name": name, "parameters": schema}} for name, schema in SCHEMAS.items()]


class Tools(CliTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        model = cls.folder / "tools.gguf"
        tiny_gguf.write(model, TEMPLATE, context=2048)
        cls.server = Server(model, cls.bare, "-np", 4)
        status, _, text = cls.server.send("POST", "/v1/chat/completions", cls.chat(0, tool_choice="required"))
        cls.without = b"built without xgrammar" in text
        if not cls.without and status != 200:
            raise AssertionError(text)

    @classmethod
    def tearDownClass(cls):
        cls.server.end()
        super().tearDownClass()

    def setUp(self):
        if self.without:
            self.skipTest("built without xgrammar")

    @staticmethod
    def chat(seed, **more):
        return {"model": "tools", "messages": [{"role": "user", "content": "do"}], "tools": TOOLS, "seed": seed,
                "temperature": 1, "logit_bias": {str(ord("\n")): 2 * (seed % 4)}, "max_tokens": 400, **more}  # fmt: skip

    def check(self, name, arguments):
        self.assertIn(name, SCHEMAS)
        if name == "add":
            self.assertIn(arguments["a"], range(100))
            self.assertIn(arguments["b"], (1, 2))
        else:
            self.assertIn(arguments["word"], ("yes", "no"))
        self.assertEqual(set(arguments), set(SCHEMAS[name]["required"]))

    def test_any_tool(self):
        called, counts = set(), set()
        for seed in range(16):
            choice = self.server.post("/v1/chat/completions", self.chat(seed, tool_choice="required"))["choices"][0]
            if choice["finish_reason"] == "length":
                continue
            self.assertEqual((choice["finish_reason"], choice["message"]["content"]), ("tool_calls", None))
            for call in choice["message"]["tool_calls"]:
                self.check(call["function"]["name"], json.loads(call["function"]["arguments"]))
                called.add(call["function"]["name"])
            counts.add(len(choice["message"]["tool_calls"]))
        self.assertEqual(called, set(SCHEMAS))
        self.assertGreater(max(counts), 1)

    def test_one_call_of_one_tool(self):
        for seed in range(4):
            named = {"type": "function", "function": {"name": "say"}}
            for more, names in [({"tool_choice": named}, ["say"]),
                                ({"tool_choice": "required", "parallel_tool_calls": False}, SCHEMAS)]:  # fmt: skip
                choice = self.server.post("/v1/chat/completions", self.chat(seed, **more))["choices"][0]
                (call,) = choice["message"]["tool_calls"]
                self.assertIn(call["function"]["name"], names)
                self.check(call["function"]["name"], json.loads(call["function"]["arguments"]))

    def test_anthropic(self):
        tools = [{"name": name, "input_schema": schema} for name, schema in SCHEMAS.items()]
        body = {"model": "tools", "max_tokens": 400, "messages": [{"role": "user", "content": "do"}], "tools": tools,
                "temperature": 1}  # fmt: skip
        for choice, names in [({"type": "tool", "name": "add"}, ["add"]),
                              ({"type": "any", "disable_parallel_tool_use": True}, SCHEMAS)]:  # fmt: skip
            answer = self.server.post("/v1/messages", {**body, "tool_choice": choice})
            self.assertEqual(answer["stop_reason"], "tool_use")
            if "disable_parallel_tool_use" in choice:
                self.assertEqual(len(answer["content"]), 1)
            for block in answer["content"]:
                self.assertEqual(block["type"], "tool_use")
                self.assertIn(block["name"], names)
                self.check(block["name"], block["input"])

    def test_responses(self):
        tools = [{"type": "function", "name": name, "parameters": schema} for name, schema in SCHEMAS.items()]
        answer = self.server.post("/v1/responses", {
            "model": "tools", "input": "do", "tools": tools, "tool_choice": {"type": "function", "name": "say"}})  # fmt: skip
        (call,) = answer["output"]
        self.assertEqual((call["type"], call["name"]), ("function_call", "say"))
        self.check("say", json.loads(call["arguments"]))

    def test_calls_that_cannot_be_forced_are_errors(self):
        number = {"type": "object", "properties": {"a": {"type": "number", "multipleOf": 0.01}}}
        unkept = [{"type": "function", "function": {"name": "f", "parameters": number}}]
        for more, part in [
            ({"tool_choice": {"type": "function", "function": {"name": "fly"}}}, "there is no tool 'fly'"),
            ({"tool_choice": "required", "tools": []}, "there are no tools to call"),
            ({"tool_choice": "always"}, "tool_choice"),
            ({"tool_choice": {"type": "code"}}, "tool_choice.type"),
            ({"tool_choice": "required", "tools": unkept}, "'f': schema: $.properties.a.multipleOf"),
            ({"tool_choice": "required", "response_format": {"type": "json_object"}}, "cannot be combined with another format"),
        ]:
            with self.subTest(more=more):
                status, _, text = self.server.send("POST", "/v1/chat/completions", self.chat(0, **more))
                self.assertEqual(status, 400, text)
                self.assertIn(part, json.loads(text)["error"]["message"])


# A token that begins a call, so that random weights often write one.
OPEN = 258


class StrictTools(CliTest):
    """Calls of strict tools in answers that may be text, sampled from a flat distribution."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        model = cls.folder / "strict.gguf"
        tiny_gguf.write(model, TEMPLATE, context=2048, tokens=["<tool_call>"])
        cls.server = Server(model, cls.bare, "-np", 4)
        forced = {**Tools.chat(0, tool_choice="required"), "model": "strict"}
        status, _, text = cls.server.send("POST", "/v1/chat/completions", forced)
        cls.without = b"built without xgrammar" in text
        if not cls.without and status != 200:
            raise AssertionError(text)

    @classmethod
    def tearDownClass(cls):
        cls.server.end()
        super().tearDownClass()

    def setUp(self):
        if self.without:
            self.skipTest("built without xgrammar")

    check = Tools.check
    drawn = {"model": "strict", "temperature": 2, "top_p": 1, "min_p": 0, "logit_bias": {str(OPEN): 3, "257": 1}}

    def test_chat(self):
        tools = [{"type": "function", "function": {**tool["function"], "strict": True}} for tool in TOOLS]
        called, texts = set(), 0
        for seed in range(12):
            body = {**self.drawn, "messages": [{"role": "user", "content": "do"}], "tools": tools, "seed": seed, "max_tokens": 200}
            choice = self.server.post("/v1/chat/completions", body)["choices"][0]
            calls = choice["message"].get("tool_calls") or []
            if choice["finish_reason"] == "length":
                calls = calls[:-1]
            for call in calls:
                self.check(call["function"]["name"], json.loads(call["function"]["arguments"]))
                called.add(call["function"]["name"])
            texts += bool(choice["message"]["content"])
        self.assertEqual(called, set(SCHEMAS))
        self.assertGreater(texts, 0)
        body["tools"] = TOOLS  # not strict: random text after the token is not a call
        self.assertIsNone(self.server.post("/v1/chat/completions", body)["choices"][0]["message"].get("tool_calls"))

    def test_responses(self):
        tools = [{"type": "function", "name": name, "parameters": schema, "strict": True} for name, schema in SCHEMAS.items()]
        count = 0
        for seed in range(6):
            answer = self.server.post("/v1/responses", {**self.drawn, "input": "do", "tools": tools, "seed": seed, "max_output_tokens": 200})
            calls = [item for item in answer["output"] if item["type"] == "function_call"]
            for call in calls if answer["status"] == "completed" else calls[:-1]:
                self.check(call["name"], json.loads(call["arguments"]))
                count += 1
        self.assertGreater(count, 0)

    def test_anthropic(self):
        tools = [{"name": name, "input_schema": schema, "strict": True} for name, schema in SCHEMAS.items()]
        count = 0
        for seed in range(6):
            body = {**self.drawn, "messages": [{"role": "user", "content": "do"}], "tools": tools, "seed": seed, "max_tokens": 200}
            answer = self.server.post("/v1/messages", body)
            calls = [block for block in answer["content"] if block["type"] == "tool_use"]
            for call in calls if answer["stop_reason"] != "max_tokens" else calls[:-1]:
                self.check(call["name"], call["input"])
                count += 1
        self.assertGreater(count, 0)

    def test_a_schema_that_cannot_be_kept_is_refused(self):
        number = {"type": "object", "properties": {"a": {"type": "number", "multipleOf": 0.01}}}
        for strict, expected in ((True, 400), (False, 200)):
            tools = [{"type": "function", "function": {"name": "f", "parameters": number, "strict": strict}}]
            status, _, text = self.server.send("POST", "/v1/chat/completions", {
                **self.drawn, "messages": [{"role": "user", "content": "do"}], "tools": tools, "max_tokens": 4})  # fmt: skip
            self.assertEqual(status, expected, text)
            if strict:
                self.assertIn("'f': schema: $.properties.a.multipleOf", json.loads(text)["error"]["message"])


class OtherForms(CliTest):
    """Templates with calls as keys and values between marks, and as code."""

    def answer(self, name, calls, prefix="", **more):
        model = self.folder / f"{name}.gguf"
        template = prefix + TEMPLATE[: TEMPLATE.index("{% if not loop.first")] + calls + TEMPLATE[TEMPLATE.index("{% endfor %}{{ eos_token"):]
        tiny_gguf.write(model, template, context=2048)
        server = Server(model, self.bare)
        try:
            return server.send("POST", "/v1/chat/completions", {**Tools.chat(1, **more), "model": name})
        finally:
            server.end()

    def test_values_between_marks(self):
        calls = (
            "<tool_call>{{ c.function.name }}\n{% for k, v in c.function.arguments.items() %}<arg_key>{{ k }}</arg_key>\n"
            "<arg_value>{{ v if v is string else v | tojson }}</arg_value>\n{% endfor %}</tool_call>"
        )
        named = {"type": "function", "function": {"name": "add"}}
        status, _, text = self.answer("glm", calls, tool_choice=named, max_tokens=1000)
        if b"built without xgrammar" in text:
            self.skipTest("built without xgrammar")
        self.assertEqual(status, 200, text)
        (call,) = json.loads(text)["choices"][0]["message"]["tool_calls"]
        Tools.check(self, call["function"]["name"], json.loads(call["function"]["arguments"]))

    def test_strict_is_named_where_calls_are_code(self):
        calls = (
            "<|tool_call>call:{{ c.function.name }}{{ '{' }}{% for k, v in c.function.arguments.items() %}{{ k }}:{{ v }},{% endfor %}"
            "{{ '}' }}<tool_call|>"
        )
        tools = [{"type": "function", "function": {**tool["function"], "strict": True}} for tool in TOOLS]
        # Tools that a template does not render are described in a generic syntax.
        prefix = "{% if tools %}{{ tools | tojson }}{% endif %}"
        status, headers, text = self.answer("code", calls, prefix, tools=tools, max_tokens=4)
        self.assertEqual(status, 200, text)
        self.assertIn("tools[].function.strict", headers.get("Veery-Ignored-Fields", ""))


if __name__ == "__main__":
    unittest.main()
