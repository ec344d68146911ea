#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""scripts/bench/ratio_chart.py OUT.svg REPORT.md... - every case of reports of ./dev bench peers as a ratio, sorted.

A bar is the best of ob1, pml/ucx and MPICH divided by the component (for a rate or a bandwidth, the other way round), on a
logarithmic scale.  Bars below 1, cases in which a rival is better, are red.  Only cases that all three have are drawn.
"""
import math
import re
import sys

UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1, "GB/s": 1e9, "MB/s": 1e6, "M/s": 1e6, "k/s": 1e3, "MiB": 2**20, "KiB": 2**10}
RIVALS = ("Open MPI ob1", "Open MPI pml/ucx", "MPICH ch4:ucx")
OURS = "Matchbox, component of Open MPI"
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 880, 330, 62, 12, 46, 40
TICKS = (.05, .1, .2, .5, 1, 2, 5, 10, 50, 200)


def value(cell):
    """(number, is more better?) of a cell, or None."""
    found = re.match(r"([\d.]+) (\S+)", cell.strip())
    return found and (float(found.group(1)) * UNITS[found.group(2)], "/s" in found.group(2))


def cases(path):
    """[(name, ratio)] of the tables between near cores, and of whole jobs."""
    title, header = "", None
    with open(path, encoding="utf-8") as file:
        for line in file:
            if line.startswith("**"):
                title = line.strip().strip("*")
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            if not line.startswith("|"):
                header = None
            elif header is None:
                header = cells
            elif OURS in header and title and "far cores" not in title:
                row = {name: value(cell) for name, cell in list(zip(header, cells))[1:] if value(cell)}
                rivals = [row[name][0] for name in RIVALS if name in row]
                if OURS in row and len(rivals) == len(RIVALS):
                    ours, more = row[OURS]
                    yield f"{title}, {cells[0]}", ours / max(rivals) if more else min(rivals) / ours


def where(path):
    """The date and the processor of a report."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    return ", ".join([re.search(r"date=(\S+)", text).group(1), re.search(r"cpu=(\S+)", text).group(1).replace("_", " ")])


def short(case):
    """The name of a case without the distance of its cores, and its ratio."""
    name = re.sub(r", (near cores|a (cache )?line takes [^,]*)", "", case[1])
    name = re.sub(r"(memory|time), (\d+)$", r"\1, \2 ranks", name)
    name = re.sub(r"(SOURCE|exact), ([\d,]+)$", r"\1, \2 posted", name)
    return f"{name}: {case[0]:.{2 if case[0] < 1 else 3}g}"


def main():
    found, seen = [], set()
    for path in sys.argv[2:]:
        for name, ratio in cases(path):
            if name not in seen:
                found.append((ratio, name))
                seen.add(name)
    found.sort()
    low, high = math.log10(.03), math.log10(250)
    step = (WIDTH - LEFT - RIGHT) / len(found)

    def y(ratio):
        return TOP + (HEIGHT - TOP - BOTTOM) * (1 - (math.log10(ratio) - low) / (high - low))

    lost = sum(ratio < .995 for ratio, _ in found)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-labelledby="t">',
           "<!-- SPDX-License-Identifier: BSD-3-Clause; made by scripts/bench/ratio_chart.py -->",
           f'<title id="t">{len(found)} cases, sorted: the best of ob1, UCX and MPICH divided by Matchbox. A rival is better in {lost}.</title>',
           "<style>text { font: 13px sans-serif; fill: #1c1c28 } .grid { stroke: #d5d9e0 } .one { stroke: #1c1c28; stroke-width: 1.5 }"
           " .win { fill: #7c8aa5 } .loss { fill: #c62828 } .lost { fill: #c62828 }"
           " @media (prefers-color-scheme: dark) { text { fill: #e8e8f0 } .grid { stroke: #3a3f4a } .one { stroke: #e8e8f0 }"
           " .win { fill: #8fa0bd } .loss, .lost { fill: #ef6a6a } }</style>",
           f'<text x="{LEFT}" y="20">times faster than the best of ob1, UCX and MPICH, {len(found)} cases, sorted</text>',
           f'<text x="{LEFT}" y="38" class="lost">red: a rival is better, {lost} cases</text>',
           f'<text x="{WIDTH - RIGHT}" y="20" text-anchor="end">{where(sys.argv[2])}</text>']
    for tick in TICKS:
        out.append(f'<path class="{"one" if tick == 1 else "grid"}" d="M{LEFT} {y(tick):.1f}H{WIDTH - RIGHT}"/>'
                   f'<text x="{LEFT - 8}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick:g}</text>')
    for i, (ratio, name) in enumerate(found):
        top, bottom = sorted((y(ratio), y(1)))
        out.append(f'<rect class="{"loss" if ratio < .995 else "win"}" x="{LEFT + i * step + .4:.1f}" y="{top:.1f}" width="{step - .8:.1f}" '
                   f'height="{max(bottom - top, .6):.1f}"><title>{name}: {ratio:.2f}</title></rect>')
    out.append(f'<text x="{LEFT}" y="{HEIGHT - 14}">{short(found[0])}</text>'
               f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 14}" text-anchor="end">{short(found[-1])}</text></svg>')
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        file.write("\n".join(out) + "\n")
    for ratio, name in found[:lost + 2]:
        print(f"{ratio:.2f} {name}")
    print(len(found), "cases", lost, "lost", "median", found[len(found) // 2][0])


main()
