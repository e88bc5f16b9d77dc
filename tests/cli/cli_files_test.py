#!/usr/bin/env python3
"""The verbs that write and check models, with a model of random weights.

usage: cli_files_test.py VEERY [unittest arguments]
"""
import json
import unittest

from cli_base import TINY, CliTest


class Quantize(CliTest):
    def test_writes_a_smaller_model_that_runs(self):
        out = self.folder / "q8.gguf"
        answer = self.json("quantize", self.model, out, "Q8_0", "--tensor-type", "attn_q=q4_0", "-t", 2)
        self.assertLess(answer["after"], answer["before"])
        types = {tensor["name"]: tensor["to"] for tensor in answer["tensors"]}
        self.assertEqual(types["blk.0.attn_q.weight"], "q4_0")
        self.assertEqual(types["blk.0.attn_k.weight"], "q8_0")
        self.assertEqual(types["blk.0.ffn_down.weight"], "f16")  # rows of 48
        self.veery("run", out, "-p", "abc", "-n", 3)
        out.unlink()

    def test_takes_a_folder(self):
        out = self.folder / "folder-q8.gguf"
        self.veery("quantize", TINY / "phi3", out, "F16")
        self.assertIn("f16", self.json("show", out)["types"])
        out.unlink()

    def test_dry_run_writes_nothing(self):
        before = sorted(self.folder.iterdir())
        text = self.veery("quantize", self.model, "Q4_K_M", "--dry-run").stdout.decode()
        for part in ["blk.1.ffn_up.weight", "q5_0", "rows do not fit q4_K", "bits a weight"]:
            self.assertIn(part, text)
        self.assertEqual(sorted(self.folder.iterdir()), before)

    def test_faults(self):
        out = self.folder / "out.gguf"
        self.assertIn("IN OUT TYPE", self.error("quantize", self.model, "Q4_0", status=2))
        self.assertIn("REGEX=TYPE", self.error("quantize", self.model, out, "Q4_0", "--tensor-type", "x", status=2))
        self.assertIn("Q4_K_M", self.error("quantize", self.model, out, "Q9", status=2))
        self.assertIn("is also the input", self.error("quantize", self.model, self.model, "Q8_0"))
        self.assertIn("expected an importance matrix",
                      self.error("quantize", self.model, out, "Q8_0", "--imatrix", self.model))  # fmt: skip
        self.assertIn("contains 2 GGUF models", self.error("quantize", self.folder, out, "Q8_0"))
        self.assertIn("cannot be created", self.error("quantize", self.model, "/nowhere/out.gguf", "Q8_0"))
        self.assertFalse(out.exists())


