# SPDX-License-Identifier: BSD-3-Clause
"""How a bench of several peers runs (`./dev bench peers`, `./dev bench openmpi`): its options, the lines that are
there, and everybody's turns."""
import datetime
import getopt
import os
import re
import sys
import time

import peers_report
from benchlib import ROOT, as_dict, machine, one_word, version
from peers_ask import Unmeasured
from peers_who import ALL, CORES, DISTANCES, Build

MORE_TO_DO = 3
WAIT_S, TRIES, GIVE_UP = 60, 5, 10  # of --cores: seconds to wait for the cores, and limits of tries and of skipped runs
PAUSE_S = 0.5
CASE = ("size", "depth", "ranks", "mode", "receives", "pattern", "type")
BEFORE = "in_an_earlier_round:_"
OPTIONS = ["short", "quick", "only=", "who=", "rounds=", "out=", "cores=", "resume", "again", "for=", "report=", "help"]


class Options:
    level, rounds, out, limit_s, report, build = "full", None, None, None, None, "build"
    cores = None
    resume = again = False

    def __init__(self, bench):
        self.bench, self.only, self.who = bench, [question.name for question in bench.asked], bench.who

    def usage(self, text):
        print(f"{self.bench.name}: {text}; --help says what there is", file=sys.stderr)
        sys.exit(2)

    def names(self, option, text, known):
        wanted = text.split(",")
        for name in wanted:
            if name not in known:
                self.usage(f"{option}: there is no '{name}'; there are: {' '.join(known)}")
        return [name for name in known if name in wanted]

    def number(self, option, text):
        if not re.fullmatch("[1-9][0-9]{0,5}", text):
            self.usage(f"{option} is a number above 0, not '{text}'")
        return int(text)

    def set(self, name, value):
        if name in ("--short", "--quick"):
            if self.level not in ("full", name[2:]):
                self.usage("there is --short or --quick, not both")
            self.level = name[2:]
        elif name == "--only":
            self.only = self.names(name, value, [question.name for question in self.bench.asked])
        elif name == "--who":
            self.who = self.names(name, value, self.bench.who)
        elif name == "--rounds":
            self.rounds = self.number(name, value)
        elif name == "--for":
            self.limit_s = self.number(name, value)
        elif name == "--cores":
            if value not in ("near", "far"):
                self.usage(f"--cores is near or far, not '{value}'")
            self.cores = value
        elif name in ("--resume", "--again"):
            setattr(self, name[2:], True)
        else:
            setattr(self, name[2:], value)


def parse(bench, arguments, text):
    o = Options(bench)
    try:
        pairs, rest = getopt.gnu_getopt(arguments, "h", OPTIONS)
    except getopt.GetoptError as error:
        o.usage(error)
    for name, value in pairs:
        if name in ("-h", "--help"):
            print(text)
            sys.exit(0)
        o.set(name, value)
    if len(rest) > 1:
        o.usage(f"there is no argument '{rest[1]}'")
    if o.resume and o.again:
        o.usage("there is --resume or --again, not both")
    o.build = rest[0] if rest else o.build
    if o.level == "quick" and not o.out:
        o.out, o.again = os.path.join(o.build, f"bench-{bench.folder}"), not o.resume
    o.out = o.out or os.path.join(ROOT, "evidence", "runs", datetime.date.today().isoformat(), bench.folder)
    if o.cores:
        o.only = [question.name for question in bench.asked if question.name in o.only and question.by_distance]
        if not o.only:
            o.usage("--cores: these questions have one table for all cores")
    return o


# ---- the measured lines ----------------------------------------------------------

class Lines:
    """DIR/lines.txt: what is there, and what is added."""

    def __init__(self, o):
        self.path = os.path.join(o.out, "lines.txt")
        self.kept = []
        if os.path.exists(self.path) and not o.again:
            if not o.resume:
                o.usage(f"{self.path} is there: --resume goes on with it, --again replaces it, --out names another "
                        "folder")
            self.kept = peers_report.read(o.out, o.bench)
        os.makedirs(o.out, exist_ok=True)
        self.file = open(self.path, "a" if self.kept else "w")
        self.units = {unit_of(line) for line in self.kept if line.get("about") == "unit"}

    def put(self, line):
        self.file.write(line + "\n")
        self.file.flush()
        print(line, flush=True)


def unit_of(line):
    return line["round"], line["question"], line["group"], line["who"]


