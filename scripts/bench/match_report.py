# SPDX-License-Identifier: BSD-3-Clause
"""The report of ./dev bench match: checked claims, plots, and one page with all of them."""
import base64
import html
import io
import os
import sys

import benchlib

COLORS = {"matchbox": benchlib.RED, "list": "#7f8c8d", "ucx-like": "#66a86a", "ucx": benchlib.COLORS["ucx"],
          "nothing": "#d5d8dc", "ob1": benchlib.COLORS["ob1"], "mpich": benchlib.COLORS["mpich"]}
ORDER = list(COLORS)
# for MPI programs: the name of the MPI, and the key of its version in about=peer
FULL_NAMES = {"matchbox": ("Open MPI over Matchbox", None), "ob1": ("Open MPI {} ob1", "open-mpi"),
              "mpich": ("MPICH {}", "mpich")}


class Figure:
    """Lines of one bench: panels by the values of two keys, in each panel value over x."""

    def __init__(self, bench, title, question, x="depth", rows=None, columns=None,
                 value="median_ns", unit="ns", name=None):
        self.bench, self.title, self.question = bench, title, question
        self.x, self.rows, self.columns, self.value, self.unit = x, rows, columns, value, unit
        self.name = name or bench.replace("_", "-")


FIGURES = [
    Figure("match", "A match, hot", "A message arrives, its receive is posted again: does that "
           "stay flat as the queue grows, wherever the receive stands, and what do ANY_SOURCE "
           "receives cost?", rows="wild_percent", columns="position"),
    Figure("match_mpi", "MPI's four kinds of receives mixed", "The same with a quarter each of "
           "exact, ANY_SOURCE, ANY_TAG and both.", columns="position"),
    Figure("match_masks", "Distinct masks", "What does each further distinct set of ignore bits "
           "cost?", x="masks", columns="depth"),
    Figure("match_cold", "A match, cold", "8 MB were swept before: what does a match cost then? "
           "(code=warm: only the queue is cold)", rows="code", columns="position"),
    Figure("match_bulk", "64 at once", "What do the bulk forms save?", columns="form"),
    Figure("cancel", "Cancel", "Does taking back a receive stay flat?", rows="source",
           columns="which"),
    Figure("probe", "Probe", "Does a probe stay flat as messages pile up?", rows="source",
           columns="what"),
    Figure("flood_arrive", "Flood: arrivals", "What does a message cost that finds no receive?"),
    Figure("flood_receive", "Flood: receives", "And the receive that takes it, with what was "
           "put off until then?", rows="source", columns="order"),
    Figure("memory", "Memory", "Bytes of one entry, the engine's tables included.",
           rows="kind", columns="what", value="bytes_per_entry", unit="bytes"),
    Figure("replay", "Replay", "What does an operation cost in the order of a real program?",
           x="trace"),
    Figure("mpi_latency", "MPI: latency after N posted receives", "Does a program pay for "
           "the queue's depth?"),
    Figure("mpi_expected", "MPI: N posted receives matched in reverse order, 1 of 8 ANY_SOURCE",
           "Cost per message: posting, matching, moving 8 bytes."),
    Figure("mpi_unexpected", "MPI: N unexpected messages received in reverse order, 1 of 8 "
           "ANY_SOURCE", "Cost per message, arrivals included."),
]


def read(folder):
    """The lines as dicts, in their order."""
    path = os.path.join(folder, "lines.txt")
    try:
        with open(path) as lines:
            return [dict(word.split("=", 1) for word in line.split()) for line in lines
                    if line.strip()]
    except OSError as error:
        sys.exit(f"bench-match: {path}: {error.strerror}")


def chosen(lines, **keys):
    return [line for line in lines if all(line.get(k) == str(v) for k, v in keys.items())]


def number(line, key="median_ns"):
    return float(line[key]) if key in line else None


def by_number(text):
    return (0, int(text), "") if text.isdigit() else (1, 0, text)


def values_of(lines, key):
    """The different values of key, numbers in order, others as they came."""
    found = list(dict.fromkeys(line[key] for line in lines if key in line))
    return sorted(found, key=by_number) if all(v.isdigit() for v in found) else found


