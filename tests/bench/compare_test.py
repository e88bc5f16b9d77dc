"""The arithmetic of bench/peers/compare.py, and when it refuses to measure.

usage: compare_test.py
"""
import json
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "bench/peers"))

import compare  # noqa: E402
import machine  # noqa: E402
import pairs  # noqa: E402
import programs  # noqa: E402

# Stands for veery and for llama.cpp's programs: prints what they print.
STUB = """#!/usr/bin/env python3
import json, pathlib, sys
name = pathlib.Path(sys.argv[0]).name
if name == "llama-bench":
    print(json.dumps([{"n_prompt": 512, "n_gen": 0, "avg_ts": 100}, {"n_prompt": 0, "n_gen": 128, "avg_ts": 10}]))
elif name == "llama-completion":
    print("sampling time = 100.00 ms\\nprompt eval time = 5 ms / 2 tokens\\n"
          "       eval time = 1900.00 ms /   20 runs", file=sys.stderr)
elif "--version" in sys.argv:
    print("veery of a test")
elif "bench" in sys.argv:
    print(json.dumps([{"test": "pp512", "tokens_per_second": 300}, {"test": "tg128", "tokens_per_second": 20}]))
else:
    print(json.dumps({"timings": {"decode_tokens_per_second": 15}}))
"""


class Pairs(unittest.TestCase):
    def test_a_ratio_is_that_of_its_round(self):
        # The second round was twice as slow for both: the ratio of each is 2, that of medians is not.
        self.assertEqual(pairs.paired_ratios([200, 100, 210], [100, 50, 100]), [2, 2, 2.1])

    def test_the_median_of_the_ratios_is_not_the_ratio_of_the_medians(self):
        ours, theirs = [10, 20, 90], [10, 5, 30]
        self.assertEqual(pairs.spread(pairs.paired_ratios(ours, theirs))["median"], 3)  # of 1, 4, 3
        self.assertEqual(20 / 10, 2)

    def test_rounds_without_a_pair_are_refused(self):
        with self.assertRaisesRegex(ValueError, "3 values against 2"):
            pairs.paired_ratios([1, 2, 3], [1, 2])

    def test_quartiles(self):
        self.assertEqual(pairs.quartiles([7]), (7, 7))
        self.assertEqual(pairs.quartiles([1, 2]), (1.25, 1.75))
        self.assertEqual(pairs.quartiles([5, 1, 4, 2, 3]), (2, 4))

    def test_spread(self):
        found = pairs.spread([3, 1, 2])
        self.assertEqual((found["min"], found["q1"], found["median"], found["q3"], found["max"]), (1, 1.5, 2, 2.5, 3))
        self.assertEqual(found["samples"], [3, 1, 2])


class Busy(unittest.TestCase):
    STAT = "cpu  100 20 30 800 50 5 5 90 10 0\ncpu0 1 2 3\n"

    def test_times(self):
        times = machine.parse_times(self.STAT, 10)
        self.assertEqual((times.busy, times.stolen, times.total), (16, 9, 110))
        self.assertIsNone(machine.parse_times("nothing", 10))

    def test_own_time_is_not_that_of_others(self):
        found = machine.shares(machine.Times(10, 1, 100), machine.Times(18, 2, 120), own=6)
        self.assertAlmostEqual(found["used_by_others"], 0.1)
        self.assertAlmostEqual(found["stolen"], 0.05)

    def test_a_quiet_machine_is_not_refused(self):
        self.assertIsNone(machine.why_busy({"load_average": 9, "used_by_others": 0.05, "stolen": 0.02}, 5))
        self.assertIsNone(machine.why_busy({"load_average": 9, "used_by_others": None, "stolen": None}, 5))

    def test_a_busy_machine_is_refused_with_what_was_found_and_expected(self):
        for used, stolen in ((0.5, 0), (0, 0.03)):
            line = machine.why_busy({"load_average": 2, "used_by_others": used, "stolen": stolen}, 5)
            self.assertIn(f"{used:.1%} of the processors' time and {stolen:.1%}", line)
            self.assertIn("at most 5% and 2%", line)
            self.assertNotIn("\n", line)

    def test_facts_of_the_processor(self):
        facts = machine.cpu_facts("model name\t: A B\ncpu family\t: 26\nflags\t\t: fpu avx2 hypervisor avx512_vnni\n")
        self.assertEqual(facts, {"cpu": "A B", "cpu_family": 26, "features": ["avx2", "avx512_vnni"], "hypervisor": True})


