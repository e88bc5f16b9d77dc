"""Draws the ratios of a comparison as horizontal bars in SVG, without libraries."""

from xml.sax.saxutils import escape

WIDTH = 820
LABELS = 230  # width to the left of the bars
VALUES = 250  # width to the right of the bars
BAR = 15
GAP = 9  # between tests
HEAD = 74
TITLE_ROW = 30
FOOT = 34

COLOURS = ["#2f7d5b", "#3b6ea5"]  # one per peer
BEHIND = "#b5563c"
INK = "#24292f"
FAINT = "#6e7781"


def text(x, y, words, *, anchor="start", size=12, colour=INK, weight="normal"):
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{colour}" '
        f'text-anchor="{anchor}" font-weight="{weight}">{escape(words)}</text>'
    )


def advantages(row):
    """Returns {peer: advantage of veery}: ratio of speeds, or the peer's time over veery's."""
    higher = row["higher_is_better"]
    return {peer: ratio if higher else 1 / ratio for peer, ratio in row["ratios"].items()}


def bars(row, y, scale, colours):
    """Draws one test. `scale`: pixels for an advantage of 1."""
    found = advantages(row)
    middle = y + BAR * len(found) / 2 + 4
    parts = [text(LABELS - 10, middle, row["test"], anchor="end")]
    for peer, value in found.items():
        colour = colours[peer] if value >= 1 else BEHIND
        width = value * scale
        medians = f"{row['veery']['median']:.0f} / {row[peer]['median']:.0f} {row['unit']}"
        parts += [
            f'<rect x="{LABELS}" y="{y}" width="{width:.1f}" height="{BAR - 2}" fill="{colour}"/>',
            text(LABELS + width + 6, y + 11, f"{value:.2f} x", weight="bold"),
            text(WIDTH - 10, y + 11, medians, anchor="end", size=11, colour=FAINT),
        ]
        y += BAR
    return parts


def height_of(row):
    return BAR * len(row["ratios"]) + GAP


def legend(colours):
    parts, x = [], 16
    for peer, colour in colours.items():
        parts += [
            f'<rect x="{x}" y="53" width="11" height="11" fill="{colour}"/>',
            text(x + 16, 63, f"against {peer}", size=11),
        ]
        x += 160
    return [*parts, text(x, 63, "a bar below 1 x is red", size=11, colour=FAINT)]


def draw(report):
    """Returns an SVG of every result that has a ratio. A longer bar is always better."""
    rows = [row for row in report["results"] if row["ratios"]]
    models = list(dict.fromkeys(row["model"] for row in rows))
    peers = list(dict.fromkeys(peer for row in rows for peer in row["ratios"]))
    colours = dict(zip(peers, COLOURS))
    height = HEAD + TITLE_ROW * len(models) + sum(map(height_of, rows)) + FOOT
    longest = max([1.0, *(value for row in rows for value in advantages(row).values())])
    scale = (WIDTH - LABELS - VALUES) / longest
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}" font-family="sans-serif">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        text(16, 26, "veery against its peers, times better", size=16, weight="bold"),
        text(16, 44, subtitle(report), size=11, colour=FAINT),
        text(WIDTH - 10, 44, "medians: veery / peer", anchor="end", size=11, colour=FAINT),
        *legend(colours),
    ]
    y = HEAD
    for model in models:
        parts.append(text(16, y + 20, model, weight="bold"))
        y += TITLE_ROW
        for row in (row for row in rows if row["model"] == model):
            parts += bars(row, y, scale, colours)
            y += height_of(row)
    even = LABELS + scale
    parts += [
        f'<line x1="{even:.1f}" y1="{HEAD}" x2="{even:.1f}" y2="{y + 6}" stroke="{INK}" '
        'stroke-dasharray="3 3"/>',
        text(even, y + 20, "1 x", anchor="middle", size=11, colour=FAINT),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def subtitle(report):
    if "subtitle" in report:
        return report["subtitle"]
    return f"{report['machine']['cpu']}, {report['settings']['threads']} threads"
