"""Counts the system calls of a program with strace."""
import collections
import functools
import os
import pathlib
import re
import subprocess
import tempfile

# Calls by which workers wait for each other; their number varies.
WAITING = {"futex", "sched_yield", "restart_syscall"}


@functools.cache
def why_not():
    """Returns why calls cannot be counted here, or None."""
    try:
        done = subprocess.run(["strace", "-f", "-o", os.devnull, "true"], capture_output=True, timeout=60, check=False)
    except FileNotFoundError:
        return "strace is not installed"
    except subprocess.TimeoutExpired:
        return "strace hangs here"
    return None if done.returncode == 0 else f"strace cannot trace here: {done.stderr.decode().strip()}"


def count(command):
    """Returns {name: calls} of all threads of `command`, without those of WAITING."""
    # The leak check of AddressSanitizer traces its own process, which only one can do.
    environment = {**os.environ, "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"}
    with tempfile.TemporaryDirectory() as folder:
        log = pathlib.Path(folder, "calls")
        done = subprocess.run(["strace", "-f", "-o", log, *map(str, command)], capture_output=True, timeout=240,
                              env=environment, check=False)  # fmt: skip
        if done.returncode != 0:
            raise AssertionError(done.stderr.decode())
        names = re.findall(r"^\d+ +(\w+)\(", log.read_text(errors="replace"), re.MULTILINE)
    return collections.Counter(name for name in names if name not in WAITING)


def difference(few, many):
    """Returns {name: additional calls} for names with different counts."""
    return {name: many[name] - few[name] for name in few.keys() | many.keys() if many[name] != few[name]}
