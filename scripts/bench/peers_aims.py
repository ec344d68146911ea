# SPDX-License-Identifier: BSD-3-Clause
"""Aims of a bench of several peers: for each case whether it is met, lines of that, and one table of all."""
import statistics

from benchlib import one_word
from peers_who import ALL

SAME = 1.005  # smaller differences count as equal, to two digits


class Verdict:
    """The verdict for one case.  ratio: the component's figure divided by the best rival's, by the medians of the
    rounds; ratio_best: by the bests; None: no rival has a figure.  note: names the ones that were stopped."""

    def __init__(self, figure, x, mine, rivals, stopped):
        self.x, self.mine, self.note = x, mine, ", ".join(f"{ALL[who].title} {why}" for who, why in stopped.items())
        self.is_time, self.factor = figure.better == "less", figure.aim.factor
        choose = min if self.is_time else max
        self.rival = choose(rivals, key=lambda who: rivals[who][0]) if rivals else None
        self.rival_values = rivals.get(self.rival)
        self.ratio = self.ratio_best = None
        if mine and rivals:
            self.ratio = mine[0] / self.rival_values[0]
            self.ratio_best = mine[1] / choose(best for _, best in rivals.values())

    def meets(self, ratio):
        """A rival that was stopped has a worse figure than who was not."""
        if ratio is None:
            return self.mine is not None
        return ratio <= self.factor * SAME if self.is_time else ratio * SAME >= self.factor

    def is_met(self):
        return self.meets(self.ratio)

    def badness(self):
        return (0 if self.ratio is None else self.ratio) if self.is_time else -(self.ratio or float("inf"))

    def cell(self):
        text = "-" if self.ratio is None else f"{self.ratio:.2f}"
        return f"{text} met" if self.is_met() else f"**{text} missed**"


def verdicts(cells, cores, panel):
    """Those cases where the aim's subject and a rival were measured, or stopped."""
    figure, found = cells.figure, []
    for x in cells.xs(cores, panel) + sorted(cells.stopped_xs(panel) - set(cells.xs(cores, panel))):
        aim = figure.aim
        rivals = {who: cells.values[cores, panel, x, who] for who in aim.rivals if (cores, panel, x, who) in cells.values}
        stopped = {who: cells.stopped[panel, x, who] for who in (aim.who, *aim.rivals)
                   if (panel, x, who) in cells.stopped and (cores, panel, x, who) not in cells.values}
        mine = cells.values.get((cores, panel, x, aim.who))
        if (mine or aim.who in stopped) and (rivals or set(stopped) - {aim.who}):
            found.append(Verdict(figure, x, mine, rivals, stopped))
    return found


def lines(cells):
    """key=value, one for each case."""
    figure = cells.figure
    bound = "at_most" if figure.better == "less" else "at_least"
    for cores in cells.classes() if figure.aim else []:
        for panel in cells.panels(cores):
            for v in verdicts(cells, cores, panel):
                words = [f"aim={cells.question.name}", f"figure={one_word(figure.name)}"]
                words += [f"panel={one_word(panel)}"] if panel else []
                words += [f"cores={cores}", f"{figure.x}={v.x}", f"who={figure.aim.who}"]
                words += [f"median={v.mine[0]:.1f}", f"best={v.mine[1]:.1f}"] if v.mine else []
                if v.ratio is not None:
                    words += [f"rival={v.rival}", f"rival_median={v.rival_values[0]:.1f}",
                              f"rival_best={v.rival_values[1]:.1f}", f"ratio={v.ratio:.3f}",
                              f"ratio_of_bests={v.ratio_best:.3f}"]
                words += [f"{bound}={figure.aim.factor:.2f}", f"met={'yes' if v.is_met() else 'no'}",
                          f"met_by_bests={'yes' if v.meets(v.ratio_best) else 'no'}"]
                words += [f"note={one_word(v.note)}"] if v.note else []
                yield " ".join(words)


def row(cells, cores, panel, x_word):
    figure, cases = cells.figure, verdicts(cells, cores, panel)
    met, met_best = sum(v.is_met() for v in cases), sum(v.meets(v.ratio_best) for v in cases)
    title = ", ".join(filter(None, [figure.title, panel]))
    result = "met" if met == len(cases) else "**missed**"
    ratios = [v.ratio for v in cases if v.ratio is not None]
    span = "-"
    if ratios:
        worst = max((v for v in cases if v.ratio is not None), key=Verdict.badness)
        span = f"{statistics.median(ratios):.2f}; {worst.ratio:.2f} at {x_word(figure, worst.x)}, {ALL[worst.rival].title}"
    return (f"| {title} | {cells.where(cores)} | {figure.aim.text} | {result} | {met} of {len(cases)} "
            f"| {met_best} of {len(cases)} | {span} |")


def table(all_cells, x_word):
    """Markdown: a row for each aim, panel and distance of the cores."""
    yield "| | cores | aim | | cases met | by the bests | ratio: median; worst, of whom |"
    yield "| --- | --- | --- | --- | ---: | ---: | --- |"
    for cells in all_cells:
        for cores in cells.classes() if cells.figure.aim else []:
            for panel in cells.panels(cores):
                if verdicts(cells, cores, panel):
                    yield row(cells, cores, panel, x_word)
