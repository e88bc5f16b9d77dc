#!/usr/bin/env python3
"""Runs the examples of arrays in C++.

usage: examples_test.py FOLDER     the folder of the programs
"""
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

PROGRAMS = pathlib.Path(sys.argv.pop(1))
EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"


def run(program, *arguments):
    done = subprocess.run([PROGRAMS / program, *map(str, arguments)], capture_output=True, check=False, timeout=300)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


class Examples(unittest.TestCase):
    def test_linear_regression(self):
        # examples/regression.c prints the same line (tests/install).
        self.assertEqual(run("linear_regression"), (0, "weights 1.50 -2.00 0.25, loss 0.0001\n", ""))
        # Without a step, the loss is near 1.5^2 + 2^2 + 0.25^2.
        text = run("linear_regression", 0)[1]
        self.assertAlmostEqual(float(text.removeprefix("weights 0.00 0.00 0.00, loss ")), 6.3, delta=0.6)

    def test_iris(self):
        status, text, errors = run("iris", EXAMPLES / "iris.csv")
        self.assertEqual((status, errors), (0, ""))
        losses = [float(loss) for loss in re.findall(r"^step \d+: loss (\S+)$", text, re.MULTILINE)]
        self.assertEqual(losses, sorted(losses, reverse=True))
        self.assertLess(losses[-1], 0.06)
        accuracy, flowers = re.search(r"^accuracy (\S+) of (\d+) flowers$", text, re.MULTILINE).groups()
        self.assertEqual(flowers, "30")
        self.assertGreaterEqual(float(accuracy), 0.95)
        self.assertEqual(run("iris", "/no/such"), (1, "", "cannot open /no/such\n"))

    def test_attention_block(self):
        with tempfile.TemporaryDirectory() as folder:
            status, text, errors = run("attention_block", pathlib.Path(folder) / "block.safetensors")
        self.assertEqual((status, errors), (0, ""))
        self.assertEqual(len(re.findall(r"^\w+ +gradient \d+\.\d+$", text, re.MULTILINE)), 10)
        self.assertRegex(text, r"gradients agree")
        self.assertEqual(run("attention_block", "/no/such/folder/file")[0], 1)


if __name__ == "__main__":
    unittest.main()
