#!/usr/bin/env python3
"""`veery completion`: the scripts, and completions of bash, zsh and fish if they are installed.

usage: cli_completion_test.py VEERY [unittest arguments]
"""
import os
import pty
import select
import shlex
import shutil
import subprocess
import tempfile
import time
import unittest
import unittest.mock

from cli_base import PROGRAM, CliTest

CASES = [  # typed text, some of its completions, words that are not completions
    ("convert --to h", {"hf"}, {"gguf"}),
    ("run --cache-type-k q", {"q8_0"}, {"f16"}),
    ("run --think l", {"low"}, {"high"}),
    ("run --no-th", {"--no-think"}, {"--think"}),
    ("quantize a b Q4_K_", {"Q4_K_M", "Q4_K_S"}, {"Q8_0"}),
    ("quantize a b --output-tensor-type q8", {"q8_0"}, {"q4_K"}),
    ("inspect --what qu", {"queries"}, {"keys"}),
    ("transcribe -l e", {"en", "es"}, {"de"}),
    ("embed --pooling me", {"mean", "mean-sqrt-len"}, {"cls"}),
    ("completion z", {"zsh"}, {"bash"}),
    ("run --tools ", {"b.json", "sub/"}, {"a.txt", "m.gguf"}),
    ("run --tools s", {"sub/"}, {"b.json"}),
    ("run -f ", {"a.txt", "b.json", "m.gguf"}, set()),
    ("run -m ", {"m.gguf", "sub/", "org/model:Q8_0"}, {"a.txt"}),
    ("transcribe whisper ", {"t.mp3"}, {"a.txt"}),
    ("run --chat-template-file ", {"a.txt", "sub/"}, {"b.json"}),
]


class Completion(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.holder.cleanup)
        cls.home = cls.holder.name
        cls.work = os.path.join(cls.home, "work")
        os.makedirs(os.path.join(cls.work, "sub"))
        for name in ("a.txt", "b.json", "m.gguf", "t.mp3"):
            open(os.path.join(cls.work, name), "w").close()
        # Replaces the program for calls of the scripts.
        stub = os.path.join(cls.home, "veery")
        with open(stub, "w") as file:
            file.write('#!/bin/sh\n[ "$*" = "list --names" ] && echo org/model:Q8_0\n')
        os.chmod(stub, 0o755)
        cls.environment = {"PATH": f"{cls.home}:{os.environ['PATH']}", "HOME": cls.home, "LC_ALL": "C.UTF-8", "TERM": "xterm"}

    def script(self, shell):
        if not shutil.which(shell):
            self.skipTest(f"{shell} is not installed")
        text = subprocess.run([PROGRAM, "completion", shell], capture_output=True, check=True, timeout=60).stdout
        path = os.path.join(self.home, f"script.{shell}")
        with open(path, "wb") as file:
            file.write(text)
        return path

    def check(self, shell, complete):
        for typed, some, none in CASES:
            with self.subTest(shell=shell, typed=typed):
                found = complete(typed)
                self.assertLessEqual(some, found, found)
                self.assertFalse(none & found, found)

    def ask(self, *call):
        done = subprocess.run(call, capture_output=True, text=True, check=False, timeout=60, cwd=self.work, env=self.environment)
        self.assertEqual(done.stderr, "")
        return done.stdout.splitlines()

    def test_bash(self):
        script = self.script("bash")

        def complete(typed):
            words = [*shlex.split(typed), *([""] if typed.endswith(" ") else [])]
            quoted = " ".join(map(shlex.quote, ["veery", *words]))
            line = "veery " + typed
            lines = self.ask("bash", "--norc", "-c", f"source {script}; COMP_WORDS=({quoted}); COMP_CWORD={len(words)}; COMP_LINE={shlex.quote(line)}; "
                             f"COMP_POINT={len(line)}; _veery; printf '%s\\n' \"${{COMPREPLY[@]}}\"")  # fmt: skip
            return {name + "/" if name == "sub" else name for name in lines}

        self.check("bash", complete)

    def test_fish(self):
        script = self.script("fish")
        self.check("fish", lambda typed: {line.split("\t")[0] for line in self.ask(
            "fish", "--no-config", "-c", f"source {script}; complete -C {shlex.quote('veery ' + typed)}")})  # fmt: skip

    def test_zsh(self):
        script = self.script("zsh")
        child, terminal = pty.fork()
        if child == 0:
            os.chdir(self.work)
            os.environ.clear()
            os.environ.update(self.environment)
            os.execvp("zsh", ["zsh", "-f", "-i"])
        try:
            self.complete_in_zsh(script, terminal)
        finally:
            os.kill(child, 9)
            os.waitpid(child, 0)
            os.close(terminal)

    def complete_in_zsh(self, script, terminal):
        unread = ""

        def until(text):
            nonlocal unread
            end = time.monotonic() + 30
            while text not in unread:
                self.assertTrue(select.select([terminal], [], [], max(0, end - time.monotonic()))[0], f"no {text!r} in {unread!r}")
                unread += os.read(terminal, 1 << 16).decode(errors="replace")
            unread = unread[unread.index(text) + len(text):]

        def run(line):
            # The mark differs from the echo. Before the next prompt the terminal would handle Ctrl-U itself.
            os.write(terminal, f"{line}; echo do''ne\r".encode())
            until("done")
            until("ready>")

        run("PS1='rea''dy>' RPS1= LISTMAX=1000; stty columns 200 rows 200; autoload -Uz compinit; compinit -u -D; unsetopt LIST_BEEP ALWAYS_LAST_PROMPT")
        run(f"source {script}")
        # Records the offered completions.
        run("compadd() { if [[ ${@[1,(i)(-|--)]} != *-(O|A|D)\\ * ]]; then local -a hits; builtin compadd -A hits \"$@\"; "
            "print -rl -- $hits >> $HOME/hits; fi; builtin compadd \"$@\"; }")  # fmt: skip
        hits = os.path.join(self.home, "hits")

        def complete(typed):
            open(hits, "w").close()
            os.write(terminal, f"veery {typed}\t\x15".encode())  # Ctrl-U clears the line
            run(":")
            with open(hits) as file:
                names = set(file.read().split("\n"))
            return {name + "/" if name == "sub" else name for name in names}

        self.check("zsh", complete)


