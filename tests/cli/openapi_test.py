#!/usr/bin/env python3
"""Sends requests that schemathesis generates from the server's OpenAPI document to four servers: with a model for text,
for embeddings, for scores and for transcripts. No reply has status 5xx, and every reply matches the document.

usage: openapi_test.py VEERY [unittest arguments]
Skipped (status 77) where schemathesis, of PyPI, is not installed.
"""
import shutil
import subprocess
import sys
import unittest

from cli_base import TEMPLATE, TINY, CliTest
from cli_serve_models_test import ENCODERS, WHISPER
from cli_serve_test import CONTEXT
from serve_client import Server
import tiny_gguf

TOOL = shutil.which("schemathesis")
# Valid requests may still be refused, for example for a role that a template does not accept. Invalid
# ones may be answered, because fields without effect beside others are not checked.
EXCLUDED = "positive_data_acceptance,negative_data_rejection"


class OpenApi(CliTest):
    def requests(self, model, paths, count):
        server = Server(model)
        try:
            done = subprocess.run(
                [TOOL, "run", f"http://127.0.0.1:{server.port}/openapi.json", "--seed", "2", "--phases", "coverage,fuzzing",
                 "-n", str(count), "--exclude-checks", EXCLUDED, "--include-path-regex", paths, "--no-color"],
                capture_output=True, check=False, timeout=500, cwd=self.folder)  # fmt: skip
            self.assertEqual(done.returncode, 0, done.stdout.decode()[-4000:])
            self.assertEqual(server.send("GET", "/health")[0], 200)
        finally:
            self.assertEqual(server.end(), 0)

    def test_answers(self):
        model = self.folder / "long.gguf"
        tiny_gguf.write(model, TEMPLATE, CONTEXT)
        self.requests(model, ".", 20)

    def test_embeddings(self):
        self.requests(ENCODERS / "bert-mean", "embed|show|tags|models|props|inspect", 10)

    def test_scores(self):
        self.requests(ENCODERS / "bert-rerank", "rerank|chat", 10)

    def test_transcripts(self):
        self.requests(WHISPER, "audio|slots|responses", 10)


if __name__ == "__main__":
    if TOOL is None or not TINY.exists():
        print("schemathesis is not installed", file=sys.stderr)
        sys.exit(77)
    unittest.main()
