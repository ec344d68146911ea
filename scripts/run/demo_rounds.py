# SPDX-License-Identifier: BSD-3-Clause
"""The measurements of ./dev demo: cases, in rounds in which the ways of sending take turns."""
import os
import shutil
import subprocess
import sys
import time

sys.dont_write_bytecode = True
from proglib import LIMIT_S, OB1, UCX, Failed  # noqa: E402

sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "bench"))
from benchlib import as_dict, run_limited  # noqa: E402

NAMES = {"matchbox": "Matchbox", "ob1": "Open MPI ob1", "ucx": "Open MPI ucx"}
DEPTHS = (16, 1000, 10000)
SPREAD = 1.5     # a case is marked if its rounds differ by more
BUSY = 0.15      # share of the processor time used by others
FAR_NS = 100     # if a cache line takes longer, the two cores share no cache


class Case:
    """One row.  less: a smaller value is better.  once: memory, which does not vary."""

    def __init__(self, key, title, unit, program, arguments, value, less=True, once=False, ranks=2, depth=None):
        self.key, self.title, self.unit, self.program = key, title, unit, program
        self.arguments, self.value, self.less, self.once = arguments, value, less, once
        self.ranks, self.depth = ranks, depth

    def words(self, build, engine):
        return [os.path.join(build, "bench", self.program)] + [
            engine if word == "LABEL" else word for word in self.arguments]


def depth_case(depth, wild):
    kind = "ANY_SOURCE" if wild else "exact"
    return Case(f"depth-{kind}-{depth}", f"8 B, {depth:,} {kind} receives posted", "us", "match/mpi_match",
                ["LABEL", "latency", str(depth), "0.2", "1" if wild else "0"],
                lambda line: float(line["median_ns"]) / 1000, depth=depth)


CASES = [depth_case(depth, wild) for wild in (False, True) for depth in DEPTHS] + [
    Case("flood", "76 MB sent too early: receiver grows by", "MiB", "flood_mpi",
         ["--label", "LABEL", "--messages", "20000", "--sizes", "1000", "--orders", "wanted", "--sleep-ms", "500"],
         lambda line: int(line["grown_kib"]) / 1024, once=True, ranks=5),
    Case("overlap", "1 MiB: part received while computing", "%", "overlap_mpi",
         ["LABEL", "--repeats", "21", "1048576"], lambda line: float(line["overlap_percent"]), less=False),
    Case("latency", "8 B, nothing in the queues", "us", "mpi_pt2pt", ["LABEL", "lat", "8"],
         lambda line: float(line["half_rtt_min_ns"]) / 1000),
    Case("latency-64K", "64 KiB", "us", "mpi_pt2pt", ["LABEL", "lat", "65536"],
         lambda line: float(line["half_rtt_min_ns"]) / 1000),
    Case("rate", "8 B messages, 64 at a time", "million/s", "mpi_pt2pt", ["LABEL", "rate"],
         lambda line: float(line["max_messages_per_s"]) / 1e6, less=False),
]


def has_ucx():
    """Is Open MPI's pml/ucx here?"""
    tool = shutil.which("ompi_info")
    done = tool and subprocess.run([tool, "--parsable"], text=True, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return bool(done) and "mca:pml:ucx:" in done.stdout


class Rounds:
    def __init__(self, build, cases, say):
        self.build, self.cases, self.say = build, cases, say
        self.mbx = os.path.join(build, "tools", "mbx")
        self.engines = ["matchbox", "ob1"] + (["ucx"] if has_ucx() else [])
        self.values = {(case.key, engine): [] for case in cases for engine in self.engines}
        self.busy, self.line_ns, self.count = [], None, 0

    def command(self, case, engine):
        binding = "core" if case.ranks == 2 else "none"
        launch = ["mpiexec", "-n", str(case.ranks), "--oversubscribe", "--bind-to", binding]
        if case.ranks > 2:  # the receiver keeps its core: waiting senders sleep
            launch += ["--mca", "mpi_yield_when_idle", "0"]
        front = {"matchbox": [self.mbx, "exec"], "ob1": [], "ucx": []}[engine]
        way = {"matchbox": [], "ob1": OB1, "ucx": UCX}[engine]
        return front + launch + way + case.words(self.build, engine)

    def measure(self, case, engine):
        env = {"UCX_TLS": "self,sm"} if engine == "ucx" else None
        lines = run_limited("demo", self.command(case, engine), LIMIT_S, env)
        if lines is None:
            return  # the row says that there is no result
        found = [as_dict(line) for line in lines]
        try:
            self.values[case.key, engine].append(case.value(found[0]))
        except (IndexError, KeyError) as error:
            raise Failed(f"{case.program} over {NAMES[engine]} has not said {error}: {lines}") from error

    def look_around(self):
        """How busy the machine is without us, and how far the two cores are from each other."""
        self.busy.append(others_share())
        lines = run_limited("demo", [self.mbx, "perf", "lat", "--size", "8", "--iterations", "2000"], LIMIT_S)
        if not lines:
            raise Failed(f"mbx perf lat has said nothing within {LIMIT_S} s")
        line = float(as_dict(lines[-1])["line_min_ns"])
        self.line_ns = line if self.line_ns is None else min(self.line_ns, line)

    def run(self, most, budget_s):
        """At most so many rounds, and after the first none that would not end within the budget."""
        start = time.monotonic()
        while self.count < most:
            spent = time.monotonic() - start
            if self.count > 0 and spent * (self.count + 1) / self.count > budget_s:
                break
            self.look_around()
            for case in self.cases:
                if case.once and self.count > 0:
                    continue
                self.say(f"  round {self.count + 1}: {case.title}")
                for engine in self.engines:
                    self.measure(case, engine)
            self.count += 1

    # ---- what came out ----

    def best(self, case, engine):
        values = self.values[case.key, engine]
        return (min(values) if case.less else max(values)) if values else None

    def is_unsteady(self, case):
        return any(min(values) * SPREAD < max(values) and max(values) - min(values) > 0.02
                   for (key, _), values in self.values.items() if key == case.key and len(values) > 1)

    def remarks(self):
        found = []
        if max(self.busy) > BUSY:
            found.append(f"The machine is busy: others took {max(self.busy):.0%} of its processors before a "
                         "round. Times are longer than they would be; ratios may be wrong.")
        if self.line_ns > FAR_NS:
            found.append(f"The two cores are far from each other: a cache line takes {self.line_ns:.0f} ns. "
                         "All times are longer because of this.")
        return found


def times_of_processors():
    with open("/proc/stat") as lines:
        words = [int(word) for word in next(lines).split()[1:]]
    return sum(words[:8]), words[3] + words[4]  # all; idle or waiting for a disk


def others_share(seconds=0.5):
    """Which part of the processors is in use while we do nothing."""
    all_before, idle_before = times_of_processors()
    time.sleep(seconds)
    all_after, idle_after = times_of_processors()
    passed = max(1, all_after - all_before)
    return 1 - (idle_after - idle_before) / passed
