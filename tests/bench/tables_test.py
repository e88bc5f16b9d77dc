"""The tables of docs/performance.md and README.md are those that the recorded measurements give.

usage: tables_test.py
"""
import contextlib
import io
import json
import pathlib
import shutil
import sys
import tempfile
import unittest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "bench/performance"))

import tables  # noqa: E402


def report(rounds=((20, 10), (30, 10)), **more):
    samples = {"veery": [a for a, _ in rounds], "llama.cpp": [b for _, b in rounds]}
    row = {"model": "m.gguf", "model_bytes": 1000000, "test": "tg128", "unit": "tok/s",
           **{name: {"median": sum(values) / len(values), "samples": values} for name, values in samples.items()}}  # fmt: skip
    return {
        "machine": {"cpu": "A", "cpus": 2, "system": "Linux", "load_average": 3},
        "programs": {name: {"version": name + " 1"} for name in samples},
        "settings": {"rounds": len(rounds), "threads": 2, "context": 512},
        "results": [row],
        **more,
    }


class Pages(unittest.TestCase):
    def test_they_are_up_to_date(self):
        self.assertEqual(tables.main(["--check"]), False)

    def test_a_changed_measurement_fails_the_check_until_the_pages_are_written(self):
        with tempfile.TemporaryDirectory() as name, contextlib.redirect_stdout(io.StringIO()) as said:
            copy = pathlib.Path(name)
            shutil.copytree(REPOSITORY / "docs", copy / "docs")
            shutil.copy(REPOSITORY / "README.md", copy)
            path = copy / "docs/performance/peers-smollm2.json"
            changed = json.loads(path.read_text())
            changed["results"][0]["veery"]["median"] = 1234
            path.write_text(json.dumps(changed))
            arguments = ["--repository", name]
            self.assertTrue(tables.main([*arguments, "--check"]))
            self.assertIn("README.md", said.getvalue())
            self.assertFalse(tables.main(arguments))
            self.assertIn("| 1234 |", (copy / "README.md").read_text())
            self.assertFalse(tables.main([*arguments, "--check"]))


class Tables(unittest.TestCase):
    def test_ratios_are_of_rounds(self):
        self.assertIn("2.50 (2.25 - 2.75)", "\n".join(tables.page_tables([report()], [])))
        self.assertIn("| 2.50 |", "\n".join(tables.readme_table([report()])))

    def test_what_was_not_recorded_is_said(self):
        text = "\n".join(tables.page_tables([report()], []))
        for line in ["Commit: not recorded", "Features: not recorded", "SHA-256 not recorded", "Date: not recorded"]:
            self.assertIn(line, text)

    def test_what_was_recorded_is_shown(self):
        quiet = {"load_average": 0.1, "used_by_others": 0.01, "stolen": 0}
        text = "\n".join(tables.page_tables([report(
            tree={"commit": "0123456789abcdef", "dirty": True},
            load={"before": quiet, "during": [quiet, {**quiet, "used_by_others": 0.25}], "after": quiet},
        )], []))  # fmt: skip
        self.assertIn("Commit: `0123456789ab` with changes", text)
        self.assertIn("at most 25% of the processors' time used by others", text)

    def test_the_readme_has_prefill_and_greedy_decoding_only(self):
        both = report()
        both["results"].append({**both["results"][0], "test": "tg128, sampled", "unit": "tok/s"})
        both["results"][1]["veery"] = {"median": 4321, "samples": [4321, 4321]}
        lines = tables.readme_table([both])
        self.assertNotIn("4321", "\n".join(lines))
        self.assertEqual(lines[2], "| m.gguf | 2 CPU cores | - | - | - | 25 | 2.50 | - |")

    def test_the_readme_has_a_row_for_each_model_of_a_gpu(self):
        own = report()["results"][0]
        gpu = {"gpu": {"name": "NVIDIA H100 80GB"}, "results": [
            {**own, "model": "8B q4_k", "test": "steps"},
            {**own, "model": "8B q4_k", "test": "prompt of 2048"},
            {**own, "model": "8B q4_k", "test": "prompt of 2048 --relaxed", "veery": {"median": 4321, "samples": [1, 1]}},
        ]}  # fmt: skip
        lines = tables.readme_table([], [gpu])
        self.assertEqual(lines[2:], ["| Llama 3.1 8B shape, Q4_K | H100 | 25 | 2.50 | - | 25 | 2.50 | - |"])

    def test_the_newest_report_of_a_model_counts_in_the_readme(self):
        new = report(rounds=[(50, 10)])
        new["machine"]["date"] = "2026-01-01T00:00:00Z"
        text = "\n".join(tables.readme_table([new, report()]))
        self.assertIn("5.00", text)
        self.assertNotIn("2.50", text)


if __name__ == "__main__":
    unittest.main()
