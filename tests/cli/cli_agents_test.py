#!/usr/bin/env python3
"""Sessions of coding agents, in the shapes of their public requests, on a model of random weights: every turn reads only
what is new, tools of all types are called, and one history is one prompt on every endpoint.

usage: cli_agents_test.py VEERY [unittest arguments]
"""
import json
import random
import unittest

import tiny_gguf
from cli_base import CliTest
from serve_client import Server, events

TEMPLATE = (
    "{{ bos_token }}{% for t in tools or [] %}{{ t | tojson }}\n{% endfor %}{% for m in messages %}"
    "{% if m.role == 'system' and not loop.first %}{{ raise_exception('System message must be first') }}{% endif %}"
    "<|im_start|>{{ m.role }}\n{% if m.reasoning_content %}<think>\n{{ m.reasoning_content }}\n</think>\n{% endif %}"
    "{{ m.content }}{% for c in m.tool_calls or [] %}{% if not loop.first %}{{ '\\n' }}{% endif %}<tool_call>\n"
    '{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}\n</tool_call>{% endfor %}'
    "{{ eos_token }}\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n"
    "{% if enable_thinking %}<think>\n{% endif %}{% endif %}"
)
SYSTEM = "You help with a repository. Read files before you change them. " * 60
LETTERS = {str(letter): 60 for letter in range(97, 123)}  # makes random weights write words
COMMAND = {"type": "object", "properties": {"command": {"enum": ["ls", "cat a.txt", "make test"]}}, "required": ["command"],
           "additionalProperties": False}  # fmt: skip
PATCH = "*** Begin Patch\n*** Add File: a.txt\n+a new line\n*** End Patch\n"
PATTERN = PATCH.replace("*", "\\*").replace("+", "\\+").replace(".", "\\.")
LARK = 'start: begin_patch hunk+ end_patch\nbegin_patch: "*** Begin Patch" LF\nend_patch: "*** End Patch" LF?\n'
TURNS = 10


