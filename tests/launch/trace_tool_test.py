#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""trace_tool_test.py MBX - `mbx trace` reads files as docs/reference/trace-format.md describes them.

The files are written here, from the description, without the library.
"""
import os
import random
import re
import struct
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from patience import PATIENCE_S  # noqa: E402
from trace_file import (ALL, ANY, ARRIVE, CANCEL, CLAIM, CLOSE, DISCARD, DONE, HALF, LEAVE, NAME, PEEK, PEER, POST, PROGRAM, RECEIVED, RTR, SEND,  # noqa: E402
                        SENT, SHORT, TAKE, TINY, WAIT, WAITED, checked, text, trace)

MBX = os.path.abspath(sys.argv[1])

END = (CLOSE, 0, 0, 0, 0, 0, 0)
STORY = trace(
    (POST, 1, 2, 0x10, 0, 1, 0), (POST, 1, ANY, 0x20, ALL, 2, 0), (POST, 7, 2, 0x10, 0xf, 3, 0),
    (ARRIVE, 1, 2, 0x21, 0, 0, 2), (CANCEL, 1, 2, 0x10, 0, 1, 0),
    (ARRIVE, 1, 0, 4, 0, 1, 0), (ARRIVE, 1, 0, 5, 0, 2, 0), (ARRIVE, 1, 0, 6, 0, 3, 0),
    (PEEK, 1, 9, 4, 0, 0, 0), (PEEK, 1, 0, 5, 0, 0, 2), (POST, 1, 0, 6, 0, 4, 3),
    (CLAIM, 1, 0, 5, 0, 2, 0), (TAKE, 1, 0, 5, 0, 2, 5), (CLAIM, 1, 0, 4, 0, 1, 0),
    (DISCARD, 1, 0, 4, 0, 1, 0), END)
LISTING = """\
FILE: process 4711, endpoint 2, rank 5
        1.500 post     context 1 source 2 tag 10 r1 waits
        3.000 post     context 1 source * tag 20 ignore ffffffffffffffff r2 waits
        4.500 post     context 7 source 2 tag 10 ignore f r3 waits
        6.000 arrive   context 1 source 2 tag 21 meets r2
        7.500 cancel   context 1 source 2 tag 10 r1
        9.000 arrive   context 1 source 0 tag 4 m1 waits
       10.500 arrive   context 1 source 0 tag 5 m2 waits
       12.000 arrive   context 1 source 0 tag 6 m3 waits
       13.500 peek     context 1 source 9 tag 4 sees nothing
       15.000 peek     context 1 source 0 tag 5 sees m2
       16.500 post     context 1 source 0 tag 6 r4 takes m3
       18.000 claim    context 1 source 0 tag 5 m2
       19.500 take     context 1 source 0 tag 5 m2 goes to r5
       21.000 claim    context 1 source 0 tag 4 m1
       22.500 discard  context 1 source 0 tag 4 m1
       24.000 close
"""
SUMMARY = """
rank   records   seconds  receives    waited  messages    waited  cancels   probes    found   claims  contexts
   5        16     0.000         4         3         4         3        1        2        1        2         2

rank longest posted longest unexpected any source %    masks    never met  never taken
   5              2                  3         25.0        3            1            0

entries that a plain list walks; in % of all searches of the line
rank by a      searches      mean      most       0       1    2-15  16-255 256-4095    more
   5 message          4      0.50         2    75.0     0.0    25.0     0.0      0.0     0.0
   5 receive          4      0.75         3    75.0     0.0    25.0     0.0      0.0     0.0
   5 probe            2      2.50         3     0.0     0.0   100.0     0.0      0.0     0.0

rank source     ignored bits  receives       %
   5 one                   0         2    50.0
   5 any    ffffffffffffffff         1    25.0
   5 one                   f         1    25.0