def engines_of(lines):
    return sorted({line["engine"] for line in lines}, key=lambda e: ORDER.index(e)
                  if e in ORDER else len(ORDER))


# ---- claims ----------------------------------------------------------------------


class Claim:
    """A claim; the worst of the measured medians; the worst of the fastest repeats; and the worst of
    the medians minus the time of `nothing` in the same case."""

    def __init__(self, number_, text, limit, unit, value, least=None, net=None):
        self.number, self.text, self.limit, self.unit = number_, text, limit, unit
        self.value, self.least, self.net = value, least, net

    def verdict(self):
        if self.value <= self.limit:
            return "yes"
        return "fastest" if self.least is not None and self.least <= self.limit else "no"

    def line(self):
        more = "".join(f" {key}={value:.1f}" for key, value in
                       (("fastest", self.least), ("without_measuring", self.net))
                       if value is not None)
        return (f"claim={self.number} what={self.text.replace(' ', '_')} limit={self.limit} "
                f"unit={self.unit} value={self.value:.1f}{more} met={self.verdict()}")


def worst(lines, key="median_ns"):
    return max((number(line, key) for line in lines if key in line), default=None)


def at_most(lines, depth):
    """Those up to depth, if that was measured."""
    if not chosen(lines, depth=depth):
        return []
    return [line for line in lines if int(line["depth"]) <= depth]


RESULTS = {"engine", "median_ns", "min_ns", "rounds", "repeats", "skipped", "tried_ns"}


def case_of(line):
    return tuple((key, value) for key, value in line.items() if key not in RESULTS)


def without_measuring(lines, mine):
    """The worst of mine, less what `nothing` takes in the same case."""
    nothing = {case_of(line): number(line) for line in chosen(lines, engine="nothing")}
    return max((number(line) - nothing[case_of(line)] for line in mine
                if "median_ns" in line and case_of(line) in nothing), default=None)


def worst_claim(lines, number_, text, limit, mine):
    value = worst(mine)
    if value is not None:
        yield Claim(number_, text, limit, "ns", value, worst(mine, "min_ns"),
                    without_measuring(lines, mine))


def beyond_list(lines):
    first = {line["engine"]: line for line in
             chosen(lines, bench="match", depth=1, position="random", wild_percent=0)}
    if "matchbox" in first and "list" in first:
        median, least = (number(first["matchbox"], key) - number(first["list"], key)
                         for key in ("median_ns", "min_ns"))
        yield Claim(1, "depth 1 beyond a list", 2, "ns", median, least)


def masks_claim(mine):
    cost = {int(line["masks"]): number(line) for line in
            chosen(mine, bench="match_masks", depth=1024) if "median_ns" in line}
    steps = sorted(cost)
    if len(steps) > 1:
        yield Claim(6, "largest step when masks double", 2.5, "times",
                    max(cost[b] / cost[a] for a, b in zip(steps, steps[1:])))


def memory_claims(mine):
    for line in chosen(mine, bench="memory", depth=65536, what="message"):
        yield Claim(7, f"{line['kind']} message", 192, "bytes", number(line, "bytes_per_entry"))
    for line in chosen(mine, bench="memory", depth=65536, what="receive"):
        yield Claim(7, f"{line['kind']} receive beyond its entry", 64, "bytes",
                    number(line, "engine_bytes") / 65536)


def mpi_claims(mine):
    for mode in ("expected", "unexpected"):
        lines = {int(line["depth"]): line for line in chosen(mine, bench=f"mpi_{mode}")
                 if "median_ns" in line}
        for depth, limit in ((20000, 2), (100000, 3)):
            if 16 in lines and depth in lines:
                median, least = (number(lines[depth], key) / number(lines[16], key)
                                 for key in ("median_ns", "min_ns"))
                yield Claim(8, f"MPI {mode} at {depth} compared with 16", limit, "times", median, least)


