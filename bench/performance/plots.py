#!/usr/bin/env python3
"""Draws the plots of docs/performance.md, in SVG, from the measurements in the same folder.

    bench/performance/plots.py [FOLDER]     default: docs/performance

Reads FOLDER/peers-*.json (bench/peers/compare.py) and FOLDER/model-*.json (measure.py), writes
ratios.svg, time.svg and sweeps.svg there. Requires only Python 3.11.
"""

import json
import math
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "bench" / "peers"))
import ratio_plot  # noqa: E402
from ratio_plot import FAINT, INK, text  # noqa: E402
from tables import newest  # noqa: E402

PARTS = {
    "q, k, v": "#2f7d5b",
    "attention out": "#6bb392",
    "gate, up": "#3b6ea5",
    "down": "#8fb3d9",
    "head": "#8c6bb1",
    "attention": "#d98c3f",
    "rest": "#b8bec5",
}
LINES = ["#2f7d5b", "#8c6bb1", "#3b6ea5", "#d98c3f"]
WIDTH = 820


def svg(height, parts):
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}" font-family="sans-serif">'
    )
    return "\n".join([head, f'<rect width="{WIDTH}" height="{height}" fill="white"/>', *parts, "</svg>"]) + "\n"


def short(name):
    return name.removesuffix(".gguf").replace("-Instruct", "")


# --- time of the parts of a step: one bar per model and kind of step


def time_bar(title, step, y):
    left, width = 250, 380
    parts = [text(left - 10, y + 15, title, anchor="end")]
    x = left
    for name, colour in PARTS.items():
        share = step["parts"].get(name, {"seconds": 0})["seconds"] / step["seconds"]
        parts.append(
            f'<rect x="{x:.1f}" y="{y}" width="{share * width:.1f}" height="20" fill="{colour}"/>'
        )
        if share > 0.06:
            label = f"{100 * share:.0f}"
            parts.append(text(x + share * width / 2, y + 14, label, anchor="middle", size=11, colour="white"))
        x += share * width
    took = f"{step['seconds'] * 1e3:.2f} ms, {100 * step['share']:.0f} % of the limits"
    return [*parts, text(left + width + 8, y + 15, took, size=11, colour=FAINT)]


def time_plot(models):
    parts = [text(16, 26, "Where the time of a step goes, in percent", size=16, weight="bold")]
    x = 16
    for name, colour in PARTS.items():
        parts += [
            f'<rect x="{x}" y="40" width="11" height="11" fill="{colour}"/>',
            text(x + 16, 50, name, size=11),
        ]
        x += 44 + 6.5 * len(name)
    y = 70
    for model in models:
        parts += time_bar(f"{short(model['model'])}: 1 token", model["decode"], y)
        parts += time_bar(f"{model['prefill']['tokens']} tokens", model["prefill"], y + 26)
        y += 66
    return svg(y + 4, parts)


# --- speed by threads, batch and depth: lines


class Chart:
    """Draws points on a separate grid; x positions are ranks, because sweep values double."""

    def __init__(self, left, title, labels, top, mark):
        self.left, self.labels, self.top = left, labels, top
        self.parts = [text(left, 70, title, weight="bold")]
        for i, label in enumerate(labels):
            self.parts.append(text(self.x(i), 338, str(label), anchor="middle", size=11, colour=FAINT))
        value = 0
        while value <= top + 1e-9:
            y = self.y(value)
            self.parts.append(
                f'<line x1="{left}" y1="{y:.1f}" x2="{left + 330}" y2="{y:.1f}" stroke="#dfe3e8"/>'
            )
            self.parts.append(text(left - 6, y + 4, f"{value:g}", anchor="end", size=11, colour=FAINT))
            value = round(value + mark, 6)

    def x(self, index):
        return self.left + 15 + 300 * index / max(1, len(self.labels) - 1)

    def y(self, value):
        return 318 - 230 * value / self.top

    def line(self, values, colour):
        points = [(self.x(i), self.y(value)) for i, value in enumerate(values)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self.parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for x, y in points:
            self.parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>')


def sweeps_plot(models):
    batches = [row["batch"] for row in models[0]["batch"]]
    depths = [row["depth"] for row in models[0]["depth"]]
    most = math.ceil(max(row["ratio"] for model in models for row in model["batch"]))
    left = Chart(50, "tokens/s of all sequences, to those of one", batches, most, 1)
    right = Chart(460, "tokens/s at a depth, to those at 0", depths, 1.0, 0.2)
    parts = [
        text(16, 26, "Decoding many sequences, and deep in a context", size=16, weight="bold"),
        text(50 + 165, 356, "sequences", anchor="middle", size=11, colour=FAINT),
        text(460 + 165, 356, "tokens in the cache", anchor="middle", size=11, colour=FAINT),
    ]
    x = 16
    for model, colour in zip(models, LINES):
        left.line([row["ratio"] for row in model["batch"]], colour)
        right.line([row["ratio"] for row in model["depth"]], colour)
        label = short(model["model"])
        parts += [
            f'<rect x="{x}" y="38" width="11" height="11" fill="{colour}"/>',
            text(x + 16, 48, label, size=11, colour=INK),
        ]
        x += 40 + 6.5 * len(label)
    return svg(370, [*parts, *left.parts, *right.parts])


def read(folder, pattern):
    found = [json.loads(path.read_text()) for path in sorted(folder.glob(pattern))]
    return sorted(found, key=lambda report: report.get("model_bytes", 0))


def main(arguments):
    folder = Path(arguments[0]) if arguments else REPOSITORY / "docs" / "performance"
    peers = read(folder, "peers-*.json")
    if peers:
        results = [row for _, rows in newest(peers).values() for row in rows]
        fullest = max(peers, key=lambda report: len(report["programs"]))
        together = {**fullest, "results": sorted(results, key=lambda row: row["model_bytes"])}
        (folder / "ratios.svg").write_text(ratio_plot.draw(together))
    models = read(folder, "model-*.json")
    if models:
        (folder / "time.svg").write_text(time_plot(models))
        (folder / "sweeps.svg").write_text(sweeps_plot(models))


if __name__ == "__main__":
    main(sys.argv[1:])