class Tree(unittest.TestCase):
    def test_without_git_the_commit_is_unknown(self):
        with mock.patch.object(machine.subprocess, "run", side_effect=FileNotFoundError):
            self.assertEqual(machine.describe_tree(REPOSITORY), {"commit": None, "dirty": None})


class Sampled(unittest.TestCase):
    def test_the_choice_of_tokens_counts(self):
        said = "sampling time =  50.00 ms\nprompt eval time = 9 ms / 3 tokens\n eval time = 950.00 ms / 127 runs"
        self.assertAlmostEqual(programs.sampled_rate(said), 127)
        ik = "sample time = 50.00 ms / 128 runs\n  prompt eval time = 9 ms / 3 tokens\n   eval time = 950 ms / 127 runs"
        self.assertAlmostEqual(programs.sampled_rate(ik), 127)
        clock = "main: prompt eval time = 9 ms / 3 tokens\nmain:        eval time = 1000.00 ms / 127 tokens"
        self.assertAlmostEqual(programs.sampled_rate(clock), 127)

    def test_missing_timings_are_an_error(self):
        with self.assertRaisesRegex(programs.Failure, "eval time"):
            programs.sampled_rate("prompt eval time = 9 ms / 3 runs, sampling time = 1 ms")


class Whole(unittest.TestCase):
    """compare.py from its arguments to its JSON, with stubs for the programs."""

    def run_with(self, used, *flags):
        with tempfile.TemporaryDirectory() as name, mock.patch.object(
            machine, "observe", lambda _: {"load_average": 1, "used_by_others": used, "stolen": 0}
        ), mock.patch("builtins.print"):
            folder = pathlib.Path(name)
            for program in ("veery", "llama-bench", "llama-completion"):
                (folder / program).write_text(STUB)
                (folder / program).chmod(0o755)
            (folder / "m.gguf").write_bytes(b"model")
            status = compare.main([*map(str, [folder / "m.gguf", "--veery", folder / "veery", "--llama", folder]),
                                   "--rounds", "2", "--json", str(folder / "out.json"), *flags])  # fmt: skip
            out = folder / "out.json"
            return status, json.loads(out.read_text()) if out.exists() else None

    def test_a_busy_machine_is_refused_unless_allowed(self):
        self.assertEqual(self.run_with(0.5), (1, None))
        self.assertEqual(self.run_with(0.5, "--busy-ok")[0], 0)

    def test_the_report_says_what_was_measured_where(self):
        status, report = self.run_with(0)
        self.assertEqual(status, 0)
        expected = {"cpu", "features", "caches", "memory_bytes", "system", "hypervisor", "date"}
        self.assertEqual(expected - report["machine"].keys(), set())
        self.assertEqual(report["tree"].keys(), {"commit", "dirty"})
        self.assertEqual(report["load"].keys(), {"before", "during", "after"})
        self.assertEqual(len(report["load"]["during"]), 2)
        rows = {row["test"]: row for row in report["results"]}
        self.assertEqual(rows["pp512"]["pairs"]["llama.cpp"]["samples"], [3, 3])
        self.assertEqual(rows["tg128, sampled"]["ratios"]["llama.cpp"], 1.5)  # 15 against 20 tokens in 2 s
        self.assertEqual(rows["pp512"]["model_sha256"], "9372c470eeadd5ec")

    def test_sampled_answers_may_be_left_out(self):
        self.assertNotIn("tg128, sampled", {row["test"] for row in self.run_with(0, "--no-sampled")[1]["results"]})


if __name__ == "__main__":
    unittest.main()
