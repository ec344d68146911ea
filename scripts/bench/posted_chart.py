#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""scripts/bench/posted_chart.py REPORT.md OUT.svg - README's picture: what a message costs when many receives are posted.

Two panels of a report of ./dev bench peers, exact receives and receives from any source, with the value at the end of each curve.
"""
import math
import re
import sys

UNITS = {"ns": 1, "us": 1e3, "ms": 1e6}
CURVES = [("Matchbox, component of Open MPI", "Matchbox", "ours"), ("Open MPI ob1", "ob1", "a"),
          ("Open MPI pml/ucx", "UCX", "b"), ("MPICH ch4:ucx", "MPICH", "c")]
PANELS = [("One message, exact, near cores", "exact receives"), ("One message, ANY SOURCE, near cores", "MPI_ANY_SOURCE")]
WIDTH, HEIGHT, TOP, BOTTOM, PANEL = 880, 340, 62, 62, 250
LOW, HIGH = math.log10(40), math.log10(90e3)
STYLE = """text { font: 13px sans-serif; fill: #1c1c28 } .head { font-weight: bold; font-size: 14px } .soft { fill: #4a4a5a }
.grid { stroke: #d5d9e0 } path.curve { fill: none; stroke-width: 2 } path.ours { stroke: #c62828; stroke-width: 3.5 } text.ours { fill: #c62828; font-weight: bold }
path.a { stroke: #1565c0 } path.b { stroke: #2e7d32 } path.c { stroke: #6a4c93 } text.a { fill: #1565c0 } text.b { fill: #2e7d32 } text.c { fill: #6a4c93 }
@media (prefers-color-scheme: dark) { text { fill: #e8e8f0 } .soft { fill: #b8bcc8 } .grid { stroke: #3a3f4a } path.ours { stroke: #ef6a6a } text.ours { fill: #ef6a6a }
path.a { stroke: #6aa9f0 } path.b { stroke: #6fbf73 } path.c { stroke: #b79ad9 } text.a { fill: #6aa9f0 } text.b { fill: #6fbf73 } text.c { fill: #b79ad9 } }"""


def table(text, title):
    """{name: [(depth, ns)]}"""
    rows = re.search(re.escape(f"**{title}**") + r"\n\n((?:\|.*\n)+)", text).group(1).strip().split("\n")
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    curves = {name: [] for name in cells[0][1:]}
    for row in cells[2:]:
        for name, cell in zip(cells[0][1:], row[1:]):
            number, unit = re.match(r"([\d.]+) (\w+)", cell).groups()
            curves[name].append((int(row[0].replace(",", "")), float(number) * UNITS[unit]))
    return curves


def words(ns):
    return f"{ns:.0f} ns" if ns < 1000 else f"{ns / 1000:.0f} us"


def panel(out, left, title, curves):
    def x(depth):
        return left + PANEL * (math.log2(depth) - 4) / 10

    def y(ns):
        return TOP + (HEIGHT - TOP - BOTTOM) * (1 - (math.log10(ns) - LOW) / (HIGH - LOW))

    out.append(f'<text class="head" x="{left}" y="{TOP - 14}">{title}</text>')
    for tick in (100, 1e3, 1e4):
        out.append(f'<path class="grid" d="M{left} {y(tick):.1f}H{left + PANEL}"/><text class="soft" x="{left - 6}" y="{y(tick) + 4:.1f}" text-anchor="end">{words(tick)}</text>')
    for depth in (16, 256, 4096, 16384):
        out.append(f'<text class="soft" x="{x(depth):.1f}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle">{depth:,}</text>')
    labels = []
    for name, short, kind in reversed(CURVES):
        points = curves[name]
        out.append(f'<path class="curve {kind}" d="M' + "L".join(f"{x(d):.1f} {y(v):.1f}" for d, v in points) + '"/>')
        labels.append([y(points[-1][1]) + 4, f"{short} {words(points[-1][1])}", kind])
    labels.sort()
    for before, after in zip(labels, labels[1:]):
        after[0] = max(after[0], before[0] + 16)
    out += [f'<text class="{kind}" x="{left + PANEL + 6}" y="{at:.1f}">{text}</text>' for at, text, kind in labels]


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        text = file.read()
    date = re.search(r"date=(\S+)", text).group(1)
    versions = dict(re.findall(r"about=peer name=(\S+) version=(\S+)", text))
    cpu = re.search(r"cpu=(\S+)", text).group(1).replace("_", " ")
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-labelledby="t">',
           "<!-- SPDX-License-Identifier: BSD-3-Clause; made by scripts/bench/posted_chart.py -->",
           '<title id="t">Time of one message against the number of posted receives that are matched in reverse order</title>', f"<style>{STYLE}</style>",
           '<text x="12" y="20">time of one message, by the number of posted receives (matched in reverse order); lower is better</text>']
    for i, (title, words_of) in enumerate(PANELS):
        panel(out, 58 + i * 428, words_of, table(text, title))
    out.append(f'<text class="soft" x="12" y="{HEIGHT - 10}">{date}, two cores of an {cpu} that share a cache; ob1 of Open MPI {versions["open-mpi"]}, UCX {versions["ucx"]}, '
               f'MPICH {versions["mpich"]}</text></svg>')
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        file.write("\n".join(out) + "\n")


main()
