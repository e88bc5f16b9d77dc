"""Describes the environment of a measurement: machine, load, and source tree."""

import os
import platform
import re
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

FEATURES = ["avx2", "avx512f", "avx512_vnni", "avx512_bf16", "avx_vnni", "amx_tile", "amx_int8", "amx_bf16",
            "asimd", "asimddp", "i8mm", "bf16"]  # fmt: skip
MOST_USED = 0.05  # share of CPU time used by other programs
MOST_STOLEN = 0.02  # share of CPU time stolen by other virtual machines


def read(path):
    try:
        return Path(path).read_text()
    except OSError:  # not Linux, or not permitted
        return ""


def cpu_facts(info):
    """Extracts model, features and hypervisor from the text of /proc/cpuinfo."""
    model = re.search(r"^model name\s*:\s*(.+)$", info, re.MULTILINE)
    flags = re.search(r"^(?:flags|Features)\s*:\s*(.+)$", info, re.MULTILINE)
    words = set(flags[1].split()) if flags else set()
    facts = {"cpu": model[1] if model else platform.machine()}
    for key in ("cpu family", "model", "stepping"):
        found = re.search(rf"^{key}\s*:\s*(\d+)$", info, re.MULTILINE)
        if found:
            facts[key.replace(" ", "_")] = int(found[1])
    facts["features"] = [name for name in FEATURES if name in words]
    facts["hypervisor"] = "hypervisor" in words
    return facts


def caches():
    """Returns {"L1 Data": "48K", ...} of the first CPU."""
    found = {}
    for folder in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        level, kind, size = (read(folder / name).strip() for name in ("level", "type", "size"))
        found[f"L{level} {kind}"] = size
    return found


def describe():
    memory = re.search(r"^MemTotal:\s*(\d+) kB", read("/proc/meminfo"), re.MULTILINE)
    return {
        **cpu_facts(read("/proc/cpuinfo")),
        "cpus": len(os.sched_getaffinity(0)),
        "caches": caches(),
        "memory_bytes": int(memory[1]) * 1024 if memory else None,
        "system": f"{platform.system()} {platform.release()}",
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def describe_tree(folder):
    """Returns the commit of the tree, and whether tracked files were modified."""

    def git(*words):
        try:
            done = subprocess.run(["git", "-C", folder, *words], capture_output=True, text=True, check=False)
        except OSError:  # git is not installed
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    commit = git("rev-parse", "HEAD")
    return {"commit": commit, "dirty": None if commit is None else bool(git("status", "--porcelain", "-uno"))}


@dataclass(frozen=True)
class Times:
    """CPU seconds of all CPUs since boot."""

    busy: float
    stolen: float
    total: float


def parse_times(stat, ticks):
    """Parses the text of /proc/stat; returns None if the line is missing."""
    found = re.search(r"^cpu +((?:\d+ ?)+)$", stat, re.MULTILINE)
    if not found:
        return None
    user, nice, system, idle, wait, irq, soft, stolen = map(int, found[1].split()[:8])
    busy = user + nice + system + irq + soft  # user time includes guest time
    return Times(busy / ticks, stolen / ticks, (busy + idle + wait + stolen) / ticks)


def own_seconds():
    now = os.times()
    return now.user + now.system + now.children_user + now.children_system


class Watch:
    """Measures the CPU time used by others since its creation."""

    def __init__(self):
        self.start, self.own = self.now(), own_seconds()

    @staticmethod
    def now():
        return parse_times(read("/proc/stat"), os.sysconf("SC_CLK_TCK"))

    def shares(self):
        """Returns shares of total CPU time; None if unknown."""
        load = os.getloadavg()[0]
        end = self.now()
        if self.start is None or end is None or end.total <= self.start.total:
            return {"load_average": load, "used_by_others": None, "stolen": None}
        return {"load_average": load, **shares(self.start, end, own_seconds() - self.own)}


def shares(start, end, own):
    total = end.total - start.total
    return {
        "used_by_others": max(0.0, end.busy - start.busy - own) / total,
        "stolen": (end.stolen - start.stolen) / total,
    }


def why_busy(found, seconds):
    """Returns a line with found and expected load; None if the machine is quiet."""
    used, stolen = found["used_by_others"], found["stolen"]
    if used is None or (used <= MOST_USED and stolen <= MOST_STOLEN):
        return None
    return (
        f"the machine is busy: in {seconds:g} s other programs used {used:.1%} of the processors' time and "
        f"{stolen:.1%} was stolen by other virtual machines, expected at most {MOST_USED:.0%} and "
        f"{MOST_STOLEN:.0%} (load average {found['load_average']:.2f}); --busy-ok measures anyway"
    )


def observe(seconds):
    watch = Watch()
    time.sleep(seconds)
    return watch.shares()
