#!/usr/bin/env python3
"""Runs the program with a model of random weights: exit statuses, messages, output.

usage: cli_test.py VEERY [unittest arguments]
"""
import ast
import json
import os
import resource
import struct
import subprocess
import sys
import unittest
import xml.etree.ElementTree

import syscalls
import tiny_gguf
from cli_base import PROGRAM, TEMPLATE, TINY, CliTest

VERBS = ["run", "serve", "batch", "tokenize", "template", "logits", "embed", "rerank", "classify", "transcribe", "perplexity", "bench",
         "inspect", "plan", "convert", "quantize", "pull", "list", "show", "verify"]


class Misuse(CliTest):
    def test_help_and_version_are_answers(self):
        self.assertIn("Verbs:", self.veery("--help").stdout.decode())
        self.assertRegex(self.veery("--version").stdout.decode(), r"\Aveery \d+\.\d+\.\d+\n")
        for verb in VERBS:
            text = self.veery(verb, "--help").stdout.decode()
            self.assertIn(f"Usage: veery {verb} [OPTIONS]", text)
            self.assertIn("Example:", text)
            self.assertEqual("--json" in text, verb not in ("serve", "batch"))
            self.assertLessEqual(max(map(len, text.split("Example:")[0].splitlines())), 80)

    def test_status_2_names_the_flag(self):
        for arguments, part in [
            (["fly"], "unknown verb 'fly'"),
            (["run"], "missing MODEL"),
            (["run", "--nope"], "--nope"),
            (["run", self.model, "-p"], "--prompt"),
            (["run", self.model, "-p", "x", "--temp", "-1"], "--temp"),
            (["run", self.model, "-p", "x", "--top-p", "1.5"], "--top-p"),
            (["run", self.model, "-p", "x", "-n", "many"], "--predict"),
            (["run", self.model, "--ids", "1,,2"], "--ids"),
            (["run", self.model, "--ids", "258"], "258"),
            (["run", self.model, "--ids", "1", "-p", "x"], "--ids"),
            (["run", self.model, "-p", "x", "--stop", ""], "--stop"),
            (["run", self.model, "-p", "x", "extra"], "extra"),
            (["run", self.model, "-p", "x", "--device", "tpu"], "'tpu' is not one of"),
            (["plan", self.model, "--device", "tpu"], "'tpu' is not one of"),
            (["run", self.model, "-p", "x", "-ngl", "1"], "the device is cpu"),
            (["embed", TINY.parent / "encoders/bert-mean", "-p", "x", "-ngl", "1"], "the device is cpu"),
            (["run", self.model, "-p", "x", "--device-memory", "5"], "the device cpu has no memory of its own"),
            (["run", self.model, "-p", "x", "--relaxed"], "--relaxed: the device is cpu, expected --device cuda"),
            (["plan", self.model, "--relaxed", "--exact"], "--relaxed: the device is cpu"),
            (["bench", self.model, "--relaxed", "--device", "metal"], "--relaxed: the device is metal"),
            (["embed", self.model, "x", "--relaxed", "--exact", "--device", "cuda"], "--relaxed: excludes --exact"),
            (["logits", self.model], "--ids"),
            (["perplexity", self.model], "--file"),
            (["template", self.model], "--messages"),
            (["template", "--messages", "m.json"], "--template-file"),
            (["template", self.model, "--messages", "m", "--now", "noon"], "--now"),
            (["template", self.model, "--messages", "m", "--now", "2023-02-29"], "--now"),
            (["bench", self.model, "-p", "0", "-n", "0"], "-p"),
            (["bench", self.model, "--logits", "--chain", "8"], "--chain"),
            (["bench", TINY.parent / "encoders/modernbert-mean", "--chain", "8"], "an encoder predicts no next token"),
            (["plan", self.model, "--rows", "0"], "--rows"),
            (["bench", self.model, "--sweep", "width"], "'width' is not one of threads, depth, batch, length"),
            (["bench", self.model, "--sweep", "threads=1,0"], "found '0', expected a number from 1"),
            (["bench", self.model, "--sweep", "depth=1,,2"], "found '', expected a number from 0"),
        ]:
            with self.subTest(arguments=arguments):
                self.assertIn(part, self.error(*arguments, status=2))

    def test_status_1_names_the_failure(self):
        damaged = self.write("damaged.gguf", "GGUFnot")
        for arguments, part in [
            (["run", "/no/such/file", "-p", "x"], "/no/such/file"),
            (["run", self.folder, "-p", "x"], str(self.folder)),
            (["show", damaged], "damaged.gguf"),
            (["tokenize", damaged, "-p", "x"], "damaged.gguf"),
            (["run", self.model, "-f", "/no/such/text"], "/no/such/text"),
            (["run", self.model, "-p", "x", "-c", "65"], "65"),
            (["bench", self.model, "-p", "0", "-n", "4", "--chain", "8"], "the CPU decodes one token"),
            (["logits", self.model, "--ids", "1,2", "-c", "1"], "2"),
            (["perplexity", self.model, "-f", damaged, "-c", "64"], "64"),
        ]:
            with self.subTest(arguments=arguments):
                self.assertIn(part, self.error(*arguments))

    def test_prompt_longer_than_the_context_names_both_numbers(self):
        message = self.error("run", self.model, "--raw", "-p", "x" * 99, "-c", "32")
        self.assertIn("100", message)
        self.assertIn("32", message)

    def test_output_that_cannot_be_written(self):
        commands = [
            ["run", self.model, "-p", "x", "-n", "20", "--ignore-eos", "-t", "1"],
            ["show", self.model],
            ["run", "--help"],
            ["tokenize", self.model, "-p", "x"],
        ]
        for command in commands:
            with self.subTest(command=command), open("/dev/full", "wb") as full:
                done = self.veery(*command, stdout=full, status=1)
                self.assertIn("veery: error: standard output: No space left", done.stderr.decode())
            with self.subTest(command=command, pipe=True):
                reading, writing = os.pipe()
                os.close(reading)
                done = self.veery(*command, stdout=writing, status=1)
                os.close(writing)
                self.assertIn("veery: error: standard output: Broken pipe", done.stderr.decode())