class Convert(CliTest):
    def answer(self, model):
        return self.json("run", model, "--ids", "3,1,4,1,5", "-n", 12, "--temp", 0, "--exact")["ids"]

    def test_a_folder_as_gguf_gives_the_same_answer(self):
        out = self.folder / "converted.gguf"
        before = sorted(self.folder.iterdir())
        for name in ["llama-llama3", "gemma3", "gpt2"]:
            self.veery("convert", TINY / name, out)
            self.assertEqual(self.answer(out), self.answer(TINY / name))
            out.unlink()
        self.assertEqual(sorted(self.folder.iterdir()), before)

    def test_a_folder_without_a_tokenizer_is_reported(self):
        text = self.veery("convert", TINY / "gpt2", "x.gguf", "--dry-run").stdout.decode()
        self.assertIn("has no tokenizer", text)
        text = self.veery("convert", self.model, "x.gguf", "--type", "q8_0", "--dry-run").stdout.decode()
        self.assertNotIn("tokenizer", text)
        written = self.json("convert", TINY / "gpt2", "x.gguf", "--dry-run")
        self.assertEqual(written["tokenizer"], "none")

    def test_the_tokenizer_and_template_of_a_gguf_file_are_in_its_folders(self):
        messages = self.write("messages.json", [{"role": "user", "content": "Hi </s> \u20ac"}])
        for kind in ["hf", "mlx"]:
            out = self.folder / f"with-text-{kind}"
            self.veery("convert", self.model, out, "--to", kind)
            for text in ["", "a <s>b", "\u65e5\u672c 12  \n"]:
                self.assertEqual(
                    self.json("tokenize", out, "-p", text), self.json("tokenize", self.model, "-p", text))
            of = [self.veery("template", model, "--messages", messages).stdout for model in (out, self.model)]
            self.assertEqual(*of)
            ends = json.loads((out / "generation_config.json").read_text())
            self.assertEqual((ends["bos_token_id"], ends["eos_token_id"]), (256, 257))

    def test_gguf_files_in_parts(self):
        self.veery("convert", self.model, self.folder / "parts.gguf", "--split-size", "20K")
        parts = sorted(self.folder.glob("parts*.gguf"))
        self.assertGreater(len(parts), 2)
        self.assertTrue(parts[0].name.endswith(f"-00001-of-{len(parts):05}.gguf"))
        self.assertEqual(self.answer(parts[0]), self.answer(self.model))
        contents = [part.read_bytes() for part in parts]
        again = self.error("convert", parts[0], self.folder / "parts.gguf", "--split-size", "20K")
        self.assertIn("is also the input", again)
        self.assertEqual([part.read_bytes() for part in parts], contents)
        self.error("convert", self.model, self.folder / "no", "--to", "hf", "--split-size", "1M", status=2)
        for part in parts:
            part.unlink()

    def test_types_of_a_gguf_file_change(self):
        smaller, larger = self.folder / "q8.gguf", self.folder / "f32.gguf"
        self.veery("convert", self.model, smaller, "--type", "q8_0", "--to", "gguf")
        self.veery("convert", smaller, larger, "--type", "F32")
        self.assertEqual(self.json("show", larger)["types"], {"f32": 20})
        self.assertEqual(self.answer(larger), self.answer(smaller))
        smaller.unlink(), larger.unlink()

    def test_dry_run_writes_nothing(self):
        before = sorted(self.folder.iterdir())
        text = self.veery("convert", TINY / "gpt2", "x.gguf", "--type", "bf16", "--dry-run").stdout.decode()
        for part in ["blk.0.attn_qkv.weight", "bf16", "bits a weight"]:
            self.assertIn(part, text)
        self.assertEqual(sorted(self.folder.iterdir()), before)

    def test_faults(self):
        out = self.folder / "out.gguf"
        self.assertIn("--to", self.error("convert", self.model, self.folder / "out", status=2))
        self.assertIn("not one of gguf", self.error("convert", self.model, out, "--to", "onnx", status=2))
        self.assertIn("Q4_K_M", self.error("convert", self.model, out, "--type", "q9", status=2))
        self.assertIn("is also the input", self.error("convert", self.model, self.model))
        self.assertIn("cannot be created", self.error("convert", TINY / "gpt2", "/nowhere/out.gguf"))
        self.assertFalse(out.exists())

    def test_flags_of_another_kind_are_refused(self):
        for to, flag, *value in [("gguf", "--dtype", "float16"), ("gguf", "-q"), ("gguf", "--shard-size", "1G"),
                                 ("hf", "-q"), ("hf", "--type", "q8_0"), ("mlx", "--split-size", "1G"),
                                 ("mlx", "--allow-requantize"), ("mlx", "--bits", "4")]:
            message = self.error("convert", self.model, self.folder / "no", "--to", to, flag, *value, status=2)
            self.assertIn(flag.removeprefix("-q") or "--quantize", message)
        self.error("convert", self.model, "x.gguf", "--split-size", "many", "--dry-run", status=2)
        self.assertFalse((self.folder / "no").exists())

    def test_convert_writes_folders(self):
        folder = self.folder / "folder"
        self.veery("convert", self.model, folder, "--to", "hf", "--dtype", "float32", "--shard-size", "100K")
        config = json.loads((folder / "config.json").read_text())
        self.assertEqual(config["model_type"], "llama")
        self.assertEqual(config["torch_dtype"], "float32")
        self.assertTrue((folder / "model.safetensors.index.json").exists())
        self.assertIn("exists already", self.error("convert", TINY / "gpt2", folder, "--to", "hf"))
        mlx = self.folder / "mlx"
        self.veery("convert", folder, mlx, "--to", "mlx", "-q", "--q-bits", "8", "--group-size", "32", "--rule", "embed=4")
        quantization = json.loads((mlx / "config.json").read_text())["quantization"]
        self.assertEqual((quantization["bits"], quantization["group_size"]), (8, 32))
        self.assertEqual(quantization["model.embed_tokens"]["bits"], 4)
        plan = json.loads(self.veery("convert", TINY / "qwen3", "x", "--to", "hf", "--dry-run", "--json").stdout)
        self.assertEqual(plan["type"], "qwen3")
        for flags in (["-q"], ["--type", "q8_0"], ["--dtype", "q8"], ["--shard-size", "many"]):
            self.error("convert", folder, self.folder / "no", "--to", "hf", *flags, status=2)
        self.assertIn("7 bits", self.error("convert", folder, self.folder / "no", "--to", "mlx", "-q", "--bits", "7"))
        self.assertFalse((self.folder / "no").exists())


