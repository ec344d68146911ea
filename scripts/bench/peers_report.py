# SPDX-License-Identifier: BSD-3-Clause
"""The report of a bench of several peers: tables with the cases that are lost, and plots; peers_aims.py has the aims."""
import os
import statistics
import sys

import peers_aims
from peers_who import ALL, CURVES, DRAWN, MPIS

CLASSES = {"near": "near cores", "far": "far cores", "one-core": "two threads of one core",
           "moved": "while the cores moved", "unknown": "the distance of the cores is not known"}
NEAR_MOST_NS = 90  # as bench/distance.h
WIDTH_IN, PANEL_IN = 9.6, 3.7  # at 90 points per inch 9-point letters have 11 pixels, where a page is 880 wide
OFF = 10  # times the best rival: such a curve is left to the table
FEWEST = 3  # minimum batches of a valid line of mpi_pt2pt, as in scripts/bench/pt2pt
UNITS = {"ns": [(1, "ns"), (1e3, "us"), (1e6, "ms"), (1e9, "s")], "us": [(1, "us"), (1e3, "ms"), (1e6, "s")],
         "ms": [(1e-3, "us"), (1, "ms"), (1e3, "s")], "MB/s": [(1, "MB/s"), (1e3, "GB/s")],
         "/s": [(1, "/s"), (1e3, "k/s"), (1e6, "M/s")], "KiB": [(1, "KiB"), (1024, "MiB"), (1 << 20, "GiB")]}


def read(folder, bench):
    """The lines as dicts, in their order."""
    path = os.path.join(folder, "lines.txt")
    try:
        with open(path, encoding="utf-8") as lines:
            return [dict(word.split("=", 1) for word in line.split()) for line in lines if line.strip()]
    except (OSError, ValueError) as error:
        sys.exit(f"{bench.name}: {path}: {error}")


def looks_itself(line):
    """bench/mpi_pt2pt looks at each batch, and mbx perf lat at a cache line between the messages."""
    return "distance" in line or "line_median_ns" in line


def cores_meanwhile(line, cores):
    """The distance of the cores during a run, if the looks before and after it found `cores`.  Virtual cores that wait are
    far from each other, and come near when they work: if the program has not looked itself, far ones prove nothing."""
    if cores == "far" and not looks_itself(line):
        return "unknown"
    if "line_median_ns" in line and cores in ("near", "far"):
        if (float(line["line_median_ns"]) <= NEAR_MOST_NS) != (cores == "near"):
            return "moved"
    return cores


def counts(line):
    """Are the figures of this line of enough batches?"""
    return int(line.get("batches", FEWEST)) >= FEWEST


def short(value, unit):
    """Three digits and the unit that suits: 6.34 us."""
    scale, name = next(((s, n) for s, n in reversed(UNITS[unit]) if abs(value) >= s), UNITS[unit][0])
    number = value / scale
    return f"{number:.0f} {name}" if number >= 100 else f"{number:.3g} {name}"


def bytes_word(text):
    size = int(text)
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB" if size >= 1024 else f"{size} B"


def x_word(figure, x):
    return bytes_word(x) if figure.x == "size" else f"{x:,}"


