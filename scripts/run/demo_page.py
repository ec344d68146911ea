# SPDX-License-Identifier: BSD-3-Clause
"""The page that ./dev demo writes: one HTML file with a picture for each question, and all numbers.

The pictures are drawn here as SVG, so that the page needs no other program and no other file.
"""
import html
import math

COLORS = {"matchbox": "#c62828", "ob1": "#1565c0", "ucx": "#2e7d32"}  # as scripts/bench/benchlib.py
STYLE = """body{font:16px/1.5 system-ui,sans-serif;margin:2em auto;max-width:62em;padding:0 1em;color:#222}
table{border-collapse:collapse;font-size:14px}td,th{padding:.2em .9em;text-align:right;border-bottom:1px solid #ddd}
td:first-child,th:first-child{text-align:left}.remark{background:#fdf2e9;padding:.6em 1em;border-left:4px solid #e67e22}
.lost{color:#888}svg{max-width:100%;height:auto}pre{background:#f6f6f6;padding:.6em 1em;overflow-x:auto}"""


def text_of(value, unit):
    if value is None:
        return "too slow"
    digits = 2 if value < 10 else 1 if value < 100 else 0
    return f"{value:,.{digits}f} {unit}"


def label(x, y, text, anchor="start", size=15, color="#222", weight="normal"):
    return (f"<text x='{x:.0f}' y='{y:.0f}' text-anchor='{anchor}' font-size='{size}' fill='{color}' "
            f"font-weight='{weight}'>{html.escape(text)}</text>")


def svg(width, height, parts):
    return (f"<svg viewBox='0 0 {width} {height}' width='{width}' height='{height}' role='img' "
            f"font-family='system-ui,sans-serif'>{''.join(parts)}</svg>")


def bars(case, values, names):
    """One bar for each way, from 0, with its value at the end."""
    known = [value for value in values.values() if value is not None]
    most = max(known + [1e-9])
    parts = []
    for n, (engine, value) in enumerate(values.items()):
        y = 12 + 38 * n
        width = 460 * (value or 0) / most
        weight = "bold" if engine == "matchbox" else "normal"
        parts.append(label(140, y + 19, names[engine], "end", weight=weight))
        parts.append(f"<rect x='150' y='{y}' width='{max(2, width):.0f}' height='28' "
                     f"fill='{COLORS.get(engine, '#777')}'/>")
        parts.append(label(150 + max(2, width) + 8, y + 19, text_of(value, case.unit), weight=weight))
    return svg(780, 20 + 38 * len(values), parts)


def spread(marks, least=22):
    """Heights that are at least so far apart, in the order of `marks` (name, height)."""
    placed, last = {}, -math.inf
    for name, y in sorted(marks, key=lambda mark: mark[1]):
        last = max(y, last + least)
        placed[name] = last
    return placed


def curves(cases, best, engines, names):
    """Value over depth, both logarithmic; each curve with its name and last value."""
    points = {engine: [(case.depth, best(case, engine)) for case in cases if best(case, engine)]
              for engine in engines}
    values = [y for line in points.values() for _, y in line]
    if not values:
        return ""
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    high = max(high, low + 1)
    x_low, x_high = math.log(cases[0].depth), math.log(cases[-1].depth)

    def place(x, y):
        return (80 + 460 * (math.log(x) - x_low) / (x_high - x_low or 1),
                20 + 260 * (high - math.log10(y)) / (high - low))

    parts = []
    for power in range(low, high + 1):
        _, y = place(cases[0].depth, 10.0 ** power)
        parts.append(f"<path d='M80 {y:.0f}H540' stroke='#ddd'/>")
        parts.append(label(72, y + 5, f"{10.0 ** power:g} us", "end", 13))
    for case in cases:
        x, _ = place(case.depth, 10.0 ** low)
        parts.append(label(x, 300, f"{case.depth:,}", "middle", 13))
    parts.append(label(310, 322, "posted receives in the queue", "middle", 14))
    ends = spread([(engine, place(*line[-1])[1]) for engine, line in points.items() if line])
    for engine, line in points.items():
        if not line:
            continue
        color, is_ours = COLORS.get(engine, "#777"), engine == "matchbox"
        path = " ".join(f"{x:.0f},{y:.0f}" for x, y in (place(*point) for point in line))
        parts.append(f"<polyline points='{path}' fill='none' stroke='{color}' "
                     f"stroke-width='{4 if is_ours else 2.5}'/>")
        parts.append(label(552, ends[engine] + 5, f"{names[engine]}: {text_of(line[-1][1], 'us')}", color=color,
                           weight="bold" if is_ours else "normal"))
    return svg(820, 330, parts)


def table(rows):
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in rows[0])
    body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
                   for row in rows[1:])
    return f"<table><tr>{head}</tr>{body}</table>"


def page(rounds, names, rows, matched, explained, about):
    """The whole file.  rows and matched are tables of text; explained is what `mbx doctor` has said of a hang;
    about says what the machine is."""
    def section(title, text, picture):
        return f"<h2>{html.escape(title)}</h2><p>{html.escape(text)}</p>{picture}"

    by_key = {case.key: case for case in rounds.cases}
    parts = [f"<p class='remark'>{html.escape(remark)}</p>" for remark in rounds.remarks()]
    for kind, what in (("exact", "that name their source"), ("ANY_SOURCE", "from any source")):
        cases = [case for case in rounds.cases if case.key.startswith(f"depth-{kind}-")]
        parts.append(section(f"Latency of 8 bytes, with posted receives {what}",
                             "These receives have other tags, and were posted first; nothing matches them.",
                             curves(cases, rounds.best, rounds.engines, names)))
    texts = {
        "flood": "Four ranks send 20,000 messages of 1,000 bytes each before the receiver asks for one. How much "
                 "does its resident memory grow?",
        "overlap": "A receive of 1 MiB is posted, then its rank computes as long as the transfer takes. Which part "
                   "of the data has arrived by then?",
        "latency": "One message at a time, to a receive that waits.",
        "latency-64K": "One message at a time; half of the time of a round trip.",
        "rate": "Short messages, 64 at a time.",
    }
    for key, text in texts.items():
        if key in by_key:
            case = by_key[key]
            values = {engine: rounds.best(case, engine) for engine in rounds.engines}
            parts.append(section(case.title, text, bars(case, values, names)))
    parts.append("<h2>All numbers</h2>" + table(rows))
    if explained:
        parts.append("<h2>A program that hangs</h2><p>Rank 1 sends tag 8, rank 0 receives tag 7. Over ob1 nothing is "
                     "printed. <code>mbx doctor</code> says:</p><pre>" + html.escape(explained) + "</pre>")
    if matched:
        parts.append("<h2>What Matchbox matched in unmodified programs</h2>" + table(matched))
    return ("<!DOCTYPE html><html lang='en'><head><meta charset='utf-8'><title>Matchbox: the demonstration</title>"
            f"<style>{STYLE}</style></head><body><h1>Matchbox and Open MPI's own layers</h1>"
            f"<p>The best of {rounds.count} round{'s' if rounds.count != 1 else ''} in turns, on "
            f"this machine.</p><pre>{html.escape(about)}</pre>" + "\n".join(parts) + "</body></html>\n")
