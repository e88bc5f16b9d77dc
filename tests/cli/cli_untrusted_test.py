#!/usr/bin/env python3
"""Untrusted input: special files, files that are too large, control sequences for terminals.

usage: cli_untrusted_test.py VEERY [unittest arguments]
"""
import json
import os
import pty
import shutil
import socket
import subprocess
import threading
import unittest

import tiny_gguf
from cli_base import PROGRAM, TINY, CliTest

HOSTILE = "a\x1b[31mb\nc\u009bd\u202ee"
SHOWN = r"a\x1b[31mb\nc\x9bd\u202ee"
UNSAFE = [chr(c) for c in (*range(32), *range(0x7F, 0xA0), 0x2028, 0x2029, 0x202E) if chr(c) != "\n"]


class ForeignTest(CliTest):
    def copy(self, name, source="llama-yarn"):
        folder = self.folder / name
        shutil.copytree(TINY / source, folder)
        return folder

    def gguf(self, name, **values):
        path = self.folder / name
        tiny_gguf.write(path, "{{ messages }}", changed={key.replace("__", "."): value for key, value in values.items()})
        return path

    def assert_safe(self, data):
        text = data.decode()  # valid UTF-8
        self.assertEqual([c for c in UNSAFE if c in text], [])
        return text


class NoFiles(ForeignTest):
    def kinds(self):
        pipe, end = self.folder / "pipe", self.folder / "end"
        if not pipe.exists():
            os.mkfifo(pipe)
            with socket.socket(socket.AF_UNIX) as server:
                server.bind(str(end))
        return [(pipe, "is a named pipe"), (end, "is a socket"), ("/dev/zero", "is a device")]

    def test_a_model_is_a_file_or_a_folder(self):
        for path, what in self.kinds():
            for verb in ["show", "verify", "tokenize", "run"]:
                more = ["-p", "x"] if verb in ("tokenize", "run") else []
                message = self.veery(verb, path, *more, status=1).stderr.decode()
                self.assertIn(f"{path}: {what}, expected a file", message)

    def test_files_of_a_folder_are_files(self):
        for i, (path, what) in enumerate(self.kinds()):
            for name in ["config.json", "model.safetensors", "model.safetensors.index.json", "generation_config.json"]:
                folder = self.copy(f"folder-{i}-{name}")
                if name.endswith(".index.json"):  # not read beside a single file
                    (folder / "model.safetensors").unlink()
                (folder / name).unlink(missing_ok=True)
                (folder / name).symlink_to(path)
                message = self.error("show", folder)
                self.assertIn(f"{folder}/{name}: {what}, expected a file", message)

    def test_files_of_a_tokenizer_are_files(self):
        folder = self.folder / "text"
        self.veery("convert", self.model, folder, "--to", "hf")
        for name in ["tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "special_tokens_map.json"]:
            place, kept = folder / name, folder / "kept"
            if place.exists():
                place.rename(kept)
            place.symlink_to(self.kinds()[0][0])
            verb = ["template", folder, "--messages", self.write("m.json", [])] if name.endswith("jinja") else [
                "tokenize", folder, "-p", "x"]  # fmt: skip
            self.assertIn(f"{name}: is a named pipe", self.error(*verb))
            place.unlink()
            if kept.exists():
                kept.rename(place)

    def test_references_and_importances_are_files(self):
        for path, what in self.kinds():
            self.assertIn(what, self.veery("verify", self.model, "--reference", path, status=1).stderr.decode())
            out = self.folder / "never.gguf"
            self.assertIn(what, self.error("quantize", self.model, out, "Q8_0", "--imatrix", path))
            self.assertFalse(out.exists())

    def test_a_text_may_come_through_a_pipe(self):
        messages = [{"role": "user", "content": "hi"}]
        expected = self.veery("template", self.model, "--messages", "-", stdin=json.dumps(messages).encode()).stdout
        for command in ["cat {}", "sleep 0.3; cat {}"]:
            file = self.write("messages.json", messages)
            line = f"'{PROGRAM}' template '{self.model}' --messages <({command.format(file)})"
            done = subprocess.run(["bash", "-c", line], stdout=subprocess.PIPE, timeout=60, check=True)
            self.assertEqual(done.stdout, expected)
        done = self.veery("template", self.model, "--messages", "/dev/stdin", stdin=json.dumps(messages).encode())
        self.assertEqual(done.stdout, expected)
        pipe = self.folder / "named"
        os.mkfifo(pipe)
        writer = threading.Thread(target=lambda: pipe.write_text(json.dumps(messages)))
        writer.start()
        self.assertEqual(self.veery("template", self.model, "--messages", pipe).stdout, expected)
        writer.join()

    def test_pipes_without_a_writer_do_not_block(self):
        pipe = self.folder / "silent"
        os.mkfifo(pipe)
        message = self.error("template", self.model, "--messages", pipe)
        self.assertIn("is a named pipe that no program writes to", message)
        self.assertIn("is a folder", self.error("template", self.model, "--messages", self.folder))


class TooLarge(ForeignTest):
    def sparse(self, name, size, start=b""):
        path = self.folder / name
        path.write_bytes(start)
        os.truncate(path, size)
        return path

    def test_each_kind_has_its_limit(self):
        large = self.sparse("large.json", 300_000_000, b"[")
        self.assertIn("16000000", self.error("template", self.model, "--messages", large))
        self.assertIn("16000000", self.error("template", self.model, "--messages", "-", stdin=b" " * 16_000_001))
        self.assertIn("4000000", self.error("template", "--template-file", large, "--messages", "-"))
        self.assertIn("64000000", self.veery("verify", self.model, "--reference", large, status=1).stderr.decode())
        limits = {"config.json": 16, "generation_config.json": 16, "model.safetensors.index.json": 100}
        for name, limit in limits.items():
            folder = self.copy(f"large-{name}")
            if name.endswith(".index.json"):  # not read beside a single file
                (folder / "model.safetensors").unlink()
            (folder / name).unlink(missing_ok=True)
            (folder / name).symlink_to(large)
            message = self.error("show", folder)
            self.assertIn(f"{name}: has 300000000 bytes, expected at most {limit}000000", message)
        folder = self.copy("large-tokenizer")
        (folder / "tokenizer.json").symlink_to(large)
        self.assertIn("at most 200000000", self.error("tokenize", folder, "-p", "x"))

    def test_many_values_are_refused_in_bounded_memory(self):
        many = self.folder / "many.json"
        many.write_text("[" + "{}," * 5_000_000 + "0]")
        code = (
            "import resource, subprocess, sys\n"
            "done = subprocess.run(sys.argv[1:], stderr=subprocess.PIPE)\n"
            "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)\n"
            "sys.stderr.buffer.write(done.stderr)\n")  # fmt: skip
        done = subprocess.run(["python3", "-c", code, PROGRAM, "template", self.model, "--messages", many],
                              capture_output=True, timeout=120, check=True)  # fmt: skip
        self.assertIn(b"more than 1000000 values", done.stderr)
        if b"libasan" not in subprocess.run(["ldd", PROGRAM], capture_output=True, check=False).stdout:
            self.assertLess(int(done.stdout), 400_000)  # kB

    def test_many_members_take_no_long_search(self):
        folder = self.copy("members")
        config = json.loads((folder / "config.json").read_text())
        config.update({f"key{i}": i for i in range(300_000)})
        (folder / "config.json").write_text(json.dumps(config))
        self.assertIn("layers", self.json("show", folder)["config"])


class Escapes(ForeignTest):
    def test_errors_have_one_safe_line(self):
        long = "x" * 1_000_000
        template = self.write("t.jinja", "{{ raise_exception(messages) }}")
        config = self.copy("config")
        (config / "config.json").write_bytes(json.dumps({"model_type": "llama"}).encode("utf-16"))
        cases = [
            ("run", self.gguf("arch.gguf", general__architecture=HOSTILE), "-p", "x"),
            ("run", self.gguf("long.gguf", general__architecture=long), "-p", "x"),
            ("tokenize", self.gguf("pre.gguf", tokenizer__ggml__pre=HOSTILE), "-p", "x"),
            ("tokenize", self.gguf("long-pre.gguf", tokenizer__ggml__pre=long), "-p", "x"),
            ("tokenize", self.gguf("kind.gguf", tokenizer__ggml__model=HOSTILE + long), "-p", "x"),
            ("run", self.gguf("scaling.gguf", llama__rope__scaling__type=HOSTILE + long), "-p", "x"),
            ("template", "--template-file", template, "--messages", self.write("text.json", HOSTILE)),
            ("template", "--template-file", template, "--messages", self.write("texts.json", long)),
            ("template", "--template-file", self.write("u.jinja", "{{ '\x1b[31m' | nosuch" + long + " }}"),
             "--messages", "-"),
            ("show", f"/no/such\x1b[31m\n\u202e"),
            ("show", b"/no/\xff\xfe"),
            ("show", config),
        ]  # fmt: skip
        for case in cases:
            arguments = [a if isinstance(a, bytes) else str(a).encode() for a in case]
            done = subprocess.run([PROGRAM.encode(), *arguments], input=b"[]", capture_output=True, timeout=60, check=False)
            self.assertEqual(done.returncode, 1, case[0])
            text = self.assert_safe(done.stderr)
            self.assertEqual(text.count("\n"), 1, text[:300])
            self.assertLess(len(text), 2100, text[:300])

    def test_misuse_has_one_safe_line(self):
        for arguments in [["no\x1b[31m\nverb"], ["run", "--no\x1b[31m\n"], ["show", self.model, "-c", "x" * 100_000],
                          ["logits", self.model, "--ids", "1\x1b[31m"]]:  # fmt: skip
            text = self.assert_safe(self.veery(*arguments, status=2).stderr)
            self.assertEqual(text.count("\n"), 1, text)
            self.assertLess(len(text), 2100)
            self.assertIn("--help", text)

    def test_messages_of_libraries_are_not_shown(self):
        bad = self.write("bad.json", "[1,")
        message = self.error("template", self.model, "--messages", bad)
        self.assertIn("bad.json: byte 3: expected a value, found the end", message)
        utf16 = self.folder / "utf16.json"
        utf16.write_bytes("[]".encode("utf-16"))
        self.assertIn("is text in UTF-16, expected UTF-8", self.error("template", self.model, "--messages", utf16))
        message = self.error("tokenize", self.folder / ("x" * 300), "-p", "x")
        self.assertNotIn("filesystem error", message)

    def test_tables_show_escapes(self):
        path = self.gguf("table.gguf", general__name=HOSTILE, tokenizer__ggml__pre=HOSTILE, **{HOSTILE: HOSTILE})
        for arguments in [["show", path], ["convert", path, "x.gguf", "--dry-run"]]:
            text = self.assert_safe(self.veery(*arguments).stdout)
        text = self.veery("show", path).stdout.decode()
        self.assertIn(f"name                  {SHOWN}\n", text)
        long = self.gguf("long-table.gguf", general__name="x" * 1_000_000)
        self.assertLess(max(map(len, self.veery("show", long).stdout.decode().splitlines())), 1100)
        self.assertEqual(self.json("show", path)["name"], HOSTILE)
        self.assert_safe(self.veery("show", path, "--json").stdout)

    def on_terminal(self, *arguments):
        ours, theirs = pty.openpty()
        with subprocess.Popen([PROGRAM, *map(str, arguments)], stdout=theirs, stdin=subprocess.DEVNULL) as process:
            os.close(theirs)
            data = b""
            try:
                while part := os.read(ours, 4096):
                    data += part
            except OSError:  # the end of the terminal
                pass
            process.wait(60)
        os.close(ours)
        return data

    def test_untrusted_text_has_no_effect_on_a_terminal(self):
        template = self.write("esc.jinja", "{% for m in messages %}{{ m.content }}{% endfor %}")
        messages = self.write("esc.json", [{"role": "user", "content": "a\x1b[2J\r\tb\nc"}])
        arguments = ["template", "--template-file", template, "--messages", messages]
        self.assertEqual(self.veery(*arguments).stdout, b"a\x1b[2J\r\tb\nc")  # unchanged elsewhere
        self.assertEqual(self.on_terminal(*arguments), b"a\\x1b[2J\\r\tb\r\nc")

    def test_answers_on_a_terminal_cannot_act(self):
        arguments = ["run", self.model, "-p", "x", "--raw", "-n", 60, "--temp", 5, "--top-p", 1, "--min-p", 0,
                     "--top-k", 0, "-s", 1, "--ignore-eos", "-q"]  # fmt: skip
        raw = self.veery(*arguments).stdout
        self.assertTrue(any(byte < 32 and byte not in (9, 10) for byte in raw), raw)
        shown = self.on_terminal(*arguments)
        self.assertFalse(any(byte < 32 and byte not in (9, 10, 13) for byte in shown), shown)
        self.assertEqual(shown.count(b"\r"), shown.count(b"\r\n"), shown)  # only line ends of the terminal


class Texts(CliTest):
    """Prompts and requests written by Windows editors."""

    def ids(self, data, *arguments):
        path = self.folder / "prompt.txt"
        path.write_bytes(data)
        return json.loads(self.veery("tokenize", self.model, "-f", path, "--json", *arguments).stdout)["ids"]

    def test_byte_order_marks_and_line_ends_are_removed(self):
        expected = self.ids(b"a\nb\n")
        for data in (b"\xef\xbb\xbfa\r\nb\r\n", b"a\r\nb\r\n", b"\xef\xbb\xbfa\nb\n"):
            self.assertEqual(self.ids(data), expected)
            done = self.veery("run", self.model, "-f", self.folder / "prompt.txt", "--raw", "-n", 4, "--json", "-q")
            self.assertEqual(json.loads(done.stdout)["prompt_ids"], self.ids(b"a\nb"))
        self.assertNotEqual(self.ids(b"a\rb"), self.ids(b"a\nb"))

    def test_utf_16_is_refused(self):
        path = self.folder / "wide.txt"
        path.write_bytes("hello".encode("utf-16"))
        self.assertIn("expected UTF-8", self.error("run", self.model, "-f", path))

    def test_requests_of_a_batch(self):
        path = self.folder / "requests.jsonl"
        path.write_bytes(b'\xef\xbb\xbf"a"\r\n"b"\r\n')
        done = self.veery("batch", self.model, "-i", path, "--defaults", '{"max_tokens":2}', "-q")
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([line["response"]["status_code"] for line in lines], [200, 200])


if __name__ == "__main__":
    unittest.main()
