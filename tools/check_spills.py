#!/usr/bin/env python3
"""Fails if a kernel for NVIDIA GPUs spills registers, which are then read from memory.

    tools/check_spills.py LOG    what nvcc -Xptxas -v printed
"""

import re
import sys
from pathlib import Path

FUNCTION = re.compile(r"Function properties for (\w+)")
SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
# Kernels that may, with the most bytes that they store, and why.
ALLOWED = {}


def spilled(log):
    """(kernel, bytes stored, bytes loaded) of all that spill, and how many kernels there are."""
    function, found, count = "", [], 0
    for line in log.splitlines():
        if match := FUNCTION.search(line):
            function = match[1]
        elif match := SPILLS.search(line):
            count += 1
            stores, loads = int(match[2]), int(match[3])
            if stores > ALLOWED.get(function, 0):
                found.append((function, stores, loads))
    return found, count


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    found, count = spilled(Path(sys.argv[1]).read_text())
    if count == 0:
        sys.exit(f"{sys.argv[1]}: found no kernel in what ptxas said")
    for function, stores, loads in found:
        print(f"{function}: {stores} bytes of registers are stored in memory, {loads} loaded, expected {ALLOWED.get(function, 0)}")
    print(f"spills: {count} functions, {len(found) or 'no'} violation{'s' if len(found) > 1 else ''}")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