class Scripts(CliTest):
    def complete(self, *words, line=""):
        """Returns the completions of bash for the last word."""
        script = self.veery("completion", "bash").stdout.decode()
        script += f"\nCOMP_WORDS=({' '.join(map(repr, words))}); COMP_CWORD={len(words) - 1}; {line}\n"
        script += "_veery; printf '%s\\n' \"${COMPREPLY[@]}\"\n"
        done = subprocess.run(["bash", "--norc", "-u", "-c", script], cwd=self.folder, capture_output=True, check=True)
        self.assertEqual(done.stderr, b"")
        return done.stdout.decode().split()

    def test_bash(self):
        self.assertEqual(self.complete("veery", "qu"), ["quantize"])
        self.assertIn("--version", self.complete("veery", "--"))
        self.assertEqual(self.complete("veery", "run", "--tem"), ["--temp", "--template-arg"])
        self.assertIn("--ctx-size", self.complete("veery", "run", "-"))
        self.assertIn("tiny.gguf", self.complete("veery", "run", "-m", ""))
        self.assertEqual(self.complete("veery", "run", "ti"), ["tiny.gguf"])
        self.assertEqual(self.complete("veery", "run", "--temp", ""), [])
        self.assertEqual(self.complete("veery", "convert", "--to", "m"), ["mlx"])
        self.assertEqual(self.complete("veery", "convert", "--to", "=", "m"), ["mlx"])
        self.assertEqual(self.complete("veery", "quantize", "a", "b", "IQ2_X"), ["IQ2_XS", "IQ2_XXS"])
        self.assertEqual(self.complete("veery", "completion", "z"), ["zsh"])

    def test_bash_knows_names_of_models(self):
        commands, hub = self.folder / "commands", self.folder / "hub"
        commands.mkdir()
        (commands / "veery").symlink_to(PROGRAM)
        snapshot = hub / "models--org--two" / "snapshots" / "c0ffee"
        snapshot.mkdir(parents=True)
        for name in ("two-Q8_0.gguf", "two-Q4_0.gguf"):
            (snapshot / name).write_bytes(b"x")
        changes = {"PATH": f"{commands}:{os.environ['PATH']}", "HF_HUB_CACHE": str(hub), "VEERY_MODELS": str(self.folder / "own")}
        with unittest.mock.patch.dict(os.environ, changes):
            self.assertEqual(self.veery("list", "--names").stdout.decode().split(),
                             ["gemma3", "minilm", "org/two:Q4_0", "org/two:Q8_0", "smollm2"])  # fmt: skip
            self.assertEqual(self.complete("veery", "run", "smol"), ["smollm2"])
            self.assertEqual(self.complete("veery", "serve", "-m", "org"), ["org/two:Q4_0", "org/two:Q8_0"])
            line = "COMP_LINE='veery run org/two:Q8'; COMP_POINT=20;"
            self.assertEqual(self.complete("veery", "run", "org/two", ":", "Q8", line=line), ["Q8_0"])
            self.assertEqual(self.complete("veery", "run", "org/two", ":", line=line.replace("Q8", "").replace("20", "18")),
                             ["Q4_0", "Q8_0"])  # fmt: skip
            self.assertEqual(self.complete("veery", "run", "--device", "m"), ["metal"])

    def test_scripts_are_scripts(self):
        for shell, check in [("bash", ["bash", "-n"]), ("zsh", ["zsh", "-n"]), ("fish", ["fish", "--no-execute"])]:
            path = self.folder / f"script.{shell}"
            path.write_bytes(self.veery("completion", shell).stdout)
            text = path.read_text()
            for word in ("quantize", "ctx-size", "Q4_K_M"):
                self.assertIn(word, text)
            if shutil.which(check[0]):
                done = subprocess.run([*check, path], capture_output=True, check=False)
                self.assertEqual((done.returncode, done.stderr), (0, b""))

    def test_faults(self):
        self.assertIn("not one of bash, zsh, fish", self.error("completion", "tcsh", status=2))
        self.error("completion", status=2)


if __name__ == "__main__":
    unittest.main()
