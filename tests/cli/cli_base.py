"""Shared by tests of the program: calls of it, and a model with random weights."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

import tiny_gguf

PROGRAM = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else ""
TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'tool' %}{{ raise_exception('no tools here') }}"
    "{% endif %}[{{ m.role }}]{{ m.content }}{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}"
)
TINY = pathlib.Path(__file__).resolve().parent.parent / "fixtures" / "tiny"


def resident_bytes(pid, path):
    """The bytes of a mapped file that a process has read. `path`: without symbolic links."""
    try:
        lines = (pathlib.Path("/proc") / str(pid) / "smaps").read_text().splitlines()
    except OSError:
        return 0  # it ended
    total, own = 0, False
    for line in lines:
        words = line.split(maxsplit=5)
        if "-" in words[0]:  # the first line of a mapping
            own = words[5:] == [path]
        elif own and words[0] == "Rss:":
            total += 1024 * int(words[1])
    return total


def open_files(pid):
    """The paths of all files that a process has open, without symbolic links."""
    try:
        return {os.readlink(entry) for entry in (pathlib.Path("/proc") / str(pid) / "fd").iterdir()}
    except OSError:
        return set()  # it ended, or closed a file in this moment


def wait_until(condition, ended, timeout=60):
    """Waits for condition(). Returns False if ended() became true before it."""
    end = time.monotonic() + timeout
    while not condition():
        if ended():
            return False
        if time.monotonic() > end:
            raise TimeoutError("the condition did not become true")
        time.sleep(0.001)
    return True


class CliTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.holder = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.holder.name)
        cls.model = cls.folder / "tiny.gguf"
        cls.bare = cls.folder / "bare.gguf"
        tiny_gguf.write(cls.model, TEMPLATE)
        tiny_gguf.write(cls.bare)

    @classmethod
    def tearDownClass(cls):
        cls.holder.cleanup()

    def veery(self, *arguments, stdin=b"", status=0, stdout=subprocess.PIPE):
        done = subprocess.run(
            [PROGRAM, *map(str, arguments)], input=stdin, stdout=stdout, stderr=subprocess.PIPE,
            timeout=120, check=False)  # fmt: skip
        self.assertEqual(done.returncode, status, done.stderr.decode())
        return done

    def json(self, *arguments, stdin=b""):
        return json.loads(self.veery(*arguments, "--json", stdin=stdin).stdout)

    def error(self, *arguments, status=1, stdin=b""):
        """Returns the error message of a call that ends with `status`."""
        done = self.veery(*arguments, status=status, stdin=stdin)
        self.assertEqual(done.stdout, b"")
        lines = done.stderr.decode().splitlines()
        self.assertEqual(len(lines), 1, lines)
        self.assertTrue(lines[0].startswith("veery: error: "), lines)
        return lines[0]

    def write(self, name, value):
        path = self.folder / name
        path.write_text(value if isinstance(value, str) else json.dumps(value))
        return path

    def run_json(self, *arguments):
        return self.json("run", self.model, "-t", 1, *arguments)
