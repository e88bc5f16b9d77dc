#!/usr/bin/env python3
"""Output files: existing files, and cleanup after an interruption.

usage: cli_output_test.py VEERY [unittest arguments]
"""
import errno
import fcntl
import json
import os
import pty
import re
import resource
import shutil
import signal
import socket
import stat
import struct
import subprocess
import termios
import time
import unittest

import tiny_gguf
from cli_base import PROGRAM, TINY, CliTest


def wide_model(path, hidden=100_000):
    """Makes a model of 77 MB, which takes a while to write."""
    tiny_gguf.write(path, hidden=hidden)


class Output(CliTest):
    def setUp(self):
        self.reference = self.folder / "reference.json"
        self.out = self.folder / "out"

    def tearDown(self):
        if self.out.is_dir() and not self.out.is_symlink():
            shutil.rmtree(self.out)
        else:
            self.out.unlink(missing_ok=True)

    def writers(self, out):
        """Returns a call of each verb that writes a file."""
        yield "quantize", self.model, out, "Q8_0", "-t", 1
        yield "convert", self.model, out, "--to", "gguf"
        yield "verify", self.model, "--record", out, "-t", 1

    def folder_writers(self, out):
        yield "convert", self.model, out, "--to", "hf"
        yield "convert", self.model, out, "--to", "mlx"

    def refused(self, call, *parts):
        before = sorted(self.folder.iterdir())
        message = self.error(*call)
        for part in parts:
            self.assertIn(part, message)
        self.assertEqual(sorted(self.folder.iterdir()), before)

    def test_devices_fifos_sockets_and_folders_are_refused_and_stay(self):
        kinds = {"a named pipe": os.mkfifo, "a folder": os.mkdir}
        if os.geteuid() == 0:
            full = os.makedev(1, 7)
            kinds["a device"] = lambda path: os.mknod(path, 0o666 | stat.S_IFCHR, full)
        bound = socket.socket(socket.AF_UNIX)
        self.addCleanup(bound.close)
        kinds["a socket"] = lambda path: bound.bind(str(path))
        for kind, make in kinds.items():
            try:
                make(self.out)
            except OSError as error:
                if error.errno != errno.EPERM:
                    raise
                continue  # containers may not create devices
            before = os.lstat(self.out)
            for force in ([], ["--force"]):
                for call in self.writers(self.out):
                    self.refused([*call, *force], f"is {kind}")
            for call in self.folder_writers(self.out):
                self.refused(call, f"is {kind}")
            self.assertEqual(os.lstat(self.out), before)
            self.tearDown()
        for call in self.writers("/dev/null"):
            self.assertIn("/dev/null: is a device", self.error(*call))

    def test_a_file_that_is_there_needs_force(self):
        for call in self.writers(self.out):
            self.out.write_text("precious")
            self.refused(call, "exists already", "--force")
            self.assertEqual(self.out.read_text(), "precious")
            said = self.veery(*call, "--force").stdout.decode()
            self.assertEqual(said.splitlines().count(f"replaced {self.out}"), 1)
            self.assertNotEqual(self.out.read_bytes()[:8], b"precious")
            said = json.loads(self.veery(*call, "--force", "--json").stdout)
            self.assertEqual(said["replaced"], [str(self.out)])
            self.out.unlink()
            self.assertNotIn("replaced", self.veery(*call, "--force").stdout.decode())
        for call in self.folder_writers(self.out):
            self.refused(call, "exists already", "new folder")
            self.assertIn("--force", self.error(*call, "--force", status=2))
        self.veery("quantize", self.model, self.out, "Q8_0", "--dry-run")

    def test_parts_that_are_there_need_force(self):
        call = ["convert", self.model, self.folder / "parts.gguf", "--split-size", "20K"]
        self.veery(*call)
        parts = sorted(self.folder.glob("parts-*.gguf"))
        parts[0].unlink()
        self.refused(call, "exists already", "--force")
        said = self.veery(*call, "--force").stdout.decode().splitlines()
        self.assertEqual([line for line in said if line.startswith("replaced")], [f"replaced {part}" for part in parts[1:]])
        self.assertEqual(sorted(self.folder.glob("parts-*.gguf")), parts)
        for part in parts:
            part.unlink()

    def test_links_stay_links(self):
        target = self.folder / "target"
        self.out.symlink_to("target")
        for call in self.writers(self.out):
            target.unlink(missing_ok=True)
            self.veery(*call)
            self.assertTrue(self.out.is_symlink())
            self.assertTrue(target.is_file())
            self.refused(call, "exists already")
            self.veery(*call, "--force")
            self.assertTrue(self.out.is_symlink())
        target.unlink()
        for call in self.folder_writers(self.out):
            self.veery(*call)
            self.assertTrue(self.out.is_symlink())
            self.assertTrue((target / "config.json").is_file())
            shutil.rmtree(target)

    def test_inputs_are_never_replaced(self):
        other = self.folder / "hard link"
        os.link(self.model, other)
        content = self.model.read_bytes()
        for name in (self.model, other):
            for call in self.writers(name):
                self.refused([*call, "--force"], "is also the input")
        other.unlink()
        folder = self.folder / "in"
        shutil.copytree(TINY / "phi3", folder)
        config = folder / "config.json"
        self.refused(["quantize", folder, config, "Q8_0", "--force"], "is also the input")
        self.refused(["verify", folder, "--record", config, "--force"], "is also the input")
        shutil.rmtree(folder)
        self.veery("verify", self.model, "--record", self.reference, "-t", 1)
        self.refused(["verify", self.model, "--reference", self.reference, "--record", self.reference, "--force"],
                     "is also the input")  # fmt: skip
        self.reference.unlink()
        self.assertEqual(self.model.read_bytes(), content)

    def test_outputs_are_checked_before_inputs_are_read(self):
        missing = self.write("missing.gguf", "no model")
        for out in ("/nowhere/out.gguf", "/dev/null", self.model):
            self.assertNotIn("missing.gguf", self.error("quantize", missing, out, "Q8_0"))
            self.assertNotIn("missing.gguf", self.error("convert", missing, out, "--to", "gguf"))
            self.assertNotIn("missing.gguf", self.error("convert", missing, out, "--to", "hf"))
            self.assertNotIn("missing.gguf", self.error("verify", missing, "--record", out))

    def test_a_limit_of_file_size_is_an_error_and_leaves_no_file(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

        before = sorted(self.folder.iterdir())
        for call in [*self.writers(self.out), *self.folder_writers(self.out)]:
            done = subprocess.run([PROGRAM, *map(str, call)], capture_output=True, preexec_fn=limit, check=False)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertRegex(done.stderr.decode(), r"veery: error: .*out.*cannot be written after 1000 bytes: File too")
            self.assertEqual(sorted(self.folder.iterdir()), before)

    def test_a_signal_leaves_nothing(self):
        model = self.folder / "wide.gguf"
        wide_model(model)
        before = sorted(self.folder.iterdir())
        calls = [["quantize", model, self.out, "IQ3_S", "-t", 1], ["convert", model, self.out, "--to", "hf"]]
        for call in calls:
            for asked in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
                started = subprocess.Popen([PROGRAM, *map(str, call)], stdout=subprocess.DEVNULL)
                end = time.monotonic() + 60
                while sorted(self.folder.iterdir()) == before and time.monotonic() < end:
                    self.assertIsNone(started.poll(), "it ended before it was asked to")
                started.send_signal(asked)
                started.send_signal(asked)  # several signals in a row
                self.assertEqual(started.wait(60), 128 + asked)
                self.assertEqual(sorted(self.folder.iterdir()), before)
        model.unlink()

    def test_an_ignored_signal_stays_ignored(self):
        model = self.folder / "wide.gguf"
        wide_model(model, 20_000)
        started = subprocess.Popen([PROGRAM, "quantize", model, self.out, "IQ3_S", "-t", "1"], stdout=subprocess.DEVNULL,
                                   preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))  # fmt: skip
        while started.poll() is None:
            started.send_signal(signal.SIGHUP)
            time.sleep(0.01)
        self.assertEqual(started.returncode, 0)
        model.unlink()