no rank waited
"""

NAMED = """\
FILE: process 4711, endpoint 2, rank 5
post     MPI_COMM_WORLD from rank 2 tag 7 r1 waits
arrive   MPI_COMM_WORLD from rank 2 tag 7 meets r1
post     a name of more than one record from MPI_ANY_SOURCE any tag r2 waits
arrive   a name of more than one record from rank 0 of job 9 barrier m1 waits
arrive   a name of more than one record from rank 6 tag 9 meets r2
arrive   communicator 4 from peer 3 tag 8 m2 waits
close
FILE2: process 4712, endpoint 2, rank 6
post     communicator 3 from MPI_ANY_SOURCE any tag r1 waits
arrive   communicator 3 from peer 0 tag 7 synchronous meets r1
arrive   context 2 source 0 tag 10 m1 waits
close
"""

failures = []


def run(*arguments):
    return subprocess.run([MBX, "trace", *arguments], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=PATIENCE_S)


def expect(name, got, want):
    if got != want:
        failures.append(f"{name}: got\n{got}\nwant\n{want}")


def expect_error(name, data, text, path, *options):
    """Expects status 1, and one line with this text about the file."""
    with open(path, "wb") as out:
        out.write(data)
    done = run(*options, path)
    if done.returncode != 1 or f"mbx trace: {path}: " not in done.stderr or text not in done.stderr:
        failures.append(f"{name}: status {done.returncode}, {done.stderr!r}, want {text!r}")
    return done.stdout


def test_good(path):
    with open(path, "wb") as out:
        out.write(STORY)
    for options, want in ([], LISTING.replace("FILE", path)), (["--summary"], SUMMARY):
        done = run(*options, path)
        expect(f"output {options}", done.stdout, want)
        expect(f"errors {options}", (done.returncode, done.stderr), (0, ""))


def test_names(path):
    """Events of an MPI program that gives its names are shown in MPI's words."""
    other = path + "2"
    anything = 0x7fffffff
    component = [
        *text(PROGRAM, "component Open MPI v4.1.4, package: Debian OpenMPI"),
        *text(NAME, "MPI_COMM_WORLD", 0, 4), *text(NAME, "a name of more than one record", 3, 2),
        (PEER, 0, 0, 77, 0, 4712, 3), (PEER, 0, 1, 77, 9, 4713, 1), (PEER, 0, 2, 77, 0, 4712, 0),
        (PEER, 0, 3, 78, 0, 4712, 0),
        (POST, 0, 0, 7, 0, 1, 0), (ARRIVE, 0, 0, 7, 0, 0, 1), (POST, 3, ANY, 0, anything, 2, 0),
        (ARRIVE, 3, 1, 0xfffffff0, 0, 1, 0), (ARRIVE, 3, 2, 9, 0, 0, 2), (ARRIVE, 4, 3, 8, 0, 2, 0),
        END]
    provider = [
        *text(PROGRAM, "provider Open MPI v4.1.4"),
        (POST, 1, ANY, 3 << 34, 1 << 63 | 1 << 32 | anything, 1, 0),
        (ARRIVE, 1, 0, 1 << 63 | 3 << 34 | 1 << 32 | 7, 0, 0, 1), (ARRIVE, 2, 0, 0x10, 0, 1, 0), END]
    unknown = [*text(PROGRAM, "provider An MPI of 2040"), (POST, 1, 2, 0x10, 0xf, 1, 0), END]
    for file, events, rank, pid in (path, component, 5, 4711), (other, provider, 6, 4712):
        with open(file, "wb") as out:
            out.write(trace(*events, rank=rank, pid=pid))
    done = run(path, other)
    expect("names: errors", (done.returncode, done.stderr), (0, ""))
    expect("names", re.sub(r"^ *[0-9.]+ ", "", done.stdout, flags=re.MULTILINE), NAMED.replace(
        "FILE2", other).replace("FILE", path))
    summary = run("--summary", path).stdout
    expect("names: summary", summary[summary.rindex("\nrank number"):], """
rank number  ranks  receives    waited  messages    waited  communicator
   5      0      4         1         1         1         0  MPI_COMM_WORLD
   5      3      2         1         1         2         1  a name of more than one record
   5      4      ?         0         0         1         1  -

no rank waited
""")
    with open(path, "wb") as out:
        out.write(trace(*unknown))
    expect("unknown", run(path).stdout.splitlines()[1].split(" ", 6)[-1].strip().split(" ", 1)[1].strip(),
           "post     context 1 source 2 tag 10 ignore f r1 waits")
    os.unlink(other)
    for name, event, said in (
            ("long text", (PROGRAM, 0, 0, 64 << 32, 1, 1, 1), "its text is too long"),
            ("text of a source", (NAME, 0, 1, 0, 1, 1, 1), "it has an envelope"),
            ("any peer", (PEER, 0, ANY, 77, 0, 1, 1), "it names no peer")):
        expect_error(name, trace(event, END), said, path)


