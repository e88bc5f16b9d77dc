#!/usr/bin/env python3
"""Requests of vLLM, llama.cpp and Ollama clients, on models of random weights and byte tokens.

usage: cli_peers_test.py VEERY [unittest arguments]
"""
import json
import time
import unittest

import tiny_gguf
from cli_base import CliTest
from cli_serve_models_test import ENCODERS
from serve_client import Server

TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}[{{ m.role }}]{% if m.thinking %}<think>{{ m.thinking }}</think>{% endif %}"
    "{{ m.content }}{% for c in m.tool_calls or [] %}{{ c.function.name }}{% endfor %}</s>{% endfor %}"
    "{{ tools | tojson if tools else '' }}{% if add_generation_prompt %}[assistant]{% endif %}"
)
PREFIX, SUFFIX, MIDDLE = 1, 2, 3  # bytes that no text of the test has
FIM = {"tokenizer.ggml.fim_pre_token_id": PREFIX, "tokenizer.ggml.fim_suf_token_id": SUFFIX, "tokenizer.ggml.fim_mid_token_id": MIDDLE}
LETTERS = {str(letter): 60 for letter in range(97, 123)}


def user(text):
    return {"role": "user", "content": text}


class Peers(CliTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        model, bare = cls.folder / "peers.gguf", cls.folder / "plain.gguf"
        tiny_gguf.write(model, TEMPLATE, context=1024, changed=FIM)
        tiny_gguf.write(bare, None, context=256)
        cls.server = Server(model, bare)
        body = {"model": "peers", "prompt": "a", "max_tokens": 1, "guided_regex": "a"}
        cls.without = b"built without xgrammar" in cls.server.send("POST", "/v1/completions", body)[2]

    @classmethod
    def tearDownClass(cls):
        cls.server.end()
        super().tearDownClass()

    def complete(self, **more):
        body = {"model": "peers", "prompt": "Hello", "temperature": 0, "max_tokens": 12, "logit_bias": LETTERS, **more}
        return self.server.post("/v1/completions", body)["choices"][0]

    def refuse(self, path, body, param, status=400):
        found, _, text = self.server.send("POST", path, {"model": "peers", **body})
        self.assertEqual(found, status, text)
        error = json.loads(text)["error"]
        self.assertEqual(error["param"] if isinstance(error, dict) else param, param, text)
        self.assertIn(param.split(".")[-1].split("[")[0], text.decode())

    # vLLM

    def test_tokens_that_end_an_answer(self):
        whole = self.complete()["text"]
        stop = whole[4]
        at = whole.index(stop)
        found = self.complete(stop_token_ids=[ord(stop)])
        self.assertEqual((found["text"], found["finish_reason"], found["stop_reason"]), (whole[:at], "stop", ord(stop)))
        found = self.complete(stop_token_ids=[ord(stop)], include_stop_str_in_output=True)
        self.assertEqual(found["text"], whole[: at + 1])
        found = self.complete(stop=[whole[4:6]], include_stop_str_in_output=True)
        end = whole.index(whole[4:6]) + 2
        self.assertEqual((found["text"], found["stop_reason"]), (whole[:end], whole[4:6]))
        end = whole.index(stop, 8) if stop in whole[8:] else len(whole)
        self.assertGreaterEqual(len(self.complete(stop_token_ids=[ord(stop)], min_tokens=8)["text"]), 8)
        self.refuse("/v1/completions", {"prompt": "a", "max_tokens": 2, "min_tokens": 3}, "min_tokens")
        self.refuse("/v1/completions", {"prompt": "a", "stop_token_ids": [9999]}, "stop_token_ids")

    def test_an_answer_has_its_least_tokens(self):
        ends = {"257": 100}
        body = {"model": "peers", "messages": [user("hi")], "temperature": 0, "max_tokens": 20, "logit_bias": ends}
        self.assertEqual(self.server.post("/v1/chat/completions", body)["usage"]["completion_tokens"], 1)
        answer = self.server.post("/v1/chat/completions", {**body, "min_tokens": 7})
        self.assertEqual((answer["usage"]["completion_tokens"], answer["choices"][0]["finish_reason"]), (8, "stop"))

    def test_allowed_and_banned_tokens(self):
        text = self.complete(allowed_token_ids=[ord("x"), ord("y")], logit_bias={})["text"]
        self.assertEqual(set(text) - set("xy"), set())
        whole = self.complete()["text"]
        for words in ([whole[:2]], [whole[3]]):
            self.assertNotIn(words[0], self.complete(bad_words=words)["text"])
        self.assertEqual(set(self.complete(logit_bias=[["q", 200]])["text"]), {"q"})
        self.assertEqual(set(self.complete(logit_bias={"q": 200})["text"]), {"q"})
        banned = [[ord(c), False] for c in set(whole)] + [[ord("z"), 60]]
        self.assertEqual(set(self.complete(logit_bias=banned)["text"]) & (set(whole) - {"z"}), set())
        for wrong in ([[1]], [["a", True]], {"a": "b"}, 5, {"9999": 1}):
            self.refuse("/v1/completions", {"prompt": "a", "logit_bias": wrong}, "logit_bias")

    def test_special_tokens_are_shown(self):
        bias = {"256": 100}
        self.assertEqual(self.complete(logit_bias=bias, max_tokens=2)["text"], "")
        self.assertEqual(self.complete(logit_bias=bias, max_tokens=2, skip_special_tokens=False)["text"], "<s><s>")

    def test_forms_by_all_names(self):
        if self.without:
            self.skipTest("built without xgrammar")
        schema = {"type": "object", "properties": {"a": {"enum": [1, 2]}}, "required": ["a"], "additionalProperties": False}
        forms = [
            {"guided_json": schema}, {"guided_json": json.dumps(schema)}, {"structured_outputs": {"json": schema}},
            {"json_schema": schema}, {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}},
        ]  # fmt: skip
        for form in forms:
            for path, more in (("/v1/completions", {"prompt": "a"}), ("/v1/chat/completions", {"messages": [user("a")]}),
                               ("/completion", {"prompt": "a"})):  # fmt: skip
                body = self.server.post(path, {"model": "peers", "temperature": 1, "seed": 3, "max_tokens": 60, **more, **form})
                text = (body["content"] if path == "/completion" else
                        body["choices"][0].get("text") or body["choices"][0]["message"]["content"])  # fmt: skip
                self.assertIn(json.loads(text)["a"], (1, 2), (form, path))
        for form, allowed in [
            ({"guided_choice": ["yes", 'n"o\\']}, ["yes", 'n"o\\']), ({"structured_outputs": {"choice": ["a b", "c"]}}, ["a b", "c"]),
            ({"guided_regex": "[xy]z"}, ["xz", "yz"]), ({"structured_outputs": {"regex": "[xy]z"}}, ["xz", "yz"]),
            ({"guided_grammar": 'root ::= "up" | "down"'}, ["up", "down"]), ({"grammar": 'root ::= "up" | "down"'}, ["up", "down"]),
        ]:  # fmt: skip
            self.assertIn(self.complete(logit_bias={}, temperature=1.5, **form)["text"], allowed)
        self.refuse("/v1/completions", {"prompt": "a", "guided_regex": "a", "grammar": 'root ::= "a"'}, "grammar")
        self.refuse("/v1/completions", {"prompt": "a", "structured_outputs": {"structural_tag": {"x": 1}}}, "structured_outputs.structural_tag")

    def test_prompts_are_truncated_on_request(self):
        body = {"model": "peers", "messages": [user("x" * 50)], "max_tokens": 1, "truncate_prompt_tokens": 20}
        self.assertEqual(self.server.post("/v1/chat/completions", body)["usage"]["prompt_tokens"], 20)
        self.refuse("/v1/completions", {"prompt": "a", "truncate_prompt_tokens": 0}, "truncate_prompt_tokens")

    def test_offsets_are_of_characters(self):
        prompt = "äöü"
        scores = self.complete(prompt=prompt, echo=True, logprobs=1, max_tokens=2)["logprobs"]
        # <s>, then two bytes a letter; a letter begins with its first byte.
        self.assertEqual(scores["text_offset"][:8], [0, 3, 4, 4, 5, 5, 6, 6])
        self.assertEqual(scores["tokens"][1], "bytes:\\xc3")
        many = self.complete(logprobs=20, max_tokens=3)["logprobs"]["top_logprobs"]
        self.assertEqual([len(top) for top in many], [20, 20, 20])
        ids = self.complete(logprobs=1, max_tokens=1, return_tokens_as_token_ids=True)["logprobs"]["tokens"]
        self.assertRegex(ids[0], r"^token_id:\d+$")
        self.refuse("/v1/completions", {"prompt": "a", "echo": True, "logprobs": 1, "stream": True}, "echo")

    # llama.cpp

    def native(self, path="/completion", **more):
        body = {"model": "peers", "prompt": "Hello", "temperature": 0, "n_predict": 12, "logit_bias": LETTERS, **more}
        return self.server.post(path, body)

    def test_completion_has_llama_cpp_s_form(self):
        answer = self.native()
        self.assertEqual(answer["content"], self.complete()["text"])
        self.assertEqual((answer["stop"], answer["stop_type"], answer["tokens_predicted"]), (True, "limit", 12))
        self.assertEqual(answer["tokens_evaluated"], 6)
        self.assertEqual(answer["generation_settings"]["n_predict"], 12)
        self.assertEqual(answer["timings"]["predicted_n"], 12)
        stop = answer["content"][3:5]
        cut = self.native(stop=[stop])
        self.assertEqual((cut["stop_type"], cut["stopping_word"]), ("word", stop))
        tokens = self.native(return_tokens=True, n_probs=2)
        self.assertEqual(bytes(tokens["tokens"]).decode(), answer["content"])
        self.assertEqual([p["id"] for p in tokens["completion_probabilities"]], tokens["tokens"])
        self.assertEqual(len(tokens["completion_probabilities"][0]["top_logprobs"]), 2)
        self.assertEqual(self.native(response_fields=["content", "timings/predicted_n"]), {"content": answer["content"], "predicted_n": 12})
        both = self.native(prompt=["Hello", [72, 105]])
        self.assertEqual([both[0]["content"], both[1]["tokens_evaluated"]], [answer["content"], 2])
        self.assertEqual(self.native(prompt=[256, "Hello"])["content"], answer["content"])
        self.assertEqual(len(self.native(n_cmpl=3)), 3)
        self.assertEqual(self.native(n_predict=0)["content"], "")
        _, _, text = self.server.send("POST", "/completion", {
            "model": "peers", "prompt": "Hello", "temperature": 0, "n_predict": 12, "logit_bias": LETTERS, "stream": True,
            "return_tokens": True, "timings_per_token": True})  # fmt: skip
        events = [json.loads(line[6:]) for line in text.decode().splitlines() if line.startswith("data: ")]
        self.assertEqual("".join(event["content"] for event in events), answer["content"])
        self.assertEqual([event["stop"] for event in events], [False] * (len(events) - 1) + [True])
        self.assertEqual(sum((event["tokens"] for event in events[:-1]), []), [ord(c) for c in answer["content"]])

    def test_unsupported_fields_of_llama_cpp(self):
        for field, value in [("samplers", ["top_k"]), ("lora", [{"id": 0, "scale": 1}]), ("n_indent", 2), ("mirostat", 1),
                             ("post_sampling_probs", True), ("min_keep", 3)]:  # fmt: skip
            self.refuse("/completion", {"prompt": "a", field: value}, field)
        for field in ("n_probs", "return_tokens", "t_max_predict_ms"):
            self.refuse("/v1/chat/completions", {"messages": [user("a")], field: 5}, field)
        self.refuse("/completion", {"prompt": {"prompt_string": "a", "multimodal_data": ["x"]}}, "prompt")

    def test_the_middle_of_two_texts(self):
        ids = [256, PREFIX, *b"def f(", SUFFIX, *b"return x", MIDDLE]
        wanted = self.complete(prompt=ids)["text"]
        self.assertEqual(self.complete(prompt="def f(", suffix="return x")["text"], wanted)
        answer = self.native("/infill", prompt="", input_prefix="def f(", input_suffix="return x")
        self.assertEqual(answer["content"], wanted)
        begun = self.native("/infill", prompt="ab", input_prefix="def f(", input_suffix="return x", input_extra=[{"filename": "a.py", "text": "x"}])
        self.assertEqual(begun["tokens_evaluated"], len(ids) + 2 + len("a.py\nx\n"))
        answer = self.server.post("/api/generate", {"model": "peers", "prompt": "def f(", "suffix": "return x", "stream": False,
                                                    "options": {"temperature": 0, "num_predict": 12, "logit_bias": LETTERS}})  # fmt: skip
        self.assertEqual(answer["response"], wanted)
        for path, body, param in [("/infill", {"input_prefix": "a"}, "input_suffix"), ("/v1/completions", {"prompt": "a", "suffix": "b"}, "suffix"),
                                  ("/api/generate", {"prompt": "a", "suffix": "b"}, "suffix")]:  # fmt: skip
            self.refuse(path, {**body, "model": "plain"}, param)
        self.refuse("/v1/completions", {"prompt": [72], "suffix": "b"}, "suffix")
        # Control tokens in code are text.
        answer = self.native("/infill", prompt="", input_prefix="</s>", input_suffix="")
        self.assertEqual(answer["tokens_evaluated"], 1 + 1 + 4 + 1 + 1)

    # Ollama

    def ollama(self, path, **more):
        options = {"temperature": 0, "num_predict": 12, "logit_bias": LETTERS, **more.pop("options", {})}
        return self.server.post(path, {"model": "peers", "stream": False, "options": options, **more})

    def test_ollama_s_models_are_known_by_name(self):
        for path, body in [("/api/chat", {"messages": [user("a")]}), ("/api/generate", {"prompt": "a"}), ("/api/show", {}),
                           ("/api/embed", {"input": "a"}), ("/api/embeddings", {"prompt": "a"})]:  # fmt: skip
            status, _, text = self.server.send("POST", path, {"model": "llama9", **body})
            self.assertEqual((status, json.loads(text)), (404, {"error": "model 'llama9' not found"}))
        self.assertEqual(self.server.send("POST", "/api/show", {"model": "peers:latest"})[0], 200)
        alone = Server(self.folder / "peers.gguf")
        try:
            self.assertEqual(alone.send("POST", "/api/generate", {"model": "other", "prompt": "a"})[0], 404)
        finally:
            alone.end()

    def test_ollama_asks_whether_a_server_runs(self):
        self.assertEqual(self.server.send("HEAD", "/")[::2], (200, b""))
        self.assertEqual(self.server.send("GET", "/", headers={"User-Agent": "ollama-python/0.6"})[2], b"Ollama is running")
        self.assertIn(b"<html", self.server.send("GET", "/", headers={"User-Agent": "Mozilla/5.0"})[2])

    def test_ollama_s_context_goes_on(self):
        first = self.ollama("/api/generate", prompt="hi")
        self.assertEqual(first["context"][-12:], [ord(c) for c in first["response"]])
        second = self.ollama("/api/generate", prompt="why", context=first["context"])
        self.assertEqual(second["prompt_eval_count"], len(first["context"]) + len("[user]why[assistant]") + 1)
        self.assertNotIn("context", self.ollama("/api/generate", prompt="hi", raw=True))
        self.refuse("/api/generate", {"prompt": "a", "context": [9999]}, "context")
        self.refuse("/api/generate", {"prompt": "a", "raw": True, "context": [97]}, "context")

    def test_ollama_s_num_ctx_limits_a_request(self):
        answer = self.ollama("/api/chat", messages=[user("hi")], options={"num_ctx": 30})
        self.assertEqual((answer["eval_count"] + answer["prompt_eval_count"], answer["done_reason"]), (30, "length"))
        self.refuse("/api/chat", {"messages": [user("a" * 40)], "options": {"num_ctx": 30}}, "options.num_ctx")
        messages = [{"role": "system", "content": "S"}, user("a" * 40), {"role": "assistant", "content": "b" * 40}, user("hi")]
        cut = self.ollama("/api/chat", messages=messages, truncate=True, options={"num_ctx": 60})
        self.assertEqual(cut["prompt_eval_count"], 1 + len("[system]S[user]hi[assistant]") + 2)

    def test_ollama_s_scores(self):
        for path, body in (("/api/chat", {"messages": [user("hi")]}), ("/api/generate", {"prompt": "hi"})):
            answer = self.ollama(path, logprobs=True, top_logprobs=2, **body)
            text = answer["response"] if path.endswith("generate") else answer["message"]["content"]
            self.assertEqual("".join(score["token"] for score in answer["logprobs"]), text)
            self.assertEqual(len(answer["logprobs"][0]["top_logprobs"]), 2)
            self.assertNotIn("logprobs", self.ollama(path, **body))

    def test_ollama_s_think(self):
        answer = self.ollama("/api/chat", messages=[user("hi")], think="low")
        self.assertIn("message", answer)
        self.refuse("/api/chat", {"messages": [user("hi")], "think": "much"}, "think")
        status, _, text = self.server.send("POST", "/api/generate", {"model": "plain", "prompt": "a", "think": True})
        self.assertEqual((status, json.loads(text)["error"]), (400, '"plain" does not support thinking'))

    def test_ollama_s_messages_of_tools_have_no_ids(self):
        call = {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}]}
        result = {"role": "tool", "tool_name": "f", "content": "2"}
        answer = self.ollama("/api/chat", messages=[user("hi"), call, result])
        self.assertEqual(answer["prompt_eval_count"], 1 + len("[user]hi[assistant]f[tool]2[assistant]") + 3)

    def test_unsupported_fields_of_ollama(self):
        for path, body, param in [
            ("/api/chat", {"messages": [{**user("a"), "images": ["aGk="]}]}, "messages[0].images"),
            ("/api/generate", {"prompt": "a", "images": ["aGk="]}, "images"), ("/api/generate", {"prompt": "a", "template": "{{ .Prompt }}"}, "template"),
            ("/api/chat", {"messages": [user("a")], "shift": True}, "shift"), ("/api/chat", {"messages": [user("a")], "options": {"tfs_z": 0.5}}, "options.tfs_z"),
        ]:  # fmt: skip
            status, _, text = self.server.send("POST", path, {"model": "peers", **body})
            self.assertEqual(status, 400, text)
            self.assertIn(param, json.loads(text)["error"])

    def test_ollama_shows_a_model(self):
        shown = self.server.post("/api/show", {"model": "peers"})
        self.assertEqual(set(shown["capabilities"]), {"completion", "tools", "thinking", "insert"})
        self.assertEqual(shown["model_info"]["llama.context_length"], 1024)
        self.assertEqual(shown["template"], TEMPLATE)


