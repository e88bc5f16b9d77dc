#!/usr/bin/env python3
"""Arguments of the program: flags and verbs, numbers, texts, and MODEL.

usage: cli_arguments_test.py VEERY [unittest arguments]
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import unittest
import unittest.mock

import tiny_gguf
from cli_base import PROGRAM, TINY, CliTest

# Numeric flags: verb, flag, values in its range, values just outside of it.
NUMBERS = [
    ("run", "-n", ["0", "-1", "2147483647"], ["-2", "2147483648"]),
    ("run", "-s", ["-1", "9223372036854775807"], ["-2", "9223372036854775808"]),
    ("run", "-c", ["0", "64"], ["-1", "1073741825"]),
    ("run", "-t", ["0", "2"], ["-1", "1025"]),
    ("run", "--top-k", ["-1", "0", "2147483647"], ["-2", "2147483648", "1.5"]),
    ("run", "--repeat-last-n", ["-1", "0", "5"], ["-2", "1.5"]),
    ("run", "--temp", ["0", "0.5", "1e-1", ".5"], ["-0.1", "-1", "1e10"]),
    ("run", "--top-p", ["0", "1", "0.5"], ["-0.1", "1.01"]),
    ("run", "--min-p", ["0", "1", "0.5"], ["-0.1", "1.01"]),
    ("run", "--repeat-penalty", ["1", "1.1", "0.5"], ["0", "-1", "1e4"]),
    ("run", "--presence-penalty", ["-1", "0.5"], ["-101", "1e9"]),
    ("run", "--typical-p", ["0.5", "1"], ["-0.1", "1.1"]),
    ("run", "--xtc-probability", ["0.5"], ["-0.1", "1.1"]),
    ("run", "--mirostat", ["0", "2"], ["-1", "3"]),
    ("run", "--dry-base", ["1.75"], ["0.5"]),
    ("run", "--dry-allowed-length", ["2"], ["-1", "0.5"]),
    ("logits", "--top", ["0", "3"], ["-1", "1.5"]),
    ("perplexity", "-c", ["16"], ["3", "-1"]),
    ("bench", "-p", ["8"], ["-1", "1.5"]),
    ("bench", "-n", ["4"], ["-1", "1.5"]),
    ("bench", "-r", ["1"], ["0", "-1"]),
    ("bench", "-d", ["0"], ["-1"]),
    ("bench", "-b", ["1"], ["0", "513"]),
    ("bench", "--chain", ["1"], ["0", "129"]),
    ("plan", "--rows", ["1"], ["0", "2049"]),
    ("plan", "-d", ["0"], ["-1"]),
    ("plan", "-r", ["1"], ["0"]),
    ("show", "-c", ["32"], ["-1"]),
    ("verify", "--tolerance", ["0", "0.5"], ["-1", "2"]),
]
NO_NUMBERS = ["", " ", "x", "5x", " 5", "5 ", "0x10", "nan", "inf", "-inf", "1e400", "10^23", "1" * 40, "1,5", "--json"]

# Flags of llama.cpp, Ollama and mlx-lm: the error says what to use instead, or why there is none.
FOREIGN = [
    "--split-mode", "--main-gpu", "-cnv", "-no-cnv", "-hff", "-b", "-ub", "-fa", "--flash-attn",
    "--mlock", "--no-mmap", "--jinja", "--color", "-i", "--max-kv-size", "--adapter-path", "--lora", "--backend-sampling",
    "--format", "--tfs", "--chat-template-kwargs", "-r", "-e", "--no-display-prompt", "-mu", "--verbose", "-v",
    "--kv-bits", "--draft-p-min", "--host", "--rope-freq-base", "--num-beams", "--prompt-cache", "--keepalive",
    "--format", "--reasoning", "--mmproj", "-st", "--numa", "--samplers", "--in-prefix", "-ts", "-tb", "-sysf"]  # fmt: skip


MANUAL = pathlib.Path(__file__).parents[2] / "docs" / "cli.md"


def sampling_flags():
    """(flag, lowest value, highest value, values outside the range) of each row of the manual's table, which a test
    compares with the program's own."""
    table = MANUAL.read_text().split("<!-- sampling parameters -->")[1].split("<!-- end -->")[0]
    for flag, low, high, whole in re.findall(r"^\| `(--[a-z-]+)` \| ([-.\d]+) (?:to|or) ([-.\d]+)(, whole)? \|", table, re.MULTILINE):
        outside = [str(float(low) - 1), str(float(high) * 2 + 1), "x"]
        yield flag, low, high, [value.removesuffix(".0") for value in outside] + (["0.5"] if whole else [])


