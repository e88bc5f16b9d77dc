"""bench/h200/compare.py with programs that stand for the real ones.

usage: h200_test.py
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from xml.etree import ElementTree

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]

# Stands for all four; what is asked of it is kept in a file beside it.
STUB = """#!/usr/bin/env python3
import json, pathlib, sys
me = pathlib.Path(sys.argv[0])
with open(me.parent / "asked", "a") as asked:
    print(me.name, *sys.argv[1:], file=asked)
if me.name == "nvidia-smi":
    print("A GPU, 1.2.3")
elif me.name == "llama-bench":
    speed = 100 if sys.argv[sys.argv.index("-p") + 1] == "0" else 1000
    print(json.dumps([{"samples_ts": [speed - 1, speed, speed + 5]}]))
elif me.name == "llama-batched-bench":
    print("main: what it says beside\\n" + json.dumps({"speed_tg": 500}))
elif "--version" in sys.argv:
    print("veery of a test")
else:
    print(json.dumps([{"test": "any", "tokens_per_second": 3000 if "--relaxed" in sys.argv else 2000}]))
"""


class Compare(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        for name in ("nvidia-smi", "llama-bench", "llama-batched-bench", "veery"):
            (self.folder / name).write_text(STUB)
            (self.folder / name).chmod(0o755)
        for weights in ("q4_k", "q8_0", "bf16"):
            (self.folder / f"8b-{weights}.gguf").touch()

    def compare(self, *arguments):
        command = [sys.executable, REPOSITORY / "bench/h200/compare.py", self.folder / "veery", self.folder,
                   "--folder", self.folder, "--rounds", "2", *arguments]  # fmt: skip
        return subprocess.run(command, env={**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}"},
                              capture_output=True, text=True, timeout=60, check=False)  # fmt: skip

    def test_a_table_a_file_and_a_plot(self):
        out, svg = self.folder / "out.json", self.folder / "out.svg"
        done = self.compare("--shapes", "8b", "--json", out, "--svg", svg)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("A GPU, driver 1.2.3", done.stdout)
        self.assertIn("| 8B q4_k | steps | 100 | 2,000 | 20.00 | 570 |", done.stdout)
        self.assertIn("| 8B q4_k | steps of 64 sequences | 500 | 2,000 | 4.00 | 9,000 |", done.stdout)
        self.assertIn("| 8B bf16 | prompt of 2048 --relaxed | 1,000 | 3,000 | 3.00 | 42,000 |", done.stdout)
        self.assertNotIn("1B", done.stdout)
        rows = json.loads(out.read_text())["results"]
        self.assertTrue(all(len(row["veery"]["samples"]) == 2 for row in rows))
        self.assertIn("20.00 x", "".join(ElementTree.fromstring(svg.read_text()).itertext()))

    def test_the_peer_is_asked_once_a_round_for_what_several_tests_are_beside(self):
        self.compare("--shapes", "8b")
        asked = (self.folder / "asked").read_text().splitlines()
        prompts = [line for line in asked if line.startswith("llama-bench") and "q4_k" in line and "-p 2048" in line]
        self.assertEqual(len(prompts), 2)
        self.assertEqual(sum("q4_k" in line and "-p 2048" in line and line.startswith("veery") for line in asked), 4)

    def test_a_program_that_fails_ends_it_with_what_it_said(self):
        (self.folder / "veery").write_text("#!/bin/sh\necho no GPU >&2\nexit 3\n")
        done = self.compare("--shapes", "8b")
        self.assertEqual(done.returncode, 1)
        self.assertIn("ended with 3", done.stderr)
        self.assertIn("no GPU", done.stderr)


if __name__ == "__main__":
    unittest.main()
