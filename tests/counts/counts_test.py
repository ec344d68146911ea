#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""counts_test.py [--write] [--only WORD] [--mbx FILE] FOLDER - how many instructions do the canonical paths take?

counts.txt in the folder of this file has a row for each path, with its count.  This builds what ./dev build
builds, in FOLDER, runs each row under callgrind, and compares.  A count that has changed by more than the
tolerance, either way, is a failure: --write puts the new counts into the table, for the commit that changes them,
with the reason.  With --mbx FILE that program, which starts the MPI programs and is not counted, is used as mbx:
linking it takes as long as linking the library.

Exit code 77: no valgrind, or not x86-64 with gcc.  Rows that cannot be run here (Open MPI does not load the
component, or is not installed) are left out, and named.
"""
import argparse
import concurrent.futures
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from patience import PATIENCE_S  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TABLE = os.path.join(ROOT, "tests", "counts", "counts.txt")
# As ./dev build (scripts/dev/lib.sh, configure), without the places for tracers, each of which is a nop; and
# with the error for a format that is not a literal, as in builds of Debian packages.
OPTIONS = ["--buildtype=release", "-Db_lto=true", "-Db_ndebug=false", "-Dtests=false", "-Dusdt=disabled",
           "-Dc_args=-Wformat -Werror=format-security"]
ALWAYS = ["libmatchbox.so"]
COMPONENT = "src/pml/mca_pml_matchbox.so"
MANY = "-many"  # with MPI_THREAD_MULTIPLE
OF_WAY = {"native": [], "pml": [COMPONENT], "pml" + MANY: [COMPONENT],
          "record": [COMPONENT, "src/pml/libmatchbox-preload.so"],
          "provider": ["src/provider/libmatchbox-fi.so"], "ucp": ["src/ucp/libucp.so.0"]}
GCC = 12  # the version with which the table was counted
# A count may differ by this part of it, or by this many instructions, whichever is more.
TOLERANCE, LEAST = 0.015, 2
# Most of the work in these rows is polling, some of it by time: a busy machine adds up to 3 instructions to 151.
IN_VAIN, TOLERANCE_IN_VAIN = "in_vain", 0.04
TRIES = 4  # at least, for a count above the table's
UNTIL = time.monotonic() + PATIENCE_S  # until then it is counted again
TOLERANCE_OF_OTHERS = 0.10  # with another gcc


class Row:
    """A line of the table."""

    def __init__(self, line):
        words = [word.strip() for word in line.split(";")]
        if len(words) != 7:
            raise SystemExit(f"counts_test: {TABLE}: a row has 7 columns: {line.rstrip()}")
        self.name, self.way, command, self.function = words[:4]
        self.command = command.split()
        self.rounds, self.count = int(words[4]), float(words[5])
        self.most = None if words[6] == "-" else float(words[6])
        if self.way not in OF_WAY:
            raise SystemExit(f"counts_test: {TABLE}: way {self.way}: one of {', '.join(OF_WAY)}")

    def line(self):
        """The row as text, as in the table."""
        most = "-" if self.most is None else f"{self.most:.0f}"
        return (f"{self.name:<23}; {self.way:<8}; {' '.join(self.command):<36}; {self.function:<12}; "
                f"{self.rounds:>6} ; {self.count:>7.1f} ; {most:>5}\n")


def read_table():
    """The lines of the table: rows, and other lines unchanged."""
    with open(TABLE, encoding="utf-8") as lines:
        return [line if line.startswith("#") or not line.strip() else Row(line) for line in lines]


def make(folder, rows, mbx):
    """Builds in folder what the rows run; mbx: the program to use, or None."""
    asked = os.path.join(folder, "meson-private", "cmd_line.txt")
    if not os.path.exists(asked) or "format-security" not in open(asked, encoding="utf-8").read():  # or the folder is from before that option existed
        again = ["--reconfigure"] if os.path.exists(os.path.join(folder, "build.ninja")) else []
        subprocess.run(["meson", "setup", *again, folder, ROOT, *OPTIONS], check=True,
                       stdout=subprocess.DEVNULL, env=dict(os.environ, CC="gcc"))
    known = subprocess.run(["ninja", "-C", folder, "-t", "targets", "all"], check=True,
                           capture_output=True, text=True).stdout
    names = {line.split(":")[0] for line in known.splitlines()}
    wanted = ALWAYS + ([] if mbx else ["tools/mbx"]) + [row.command[0] for row in rows]
    for row in rows:
        wanted += OF_WAY[row.way]
    subprocess.run(["ninja", "-C", folder, *sorted(set(wanted) & names)], check=True,
                   stdout=subprocess.DEVNULL)
    if mbx:  # it looks for provider and component in its own folder
        shutil.copy2(mbx, os.path.join(folder, "tools", "mbx"))


def options_of(way):
    """The options of mbx exec for this way."""
    return [f"--through={'pml' if way == 'record' else way.removesuffix(MANY)}"]


def can_go(folder, way):
    """Can programs be run this way here?"""
    return way == "native" or shutil.which("mpiexec") is not None and subprocess.run(
        [os.path.join(folder, "tools/mbx"), "exec", "--print", *options_of(way)],
        capture_output=True, check=False).returncode == 0


def count(folder, row):
    """Instructions of the row's function and of the functions that it calls, for each round."""
    environment = dict(os.environ)
    environment.pop("MALLOC_PERTURB_", None)  # set by meson: each allocation would be filled, and that counted
    if row.way.endswith(MANY):
        environment["OMPI_MPI_THREAD_LEVEL"] = "3"
    through = [] if row.way == "native" else [os.path.join(folder, "tools/mbx"), "exec", *options_of(row.way)]
    with tempfile.TemporaryDirectory() as record:
        if row.way == "record":
            through += ["--record", record]
        done = subprocess.run(
            [*through, "valgrind", "--tool=callgrind", f"--toggle-collect={row.function}",
             "--callgrind-out-file=/dev/null", os.path.join(folder, row.command[0]), *row.command[1:]],
            check=False, capture_output=True, text=True, timeout=PATIENCE_S, env=environment)
    found = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode != 0 or found is None or int(found[1]) < row.rounds:
        raise SystemExit(f"counts_test: {row.name}: it was not counted:\n{done.stderr[-3000:]}")
    return int(found[1]) / row.rounds


