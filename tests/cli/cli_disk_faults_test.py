#!/usr/bin/env python3
"""Full or broken disks, and stale file handles: a verb that writes ends with one line, which
names the file and what the system said, and leaves nothing.

usage: cli_disk_faults_test.py VEERY [unittest arguments]
"""
import errno
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest
import unittest.mock

from cli_base import PROGRAM, CliTest
from tiny_hub import Hub

SOURCE = pathlib.Path(__file__).resolve().parent / "disk_faults.c"
COMPILER = shutil.which("cc") or shutil.which("gcc")


def sanitized():
    """Sanitizers must be loaded first."""
    linked = subprocess.run(["ldd", PROGRAM], capture_output=True, text=True, check=False).stdout
    return "libasan" in linked or "libtsan" in linked or not linked


@unittest.skipUnless(COMPILER and PROGRAM and not sanitized(), "nothing can be preloaded")
class DiskFaults(CliTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.library = cls.folder / "disk_faults.so"
        subprocess.run([COMPILER, "-O1", "-shared", "-fPIC", "-o", cls.library, SOURCE, "-ldl"], check=True)
        cls.text = cls.write(cls, "text.txt", "the thrush sings at night " * 40)

    def setUp(self):
        self.work = pathlib.Path(tempfile.mkdtemp(dir=self.folder))

    def writers(self):
        out = self.work / "result"
        yield "quantize", self.model, out, "Q8_0", "-t", 1
        yield "convert", self.model, out, "--to", "gguf"
        yield "convert", self.model, out, "--to", "hf"
        yield "imatrix", self.model, "-f", self.text, "-o", out, "-c", 32, "-t", 1
        yield "verify", self.model, "--record", out, "-t", 1

    def line(self, arguments, path, call, code, after=0):
        """Returns the single error line of a call."""
        faults = {"LD_PRELOAD": str(self.library), "VEERY_FAULT_PATH": path, "VEERY_FAULT_CALL": call,
                  "VEERY_FAULT_ERRNO": str(code), "VEERY_FAULT_AFTER": str(after)}  # fmt: skip
        done = subprocess.run(
            [PROGRAM, *map(str, arguments)], env={**os.environ, **faults}, stdin=subprocess.DEVNULL,
            capture_output=True, timeout=60, check=False)  # fmt: skip
        said = done.stderr.decode()
        self.assertEqual(done.returncode, 1, (arguments, call, said))
        errors = [line for line in said.splitlines() if line.startswith("veery: error: ")]
        self.assertEqual(len(errors), 1, (arguments, call, said))
        self.assertIn(os.strerror(code), errors[0], (arguments, call))
        return errors[0]

    def test_failed_writes_leave_no_file(self):
        for call in self.writers():
            for fault, code, after in [
                ("write", errno.ENOSPC, 0), ("write", errno.ENOSPC, 700), ("write", errno.EIO, 1500), ("write", errno.EDQUOT, 300),
                ("write", errno.ESTALE, 0), ("fsync", errno.EIO, 0), ("fsync", errno.ENOSPC, 0), ("close", errno.EIO, 0),
                ("rename", errno.ESTALE, 0), ("open", errno.ENOSPC, 0),
            ]:  # fmt: skip
                with self.subTest(verb=call[0], to=call[-1], fault=fault, code=errno.errorcode[code], after=after):
                    message = self.line(call, str(self.work / "result"), fault, code, after)
                    self.assertIn("result", message)
                    self.assertEqual(list(self.work.iterdir()), [])

    def test_failed_reads_are_named_and_leave_no_file(self):
        model = self.work / "model.gguf"
        out = self.work / "result"
        calls = [("quantize", model, out, "Q8_0", "-t", 1), ("convert", model, out, "--to", "gguf"),
                 ("convert", model, out, "--to", "hf"), ("imatrix", model, "-f", self.text, "-o", out, "-c", 32, "-t", 1),
                 ("show", model), ("run", model, "-p", "x", "-n", 2, "-t", 1)]  # fmt: skip
        shutil.copy(self.model, model)
        for call in calls:
            for fault, code in [("stat", errno.ESTALE), ("stat", errno.EIO), ("open", errno.ESTALE), ("open", errno.EIO)]:
                with self.subTest(verb=call[0], fault=fault, code=errno.errorcode[code]):
                    self.assertIn("model.gguf", self.line(call, str(model), fault, code))
                    self.assertEqual(list(self.work.iterdir()), [model])
        for code in (errno.EIO, errno.ESTALE):
            call = ("imatrix", model, "-f", self.text, "-o", out, "-c", 32, "-t", 1)
            self.assertIn("text.txt", self.line(call, str(self.text), "read", code))
            self.assertEqual(list(self.work.iterdir()), [model])

    def test_pull_keeps_partial_files(self):
        data = self.model.read_bytes()
        hub = Hub({"org/tiny": {"tiny-F32.gguf": data}})
        self.addCleanup(hub.close)
        changes = {"HF_ENDPOINT": hub.url + "/", "HF_HUB_CACHE": str(self.work), "HF_HOME": str(self.work), "HF_TOKEN": "",
                   "HF_HUB_OFFLINE": "", "no_proxy": "*"}  # fmt: skip
        with unittest.mock.patch.dict(os.environ, changes):
            for fault, code, after in [("write", errno.ENOSPC, 0), ("write", errno.EIO, 20_000), ("write", errno.ESTALE, 0)]:
                with self.subTest(fault=fault, code=errno.errorcode[code]):
                    message = self.line(("pull", "org/tiny"), "/blobs/", fault, code, after)
                    self.assertIn(".incomplete: cannot be written", message)
                    self.assertEqual([path for path in self.work.rglob("*") if path.suffix == ".gguf"], [])
            pulled = self.json("pull", "org/tiny")
            self.assertEqual(pathlib.Path(pulled["path"]).read_bytes(), data)
            left = [path.name for path in self.work.rglob("*") if path.name.endswith((".incomplete", ".part"))]
            self.assertEqual(left, [])


if __name__ == "__main__":
    unittest.main()
