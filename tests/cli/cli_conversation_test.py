#!/usr/bin/env python3
"""Conversations of `veery run`: reasoning, template variables, tools, saved chats, and the commands that change a chat.

usage: cli_conversation_test.py VEERY [unittest arguments]
"""
import json
import re
import subprocess
import unittest

import tiny_gguf
from chat_terminal import CTRL_C, TerminalTest
from cli_base import PROGRAM, CliTest

# A template with reasoning, switches, tools, calls and results.
TEMPLATE = (
    "{% for t in tools or [] %}<tools>{{ t.function.name }}</tools>{% endfor %}{% if extra %}({{ extra }}){% endif %}"
    "{% for m in messages %}[{{ m.role }}]{{ m.content or '' }}{% for c in m.tool_calls or [] %}<tool_call>"
    "{{ {'name': c.function.name, 'arguments': c.function.arguments} | tojson }}</tool_call>{% endfor %}{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% if enable_thinking is defined and not enable_thinking %}<think></think>"
    "{% else %}<think>{{ reasoning_effort }}{% endif %}{% endif %}"
)
NO_SWITCH = "{% for m in messages %}{{ m.content }}{% endfor %}<think></think>"
WEATHER = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {"in": {"type": "string"}}}}}
CALL = '<tool_call>{"name": "weather", "arguments": {"in": "Oslo"}}</tool_call>'


def pattern(text):
    return text.replace("{", r"\{").replace("}", r"\}")


def needs_grammar(test):
    """Skips a test with constrained answers if the build has no grammars."""

    def run(self):
        if b"built without xgrammar" in subprocess.run([PROGRAM, "run", self.model, "-p", "x", "--regex", "x"], capture_output=True, check=False).stderr:
            self.skipTest("built without xgrammar")
        test(self)

    return run