def count_at_best(folder, row, tolerance):
    """Actions by time (checks for dead peers, yields) happen more often in each round if others use the
    machine: a count that is too high is counted again."""
    found, tries = count(folder, row), 1
    while ((found > row.count + max(LEAST, row.count * tolerance) or (row.most is not None and found > row.most))
           and (tries < TRIES or time.monotonic() < UNTIL)):
        found, tries = min(found, count(folder, row)), tries + 1
    return found


def compiler_of(folder):
    """The major version of the gcc that built it."""
    version = subprocess.run(["gcc", "-dumpversion"], check=True, capture_output=True, text=True)
    return int(version.stdout.split(".")[0])


def judge(row, found, tolerance):
    """Says why the count is wrong, or returns None."""
    slack = max(LEAST, row.count * tolerance)
    if row.most is not None and found > row.most:
        return f"more than the {row.most:.0f} that it may take"
    if found > row.count + slack:
        return f"more than before, {row.count:.1f}"
    if found < row.count - slack:
        return f"less than before, {row.count:.1f}: write it down with --write"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--only", default="", metavar="WORD")
    parser.add_argument("--mbx", metavar="FILE")
    parser.add_argument("folder")
    options = parser.parse_args()
    folder = os.path.abspath(options.folder)
    if shutil.which("valgrind") is None or shutil.which("gcc") is None:
        return 77
    if platform.machine() != "x86_64":
        return 77
    table = read_table()
    rows = [row for row in table if isinstance(row, Row) and options.only in row.name]
    if not rows:
        raise SystemExit(f"counts_test: no row of {TABLE} has '{options.only}' in its name")
    make(folder, rows, options.mbx)
    tolerance = TOLERANCE if compiler_of(folder) == GCC else TOLERANCE_OF_OTHERS
    goes = {way: can_go(folder, way) for way in {row.way for row in rows}}
    wrong = 0
    for row in rows:
        if not goes[row.way]:
            print(f"{row.name:<23} left out: MPI programs cannot go through '{row.way}' here")
    rows = [row for row in rows if goes[row.way]]
    allowed_of = {row.name: max(tolerance, TOLERANCE_IN_VAIN) if row.name.endswith(IN_VAIN) else tolerance for row in rows}
    with concurrent.futures.ThreadPoolExecutor(2) as pool:  # each row is one process, and valgrind has one thread
        counted = list(pool.map(lambda row: count_at_best(folder, row, allowed_of[row.name]), rows))
    for row, found in zip(rows, counted):
        why = judge(row, found, allowed_of[row.name])
        wrong += why is not None
        print(f"{row.name:<23} {found:8.1f}{'' if why is None else '  ' + why}", flush=True)
        row.count = found
    if options.write:
        with open(TABLE, "w", encoding="utf-8") as out:
            out.writelines(line if isinstance(line, str) else line.line() for line in table)
        return 0
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
