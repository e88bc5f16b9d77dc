#!/usr/bin/env python3
"""Fails if a CUDA kernel spills registers to local memory.

    tools/check_spills.py LOG    the output of nvcc -Xptxas -v
"""

import re
import sys
from pathlib import Path

FUNCTION = re.compile(r"Function properties for (\w+)")
SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
# Exceptions: kernels, maximum spilled bytes, reason. GEMV kernels without residual quantisation must not spill.
ALLOWED = [
    (r"scan_\w+_(64|128)", 5400),  # a thread holds 64 or 128 state values: heads of 256 and 512 keys
    (r"gemv_residual_q4m?w?", 400),  # 4-bit output heads: residual-quantised activations of sixteen blocks in registers
    (r"experts_(gemv|gemm_32)_\w+", 200),  # two thread blocks per SM
    (r"element_(map|reduce)\w*", 80),  # three thread blocks per SM; outside the usual steps
    (r"(scan|conv1d|attend_general_split|attend_ragged|attend_rows|attend_flash)\w*", 80),  # outside the innermost loops
    (r"(gemm_mma|gemm_mma_small|gemm_skinny_16)_(q8|k8m|nvfp4)|gemv_residual_nvfp4", 80),
]


def allowed(function):
    name = function.removeprefix("veery_")
    return next((most for pattern, most in ALLOWED if re.fullmatch(pattern, name)), 0)


def spilled(log):
    """Returns (kernel, bytes stored, bytes loaded) of all spilling kernels, and the number of kernels."""
    function, found, count = "", [], 0
    for line in log.splitlines():
        if match := FUNCTION.search(line):
            function = match[1]
        elif match := SPILLS.search(line):
            count += 1
            stores, loads = int(match[2]), int(match[3])
            if stores > allowed(function):
                found.append((function, stores, loads))
    return found, count


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    found, count = spilled(Path(sys.argv[1]).read_text())
    if count == 0:
        sys.exit(f"{sys.argv[1]}: found no kernel in what ptxas said")
    for function, stores, loads in found:
        print(f"{function}: {stores} bytes of registers are stored in memory, {loads} loaded, expected at most {allowed(function)}")
    print(f"spills: {count} functions, {len(found) or 'no'} violation{'s' if len(found) > 1 else ''}")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