def claims(lines):
    """The claims about which this run has results."""
    mine = chosen(lines, engine="matchbox")
    hot = chosen(mine, bench="match") + chosen(mine, bench="match_mpi")
    yield from beyond_list(lines)
    for depth, limit in ((4096, 30), (65536, 100), (1048576, 250)):
        yield from worst_claim(lines, 2, f"hot match up to {depth}", limit, at_most(hot, depth))
    yield from worst_claim(lines, 2, "bulk match at 65536", 25, chosen(
        mine, bench="match_bulk", depth=65536, form="bulk"))
    yield from worst_claim(lines, 3, "cold match up to 16", 200, at_most(
        chosen(mine, bench="match_cold", code="warm"), 16))
    yield from worst_claim(lines, 4, "cancel up to 65536", 50, at_most(
        chosen(mine, bench="cancel"), 65536))
    yield from worst_claim(lines, 4, "missed probe up to 65536", 50, at_most(
        chosen(mine, bench="probe", what="missed"), 65536))
    yield from worst_claim(lines, 5, "ANY_SOURCE receive over 65536", 200, chosen(
        mine, bench="flood_receive", depth=65536, source="any"))
    yield from masks_claim(mine)
    yield from memory_claims(mine)
    yield from mpi_claims(mine)


# ---- plots -----------------------------------------------------------------------


def panels(figure, lines):
    """(row, column) -> the lines of that panel."""
    mine = chosen(lines, bench=figure.bench)
    for row in values_of(mine, figure.rows) if figure.rows else [None]:
        for column in values_of(mine, figure.columns) if figure.columns else [None]:
            keys = {k: v for k, v in ((figure.rows, row), (figure.columns, column)) if k}
            yield (row, column), chosen(mine, **keys)


def panel_title(figure, row, column):
    return ", ".join(f"{key}={value}" for key, value in
                     ((figure.rows, row), (figure.columns, column)) if key)


def short(x, _position=None):
    """1024 is 1K."""
    for unit, size in (("M", 1 << 20), ("K", 1 << 10)):
        if x >= size and x % size == 0:
            return f"{x / size:.0f}{unit}"
    return f"{x:g}"


def draw_panel(axes, figure, title, lines):
    is_log = True
    for engine in engines_of(lines):
        points = [(line[figure.x], number(line, figure.value))
                  for line in chosen(lines, engine=engine) if figure.value in line]
        if not points:
            continue
        is_log = all(x.isdigit() for x, _ in points)
        axes.plot([float(x) if is_log else x for x, _ in points], [y for _, y in points],
                  marker="o", markersize=3, linewidth=2 if engine == "matchbox" else 1,
                  color=COLORS.get(engine, "black"), label=engine)
    axes.set_yscale("log")
    if is_log:
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter(short)
    else:
        axes.tick_params(axis="x", labelrotation=30)
    axes.set_title(title, fontsize=9)
    axes.grid(True, which="major", linewidth=0.3)
    axes.tick_params(labelsize=8)
    axes.set_xlabel(figure.x, fontsize=8)
    axes.set_ylabel(figure.unit, fontsize=8)


def draw(plt, figure, lines):
    """PNG of all panels, or None if there is nothing to see."""
    cells = [(key, panel) for key, panel in panels(figure, lines)
             if any(figure.value in line for line in panel)]
    if not cells:
        return None
    rows = list(dict.fromkeys(row for (row, _), _ in cells))
    columns = list(dict.fromkeys(column for (_, column), _ in cells))
    picture, axes = plt.subplots(len(rows), len(columns), squeeze=False, sharey=True,
                                 sharex="col",
                                 figsize=(max(5.5, 4 * len(columns)), 3.2 * len(rows) + 0.6))
    for ax in axes.flat:
        ax.set_visible(False)
    for (row, column), panel in cells:
        ax = axes[rows.index(row)][columns.index(column)]
        ax.set_visible(True)
        draw_panel(ax, figure, panel_title(figure, row, column), panel)
    handles = {label: handle for ax in axes.flat
               for handle, label in zip(*ax.get_legend_handles_labels())}
    picture.suptitle(figure.title, fontsize=11)
    picture.legend(handles.values(), handles.keys(), loc="lower center", ncol=len(handles),
                   fontsize=8, frameon=False)
    picture.tight_layout(rect=(0, 0.05, 1, 0.98))
    data = io.BytesIO()
    picture.savefig(data, format="png", dpi=110, metadata={"Software": None})
    plt.close(picture)
    return data.getvalue()