class Cells:
    """The cases of one figure: (class of cores, panel, x, who) -> (median, best), over the rounds."""

    def __init__(self, question, figure, lines):
        self.question, self.figure = question, figure
        found = {}  # a repeated measurement replaces earlier ones of the same round
        for line in lines:
            values = figure.values(line) if line.get("question") == question.name and "about" not in line else None
            if values and figure.x in line and counts(line):
                cores = cores_meanwhile(line, line["cores"]) if question.by_distance else "any"
                key = (cores, figure.panel_of(line), int(line[figure.x]), line["who"])
                found.setdefault(key, {})[line.get("round")] = values
        best = min if figure.better == "less" else max
        self.values = {key: (statistics.median(m for m, _ in rounds.values()), best(b for _, b in rounds.values()))
                       for key, rounds in found.items()}
        self.only = next((line["only_cores"] for line in lines if line.get("only_cores", "any") != "any"), None)
        self.lines_ns = [float(ns) for line in lines if line.get("question") == question.name and "line_ns" in line
                         for ns in line["line_ns"].split(",") if float(ns) > 0]
        skipped = [line for line in lines if line.get("question") == question.name and "skipped" in line]
        self.skipped = {(line["who"], line["group"], line.get("depth", "")): line for line in reversed(skipped)}
        self.stopped = {(figure.panel_of(line), int(line["depth"]), line["who"]): line["why"].replace("_", " ")
                        for line in reversed(skipped) if "depth" in line}

    def stopped_xs(self, panel):
        return {key[1] for key in self.stopped if key[0] == panel}

    def classes(self):
        """Those with tables: near and far, or the one of --cores; and the others if there is nothing else."""
        there = {key[0] for key in self.values if ALL[key[3]].is_ours()}
        if self.only in there:
            return [self.only]
        return [c for c in ("near", "far", "any") if c in there] or [c for c in CLASSES if c in there]

    def where(self, cores):
        """Near or far; the time of a cache line in the runs of a question that has one table for all."""
        if cores != "any":
            return CLASSES[cores]
        return f"a cache line takes {min(self.lines_ns):.0f} to {max(self.lines_ns):.0f} ns" if self.lines_ns else ""

    def panels(self, cores):
        """The panels in which Matchbox was measured."""
        return list(dict.fromkeys(key[1] for key in self.values if key[0] == cores and ALL[key[3]].is_ours()))

    def left_out(self):
        shown = {(cores, panel) for cores in self.classes() for panel in self.panels(cores)}
        return sum(key[:2] not in shown for key in self.values)

    def who(self, cores, panel):
        there = {key[3] for key in self.values if key[:2] == (cores, panel)}
        return [name for name in ALL if name in there]

    def xs(self, cores, panel):
        return sorted({key[2] for key in self.values if key[:2] == (cores, panel)})

    def lost(self, cores, panel, x, name):
        """(by what factor, to whom) Matchbox loses to the best of its rivals here; None: it does not."""
        mine = self.values.get((cores, panel, x, name))
        rivals = {r: self.values[cores, panel, x, r][0] for r in ALL[name].rivals
                  if (cores, panel, x, r) in self.values}
        if mine is None or not rivals:
            return None
        is_time = self.figure.better == "less"
        best = min(rivals, key=rivals.get) if is_time else max(rivals, key=rivals.get)
        over, under = (mine[0], rivals[best]) if is_time else (rivals[best], mine[0])
        if under <= 0:  # memory that did not grow
            return (float("inf"), best) if over > 0 else None
        return (over / under, best) if over / under >= peers_aims.SAME else None


# ---- the page --------------------------------------------------------------------

def factor(value):
    return "all" if value == float("inf") else f"{value:.2f}" if value < 100 else f"{value:.0f}"


def cell(cells, cores, panel, x, name):
    value = cells.values.get((cores, panel, x, name))
    if value is None:
        return cells.stopped.get((panel, x, name), "-")
    unit = cells.figure.unit
    text = short(value[0], unit) + (f" ({short(value[1], unit)})" if value[1] != value[0] else "")
    lost = cells.lost(cores, panel, x, name)
    return f"{text} **lost {factor(lost[0])}**" if lost else text


def table(cells, cores, panel):
    figure = cells.figure
    who = cells.who(cores, panel)
    cases = {v.x: v for v in peers_aims.verdicts(cells, cores, panel)} if figure.aim else {}
    titles = [ALL[name].title for name in who] + ([f"ratio; {figure.aim.text}"] if cases else [])
    yield f"| {figure.x} | " + " | ".join(titles) + " |"
    yield "| ---: |" + " ---: |" * len(titles)
    for x in cells.xs(cores, panel):
        row = [cell(cells, cores, panel, x, name) for name in who]
        row += [cases[x].cell() if x in cases else "-"] if cases else []
        yield f"| {x_word(figure, x)} | " + " | ".join(row) + " |"


