#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""doctor_rounds.py BUILD [--diagnoses N] [--seconds N] [--between MS] [--threads] - `mbx doctor` looks at programs that go on, again and again, and never says "deadlock".

The MPI programs of the tests, most of which are short, run one after the other.  While one runs, the doctor judges its job as often as it can: one
process judges many times (`--rounds`), for its start takes longer than a diagnosis.  Only diagnoses of a job in which something waits count; a
program of whose ranks nothing is ever seen to wait is a failure, for then its queues cannot be read.

With --threads all programs run with MPI_THREAD_MULTIPLE, and some with several threads.  A deadlock "unless" a thread does something
is counted.
"""
import argparse
import os
import re
import subprocess
import sys
import time

from doctor_test import Job

PROGRAMS = [["rules"], ["p2p"], ["collectives"], ["order"], ["patterns"], ["app_amr"], ["app_farm"], ["app_farm", "--posted", "0"], ["datatypes", "--kept", "2", "20"],
            ["rules", "--mixed"], ["stuck", "running_ring"], ["stuck", "running_collectives"], ["stuck", "running_fences"]]
WITH_THREADS = [["rules", "--threads", "2"], ["rules", "--threads", "4"], ["threads"], ["stuck", "running_ring", "calls_and_waits"],
                ["stuck", "running_ring", "receives"]]
LONGEST = 20  # seconds, for programs that never end
ROUNDS = 100  # for one process
ENOUGH = 20   # per program: so many in a row do not all miss a wait
JUDGED = re.compile(r"^in (\d+) of them a rank was judged that has reported something that waits", re.M)
UNLESS = re.compile(r"^in (\d+) of them a rank was deadlocked, unless", re.M)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build")
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--diagnoses", type=int, default=0, help="so many are enough")
    parser.add_argument("--first", type=int, default=0, help="the program to begin with")
    parser.add_argument("--between", type=int, default=100)
    parser.add_argument("--through", default="pml", choices=["pml", "provider"])
    parser.add_argument("--threads", action="store_true")
    args = parser.parse_args()
    programs = PROGRAMS + WITH_THREADS if args.threads else PROGRAMS
    if args.threads:
        os.environ["OMPI_MPI_THREAD_LEVEL"] = "3"
    args.mbx = os.path.join(os.path.abspath(args.build), "tools", "mbx")
    limit = time.monotonic() + args.seconds
    looks, jobs, told, void, unless = 0, args.first, 0, 0, 0
    while time.monotonic() < limit and (args.diagnoses == 0 or looks < args.diagnoses):
        program = programs[jobs % len(programs)]
        args.program = os.path.join(os.path.abspath(args.build), "tests", "mpi", program[0])
        jobs += 1
        with Job(args, tuple(program[1:]), 2 + jobs % 3) as job:
            number, judged, missed = None, 0, 0
            begun = time.monotonic()
            while job.process.poll() is None and time.monotonic() < min(limit, begun + LONGEST):
                if number is None:
                    number = job.ranks()[0]
                    continue
                status, text = job.doctor(number, "--between", str(args.between), "--rounds", str(ROUNDS))
                done = re.search(r"^(\d+) rounds: ", text, re.M)
                rounds = int(done.group(1)) if done else 0
                some = JUDGED.search(text)
                if some is None and "judged nothing" in text:
                    sys.exit(f"FAIL: the doctor counts its rounds in other words:\n{text}")
                seen = int(some.group(1)) if some else 0 if "no rank was judged" in text else rounds
                looks, judged, missed = looks + seen, judged + seen, missed + rounds - seen
                some = UNLESS.search(text)
                unless += int(some.group(1)) if some else 0
                if status not in (0, 1, 4) or ("deadlock of" in text and status != 4):
                    print(f"FAIL: {' '.join(program)}, {2 + jobs % 3} ranks:\n{text}")
                    return 1
        void += missed
        if judged == 0 and missed >= ENOUGH:
            print(f"FAIL: {' '.join(program)}, {2 + jobs % 3} ranks: in {missed} rounds nothing that waits was seen: can its queues be read (mbx queues)?")
            return 1
        if looks - told >= 500:
            told = looks
            print(f"doctor_rounds: {looks} diagnoses", flush=True)
    print(f"doctor_rounds: {looks} diagnoses of {jobs - args.first} jobs; no deadlock was named, {unless} with unless; {void} others judged nothing")
    return 0 if looks > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
