#!/usr/bin/env python3
"""The environment of the program: narrow terminals, NO_COLOR, locales without UTF-8, CPU affinity.

usage: cli_terminal_test.py VEERY [unittest arguments]
"""
import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import termios
import time
import unittest

import tiny_gguf
from cli_base import PROGRAM, CliTest, open_files, wait_until

VERBS = ("run", "serve", "batch", "embed", "transcribe", "quantize", "convert", "completion")


class Surroundings(CliTest):
    def on_terminal(self, *arguments, columns=80, **environment):
        """Returns the output of a call on a terminal with `columns` columns, and its status."""
        return self.finish(*self.begin(*arguments, columns=columns, **environment))

    def begin(self, *arguments, columns=80, **environment):
        child, terminal = pty.fork()
        if child == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
            os.environ.pop("NO_COLOR", None)
            os.environ.update({"TERM": "xterm-256color", **environment})
            os.execv(PROGRAM, [PROGRAM, *map(str, arguments)])
        return child, terminal

    def finish(self, child, terminal):
        seen = b""
        try:
            while select.select([terminal], [], [], 60)[0]:
                seen += os.read(terminal, 1 << 16)
        except OSError:
            pass  # the end of the terminal
        os.close(terminal)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        return seen.decode().replace("\r\n", "\n"), status

    def test_help_fits_into_the_terminal(self):
        for columns in (40, 60):
            for call in (["--help"], *([verb, "--help"] for verb in VERBS)):
                text, status = self.on_terminal(*call, columns=columns)
                self.assertEqual(status, 0)
                for line in text.split("Example:")[0].splitlines():
                    longest = max(map(len, line.split()), default=0)
                    self.assertLessEqual(len(line), max(columns, longest + 32), (call, line))
                    if " " in line.strip() and not line.startswith("  -"):
                        self.assertLessEqual(len(line), columns, (call, line))
        wide = self.veery("run", "--help").stdout.decode()
        words = lambda text: text.split("Example:")[0].split()  # noqa: E731
        self.assertEqual(words(self.on_terminal("run", "--help", columns=40)[0]), words(wide))
        self.assertEqual(self.on_terminal("run", "--help", columns=80)[0], wide)

    def test_no_colours_and_no_letters_beyond_ascii(self):
        """Messages of the program itself; text of a model is UTF-8 in any locale."""
        for locale in ("C", "de_DE.ISO-8859-1"):
            for call in (["--help"], ["run", "--help"], ["plan", self.model], ["list"], ["run", self.model, "--nonsense"],
                         ["inspect", self.model, "-p", "a b", "-t", 1]):  # fmt: skip
                text, _ = self.on_terminal(*call, NO_COLOR="1", LC_ALL=locale)
                self.assertTrue(text)
                self.assertNotRegex(text, r"\x1b\[[0-9;]*m", call)
                if call[0] != "inspect":
                    self.assertTrue(text.isascii(), (call, [c for c in text if not c.isascii()]))

    def test_progress_fits_into_the_terminal(self):
        large = self.folder / "large.gguf"
        tiny_gguf.write(large, hidden=100_000)
        child, terminal = self.begin("quantize", large, self.folder / "out.gguf", "Q4_K", "-t", 1, columns=40, LC_ALL="C")
        # The bar appears 0.1 s after the work began: the program is stopped for longer once the output is open.
        others = os.path.join(os.path.realpath(self.folder), ""), os.path.realpath(large)
        wait_until(lambda: any(path.startswith(others[0]) and path != others[1] for path in open_files(child)), lambda: False)
        os.kill(child, signal.SIGSTOP)
        time.sleep(0.3)
        os.kill(child, signal.SIGCONT)
        text, status = self.finish(child, terminal)
        self.assertEqual(status, 0, text)
        shown = [line for line in re.split(r"\r\x1b\[K|\n", text) if "%" in line and "[" in line]
        self.assertTrue(shown, text)
        self.assertTrue(all(len(line) < 40 and line.isascii() for line in shown), shown)

    def test_threads_follow_the_affinity(self):
        if not shutil.which("taskset"):
            self.skipTest("taskset is not installed")
        processor = min(os.sched_getaffinity(0))
        bench = [PROGRAM, "bench", str(self.model), "-p", "1", "-n", "0", "-r", "1", "--json"]
        done = subprocess.run(["taskset", "-c", str(processor), *bench], capture_output=True, check=True, timeout=60)
        self.assertEqual(json.loads(done.stdout)[0]["threads"], 1)
        done = subprocess.run(bench, capture_output=True, check=True, timeout=60)
        self.assertLessEqual(json.loads(done.stdout)[0]["threads"], len(os.sched_getaffinity(0)))

    def test_invalid_values_are_misuse(self):
        for call in (["serve", self.model, "--host", "no address"], ["serve", self.model, "--host", "localhost:80"], ["serve", self.model, "--port", 65536],
                     ["serve", self.model, "--port", -1], ["serve", self.model, "--keep-alive", "soon"], ["serve", self.model, "--pin", "absent"],
                     ["run", self.model, "-p", "a", "--chat-template", "{% if %}"], ["run", self.model, "-p", "a", "--regex", "("],
                     ["run", self.model, "-p", "a", "--json-schema", "{"], ["run", self.model, "--ids", "1,x"], ["run", self.model, "--ids", "999999"],
                     ["batch", self.model, "-i", "-", "--defaults", "5"], ["batch", self.model, "-i", "-", "--defaults", "{"],
                     ["embed", self.model, "-p", "a", "--pooling", "x"], ["quantize", self.model, self.folder / "q", "Q99"],
                     ["quantize", self.model, self.folder / "q", "Q8_0", "--tensor-type", "(=q8_0"], ["convert", self.model, self.folder / "c", "--to", "x"],
                     ["convert", self.model, self.folder / "c.gguf", "--split-size", "big"], ["inspect", self.model, "-p", "a", "--layers", "99"],
                     ["inspect", self.model, "-p", "a", "--what", "soul"], ["template", self.model, "--messages", "-", "--now", "later"],
                     ["bench", self.model, "--sweep", "x=1"], ["transcribe", self.model, "x.wav", "--temperatures", "9"]):  # fmt: skip
            with self.subTest(call=call[2:]):
                self.error(*call, status=2, stdin=b"[]")


if __name__ == "__main__":
    unittest.main()