class Loading(CliTest):
    def test_keep_alive_is_that_of_the_last_request(self):
        model = self.folder / "keep.gguf"
        tiny_gguf.write(model, TEMPLATE, context=256)
        server = Server(model)
        try:
            def loaded():
                return len(server.post("/api/ps", None, method="GET")["models"])

            def gone():
                for _ in range(500):
                    if not loaded():
                        return True
                    time.sleep(0.01)
                return False

            ask = {"model": "keep", "prompt": "a", "stream": False, "options": {"num_predict": 1}}
            server.post("/api/generate", {**ask, "keep_alive": 0})
            self.assertTrue(gone())
            # The next request loads it with the default of the server.
            server.post("/v1/completions", {"prompt": "a", "max_tokens": 1})
            time.sleep(0.3)
            self.assertEqual(loaded(), 1)
            loads = server.metric("model_loads_total")
            server.post("/v1/completions", {"prompt": "a", "max_tokens": 1})
            self.assertEqual(server.metric("model_loads_total"), loads)
            unload = server.post("/api/generate", {"model": "keep", "keep_alive": 0, "stream": False})
            self.assertEqual((unload["done"], unload["done_reason"]), (True, "unload"))
            self.assertTrue(gone())
            again = server.post("/api/chat", {"model": "keep", "messages": [], "keep_alive": 0})
            self.assertEqual((again["done_reason"], server.metric("model_loads_total")), ("unload", loads))
            self.assertEqual(server.post("/api/chat", {"model": "keep", "messages": []})["done_reason"], "load")
            self.assertEqual(loaded(), 1)
        finally:
            server.end()