def section(question, all_cells, pictures):
    yield f"## {question.title}"
    yield ""
    yield question.text
    yield ""
    if pictures.get(question.name):
        yield f"![{question.title}]({question.name}.png)"
        yield ""
    for cells in all_cells:
        for cores in cells.classes():
            for panel in cells.panels(cores):
                title = ", ".join(filter(None, [cells.figure.title, panel, cells.where(cores)]))
                yield from ["**" + title[0].upper() + title[1:] + "**", "", *table(cells, cores, panel), ""]
    if all_cells and all_cells[0].left_out():
        yield f"{all_cells[0].left_out()} cases with other distances between the cores are in lines.txt only."
        yield ""
    for (who, group, depth), line in all_cells[0].skipped.items():
        why = "did not end" if line["skipped"] == "too_slow" else "failed"
        where = f"{group}, {int(depth):,} deep" if depth else group
        yield f"{ALL[who].title} {why} in {where}: {line.get('why', '').replace('_', ' ')[:120]}"
        yield ""


def summary_row(cells, cores, name):
    """For a form of Matchbox, in one figure: how many cases it loses, and which one most; None: there are no cases."""
    cases = [(cores, panel, x) for panel in cells.panels(cores) for x in cells.xs(cores, panel)
             if (cores, panel, x, name) in cells.values and
             any((cores, panel, x, rival) in cells.values for rival in ALL[name].rivals)]
    lost = [(cells.lost(*case, name), case) for case in cases if cells.lost(*case, name)]
    if not cases:
        return None
    where = "-"
    if lost:
        (worst, to), (_, panel, x) = max(lost, key=lambda found: found[0][0])
        at = x_word(cells.figure, x) + {"ranks": " ranks", "depth": " deep"}.get(cells.figure.x, "")
        where = f"{factor(worst)} x {ALL[to].title}: " + ", ".join(filter(None, [panel, at]))
    title = cells.question.title
    if cells.figure.title.lower() != title.lower():
        title += f": {cells.figure.title}"
    return f"| {title} | {cells.where(cores)} | {ALL[name].title} | {len(lost)} of {len(cases)} | {where} |"


def aims(all_cells):
    yield from ["## The aims", "",
                "A case is one size or depth. The ratio divides the component's median by the best rival's (medians of the",
                "rounds). A difference of less than half a percent does not count. [aims.txt](aims.txt) has every case.",
                "", *peers_aims.table(all_cells, x_word), ""]


def page(lines, bench, all_cells, pictures):
    about = [line for line in lines if "about" in line and line["about"] not in ("unit",)]
    yield from [f"# {bench.title}", "",
                f"Written by `./dev bench {bench.folder}`; [lines.txt](lines.txt) has every line. A cell has the median of",
                "the rounds, and in brackets the best of them. **lost 1.23**: the best rival is better by this factor.", "",
                "```"]
    yield from (" ".join(f"{key}={value}" for key, value in line.items()) for line in about)
    yield from ["```", ""]
    every = [cells for group in all_cells.values() for cells in group]
    if any(cells.figure.aim for cells in every):
        yield from aims(every)
    yield from ["## Where Matchbox loses", "", "| question | cores | Matchbox | cases lost | worst case |",
                "| --- | --- | --- | ---: | --- |"]
    ours = [name for name, who in ALL.items() if who.is_ours()]
    for cells in every:
        for cores in cells.classes():
            yield from filter(None, (summary_row(cells, cores, name) for name in ours))
    yield ""
    for question in bench.asked:
        if any(cells.values for cells in all_cells[question.name]):
            yield from section(question, all_cells[question.name], pictures)


# ---- plots -----------------------------------------------------------------------

