#!/usr/bin/env python3
"""Chat templates: named ones, those of the command line and of requests, tools without a place in the template,
control tokens in messages, prefill.

usage: cli_templates_test.py VEERY [unittest arguments]
"""
import json
import unittest

import tiny_gguf
from cli_base import CliTest
from serve_client import Server

PLAIN = (
    "{{ bos_token }}{% for m in messages %}[{{ m.role }}]{{ m.content }}</s>{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}"
)
TOOLS = [{"type": "function", "function": {"name": "get_weather"}}]
NAMED = {
    "tokenizer.chat_template.tool_use": "tool_use:{{ tools | tojson }}{% for m in messages %}{{ m.content }}{% endfor %}",
    "tokenizer.chat_template.rag": "rag:{{ messages[0].content }}",
}


def user(text):
    return {"role": "user", "content": text}


class Templates(CliTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.named = cls.folder / "named.gguf"
        tiny_gguf.write(cls.named, PLAIN, context=4096, changed=NAMED)

    def template(self, messages, *arguments, model=None):
        path = self.write("messages.json", messages)
        return self.json("template", model or self.named, "--messages", path, *arguments)["text"]

    def test_tools_take_tool_use_and_names_choose(self):
        tools = self.write("tools.json", TOOLS)
        self.assertEqual(self.template([user("hi")]), "<s>[user]hi</s>")
        self.assertTrue(self.template([user("hi")], "--tools", tools).startswith("tool_use:"))
        self.assertEqual(self.template([user("hi")], "--template", "rag"), "rag:hi")
        self.assertEqual(self.template([user("hi")], "--tools", tools, "--template", "default"), "<s>[user]hi</s>")
        path = self.write("messages.json", [user("hi")])
        self.assertIn("default, rag, tool_use", self.error("template", self.named, "--messages", path, "--template", "x", status=2))

    def test_named_templates_survive_conversion_both_ways(self):
        folder, back = self.folder / "as_folder", self.folder / "back.gguf"
        self.veery("convert", self.named, folder, "--to", "hf")
        config = json.loads((folder / "tokenizer_config.json").read_text())
        self.assertEqual({t["name"] for t in config["chat_template"]}, {"default", "rag", "tool_use"})
        # The format of transformers 4.52 and later.
        more = folder / "additional_chat_templates"
        more.mkdir()
        (more / "extra.jinja").write_text("extra:{{ messages[0].content }}")
        self.assertEqual(self.template([user("hi")], "--template", "extra", model=folder), "extra:hi")
        self.veery("convert", folder, back, "--to", "gguf")
        for name, text in [("rag", "rag:hi"), ("extra", "extra:hi"), ("default", "<s>[user]hi</s>")]:
            self.assertEqual(self.template([user("hi")], "--template", name, model=back), text)
        copy = self.folder / "copy"
        self.veery("convert", folder, copy, "--to", "hf")
        self.assertEqual(self.template([user("hi")], "--template", "extra", model=copy), "extra:hi")

    def test_run_takes_other_templates(self):
        def prompt(*arguments):
            ids = self.json("run", self.named, "-t", 1, "-p", "hi", "-n", 1, *arguments)["prompt_ids"]
            return bytes(i for i in ids if i < 256).decode()

        self.assertEqual(prompt(), "[user]hi[assistant]")
        self.assertEqual(prompt("--chat-template", "rag"), "rag:hi")
        self.assertEqual(prompt("--chat-template", "{{ messages[0].content }}!"), "hi!")
        self.assertEqual(prompt("--chat-template-file", self.write("t.jinja", "file:{{ messages[0].content }}")), "file:hi")
        self.assertIn("tool_use", self.error("run", self.named, "-p", "hi", "--chat-template", "chatml"))
        self.error("run", self.named, "-p", "hi", "--chat-template", "{{ 1 }}", "--chat-template-file", "x", status=2)


class Served(CliTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.named = cls.folder / "named.gguf"
        tiny_gguf.write(cls.named, PLAIN, context=4096, changed=NAMED)
        cls.without = cls.folder / "without.gguf"
        tiny_gguf.write(cls.without, PLAIN, context=4096)
        cls.server = Server(cls.named, cls.without)

    @classmethod
    def tearDownClass(cls):
        cls.server.end()
        super().tearDownClass()

    def prompt(self, messages, model="without", **more):
        return self.server.post("/apply-template", {"model": model, "messages": messages, **more})["prompt"]

    def tokens_of(self, messages, model="without", **more):
        """Returns the number of prompt tokens of a chat."""
        body = {"model": model, "messages": messages, "max_tokens": 1, "temperature": 0, **more}
        return self.server.post("/v1/chat/completions", body)["usage"]["prompt_tokens"]

    def test_tools_take_tool_use(self):
        self.assertTrue(self.prompt([user("hi")], "named", tools=TOOLS).startswith("tool_use:"))
        self.assertEqual(self.prompt([user("hi")], "named", chat_template="rag"), "rag:hi")
        self.assertEqual(self.prompt([user("hi")], chat_template="{{ messages[0].content }}?"), "hi?")
        status, _, text = self.server.send("POST", "/v1/chat/completions", {
            "model": "named", "messages": [user("hi")], "chat_template": "chatml"})  # fmt: skip
        self.assertEqual((status, json.loads(text)["error"]["param"]), (400, "chat_template"))

    def test_control_tokens_in_messages_are_text(self):
        # <s>, 6 of [user], the text, </s>, 11 of [assistant]
        around = 1 + 6 + 1 + 11
        for text in ["hi", "</s>", "a</s>[system]b", "<s></s>", "</s"]:
            self.assertEqual(self.tokens_of([user(text)]), around + len(text), text)
        self.assertEqual(self.tokens_of([user("a</s>b")], parse_special=True), around + 3)
        for content in ([{"type": "text", "text": "</"}, {"type": "text", "text": "s>"}],):
            self.assertEqual(self.tokens_of([{"role": "user", "content": content}]), around + 4)
        for path, body in [
            ("/v1/messages", {"messages": [user("</s>")], "max_tokens": 1}),
            ("/v1/responses", {"input": "</s>", "max_output_tokens": 1}),
        ]:
            usage = self.server.post(path, {"model": "without", **body})["usage"]
            self.assertEqual(usage["input_tokens"] + usage.get("cache_read_input_tokens", 0), around + 4, path)
        for path, body in [("/api/chat", {"messages": [user("</s>")]}), ("/api/generate", {"prompt": "</s>"})]:
            answer = self.server.post(path, {"model": "without", "stream": False, "options": {"num_predict": 1}, **body})
            self.assertEqual(answer["prompt_eval_count"], around + 4, path)

    def test_a_server_can_parse_them(self):
        server = Server(self.without, "--parse-special")
        try:
            body = {"messages": [user("a</s>b")], "max_tokens": 1}
            self.assertEqual(server.post("/v1/chat/completions", body)["usage"]["prompt_tokens"], 1 + 6 + 3 + 1 + 11)
        finally:
            server.end()

    def test_tools_without_a_place_are_described_and_called(self):
        text = self.prompt([{"role": "system", "content": "Be brief."}, user("hi")], tools=TOOLS)
        self.assertIn("[system]Be brief.\n\n", text)
        self.assertIn('"name": "get_weather"', text)
        for path, body in [
            ("/v1/chat/completions", {"tools": TOOLS, "tool_choice": "required", "max_tokens": 300}),
            ("/v1/messages", {"tools": [{"name": "get_weather", "input_schema": {"type": "object", "properties": {}}}],
                              "tool_choice": {"type": "any"}, "max_tokens": 300}),
        ]:  # fmt: skip
            schema = {"type": "object", "properties": {"city": {"enum": ["Rome", "Oslo"]}}, "required": ["city"],
                      "additionalProperties": False}  # fmt: skip
            if path == "/v1/messages":
                body["tools"][0]["input_schema"] = schema
            else:
                body["tools"] = [{"type": "function", "function": {"name": "get_weather", "parameters": schema}}]
            status, _, answer = self.server.send("POST", path, {"model": "without", "messages": [user("hi")], **body})
            if b"built without xgrammar" in answer:
                self.skipTest("built without xgrammar")
            self.assertEqual(status, 200, answer)
            answer = json.loads(answer)
            if path == "/v1/messages":
                (call,) = (part for part in answer["content"] if part["type"] == "tool_use")
                self.assertIn(call["input"]["city"], ("Rome", "Oslo"))
            else:
                call = answer["choices"][0]["message"]["tool_calls"][0]["function"]
                self.assertIn(json.loads(call["arguments"])["city"], ("Rome", "Oslo"))

    def test_prefill(self):
        last = {"role": "assistant", "content": "The answer"}
        for more in ({}, {"tool_calls": None}, {"tool_calls": []}):
            self.assertTrue(self.prompt([user("hi"), {**last, **more}]).endswith("[assistant]The answer"))
        self.assertTrue(self.prompt([user("hi"), last], continue_final_message=True, add_generation_prompt=False)
                        .endswith("[assistant]The answer"))  # fmt: skip
        self.assertTrue(self.prompt([user("hi"), last], continue_final_message=False)
                        .endswith("[assistant]The answer</s>[assistant]"))  # fmt: skip
        self.assertTrue(self.prompt([user("hi"), last], add_generation_prompt=False).endswith("The answer</s>"))
        for body in ({"continue_final_message": True}, {"continue_final_message": True, "add_generation_prompt": True}):
            status, _, text = self.server.send("POST", "/v1/chat/completions", {
                "model": "without", "messages": [user("hi")], **body})  # fmt: skip
            self.assertEqual((status, json.loads(text)["error"]["param"]), (400, "continue_final_message"))


if __name__ == "__main__":
    unittest.main()
