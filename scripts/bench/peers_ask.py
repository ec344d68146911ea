# SPDX-License-Identifier: BSD-3-Clause
"""The questions of `./dev bench peers`, and the runs that answer them.

A question has groups of cases; within a group all that are measured take turns.  A run is one of them in one
group: it gives lines of key=value.  A figure of a question is a key of these lines, over x, in panels.
openmpi_ask.py asks some of them at more sizes and depths.
"""
import resource
import time

from benchlib import as_dict, run_limited, run_until
from peers_who import ALL, LIMIT_S, MPI_PROGRAMS
import pingponglib

KIB = 1 << 10
POWERS = [1 << bits for bits in range(3, 23)]


class Unmeasured(Exception):
    """There are no figures: why, in one sentence; is_slow: it had not failed, but not ended."""

    def __init__(self, why, is_slow=False):
        super().__init__(why)
        self.is_slow = is_slow


def lines_of(build, command):
    """The lines that a program prints, as dicts."""
    try:
        lines = run_limited(build.bench, command, LIMIT_S)
    except SystemExit as why:
        raise Unmeasured(str(why)) from None
    if lines is None:
        raise Unmeasured(f"no end within {LIMIT_S} s", True)
    return [as_dict(line) for line in lines]


def lines_until(build, command, limit_s):
    """(the same, or what there was when the time was over; has the program ended by itself?)"""
    try:
        lines, has_ended = run_until(build.bench, command, limit_s)
    except SystemExit as why:
        raise Unmeasured(str(why)) from None
    return [as_dict(line) for line in lines], has_ended


def timed(build, command):
    """The lines of lines_of(), each with the wall clock and the processors' time of the whole command."""
    def used():
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return children.ru_utime + children.ru_stime

    start, before = time.monotonic(), used()
    lines = lines_of(build, command)
    wall_ms, cpu_ms = (time.monotonic() - start) * 1e3, (used() - before) * 1e3
    return [dict(line, wall_ms=f"{wall_ms:.1f}", cpu_ms=f"{cpu_ms:.1f}") for line in lines]


def figures_of(figure, why):
    """Returns its result; its failure becomes Unmeasured, with `why`."""
    try:
        return figure()
    except pingponglib.Failed as error:
        raise Unmeasured(f"{why}: {error}") from None


def pingpong(build, who, size):
    """One line of fi_pingpong, which prints a mean, and does not warm up."""
    provider = {"fi-matchbox": "matchbox", "fi-shm": "shm", "fi-tcp": "tcp"}[who]
    env = {"FI_PROVIDER_PATH": build.file("src", "provider")} if who == "fi-matchbox" else {}
    count = 5000 if size <= 4 * KIB else 2000 if size <= 64 * KIB else 200 if size <= KIB << 10 else 60
    us = figures_of(lambda: pingponglib.measure(provider, "tagged", size, count, env), f"fi_pingpong -p {provider}")
    return {"size": size, "half_rtt_mean_ns": f"{us * 1e3:.1f}", "iterations": count}