def plotter():
    """matplotlib, or None."""
    try:
        import matplotlib
        matplotlib.use("Agg")
        matplotlib.rcParams["svg.hashsalt"] = "peers"
        matplotlib.rcParams["svg.fonttype"] = "none"  # text, not outlines of letters
        import matplotlib.pyplot as plt
    except ImportError:
        return None
    return plt


def spread(places, least):
    """The places, in their order, moved apart until neighbours are so far from each other."""
    order = sorted(range(len(places)), key=lambda i: places[i])
    moved = [places[i] for i in order]
    for _ in range(200):
        for i in range(1, len(moved)):
            gap = moved[i] - moved[i - 1]
            if gap < least:
                moved[i] += (least - gap) / 2
                moved[i - 1] -= (least - gap) / 2
    found = [0.0] * len(places)
    for place, i in zip(moved, order):
        found[i] = place
    return found


def curve(cells, cores, panel, name):
    """[(x, value)], or with as_ratio [(x, value divided by the best rival's)]."""
    found = []
    for x in cells.xs(cores, panel):
        value = cells.values.get((cores, panel, x, name), (0,))[0]
        rivals = [cells.values[key][0] for key in ((cores, panel, x, rival) for rival in MPIS) if key in cells.values]
        if value > 0 and cells.figure.as_ratio:
            value = value / min(rivals) if len(rivals) > 1 else 0
        if value > 0:
            found.append((x, value))
    return found


def is_off(points):
    """Would the curve of these ratios make all others flat?"""
    return min(value for _, value in points) > OFF


def curves(cells, cores, panel):
    """({name: points} of at most CURVES, [what the picture leaves to the table])"""
    drawn, left = {}, []
    for name in sorted(cells.who(cores, panel), key=DRAWN.index):
        points = curve(cells, cores, panel, name)
        if points and cells.figure.as_ratio and is_off(points):
            ratios = [value for _, value in points]
            left.append(f"{ALL[name].title}: {min(ratios):.0f} to {max(ratios):.0f} times the best")
        elif points and len(drawn) < CURVES:
            drawn[name] = points
    return drawn, left