class Mlx(CliTest):
    def narrow(self):
        """Makes a model whose rows are not whole groups."""
        path = self.folder / "narrow.gguf"
        tiny_gguf.write(path, dim=48)
        return path

    def test_a_result_without_quantised_matrices_is_reported(self):
        out = self.folder / "mlx"
        call = ["convert", self.narrow(), out, "--to", "mlx", "-q"]
        text = self.veery(*call).stderr.decode()
        self.assertIn("nothing is quantised: the rows of 15 matrices are not whole groups", text)
        config = json.loads((out / "config.json").read_text())
        self.assertNotIn("quantization", config)
        self.assertNotIn("quantization_config", config)
        self.veery("logits", out, "--ids", "1,2,3")
        shutil.rmtree(out)
        answer = self.json(*call)
        self.assertIsNone(answer["quantization"])
        self.assertEqual(len(answer["not_quantized"]), 15)

    def test_matrices_that_are_not_quantised_are_reported(self):
        text = self.veery("convert", self.model, "x", "--to", "mlx", "-q", "--group-size", 32, "--dry-run")
        self.assertIn("rows of 2 matrices are not whole groups", text.stderr.decode())
        rules = ["--rule", ".*=none"]
        text = self.veery("convert", self.model, "x", "--to", "mlx", "-q", *rules, "--dry-run").stderr.decode()
        self.assertEqual(text, "note: nothing is quantised\n")