class Flags(CliTest):
    def setUp(self):
        self.text = self.write("text.txt", "some text, and some more of it. " * 4)

    def usual(self, verb):
        """Returns arguments with which a verb finishes quickly."""
        return {
            "run": ["-p", "x", "-n", 0, "--raw", "-t", 1, "-q"],
            "logits": ["-p", "x", "-t", 1],
            "perplexity": ["-f", self.text, "-c", 32, "-t", 1],
            "bench": ["-p", 4, "-n", 2, "-r", 1, "-t", 1],
            "plan": ["--rows", 1, "-t", 1],
            "show": [],
            "verify": ["-t", 1],
        }[verb]

    def test_numbers_are_checked_whole_and_in_their_range(self):
        for row, (verb, flag, inside, outside) in enumerate(NUMBERS):
            for value in inside:
                with self.subTest(verb=verb, flag=flag, value=value):
                    self.veery(verb, self.model, *self.usual(verb), flag, value)
            # All values for an integer and a real flag; the other flags use the same two functions.
            for value in outside + (NO_NUMBERS if flag in ("-n", "--temp") and verb == "run" else NO_NUMBERS[row % 5 :: 5]):
                with self.subTest(verb=verb, flag=flag, value=value):
                    message = self.error(verb, self.model, *self.usual(verb), flag, value, status=2)
                    self.assertIn(value, message)
                    self.assertRegex(message, "number|empty")

    def test_sampling_parameters_have_the_ranges_of_the_manual(self):
        rows = list(sampling_flags())
        self.assertGreater(len(rows), 20)
        for column in (1, 2):  # all lowest values, all highest values
            self.veery("run", self.model, *self.usual("run"), *(word for row in rows for word in (row[0], row[column])))
        for flag, low, high, outside in rows:
            for value in outside:
                with self.subTest(flag=flag, value=value):
                    message = self.error("run", self.model, *self.usual("run"), flag, value, status=2)
                    self.assertIn(flag, message)
                    self.assertRegex(message, f"number|{low} or {high}")

    def test_a_number_is_decimal(self):
        self.assertEqual(len(self.json("logits", self.model, "-p", "x", "--top", "010")["positions"][0]["top"]), 10)

    def test_the_last_of_repeated_flags_counts(self):
        answer = self.run_json("-p", "one", "-p", "hi", "-n", 7, "-n", 2, "--temp", 1, "--temp", 0, "--ignore-eos",
                               "--ignore-eos", "--raw")  # fmt: skip
        self.assertEqual((bytes(answer["prompt_ids"][1:]), len(answer["ids"])), (b"hi", 2))
        self.assertEqual(self.json("show", "-m", self.bare, "-m", self.model, "-c", 8, "-c", 16)["config"]["context"], 16)
        self.assertIn("--predict", self.error("run", self.model, "-p", "x", "-n", "x", "-n", 1, status=2))

    def test_a_value_may_follow_an_equals_sign_and_a_number_its_letter(self):
        for flags in [["-n3"], ["-n=3"], ["--predict=3"], ["--max-tokens", "3"], ["-n", "3"]]:
            with self.subTest(flags=flags):
                answer = self.run_json("--prompt=hi", *flags, "--ignore-eos", "-s-1", "--temp=0.5")
                self.assertEqual(len(answer["ids"]), 3)
        self.assertIn("--json", self.error("show", self.model, "--json=x", status=2))

    def test_a_word_of_several_letters_is_not_a_letter_with_a_value(self):
        for word, part in [
            ("-prompt", "did you mean '--prompt'?"),
            ("-temp", "did you mean '--temp'?"),
            ("-ctx-size", "did you mean '--ctx-size'?"),
            ("-phello", "separate the value: '-p hello'"),
            ("-pinf", "separate the value: '-p inf'"),
            ("-tfast", "separate the value: '-t fast'"),
            ("-xyz", "unknown argument '-xyz'"),
            ("--promt", "did you mean '--prompt'?"),
            ("--zzz", "unknown argument '--zzz'"),
        ]:
            with self.subTest(word=word):
                message = self.error("run", self.model, word, 9, "-q", status=2)
                self.assertIn(f"'{word}'", message)
                self.assertIn(part, message)

    def test_flags_of_other_programs_get_advice(self):
        for flag in FOREIGN:
            for more in [["99"], ["org/name", "-p", "hi"]]:
                with self.subTest(flag=flag, more=more):
                    message = self.error("run", self.model, flag, *more, status=2)
                    self.assertRegex(message, f"unknown argument '{flag}': [^ ].*[^ ].* ")
                    self.assertNotIn("did you mean", message)

    def test_other_spellings_are_the_flag(self):
        usual = self.run_json("-p", "hi", "-n", 3, "--temp", 0, "-c", 32, "--repeat-penalty", 2, "-sys", "be")
        for spelled in [
            ["--n-predict", 3, "--temperature", 0, "--ctx_size", 32, "--repeat_penalty", 2, "--system-prompt", "be"],
            ["--max_tokens", 3, "--temp", 0, "--num_ctx", 32, "--repetition_penalty", 2, "--sys", "be"],
            ["--n_predict=3", "--temp=0", "--ctx-size=32", "--repeat-penalty=2", "--system=be"],
            ["--max-new-tokens", 3, "--temperature", 0, "--context-length", 32, "--repeat-penalty", 2, "-sys", "be"],
        ]:
            with self.subTest(spelled=spelled):
                answer = self.run_json("-p", "hi", *spelled)
                self.assertEqual((answer["prompt_ids"], answer["ids"]), (usual["prompt_ids"], usual["ids"]))

    def test_each_sampler_changes_the_answer(self):
        flags = ["-p", "hi", "-n", 40, "-s", 3, "--temp", 1, "--top-k", 0, "--top-p", 1, "--min-p", 0, "--ignore-eos", "--raw"]
        usual = self.run_json(*flags)["ids"]
        for more in [
            ["--presence-penalty", 3], ["--frequency-penalty", 3], ["--typical-p", 0.3], ["--typical", 0.3], ["--top-n-sigma", 0.5],
            ["--xtc-probability", 1, "--xtc-threshold", 0.001], ["--dynatemp-range", 1], ["--mirostat", 2, "--mirostat-tau", 2],
            ["--dry-multiplier", 50, "--dry-allowed-length", 1, "--dry-sequence-breaker", "none"], ["-l", f"{usual[0]}-100"], ["--logit-bias", "65+100"],
        ]:  # fmt: skip
            with self.subTest(more=more):
                self.assertNotEqual(self.run_json(*flags, *more)["ids"], usual)
        self.assertEqual(self.run_json(*flags, "--typical-p", 1, "--top-n-sigma", 0, "--mirostat", 0)["ids"], usual)
        for value in ["x", "5", "5+", "5+x", "5*2", "-5+1", "99999999999+1"]:
            self.assertIn("logit-bias", self.error("run", self.model, *flags, "-l", value, status=2))
        self.assertIn("expected 0 or 2", self.error("run", self.model, *flags, "--mirostat", 1, status=2))

    def test_help_takes_precedence(self):
        for arguments in [["run", "--nope", "--help"], ["run", "-n", "x", "-h"], ["help", "run"]]:
            with self.subTest(arguments=arguments):
                self.assertIn(b"Usage: veery run", self.veery(*arguments).stdout)
        self.assertEqual(bytes(self.run_json("-p", "--help", "-n", 0, "--raw")["prompt_ids"][1:]), b"--help")

    def test_empty_values_are_errors(self):
        for arguments in [
            ["run", self.model, "-f", ""], ["run", self.model, "--ids", ""], ["run", "-m", "", "-p", "x"],
            ["run", "", "-p", "x"], ["show", ""], ["convert", "", "x.gguf"], ["run", self.model, "-p", "x", "-ctk", ""], ["convert", self.model, "x", "--to", ""],
            ["perplexity", self.model, "-f", self.text, "--reference", ""], ["template", self.model, "--messages", ""],
            ["template", self.model, "--messages", self.write("m.json", []), "--tools", ""],
        ]:  # fmt: skip
            with self.subTest(arguments=arguments):
                self.assertIn("empty", self.error(*arguments, status=2))

    def test_verbs_of_other_programs_and_misspelt_ones(self):
        for word, part in [
            ("download", "veery pull ORG/NAME"), ("generate", "'veery run MODEL -p TEXT'"),
            ("chat", "'veery run MODEL'"), ("ls", "'veery list'"), ("rm", "'veery list'"), ("rn", "did you mean 'run'?"),
            ("tokenise", "did you mean 'tokenize'?"), ("qunatize", "did you mean 'quantize'?"), ("llama-bench", "'veery bench"),
            ("model.gguf", "'veery run model.gguf'"), ("-m", "before a verb"), ("xyzzy", "expected one of run, serve, batch, tokenize"),
        ]:  # fmt: skip
            with self.subTest(word=word):
                message = self.error(word, "x", status=2)
                self.assertIn(f"'{word}'", message)
                self.assertIn(part, message)


