#!/usr/bin/env python3
"""Compares the functions of tensors, through the C API, with NumPy on random cases, and derivatives with differences.

usage: run.py LIBRARY [--cases N] [--seed S] [--op NAME] [--case INDEX] [--threads N] [--list]

LIBRARY is libveery.so. Cases are made from (seed, function, index), so that --op and --case repeat one. The default is
about 24,000 cases. Exits with 1 after failures and if a function of the header is in no table, with 77 if NumPy is
missing. Uses PyTorch for gradients if it is installed.
"""

import argparse
import os
import sys
import time
import zlib

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # matrices are small
try:
    import numpy
except ImportError:
    print("NumPy is missing, so that functions of tensors are not compared with it: apt-get install python3-numpy")
    sys.exit(77)

import derivatives
import elements
import elementwise
import graphs
import library as binding
import lines
import movement

SHOWN = 5  # failures of a function that are printed
# tests/capi/tensor_test.cc has these.
ELSEWHERE = {"veery_tensor_" + name for name in ("borrow", "retain", "grad", "value_and_grad", "scalar_bool")}


def table():
    """Functions by name, with the share of the cases that each gets."""
    ops = {}
    for family, share in ((elementwise, 1), (lines, 1.6), (movement, 1.6), (derivatives, 1.2), (graphs, 8)):
        for name, check in family.OPS.items():
            ops[name] = (check, share)
    return ops


def attempt(library, check, name, seed, index):
    """The reason why a case fails, or None."""
    rng = numpy.random.default_rng([seed, zlib.crc32(name.encode()), index])
    try:
        check(library, rng, name)
    except (elements.Mismatch, binding.Refused) as error:
        return str(error)
    except Exception as error:  # noqa: BLE001  a case that cannot be run is a failure
        return f"{type(error).__name__}: {error}"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("library")
    parser.add_argument("--cases", type=int, default=24000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--op")
    parser.add_argument("--case", type=int)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--list", action="store_true")
    given = parser.parse_args()
    ops = table()
    if given.list:
        print("\n".join(ops))
        return 0
    if given.op:
        ops = {given.op: ops[given.op]}
    library = binding.Library(given.library)
    library.check(library.loaded.veery_tensor_set_threads(given.threads))
    whole = sum(share for _, share in table().values())
    begin, total, failed = time.monotonic(), 0, 0
    for name, (check, share) in ops.items():
        count = round(given.cases * share / whole)
        indices = range(count) if given.case is None else [given.case]
        wrong = [(index, reason) for index in indices if (reason := attempt(library, check, name, given.seed, index))]
        total, failed = total + len(indices), failed + len(wrong)
        print(
            f"{name:28} {len(indices):6} cases {len(wrong):6} failed" if wrong else f"{name:28} {len(indices):6} cases"
        )
        for index, reason in wrong[:SHOWN]:
            print(f"  {reason}\n    run.py {given.library} --seed {given.seed} --op {name} --case {index}")
    print(f"{total} cases of {len(ops)} functions in {time.monotonic() - begin:.0f} s, {failed} failed")
    missing = set() if given.op else library.functions() - library.called - ELSEWHERE
    if missing:
        print("in no table:", *sorted(missing))
    return 1 if failed or missing else 0


if __name__ == "__main__":
    sys.exit(main())