def perftest(test, size):
    """One line of ucx_perftest: of a latency its median, of bandwidth and rate the mean of all."""
    most = 20000 if test == "tag_lat" else 200000
    count = max(200, min(most, (1 << (27 if test == "tag_lat" else 29)) // size))
    got = figures_of(lambda: pingponglib.ucx_perftest(test, size, count, {}), f"ucx_perftest -t {test}")
    if test == "tag_lat":
        return {"size": size, "half_rtt_median_ns": f"{got['50.0_percentile_lat'] * 1e3:.1f}", "iterations": count}
    return {"size": size, "median_messages_per_s": f"{got['overall_mr']:.0f}",
            # an MB of ucx_perftest has 2^20 bytes
            "median_MB_per_s": f"{got['overall_bw'] * 1.048576:.1f}", "iterations": count}


def sizes_of(sizes):
    return ",".join(map(str, sizes))


# words of panels in the lines of earlier runs
EARLIER = {"the newest": "newest message", "the order": "order"}


class Figure:
    """A value of a question's lines, over x.  keys: of the median and of the best; the first that is there.
    panel: the key of what has a table and a plot of its own, or a function of the line.  aim: an Aim, or None.
    as_ratio: its picture shows each value divided by the best rival's."""

    def __init__(self, name, title, unit, keys, x, panel=None, better="less", add=None, aim=None,
                 as_ratio=False):
        self.name, self.title, self.unit, self.keys, self.x = name, title, unit, keys, x
        self.panel, self.better, self.add, self.aim, self.as_ratio = panel, better, add, aim, as_ratio

    def panel_of(self, line):
        found = self.panel(line) if callable(self.panel) else line.get(self.panel, "")
        found = found.replace("_", " ")
        for word, now in EARLIER.items():
            found = found.replace(word, now)
        return found

    def values(self, line):
        """(median, best) of this line, or None."""
        for median, best in self.keys:
            if median in line:
                more = float(line[self.add]) if self.add else 0
                value = float(line[median]) + more
                return value, float(line[best]) + more if best in line else value
        return None


class Aim:
    """An aim of a form of Matchbox: times of at most, or rates of at least, factor x the best rival's.  text: the
    same in words."""

    def __init__(self, text, factor, rivals, who="component"):
        self.text, self.factor, self.rivals, self.who = text, factor, rivals, who


class Question:
    """rounds and groups: of the whole run, of --short and of --quick.  by_distance: is there a table for near
    cores and one for far ones?  without(group, depths): the group without what was too slow; None: nothing is left."""

    def __init__(self, name, title, text, figures, who, rounds, groups, run, by_distance=True,
                 without=lambda group, depths_: None):
        self.name, self.title, self.text, self.figures, self.who = name, title, text, figures, who
        self.rounds, self.groups, self.run, self.by_distance = rounds, groups, run, by_distance
        self.without = without


class Bench:
    """The measurements of `./dev bench FOLDER`.  formats: of the plots."""

    def __init__(self, folder, title, asked, who, formats=("png", "svg")):
        self.name, self.folder, self.title, self.formats = f"bench-{folder}", folder, title, formats
        self.asked, self.who = asked, who


# ---- two ranks -------------------------------------------------------------------

FI = ["fi-matchbox", "fi-shm", "fi-tcp"]
TWO = ["native", *MPI_PROGRAMS, "perftest"]


def latency(build, who, group):
    sizes, fi_sizes, batches = group
    if who == "native":
        return lines_of(build, ["taskset", "-c", ",".join(map(str, pingponglib.cores())), build.file("tools", "mbx"),
                         "perf", "lat", "--sizes", sizes_of(sizes),
                         *(["--iterations", "2000"] if batches < 20 else [])])
    if who == "perftest":
        return [perftest("tag_lat", size) for size in sizes]
    if who in FI:
        # TCP is for comparison only, with fewer points
        return [pingpong(build, who, size) for size in (fi_sizes[::3] if who == "fi-tcp" else fi_sizes)]
    return lines_of(build, build.launch(who, 2, "mpi_pt2pt", "--batches", batches, "LABEL", "lat", *sizes))


def stream(what, test):
    def run(build, who, sizes):
        if who == "native":
            return lines_of(build, [build.file("tools", "mbx"), "perf", what, "--window", "64", "--sizes", sizes_of(sizes)])
        if who == "perftest":
            return [perftest(test, size) for size in sizes]
        return lines_of(build, build.launch(who, 2, "mpi_pt2pt", "--batches", 20, "LABEL", what, *sizes))
    return run


def types(build, who, group):
    name, what, sizes = group
    return lines_of(build, build.launch(who, 2, "mpi_pt2pt", "--batches", 12, "--type", name, "LABEL", what, *sizes))


MODES = {"there": "in_order_of_arrival", "there_back": "newest_message_first"}


def depths(build, who, group):
    """Depths that were not reached when the time was over have skipped= in place of figures."""
    mode, wild, numbers, seconds, limit_s = group
    if who == "native":
        command = build.native(2, "native_match", mode, sizes_of(numbers), seconds, wild)
    else:
        command = build.launch(who, 2, "mpi_match", "LABEL", mode, sizes_of(numbers), seconds, wild)
    lines, has_ended = lines_until(build, command, limit_s)
    what = {"mode": MODES.get(mode, mode), "receives": "ANY_SOURCE" if wild else "exact"}
    missing = [] if has_ended else numbers[len(lines):]
    return [dict(line, **what) for line in lines] + [dict(what, **line) for line in stopped(missing, limit_s)]


def stopped(numbers, limit_s):
    """The lines of depths that have no figures: the time was over in the first of them."""
    for n in numbers:
        why = f"stopped_after_{limit_s}_s" if n == numbers[0] else f"not_tried,_since_{numbers[0]}_was_stopped_after_{limit_s}_s"
        yield {"depth": str(n), "skipped": "too_slow", "why": why}


def without_depths(group, depths_):
    """The group without these; None: nothing is left."""
    mode, wild, numbers, seconds, limit_s = group
    left = [n for n in numbers if n not in depths_]
    return (mode, wild, left, seconds, limit_s) if left else None


# ---- more ranks ------------------------------------------------------------------

def starts(build, who, ranks):
    if who == "native":
        return timed(build, build.native(ranks, "start_native", "nothing"))
    return timed(build, build.launch(who, ranks, "start_mpi", "LABEL", "nothing"))


def contact(build, who, ranks):
    if who == "native":
        return lines_of(build, build.native(ranks, "start_native", "contact"))
    return lines_of(build, build.launch(who, ranks, "start_mpi", "LABEL", "contact"))


PATTERNS = {"pingpong": 8, "allreduce": 8, "alltoall": 1024, "halo": 4096}


def crowd(build, who, group):
    ranks, budget_ms = group
    return lines_of(build, build.launch(who, ranks, "oversubscribed_mpi", "LABEL", budget_ms,
                                 *(f"{name}:{size}" for name, size in PATTERNS.items())))


LATENCY_KEYS = [("half_rtt_median_ns", "half_rtt_min_ns"), ("half_rtt_mean_ns", "half_rtt_mean_ns")]
DEPTHS = [16, 256, 1024, 4096]
LARGE = [size for size in POWERS if size >= 8 * KIB]
SMALL = [size for size in POWERS if size < 8 * KIB]


def depth_groups(modes, wilds, full, short, limit_s=LIMIT_S):
    def groups(seconds, numbers):
        return {f"{mode}-{'any' if wild else 'exact'}": (mode, wild, numbers, seconds, limit_s)
                for mode in modes for wild in wilds}
    return {"full": groups(0.15, full), "short": groups(0.1, short), "quick": groups(0.02, [16, 64])}


ASKED = [
    Question("latency", "Latency", "Two ranks on two cores play ping-pong; half of the time of a round trip.",
             [Figure("latency", "latency", "ns", LATENCY_KEYS, "size",
                     lambda line: "short messages" if int(line["size"]) <= 4 * KIB else "long messages")],
             TWO + FI, {"full": 3, "short": 2, "quick": 1},
             {"full": {"to-4K": (SMALL, [8, 64, KIB, 4 * KIB], 60), "to-256K": (LARGE[:6], LARGE[:6], 60),
                       "to-4M": (LARGE[6:], LARGE[6:], 30)},
              "short": {"to-4K": ([8, 64, KIB, 4 * KIB], [8, KIB], 60), "to-4M": (LARGE, LARGE[::3], 30)},
              "quick": {"few": ([8, 4 * KIB], [64 * KIB], 10)}}, latency),
    Question("bandwidth", "Bandwidth", "Windows of 64 messages one way, each answered by one message.",
             [Figure("bandwidth", "bandwidth", "MB/s", [("median_MB_per_s", "max_MB_per_s")], "size",
                     better="more")],
             TWO, {"full": 3, "short": 1, "quick": 1},
             {"full": {"to-64K": [4 * KIB, 16 * KIB, 64 * KIB], "to-4M": [256 * KIB, 1 << 20, 4 << 20]},
              "short": {"all": [4 * KIB, 64 * KIB, 1 << 20]}, "quick": {"few": [16 * KIB]}},
             stream("bw", "tag_bw")),
    Question("rate", "Message rate", "Windows of 64 short messages one way, each answered by one message.",
             [Figure("rate", "messages per second", "/s", [("median_messages_per_s", "max_messages_per_s")],
                     "size", better="more")],
             TWO, {"full": 5, "short": 2, "quick": 1},
             {"full": {"all": [8, 64, 512, KIB, 4 * KIB]}, "short": {"all": [8, 64, KIB]}, "quick": {"few": [8]}},
             stream("rate", "tag_bw")),
    Question("receive", "Receive of an unexpected message",
             "N messages of 8 bytes, each with its own tag, have arrived. MPI_Recv (natively mbx_try_recv) receives them in "
             "order of arrival, or the newest message first. Time of one call.",
             [Figure("receive", "one receive", "ns", [("median_ns", "min_ns")], "depth", "mode")],
             ["native", *MPI_PROGRAMS], {"full": 4, "short": 1, "quick": 1},
             depth_groups(["there", "there_back"], [0], DEPTHS + [16384], DEPTHS), depths, without=without_depths),
    Question("posted", "Posted receives, matched in reverse order",
             "N receives of 8 bytes, each with its own tag, are posted. Then the messages arrive in reverse order. Time of one "
             "message, from the first post to the last completion.",
             [Figure("posted", "one message", "ns", [("median_ns", "min_ns")], "depth", "receives")],
             ["native", *MPI_PROGRAMS], {"full": 3, "short": 1, "quick": 1},
             depth_groups(["expected"], [0, 1], DEPTHS + [16384], DEPTHS), depths, without=without_depths),
    Question("types", "Derived types",
             "Ping-pong with a derived type at both ends: every other double (vector), blocks of 56 to 128 bytes (blocks), a C "
             "structure (struct). The size counts the data without gaps.",
             [Figure("types", "latency", "ns", LATENCY_KEYS, "size", "type")],
             MPI_PROGRAMS, {"full": 3, "short": 1, "quick": 1},
             {"full": {name: (name, "lat", [1024, 16384, 262144]) for name in ("vector", "blocks", "struct")},
              "short": {name: (name, "lat", [1024, 65536]) for name in ("vector", "blocks", "struct")},
              "quick": {"vector": ("vector", "lat", [1024])}}, types),
    Question("start", "A job that does nothing",
             "Time of MPI_Init and MPI_Finalize in rank 0 (natively mbx_job_open to mbx_job_close), and time of the whole "
             "command, from the start of the launcher to its end.",
             [Figure("init", "MPI_Init and MPI_Finalize", "ms", [("init_ms", "init_ms")], "ranks", add="finalize_ms"),
              Figure("job", "the whole job, wall clock", "ms", [("wall_ms", "wall_ms")], "ranks"),
              Figure("job-cpu", "the whole job, processor time", "ms", [("cpu_ms", "cpu_ms")], "ranks")],
             ["native", *MPI_PROGRAMS], {"full": 3, "short": 1, "quick": 1},
             {"full": {"2": 2, "32": 32}, "short": {"2": 2, "32": 32}, "quick": {"2": 2}}, starts, by_distance=False),
    Question("crowd", "More ranks than cores",
             "4 to 32 ranks on two cores, not bound to one of them: ping-pong of pairs of neighbours (8 bytes, latency), "
             "MPI_Allreduce of 8 bytes, MPI_Alltoall of 1 KiB, and a halo exchange of 4 KiB with four neighbours. Time of one "
             "exchange on the slowest rank.",
             [Figure("crowd", "one exchange", "us", [("median_us", "min_us")], "ranks", "pattern", as_ratio=True)],
             MPI_PROGRAMS, {"full": 4, "short": 1, "quick": 1},
             {"full": {str(n): (n, 150) for n in (4, 8, 16, 32)}, "short": {str(n): (n, 80) for n in (4, 8, 16)},
              "quick": {"4": (4, 10)}}, crowd),
    Question("contact", "First contact of all with all",
             "Every rank sends 8 bytes to every other rank and receives as many, twice. Memory is the sum over all ranks: how "
             "much it grows in both exchanges, and its size afterwards.",
             [Figure("contact", "the first time", "ms", [("first_ms", "first_ms")], "ranks"),
              Figure("contact-again", "the second time", "ms", [("again_ms", "again_ms")], "ranks"),
              Figure("contact-memory", "growth of the job's memory", "KiB", [("grown_kib", "grown_kib")], "ranks"),
              Figure("contact-whole", "the job's memory afterwards", "KiB", [("whole_kib", "whole_kib")], "ranks")],
             ["native", *MPI_PROGRAMS], {"full": 2, "short": 1, "quick": 1},
             {"full": {"16": 16, "64": 64}, "short": {"16": 16}, "quick": {"4": 4}}, contact, by_distance=False),
]
PEERS = Bench("peers", "Matchbox and its peers", ASKED, list(ALL))