class Flags(CliTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.thinker, cls.stubborn = cls.folder / "thinker.gguf", cls.folder / "stubborn.gguf"
        tiny_gguf.write(cls.thinker, TEMPLATE, 512)
        tiny_gguf.write(cls.stubborn, NO_SWITCH, 512)
        cls.tools = cls.folder / "tools.json"
        cls.tools.write_text(json.dumps([WEATHER]))

    def prompt(self, *arguments, model=None):
        ids = self.json("run", model or self.thinker, "-t", 1, "-n", 0, *arguments)["prompt_ids"]
        return bytes(ids[1:]).decode()

    def test_reasoning(self):
        for flags, end in (([], "<think>"), (["--think"], "<think>"), (["--think", "high"], "<think>high"), (["--think=low"], "<think>low"),
                           (["--no-think"], "<think></think>"), (["--think=false"], "<think></think>")):
            self.assertEqual(self.prompt("-p", "hi", *flags), f"[user]hi[assistant]{end}", flags)
        # Any other word after --think is part of the prompt.
        self.assertEqual(self.prompt("--think", "why", "so"), "[user]why so[assistant]<think>")
        self.assertIn("not one of low, medium, high", self.error("run", self.thinker, "--think=much", "-p", "hi", status=2))
        self.assertIn("--think", self.error("run", self.thinker, "--think", "--no-think", "-p", "hi", status=2))
        self.assertIn("does not reason", self.error("run", self.model, "--think", "-p", "hi", status=2))
        self.veery("run", self.model, "--no-think", "-p", "hi", "-n", 1)

    def test_a_template_without_a_switch_is_reported(self):
        for flag, said in ((["--no-think"], "cannot switch reasoning: --no-think has no effect"), (["--think"], "--think has no effect"),
                           (["--think", "low"], "no reasoning levels")):
            done = self.veery("run", self.stubborn, "-p", "hi", "-n", 1, *flag)
            self.assertEqual([said in line for line in done.stderr.decode().splitlines()].count(True), 1, done.stderr)

    def test_reasoning_is_hidden(self):
        # Four letters of reasoning without an end.
        answer = ["run", self.thinker, "-p", "hi", "-n", 4, "--temp", 0, "-t", 1, "--think", "--ignore-eos", "--logit-bias", f"{ord('a')}+100"]
        self.assertEqual(self.veery(*answer, "-q").stdout, b"aaaa\n")
        self.assertEqual(self.veery(*answer, "-q", "--hide-thinking").stdout, b"\n")
        self.assertEqual(self.json(*answer)["message"]["reasoning_content"], "aaaa")
        self.assertNotIn("reasoning_content", self.json(*answer, "--hide-thinking")["message"])

    def test_template_variables(self):
        for value, shown in (('"a b"', "a b"), ("3", "3"), ("true", "True")):
            self.assertTrue(self.prompt("-p", "hi", "--template-arg", f"extra={value}").startswith(f"({shown})"), value)
        self.assertTrue(self.prompt("-p", "hi", "--think", "--template-arg", "enable_thinking=false").endswith("<think></think>"))
        for wrong, said in (("extra", "not NAME=VALUE"), ("=1", "not NAME=VALUE"), ("extra=2024-01-01", "expected JSON"), ("messages=[]", "set by the chat")):
            self.assertIn(said, self.error("run", self.thinker, "-p", "hi", "--template-arg", wrong, status=2))
        for more in (["--raw"], ["-m", self.bare]):
            model = [] if more[0] == "-m" else [self.thinker]
            self.assertIn("template", self.error("run", *model, "-p", "hi", "--template-arg", "a=1", *more, status=2))

    @needs_grammar
    def test_calls_are_json_lines(self):
        call = ["run", self.thinker, "-p", "hi", "-t", 1, "--no-think", "--tools", self.tools]
        self.assertTrue(self.prompt("-p", "hi", "--tools", self.tools).startswith("<tools>weather</tools>"))
        done = self.veery(*call, "-q", "--regex", "Well" + pattern(CALL) + pattern(CALL))
        lines = done.stdout.decode().splitlines()
        self.assertEqual(lines[0], "Well")
        for i, line in enumerate(lines[1:]):
            known = json.loads(line)
            self.assertEqual((known["id"], known["type"], known["function"]["name"]), (f"call_{i + 1}", "function", "weather"))
            self.assertEqual(json.loads(known["function"]["arguments"]), {"in": "Oslo"})
        self.assertEqual(len(lines), 3)
        message = self.json(*call, "--regex", pattern(CALL))["message"]
        self.assertEqual([call["function"]["name"] for call in message["tool_calls"]], ["weather"])

    def test_wrong_tools_are_named(self):
        for text, said in (("{}", "is a JSON object, expected an array of functions"), ('[{"name": "f"}]', "[0] has no function with a name"),
                           ("[", "tools")):
            path = self.folder / "wrong tools.json"
            path.write_text(text)
            message = self.error("run", self.thinker, "-p", "hi", "--tools", path)
            self.assertIn(said, message)
            self.assertIn("wrong tools.json", message)

    def test_load(self):
        path = self.folder / "chat.json"
        saved = {"format": "veery-chat", "version": 1, "model": "x", "parameters": {"temperature": 0, "max_tokens": 3},
                 "template_args": {"extra": "E"}, "tools": [WEATHER],
                 "messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}
        path.write_text(json.dumps(saved))
        start = "<tools>weather</tools>(E)"
        self.assertEqual(self.prompt("--load", path, "-p", "c"), start + "[system]S[user]a[assistant]b[user]c[assistant]<think>")
        self.assertEqual(self.prompt("--load", path, "-p", "c", "--system", "T", "--template-arg", "extra=1"),
                         start.replace("E", "1") + "[system]T[user]a[assistant]b[user]c[assistant]<think>")
        done = self.json("run", self.thinker, "--load", path, "-p", "c", "-t", 1)
        self.assertEqual(len(done["ids"]), 3)
        # A conversation that ends with a user message needs no prompt.
        path.write_text(json.dumps(saved["messages"][:2]))
        self.assertEqual(self.prompt("--load", path), "[system]S[user]a[assistant]<think>")

    def test_load_of_the_web_page(self):
        path = self.folder / "page.json"
        nodes = [{"id": "1", "parent": "", "role": "user", "text": "a", "made": 1}, {"id": "2", "parent": "1", "role": "assistant", "text": "old", "made": 2},
                 {"id": "3", "parent": "1", "role": "assistant", "text": "new", "thought": "hm", "made": 3}]
        chat = {"id": "c", "title": "t", "system": "S", "sampling": {"temperature": "0", "max_tokens": 2, "top_p": ""}, "leaf": "3", "nodes": nodes}
        path.write_text(json.dumps({"format": "veery-chats", "version": 1, "chats": [chat]}))
        self.assertEqual(self.prompt("--load", path, "-p", "c"), "[system]S[user]a[assistant]new[user]c[assistant]<think>")
        path.write_text(json.dumps({"format": "veery-chats", "version": 1, "chats": [chat, chat]}))
        self.assertIn("an export of the web page with 2 chats, expected one", self.error("run", self.thinker, "--load", path, "-p", "c"))

    def test_files_that_are_no_chat_are_one_line(self):
        path = self.folder / "wrong.json"
        user = '[{"role": "user", "content": "a"}]'
        for text, said in (
            ("no json", "wrong.json"), ("3", "found a JSON number"), ("[]", "messages is empty"), ("{}", "the format is missing"),
            ('{"format": "x\\u001b[31m"}', 'the format is "x'), ('{"format": "veery-chat"}', "the version is missing, expected 1"),
            ('{"format": "veery-chat", "version": 2}', "the version is 2, expected 1"), ('{"format": "veery-chat", "version": 1}', "found no messages"),
            ('{"format": "veery-chat", "version": 1, "messages": {}}', "is a JSON object, expected an array"),
            ('[{"role": "user"}]', "messages[0]: has no content"), ('[{"role": "king", "content": "a"}]', "its role is 'king'"),
            ('[{"role": "user", "content": 5}]', "content is a JSON number"),
            (f'{{"format": "veery-chat", "version": 1, "parameters": {{"temperature": "hot"}}, "messages": {user}}}', "'temperature' is a JSON string"),
            (f'{{"format": "veery-chat", "version": 1, "parameters": {{"temperature": -5}}, "messages": {user}}}', "temperature is -5, expected"),
            (f'{{"format": "veery-chat", "version": 1, "parameters": {{"warmth": 1}}, "messages": {user}}}', "unknown parameter 'warmth'"),
            (f'{{"format": "veery-chat", "version": 1, "tools": 5, "messages": {user}}}', "tools is a JSON number"),
            ('{"format": "veery-chats", "version": 1, "chats": [{"nodes": [5]}]}', "found a JSON number"),
        ):
            path.write_text(text)
            message = self.error("run", self.thinker, "--load", path, "-p", "c")
            self.assertIn(said, message, text)
            self.assertNotIn("\x1b", message)
        self.assertIn("excludes --session", self.error("run", self.thinker, "--load", path, "--session", path, "-p", "c", status=2))
        self.assertIn("--raw", self.error("run", self.thinker, "--load", path, "--raw", "-p", "c", status=2))


class Chats(TerminalTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.thinker = cls.folder / "thinker.gguf"
        tiny_gguf.write(cls.thinker, TEMPLATE, 1024)
        cls.small = cls.folder / "small.gguf"
        tiny_gguf.write(cls.small, "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}[a]", 128)

    def messages(self, path):
        return [(m["role"], m["content"]) for m in json.loads(path.read_text())["messages"]]

    def test_undo_retry_save_and_load(self):
        chat = self.home / "a chat.json"
        self.start("-n", "8", "-sys", "S", "--temp", "0.9", "--top-k", "7")
        self.assertIn("no message to remove", self.say("/undo"))
        self.assertIn("no message to answer", self.say("/retry"))
        self.say("one")
        self.say("two")
        self.assertIn("Removed the last turn (2 messages).", self.say("/undo"))
        self.assertIn(f"Saved 3 messages to {chat}.", self.say(f"/save {chat}"))
        saved = json.loads(chat.read_text())
        self.assertEqual((saved["format"], saved["version"], saved["model"]), ("veery-chat", 1, str(self.model)))
        self.assertEqual((saved["parameters"]["temperature"], saved["parameters"]["top_k"], saved["parameters"]["max_tokens"]), (0.9, 7, 8))
        first = self.messages(chat)
        self.assertEqual([(role, text) for role, text in first[:2]], [("system", "S"), ("user", "one")])
        self.say("/set seed 99")
        self.assertIn("[prompt", self.say("/retry"))
        self.assertIn("Saved", self.say(f"/save {chat}"))  # a file of this chat
        second = self.messages(chat)
        self.assertEqual(second[:2], first[:2])
        self.assertNotEqual(second[2], first[2])
        self.assertIn("Removed", self.say("/clear"))
        self.assertIn(f"Loaded 3 messages from {chat}.", self.say(f"/load {chat}"))
        self.assertIn("[assistant]", self.say("/show messages"))
        self.leave()
        self.start("-n", "8", "--load", str(chat))
        self.assertRegex(self.say("three"), r"\[prompt \d+ tokens")
        shown = self.say("/show")
        for part in ("5 messages", "system         S", "temperature 0, ", "top_k 7"):
            self.assertIn(part, shown)

    def test_loading_keeps_settings_that_the_file_does_not_have(self):
        chat = self.write("plain.json", [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}])
        own = self.write("own.json", {"format": "veery-chat", "version": 1, "template_args": {"extra": 2}, "messages": []})
        self.start("--no-think", "--template-arg", "extra=1", "-n", "3", model=self.thinker)
        for path, extra in ((chat, 1), (own, 2), (chat, 2)):
            self.say(f"/load {path}")
            shown = self.say("/show")
            for part in (f'"extra":{extra}', '"enable_thinking":false', "max_tokens 3"):
                self.assertIn(part, shown)

    def test_a_chat_of_the_web_page_keeps_calls_and_reasoning(self):
        node = {"role": "assistant", "text": "", "thought": "hm", "calls": [{"id": "c9", "name": "weather", "arguments": '{"in": "Oslo"}'}]}
        nodes = [{"id": "1", "parent": "", "role": "user", "text": "a", "made": 1}, {"id": "2", "parent": "1", "made": 2, **node}]
        page = {"format": "veery-chats", "version": 1, "chats": [{"leaf": "2", "thinking": "off", "nodes": nodes}]}
        chat = self.home / "chat.json"
        self.start(model=self.thinker)
        self.assertIn("Paste the result of weather", self.say(f"/load {self.write('page.json', page)}"))
        self.say(f"/save {chat}")
        saved = json.loads(chat.read_text())
        self.assertEqual(saved["messages"][1]["reasoning_content"], "hm")
        self.assertEqual(saved["messages"][1]["tool_calls"], [{"id": "c9", "type": "function", "function": {"name": "weather", "arguments": {"in": "Oslo"}}}])
        self.assertIs(saved["template_args"]["enable_thinking"], False)

    def test_files_are_kept(self):
        precious = self.home / "precious"
        precious.write_text("precious")
        self.start()
        self.say("hi")
        self.assertIn("exists already", self.say(f"/save {precious}"))
        self.assertEqual(precious.read_text(), "precious")
        self.assertIn("Saved", self.say(f"/save --force {precious}"))
        self.assertIn("is also the input", self.say(f"/save --force {self.model}"))
        self.assertIn("expected", self.say("/save"))
        (self.home / "bad.json").write_text('[{"role": "king", "content": "x"}]')
        before = self.say("/show messages")
        self.assertIn("its role is 'king'", self.say(f"/load {self.home}/bad.json"))
        self.assertIn("absent.json", self.say("/load absent.json"))
        self.assertEqual(self.say("/show messages"), before)

    def test_settings(self):
        self.start(model=self.thinker)
        for words, said in (("temperature 0.5", "temperature is 0.5"), ("parameter top-k 5", "top_k is 5"), ("num_predict 3", "max_tokens is 3"),
                            ('system "Be brief"', "the system message is set"), ("think high", "think is high"), ("nothink", "think is off"),
                            ("think", "think is on"), ("context-shift on", "context_shift is on"), ("template_arg extra=1", "extra is 1"),
                            ("hide_thinking on", "hide_thinking is on"), ("quiet", "quiet is on"), ("verbose", "quiet is off")):
            self.assertIn(f"Now {said}.", self.say("/set " + words), words)
        for words, said in (("warmth 1", "unknown setting 'warmth', expected one of context_shift"), ("temperature hot", "expected a number"),
                            ("temperature -1", "temperature is -1, expected a number from 0"), ("top_k 1.5", "expected a whole number"),
                            ("context_shift maybe", "expected on or off"), ("template_arg extra=x", "expected JSON"), ("think much", "expected on or off")):
            lines = self.say("/set " + words).strip().splitlines()
            self.assertEqual(len(lines), 1, lines)
            self.assertIn(said, lines[0])
        shown = self.say("/show")
        for part in ("Be brief", "temperature 0.5", '"extra":1', "context_shift  on", "max_tokens 3"):
            self.assertIn(part, shown)
        self.assertIn("answer 3 tokens", self.say("hi"))

    @needs_grammar
    def test_a_call_waits_for_its_result(self):
        tools = self.home / "tools.json"
        tools.write_text(json.dumps([WEATHER]))
        chat = self.home / "chat.json"
        self.start("-n", str(len(CALL)), "--no-think", "--tools", str(tools), "--regex", pattern(CALL), model=self.thinker)
        written = self.say("hi")
        self.assertIn("[call] weather {", written)
        self.assertIn("Paste the result of weather", written)
        self.say("/save " + str(chat))
        self.assertEqual(json.loads(chat.read_text())["messages"][1]["tool_calls"][0]["id"], "call_1")
        self.assertIn("Paste the result of weather", self.say("rain"))  # it is called again
        self.say("/save " + str(chat))
        result = json.loads(chat.read_text())["messages"][2]
        self.assertEqual((result["role"], result["name"], result["content"], result["tool_call_id"]), ("tool", "weather", "rain", "call_1"))
        self.assertIn("No result", self.say(""))
        self.say("so")
        self.assertIn("[user]\nso", self.say("/show messages").replace("\r", ""))

    def test_tab_completes_settings_and_files(self):
        (self.home / "chat one.json").write_text("[]")
        self.start()
        self.send("/set temp\t")
        self.expect("erature")
        self.send(CTRL_C)
        self.expect("\n> ")
        self.send(f"/load {self.home}/cha\t")
        self.expect("t one.json")
        self.send("\r")
        self.expect("messages is empty")

    def test_a_full_context_is_reported(self):
        self.start("-n", "30", "-c", "128", model=self.small)
        self.say("a" * 40)
        written = self.say("b" * 60)
        self.assertRegex(written, r"the prompt has \d+ tokens, the context holds 128: the message is removed. To continue: /set context_shift on")
        self.assertNotIn("bbb", self.say("/show messages"))
        self.assertIn("[prompt", self.say("/clear") + self.say("b" * 60))
        self.leave()
        self.start("-n", "-1", "-c", "128", model=self.small)
        self.assertIn("the context of 128 tokens is full, the answer ends here. -c N starts a chat", self.say("a"))

    def test_the_oldest_turns_are_dropped(self):
        chat = self.home / "chat.json"
        self.start("-n", "20", "-c", "128", "--context-shift", "-sys", "S", model=self.small)
        dropped = 0
        for letter in "abcdef":
            written = self.say(letter * 15)
            self.assertIn("answer 20 tokens", written)
            dropped += written.count("[context full: the")
        self.assertGreater(dropped, 0)
        self.say(f"/save {chat}")
        messages = self.messages(chat)
        self.assertEqual((messages[0], messages[-2]), (("system", "S"), ("user", "f" * 15)))
        self.assertEqual([role for role, _ in messages[1:]], ["user", "assistant"] * ((len(messages) - 1) // 2))
        self.assertNotIn(("user", "a" * 15), messages)
        self.leave()
        # An answer that fills the context continues after older turns are dropped, until its own turn fills it.
        chat = self.home / "another.json"
        # ASCII alone: invalid bytes would take three tokens each when the text is rendered again.
        self.start("-n", "10", "-c", "128", "--context-shift", "--logit-bias", f"{ord('x')}+100", model=self.small)
        self.say("a" * 20)
        self.say("/set max_tokens 110")
        written = self.say("c")  # a quarter of the context is free, but not 110 tokens
        self.assertIn("[context full: the oldest turn is dropped]", written)
        tokens, parts = map(int, re.search(r"answer (\d+) tokens.* in (\d+) parts", written).groups())
        self.assertGreaterEqual((tokens, parts), (100, 2))  # of all parts: the last one has fewer
        self.say(f"/save {chat}")
        self.assertEqual(len(self.messages(chat)), 2)
        self.assertEqual(self.messages(chat)[0], ("user", "c"))


if __name__ == "__main__":
    unittest.main()