class Verify(CliTest):
    def test_a_sound_model(self):
        lines = self.veery("verify", self.bare, "-t", 1).stdout.decode().splitlines()
        self.assertTrue(any(line.startswith("ok      finite weights ") for line in lines), lines)
        self.assertEqual(lines[-1], "sound, 1 warning")  # the perplexity of random weights
        report = self.json("verify", self.bare, "-t", 1)
        self.assertTrue(report["sound"])
        self.assertEqual((report["warnings"], report["defects"]), (1, 0))
        self.assertIn({"name": "chat template", "state": "skipped", "found": "the model has none",
                       "expected": "", "hint": ""}, report["checks"])

    def test_defects_are_status_1(self):
        data = bytearray(self.bare.read_bytes())
        data[-4:] = b"\xff\xff\xff\xff"  # of the last matrix
        damaged = self.folder / "nan.gguf"
        damaged.write_bytes(data)
        done = self.veery("verify", damaged, "-t", 1, status=1)
        self.assertEqual(done.stderr, b"")
        text = done.stdout.decode()
        self.assertIn("fail    finite weights", text)
        self.assertIn("blk.1.ffn_down.weight: 1 of", text)
        self.assertTrue(text.endswith("1 failed, 1 warning\n") or "1 failed, " in text, text)
        reference = self.folder / "never.json"
        self.assertIn("has defects", self.veery("verify", damaged, "--record", reference, status=1).stderr.decode())
        self.assertFalse(reference.exists())

    def test_records_and_compares(self):
        reference = self.folder / "reference.json"
        self.veery("verify", self.model, "-t", 1, "--record", reference)
        checks = self.json("verify", self.model, "-t", 1, "--reference", reference)["checks"]
        self.assertEqual([c["state"] for c in checks if c["name"] in ("reference", "greedy text")], ["ok", "ok"])
        recorded = json.loads(reference.read_text())
        recorded["cases"][0]["positions"][3]["logsumexp"] += 1
        reference.write_text(json.dumps(recorded))
        text = self.veery("verify", self.model, "-t", 1, "--reference", reference, status=1).stdout.decode()
        self.assertIn("fail    reference", text)
        self.assertIn("after token 3 of text 0", text)

    def folder_like(self, name, **changes):
        """Makes a folder with weights of tests/fixtures/tiny and another configuration."""
        folder = self.folder / f"{name}-{len(list(self.folder.iterdir()))}"
        folder.mkdir()
        (folder / "model.safetensors").symlink_to((TINY / name / "model.safetensors").resolve())
        config = json.loads((TINY / name / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(config | changes))
        return folder

    def test_a_layer_too_many_is_a_defect(self):
        folder = self.folder_like("llama-linear", num_hidden_layers=1)
        text = self.veery("verify", folder, "-t", 1, status=1).stdout.decode()
        self.assertRegex(text, "fail +layers +blk.1.*num_hidden_layers is 1")
        self.assertIn("num_hidden_layers is 1", self.error("run", folder, "--ids", "1,2,3", "-n", 1, "-t", 1))
        self.assertIn("num_hidden_layers is 1", self.error("convert", folder, self.folder / "one.gguf"))

    def test_numbers_that_no_model_can_have_are_named(self):
        folder = self.folder_like("llama-linear", rms_norm_eps=-1)
        self.assertIn("rms_norm_eps is -1, expected 0 to 1", self.error("run", folder, "--ids", "1", "-t", 1))
        folder = self.folder_like("llama-linear", rope_scaling={"rope_type": "yarn", "factor": 0})
        self.assertIn("rope_scaling: factor is 0, expected", self.error("run", folder, "--ids", "1", "-t", 1))

    def test_faults(self):
        self.assertIn("--tolerance", self.error("verify", self.model, "--tolerance", "-1", status=2))
        self.assertIn("/no/such", self.error("verify", self.model, "--reference", "/no/such"))
        self.assertIn("/no/such", self.error("verify", "/no/such"))
        none = self.write("none.json", {"cases": [{}]})
        self.assertIn("none.json", self.error("verify", self.model, "--reference", none))


if __name__ == "__main__":
    unittest.main()
