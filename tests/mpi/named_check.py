#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""named_check.py MBX FOLDER component|provider - do the traces of named.c in FOLDER use MPI's words?

Runs `mbx trace` on all of them.  The listing of rank 1 must have the messages of named.c, on their
communicators, with their tags and modes, and the barrier by its name.  This checks the rows of
src/inspect/mpi.c with envelopes that the MPI library has made.
"""
import glob
import re
import subprocess
import sys


def expected(way):
    """Returns regular expressions of lines, in any order."""
    halo = r"halo exchange" if way == "component" else r"communicator \d+"
    # the name becomes known when the communicator is used; an earlier message has the name that the
    # MPI library has given it
    early = rf"({halo}|MPI COMM(UNICATOR)? \d+ DUP FROM 0)"
    # the component's mode is not in the envelope
    synchronous = "" if way == "component" else " synchronous"
    return [
        r"arrive +MPI_COMM_WORLD from rank 0 tag 4711 (m|meets r)",
        rf"arrive +{early} from rank 0 tag 4712 (m|meets r)",
        rf"arrive +{early} from rank 0 tag 4713{synchronous} (m|meets r)",
        rf"arrive +{early} from rank \d+ barrier (m|meets r)",
        rf"post +{halo} from MPI_ANY_SOURCE any tag r",
        rf"arrive +{halo} from rank 0 tag 4714 (m|meets r)",
    ]


def main():
    mbx, folder, way = sys.argv[1:]
    files = sorted(glob.glob(f"{folder}/*.trace"))
    done = subprocess.run([mbx, "trace", *files], capture_output=True, text=True)
    if done.returncode != 0 or not files:
        sys.exit(f"named_check: mbx trace of {len(files)} files in {folder}: {done.stderr}")
    listings = re.split(r"^(?=\S+\.trace: process)", done.stdout, flags=re.MULTILINE)
    of_rank_1 = "".join(one for one in listings if re.match(r".*, rank 1\n", one))
    missing = [line for line in expected(way) if not re.search(line, of_rank_1)]
    if missing:
        sys.exit(f"named_check: rank 1 has no line like {missing} in\n{of_rank_1}")
    summary = subprocess.run([mbx, "trace", "--summary", *files], capture_output=True, text=True).stdout
    name = "halo exchange" if way == "component" else "-"
    # a later communicator with the same number: its messages are not added to the first one's
    later = [r"^ *1 +[1-9]\d* +[\d?]+ +2 +\d+ +2 +\d+  heat$"] if way == "component" else []
    for line in (r"^ *1 +0 +[\d?]+ +\d+ +\d+ +\d+ +\d+  MPI_COMM_WORLD$",
                 rf"^ *1 +[1-9]\d* +[\d?]+ +\d+ +\d+ +\d+ +\d+  {name}$", *later):
        if not re.search(line, summary, re.MULTILINE):
            sys.exit(f"named_check: the summary has no line like {line}:\n{summary}")
    print(f"ok named_check {way}")


main()