class Texts(CliTest):
    def test_words_after_the_model_are_the_prompt(self):
        for arguments in [["hi", "there"], ["hi there"], ["-n", "0", "hi", "-q", "there"]]:
            with self.subTest(arguments=arguments):
                ids = self.run_json("--raw", "-n", 0, *arguments)["prompt_ids"]
                self.assertEqual(bytes(ids[1:]), b"hi there")
        ids = self.json("run", "hi", "-m", self.model, "-n", 0, "-t", 1, "--raw")["prompt_ids"]
        self.assertEqual(bytes(ids[1:]), b"hi")
        dashed = self.veery("tokenize", self.model, "--no-special", "--json", "--", "-n", "--json").stdout
        self.assertEqual(bytes(json.loads(dashed)["ids"]), b"-n --json")
        self.assertEqual(self.json("logits", self.model, "hi"), self.json("logits", self.model, "-p", "hi"))
        self.assertEqual(self.json("tokenize", self.model, "-", stdin=b"a")["ids"], [256, 97])
        for flags in [["-p", "x"], ["--ids", "1"]]:
            self.assertIn("'extra'", self.error("run", self.model, *flags, "extra", status=2))
        self.assertIn("'extra'", self.error("show", self.model, "extra", status=2))

    def test_files_and_lines(self):
        file = self.write("text.txt", "hi\n")
        self.assertEqual(self.json("tokenize", self.model, "-f", file)["ids"], [256, 104, 105, 10])
        self.assertEqual(self.json("tokenize", self.model, "-f", "-", stdin=b"a")["ids"], [256, 97])
        self.assertEqual(self.json("logits", self.model, "-f", file), self.json("logits", self.model, "-p", "hi"))
        lines = self.write("lines.jsonl", '"a"\n3\n')
        message = self.veery("tokenize", self.model, "--jsonl", "-f", lines, status=1).stderr.decode()
        self.assertIn("lines.jsonl, line 2", message)

    def test_inputs_are_read_before_the_model(self):
        missing = self.folder / "missing.txt"
        nothing = self.folder / "nothing.gguf"  # reported after errors of the inputs
        for arguments in [
            ["run", nothing, "-f", missing], ["tokenize", nothing, "-f", missing], ["logits", nothing, "-f", missing],
            ["perplexity", nothing, "-f", missing], ["template", nothing, "--messages", missing],
        ]:  # fmt: skip
            with self.subTest(arguments=arguments):
                self.assertIn("missing.txt", self.error(*arguments))
        text = self.write("text.txt", "some text, and some more of it. " * 4)
        self.assertIn("nothing.gguf", self.error("perplexity", self.model, "-f", text, "--reference", nothing))

    def test_a_system_message_needs_a_template(self):
        for arguments, reason in [
            ([self.bare, "-p", "hi"], "has no chat template"),
            ([self.model, "-p", "hi", "--raw"], "--raw leaves the chat template out"),
            ([self.model, "--ids", "1,2"], "--ids are used unchanged"),
        ]:
            with self.subTest(arguments=arguments):
                message = self.error("run", *arguments, "-sys", "Be brief", "-n", 1, status=2)
                self.assertIn("--system", message)
                self.assertIn(reason, message)
        self.veery("run", self.bare, "-p", "hi", "-sys", "", "-n", 1)

    def test_a_template_that_ignores_it_is_reported(self):
        model = self.folder / "users.gguf"
        tiny_gguf.write(model, "{% for m in messages if m.role == 'user' %}{{ m.content }}{% endfor %}")
        done = self.veery("run", model, "-p", "hi", "-sys", "Be brief", "-n", 1, "-q", "-t", 1)
        self.assertIn("leaves the system message out", done.stderr.decode())
        self.assertEqual(self.veery("run", self.model, "-p", "hi", "-sys", " Be brief\n", "-n", 1, "-q").stderr, b"")

    def test_messages_are_objects_with_a_role(self):
        for messages, part in [
            ({}, "found a JSON object, expected an array of messages"),
            ("text", "found a JSON string"),
            ([1], "message 0 is a JSON number"),
            ([{"role": "user"}, {}], "message 1 has no role"),
            ([{"role": 3}], "the role of message 0 is a JSON number"),
            ([{"role": ""}], "the role of message 0 is empty"),
            ([[]], "message 0 is a JSON array"),
        ]:
            with self.subTest(messages=messages):
                path = self.write("messages.json", json.dumps(messages))
                message = self.error("template", self.model, "--messages", path)
                self.assertIn(str(path), message)
                self.assertIn(part, message)
        for tools in [{}, [1], "x"]:
            path = self.write("tools.json", json.dumps(tools))
            messages = self.write("messages.json", [])
            self.assertIn("tools.json", self.error("template", self.model, "--messages", messages, "--tools", path))

    def test_bytes_without_a_token_are_reported(self):
        model = self.folder / "lossy.gguf"
        tokens = [*tiny_gguf.byte_letters(), "<s>", "</s>"]
        tokens[4], tokens[0xF1] = "<unused 4>", "<unused 241>"
        tiny_gguf.write(model, changed={"tokenizer.ggml.tokens": tokens})
        text = b"a\x04b\xf1\x04"
        done = self.veery("tokenize", model, "--json", stdin=text)
        self.assertEqual(json.loads(done.stdout), {"ids": [256, 97, 98], "tokens": ["<s>", "a", "b"],
                                                   "lost": {"bytes": 3, "first": 1}})  # fmt: skip
        told = "veery: the vocabulary has no token for 3 bytes of the text, the first at offset 1: left out\n"
        self.assertEqual(done.stderr.decode(), told)
        for verb, more in [("logits", []), ("run", ["-n", 1, "-q", "--raw", "-t", 1])]:
            file = self.folder / "lossy.txt"
            file.write_bytes(b"</s>" + text)
            message = self.veery(verb, model, "-f", file, *more).stderr.decode()
            self.assertIn("no token for 3 bytes", message)
            self.assertIn("offset 5", message)
        self.assertEqual(self.json("run", model, "-f", file, "-n", 1, "-t", 1)["lost"], {"bytes": 3, "first": 5})
        self.assertNotIn("lost", self.json("tokenize", model, stdin=b"ab"))
        lines = self.veery("tokenize", model, "--jsonl", stdin=b'"a"\n"\\u0004"\n')
        self.assertEqual(lines.stdout, b"[256,97]\n[256]\n")
        self.assertIn("1 byte of standard input, line 2, the first at offset 0", lines.stderr.decode())