def check_same(o, lines, about):
    """The results that are resumed must be from this commit, from a machine like this one, and from the same peers."""
    def facts(all_lines):
        return {key: line[key] for line in all_lines if line.get("about") in ("run", "machine", "level")
                for key in ("commit", "cpu", "cores", "only_cores") if key in line}

    was, now = facts(lines.kept), facts(map(as_dict, about))
    for key, value in was.items():
        if now.get(key) != value:
            o.usage(f"{lines.path} was measured with {key}={value}, and this is {key}={now.get(key)}: --again "
                    "replaces it, --out names another folder")


def about_peers():
    yield from machine()
    for name, command in (("libfabric", ["fi_info", "--version"]), ("ucx-utils", ["ucx_info", "-v"])):
        yield f"about=peer name={name} version={version(command)}"


def begin(o, lines):
    about = [*about_peers(), f"about=level level={o.level} only_cores={o.cores or 'any'}"]
    if lines.kept:
        check_same(o, lines, about)
        lines.put(f"about=piece load={os.getloadavg()[0]:.2f}")
        return
    for line in about:
        lines.put(line)


# ---- turns -----------------------------------------------------------------------

def cores_of(before, behind):
    if before is None or behind is None:
        return "unknown"
    return before[0] if before[0] == behind[0] else "moved"


def distance(line, measured):
    """The distance of the cores: a batch of mpi_pt2pt has its own."""
    return DISTANCES.get(line.get("distance")) or peers_report.cores_meanwhile(line, measured)


def has_all(found, measured, cores):
    """Have all cases figures that count, of such cores?  Or can no further try give any?"""
    if cores == "far" and not any(map(peers_report.looks_itself, found)):
        return True

    def case(line):
        return tuple(line.get(key) for key in CASE)

    return {case(line) for line in found} == {case(line) for line in found if distance(line, measured) == cores and
                                              peers_report.counts(line)}


