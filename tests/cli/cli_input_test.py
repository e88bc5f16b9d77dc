"""Standard input, files and -p as one prompt of `veery run`."""
import os
import pty
import subprocess
import time
import unittest

from cli_base import PROGRAM, CliTest


class Input(CliTest):
    def same(self, expected, *arguments, stdin=b""):
        found = self.json("run", self.model, "-t", 1, "-n", 1, "--raw", *arguments, stdin=stdin)["prompt_ids"]
        self.assertEqual(found, self.json("run", self.model, "-t", 1, "-n", 1, "--raw", "-p", expected)["prompt_ids"])

    def test_input_file_and_text_are_one_prompt(self):
        file = self.write("part.txt", "second\n")
        self.same("first\n\nthird", "-p", "third", stdin=b"first\n")
        self.same("first\n\nthird word", "third", "word", stdin=b"first")
        self.same("second\n\nthird", "-p", "third", "-f", file)
        self.same("second\n\nthird", "third", "-f", file)
        self.same("first\n\nsecond", "-f", file, stdin=b"first\n")
        self.same("first\n\nsecond\n\nthird", "-p", "third", "-f", file, stdin=b"first\n")
        self.same("first\n\nthird", "-p", "third", "-f", "-", stdin=b"first\n")
        self.same("first", "-f", "-", stdin=b"first\n")
        self.same("first", "-", stdin=b"first\n")
        self.same("first", stdin=b"first\n")
        self.same("third\n", "-p", "third\n")

    def test_a_file_as_standard_input(self):
        path = self.write("input.txt", "first\n")
        for flags, expected in [(["-p", "third"], "first\n\nthird"), ([], "first")]:
            with open(path, "rb") as stdin:
                done = subprocess.run([PROGRAM, "run", self.model, "-t", "1", "-n", "1", "--raw", "--json", *flags],
                                      stdin=stdin, capture_output=True, timeout=60, check=True)  # fmt: skip
            self.assertEqual(done.stderr, b"")
            self.assertIn(f'"prompt_tokens":{len(expected) + 1}', done.stdout.decode())

    def run_with(self, stdin, *arguments):
        begin = time.monotonic()
        done = subprocess.run([PROGRAM, "run", self.model, "-t", "1", "-n", "1", "--raw", "--json", "-p", "abc", *arguments],
                              stdin=stdin, capture_output=True, timeout=60, check=True)  # fmt: skip
        self.assertIn('"prompt_tokens":4', done.stdout.decode())
        return done.stderr.decode(), time.monotonic() - begin

    def test_a_silent_input_adds_nothing(self):
        self.assertEqual(self.run_with(subprocess.DEVNULL)[0], "")
        leader, follower = pty.openpty()
        self.assertEqual(self.run_with(follower)[0], "")
        os.close(leader)
        os.close(follower)
        reader, writer = os.pipe()
        said, seconds = self.run_with(reader)
        self.assertIn("standard input delivered nothing for 5 seconds", said)
        self.assertGreater(seconds, 4.9)
        os.close(writer)
        self.assertEqual(self.run_with(reader)[0], "")  # the pipe has ended
        os.close(reader)
        closed = subprocess.run(["/bin/sh", "-c", '"$0" run "$1" -t 1 -n 1 --raw --json -p abc <&-', PROGRAM, self.model],
                                capture_output=True, timeout=60, check=True)  # fmt: skip
        self.assertIn('"prompt_tokens":4', closed.stdout.decode())
        self.assertEqual(closed.stderr, b"")

    def test_a_slow_writer_is_waited_for(self):
        done = subprocess.run(["/bin/sh", "-c", '(sleep 1; printf ab; sleep 1; printf c) | '
                               '"$0" run "$1" -t 1 -n 1 --raw --json -p d', PROGRAM, self.model],
                              capture_output=True, timeout=60, check=True)  # fmt: skip
        self.assertIn(f'"prompt_tokens":{len("abc") + 2 + 1 + 1}', done.stdout.decode())

    def test_ids_and_verbs_of_one_text_are_alone(self):
        self.assertEqual(self.json("run", self.model, "-t", 1, "-n", 1, "--ids", "5,6", stdin=b"first")["prompt_ids"], [5, 6])
        for verb in ["tokenize", "logits"]:
            self.assertEqual(self.veery(verb, self.model, "-p", "ab", stdin=b"first").stdout,
                             self.veery(verb, self.model, "-p", "ab").stdout)  # fmt: skip
            self.assertIn("--prompt", self.error(verb, self.model, "-p", "a", "-f", "b", status=2))


if __name__ == "__main__":
    unittest.main()
