#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""races_memory_test.py MBX PROGRAM - mbx races needs few bytes for each message of a job, and names its race.

PROGRAM is races_program.c, which writes the traces of jobs of any size.  Two jobs are compared, so that what a program needs
anyway does not count.
"""
import os
import subprocess
import sys
import tempfile

RANKS = 16
FEW, MANY = 50_000, 250_000
BYTES = 300  # for each message; 64 of them are what 16 ranks know of each other
FOUND = 3


def races(mbx, folder):
    """Its output, and the most memory that it had, in bytes."""
    # with MALLOC_PERTURB_ the allocator also writes what the program has reserved, and does not use yet
    env = {name: value for name, value in os.environ.items() if name != "MALLOC_PERTURB_"}
    process = subprocess.Popen([mbx, "races", folder], stdout=subprocess.PIPE, text=True, env=env)
    said = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == FOUND, f"mbx races ended with {process.returncode}:\n{said}"
    return said, usage.ru_maxrss * 1024


def main():
    mbx, program = sys.argv[1:]
    most = []
    with tempfile.TemporaryDirectory(prefix="races_memory-") as folder:
        for messages in (FEW, MANY):
            run = os.path.join(folder, str(messages))
            subprocess.run([program, run, str(RANKS), str(messages)], check=True)
            said, memory = races(mbx, run)
            most.append(memory)
            assert f"{messages // 2} times, rank 0" in said, said
    each = (most[1] - most[0]) / (MANY - FEW)
    print(f"{each:.0f} bytes for each message")
    assert each <= BYTES, f"mbx races takes {each:.0f} bytes for each message, more than {BYTES}"


main()
