#!/usr/bin/env python3
"""Model files that change while they are used: the program ends with an error, a server goes on with its other models.

usage: cli_changed_files_test.py VEERY [unittest arguments]
"""
import json
import os
import random
import shutil
import subprocess
import time
import unittest

import tiny_gguf
from cli_base import PROGRAM, TEMPLATE, CliTest, resident_bytes, wait_until
from serve_client import Server, chat

CHANGES = r"(shrank|was overwritten) while it was in use|cannot be read any more"


class Changed(CliTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.source = cls.folder / "source.gguf"
        tiny_gguf.write(cls.source, TEMPLATE, dim=256, hidden=4096, tied=False, context=512)
        cls.work = cls.folder / "work"

    def setUp(self):
        self.work.mkdir()
        self.addCleanup(shutil.rmtree, self.work)

    def start(self, *call):
        model = self.work / "model.gguf"
        shutil.copy(self.source, model)
        names = [str(model) if part == "MODEL" else str(part) for part in call]
        return model, subprocess.Popen([PROGRAM, *names], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def wait_until_read(self, model, process):
        """Waits until the program reads the weights: it opens the file once before, to look at its first bytes.
        Returns False if the program ended without being seen to read them."""
        path = os.path.realpath(model)
        return wait_until(lambda: resident_bytes(process.pid, path) > 1 << 20, lambda: process.poll() is not None)

    def calls(self):
        out = self.work / "out"
        return {
            "run": ["run", "MODEL", "-p", "hi", "-n", 400, "--ignore-eos", "-t", 2],
            "verify": ["verify", "MODEL", "-t", 2],
            "quantize": ["quantize", "MODEL", out, "Q4_K_M", "-t", 2],
            "convert": ["convert", "MODEL", out, "--to", "hf", "-t", 2],
            "to_gguf": ["convert", "MODEL", out, "--to", "gguf", "--type", "f16", "-t", 2],
            "perplexity": ["perplexity", "MODEL", "-f", self.write("text", "abc " * 2000), "-t", 2],
            "show": ["show", "MODEL"],
        }  # fmt: skip

    def check(self, process, name, moment, failed):
        """Checks that the program ends with a result, or with one error and no output."""
        said = process.communicate(timeout=120)[1].decode()
        self.assertIn(process.returncode, (0, 1), (name, moment, said))
        left = {path.name for path in self.work.iterdir()} - {"model.gguf"}
        if process.returncode == 0:
            return
        failed.add(name)
        errors = [line for line in said.splitlines() if line.startswith("veery: error: ")]
        self.assertEqual(len(errors), 0 if name == "verify" and not errors else 1, (name, moment, said))
        self.assertEqual(left, set(), (name, moment, said))

    def test_a_file_that_shrinks_ends_no_program_by_a_signal(self):
        draw, failed = random.Random(3), set()
        for name, call in self.calls().items():
            begun = time.monotonic()
            self.start(*call)[1].communicate()
            whole = time.monotonic() - begun
            shutil.rmtree(self.work)
            for i in range(6):
                self.work.mkdir()
                model, process = self.start(*call)
                # The first time as soon as the weights are read, so that each program sees a change at least once.
                moment = whole * (i + draw.random()) / 6
                if i == 0:
                    self.wait_until_read(model, process)
                else:
                    time.sleep(moment)
                os.truncate(model, 0 if i == 0 else draw.choice([0, 4096, 100_000, self.source.stat().st_size // 2]))
                self.check(process, name, moment, failed)
                shutil.rmtree(self.work)
            self.work.mkdir()
        self.assertLessEqual({"quantize", "run"}, failed)

    def test_a_copy_over_the_file_ends_no_program_by_a_signal(self):
        other = self.folder / "other.gguf"
        tiny_gguf.write(other, TEMPLATE, dim=256, hidden=4096, tied=False, context=512, seed=9)
        failed = set()
        for name, call in self.calls().items():
            for moment in (0.02, 0.1):
                model, process = self.start(*call)
                time.sleep(moment)
                shutil.copyfile(other, model)
                self.check(process, name, moment, failed)
                shutil.rmtree(self.work)
                self.work.mkdir()

    def test_a_file_replaced_by_a_rename_is_used_to_the_end(self):
        calls = self.calls()
        del calls["show"]  # it opens the file several times: for tensors, tokenizer and template
        for name, call in calls.items():
            model, process = self.start(*call)
            new = self.work / "new"
            new.write_bytes(b"GGUF")
            if self.wait_until_read(model, process):
                os.replace(new, model)
            said = process.communicate(timeout=120)[1].decode()
            # The random weights are defects that verify reports with status 1.
            self.assertEqual(process.returncode, 1 if name == "verify" else 0, (name, said))
            shutil.rmtree(self.work)
            self.work.mkdir()


class Serving(CliTest):
    def setUp(self):
        self.paths = [self.folder / f"{name}.gguf" for name in ("one", "two")]
        for seed, path in enumerate(self.paths):
            tiny_gguf.write(path, TEMPLATE, tied=False, context=4096, seed=seed)
        self.whole = self.paths[1].read_bytes()
        self.server = Server(*self.paths)
        self.addCleanup(self.server.end)
        self.known = {name: self.answer(name) for name in ("one", "two")}

    def answer(self, name, **more):
        return self.server.post("/v1/chat/completions", chat(model=name, **more))["choices"]

    def failure(self, path="/v1/chat/completions"):
        status, _, text = self.server.send("POST", path, chat(model="two"))
        return status, json.loads(text)["error"]

    def test_only_the_model_whose_file_shrinks_fails_until_it_is_whole(self):
        for size in (0, 4096, len(self.whole) - 100):
            os.truncate(self.paths[1], size)
            for _ in range(3):
                status, error = self.failure()
                self.assertEqual(status, 503, error)
                self.assertIn(error["code"], ("model_file_changed", "model_not_loaded"))
            self.assertEqual(self.answer("one"), self.known["one"])
            self.paths[1].write_bytes(self.whole)
            self.assertEqual(self.answer("two"), self.known["two"])

    def test_another_model_copied_over_it_is_loaded(self):
        self.paths[1].write_bytes(self.paths[0].read_bytes())
        self.assertEqual(self.answer("two"), self.known["one"])

    def test_a_stream_whose_model_shrinks_ends_with_the_error(self):
        connection = self.server.connect()
        body = chat(model="two", stream=True) | {"max_tokens": 4000}
        connection.request("POST", "/v1/chat/completions", json.dumps(body))
        reply = connection.getresponse()
        first = reply.read(400)
        os.truncate(self.paths[1], 4096)
        rest = (first + reply.read()).decode()
        connection.close()
        last = [line for line in rest.splitlines() if line.startswith("data: {")][-1]
        self.assertRegex(json.loads(last[6:])["error"]["message"], CHANGES)
        self.assertEqual(self.answer("one"), self.known["one"])


if __name__ == "__main__":
    unittest.main()