class Models(CliTest):
    """The files that are opened for a path."""

    def setUp(self):
        self.place = self.folder / self._testMethodName
        self.place.mkdir()

    def opened(self, path):
        return self.json("show", path)["path"]

    def tiny_folder(self, name="model", source="qwen3"):
        folder = self.place / name
        shutil.copytree(TINY / source, folder)
        vocabulary = {letter: number for number, letter in enumerate(tiny_gguf.byte_letters())}
        bytes_ = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
        (folder / "tokenizer.json").write_text(json.dumps({
            "added_tokens": [], "normalizer": None, "pre_tokenizer": bytes_, "post_processor": None, "decoder": bytes_,
            "model": {"type": "BPE", "vocab": vocabulary, "merges": []}}))  # fmt: skip
        return folder

    def test_a_folder_with_one_gguf_file(self):
        only = self.place / "only.gguf"
        shutil.copy(self.model, only)
        shutil.copy(self.model, self.place / "mmproj-only.gguf")
        (self.place / "README.md").write_text("text")
        for path in [self.place, f"{self.place}/"]:
            self.assertEqual(os.path.normpath(self.opened(path)), str(only))
        ids = self.json("run", self.place, "hi", "-n", 0, "-t", 1)["prompt_ids"]
        self.assertEqual(ids, self.run_json("hi", "-n", 0)["prompt_ids"])
        self.assertEqual(self.json("tokenize", self.place, "hi")["ids"], [256, 104, 105])
        messages = self.write("m.json", [{"role": "user", "content": "hi"}])
        self.assertEqual(self.veery("template", self.place, "--messages", messages).stdout, b"<s>[user]hi")
        self.assertTrue(self.json("verify", self.place, "-t", 1)["sound"])
        self.veery("quantize", self.place, self.folder / "q8.gguf", "Q8_0")
        self.veery("convert", self.place, self.folder / "f16.gguf", "--type", "f16")

    def test_several_gguf_files_are_listed(self):
        for name in ["b.gguf", "a.gguf"]:
            shutil.copy(self.model, self.place / name)
        for verb in [["show"], ["tokenize", "-p", "x"], ["run", "-p", "x"], ["verify"]]:
            message = self.error(verb[0], self.place, *verb[1:])
            self.assertIn(f"{self.place}: contains 2 GGUF models, expected the name of one: a.gguf, b.gguf", message)

    def test_the_parts_of_a_split_file_are_one(self):
        self.veery("convert", self.model, self.place / "whole.gguf", "--split-size", "20K")
        self.assertGreater(len(list(self.place.iterdir())), 1)
        self.assertIn("-00001-of-", self.opened(self.place))

    def test_a_folder_of_the_cache(self):
        cache = self.place / "models--org--name"
        for number, (name, model) in enumerate([("aaa", self.model), ("bbb", self.bare)]):
            snapshot = cache / "snapshots" / name
            snapshot.mkdir(parents=True)
            (cache / "blobs").mkdir(exist_ok=True)
            shutil.copy(model, cache / "blobs" / name)
            (snapshot / "model.gguf").symlink_to(f"../../blobs/{name}")
            os.utime(snapshot, (1e9 + number, 1e9 + number))
        self.assertTrue(self.opened(cache).endswith("snapshots/bbb/model.gguf"))
        (cache / "refs").mkdir()
        (cache / "refs" / "main").write_text("aaa")
        self.assertTrue(self.opened(cache).endswith("snapshots/aaa/model.gguf"))
        for wrong in ["../../..", "gone", ""]:
            (cache / "refs" / "main").write_text(wrong)
            self.assertTrue(self.opened(cache).endswith("snapshots/bbb/model.gguf"))
        shutil.rmtree(cache / "snapshots")
        (cache / "snapshots").mkdir()
        self.assertIn("expected a snapshot", self.error("show", cache))

    def test_files_of_a_folder_stand_for_it(self):
        folder = self.tiny_folder()
        ids = [*b"Hello"]
        for name in ["config.json", "model.safetensors"]:
            with self.subTest(name=name):
                self.assertEqual(os.path.normpath(self.opened(folder / name)), str(folder))
                self.assertEqual(self.json("tokenize", folder / name, "Hello")["ids"], ids)
        answers = [self.json("run", path, "--ids", "1,2", "-n", 3, "-t", 1, "--temp", 0)["ids"]
                   for path in (folder, folder / "model.safetensors")]  # fmt: skip
        self.assertEqual(answers[0], answers[1])
        done = subprocess.run([PROGRAM, "show", "model.safetensors"], cwd=folder, capture_output=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        shutil.copy(folder / "model.safetensors", folder / "other.safetensors")
        self.assertIn("is not among the weights", self.error("show", folder / "other.safetensors"))
        (folder / "config.json").unlink()
        self.assertIn("no config.json in its folder", self.error("show", folder / "model.safetensors"))

    def test_a_tokenizer_alone(self):
        folder = self.tiny_folder()
        ids = [*b"Hello"]
        (folder / "model.safetensors").unlink()
        (folder / "config.json").unlink()
        for path in [folder, folder / "tokenizer.json"]:
            self.assertEqual(self.json("tokenize", path, "Hello")["ids"], ids)
        alone = self.place / "other-name.json"
        shutil.copy(folder / "tokenizer.json", alone)
        self.assertEqual(self.json("tokenize", alone, "Hello")["ids"], ids)
        (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": "{{ messages[0].content }}!"}))
        messages = self.write("m.json", [{"role": "user", "content": "hi"}])
        for path in [folder, folder / "tokenizer.json", folder / "tokenizer_config.json"]:
            self.assertEqual(self.veery("template", path, "--messages", messages).stdout, b"hi!")
        self.assertIn("is not a model, expected", self.error("run", folder / "tokenizer.json", "-p", "x"))
        self.assertIn("contains no model", self.error("run", folder, "-p", "x"))

    def test_paths_without_a_model_are_errors(self):
        self.assertIn("contains no model", self.error("show", self.place))
        (self.place / "adapter_config.json").write_text("{}")
        self.assertIn("adapter", self.error("show", self.place))
        self.assertIn(": no such file or folder", self.error("show", self.place / "gone"))
        self.assertIn("downloads it", self.error("run", "org/name", "-p", "x"))


class Names(CliTest):
    """Models by name, in folders named by the environment."""

    def setUp(self):
        self.place = self.folder / self._testMethodName
        self.place.mkdir()
        self.own, self.hub = self.place / "own", self.place / "hub"
        for name, value in [("VEERY_MODELS", self.own), ("HF_HUB_CACHE", self.hub)]:
            change = unittest.mock.patch.dict(os.environ, {name: str(value)})
            change.start()
            self.addCleanup(change.stop)

    def test_the_models_of_the_script_have_its_names(self):
        script = (pathlib.Path(__file__).resolve().parents[2] / "scripts" / "models.sh").read_text()
        known = re.findall(r"^    (\w+)\)\n(?:.*\n)??      file=(\S+)", script, re.MULTILINE)
        self.assertEqual([name for name, file in known], ["smollm2", "gemma3", "minilm"])
        self.own.mkdir()
        for name, file in known:
            self.assertIn(f"'veery pull {name}' downloads it", self.error("show", name))
            if file.endswith(".gguf"):
                os.link(self.model, self.own / file)
                self.assertEqual(self.json("show", name)["path"], str(self.own / file))
        size = self.model.stat().st_size
        for row, (name, file) in zip(self.json("list")["models"], known[:2], strict=True):
            self.assertEqual(row, {"name": name, "bytes": size, "kind": "GGUF", "path": str(self.own / file)})
        folder = (self.own / known[2][1]).parent
        folder.mkdir()
        (self.own / known[2][1]).write_bytes(b"x")
        (folder / "config.json").write_text('{"model_type": "none"}')
        self.assertIn(str(folder), self.error("show", "minilm"))
        row = self.json("list")["models"][2]
        self.assertEqual(row, {"name": "minilm", "bytes": 1, "kind": "safetensors", "path": str(folder)})
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.place)
        os.link(self.bare, "smollm2")
        self.assertEqual(self.json("show", "smollm2")["path"], "smollm2")  # a path takes precedence

    def test_names_of_the_cache_work_wherever_a_model_is_given(self):
        snapshot = self.hub / "models--org--tiny" / "snapshots" / "c0ffee"
        snapshot.mkdir(parents=True)
        os.link(self.model, snapshot / "tiny-F32.gguf")
        ids = ["--ids", "1", "-t", 1]
        self.assertEqual(self.veery("logits", "org/tiny", *ids).stdout, self.veery("logits", self.model, *ids).stdout)
        for flag in ["-m", "-hf", "--hf-repo"]:
            self.assertEqual(self.json("show", flag, "org/tiny:F32")["path"], str(snapshot / "tiny-F32.gguf"))
        os.link(self.bare, snapshot / "tiny-Q8_0.gguf")
        self.assertIn("tiny-F32.gguf", self.error("run", "-m", "org/tiny", "-p", "x"))
        rows = [line.split() for line in self.veery("list").stdout.decode().splitlines()]
        self.assertEqual([(row[0], row[-2]) for row in rows], [("org/tiny:F32", "GGUF"), ("org/tiny:Q8_0", "GGUF")])
        self.veery("perplexity", "org/tiny:f32", "-f", self.write("text.txt", "some text, " * 9), "-c", 32, "-t", 1, "--reference", "org/tiny:q8_0")
        out = self.veery("convert", "org/tiny:f32", snapshot / "tiny-F32.gguf", "--force", status=1)
        self.assertIn("is also the input", out.stderr.decode())
        gone = self.error("show", "org/other:Q8_0")
        self.assertIn(str(self.hub / "models--org--other"), gone)

    def test_no_models_are_no_failure(self):
        self.assertEqual(self.json("list"), {"models": [], "folders": [str(self.own), str(self.hub)]})
        done = self.veery("list")
        self.assertEqual(done.stdout, b"")
        self.assertIn("veery pull", done.stderr.decode())
        self.assertIn("smollm2", self.error("list", "smollm2", status=2))


if __name__ == "__main__":
    unittest.main()
