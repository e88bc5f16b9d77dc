"""Tests of tools/check_docs.py.

usage: check_docs_test.py
"""
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))

import check_docs  # noqa: E402

LAYOUT = """# Layout

| folder | holds |
|---|---|
| `src/a` | things |

1. `src/a/x.cc`: `f()` calls `B::g()`.
"""


class CheckDocs(unittest.TestCase):
    def violations(self, layout=LAYOUT, other="", folders=("a",)):
        with tempfile.TemporaryDirectory() as name:
            root = pathlib.Path(name).resolve()
            (root / "docs").mkdir()
            for folder in folders:
                (root / "src" / folder).mkdir(parents=True)
                (root / "src" / folder / "x.cc").write_text("void f() { B::g(); }\nvoid unused() {}\n")
                (root / "src" / folder / "y.cc").write_text("void elsewhere() {}\n")
            (root / "docs/layout.md").write_text(layout)
            (root / "README.md").write_text(other)
            return [*check_docs.broken_links(root), *check_docs.layout_violations(root)]

    def test_correct_page(self):
        self.assertEqual(self.violations(other="[a](docs/layout.md#layout) [b](https://example.org/x) `[c](d)`"), [])

    def test_broken_link(self):
        self.assertIn("README.md:2: link to docs/no.md, which is not a file", self.violations(other="\n[a](docs/no.md)"))
        self.assertIn("no such heading", self.violations(other="[a](docs/layout.md#other)")[0])

    def test_missing_path(self):
        self.assertIn("`src/a/z.cc`", self.violations(LAYOUT.replace("x.cc", "z.cc"))[0])

    def test_missing_or_misplaced_function(self):
        self.assertIn("`h()`", self.violations(LAYOUT.replace("`f()`", "`h()`"))[0])
        self.assertIn("`elsewhere()`", self.violations(LAYOUT.replace("`f()`", "`elsewhere()`"))[0])
        self.assertIn("`C::g()`", self.violations(LAYOUT.replace("B::g", "C::g"))[0])

    def test_unlisted_folder(self):
        self.assertEqual(self.violations(folders=("a", "b")), ["docs/layout.md: folder src/b is not listed"])

    def test_listed_folder_without_sources(self):
        gone = LAYOUT.replace("1. ", "| `src/c` | more |\n\n1. ")
        self.assertIn("docs/layout.md: lists src/c, which holds no sources", self.violations(gone))

    def test_a_path_on_another_page_that_is_not_there(self):
        with tempfile.TemporaryDirectory() as name:
            root = pathlib.Path(name).resolve()
            (root / "src").mkdir()
            (root / "README.md").write_text("`src/x.cc` `src/NAME.cc` `fuzz/x_fuzz.cc` `other/x.cc`\n")
            self.assertEqual([*check_docs.missing_paths(root)], ["README.md:1: path `src/x.cc`, which is not in the tree"])

    def test_a_test_that_is_not_there(self):
        with tempfile.TemporaryDirectory() as name:
            root = pathlib.Path(name).resolve()
            (root / "tests").mkdir()
            (root / "tests/x_test.cc").write_text("TEST(Rope, Turns) {}\nTEST_P(Sums, Add) {}\nINSTANTIATE_TEST_SUITE_P(All, Sums, x)\n")
            page = root / "README.md"
            page.write_text("`Rope.Turns` `Rope.*` `Ro*.T*:Sums.Add` `x --gtest_filter='Rope.*:All/*'` `README.md`\n")
            self.assertEqual([*check_docs.missing_tests(root)], [])
            page.write_text("`Rope.Turn`\n\n    --gtest_filter=Sums.*\n")
            self.assertEqual([*check_docs.missing_tests(root)], ["README.md:1: test `Rope.Turn`, which is not in tests",
                                                                 "README.md:3: test `Sums.*`, which is not in tests"])  # fmt: skip


if __name__ == "__main__":
    unittest.main()