class Agents(CliTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        model = cls.folder / "agent.gguf"
        tiny_gguf.write(model, TEMPLATE, context=24576)
        cls.server = Server(model, "-a", "agent", "-np", 4, "-c", 24576)
        status, _, text = cls.server.send("POST", "/v1/chat/completions", {
            "messages": [{"role": "user", "content": "x"}], "response_format": {"type": "json_object"}, "max_tokens": 1})  # fmt: skip
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

    def stream(self, path, body, headers=None):
        status, given, text = self.server.send("POST", path, body, headers)
        self.assertEqual((status, given.get("Veery-Ignored-Fields")), (200, None), text)
        return [json.loads(line) for line in events(text)]

    def refuse(self, path, body, status=400):
        found, _, text = self.server.send("POST", path, body)
        self.assertEqual(found, status, text)
        return json.loads(text)["error"]

    # Claude Code

    def claude_code(self, messages, turn, **more):
        noise = random.Random(turn)
        return {
            "model": "agent", "max_tokens": 300, "stream": True, "temperature": 1, "messages": messages,
            "system": [
                {"type": "text", "text": f"x-anthropic-billing-header: cc_version=2.1.{turn}; cc_entrypoint=cli; cch={noise.random()};"},
                {"type": "text", "text": "You are a coding agent.", "cache_control": {"type": "ephemeral"}},
                {"type": "text", "text": SYSTEM, "cache_control": {"type": "ephemeral", "ttl": "1h"}},
            ],
            "tools": [{"name": f"Tool{i}", "description": "Runs a command", "input_schema": COMMAND} for i in range(3)]
                     + [{"name": "Bash", "description": "Runs a command", "input_schema": COMMAND, "cache_control": {"type": "ephemeral"}}],
            "metadata": {"user_id": f"session_{noise.random()}"}, "thinking": {"type": "enabled", "budget_tokens": 12},
            "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
            "output_config": {"effort": "medium"}, "logit_bias": LETTERS, "seed": turn, **more,
        }  # fmt: skip

    @staticmethod
    def blocks(parts):
        """Returns the content of a stream, and the last usage and stop reason."""
        blocks, usage, reason = [], {}, None
        for part in parts:
            if part["type"] == "message_start":
                usage.update(part["message"]["usage"])
            elif part["type"] == "content_block_start":
                blocks.append({**part["content_block"], "json": ""})
            elif part["type"] == "content_block_delta":
                delta, block = part["delta"], blocks[part["index"]]
                kind = delta["type"]
                if kind == "input_json_delta":
                    block["json"] += delta["partial_json"]
                else:
                    name = kind.removesuffix("_delta")
                    block[name] = block.get(name, "") + delta[name]
            elif part["type"] == "message_delta":
                usage.update(part["usage"])
                reason = part["delta"]["stop_reason"]
        for block in blocks:
            text = block.pop("json")
            if block["type"] == "tool_use":
                block["input"] = json.loads(text)
        return blocks, usage, reason

    def test_a_session_of_claude_code_evaluates_only_new_tokens(self):
        messages = [{"role": "user", "content": [{"type": "text", "text": "<system-reminder>be brief</system-reminder>"},
                                                 {"type": "text", "text": "Fix the test"}]}]  # fmt: skip
        for turn in range(TURNS):
            parts = self.stream("/v1/messages", self.claude_code(messages, turn, tool_choice={"type": "tool", "name": "Bash"}),
                                {"anthropic-version": "2023-06-01", "anthropic-beta": "interleaved-thinking-2025-05-14"})  # fmt: skip
            blocks, usage, reason = self.blocks(parts)
            self.assertEqual([block["type"] for block in blocks], ["thinking", "tool_use"])
            self.assertEqual(reason, "tool_use")
            self.assertLessEqual(len(blocks[0]["thinking"]), 12)
            self.assertTrue(blocks[0]["signature"])
            self.assertIn(blocks[1]["input"]["command"], COMMAND["properties"]["command"]["enum"])
            cached, fresh = usage["cache_read_input_tokens"], usage["input_tokens"]
            if turn > 0:
                self.assertGreater(cached / (cached + fresh), 0.95, turn)
            messages.append({"role": "assistant", "content": blocks})
            result = {"type": "tool_result", "tool_use_id": blocks[1]["id"], "content": f"a.txt {turn}"}
            if turn % 2:
                result["content"] = [{"type": "text", "text": f"a.txt {turn}"}]
            messages.append({"role": "user", "content": [{**result, "cache_control": {"type": "ephemeral"}}]})
        count = self.server.post("/v1/messages/count_tokens",
                                 {key: value for key, value in self.claude_code(messages, 99).items()
                                  if key in ("model", "messages", "system", "tools", "thinking")})["input_tokens"]  # fmt: skip
        parts = self.stream("/v1/messages", self.claude_code(messages, 99, max_tokens=1))
        _, usage, _ = self.blocks(parts)
        self.assertEqual(count, usage["input_tokens"] + usage["cache_read_input_tokens"])

    def ask(self, **more):
        return self.server.post("/v1/messages", {"messages": [{"role": "user", "content": "x"}], "max_tokens": 40,
                                                 "logit_bias": LETTERS, "temperature": 1, "seed": 3, **more})  # fmt: skip

    def test_a_stop_sequence_is_named(self):
        text = self.ask()["content"][0]["text"]
        stopped = self.ask(stop_sequences=["never", text[5:8]])
        self.assertEqual((stopped["stop_reason"], stopped["stop_sequence"]), ("stop_sequence", text[5:8]))
        self.assertEqual(stopped["content"][0]["text"], text[: text.index(text[5:8])])
        parts = self.stream("/v1/messages", {"messages": [{"role": "user", "content": "x"}], "max_tokens": 40, "stream": True,
                                             "logit_bias": LETTERS, "temperature": 1, "seed": 3, "stop_sequences": [text[5:8]]})  # fmt: skip
        self.assertEqual(next(p["delta"] for p in parts if p["type"] == "message_delta"),
                         {"stop_reason": "stop_sequence", "stop_sequence": text[5:8]})  # fmt: skip

    def test_thinking_ends_with_its_budget(self):
        for budget in (0, 1, 7, 30):
            message = self.ask(thinking={"type": "enabled", "budget_tokens": budget}, max_tokens=budget + 30)
            kinds = {block["type"]: block for block in message["content"]}
            self.assertEqual(len(kinds.get("thinking", {"thinking": ""})["thinking"]), budget)
            self.assertIn("text", kinds)
        free = self.ask(thinking={"type": "enabled"}, max_tokens=60)
        self.assertEqual([block["type"] for block in free["content"]], ["thinking"])
        self.assertEqual([block["type"] for block in self.ask(thinking={"type": "disabled"})["content"]], ["text"])

    def test_hidden_thinking_comes_back_by_its_signature(self):
        hidden = self.ask(thinking={"type": "enabled", "budget_tokens": 9, "display": "omitted"})["content"]
        self.assertEqual((hidden[0]["type"], hidden[0]["thinking"]), ("thinking", ""))
        shown = self.ask(thinking={"type": "enabled", "budget_tokens": 9})["content"]
        counts = [self.server.post("/v1/messages/count_tokens", {"messages": [
            {"role": "user", "content": "x"}, {"role": "assistant", "content": content}, {"role": "user", "content": "y"}]})
            for content in (hidden, shown)]  # fmt: skip
        self.assertEqual(counts[0], counts[1])
        self.assertEqual(hidden[1], shown[1])

    def test_an_answer_keeps_to_a_schema(self):
        for more in ({"output_config": {"format": {"type": "json_schema", "schema": {"const": {"a": 1}}}}},
                     {"output_format": {"type": "json_schema", "schema": {"const": {"a": 1}}}}):  # fmt: skip
            self.assertEqual(json.loads(self.ask(**more)["content"][0]["text"]), {"a": 1})

    def count(self, content, **more):
        return self.server.post("/v1/messages/count_tokens", {"messages": [{"role": "user", "content": content}], **more})["input_tokens"]

    def test_text_blocks_are_accepted(self):
        plain = self.count("")
        text = {"type": "text", "text": "12345"}
        for block, size in [
            (text, 5), ({"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "12345"}}, 6),
            ({"type": "document", "title": "A", "source": {"type": "content", "content": [text, text]}}, 2 + 10 + 1),
            ({"type": "search_result", "title": "T", "source": "S", "content": [text]}, 4 + 5 + 1),
        ]:  # fmt: skip
            with self.subTest(block=block):
                self.assertEqual(self.count([block]) - plain, size)
        image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}
        pdf = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "AA=="}}
        result = {"type": "tool_result", "tool_use_id": "t", "content": [text, image]}
        for content, place in [([text, image], "messages[0].content[1]"), ([pdf], "messages[0].content[0]"),
                               ([result], "messages[0].content[0].content[1]"), ([{"type": "strange"}], "'strange'")]:  # fmt: skip
            error = self.refuse("/v1/messages", {"max_tokens": 1, "messages": [{"role": "user", "content": content}]})
            self.assertIn(place, error["message"])

    def test_a_deferred_tool_is_described_where_it_is_found(self):
        tool = {"name": "Find", "description": "Finds", "input_schema": COMMAND}
        late = {**tool, "defer_loading": True}
        plain = self.count("x")
        self.assertGreater(self.count("x", tools=[tool]), plain + 80)
        self.assertEqual(self.count("x", tools=[late]), plain)
        reference = [{"type": "tool_reference", "tool_name": "Find"}]
        self.assertGreater(self.count(reference, tools=[late]), plain + 80)
        server = [{"type": "web_search_20250305", "name": "web_search"}]
        error = self.refuse("/v1/messages", {"max_tokens": 1, "messages": [{"role": "user", "content": "x"}], "tools": server})
        self.assertIn("web_search_20250305", error["message"])

    def test_models_in_anthropics_form(self):
        _, _, text = self.server.send("GET", "/v1/models", headers={"anthropic-version": "2023-06-01"})
        models = json.loads(text)
        self.assertEqual((models["data"][0]["type"], models["data"][0]["id"], models["has_more"]), ("model", "agent", False))
        self.assertRegex(models["data"][0]["created_at"], r"^\d{4}-\d\d-\d\dT")
        self.assertEqual((models["first_id"], models["last_id"]), ("agent", "agent"))
        _, _, text = self.server.send("GET", "/v1/models/agent", headers={"anthropic-version": "2023-06-01"})
        self.assertEqual(json.loads(text)["display_name"], "agent")
        status, _, text = self.server.send("GET", "/v1/models/other", headers={"anthropic-version": "2023-06-01"})
        self.assertEqual((status, json.loads(text)["type"]), (404, "error"))

    # Codex

    def codex(self, items, **more):
        return {
            "model": "agent", "instructions": SYSTEM, "input": items, "stream": True, "store": False, "parallel_tool_calls": False,
            "include": ["reasoning.encrypted_content"], "prompt_cache_key": "0198", "client_metadata": {"turn": "1"},
            "reasoning": {"effort": "medium", "summary": "auto"}, "text": {"verbosity": "low"}, "service_tier": "auto",
            "tools": [
                {"type": "function", "name": "exec_command", "description": "Runs", "strict": False, "parameters": COMMAND},
                {"type": "custom", "name": "apply_patch", "description": "Edits files",
                 "format": {"type": "grammar", "syntax": "regex", "definition": PATTERN}},
                {"type": "namespace", "name": "mcp__files", "description": "Files", "tools": [
                    {"type": "function", "name": "list", "parameters": COMMAND}]},
                {"type": "web_search", "external_web_access": False}, {"type": "a_new_type"},
            ],
            "max_output_tokens": 400, "temperature": 1, "logit_bias": LETTERS, **more,
        }  # fmt: skip

    def respond(self, body):
        """Checks the events of a stream and returns its items and usage."""
        parts = self.stream("/v1/responses", body)
        self.assertEqual([part["sequence_number"] for part in parts], list(range(len(parts))))
        self.assertEqual([part["type"] for part in parts[:2]], ["response.created", "response.in_progress"])
        self.assertEqual(parts[-1]["type"], "response.completed", parts[-1])
        final = parts[-1]["response"]
        done = [part["item"] for part in parts if part["type"] == "response.output_item.done"]
        self.assertEqual(done, final["output"])
        for name in ("custom_tool_call_input", "function_call_arguments"):
            for part in parts:
                if part["type"] == f"response.{name}.done":
                    whole = part["input" if "custom" in name else "arguments"]
                    deltas = [p["delta"] for p in parts if p["type"] == f"response.{name}.delta" and p["item_id"] == part["item_id"]]
                    self.assertEqual("".join(deltas), whole)
        return final["output"], final["usage"], final

    def test_a_session_of_codex_evaluates_only_new_tokens(self):
        items = [{"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "sandbox: none"}]},
                 {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Fix the test"}]}]  # fmt: skip
        choices = [{"type": "function", "name": "exec_command"}, {"type": "custom", "name": "apply_patch"},
                   {"type": "function", "name": "list", "namespace": "mcp__files"}]  # fmt: skip
        for turn in range(TURNS):
            output, usage, _ = self.respond(self.codex(items, tool_choice=choices[turn % 3], seed=turn))
            (call,) = output
            if turn % 3 == 0:
                self.assertEqual((call["type"], call["name"]), ("function_call", "exec_command"))
                result = {"type": "function_call_output", "output": [{"type": "input_text", "text": f"a.txt {turn}"}]}
            elif turn % 3 == 1:
                self.assertEqual((call["type"], call["name"], call["input"]), ("custom_tool_call", "apply_patch", PATCH))
                result = {"type": "custom_tool_call_output", "output": f"Done {turn}"}
            else:
                self.assertEqual((call["name"], call["namespace"]), ("list", "mcp__files"))
                result = {"type": "function_call_output", "output": f"a.txt {turn}"}
            cached = usage["input_tokens_details"]["cached_tokens"]
            if turn > 0:
                self.assertGreater(cached / usage["input_tokens"], 0.95, turn)
            items += [call, {**result, "call_id": call["call_id"]}]

    def test_items_of_all_types_are_accepted(self):
        text = [{"type": "input_text", "text": "x"}]
        items = [
            {"type": "additional_tools", "role": "developer", "tools": [{"type": "function", "name": "late", "parameters": COMMAND}]},
            {"role": "user", "content": "x"},
            {"type": "local_shell_call", "call_id": "1", "status": "completed", "action": {"type": "exec", "command": ["ls"]}},
            {"type": "local_shell_call_output", "call_id": "1", "output": "a"},
            {"type": "web_search_call", "id": "w", "status": "completed", "action": {"type": "search", "query": "q"}},
            {"type": "tool_search_call", "call_id": "2", "execution": "client", "arguments": {"query": "q"}},
            {"type": "tool_search_output", "call_id": "2", "execution": "client", "status": "completed",
             "tools": [{"type": "function", "name": "found", "parameters": COMMAND}]},
            {"type": "custom_tool_call", "call_id": "3", "name": "apply_patch", "input": PATCH, "status": "completed"},
            {"type": "custom_tool_call_output", "call_id": "3", "output": text},
            {"type": "shell_call", "call_id": "4", "action": {"commands": ["ls"]}},
            {"type": "shell_call_output", "call_id": "4", "output": [{"stdout": "a", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}]},
            {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "thought"}], "encrypted_content": "foreign"},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "x", "annotations": []}], "phase": "commentary"},
            {"role": "user", "content": text},
        ]  # fmt: skip
        for name in ("late", "found"):
            output, _, _ = self.respond(self.codex(items, tool_choice={"type": "function", "name": name}))
            self.assertEqual(output[0]["name"], name)
        image = [{"type": "input_text", "text": "x"}, {"type": "input_image", "image_url": "data:"}]
        for item, place in [({"role": "user", "content": image}, "input[0].content[1]"),
                            ({"type": "function_call_output", "call_id": "1", "output": image}, "input[0].output[1]"),
                            ({"type": "computer_call"}, "input[0].type 'computer_call'"),
                            ({"type": "item_reference", "id": "msg_unknown"}, "msg_unknown")]:  # fmt: skip
            self.assertIn(place, self.refuse("/v1/responses", {"input": [item]})["message"])

    def test_reasoning_is_restored_from_encrypted_content(self):
        body = self.codex([{"role": "user", "content": "x"}], tools=[], chat_template_kwargs={"enable_thinking": True},
                          tool_choice="auto", text={"format": {"type": "json_schema", "name": "n", "schema": {"const": 1}}},
                          thinking_budget_tokens=11)  # fmt: skip
        output, usage, _ = self.respond(body)
        self.assertEqual([item["type"] for item in output], ["reasoning", "message"])
        self.assertEqual(usage["output_tokens_details"]["reasoning_tokens"], 11)
        sealed = {key: output[0][key] for key in ("type", "id", "summary", "encrypted_content")}
        counts = []
        for reasoning in (output[0], sealed):
            items = [{"role": "user", "content": "x"}, reasoning, output[1], {"role": "user", "content": "y"}]
            counts.append(self.respond(self.codex(items, tools=[], max_output_tokens=200, text={"format": {
                "type": "json_schema", "name": "n", "schema": {"const": 1}}}))[1]["input_tokens"])  # fmt: skip
        self.assertEqual(counts[0], counts[1])

    def test_fields_are_repeated(self):
        given = {"instructions": "Be brief", "max_output_tokens": 5, "metadata": {"a": "b"}, "parallel_tool_calls": False, "temperature": 0.5,
                 "top_p": 0.5, "tool_choice": "none", "truncation": "disabled", "user": "u", "tools": [{"type": "function", "name": "f"}],
                 "reasoning": {"effort": "low"}, "store": False}  # fmt: skip
        response = self.server.post("/v1/responses", {"input": "x", **given})
        for name, value in given.items():
            self.assertEqual(response[name], value, name)
        self.assertEqual((response["background"], response["previous_response_id"]), (False, None))
        self.assertIn("background", self.refuse("/v1/responses", {"input": "x", "background": True})["message"])

    def test_responses_are_stored(self):
        first = self.server.post("/v1/responses", {"input": "one", "max_output_tokens": 5, "logit_bias": LETTERS})
        second = self.server.post("/v1/responses", {"input": "two", "max_output_tokens": 5, "previous_response_id": first["id"]})
        items = [{"role": "user", "content": "one"}, *first["output"], {"role": "user", "content": "two"}]
        whole = self.server.post("/v1/responses", {"input": items, "max_output_tokens": 5, "store": False})
        self.assertEqual(whole["usage"]["input_tokens"], second["usage"]["input_tokens"])
        self.assertGreater(whole["usage"]["input_tokens_details"]["cached_tokens"], whole["usage"]["input_tokens"] - 3)
        reference = self.server.post("/v1/responses", {"max_output_tokens": 5, "input": [
            items[0], {"type": "item_reference", "id": first["output"][0]["id"]}, items[-1]]})  # fmt: skip
        self.assertEqual(reference["usage"]["input_tokens"], second["usage"]["input_tokens"])
        path = f"/v1/responses/{second['id']}"
        self.assertEqual(self.server.post(path, None, method="GET"), second)
        listed = self.server.post(path + "/input_items?order=asc&limit=2", None, method="GET")
        self.assertEqual((len(listed["data"]), listed["has_more"], listed["data"][0]["content"]), (2, True, "one"))
        self.assertEqual(self.server.post(path, None, method="DELETE")["deleted"], True)
        self.assertEqual(self.server.send("GET", path)[0], 404)
        error = self.refuse("/v1/responses", {"input": "x", "previous_response_id": second["id"]})
        self.assertEqual((error["code"], error["param"]), ("previous_response_not_found", "previous_response_id"))
        self.assertEqual(self.server.send("GET", f"/v1/responses/{whole['id']}")[0], 404)

    def test_stored_responses_have_a_bound(self):
        model = self.folder / "agent.gguf"
        server = Server(model, "--response-memory", 1)
        try:
            body = {"input": "x", "max_output_tokens": 1, "metadata": {"a": "z" * 300_000}}
            ids = [server.post("/v1/responses", body)["id"] for _ in range(5)]
            found = [server.send("GET", f"/v1/responses/{one}")[0] for one in ids]
            self.assertEqual((found[0], found[-1]), (404, 200))
        finally:
            server.end()

    # One call

    def test_parallel_calls_can_be_disabled(self):
        call = '<tool_call>\\n{\\"name\\": \\"f\\", \\"arguments\\": {\\"command\\": \\"ls\\"}}\\n</tool_call>'
        form = {"type": "grammar", "grammar": f'root ::= "{call}\\n{call} and more"'}
        function = {"name": "f", "parameters": COMMAND}
        for several, count in ((True, 2), (False, 1)):
            chat = {"messages": [{"role": "user", "content": "x"}], "tools": [{"type": "function", "function": function}], "max_tokens": 400,
                    "response_format": form, "parallel_tool_calls": several}  # fmt: skip
            whole = self.server.post("/v1/chat/completions", chat)["choices"][0]
            self.assertEqual((len(whole["message"]["tool_calls"]), whole["finish_reason"]), (count, "tool_calls"))
            chunks = self.server.send("POST", "/v1/chat/completions", {**chat, "stream": True})[2]
            deltas = [json.loads(line)["choices"][0]["delta"] for line in events(chunks)[:-1]]
            self.assertEqual({delta["tool_calls"][0]["index"] for delta in deltas if "tool_calls" in delta}, set(range(count)))
            response = self.server.post("/v1/responses", {"input": "x", "tools": [{"type": "function", **function}], "max_output_tokens": 400,
                                                          "text": {"format": form}, "parallel_tool_calls": several})  # fmt: skip
            self.assertEqual([item["type"] for item in response["output"]][:3], ["function_call"] * count + ["message"] * (count - 1))
            message = self.ask(tools=[{"name": "f", "input_schema": COMMAND}], output_config={"format": form}, max_tokens=400,
                               tool_choice={"type": "auto", "disable_parallel_tool_use": not several})  # fmt: skip
            self.assertEqual(len([block for block in message["content"] if block["type"] == "tool_use"]), count)
            self.assertEqual(message["stop_reason"], "tool_use")

    # One history

    def test_one_history_is_one_prompt_on_every_endpoint(self):
        call = {"name": "f", "arguments": '{"command": "ls"}'}
        ask = {"temperature": 0, "max_tokens": 1}
        function = {"name": "f", "description": "Runs", "parameters": COMMAND}
        chat = self.server.post("/v1/chat/completions", {**ask, "tools": [{"type": "function", "function": function}], "messages": [
            {"role": "system", "content": "S"}, {"role": "user", "content": "U"},
            {"role": "assistant", "content": "A", "reasoning_content": "R", "tool_calls": [{"id": "c1", "type": "function", "function": call}]},
            {"role": "tool", "tool_call_id": "c1", "content": "T"}, {"role": "user", "content": "V"}]})["usage"]  # fmt: skip
        size = chat["prompt_tokens"]
        messages = self.server.post("/v1/messages", {**ask, "system": "S", "tools": [
            {"name": "f", "description": "Runs", "input_schema": COMMAND}], "messages": [
            {"role": "user", "content": "U"},
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "R", "signature": "s"}, {"type": "text", "text": "A"},
                                              {"type": "tool_use", "id": "c1", "name": "f", "input": {"command": "ls"}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "T"}, {"type": "text", "text": "V"}]},
        ]})["usage"]  # fmt: skip
        self.assertEqual((messages["input_tokens"], messages["cache_read_input_tokens"]), (1, size - 1))
        responses = self.server.post("/v1/responses", {"temperature": 0, "max_output_tokens": 1, "instructions": "S", "tools": [
            {"type": "function", **function}], "input": [
            {"role": "user", "content": "U"}, {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "R"}]},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "A"}]},
            {"type": "function_call", "call_id": "c1", **call}, {"type": "function_call_output", "call_id": "c1", "output": "T"},
            {"role": "user", "content": "V"}]})["usage"]  # fmt: skip
        self.assertEqual((responses["input_tokens"], responses["input_tokens_details"]["cached_tokens"]), (size, size - 1))
        before = self.server.metric("prompt_tokens_total")
        ollama = self.server.post("/api/chat", {"model": "agent", "stream": False, "options": {"temperature": 0, "num_predict": 1},
            "tools": [{"type": "function", "function": function}], "messages": [
                {"role": "system", "content": "S"}, {"role": "user", "content": "U"},
                {"role": "assistant", "content": "A", "thinking": "R", "tool_calls": [{"function": {"name": "f", "arguments": {"command": "ls"}}}]},
                {"role": "tool", "content": "T", "tool_name": "f"}, {"role": "user", "content": "V"}]})  # fmt: skip
        self.assertEqual(ollama["prompt_eval_count"], size)
        self.assertLessEqual(self.server.metric("prompt_tokens_total") - before, 2)

    def test_a_later_system_message_is_not_lost(self):
        for path, body in [
            ("/v1/chat/completions", {"messages": [{"role": "user", "content": "U"}, {"role": "assistant", "content": "A"},
                                                   {"role": "system", "content": "S"}, {"role": "user", "content": "V"}], "max_tokens": 1}),
            ("/v1/responses", {"input": [{"role": "user", "content": "U"}, {"role": "assistant", "content": "A"},
                                         {"role": "system", "content": "S"}, {"role": "user", "content": "V"}], "max_output_tokens": 1}),
            ("/v1/messages", {"messages": [{"role": "user", "content": "U"}, {"role": "assistant", "content": "A"},
                                           {"role": "system", "content": "S"}, {"role": "user", "content": "V"}], "max_tokens": 1}),
        ]:  # fmt: skip
            with self.subTest(path=path):
                usage = self.server.post(path, body)["usage"]
                total = usage.get("prompt_tokens") or usage["input_tokens"] + usage.get("cache_read_input_tokens", 0)
                moved = self.server.post("/v1/chat/completions", {"max_tokens": 1, "messages": [
                    {"role": "system", "content": "S"}, {"role": "user", "content": "U"}, {"role": "assistant", "content": "A"},
                    {"role": "user", "content": "V"}]})["usage"]["prompt_tokens"]  # fmt: skip
                self.assertEqual(total, moved)


