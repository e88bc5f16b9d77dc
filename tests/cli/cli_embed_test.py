#!/usr/bin/env python3
"""`veery embed` and `veery rerank`: input and output formats, errors, invalid folders.

usage: cli_embed_test.py VEERY [unittest arguments]
"""
import ast
import json
import math
import os
import pathlib
import shutil
import struct
import subprocess
import unittest

from cli_base import PROGRAM, TINY, CliTest

ENCODERS = TINY.parent / "encoders"
BERT = ENCODERS / "bert-mean"
RERANK = ENCODERS / "bert-rerank"
WIDTH = 48
TEXTS = ["The thrush sings at night.", "rain\nby noon", "", "What is a veery? \u00e9\U0001f426"]


def smollm2():
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = os.environ.get("VEERY_MODELS") or pathlib.Path(cache, "veery", "models")
    return pathlib.Path(folder, "SmolLM2-135M-Instruct.Q4_1.gguf")


def read_npy(path):
    data = path.read_bytes()
    assert data[:8] == b"\x93NUMPY\x01\x00", data[:8]
    (size,) = struct.unpack("<H", data[8:10])
    assert (10 + size) % 64 == 0 and data[9 + size] == ord("\n")
    header = ast.literal_eval(data[10 : 10 + size].decode())
    assert header["descr"] == "<f4" and header["fortran_order"] is False
    rows, columns = header["shape"]
    values = struct.unpack(f"<{rows * columns}f", data[10 + size :])
    return [list(values[i * columns : (i + 1) * columns]) for i in range(rows)]


def rewrite_tensors(folder, change):
    """Calls `change` with the name, shape and bytes of each tensor; it returns shape and bytes, or None to drop it."""
    path = folder / "model.safetensors"
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header, kept = {}, b""
    for name, entry in json.loads(data[8 : 8 + length]).items():
        if name == "__metadata__":
            header[name] = entry
            continue
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        new = change(name, entry["shape"], data[begin:end])
        if new is None:
            continue
        shape, values = new
        header[name] = entry | {"shape": shape, "data_offsets": [len(kept), len(kept) + len(values)]}
        kept += values
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + kept)