class Run:
    def __init__(self, o, lines):
        self.o, self.lines, self.build = o, lines, Build(o.build, o.bench.name)
        self.start, self.failed_ours, self.not_met = time.monotonic(), False, 0
        self.slow = {}  # not repeated: (question, group, who) -> depth -> the line; None stands for all
        for line in lines.kept:
            self.note_slow(line)
        self.present = self.find_present()
        self.total = sum(1 for _ in self.units())
        self.done = sum(1 for unit in self.units() if unit[:4] in lines.units)

    def note_slow(self, line):
        if line.get("skipped") == "too_slow":
            rest = {key: value for key, value in line.items() if key not in ("round", "question", "group", "who")}
            self.slow.setdefault(unit_of(line)[1:], {})[line.get("depth")] = rest

    def find_present(self):
        present = []
        for name in self.o.who:
            why = self.build.why_missing(ALL[name])
            if why is None:
                present.append(name)
                continue
            print(f"{self.o.bench.name}: {name} ({ALL[name].title}) is left out: {why}", file=sys.stderr)
            if not any(line.get("about") == "missing" and line["who"] == name for line in self.lines.kept):
                self.lines.put(f"about=missing who={name} why={one_word(why)}")
        if not present:
            self.o.usage("nobody is left to be measured")
        return present

    def rounds(self, question):
        return self.o.rounds or question.rounds[self.o.level]

    def units(self):
        """(round, question, group, who, the question, what the group is), in the order of their runs."""
        asked = [question for question in self.o.bench.asked if question.name in self.o.only]
        for number_ in range(1, max(map(self.rounds, asked)) + 1):
            for question in asked:
                for group, what in question.groups[self.o.level].items():
                    for who in self.present if number_ <= self.rounds(question) else []:
                        if who in question.who:
                            yield str(number_), question.name, group, who, question, what

    def is_late(self):
        return self.o.limit_s is not None and time.monotonic() - self.start >= self.o.limit_s

    def progress(self, unit, text):
        spent = int(time.monotonic() - self.start)
        print(f"{self.o.bench.name}: {self.done} of {self.total}, {spent // 60}:{spent % 60:02}: round {unit[0]}, "
              f"{unit[1]} {unit[2]}, {unit[3]}{text}", file=sys.stderr, flush=True)

    def skip(self, unit, prefix, line):
        """A unit that is too slow is not tried in the next round; one that has failed is."""
        text = prefix + " " + " ".join(f"{key}={value}" for key, value in line.items())
        self.note_slow(as_dict(text))
        self.failed_ours |= ALL[unit[3]].is_ours()
        self.progress(unit, f": no figures{' of ' + line['depth'] if 'depth' in line else ''}: "
                            f"{line['why'].replace('_', ' ')}")
        self.lines.put(text)

    def ask(self, unit, prefix):
        """The lines of figures; what has none is said here."""
        question, what = unit[4:]
        slow = self.slow.get(unit[1:4], {})
        for line in list(slow.values()):
            self.skip(unit, prefix, dict(line, why=BEFORE + line["why"].replace(BEFORE, "")))
        what = None if None in slow else question.without(what, set(map(int, slow))) if slow else what
        if what is None:
            return []
        try:
            found = question.run(self.build, unit[3], what)
        except Unmeasured as why:
            found = [{"skipped": "too_slow" if why.is_slow else "failed", "why": one_word(str(why))[:300]}]
        for line in found:
            if "skipped" in line:
                self.skip(unit, prefix, line)
        return [line for line in found if "skipped" not in line]

    def wait_for_cores(self, unit):
        """Until they are as --cores says.  False: they were not in WAIT_S."""
        until = time.monotonic() + WAIT_S
        while self.o.cores and cores_of(*[self.build.distance()] * 2) != self.o.cores:
            if time.monotonic() >= until:
                self.progress(unit, f": the cores were not {self.o.cores} in {WAIT_S} s; --resume tries again")
                return False
            time.sleep(PAUSE_S)
        return True

    def attempt(self, unit, prefix):
        """One run.  Are its figures of cores as --cores says?"""
        before = self.build.distance()
        found = self.ask(unit, prefix)
        behind = self.build.distance()
        measured = cores_of(before, behind)
        line_ns = ",".join(f"{end[1] if end else 0:.1f}" for end in (before, behind))
        for line in found:
            rest = " ".join(f"{key}={value}" for key, value in line.items() if key not in ("engine", "perf", "bench"))
            self.lines.put(f"{prefix} cores={distance(line, measured)} line_ns={line_ns} {rest}")
        return not self.o.cores or has_all(found, measured, self.o.cores)

    def one(self, unit):
        prefix = "round={} question={} group={} who={}".format(*unit[:4])
        self.progress(unit, "")
        begun = time.monotonic()
        for left in reversed(range(TRIES)):
            if not self.wait_for_cores(unit):
                self.not_met += 1
                return
            if self.attempt(unit, prefix):
                break
            self.progress(unit, f": the cores were not {self.o.cores} all the time; "
                                f"{'again' if left else f'{TRIES} tries, what there is counts'}")
        self.done += 1
        self.lines.put(f"about=unit {prefix} took_s={time.monotonic() - begun:.2f}")

    def all(self):
        """Is nothing left?  Between the turns of one group it does not stop."""
        last = None
        for unit in self.units():
            if unit[:4] in self.lines.units:
                continue
            is_next, last = unit[:3] != last, unit[:3]
            if self.not_met >= GIVE_UP:
                print(f"{self.o.bench.name}: the cores of this machine do not become {self.o.cores}", file=sys.stderr)
                return False
            if is_next and self.is_late():
                print(f"{self.o.bench.name}: {self.done} of {self.total} runs are there; --resume goes on",
                      file=sys.stderr)
                return False
            self.one(unit)
        return True


def main(bench, text):
    o = parse(bench, sys.argv[1:], text)
    if o.report:
        return peers_report.write(o.report, bench)
    for program in ("tools/mbx", "bench/distance"):
        if not os.access(os.path.join(o.build, program), os.X_OK):
            o.usage(f"'{o.build}' is no build directory, or one with sanitizers: it has no {program}")
    if len(os.sched_getaffinity(0)) < CORES:
        sys.exit(f"{bench.name}: one core; {CORES} are needed")
    lines = Lines(o)
    begin(o, lines)
    run_ = Run(o, lines)
    if not run_.all():
        return MORE_TO_DO
    lines.file.close()
    status = peers_report.write(o.out, bench)
    if run_.not_met:
        print(f"{bench.name}: {run_.not_met} of {run_.total} runs were not made, since the cores were not {o.cores}; "
              "--resume tries them again", file=sys.stderr)
        return MORE_TO_DO
    return 1 if run_.failed_ours else status


def run(bench, text):
    """The whole command; text is what --help says.  Its exit status."""
    try:
        return main(bench, text)
    except KeyboardInterrupt:
        print(f"{bench.name}: interrupted; what was measured is kept, --resume goes on", file=sys.stderr)
        return 130
