#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""suites_test.py BUILD - `./dev suites` reports of programs whether they hang, and the diagnosis of mbx doctor, and
fails if that is wrong."""
import importlib.machinery
import importlib.util
import os
import re
import subprocess
import sys
import tempfile

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from patience import PATIENCE_S  # noqa: E402

SUITES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts", "run", "suites")
PROGRAM = """/* %s */
#include <mpi.h>
int main(int argc, char **argv)
{
    int rank, value = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    %s
    MPI_Finalize();
    return 0;
}
"""
HANGS_S = 3  # the limit for programs that hang
WAITS = "MPI_Recv(&value, 1, MPI_INT, 1 - rank, rank, MPI_COMM_WORLD, MPI_STATUS_IGNORE);"
# name: head comment of the program, its code, words of the line about it
HANGS = {
    "waits_nok": ("", "if (rank < 2) " + WAITS, ["ranks=2", "expected=error", "ob1=hung", "matchbox=hung", "doctor=deadlock", "of=2/2", "why=cycle", "calls=MPI_Recv"]),
    "roots_nok": ("", "if (rank < 2) MPI_Bcast(&value, 1, MPI_INT, 1 - rank, MPI_COMM_WORLD);",
                  ["ranks=2", "ob1=hung", "matchbox=hung", "doctor=deadlock", "of=2/2", "why=collective,arguments,cycle", "calls=MPI_Bcast"]),
}
ENDS = {
    "meets_ok": ("mpirun -np 3", "MPI_Barrier(MPI_COMM_WORLD);", ["ranks=3", "expected=OK", "ob1=ended", "matchbox=ended", "doctor=silent"]),
    "broken": ("", "no C", ["ranks=2", "not_run=compile"]),
    "crowd": ("mpirun -np 100000", "MPI_Barrier(MPI_COMM_WORLD);", ["ranks=100000", "not_run=ranks"]),
    "nobody": ("mpirun -np 0", "MPI_Barrier(MPI_COMM_WORLD);", ["ranks=0", "not_run=ranks"]),
    "two words\nand_lines_ok": ("", "MPI_Barrier(MPI_COMM_WORLD);", ["ranks=2", "expected=OK", "matchbox=ended"]),
}
SUMS = ["    2  programs", "    1  further ones are not run: they do not compile", "    2  further ones are not run: they want no rank, or more than 64"]
ACCUSED = ("BEGIN_MBI_TESTS\n $ mpirun -np 2 ${EXE}\n | OK\n | OK\nEND_MBI_TESTS", WAITS)  # the program claims to be right, and hangs


# An mbx whose output of queues is in turn torn, without ranks, with a rank without a number, without jobs, and empty.
# A job ends after all of them.
TORN = """#!/bin/sh
touch "$0.looks"
looks() {
    wc -l <"$0.looks"
}
case $1 in
exec)
    shift 3
    "$@" || exit 1
    while [ "$(looks)" -lt 5 ]; do :; done
    ;;
queues)
    echo look >>"$0.looks"
    case $(($(looks) % 5)) in
    0) echo '{"jobs": [{"job": "1", "ra' ;;
    1) echo '{"jobs": [{"job": "1", "ranks": []}]}' ;;
    2) echo '{"jobs": [{"job": "1", "ranks": [{}]}]}' ;;
    3) echo '[]' ;;
    4) ;;
    esac
    ;;
esac
"""


def suites(build, programs, *options, limit=PATIENCE_S):
    with tempfile.TemporaryDirectory(prefix="suites [a-b]") as folder:
        for name, (says, does) in programs.items():
            with open(os.path.join(folder, name + ".c"), "w") as out:
                out.write(PROGRAM % (says, does))
        run = subprocess.run([sys.executable, SUITES, "--build", build, "--limit", str(limit), "--looks", "1000", *options, folder], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             text=True)
    return run.returncode, run.stdout


def what_is_said_of(build, programs, sums, limit):
    status, text = suites(build, {name: row[:2] for name, row in programs.items()}, limit=limit)
    for name, (_, _, words) in programs.items():
        shown = "_".join(name.split())
        line = re.search(f"^name={shown} .*", text, re.M)
        yield from (f"{name}: {word}" for word in words if line is None or word not in line.group(0).split())
    yield from (f"'{line}' is missing" for line in sums if line not in text.splitlines())
    if status != 0:
        yield f"the exit status is {status}:\n{text}"


def what_is_said(build):
    yield from what_is_said_of(build, HANGS, [], HANGS_S)
    yield from what_is_said_of(build, ENDS, SUMS, PATIENCE_S)


def a_program_accused_wrongly(build):
    status, text = suites(build, {"accused": ACCUSED}, limit=HANGS_S)
    if status != 1 or "expected=OK" not in text or "were called deadlocked: accused" not in text:
        yield f"a program that is right may be accused: {status}\n{text}"


def what_is_not_run(build):
    """If no program was run, the result is a failure."""
    for programs, options, words in (({"broken": ("", "no C")}, (), "no program was run: not one of 1 can be"),
                                     ({"meets": ("", "")}, ("--only", "meet5"), "no program was run: none is left by --only 'meet5'"),
                                     ({"meets": ("", "")}, ("--first", "1"), "no program was run: none is left by --only '' --every 1 --first 1")):
        status, text = suites(build, programs, *options)
        if status != 1 or words not in text:
            yield f"{options}: {status}\n{text}"


def torn_answers(_):
    """Torn answers are ignored, and the run continues."""
    with tempfile.TemporaryDirectory() as build:
        os.mkdir(os.path.join(build, "tools"))
        mbx = os.path.join(build, "tools", "mbx")
        with open(mbx, "w") as out:
            out.write(TORN)
        os.chmod(mbx, 0o755)
        status, text = suites(build, {"meets": ("", "")})
    if status != 0 or not re.search("^name=meets .* matchbox=ended doctor=silent", text, re.M):
        yield f"torn answers: {status}\n{text}"


def a_limit(_):
    """A program that does not end has no answer."""
    loader = importlib.machinery.SourceFileLoader("suites", SUITES)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("suites", loader))
    sys.path.insert(0, os.path.dirname(SUITES))
    sys.dont_write_bytecode = True
    loader.exec_module(module)
    if module.answer(["sh", "-c", "echo said; exec sleep infinity"], 0.1) != (None, ""):
        yield "what does not end has an answer"
    if module.answer(["sh", "-c", "echo said; exit 3"], PATIENCE_S) != (3, "said\n"):
        yield "an answer is lost"


def main():
    wrong = [words for check in (what_is_said, a_program_accused_wrongly, what_is_not_run, torn_answers, a_limit) for words in check(sys.argv[1])]
    print("\n".join(wrong + [f"suites_test: {len(wrong)} wrong"]))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