def full_name(engine, lines):
    text, peer = FULL_NAMES.get(engine, (engine, None))
    about = chosen(lines, about="peer", name=peer) if peer else []
    return " ".join(text.format(about[0]["version"] if about else "").split())


def microseconds(ns):
    us = ns / 1000
    return f"{us:,.0f} us" if us >= 10 else f"{us:.2f} us"


def draw_cover(plt, lines):
    """A picture of mpi_latency, large, each curve with its name and its last value."""
    mine = chosen(lines, bench="mpi_latency")
    if not any("median_ns" in line for line in mine):
        return None
    picture, axes = plt.subplots(figsize=(10, 4.8))
    for engine in engines_of(mine):
        points = [(float(line["depth"]), number(line) / 1000) for line in chosen(mine, engine=engine)
                  if "median_ns" in line]
        if not points:
            continue
        color = COLORS.get(engine, "black")
        axes.plot(*zip(*points), marker="o", markersize=6, color=color,
                  linewidth=4 if engine == "matchbox" else 2.5)
        # the curves of the other MPIs end close to each other
        above = {"ob1": 18, "mpich": -14}.get(engine, 0)
        axes.annotate(f"{full_name(engine, lines)}\n{microseconds(points[-1][1] * 1000)}", points[-1],
                      xytext=(12, above), textcoords="offset points", va="center", color=color,
                      fontsize=14, fontweight="bold" if engine == "matchbox" else "normal",
                      annotation_clip=False)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    depths = sorted({int(line["depth"]) for line in mine})
    depths = [depth for depth in depths if depth == depths[-1] or depth < depths[-1] / 2]
    axes.set_xticks(depths, [f"{depth:,}" for depth in depths])
    axes.xaxis.set_minor_locator(plt.NullLocator())
    ticks = [10.0 ** n for n in range(-1, 5)]
    axes.set_yticks(ticks, [f"{tick:g} us" if tick < 1 else f"{tick:,.0f} us" for tick in ticks])
    axes.tick_params(labelsize=12)
    axes.set_xlabel("posted receives in the queue", fontsize=14)
    axes.set_title("latency of 8 bytes", fontsize=16, loc="left")
    axes.grid(True, which="major", linewidth=0.4)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    picture.tight_layout(rect=(0, 0, 0.99, 1))
    data = io.BytesIO()
    picture.savefig(data, format="png", dpi=100, metadata={"Software": None}, bbox_inches="tight",
                    pad_inches=0.15)
    plt.close(picture)
    return data.getvalue()


# ---- page ------------------------------------------------------------------------

STYLE = """body{font:15px/1.5 system-ui,sans-serif;margin:2em auto;max-width:70em;padding:0 1em;
color:#222}table{border-collapse:collapse;font-size:13px;margin:.6em 0 1.4em}
td,th{padding:.15em .8em;text-align:right;border-bottom:1px solid #ddd}th{font-weight:600}
td:first-child,th:first-child{text-align:left}img{max-width:100%}.no{color:#c0392b;
font-weight:600}caption{text-align:left;font-weight:600}pre{white-space:pre-wrap;font-size:12px}
.slow{color:#999}"""


def cell(line, figure):
    if line is None:
        return "<td></td>"
    if figure.value in line:
        least = "" if "min_ns" not in line or figure.unit != "ns" else (
            f' title="fastest repeat: {html.escape(line["min_ns"])}"')
        return f"<td{least}>{float(line[figure.value]):,.1f}</td>"
    return f'<td class="slow">{html.escape(line.get("skipped", "").replace("_", " "))}</td>'