def draw_panel(plt, axes, cells, cores, panel):
    figure, ends = cells.figure, []
    drawn, left = curves(cells, cores, panel)
    for name, points in drawn.items():
        who = ALL[name]
        axes.plot(*zip(*points), marker="o", markersize=4, color=who.color, linestyle=who.style,
                  linewidth=3 if who.is_ours() else 1.6)
        ends.append((who, points[-1]))
    if not ends:
        return
    xs = cells.xs(cores, panel)
    if xs[0] == 0:  # left of the other positions
        axes.set_xscale("symlog", base=2, linthresh=xs[1] if len(xs) > 1 else 1)
    else:
        axes.set_xscale("log", base=2)
    if figure.as_ratio:
        axes.axhline(1, color="black", linewidth=1)
    else:
        axes.set_yscale("log")
    xs = xs[::max(1, -(-len(xs) // 8))]
    axes.set_xticks(xs, [x_word(figure, x) for x in xs])
    axes.xaxis.set_minor_locator(plt.NullLocator())
    low, high = axes.get_ylim()
    if not figure.as_ratio:
        axes.yaxis.set_major_locator(plt.matplotlib.ticker.LogLocator(subs=(1, 2, 5) if high < 300 * low else (1,)))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.2f}" if figure.as_ratio else short(value, figure.unit))
    axes.yaxis.set_minor_formatter(plt.NullFormatter())
    axes.tick_params(labelsize=9)
    axes.grid(True, which="major", linewidth=0.4)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.set_xlabel({"size": "bytes of a message", "depth": "messages in the queue", "ranks": "ranks"}[figure.x],
                    fontsize=10)
    title = ", ".join(filter(None, [figure.title, panel, cells.where(cores)]))
    title += " (divided by the best of ob1, UCX and MPICH)" if figure.as_ratio else ""
    axes.set_title("\n".join([title] + [f"not drawn: {text}" for text in left]), fontsize=10, loc="left")
    label_ends(axes, ends, figure)


def end_word(figure, value):
    return f"{value:.2f}" if figure.as_ratio else short(value, figure.unit)


def label_ends(axes, ends, figure):
    """Each curve's name and last value at its end, none above another."""
    to_axes = (axes.transData + axes.transAxes.inverted()).transform
    right = max(point[0] for _, point in ends)
    places = spread([to_axes(point)[1] for _, point in ends], 0.064)
    for (who, point), place in zip(ends, places):
        at_end = "" if point[0] == right else f" at {x_word(figure, point[0])}"
        axes.annotate(f"{who.title}  {end_word(figure, point[1])}{at_end}", to_axes(point), xytext=(1.04, place),
                      xycoords="axes fraction", textcoords="axes fraction", va="center", fontsize=9, color=who.color,
                      fontweight="bold" if who.is_ours() else "normal", annotation_clip=False,
                      arrowprops={"arrowstyle": "-", "relpos": (0, 0.5), "color": who.color, "linewidth": 0.5,
                                  "shrinkA": 0, "shrinkB": 3})


def draw(plt, folder, formats, question, all_cells, where):
    """NAME.png, and whatever else is in formats: one panel above the other, and `where` in the corner.  Is there one?  Panels of
    fewer than three points are tables only."""
    places = [(cells, cores, panel) for cells in all_cells for cores in cells.classes() for panel in cells.panels(cores)
              if len(cells.xs(cores, panel)) > 2]
    if not places:
        return False
    high = PANEL_IN * len(places) + 0.6
    picture, axes = plt.subplots(len(places), 1, squeeze=False, figsize=(WIDTH_IN, high))
    picture.suptitle(question.title, fontsize=13, x=0.01, ha="left")
    picture.subplots_adjust(left=0.08, right=0.68, hspace=0.42, top=1 - 0.85 / high, bottom=0.7 / high)
    for ax, place in zip(axes.flat, places):
        draw_panel(plt, ax, *place)
    picture.text(0.01, 0.08 / high, where, fontsize=9, color="#4a4a5a")
    path = os.path.join(folder, question.name)
    about = {"png": {"Software": None}, "svg": {"Date": None, "Creator": None}}
    for kind in formats:
        picture.savefig(f"{path}.{kind}", dpi=90, bbox_inches="tight", metadata=about[kind])
    plt.close(picture)
    return True


def where(lines):
    """Date and processor, for the corner of a picture."""
    about = {line["about"]: line for line in lines if line.get("about") in ("run", "machine")}
    cpu = about.get("machine", {}).get("cpu", "unknown").replace("_", " ")
    return f"{about.get('run', {}).get('date', '')}, {cpu}".strip(", ")


def write(folder, bench):
    """Tables and plots of what folder/lines.txt says, and the aims.  0."""
    lines = read(folder, bench)
    all_cells = {q.name: [Cells(q, figure, lines) for figure in q.figures] for q in bench.asked}
    plt = plotter()
    if plt is None:
        print(f"{bench.name}: without python3-matplotlib there are no plots; the tables are written", file=sys.stderr)
    pictures = {q.name: plt is not None and draw(plt, folder, bench.formats, q, all_cells[q.name], where(lines))
                for q in bench.asked}
    with open(os.path.join(folder, "report.md"), "w", encoding="utf-8") as out:
        out.writelines(line + "\n" for line in page(lines, bench, all_cells, pictures))
    met = [line for group in all_cells.values() for cells in group for line in peers_aims.lines(cells)]
    if met:
        with open(os.path.join(folder, "aims.txt"), "w", encoding="utf-8") as out:
            out.writelines(line + "\n" for line in met)
        print("\n".join(met))
    print(f"{bench.name}: written to {os.path.relpath(folder)}/", file=sys.stderr)
    return 0
