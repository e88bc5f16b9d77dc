"""bench/h200 with programs that stand for the real ones: compare.py, check.py; what wide.py makes.

usage: h200_test.py
"""
import json
import math
import os
import pathlib
import statistics
import struct
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


# Stands for veery: says the same anywhere, or where it runs, or how far logits are from those of the CPU.
CHECKED = """#!/bin/sh
device=${*##*--device }
device=${device%% *}
case "$device $*" in
  cpu*--all*) logit=2 ;;
  *--all*--exact*) logit=EXACT ;;
  *--all*) logit=LOGIT ;;
  *WRONG*) echo "a text $device"; exit ;;
  *) echo "a text "; exit ;;
esac
echo '{"positions": [{"top": [{"id": 1, "logit": '$logit'}, {"id": 2, "logit": 1}]}]}'
"""


class Check(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def check(self, *arguments, logit="2", exact="2", wrong="nowhere"):
        program = self.folder / "veery"
        program.write_text(CHECKED.replace("LOGIT", logit).replace("EXACT", exact).replace("WRONG", wrong))
        program.chmod(0o755)
        command = [sys.executable, REPOSITORY / "bench/h200/check.py", program, "--folder", self.folder, *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    def test_what_is_the_same_is_said_and_what_differs_is_the_status(self):
        done = self.check("--only", "real", "--real", "model.gguf")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("real       same         greedy\n", done.stdout)
        done = self.check("--only", "real", "--real", "model.gguf", wrong="cuda*Write")
        self.assertEqual(done.returncode, 1)
        self.assertIn("WRONG real: sampled: differs at byte 7", done.stdout)
        self.assertIn("real       same         greedy\n", done.stdout)

    def test_logits_are_same_near_or_wrong(self):
        done = self.check("--only", "tiny")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("tiny       same         gemma3\n", done.stdout)
        self.assertIn("tiny       same         gemma3 --exact\n", done.stdout)
        done = self.check("--only", "tiny", exact="2.0001")
        self.assertEqual(done.returncode, 1)
        self.assertIn("WRONG tiny: gemma3 --exact: logits are 5.0e-05 away", done.stdout)
        self.assertIn("near 5e-03", self.check("--only", "tiny", logit="2.01").stdout)
        done = self.check("--only", "tiny", logit="2.1")
        self.assertEqual(done.returncode, 1)
        self.assertIn("WRONG tiny: gemma3: logits are 5.0e-02 away", done.stdout)

    def test_a_part_that_there_is_not_is_named(self):
        done = self.check("--only", "tiny,nothing")
        self.assertEqual(done.returncode, 2)
        self.assertIn("found nothing", done.stderr)


class Wide(unittest.TestCase):
    def wide(self, *arguments):
        command = [sys.executable, REPOSITORY / "bench/h200/wide.py", *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    def test_a_checkpoint_has_the_shapes_and_spreads_that_are_written_down(self):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.assertEqual(self.wide(folder, "qwen3").returncode, 0)
        facts = json.loads((REPOSITORY / "tests/fixtures/wide.json").read_text())["qwen3"]
        self.assertEqual(json.loads((folder / "qwen3/config.json").read_text()), facts["config"])
        data = (folder / "qwen3/model.safetensors").read_bytes()
        size = struct.unpack("<Q", data[:8])[0]
        header = json.loads(data[8 : 8 + size])
        self.assertEqual({name: entry["shape"] for name, entry in header.items()},
                         {name: shape for name, (shape, _, _) in facts["tensors"].items()})  # fmt: skip
        name, (_, mean, deviation) = max(facts["tensors"].items(), key=lambda item: math.prod(item[1][0]))
        begin, end = (8 + size + at for at in header[name]["data_offsets"])
        values = [struct.unpack("<f", b"\0\0" + data[at : at + 2])[0] for at in range(begin, min(end, begin + 16382), 2)]
        self.assertAlmostEqual(statistics.pstdev(values), deviation, delta=0.05 * deviation)
        self.assertAlmostEqual(statistics.mean(values), mean, delta=0.05 * deviation)
        self.assertEqual(len(data), 8 + size + max(entry["data_offsets"][1] for entry in header.values()))

    def test_a_family_that_there_is_not_is_named(self):
        done = self.wide("/nowhere", "gpt-17")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no family gpt-17", done.stderr)


if __name__ == "__main__":
    unittest.main()
