#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""count_test.py BUILD - how many instructions the component spends on a message of 8 bytes.

bench/self_mpi sends to itself (MPI_Irecv, MPI_Send, MPI_Wait) under valgrind, which counts.  Only
those of src/pml are judged: of the library a build with tests looks at its invariants besides, and
Open MPI's are its own.  All together, in a build of ./dev build: docs/openmpi-component.md.

Exit code 77: there is no valgrind, or Open MPI cannot load the component.
"""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROUNDS = 1000
MOST = 410  # for each message; 389 when this was written, gcc 12 -O2


def own_functions(build):
    """Names of those that the component's objects define."""
    objects = glob.glob(os.path.join(build, "src/pml/mca_pml_matchbox.so.p/*.o"))
    lines = subprocess.run(["nm", "--defined-only", *objects], check=True, capture_output=True,
                           text=True).stdout.splitlines()
    words = [line.split() for line in lines]
    return {word[2].split(".")[0] for word in words if len(word) == 3 and word[1] in "tT"}


def own_instructions(path, functions):
    """Those of these functions, and of what is compiled into them."""
    names, total, is_ours, is_call = {}, 0, False, False
    with open(path, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if found := re.match(r"(c?fn)=\((\d+)\)(?: (.*))?", line):
                if found[3] is not None:
                    names[found[2]] = found[3].split(".")[0]
                if found[1] == "fn":
                    is_ours = names[found[2]] in functions
            elif line.startswith("calls="):
                is_call = True
            elif re.match(r"[\d+*-]", line):
                if is_ours and not is_call:
                    total += int(line.split()[1])
                is_call = False
    return total


def main():
    mbx, program = (os.path.join(sys.argv[1], name) for name in ("tools/mbx", "bench/self_mpi"))
    if shutil.which("valgrind") is None:
        return 77
    if subprocess.run([mbx, "exec", "--print", "--through=pml"], capture_output=True).returncode:
        return 77
    with tempfile.TemporaryDirectory() as where:
        out = os.path.join(where, "out")
        subprocess.run([mbx, "exec", "--through=pml", "valgrind", "--tool=callgrind",
                        "--toggle-collect=one_by_one", f"--callgrind-out-file={out}", program,
                        str(ROUNDS)], check=True, capture_output=True, timeout=600)
        count = own_instructions(out, own_functions(sys.argv[1])) / ROUNDS
    print(f"instructions of src/pml for a message of 8 bytes: {count:.0f}, at most {MOST}")
    return 0 if 100 < count <= MOST else 1


if __name__ == "__main__":
    sys.exit(main())
