#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""doctor_rounds.py BUILD [--seconds N] [--between MS] - `mbx doctor` looks at programs that go on, again and again, and never says "deadlock".

The MPI programs of the tests, most of which are short, run one after the other.  While one runs, the doctor looks at its job as often as it can.
"""
import argparse
import os
import re
import subprocess
import sys
import time

from doctor_test import Job

PROGRAMS = [["rules"], ["p2p"], ["collectives"], ["order"], ["patterns"], ["app_amr"], ["app_farm"], ["app_farm", "--posted", "0"], ["datatypes", "--kept", "2", "20"],
            ["rules", "--mixed"], ["stuck", "running_ring"], ["stuck", "running_collectives"]]
LONGEST = 20  # seconds, of programs that go on for ever


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build")
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--between", type=int, default=100)
    parser.add_argument("--through", default="pml", choices=["pml", "provider"])
    args = parser.parse_args()
    args.mbx = os.path.join(os.path.abspath(args.build), "tools", "mbx")
    limit = time.monotonic() + args.seconds
    looks, jobs, waiting = 0, 0, 0
    while time.monotonic() < limit:
        program = PROGRAMS[jobs % len(PROGRAMS)]
        args.program = os.path.join(os.path.abspath(args.build), "tests", "mpi", program[0])
        jobs += 1
        with Job(args, tuple(program[1:]), 2 + jobs % 3) as job:
            number = None
            begun = time.monotonic()
            while job.process.poll() is None and time.monotonic() < min(limit, begun + LONGEST):
                if number is None:
                    number = job.ranks()[0]
                    continue
                status, text = job.doctor(number, "--between", str(args.between))
                looks += 1
                waiting += bool(re.search(r"^rank \d+ .* waits in", text, re.M))
                if status == 3 and "deadlock" in text:
                    print(f"FAIL: {' '.join(program)}, {2 + jobs % 3} ranks:\n{text}")
                    return 1
    print(f"doctor_rounds: {looks} diagnoses of {jobs} jobs, in {waiting} of them some rank waited for a second; no deadlock was named")
    return 0 if looks > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
