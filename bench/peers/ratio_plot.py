"""Draws the ratios of a comparison as horizontal bars, in SVG, with no library."""

from xml.sax.saxutils import escape

WIDTH = 760
LABELS = 230  # columns left of the bars
VALUES = 190  # columns right of them
ROW = 24
HEAD = 58
TITLE_ROW = 30
FOOT = 34

AHEAD = "#2f7d5b"
BEHIND = "#b5563c"
INK = "#24292f"
FAINT = "#6e7781"


def text(x, y, words, *, anchor="start", size=12, colour=INK, weight="normal"):
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{colour}" '
        f'text-anchor="{anchor}" font-weight="{weight}">{escape(words)}</text>'
    )


def advantage(row):
    """How many times veery is better: speed over speed, or the peer's time over veery's."""
    return row["ratio"] if row["higher_is_better"] else 1 / row["ratio"]


def bar(row, y, scale):
    """One test. `scale`: pixels for an advantage of 1."""
    value = advantage(row)
    colour = AHEAD if value >= 1 else BEHIND
    width = value * scale
    medians = f"{row['veery']['median']:.0f} / {row['llama.cpp']['median']:.0f} {row['unit']}"
    return [
        text(LABELS - 10, y + 15, row["test"], anchor="end"),
        f'<rect x="{LABELS}" y="{y + 4}" width="{width:.1f}" height="15" fill="{colour}"/>',
        text(LABELS + width + 6, y + 16, f"{value:.2f} x", weight="bold"),
        text(WIDTH - 10, y + 16, medians, anchor="end", size=11, colour=FAINT),
    ]


def height_of(models, rows):
    return HEAD + TITLE_ROW * len(models) + ROW * len(rows) + FOOT


def draw(report):
    """Returns an SVG of every result that has a ratio. A longer bar is always better."""
    rows = [row for row in report["results"] if "ratio" in row]
    models = list(dict.fromkeys(row["model"] for row in rows))
    height = height_of(models, rows)
    longest = max([1.0, *map(advantage, rows)])
    scale = (WIDTH - LABELS - VALUES) / longest
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}" font-family="sans-serif">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        text(16, 26, "veery against llama.cpp, times better", size=16, weight="bold"),
        text(16, 44, subtitle(report), size=11, colour=FAINT),
        text(WIDTH - 10, 44, "medians: veery / llama.cpp", anchor="end", size=11, colour=FAINT),
    ]
    y = HEAD
    for model in models:
        parts.append(text(16, y + 20, model, weight="bold"))
        y += TITLE_ROW
        for row in (row for row in rows if row["model"] == model):
            parts += bar(row, y, scale)
            y += ROW
    even = LABELS + scale
    parts += [
        f'<line x1="{even:.1f}" y1="{HEAD}" x2="{even:.1f}" y2="{y + 6}" stroke="{INK}" '
        'stroke-dasharray="3 3"/>',
        text(even, y + 20, "1 x", anchor="middle", size=11, colour=FAINT),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def subtitle(report):
    settings = report["settings"]
    return f"{report['machine']['cpu']}, {settings['threads']} threads, {settings['rounds']} rounds"