class Run(CliTest):
    def test_json_has_the_documented_members(self):
        answer = self.run_json("-p", "hi", "-n", 5, "--ignore-eos")
        self.assertEqual(list(answer), ["text", "ids", "prompt_ids", "finish_reason", "timings",
                                        "message"])
        self.assertEqual(answer["message"], {"role": "assistant", "content": answer["text"]})
        self.assertEqual(len(answer["ids"]), 5)
        self.assertEqual(answer["finish_reason"], "length")
        self.assertEqual(bytes(answer["prompt_ids"][1:]), b"[user]hi[assistant]")
        self.assertEqual(answer["prompt_ids"][0], tiny_gguf.BOS)  # once, though the template writes it too
        timings = answer["timings"]
        self.assertEqual(
            list(timings),
            ["load_s", "prompt_tokens", "prompt_s", "prompt_tokens_per_second", "reused_tokens",
             "decode_tokens", "drafted_tokens", "accepted_tokens", "decode_s", "decode_tokens_per_second", "peak_memory_bytes"])  # fmt: skip
        self.assertEqual(timings["prompt_tokens"], len(answer["prompt_ids"]))
        self.assertEqual(timings["decode_tokens"], 5)
        self.assertGreater(timings["peak_memory_bytes"], 1 << 20)

    def test_answers_are_constrained(self):
        if b"built without xgrammar" in self.veery("run", self.model, "-p", "x", "--regex", "x").stderr:
            self.skipTest("built without xgrammar")
        flags = ["run", self.model, "-p", "hi", "--temp", 2, "-n", 60]
        schema = {"type": "object", "properties": {"a": {"type": "integer", "minimum": 3, "maximum": 40}},
                  "required": ["a"], "additionalProperties": False}  # fmt: skip
        rules = 'root ::= "yes" | "no"'
        for seed in range(5):
            text = self.json(*flags, "-s", seed, "-j", json.dumps(schema))["text"]
            self.assertIn(json.loads(text)["a"], range(3, 41))
            by_file = self.json(*flags, "-s", seed, "-jf", self.write("schema.json", json.dumps(schema)))
            self.assertEqual(by_file["text"], text)
            self.assertRegex(self.json(*flags, "-s", seed, "--regex", "[a-c]{4}")["text"], r"\A[a-c]{4}\Z")
            self.assertIn(self.json(*flags, "-s", seed, "--grammar", rules)["text"], ["yes", "no"])
        for form, part in [
            (["--regex", "(a"], "--regex: "),
            (["-j", "{"], "--json-schema: the schema: byte 1"),
            (["-j", '{"uniqueItems":true}'], "uniqueItems is not supported"),
            (["--grammar", "root = x"], "--grammar: "),
            (["--grammar", rules, "-j", "{}"], "--grammar"),
        ]:
            with self.subTest(form=form):
                self.assertIn(part, self.error("run", self.model, "-p", "x", *form, status=2))

    def test_stream_is_the_text_and_the_summary_is_not_in_it(self):
        flags = ["run", self.model, "-p", "hi", "-n", 40, "-s", 3, "--temp", 2, "-t", 1]
        text = self.json(*flags)["text"]
        done = self.veery(*flags)
        self.assertEqual(done.stdout.decode(), text if text.endswith("\n") else text + "\n")
        self.assertIn("tok/s", done.stderr.decode())
        self.assertEqual(self.veery(*flags, "-q").stderr, b"")

    def test_a_session_evaluates_only_new_tokens(self):
        session = self.folder / "kept.session"
        flags = ["--raw", "-n", 6, "--ignore-eos", "--temp", 0, "--session", session]
        first = self.run_json("-p", "hello", *flags)
        self.assertEqual(first["timings"]["reused_tokens"], 0)
        ids = first["prompt_ids"] + first["ids"] + [ord("!")]
        prompt = ["--ids", ",".join(map(str, ids)), "-n", 6, "--ignore-eos", "--temp", 0]
        again = self.run_json(*prompt, "--session", session)
        self.assertEqual(again["timings"]["reused_tokens"], len(ids) - 2)
        self.assertEqual(again["timings"]["prompt_tokens"], 2)
        self.assertEqual(again["ids"], self.run_json(*prompt)["ids"])
        written = session.read_bytes()
        session.write_bytes(written[:-9])
        done = self.veery("run", self.model, *prompt, "--session", session, status=1)
        self.assertIn("it was cut off", done.stderr.decode())
        self.assertEqual(done.stdout, b"")
        done = self.veery("run", self.model, *prompt, "--session", self.model, status=1)
        self.assertIn("is no saved session", done.stderr.decode())

    def test_a_session_on_a_full_disk_is_reported_and_keeps_the_old_one(self):
        session = self.folder / "full.session"
        call = ["run", self.model, "--raw", "-p", "hello", "-n", 6, "--ignore-eos", "--temp", 0, "-t", 1, "--session", session]
        self.veery(*call)
        before, files = session.read_bytes(), sorted(self.folder.iterdir())
        done = subprocess.run([PROGRAM, *map(str, call)], capture_output=True, check=False, timeout=60,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)))  # fmt: skip
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr.decode(), "full.session.*cannot be written after .* bytes: File too")
        self.assertEqual((session.read_bytes(), sorted(self.folder.iterdir())), (before, files))

    def test_same_seed_same_text(self):
        flags = ["-p", "hi", "-n", 30, "--temp", 1.5, "--ignore-eos", "-s"]
        self.assertEqual(self.run_json(*flags, 1)["ids"], self.run_json(*flags, 1)["ids"])
        self.assertNotEqual(self.run_json(*flags, 1)["ids"], self.run_json(*flags, 2)["ids"])

    def test_sources_of_a_prompt(self):
        file = self.write("prompt.txt", "hi\n")
        expected = self.run_json("-p", "hi", "-n", 3, "--temp", 0)
        for answer in [
            self.run_json("-f", file, "-n", 3, "--temp", 0),
            self.json("run", self.model, "-n", 3, "--temp", 0, "-t", 1, stdin=b"hi\n"),
            self.run_json("--ids", ",".join(map(str, expected["prompt_ids"])), "-n", 3, "--temp", 0),
            self.json("run", "-m", self.model, "-n", 3, "--temp", 0, "-t", 1, "-p", "hi"),
        ]:
            self.assertEqual(answer["prompt_ids"], expected["prompt_ids"])
            self.assertEqual(answer["ids"], expected["ids"])

    def test_texts_that_look_like_flags_or_lists(self):
        for text in ["-n", "[a,b]", "{}", "--json", "", "%%", "[]"]:
            with self.subTest(text=text):
                prompt = self.run_json("-p", text, "-n", 0, "--raw")["prompt_ids"]
                self.assertEqual(bytes(prompt[1:]).decode(), text)

    def test_system_message_and_raw(self):
        for flag in ["-sys", "--system"]:
            ids = self.run_json("-p", "hi", flag, "be brief", "-n", 0)["prompt_ids"]
            self.assertEqual(bytes(ids[1:]), b"[system]be brief[user]hi[assistant]")
        self.assertEqual(bytes(self.run_json("-p", "hi", "--raw", "-n", 0)["prompt_ids"][1:]), b"hi")
        done = self.veery("run", self.bare, "-p", "hi", "-n", 1)
        self.assertEqual(done.stderr.decode().count("no chat template"), 1)

    def test_stop_strings(self):
        flags = ["-p", "hi", "-n", 30, "--temp", 0, "--ignore-eos"]
        text = self.run_json(*flags)["text"]
        stop = text[4:6]
        answer = self.run_json(*flags, "--stop", "[never, seen]", "--stop", stop)
        self.assertEqual(answer["text"], text[: text.index(stop)])
        self.assertEqual(answer["finish_reason"], "stop")

    def test_the_end_of_the_context_is_a_length(self):
        answer = self.run_json("-p", "hi", "--temp", 0, "--ignore-eos", "-c", 32)
        self.assertEqual(answer["finish_reason"], "length")
        self.assertEqual(len(answer["prompt_ids"]) + len(answer["ids"]), 32)