class Encoders(CliTest):
    def test_embeddings_by_all_names(self):
        server = Server(ENCODERS / "bert-mean", "-a", "bert")
        try:
            wanted = server.post("/v1/embeddings", {"input": "Hello"})["data"][0]["embedding"]
            self.assertEqual(server.post("/api/embeddings", {"model": "bert", "prompt": "Hello"})["embedding"], wanted)
            self.assertEqual(server.post("/embedding", {"content": ["a", "Hello"]})[1], {"index": 1, "embedding": [wanted]})
            self.assertEqual(server.send("POST", "/embedding", {"content": "a", "embd_normalize": 0})[0], 400)
            long = {"model": "bert", "input": "word " * 2000}
            self.assertEqual(server.send("POST", "/api/embed", long)[0], 200)
            self.assertEqual(server.send("POST", "/api/embed", {**long, "truncate": False})[0], 400)
        finally:
            server.end()

    def test_documents_are_texts_or_objects(self):
        server = Server(ENCODERS / "bert-rerank")
        try:
            def rank(documents, path="/v1/rerank", **more):
                return server.post(path, {"query": "Hello", "documents": documents, **more})["results"]

            texts = ["one", "two words", "three"]
            plain = rank(texts)
            self.assertEqual(rank([{"text": text, "id": 7} for text in texts]), plain)
            self.assertEqual(rank(["one", {"text": "two words"}, "three"], "/reranking"), plain)
            self.assertEqual(rank([{"body": text} for text in texts], "/v1/reranking", rank_fields=["body"]), plain)
            given = rank([{"text": "one", "id": 7}, "two words"], return_documents=True, top_n=2)
            by_index = {result["index"]: result["document"] for result in given}
            self.assertEqual(by_index, {0: {"text": "one", "id": 7}, 1: {"text": "two words"}})
            self.assertEqual(len(rank(texts, top_n=1)), 1)
            for wrong in ([{"body": "a"}], [5], []):
                self.assertEqual(server.send("POST", "/v1/rerank", {"query": "q", "documents": wrong})[0], 400, wrong)
        finally:
            server.end()


if __name__ == "__main__":
    unittest.main()