class Embed(CliTest):
    def lines(self, texts, name="texts.jsonl"):
        return self.write(name, "".join(json.dumps(text) + "\n" for text in texts))

    def embed(self, *arguments, model=BERT, stdin=b""):
        done = self.veery("embed", model, "-t", 1, *arguments, stdin=stdin)
        return [json.loads(line) for line in done.stdout.decode().splitlines()]

    def near(self, one, other):
        self.assertEqual(len(one), len(other))
        for a, b in zip(one, other, strict=True):
            self.assertAlmostEqual(a, b, delta=1e-5)

    def test_json_lines_in_and_out(self):
        path = self.lines(TEXTS)
        all_of_them = self.embed("--jsonl", path)
        self.assertEqual([len(one) for one in all_of_them], [WIDTH] * len(TEXTS))
        self.assertEqual(self.embed("--jsonl", "-", stdin=path.read_bytes()), all_of_them)
        for text, expected in zip(TEXTS, all_of_them, strict=True):
            self.assertEqual(self.embed("--jsonl", self.lines([text], "one.jsonl")), [expected])
            self.assertAlmostEqual(sum(x * x for x in expected), 1, delta=1e-5)
        self.assertEqual(self.embed("-p", TEXTS[0]), all_of_them[:1])
        spaced = self.write("spaced.jsonl", '\n  \r\n"rain"\r\n\n"sun"')
        self.assertEqual(len(self.embed("--jsonl", spaced)), 2)

    def test_json_and_npy_hold_the_same_numbers(self):
        path, out = self.lines(TEXTS), self.folder / "out.npy"
        lines = self.embed("--jsonl", path)
        given = self.json("embed", BERT, "-t", 1, "--jsonl", path)
        self.assertEqual(given["embeddings"], lines)
        self.assertEqual((given["dimensions"], given["truncated"]), (WIDTH, 0))
        self.assertEqual(self.embed("--jsonl", path, "--npy", out), [])
        for one, other in zip(read_npy(out), lines, strict=True):
            self.near(one, other)
        before = out.read_bytes()
        self.assertIn("--force", self.error("embed", BERT, "--jsonl", path, "--npy", out))
        self.assertEqual(out.read_bytes(), before)
        self.embed("--jsonl", path, "--npy", out, "--force", "--pooling", "none")
        self.assertEqual(len(read_npy(out)), given["tokens"])
        self.assertIn("/dev/null", self.error("embed", BERT, "-p", "x", "--npy", "/dev/null", "--force"))
        text = path.read_bytes()
        self.error("embed", BERT, "--jsonl", path, "--npy", path, "--force")
        self.assertEqual(path.read_bytes(), text)

    def test_pooling_dimensions_prompts_and_lengths(self):
        rows = self.embed("-p", "rain by noon", "--pooling", "none", "--no-normalize")[0]
        self.assertEqual([len(row) for row in rows], [WIDTH] * 5)
        self.near(self.embed("-p", "rain by noon", "--pooling", "cls", "--no-normalize")[0], rows[0])
        self.near(self.embed("-p", "rain by noon", "--pooling", "last", "--no-normalize")[0], rows[-1])
        self.assertEqual(len(self.embed("-p", "rain", "--dimensions", 7)[0]), 7)
        self.assertIn("49", self.error("embed", BERT, "-p", "x", "--dimensions", 49))
        self.assertIn("'query'", self.error("embed", BERT, "-p", "x", "--prompt-name", "query"))
        self.error("embed", BERT, "-p", "x", "--dimensions", 0, status=2)
        message = self.error("embed", BERT, "-p", "x", "--pooling", "median", status=2)
        self.assertIn("'median' is not one of none, cls, mean, last, max, mean-sqrt-len, weighted-mean", message)
        for flag in ("--dimensions", "--max-tokens"):
            for value in (0, -1, "x", 1.5):
                self.error("embed", BERT, "-p", "x", flag, value, status=2)
        self.error("rerank", RERANK, "-q", "x", "--jsonl", "x", "--max-tokens", 0, status=2)
        done = self.veery("embed", BERT, "-p", "sun " * 300)
        self.assertIn("1 of 1 texts is longer than the limit: 174 tokens cut off", done.stderr.decode())
        self.assertEqual(self.veery("embed", BERT, "-p", "sun").stderr, b"")

    def test_lines_that_are_wrong_are_named(self):
        cases = [('"a"\n{"b"\n', "line 2"), ('"a"\n\n7\n', "line 3"), ("", "found no text"), ("\n\n", "found no text")]
        for text, part in cases:
            path = self.write("wrong.jsonl", text)
            for call in (("embed", BERT), ("rerank", RERANK, "-q", "x")):
                message = self.error(*call, "--jsonl", path)
                self.assertIn("wrong.jsonl", message)
                self.assertIn(part, message)
        self.assertIn("absent", self.error("embed", BERT, "--jsonl", self.folder / "absent"))

    def test_scores(self):
        cases = json.loads((RERANK / "reference.json").read_text())["cases"]
        for case in cases:
            path = self.lines([case["document"], "rain"], "documents.jsonl")
            given = self.json("rerank", RERANK, "--exact", "-q", case["query"], "--jsonl", path)
            self.assertAlmostEqual(given["scores"][0], case["score"], delta=1e-3)
            first = int(given["scores"][1] > given["scores"][0])
            self.assertEqual(given["ranking"], [first, 1 - first])
            lines = self.veery("rerank", RERANK, "--exact", "-q", case["query"], "--jsonl", path).stdout.split()
            self.assertEqual(len(lines), 2)
            self.assertAlmostEqual(float(lines[0]), case["score"], delta=1e-3)

    def test_a_decoder_answers_yes_or_no(self):
        path = self.lines(["the thrush", "rain"])
        model = ENCODERS / "qwen3-reranker"
        given = self.json("rerank", model, "-q", "bird", "--jsonl", path)
        raw = self.json("rerank", model, "-q", "bird", "--jsonl", path, "--raw")
        for score, logit in zip(given["scores"], raw["scores"], strict=True):
            self.assertAlmostEqual(score, 1 / (1 + math.exp(-logit)), delta=1e-6)
        told = self.json("rerank", model, "-q", "bird", "--jsonl", path, "--raw", "--instruction", "x")
        self.assertNotEqual(told["scores"], raw["scores"])
        changed = self.changed(lambda folder: None, model)
        tokens = (changed / "tokenizer.json").read_text()
        (changed / "tokenizer.json").write_text(tokens.replace('"yes"', '"yEs"').replace('"ye","s"', '"yE","s"'))
        self.error("rerank", changed, "-q", "x", "--jsonl", path)
        done = self.veery("rerank", model, "-q", "bird", "--jsonl", path, "--max-tokens", 260)
        self.assertIn("longer than the limit", done.stderr.decode())

    def test_models_of_another_kind_are_refused(self):
        path = self.lines(["x"])
        self.assertIn("is an encoder", self.error("run", BERT, "-p", "x"))
        self.assertIn("cls.output.weight", self.error("rerank", BERT, "-q", "x", "--jsonl", path))
        self.assertIn("cls.output.weight", self.error("rerank", self.model, "-q", "x", "--jsonl", path))

    def test_a_decoder_gives_its_last_row(self):
        rows = self.embed("-p", "rain", "--pooling", "none", model=self.model)[0]
        self.near(self.embed("-p", "rain", model=self.model)[0], rows[-1])

    @unittest.skipUnless(smollm2().exists(), "the weights are not there")
    def test_smollm2_gives_its_last_row(self):
        one = self.embed("-p", "The thrush sings.", model=smollm2())[0]
        self.assertEqual(len(one), 576)
        self.near(one, self.embed("-p", "The thrush sings.", "--pooling", "none", model=smollm2())[0][-1])

    def changed(self, change, source=BERT):
        folder = self.folder / "changed"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(source, folder)
        change(folder)
        return folder

    def test_folders_that_are_wrong_get_one_line(self):
        def edit(name, **fields):
            def change(folder):
                path = folder / name
                path.write_text(json.dumps(json.loads(path.read_text()) | fields))
            return change

        def module(**fields):
            def change(folder):
                path = folder / "modules.json"
                modules = json.loads(path.read_text())
                modules[1] |= fields
                path.write_text(json.dumps(modules))
            return change

        pooling = "1_Pooling/config.json"
        cases = [
            (edit(pooling, pooling_mode="median"), "median"),
            (edit(pooling, pooling_mode_cls_token=True), "2 poolings"),
            (edit(pooling, word_embedding_dimension=47), "47"),
            (lambda folder: (folder / pooling).unlink(), "1_Pooling"),
            (lambda folder: (folder / "modules.json").write_text('{"a": 1}'), "modules.json"),
            (lambda folder: (folder / "modules.json").write_text("["), "modules.json"),
            (lambda folder: (folder / "tokenizer.json").unlink(), "tokenizer"),
            (lambda folder: (folder / "tokenizer.json").write_text("{}"), "tokenizer.json"),
            (module(path="../1_Pooling"), "../1_Pooling"),
            (module(path=".."), "'..'"),
            (module(path="/etc"), "/etc"),
            (module(type="sentence_transformers.models.WordWeights"), "WordWeights"),
            (module(type="os.system"), "os.system"),
        ]  # fmt: skip
        for change, part in cases:
            with self.subTest(part):
                self.assertIn(part, self.error("embed", self.changed(change), "-p", "x"))
        jina = [(edit("config.json", feed_forward_type="reglu"), "reglu"),
                (edit("config.json", position_embedding_type="rotary"), "rotary")]  # fmt: skip
        for change, part in jina:
            with self.subTest(part):
                folder = self.changed(change, ENCODERS / "jinabert-mean")
                self.assertIn(part, self.error("embed", folder, "-p", "x"))
        dense = [(edit("2_Dense/config.json", in_features=47), "47"),
                 (edit("2_Dense/config.json", out_features=81), "81"),
                 (edit("2_Dense/config.json", activation_function="torch.nn.GELU"), "GELU"),
                 (lambda folder: (folder / "3_Dense/model.safetensors").unlink(), "3_Dense")]  # fmt: skip
        for change, part in dense:
            with self.subTest(part):
                folder = self.changed(change, ENCODERS / "embeddinggemma")
                self.assertIn(part, self.error("embed", folder, "-p", "x"))

    def test_folders_that_are_cut_off_get_one_line(self):
        def cut(name, size=None):
            def change(folder):
                data = (folder / name).read_bytes()
                (folder / name).write_bytes(data[: len(data) // 2 if size is None else size])
            return change

        def shorter_embedding(folder):
            path = folder / "model.safetensors"
            data = path.read_bytes()
            (length,) = struct.unpack("<Q", data[:8])
            header = json.loads(data[8 : 8 + length])
            entry = header["embeddings.word_embeddings.weight"]
            entry["shape"] = [entry["shape"][0] * 2, entry["shape"][1] // 2]
            text = json.dumps(header).encode()
            path.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + length :])

        cases = [(cut("model.safetensors"), "model.safetensors"), (cut("model.safetensors", 5), "model.safetensors"),
                 (cut("config.json"), "config.json"), (cut("tokenizer.json"), "tokenizer.json"),
                 (cut("1_Pooling/config.json"), "1_Pooling/config.json"), (cut("modules.json"), "modules.json"),
                 (shorter_embedding, "24"),
                 (lambda folder: (folder / "model.safetensors").unlink(), "has no *.safetensors")]  # fmt: skip
        for change, part in cases:
            with self.subTest(part):
                self.assertIn(part, self.error("embed", self.changed(change), "-p", "x"))
        for name in ("2_Dense/model.safetensors", "3_Dense/config.json"):
            folder = self.changed(cut(name), ENCODERS / "embeddinggemma")
            self.assertIn(name, self.error("embed", folder, "-p", "x"))
        whole, part = self.folder / "whole.gguf", self.folder / "part.gguf"
        self.veery("convert", ENCODERS / "embeddinggemma", whole)
        self.assertEqual(len(self.embed("-p", "x", model=whole)[0]), WIDTH)
        for size in (3, 100, 3000, whole.stat().st_size - 200):
            part.write_bytes(whole.read_bytes()[:size])
            self.assertIn("part.gguf", self.error("embed", part, "-p", "x"))

    def test_logit_scores_that_are_wrong_get_one_line(self):
        modules = [{"path": "", "type": "sentence_transformers.base.models.Transformer"},
                   {"path": "1_LogitScore", "type": "sentence_transformers.cross_encoder.modules.LogitScore"}]  # fmt: skip
        path = self.lines(["x"])

        def score(ids, after=(), source=ENCODERS / "qwen3-reranker"):
            folder = self.changed(lambda folder: None, source)
            (folder / "modules.json").write_text(json.dumps([*modules, *after]))
            (folder / "1_LogitScore").mkdir()
            (folder / "1_LogitScore/config.json").write_text(json.dumps(ids))
            return folder

        tokens = json.loads((ENCODERS / "qwen3-reranker/tokenizer.json").read_text())["model"]["vocab"]
        right = {"true_token_id": tokens["yes"], "false_token_id": tokens["no"]}
        expected = self.veery("rerank", ENCODERS / "qwen3-reranker", "-q", "x", "--jsonl", path).stdout
        folder = score(right)
        self.assertEqual(self.veery("rerank", folder, "-q", "x", "--jsonl", path).stdout, expected)
        self.assertIn("has no Pooling module", self.error("embed", folder, "-p", "x"))
        gguf = self.folder / "ranker.gguf"
        self.veery("convert", folder, gguf)
        self.assertEqual(self.veery("rerank", gguf, "-q", "x", "--jsonl", path).stdout, expected)
        for ids, part in [(right | {"true_token_id": 160}, "160"), (right | {"true_token_id": -1}, "true_token_id"),
                          ({"true_token_id": 5}, "false_token_id"), (right | {"false_token_id": "no"}, "false_token_id"),
                          ([], "1_LogitScore")]:  # fmt: skip
            self.assertIn(part, self.error("rerank", score(ids), "-q", "x", "--jsonl", path))
        more = [{"path": "2_Normalize", "type": "sentence_transformers.models.Normalize"}]
        self.assertIn("LogitScore", self.error("rerank", score(right, more), "-q", "x", "--jsonl", path))
        bert = score(right, source=ENCODERS / "bert-mean")
        self.assertIn("cls.output.weight", self.error("rerank", bert, "-q", "x", "--jsonl", path))

    def test_folders_without_a_pooler_give_the_same(self):
        def without_pooler(name, shape, values):
            return None if "pooler" in name else (shape, values)

        for name in ("bert-mean", "xlmr-cls"):
            with self.subTest(name):
                path = self.lines(TEXTS)
                folder = self.changed(lambda folder: rewrite_tensors(folder, without_pooler), ENCODERS / name)
                size = (ENCODERS / name / "model.safetensors").stat().st_size
                self.assertLess((folder / "model.safetensors").stat().st_size, size)
                expected = self.embed("--jsonl", path, model=ENCODERS / name)
                self.assertEqual(self.embed("--jsonl", path, model=folder), expected)

    def test_tokens_without_a_row_of_the_embedding_are_refused(self):
        def change(folder):
            config = json.loads((folder / "config.json").read_text())
            (folder / "config.json").write_text(json.dumps(config | {"vocab_size": 100}))
            rewrite_tensors(folder, lambda name, shape, values: ([100, shape[1]], values[: 200 * shape[1]])
                            if name.endswith("word_embeddings.weight") else (shape, values))  # fmt: skip

        message = self.error("embed", self.changed(change), "-p", "zz zebra quux 99")
        self.assertRegex(message, "token id 1[0-9]+ is outside of the vocabulary of 100")

    def test_token_types_outside_of_the_table_are_refused(self):
        def change(folder):
            path = folder / "tokenizer.json"
            path.write_text(path.read_text().replace('"type_id":1', '"type_id":70000'))

        path = self.lines(["x"])
        message = self.error("rerank", self.changed(change, RERANK), "-q", "x", "--jsonl", path)
        self.assertIn("70000", message)

    def test_a_closed_pipe_ends_it(self):
        path = self.lines(["x"] * 200)
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run([PROGRAM, "embed", str(BERT), "--jsonl", str(path)], stdout=writer,
                              stderr=subprocess.PIPE, timeout=60, check=False)  # fmt: skip
        os.close(writer)
        self.assertEqual(done.returncode, 1)


if __name__ == "__main__":
    unittest.main()