def test_senders_in_tags(path):
    """Receives of an MPICH through libucp have any source, and their tags name the sender."""
    errors, any_rank = 3 << 29, 0xffff << 32
    with open(path, "wb") as out:
        out.write(trace(*text(PROGRAM, "ucp MPICH Version: 4.0.2"), (POST, 2, ANY, 0, ALL, 1, 0),
                        (POST, 1, ANY, 3 << 32 | 7, errors, 2, 0), (POST, 1, ANY, 4 << 52 | 1 << 32 | 8, errors, 3, 0),
                        (POST, 1, ANY, 3 << 48 | 1 << 32 | 1, errors, 4, 0), (POST, 1, ANY, 9, errors | any_rank, 5, 0), END))
    done = run(path)
    expect("senders in tags", [line.split(None, 2)[-1] for line in done.stdout.splitlines() if "post " in line], [
        "context 2 source * tag 0 ignore ffffffffffffffff r1 waits",
        "MPI_COMM_WORLD from rank 3 tag 7 r2 waits",
        "communicator 4 from rank 1 of it tag 8 r3 waits",
        "MPI_COMM_WORLD (of a node) from rank 1 of it barrier r4 waits",
        "MPI_COMM_WORLD from MPI_ANY_SOURCE tag 9 r5 waits"])
    summary = run("--summary", path).stdout
    expect("senders in tags: any source", [line.split()[3] for line in summary.splitlines() if line.startswith("   5 ")][1:2], ["40.0"])
    expect("senders in tags: masks", sorted(line.split()[1] for line in summary.splitlines() if re.match("   5 +(one|any) ", line)),
           ["any", "any", "one"])


def test_cut_wait(path):
    """If a copy ended a wait before its message was complete, the wait was for that message; but not if the rank has begun
    something else before, or the message later."""
    other, ms = path + "2", 1000000
    names = [(PEER, 0, 0, 77, 0, 4711, 1), (PEER, 0, 1, 77, 0, 4712, 2)]
    send, sent = (SEND, 0, 1, 8, 1 << 20, 1, 0), (SENT, 0, 1, 8, 3, 1, 0)
    leave, small = (LEAVE, 0, 1, 8, 3, 1, 1), (SEND, 0, 1, 9, 8, 1, 0)
    # 10 ms from its first look to its last one, and then 1 ms of copying
    wait = [(WAIT, 0, 0, 0, 10000, 1, 0, 10000), (WAITED, 0, 0, 0, 10 * ms, 1, ms, 11 * ms - 10000)]
    receives = [(POST, 0, 0, 8, 0, 1, 0, 9 * ms), (ARRIVE, 0, 0, 8, 0, 0, 1), (RECEIVED, 0, 0, 8, 1 << 20, 1, 0, 2 * ms), END]
    late = "rank 0 waited 0.009 of 0.011 s for rank 1 (1 time): late receiver, context 0 tag 8\n"
    for name, events, said in (("next", [send, leave, *wait, sent], late),
                               ("in it", [send, leave, wait[0], (*sent, 10 * ms), (*wait[1][:7], ms)], late),
                               ("after another", [send, leave, *wait, small, sent], ""),
                               ("begun later", [*wait, send, leave, sent], "")):
        for file, rank, pid, trace_of in (path, 0, 4711, [*names, *events, END]), (other, 1, 4712, [*names, *receives]):
            with open(file, "wb") as out:
                out.write(trace(*trace_of, rank=rank, pid=pid))
        done = run("--summary", path, other)
        expect(f"cut wait, {name}", (done.returncode, done.stderr, "".join(re.findall("^rank 0 waited .* for .*\n", done.stdout, re.M))),
               (0, "", said))
    os.unlink(other)


def test_several(path):
    """One damaged file does not hide the others."""
    other = path + "2"
    with open(path, "wb") as out:
        out.write(STORY)
    with open(other, "wb") as out:
        out.write(trace((POST, 1, 2, 3, 0, 1, 0), END, rank=ANY))
    done = run("--summary", other, path + "-none", path)
    expect("several: status", done.returncode, 1)
    expect("several: error", done.stderr,
           f"mbx trace: {path}-none: cannot be opened: No such file or directory\n")
    expect("several: lines", [line.split()[0] for line in done.stdout.split("\n\n")[0].splitlines()
                              if line], ["rank", "5", "4711-2"])
    os.unlink(other)


