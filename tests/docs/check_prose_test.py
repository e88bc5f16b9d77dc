"""tools/check_prose.py finds bad samples and accepts good ones.

usage: check_prose_test.py
"""
import contextlib
import io
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))

import check_prose  # noqa: E402


def page(text):
    return [found.text for found in check_prose.file_findings("docs/x.md", text)]


def source(text):
    return [found.text for found in check_prose.file_findings("src/a/x.cc", text)]


class CheckProse(unittest.TestCase):
    def test_long_prose_but_not_tables_fences_links_or_generated_parts(self):
        long = "word " * 21
        self.assertEqual(page(long + "\n"), ["105 columns of prose, expected at most 100"])
        for good in (f"| {long} |", f"```\n{long}\n```", f"<!-- tables: x -->\n- {long}\n<!-- end -->", "# " + long,
                     f"[a]({'x' * 120}) b", "x" * 120):  # fmt: skip
            self.assertEqual(page(good + "\n"), [])

    def test_statements_that_begin_with_a_noun_clause(self):
        self.assertEqual(len(page("It runs. What it finds is kept.\n\n- Of its rows the first counts.\n")), 2)
        self.assertEqual(len(page("| a | What is new |\n")), 1)
        self.assertEqual(len(source("int x;  // Of a row: its scale.\n/// What a run\n/// gives.\n")), 2)

    def test_questions_titles_and_idioms_are_good(self):
        self.assertEqual(page("## What works\n\nWhat is a thrush?\n\nOf course it runs. `What it is` stays.\n"), [])
        self.assertEqual(source('auto text = "What it is";\nf("http://x/Of y");\n'), [])

    def test_behind_for_order_but_not_for_places(self):
        self.assertEqual(len(page("A token behind the draft is dropped.\n")), 1)
        self.assertEqual(len(source("// The chain that comes behind.\n")), 1)
        self.assertEqual(page("Run it behind a reverse proxy. It hides behind an interface. It falls behind.\n"), [])

    def test_words_that_have_a_term(self):
        self.assertEqual(page("A block of threads is told apart.\n"),
                         ["'block of threads': use thread block", "'told apart': use distinguished"])  # fmt: skip
        self.assertEqual(page("It takes so many bytes that it fails. `seldom` is a name.\n"), [])

    def test_quoted_words_are_mentioned_not_used(self):
        self.assertEqual(page('Write "after", not "behind".\n'), [])

    def test_exceptions_belong_to_a_page(self):
        text = "All lanes arrive.\n"
        found = [*check_prose.file_findings("docs/testing.md", text)]
        self.assertEqual((found, len(page(text))), ([], 1))

    def test_every_exception_has_a_reason(self):
        self.assertEqual([row for row in check_prose.EXCEPTIONS if len(row) != 3 or not row[2]], [])

    def test_commit_subjects(self):
        with tempfile.TemporaryDirectory() as name:
            def git(*words):
                subprocess.run(["git", "-C", name, "-c", "user.name=a", "-c", "user.email=a@b", *words], check=True,
                               capture_output=True)  # fmt: skip

            self.assertIsNone(check_prose.long_subjects(name))
            git("init", "-q")
            for subject in ("first", "x" * 72, "y" * 73):
                git("commit", "-q", "--allow-empty", "-m", subject)
            found = check_prose.long_subjects(name, "HEAD~2")
            self.assertEqual([line.endswith("y" * 73) for line in found], [True])

    def test_pages_and_sources_fail(self):
        for path in ("README.md", "bench/x/README.md", "src/a/x.cc"):
            with tempfile.TemporaryDirectory() as name, contextlib.redirect_stdout(io.StringIO()) as said:
                bad = pathlib.Path(name) / path
                bad.parent.mkdir(parents=True, exist_ok=True)
                (pathlib.Path(name) / "src").mkdir(exist_ok=True)
                bad.write_text("// Of a row: its scale.\n" if path.endswith(".cc") else "It runs. What runs is fast.\n")
                self.assertTrue(check_prose.main([name]))
                self.assertIn(f"{path}:1: ", said.getvalue())
                bad.write_text("// The scale of a row.\n" if path.endswith(".cc") else "It runs.\n")
                self.assertFalse(check_prose.main([name]))


if __name__ == "__main__":
    unittest.main()