class Tokenize(CliTest):
    def test_forms(self):
        self.assertEqual(self.json("tokenize", self.model, "-p", "hi"),
                         {"ids": [256, 104, 105], "tokens": ["<s>", "h", "i"]})  # fmt: skip
        table = self.veery("tokenize", self.model, "-p", "h</s>", "--no-special").stdout.decode()
        self.assertEqual([line.split() for line in table.splitlines()], [["104", "h"], ["257", "</s>"]])
        plain = self.json("tokenize", self.model, "-p", "</s>", "--no-special", "--no-parse-special")
        self.assertEqual(bytes(plain["ids"]), b"</s>")
        self.assertEqual(self.json("tokenize", self.model, stdin=b"a\n")["ids"], [256, 97, 10])

    def test_jsonl(self):
        lines = ["a", "", "é\n", 'q"</s>']
        stdin = "\n".join(map(json.dumps, lines)).encode()
        out = self.veery("tokenize", self.model, "--jsonl", "--no-special", stdin=stdin).stdout
        ids = [json.loads(line) for line in out.splitlines()]
        self.assertEqual(ids, [[97], [], [195, 169, 10], [113, 34, 257]])

    def test_jsonl_errors_name_the_line(self):
        for bad in [b"{x", b"3", b'"a']:
            done = self.veery("tokenize", self.model, "--jsonl", stdin=b'"a"\n' + bad + b"\n", status=1)
            self.assertIn("line 2", done.stderr.decode())