class Context(CliTest):
    """The end of the context, exact to a token."""

    SIZE = 128

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        model = cls.folder / "small.gguf"
        tiny_gguf.write(model, "{% for m in messages %}{{ m.content }}{% endfor %}", context=cls.SIZE)
        cls.server = Server(model, "-a", "small")

    @classmethod
    def tearDownClass(cls):
        cls.server.end()
        super().tearDownClass()

    # Path, body for a text, prompt and answer tokens of the reply, and the field of the prompt.
    ENDPOINTS = [
        ("/v1/chat/completions", lambda text: {"messages": [{"role": "user", "content": text}]},
         lambda reply: (reply["usage"]["prompt_tokens"], reply["usage"]["completion_tokens"]), "messages"),
        ("/v1/completions", lambda text: {"prompt": text, "max_tokens": 1000},
         lambda reply: (reply["usage"]["prompt_tokens"], reply["usage"]["completion_tokens"]), "prompt"),
        ("/v1/responses", lambda text: {"input": text},
         lambda reply: (reply["usage"]["input_tokens"], reply["usage"]["output_tokens"]), "input"),
        ("/v1/messages", lambda text: {"messages": [{"role": "user", "content": text}], "max_tokens": 1000},
         lambda reply: (reply["usage"]["input_tokens"] + reply["usage"]["cache_read_input_tokens"], reply["usage"]["output_tokens"]), "messages"),
        ("/api/chat", lambda text: {"model": "small", "messages": [{"role": "user", "content": text}], "stream": False},
         lambda reply: (reply["prompt_eval_count"], reply["eval_count"]), "messages"),
        ("/api/generate", lambda text: {"model": "small", "prompt": text, "stream": False, "raw": True},
         lambda reply: (reply["prompt_eval_count"], reply["eval_count"]), "prompt"),
    ]  # fmt: skip

    def test_prompt_and_answer_fill_the_context_exactly(self):
        for path, body_of, sizes_of, _ in self.ENDPOINTS:
            for length in (self.SIZE - 2, self.SIZE - 3, 60):  # one more is BOS
                with self.subTest(path=path, length=length):
                    bias = {"logit_bias": {"97": 1000}}
                    body = body_of("b" * length)
                    body.update({"options": bias} if path.startswith("/api/") else bias)
                    self.assertEqual(sizes_of(self.server.post(path, body)), (length + 1, self.SIZE - length - 1))

    def test_an_overflow_has_the_error_of_each_api(self):
        for path, body_of, _, field in self.ENDPOINTS:
            for length in (self.SIZE - 1, self.SIZE, 500, 30_000_000):
                with self.subTest(path=path, length=length):
                    status, _, text = self.server.send("POST", path, body_of("b " * (length // 2) + "b" * (length % 2)))
                    self.assertEqual(status, 400, text)
                    error = json.loads(text)["error"]
                    if path == "/v1/messages":
                        self.assertRegex(error["message"], rf"^prompt is too long: \d+ tokens > {self.SIZE - 1} maximum$")
                        self.assertEqual(error["type"], "invalid_request_error")
                        continue
                    message = error if isinstance(error, str) else error["message"]
                    self.assertIn(f"This model's maximum context length is {self.SIZE} tokens.", message)
                    self.assertRegex(message, rf"you requested {length + 1 if length < 1000 else '[0-9]+'} tokens")
                    if isinstance(error, dict):
                        self.assertEqual((error["code"], error["param"]), ("context_length_exceeded", field))

    def test_truncation_drops_the_oldest_turns(self):
        def item(role, length):
            return {"role": role, "content": role[0] * length}

        turns = [item("system", 9), item("user", 40), item("assistant", 30), item("user", 25), item("assistant", 15), item("user", 30)]
        body = {"input": turns, "max_output_tokens": 1}
        status, _, text = self.server.send("POST", "/v1/responses", {**body, "truncation": "disabled"})
        self.assertEqual((status, json.loads(text)["error"]["code"]), (400, "context_length_exceeded"))
        reply = self.server.post("/v1/responses", {**body, "truncation": "auto"})
        self.assertEqual(reply["truncation"], "auto")
        self.assertEqual(reply["usage"]["input_tokens"], 1 + 9 + 25 + 15 + 30)  # without the first turn
        # Within the last turn, calls are dropped together with their outputs.
        steps = [item("user", 20)]
        for i in range(3):
            steps += [{"type": "function_call", "call_id": f"c{i}", "name": "f", "arguments": "{}"},
                      {"type": "function_call_output", "call_id": f"c{i}", "output": "o" * 5}]  # fmt: skip
        reply = self.server.post("/v1/responses", {"input": steps, "max_output_tokens": 1, "truncation": "auto"})
        self.assertLess(reply["usage"]["input_tokens"], self.SIZE)
        # The required part does not fit: an error for all of it.
        status, _, text = self.server.send("POST", "/v1/responses", {"input": turns[:5] + [item("user", 200)], "truncation": "auto"})
        self.assertEqual(status, 400)
        self.assertIn("you requested 320 tokens", json.loads(text)["error"]["message"])
        status, _, text = self.server.send("POST", "/v1/responses", {"input": "a", "truncation": "middle"})
        self.assertEqual((status, json.loads(text)["error"]["param"]), (400, "truncation"))


if __name__ == "__main__":
    unittest.main()
