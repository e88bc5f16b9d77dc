"""Drives a chat on a pseudo-terminal: sends keys and reads the screen."""
import fcntl
import os
import pty
import select
import shlex
import signal
import struct
import termios
import time

import tiny_gguf
from cli_base import PROGRAM, TEMPLATE, CliTest

PASTE, PASTE_END = "\x1b[200~", "\x1b[201~"
CONTEXT = 1024
UP, DOWN, LEFT, RIGHT = "\x1b[A", "\x1b[B", "\x1b[D", "\x1b[C"
CTRL_C, CTRL_D, CTRL_R, CTRL_W, CTRL_Y = "\x03", "\x04", "\x12", "\x17", "\x19"


class TerminalTest(CliTest):
    """Gives each test its own home directory; start() begins a chat in it."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.model = cls.folder / "chat.gguf"
        tiny_gguf.write(cls.model, TEMPLATE, CONTEXT)

    def setUp(self):
        self.child = self.terminal = None
        self.home = self.folder / self.id().rsplit(".", 1)[1]
        self.home.mkdir()
        self.history = self.home / ".local" / "state" / "veery" / "history"

    def tearDown(self):
        if self.child:
            os.kill(self.child, signal.SIGKILL)
            os.waitpid(self.child, 0)
        if self.terminal is not None:
            os.close(self.terminal)

    def arguments(self, *flags, model=None):
        flags = flags or ("-n", "8")
        return [PROGRAM, "run", str(model or self.model), "--temp", "0", "--ignore-eos", "-t", "1", *flags]

    def start(self, *flags, model=None, size=None, **environment):
        """Starts a chat. `size`: rows, columns. Answers have 8 tokens unless a flag says otherwise."""
        self.begin(self.arguments(*flags, model=model), size, environment)
        return self.expect("> ")

    def start_shell(self):
        """Starts a shell with job control and the prompt $; run command() in it."""
        self.begin(["/bin/bash", "--norc", "--noediting", "-i"], None, {"PS1": "$ ", "LC_ALL": "C"})
        self.expect("$ ")

    def command(self):
        return shlex.join(self.arguments())

    def begin(self, arguments, size, environment):
        everything = {"TERM": "xterm-256color", "HOME": str(self.home), "NO_COLOR": "1", **environment}
        if self.terminal is not None:
            os.close(self.terminal)
        self.child, self.terminal = pty.fork()
        if self.child == 0:
            if size:
                fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
            for name in ("XDG_STATE_HOME", "NO_COLOR"):
                os.environ.pop(name, None)
            os.environ.update(everything)
            os.execv(arguments[0], arguments)
        self.seen = ""

    def read(self, timeout):
        """Reads output. Returns False if none came."""
        if not select.select([self.terminal], [], [], max(0, timeout))[0]:
            return False
        self.seen += os.read(self.terminal, 1 << 16).decode(errors="replace")
        return True

    def expect(self, text, timeout=60):
        """Reads until `text`; returns the output before it."""
        end = time.monotonic() + timeout
        while text not in self.seen:
            try:
                if not self.read(end - time.monotonic()):
                    self.fail(f"no {text!r} in {self.seen!r}")
            except OSError:
                self.fail(f"ended without {text!r}: {self.seen!r}")
        before, self.seen = self.seen.split(text, 1)
        return before

    def send(self, text):
        """Sends text of any length, reading the output meanwhile so that neither side blocks."""
        data = text.encode()
        while data:
            _, free, _ = select.select([], [self.terminal], [], 0.05)
            if free:
                data = data[os.write(self.terminal, data[:1024]) :]
            self.read(0)

    def say(self, text):
        """Sends a line and returns the output up to the next prompt."""
        self.send(text + "\r")
        self.expect("\n")
        return self.expect("\n> ")

    def resize(self, rows, columns):
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read_rest(self):
        """Reads the remaining output of a child that has ended."""
        try:
            while self.read(0):
                pass
        except OSError:
            pass  # Linux reports the end of a terminal that no process has open

    def status(self, timeout=60):
        """Returns the exit status, negative for a signal, after reading all output."""
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            pid, status = os.waitpid(self.child, os.WNOHANG)
            if pid:
                self.child = None
                self.read_rest()
                return os.waitstatus_to_exitcode(status)
            try:
                self.read(0.05)
            except OSError:
                time.sleep(0.01)
        return self.fail("still running")

    def leave(self):
        self.send("\x15" + CTRL_D)
        self.assertEqual(self.status(), 0)