def table(figure, title, lines):
    engines = engines_of(lines)
    head = "".join(f"<th>{html.escape(engine)}</th>" for engine in engines)
    out = [f"<table><caption>{html.escape(title)}</caption>"
           f"<tr><th>{figure.x}</th>{head}</tr>"]
    for x in values_of(lines, figure.x):
        cells = []
        for engine in engines:
            found = chosen(lines, engine=engine, **{figure.x: x})
            cells.append(cell(found[0] if found else None, figure))
        out.append(f"<tr><td>{html.escape(x)}</td>{''.join(cells)}</tr>")
    return "\n".join(out) + "</table>"


def section(figure, lines, picture):
    body = [f"<h2 id='{figure.name}'>{html.escape(figure.title)}</h2>"
            f"<p>{html.escape(figure.question)} In {figure.unit}.</p>"]
    if picture:
        body.append(f"<img alt='{html.escape(figure.title)}' src='data:image/png;base64,"
                    f"{base64.b64encode(picture).decode()}'>")
    body.append("<details><summary>numbers</summary>")
    body += [table(figure, panel_title(figure, *key), panel)
             for key, panel in panels(figure, lines) if panel]
    return "\n".join(body) + "</details>"


VERDICTS = {"yes": "<td>met</td>", "fastest": "<td class='no'>met by the fastest</td>",
            "no": "<td class='no'>missed</td>"}


def figure_of(value):
    return "" if value is None else f"{value:,.1f}"


def claims_table(found):
    rows = "".join(
        f"<tr><td>{c.number}. {html.escape(c.text)}</td><td>{c.limit} {c.unit}</td>"
        f"<td>{figure_of(c.value)}</td><td>{figure_of(c.least)}</td><td>{figure_of(c.net)}</td>"
        f"{VERDICTS[c.verdict()]}</tr>" for c in found)
    return ("<table><tr><th>claim</th><th>at most</th><th>measured (worst median)</th>"
            "<th>worst fastest repeat</th><th>without measuring</th><th></th></tr>"
            f"{rows}</table>") if found else "<p>This run is about none of them.</p>"


def page(lines, found, pictures):
    about = "\n".join(" ".join(f"{k}={v}" for k, v in line.items())
                      for line in lines if "about" in line)
    parts = [section(f, lines, pictures.get(f.name)) for f in FIGURES
             if chosen(lines, bench=f.bench)]
    return (f"<!DOCTYPE html><html lang='en'><head><meta charset='utf-8'>"
            f"<title>Matchbox: matching, measured</title><style>{STYLE}</style></head><body>"
            "<h1>Matching, measured</h1><p>The median of the repeats; the fastest is in the "
            "title of each cell. All engines of a case took turns in the same run. "
            "<i>nothing</i> is the cost of the measurement, which the others contain.</p>"
            f"<pre>{html.escape(about)}</pre><h2>Claims</h2>{claims_table(found)}"
            + "\n".join(parts) + "</body></html>\n")


def plotter():
    """matplotlib, or None."""
    try:
        import matplotlib
        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError:
        return None
    return plt


def write(folder):
    """Draws what folder/lines.txt says.  0."""
    lines = read(folder)
    found = list(claims(lines))
    print()
    for claim in found:
        print(claim.line())
    plt = plotter()
    if plt is None:
        print(f"bench-match: without python3-matplotlib there are no plots; the lines are in "
              f"{os.path.relpath(folder)}/lines.txt", file=sys.stderr)
    pictures = {}
    for figure in FIGURES:
        drawing = draw_cover if figure.bench == "mpi_latency" else lambda p, l: draw(p, figure, l)
        picture = drawing(plt, lines) if plt else None
        if picture:
            pictures[figure.name] = picture
            with open(os.path.join(folder, figure.name + ".png"), "wb") as out:
                out.write(picture)
    with open(os.path.join(folder, "index.html"), "w") as out:
        out.write(page(lines, found, pictures))
    with open(os.path.join(folder, "claims.txt"), "w") as out:
        out.writelines(claim.line() + "\n" for claim in found)
    print(f"bench-match: written to {os.path.relpath(folder)}/", file=sys.stderr)
    return 0
