#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""suites_test.py BUILD - `./dev suites` says of programs whether they hang, and what mbx doctor says of them, and fails where that is wrong."""
import os
import re
import subprocess
import sys
import tempfile

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
WAITS = "MPI_Recv(&value, 1, MPI_INT, 1 - rank, rank, MPI_COMM_WORLD, MPI_STATUS_IGNORE);"
# name: what it says of itself, what it does, what is said of it, in words of its line
PROGRAMS = {
    "meets_ok": ("mpirun -np 3", "MPI_Barrier(MPI_COMM_WORLD);", ["ranks=3", "expected=OK", "ob1=ended", "matchbox=ended", "doctor=silent"]),
    "waits_nok": ("", "if (rank < 2) " + WAITS, ["ranks=2", "expected=error", "ob1=hung", "matchbox=hung", "doctor=deadlock", "of=2/2", "why=cycle", "calls=MPI_Recv"]),
    "broken": ("", "no C", ["compiles=no"]),
}
ACCUSED = ("BEGIN_MBI_TESTS\n $ mpirun -np 2 ${EXE}\n | OK\n | OK\nEND_MBI_TESTS", WAITS)  # it says that it is right, and hangs


def suites(build, programs):
    with tempfile.TemporaryDirectory() as folder:
        for name, (says, does) in programs.items():
            with open(os.path.join(folder, name + ".c"), "w") as out:
                out.write(PROGRAM % (says, does))
        run = subprocess.run([sys.executable, SUITES, "--build", build, "--limit", "3", folder], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return run.returncode, run.stdout


def main():
    build, wrong = sys.argv[1], []
    status, text = suites(build, {name: row[:2] for name, row in PROGRAMS.items()})
    for name, (_, _, words) in PROGRAMS.items():
        line = re.search(f"^name={name} .*", text, re.M)
        wrong += [f"{name}: {word}" for word in words if line is None or word not in line.group(0).split()]
    if status != 0:
        wrong.append(f"the exit status is {status}")
    status, more = suites(build, {"accused": ACCUSED})
    if status != 1 or "expected=OK" not in more or "were called deadlocked: accused" not in more:
        wrong.append("a program that is right may be accused")
    print(f"{text}{more}suites_test: wrong: {wrong}")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