def test_done(path):
    """A record that is done is two events.  Without that mark its further fields are skipped; version 3 has no such
    records."""
    sent, came = (SEND, 1, 2, 3, 8, 1), (ARRIVE, 1, 2, 3)
    now = trace((SEND | DONE, *sent[1:], 2), (POST, 1, 2, 3, 0, 7, 0), (ARRIVE | DONE, *came[1:], 9, 0, 7),
                (SEND, 1, 2, 3, 8, 2, 2), (POST, 1, 2, 3, 0, 8, 0), (ARRIVE, *came[1:], 9, 0, 8), END)
    before = trace((*sent, 0), (SENT, 1, 2, 3, 2, 0, 1, 0), (POST, 1, 2, 3, 0, 7, 0), (*came, 0, 0, 7),
                   (RECEIVED, 1, 2, 3, 8, 7, 0, 0), (SEND, 1, 2, 3, 8, 2, 0), (POST, 1, 2, 3, 0, 8, 0), (*came, 0, 0, 8), END,
                   version=3)
    listings = []
    for data in now, before:
        with open(path, "wb") as out:
            out.write(data)
        done = run(path)
        expect("done: status", (done.returncode, done.stderr), (0, ""))
        listings.append(done.stdout)
    expect("done: as the version before", *listings)
    expect("done: events", [line.split()[1] for line in listings[0].splitlines()[1:]],
           ["send", "sent", "post", "arrive", "received", "send", "post", "arrive", "close"])
    for name, event in ("says how", (SEND | DONE, *sent[1:], 0)), ("has bytes", (ARRIVE | DONE, *came[1:], 0, 0, 7)), \
            ("of this type", (POST | DONE, 1, 2, 3, 0, 7, 0)), ("waits", (ARRIVE | DONE, *came[1:], 0, 7, 0)):
        expect_error(f"done: {name}", trace(event, END), "record 0: it is complete at once, and does not say how", path)
    expect_error("done: in version 3", trace((SEND | DONE, *sent[1:], 2), END, version=3), "record 0: the check is wrong", path)


def test_short(path):
    """A short record stands for the last long record of its form, with other numbers."""
    shorts = trace((POST | 3 << 16, 1, 2, 3, 0, 7, 0), (SEND | DONE | 511 << 16, 1, 2, 3, 8, 1, 2),
                   (SHORT, 3, HALF + 2, 0), (SHORT | DONE, 511, HALF + 1, HALF, 70), (SEND | TINY, 9),
                   (SEND | TINY | DONE,), (ARRIVE | 3 << 16, 1, 2, 3, 9, 0, 7),
                   (SHORT | DONE, 3, 0, HALF + 2), END)
    longs = trace((POST, 1, 2, 3, 0, 7, 0), (SEND | DONE, 1, 2, 3, 8, 1, 2), (POST, 1, 2, 3, 0, 9, 0),
                  (SEND | DONE, 1, 2, 3, 8, 2, 2, 70), (SEND, 1, 2, 3, 8, 3, 2, 9), (SEND | DONE, 1, 2, 3, 8, 4, 2), (ARRIVE, 1, 2, 3, 9, 0, 7), (ARRIVE | DONE, 1, 2, 3, 9, 0, 9), END)
    listings = []
    for data in shorts, longs:
        with open(path, "wb") as out:
            out.write(data)
        done = run(path)
        expect("short: status", (done.returncode, done.stderr), (0, ""))
        listings.append(done.stdout)
    expect("short: as long ones", *listings)
    for name, data, text in (("of no form", trace((POST, 1, 2, 3, 0, 7, 0), (SHORT, 3, HALF + 1, 0)), "offset 120: record 1: it is like an event that is not there"),
                             ("tiny after a long one", trace((POST, 1, 2, 3, 0, 7, 0), (POST | TINY,)), "offset 120: record 1: it is like an event that is not there"),
                             ("tiny after a short and a long one", trace((POST | 3 << 16, 1, 2, 3, 0, 7, 0), (SHORT, 3, HALF + 1, 0), (POST | 4 << 16, 1, 2, 4, 0, 9, 0), (POST | TINY,)),
                              "record 3: it is like an event that is not there"),
                             ("tiny of a form of another type", trace((POST | 3 << 16, 1, 2, 3, 0, 7, 0), (SHORT, 3, HALF + 1, 0), (ARRIVE | 3 << 16, 1, 2, 3, 9, 0, 7), (POST | TINY,)),
                              "record 3: it is like an event that is not there"),
                             ("of version 4", trace((POST, 1, 2, 3, 0, 7, 0), (SHORT, 0, HALF + 1, 0), END, version=4), "record 1: the check is wrong"),
                             ("large form", trace((POST | 512 << 16, 1, 2, 3, 0, 7, 0)), "record 0: its form has a number that is too large"),
                             ("zero", trace((POST | 2 << 8, 1, 2, 3, 0, 7, 0)), "record 0: field zero is not 0"),
                             ("form of version 4", trace((POST | 2 << 16, 1, 2, 3, 0, 7, 0), version=4), "record 0: field zero is not 0")):
        expect_error(f"short: {name}", data, text, path)