class Template(CliTest):
    def test_template_of_a_model(self):
        messages = self.write("m.json", [{"role": "user", "content": "hé"}])
        text = self.veery("template", self.model, "--messages", messages, "--add-generation-prompt").stdout
        self.assertEqual(text.decode(), "<s>[user]hé[assistant]")
        self.assertEqual(self.json("template", self.model, "--messages", messages)["text"], "<s>[user]hé")

    def test_template_of_a_file_with_variables_tools_and_a_clock(self):
        source = self.write(
            "t.jinja",
            "{{ bos_token }}|{{ tools is none }}|{{ documents is none }}|{{ add_generation_prompt }}|"
            "{{ x }}|{{ strftime_now('%Y-%m-%d %H:%M:%S') }}")
        messages = self.write("m.json", [])
        variables = self.write("v.json", {"bos_token": "B", "x": 3})
        flags = ["template", "--template-file", source, "--messages", messages, "--vars", variables,
                 "--now", "2024-05-17T12:34:56"]  # fmt: skip
        self.assertEqual(self.veery(*flags).stdout.decode(), "B|True|True|False|3|2024-05-17 12:34:56")
        tools = self.write("tools.json", [{"type": "function"}])
        self.assertEqual(self.veery(*flags, "--tools", tools).stdout.decode()[:7], "B|False")

    def test_faults(self):
        tool = self.write("tool.json", [{"role": "tool", "content": ""}])
        self.assertIn("no tools here", self.error("template", self.model, "--messages", tool))
        self.assertIn("chat template", self.error("template", self.bare, "--messages", tool))
        self.assertIn("bad.json", self.error("template", self.model, "--messages", self.write("bad.json", "[")))
        syntax = self.write("syntax.jinja", "{% if %}")
        self.assertIn("syntax.jinja", self.error("template", "--template-file", syntax, "--messages", tool))