class Bar(CliTest):
    def screens(self, columns, call, environment=None):
        """Returns the lines that a call writes to a terminal of this width, and whether one was too long."""
        parent, child = pty.openpty()
        fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        started = subprocess.Popen([PROGRAM, *map(str, call)], stdin=child, stderr=child, stdout=subprocess.DEVNULL,
                                   env={**os.environ, "TERM": "xterm", **(environment or {})})  # fmt: skip
        os.close(child)
        text = b""
        try:
            while data := os.read(parent, 65536):
                text += data
        except OSError:  # the end of a terminal whose other side is closed
            pass
        os.close(parent)
        self.assertEqual(started.wait(60), 0)
        return [line for line in re.split(r"\r|\x1b\[[0-9]*[A-Z]|\n", text.decode()) if line]

    def test_it_fits_the_terminal(self):
        model = self.folder / "wide.gguf"
        wide_model(model)
        out = self.folder / "out.gguf"
        call = ["quantize", model, out, "IQ3_S", "-t", 1, "--force"]
        for columns in (200, 80, 30, 12):
            lines = self.screens(columns, call)
            self.assertTrue(any("%" in line for line in lines), lines)
            self.assertLess(max(map(len, lines)), columns, lines)
            self.assertEqual(any("[" in line for line in lines), columns >= 30)
            self.assertEqual(any("ffn_" in line for line in lines), columns >= 80)
        self.assertEqual(self.screens(4, call), [])
        self.assertEqual(self.screens(80, call, {"TERM": "dumb"}), [])
        model.unlink(), out.unlink()


class Version(CliTest):
    def test_version_names_commit_and_compiler(self):
        text = self.veery("--version").stdout.decode()
        self.assertEqual(self.veery("-V").stdout.decode(), text)
        self.assertRegex(text, r"\Aveery \d+\.\d+\.\d+\n")
        said = dict(line.strip().split(None, 1) for line in text.splitlines()[1:3])
        self.assertRegex(said["commit"], r"^([0-9a-f]{12}(-dirty)?|unknown)$")
        self.assertRegex(said["compiler"], r"^(GCC|Clang) \d+")
        compiled, found = (set(line[16:].split(", ")) for line in text.splitlines()[3:])
        self.assertLessEqual(found, compiled, text)
        self.assertIn("reference", found)


if __name__ == "__main__":
    unittest.main()
