"""Formats numbers, machines, loads and commits for tables of measurements in Markdown."""

UNKNOWN = "not recorded"
TITLES = {
    "SmolLM2-135M-Instruct.Q4_1.gguf": "SmolLM2 135M, Q4_1",
    "gemma-3-270m-Q4_K_M.gguf": "Gemma 3 270M, Q4_K_M",
    "llama-1b-random.Q4_0.gguf": "Llama 3.2 1B shape, Q4_0",
    "llama-1b-random.Q4_K.gguf": "Llama 3.2 1B shape, Q4_K",
    "qwen35-0.8b-random.Q4_0.gguf": "Qwen 3.5 0.8B shape, Q4_0",
    "qwen35-2b-random.Q4_0.gguf": "Qwen 3.5 2B shape, Q4_0",
    "gemma4-e2b-random.Q4_0.gguf": "Gemma 4 E2B shape, Q4_0",
}


def number(value):
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def table(rows):
    """Returns a Markdown table; the first row is the header."""
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return [lines[0], "|" + "---|" * len(rows[0]), *lines[1:]]


def title(name):
    return TITLES.get(name, name)


def machine_of(report):
    """Returns the machine by which reports are grouped. measure.py stores its facts at the top level."""
    machine = report.get("machine", report)
    features = machine.get("features")
    return (
        f"{machine['cpu']}"
        + (f" (family {machine['cpu_family']}, model {machine['model']})" if "cpu_family" in machine else "")
        + (f", {machine['cpus']} processors" if "cpus" in machine else "")
        + (f", {' '.join(features)}" if features else "")
    )


def load_text(report):
    load = report.get("load")
    if not load:
        machine = report.get("machine", report)
        return f"load average {machine['load_average']:.2f} at the start" if "load_average" in machine else UNKNOWN
    others = [found["used_by_others"] for found in load["during"] if found["used_by_others"] is not None]
    worst = f", at most {max(others):.0%} of the processors' time used by others during a round" if others else ""
    return f"load average {load['before']['load_average']:.2f} before{worst}, {load['after']['load_average']:.2f} after"


def commit_text(report):
    tree = report.get("tree") or {}
    if not tree.get("commit"):
        return UNKNOWN
    return f"`{tree['commit'][:12]}`" + (" with changes" if tree.get("dirty") else "")


def ratio_text(found):
    if len(found["samples"]) == 1:
        return f"{found['median']:.2f}"
    return f"{found['median']:.2f} ({found['q1']:.2f} - {found['q3']:.2f})"