class Measures(CliTest):
    def test_logits(self):
        one = self.json("logits", self.model, "--ids", "256,104,105", "--top", 3)["positions"]
        self.assertEqual(len(one), 1)
        self.assertEqual((one[0]["position"], one[0]["token"]), (2, 105))
        self.assertNotIn("next", one[0])
        self.assertEqual(len(one[0]["top"]), 3)
        every = self.json("logits", self.model, "-p", "hi", "--all", "--top", 258, "--exact")["positions"]
        self.assertEqual([p["token"] for p in every], [256, 104, 105])
        self.assertEqual([p.get("next", {}).get("id") for p in every], [104, 105, None])
        for position in every:
            logits = {item["id"]: item["logit"] for item in position["top"]}
            self.assertEqual(sorted(logits.values(), reverse=True), list(logits.values()))
            if "next" in position:
                expected = logits[position["next"]["id"]] - position["logsumexp"]
                self.assertAlmostEqual(position["next"]["logprob"], expected, places=4)

    def test_inspect_prints_the_lens(self):
        found = self.json("inspect", self.model, "-p", "hi", "--layers", "1", "--top", 258, "--exact")
        self.assertEqual([token["id"] for token in found["tokens"]], [256, 104, 105])
        layer, = found["layers"]
        self.assertEqual((layer["layer"], layer["mixer"], layer["heads"]), (1, "attention", [0, 1]))
        every = self.json("logits", self.model, "-p", "hi", "--all", "--top", 1, "--exact")["positions"]
        self.assertEqual([row[0]["id"] for row in layer["lens"]], [p["top"][0]["id"] for p in every])
        for row in layer["lens"]:
            self.assertAlmostEqual(sum(token["probability"] for token in row), 1, places=4)
        table = self.veery("inspect", self.model, "-p", "hi", "--at", 1, "--top", 2).stdout.decode().splitlines()
        self.assertIn("token 1 ('h')", table[0])
        self.assertEqual([line.split()[:2] for line in table[1:]], [["0", "attention"], ["1", "attention"]])

    def test_inspect_writes_arrays_and_pictures(self):
        out = self.folder / "maps"
        self.veery("inspect", self.model, "-p", "a <b", "--layers", "0-1", "--heads", "1", "--out", out)
        index = json.loads((out / "index.json").read_text())
        self.assertEqual([token["text"] for token in index["tokens"]], ["<s>", "a", " ", "<", "b"])
        named = {"index.json", *(entry["file"] for entry in index["files"].values())}
        for layer in index["layers"]:
            named |= {entry["file"] for entry in layer["files"].values()} | {layer["files"]["attention"]["picture"]}
            self.assertEqual({name: entry["shape"] for name, entry in layer["files"].items()},
                             {"attention": [1, 5, 5], "queries": [1, 5, 16], "keys": [1, 5, 16], "hidden": [5, 32],
                              "lens_ids": [5, 5], "lens_probabilities": [5, 5]})  # fmt: skip
            data = (out / layer["files"]["attention"]["file"]).read_bytes()
            self.assertEqual((data[:8], len(data) % 64), (b"\x93NUMPY\x01\0", 100 % 64))
            header = data[10:-100]
            self.assertEqual(ast.literal_eval(header.decode()), {"descr": "<f4", "fortran_order": False, "shape": (1, 5, 5)})
            values = struct.unpack("<25f", data[-100:])
            for query in range(5):
                row = values[5 * query:5 * query + 5]
                self.assertAlmostEqual(sum(row), 1, places=5)
                self.assertEqual(row[query + 1:], (0,) * (4 - query))
            picture = xml.etree.ElementTree.parse(out / layer["files"]["attention"]["picture"])
            texts = [text.text for text in picture.iter("{http://www.w3.org/2000/svg}text")]
            self.assertIn("head 1", texts)
            self.assertEqual(texts.count("<"), 2)  # a label on each axis
        self.assertEqual({path.name for path in out.iterdir()}, named)
        self.assertIn("maps", self.error("inspect", self.model, "-p", "x", "--out", out))

    def test_inspect_names_errors(self):
        for arguments, said in ((["--layers", "2"], "--layers: found 2, expected 0 to"),
                                (["--heads", "5", "--out", self.folder / "no"], "--heads: found 5, expected 0 to")):
            self.assertIn(said, self.error("inspect", self.model, "-p", "x", *arguments, status=2))
            self.assertFalse((self.folder / "no").exists())
        for arguments, said in ((["--layers", "3-1"], "3-1"), (["--what", "keys"], "--out"), (["--what", "x"], "'x'"),
                                (["--at", "9"], "expected 0 to 1"), (["--heads", "1,"], "''")):
            self.assertIn(said, self.error("inspect", self.model, "-p", "x", *arguments, status=2))

    def test_perplexity(self):
        text = self.write("text.txt", "some text, and some more of it. " * 4)
        result = self.json("perplexity", self.model, "-f", text, "-c", 32)
        self.assertEqual((result["windows"], result["tokens"]), (4, 60))
        self.assertGreater(result["perplexity"], 1)
        self.assertGreater(result["stderr"], 0)

    def test_perplexity_beside_a_reference(self):
        text = self.write("text.txt", "some text, and some more of it. " * 4)
        small = self.folder / "q4.gguf"
        self.veery("quantize", self.model, small, "Q4_0")
        alone = self.json("perplexity", small, "-f", text, "-c", 32)
        floats = self.json("perplexity", self.model, "-f", text, "-c", 32)
        both = self.json("perplexity", small, "-f", text, "-c", 32, "--reference", self.model)
        reference = both.pop("reference")
        self.assertEqual(both, alone)
        self.assertEqual((reference["perplexity"], reference["stderr"]), (floats["perplexity"], floats["stderr"]))
        self.assertAlmostEqual(reference["ratio"], alone["perplexity"] / floats["perplexity"], places=9)
        self.assertGreater(reference["divergence"], reference["divergence_stderr"])
        self.assertLess(reference["divergence"], 0.5)
        self.assertGreater(reference["same_best"], 0.5)
        lines = self.veery("perplexity", small, "-f", text, "-c", 32, "--reference", self.model).stdout.decode()
        self.assertIn(f"divergence {reference['divergence']:.6f} +/- ", lines)

    def test_bench(self):
        rows = self.json("bench", self.model, "-p", 8, "-n", 4, "-r", 2, "-t", 1)
        self.assertEqual([row["test"] for row in rows], ["pp8", "tg4"])
        for row in rows:
            self.assertEqual(list(row), ["test", "tokens_per_second", "min", "max", "threads"])
            self.assertLessEqual(row["min"], row["tokens_per_second"])
            self.assertLessEqual(row["tokens_per_second"], row["max"])
            self.assertEqual(row["threads"], 1)
        self.assertEqual(self.json("bench", self.model, "-p", 0, "-n", 4, "-r", 1, "--depth", 20)[0]["test"],
                         "tg4 @ d20")  # fmt: skip

    def test_bench_with_all_logits(self):
        rows = self.json("bench", self.model, "-p", 0, "-n", 4, "-r", 1, "-t", 1, "--logits")
        self.assertEqual([row["test"] for row in rows], ["tg4"])

    def test_bench_of_sampled_answers(self):
        rows = self.json("bench", self.model, "-p", 0, "-n", 4, "-r", 1, "-t", 1, "-b", 2, "--sampled")
        self.assertEqual([row["test"] for row in rows], ["tg4 x 2", "tg4 x 2 sampled"])

    def test_bench_and_plan_of_an_encoder(self):
        model = TINY.parent / "encoders/modernbert-mean"
        rows = self.json("bench", model, "-r", 2, "-t", 1, "--sweep", "length=16,100")
        self.assertEqual([row["test"] for row in rows], ["emb16 x 32", "emb100 x 5"])
        for row, length in zip(rows, (16, 100), strict=True):
            self.assertAlmostEqual(row["texts_per_second"], row["tokens_per_second"] / length)
        self.assertEqual(self.json("bench", model, "-r", 1)[0]["test"], "emb128 x 4")
        self.assertIn("texts/s", self.veery("bench", model, "-r", 1, "-p", 7, "-b", 2).stdout.decode())
        self.assertIn("found 129 tokens, expected 1 to 128", self.error("bench", model, "-p", 129))
        self.assertIn("found 0 tokens", self.error("bench", model, "-p", 0))
        for flag in ("--sampled", "--logits"):
            self.assertIn("predicts no next token", self.error("bench", model, flag, status=2))
        self.assertIn("no KV cache", self.error("bench", model, "-d", 3, status=2))
        plan = self.json("plan", model, "--rows", 30, "--profile", "-r", 2)
        self.assertEqual(plan["table"][-1]["op"], "l2_norm")
        self.assertTrue(all(row["seconds"] > 0 for row in plan["table"]))
        self.assertIn("no KV cache", self.error("plan", model, "-d", 3, status=2))
        scores = self.json("plan", TINY.parent / "encoders/bert-rerank", "--rows", 30)
        self.assertEqual(scores["table"][-1]["op"], "linear")

    def test_bench_sweep(self):
        arguments = ["bench", self.model, "-p", 8, "-n", 4, "-r", 1, "--sweep", "threads=2,1", "--sweep", "depth=0,20"]
        rows = self.json(*arguments)
        self.assertEqual(
            [(row["test"], row["threads"], row["depth"]) for row in rows],
            [(f"{test}{'' if depth == 0 else f' @ d{depth}'}", threads, depth)
             for threads in (2, 1) for depth in (0, 20) for test in ("pp8", "tg4")])  # fmt: skip
        for row in rows:
            first = rows[0 if row["test"].startswith("pp") else 1]
            self.assertAlmostEqual(row["ratio"], row["tokens_per_second"] / first["tokens_per_second"])
        table = self.veery(*arguments).stdout.decode().splitlines()
        self.assertEqual(table[1].split(), ["test", "threads", "depth", "batch", "tok/s", "min", "max", "ratio"])
        self.assertEqual([line.split()[:3] for line in table[2:]],
                         [[test, threads, depth] for test in ("pp8", "tg4") for threads in "21"
                          for depth in ("0", "20")])  # fmt: skip
        self.assertEqual(table[2].split()[-1], "1.00")

    def test_bench_of_many_sequences(self):
        rows = self.json("bench", self.model, "-p", 8, "-n", 4, "-r", 1, "-t", 1, "--sweep", "batch=1,3,8", "-d", 5)
        self.assertEqual([row["test"] for row in rows],
                         ["pp8 @ d5", "tg4 @ d5", "tg4 x 3 @ d5", "tg4 x 8 @ d5"])  # fmt: skip
        self.assertEqual([row["batch"] for row in rows], [1, 1, 3, 8])
        rows = self.json("bench", self.model, "-p", 0, "-n", 4, "-r", 1, "-t", 1, "--batch", 2)
        self.assertEqual([row["test"] for row in rows], ["tg4 x 2"])

    def test_plan(self):
        fused = self.json("plan", self.model, "--rows", 1)
        unfused = self.json("plan", self.model, "--rows", 1, "--unfused", "--profile", "-r", 2)
        self.assertLess(len(fused["table"]), len(unfused["table"]))
        self.assertTrue(all(row["seconds"] > 0 for row in unfused["table"]))
        text = self.veery("plan", self.model, "--rows", 4, "--profile", "-r", 1).stdout.decode()
        self.assertIn("GB/s", text)
        self.assertIn("total: ", text)
        self.assertIn("blk.1.ffn_down", text)

    def test_plan_profile_shows_the_limit_of_each_row(self):
        plan = self.json("plan", self.model, "--profile", "-r", 3, "-t", 1)
        limits = plan["limits"]
        self.assertEqual(list(limits), ["memory_bytes_per_second", "f32_operations_per_second",
                                        "bf16_operations_per_second", "int8_operations_per_second",
                                        "barrier_seconds"])  # fmt: skip
        self.assertTrue(all(value > 0 for value in limits.values()))
        def rate(row):  # the cost of attention grows with the KV cache
            return limits["bf16_operations_per_second" if row["op"] == "attend" else "f32_operations_per_second"]

        least = {
            "memory": lambda row: row["weight_bytes"] / limits["memory_bytes_per_second"],
            "f32": lambda row: row["flops"] / rate(row),
            "barrier": lambda row: limits["barrier_seconds"],
        }
        for row in plan["table"]:
            if row["op"] == "attend":
                self.assertIn(row["limit"], ["memory", "bf16", "barrier"])
            self.assertGreaterEqual(row["limit_seconds"], max(bound(row) for bound in least.values()) * 0.999)
            self.assertAlmostEqual(row["share"], row["limit_seconds"] / row["seconds"])
            if row["op"] in ("linear", "fused_linear"):
                self.assertAlmostEqual(row["limit_seconds"], least[row["limit"]](row))
        total = sum(row["limit_seconds"] for row in plan["table"]) / sum(row["seconds"] for row in plan["table"])
        self.assertAlmostEqual(plan["share"], total)
        text = self.veery("plan", self.model, "--profile", "-r", 1).stdout.decode()
        for part in ["limit share", "% of the limits", "a plain read loop over the weights", "int8"]:
            self.assertIn(part, text)

    def test_show(self):
        all_of_it = self.json("show", self.model, "-c", 32)
        parameters = sum(columns * rows for _, columns, rows in tiny_gguf.shapes(tiny_gguf.DIM, tiny_gguf.HIDDEN))
        self.assertEqual(all_of_it["parameters"], parameters)
        self.assertEqual(all_of_it["types"], {"f32": 20})
        self.assertEqual(all_of_it["config"]["context"], 32)
        self.assertEqual(all_of_it["chat_template"], TEMPLATE)
        self.assertEqual(all_of_it["metadata"]["tokenizer.ggml.tokens"]["length"], 258)
        text = self.veery("show", self.model).stdout.decode()
        for part in ["llama", "20 f32", "cache", "256 <s> (added)", "258 items", "chat template"]:
            self.assertIn(part, text)


class SystemCalls(CliTest):
    def test_a_decode_step_makes_none(self):
        if reason := syscalls.why_not():
            print(f"not counted: {reason}", file=sys.stderr)
            self.skipTest(reason)
        repetitions, (short, long) = 4, (4, 60)
        steps = repetitions * (long - short)
        for threads in (1, 2):
            with self.subTest(threads=threads):
                few, many = (
                    syscalls.count([PROGRAM, "bench", self.model, "-p", 0, "-n", n, "-r", repetitions, "-t", threads])
                    for n in (short, long)
                )
                self.assertGreater(few["openat"], 0)
                # Start-up varies (AddressSanitizer reads the maps of the process once or three times); a call
                # of each step, or of each eighth step, exceeds that.
                difference = syscalls.difference(few, many)
                self.assertLess(sum(map(abs, difference.values())), steps // 8, difference)


if __name__ == "__main__":
    unittest.main()
