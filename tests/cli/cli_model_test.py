#!/usr/bin/env python3
"""Runs the program on real weights and compares with the recorded references.

usage: cli_model_test.py VEERY FIXTURES [unittest arguments]    exit status 77: the weights are not there
"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import syscalls

PROGRAM = ""
FIXTURES = pathlib.Path()
SKIPPED = 77
NAMES = ["SmolLM2-135M-Instruct", "gemma-3-270m"]


def folder():
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return pathlib.Path(os.environ.get("VEERY_MODELS") or pathlib.Path(cache, "veery", "models"))


def reference(name):
    return json.loads((FIXTURES / name / "reference.json").read_text())


def veery(verb, model, *arguments, stdin=b""):
    done = subprocess.run(
        [PROGRAM, verb, str(folder() / model), *map(str, arguments)], input=stdin, capture_output=True,
        timeout=300, check=False)  # fmt: skip
    if done.returncode != 0:
        raise AssertionError(done.stderr.decode())
    return done.stdout


def comma(ids):
    return ",".join(map(str, ids))


class RealModels(unittest.TestCase):
    def each(self):
        for name in NAMES:
            expected = reference(name)
            with self.subTest(model=name):
                yield name, expected["model"]["file"], expected

    def test_exact_greedy_tokens_are_the_reference_ones(self):
        for _, model, expected in self.each():
            for prompt in expected["prompts"][:4]:
                out = json.loads(veery("run", model, "--ids", comma(prompt["ids"]), "--temp", 0, "-n", 48,
                                       "--ignore-eos", "--exact", "--json"))  # fmt: skip
                greedy = prompt["greedy"]
                for made, wanted, gap in zip(out["ids"], greedy["ids"], greedy["gaps"]):
                    if made != wanted:
                        self.assertLess(gap, 0.005, prompt["name"])
                        break

    def test_exact_logits(self):
        for _, model, expected in self.each():
            prompt = expected["prompts"][1]
            out = json.loads(veery("logits", model, "--ids", comma(prompt["ids"]), "--all", "--top", 20,
                                   "--exact", "--json"))  # fmt: skip
            for wanted in prompt["positions"]:
                found = out["positions"][wanted["position"]]
                self.assertAlmostEqual(found["logsumexp"], wanted["logsumexp"], delta=2e-3)
                for (_, logit), item in zip(wanted["top"], found["top"]):
                    self.assertAlmostEqual(item["logit"], logit, delta=2e-3)

    def test_token_ids(self):
        for name, model, _ in self.each():
            cases = json.loads((FIXTURES / name / "tokens.json").read_text())
            for special, flags in [(True, []), (False, ["--no-parse-special"])]:
                chosen = [case for case in cases if case["special"] == special]
                stdin = "\n".join(json.dumps(case["text"]) for case in chosen).encode()
                out = veery("tokenize", model, "--jsonl", "--no-special", *flags, stdin=stdin)
                found = [json.loads(line) for line in out.splitlines()]
                self.assertEqual(found, [case["ids"] for case in chosen])

    def test_perplexity(self):
        for _, model, expected in self.each():
            wanted = expected["perplexity"]
            text = FIXTURES / wanted["file"]
            out = json.loads(veery("perplexity", model, "-f", text, "-c", wanted["context"], "--json"))
            self.assertEqual(out["windows"], len(wanted["windows"]))
            self.assertEqual(out["tokens"], wanted["scored"])
            self.assertAlmostEqual(out["perplexity"] / wanted["perplexity"], 1, delta=0.005)
            self.assertAlmostEqual(out["stderr"] / wanted["stderr"], 1, delta=0.02)

    def test_the_default_model_answers_and_ends(self):
        out = json.loads(veery("run", "SmolLM2-135M-Instruct.Q4_1.gguf", "-p", "What is the capital of France?",
                               "--temp", 0, "--exact", "--json"))  # fmt: skip
        self.assertIn("Paris", out["text"])
        self.assertEqual(out["finish_reason"], "stop")
        self.assertNotIn("<|im_end|>", out["text"])

    def test_a_signal_while_a_file_is_written_leaves_nothing(self):
        model = folder() / "SmolLM2-135M-Instruct.Q4_1.gguf"
        for asked in (signal.SIGTERM, signal.SIGHUP):
            with tempfile.TemporaryDirectory() as holder:
                started = subprocess.Popen(
                    [PROGRAM, "quantize", model, f"{holder}/out.gguf", "IQ3_S", "--allow-requantize"],
                    stdout=subprocess.DEVNULL)
                end = time.monotonic() + 60
                while not os.listdir(holder) and started.poll() is None and time.monotonic() < end:
                    time.sleep(0.01)
                self.assertIsNone(started.poll(), "it ended before it was asked to")
                started.send_signal(asked)
                self.assertEqual(started.wait(60), 128 + asked)
                self.assertEqual(os.listdir(holder), [])

    def test_a_decode_step_makes_no_system_call(self):
        if reason := syscalls.why_not():
            print(f"not counted: {reason}", file=sys.stderr)
            self.skipTest(reason)
        for _, model, _ in self.each():
            # The longer run uses a second page of the KV cache.
            few, many = (
                syscalls.count([PROGRAM, "bench", folder() / model, "-p", 0, "-n", steps, "-r", 1, "-t", 2])
                for steps in (20, 280)
            )
            self.assertGreater(few["openat"], 0)
            self.assertLess(sum(map(abs, syscalls.difference(few, many).values())), 16,
                            syscalls.difference(few, many))  # fmt: skip


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    FIXTURES = pathlib.Path(sys.argv.pop(1))
    if not all((folder() / reference(name)["model"]["file"]).is_file() for name in NAMES):
        print(f"the models are not in {folder()}")
        sys.exit(SKIPPED)
    unittest.main()