def test_damaged(path):
    for size, offset in (20, 20), (64, 64), (65, 64), (len(STORY) - 1, len(STORY) - 56):
        out = expect_error(f"cut at {size}", STORY[:size], f"at offset {offset}: ", path)
        expect(f"cut at {size}: events", len(out.splitlines()),
               0 if size < 64 else (size - 64) // 56 + 1)
    damaged = bytearray(STORY)
    damaged[64 + 3 * 56 + 20] ^= 1
    expect_error("a bit", damaged, "at offset 232: record 3: the check is wrong", path)
    damaged = bytearray(STORY)
    damaged[8] ^= 1
    expect_error("a bit of the version", damaged, "at offset 0: the check of the header is wrong: it is damaged", path)
    for magic in STORY[:8], b"MBXFLGHT":
        expect_error("version", checked(magic + b"\1" + STORY[9:64], 28, 0) + STORY[64:], "another version of Matchbox: it has format 1, and here formats 3 to 6 are read; mbx of", path)
    expect_error("text", b"x" * 100, "this is no trace", path)


def test_contradictions(path):
    """Valid records that together are impossible."""
    post, arrive = (POST, 1, 2, 3, 0, 1, 0), (ARRIVE, 1, 2, 4, 0, 1, 0)
    for name, events, text in (
            ("meets nobody", [(ARRIVE, 1, 2, 3, 0, 0, 9)],
             "record 0: arrive names receive 9 which does not wait"),
            ("posted twice", [post, post], "record 1: post names receive 1 a second time"),
            ("kept twice", [arrive, arrive], "record 1: arrive names message 1 a second time"),
            ("other context", [post, (ARRIVE, 2, 2, 3, 0, 0, 1)], "receive 1 which does not wait"),
            ("cancelled twice", [post] + [(CANCEL, 1, 2, 3, 0, 1, 0)] * 2,
             "record 2: cancel names receive 1 which does not wait"),
            ("claimed twice", [arrive] + [(CLAIM, 1, 2, 4, 0, 1, 0)] * 2,
             "record 2: claim names message 1 which does not wait"),
            ("taken unclaimed", [arrive, (TAKE, 1, 2, 4, 0, 1, 1)],
             "record 1: take names message 1 which is not claimed"),
            ("discarded twice", [arrive, (CLAIM, 1, 2, 4, 0, 1, 0)] +
             [(DISCARD, 1, 2, 4, 0, 1, 0)] * 2,
             "record 3: discard names message 1 which is not claimed"),
            ("sees a receive", [post, (PEEK, 1, 2, 3, 0, 0, 1)],
             "record 1: peek names message 1 which does not wait")):
        expect_error(name, trace(*events, END), text, path, "--summary")


def asked(second):
    """Senders 2 and 4 know of a receive; a message of 2 matches the next one, then one of `second` matches the first."""
    return [(POST, 1, ANY, 3, 0, 1, 0), (RTR, 1, 2, 3, 0, 1, 1), (RTR, 1, 4, 3, 0, 1, 1), (POST, 1, ANY, 3, 0, 2, 0),
            (ARRIVE, 1, 2, 3, 0, 0, 2), (ARRIVE, 1, second, 3, 0, 0, 1)]


def test_wrong_order(path):
    """An engine that breaks MPI's order is detected."""
    any_first = [(POST, 1, ANY, 3, 0, 1, 0), (POST, 1, 2, 3, 0, 2, 0), (ARRIVE, 1, 2, 3, 0, 0, 2)]
    missed = [(POST, 1, 2, 3, 0xff, 1, 0), (ARRIVE, 1, 2, 8, 0, 1, 0)]
    for events, text in (
            (any_first, "1 answers break MPI's order; the first: record 2: arrive met 2, "
             "the oldest that fits is 1"),
            (missed, "1 answers break MPI's order; the first: record 1: arrive met 0, "
             "the oldest that fits is 1"),
            (asked(2), "1 answers break MPI's order; the first: record 5: arrive met 1, which an older "
             "message of its source has passed")):
        expect_error("wrong order", trace(*events, END), text, path, "--summary")
    with open(path, "wb") as out:
        out.write(trace(*asked(4), END))
    done = run("--summary", path)
    expect("a receive that another sender has locked", (done.returncode, done.stderr), (0, ""))


def test_random_stories(path):
    """Random records, which need not make sense together, are read, and nothing breaks."""
    seed = struct.unpack("<I", os.urandom(4))[0]
    chance = random.Random(seed)
    small = (0, 0, 1, 1, 2, 3, 4711, 4712, 1 << 31, 1 << 63, ALL)
    for n in range(40):
        paths = [f"{path}{i}" for i in range(2)]
        for rank, name in enumerate(paths):
            events = []
            for _ in range(chance.randrange(200)):
                kind = chance.choice((POST, ARRIVE, CANCEL, CLAIM, TAKE, DISCARD, *range(22, 39), chance.randrange(42)))
                event = [kind, chance.choice((0, 1, 4711, 4712)), chance.choice((0, 1, 2, 7, 1 << 20, ANY - 1)), *chance.choices(small, k=4)]
                if kind in (POST, CANCEL) or kind >= 25:
                    event[5] = event[5] or 1
                if kind in (ARRIVE, 27):
                    event[5 + chance.randrange(2)] = 0
                if kind in (WAIT, WAITED, 38):
                    event[1] = event[2] = event[3] = 0
                events.append(tuple(event))
            with open(name, "wb") as out:
                out.write(trace(*events, *([END] if chance.randrange(2) else []), rank=chance.choice((rank, ANY)), pid=4711 + rank))
        for options in ["--summary"], ["--html", path + ".html"], ["--perfetto", path + ".perfetto"], ["--chart", "svg"], []:
            done = run(*options, *paths)
            if done.returncode not in (0, 1) or "Sanitizer" in done.stderr:
                failures.append(f"random stories: seed {seed}, number {n}, {options}: {done.returncode} {done.stderr[-2000:]}")
                return
    for name in [*paths, path + ".html", path + ".perfetto"]:
        os.unlink(name)


def test_arguments(path):
    for arguments, status, text in (([], 2, "FILE is missing"), (["--nothing", path], 2, "--nothing"),
                                    ([path + "-none"], 1, path + "-none"),
                                    (["/"], 1, "Is a directory")):
        done = run(*arguments)
        expect(f"arguments {arguments}", (done.returncode, text in done.stderr), (status, True))
    whole = trace(END)
    with open(path, "wb") as out:
        out.write(whole)
    for option in "--html", "--perfetto":  # mbx trace --html *.trace
        done = run(option, path, path)
        with open(path, "rb") as file:
            expect(f"{option} over a trace", (done.returncode, "would be overwritten" in done.stderr, file.read() == whole), (2, True, True))
    done = run("--chart", "svg", path)
    expect("a chart of nothing", (done.returncode, "give the traces of all ranks" in done.stderr, done.stdout), (1, True, ""))
    expect("--help", (run("--help").returncode, "usage: mbx trace" in run("--help").stdout),
           (0, True))


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "a.trace")
        for test in (test_good, test_names, test_senders_in_tags, test_cut_wait, test_several, test_done, test_short, test_damaged, test_contradictions,
                     test_wrong_order, test_arguments, test_random_stories):
            test(path)
    for failure in failures:
        print("FAIL", failure)
    print(f"trace_tool_test: {len(failures)} failures")
    return 1 if failures else 0


sys.exit(main())
