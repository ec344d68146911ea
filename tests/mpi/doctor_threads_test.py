#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""doctor_threads_test.py BUILD [--times N] [NAME...] - `mbx doctor` judges ranks that have asked for MPI_THREAD_MULTIPLE.

The programs are patterns of stuck.c with a second thread, and stuck.py.  Without mpi4py the latter are left out.  The patterns that
stuck.py shares with stuck.c run if they are named, or with --all.
"""
import argparse
import concurrent.futures
import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "../support"))
from doctor_test import STUCK, Failed, Job, check_nobody_left_out, deadlocked, looks  # noqa: E402

PYTHON = "/usr/bin/python3"  # Debian's, which has mpi4py
NO, DEADLOCK, UNLESS = 0, 3, 4  # exit statuses
TAGS = ["waits for tag 7 on MPI_COMM_WORLD from 1, which waits too",
        "tag 8 on MPI_COMM_WORLD from 1 is unexpected there: the tag differs", "cycle: 0 -> 1 -> 0"]
NAMED = r"^  its thread \d+ has never communicated: it {}$"
LEFT_OUT = r"^rank 0 \(pid \d+\) is not judged, nor is a rank that waits for it: "
ACTIVE = LEFT_OUT + r"its thread \d+, which has communicated before, "
POLLED = ["waits for tag 9 on MPI_COMM_WORLD from 1, which waits too", "waits for tag 7 on MPI_COMM_WORLD from 0, which polls", "cycle: 0 -> 1 -> 0"]
TITLE = "deadlock of 2 of 2 ranks"
# name: the arguments of stuck, the status, and what the doctor prints
PROGRAMS = {
    "none": ("tag_differs none", DEADLOCK, [TITLE + "$", "is in MPI_Recv", *TAGS]),
    "joins": ("tag_differs joins", DEADLOCK, [TITLE + "$", *TAGS]),
    "waits": ("tag_differs waits", DEADLOCK, [TITLE + "$", *TAGS]),
    "sleeps": ("tag_differs sleeps", UNLESS, [TITLE + ", unless a thread that has never communicated does so$", *TAGS,
                                              NAMED.format(r"sleeps \(clock_nanosleep\)")]),
    "computes": ("tag_differs computes", UNLESS, [TITLE + ", unless a thread", *TAGS, NAMED.format("computes")]),
    "has_called": ("tag_differs has_called", NO, ["no rank is deadlocked", ACTIVE + r"sleeps \(clock_nanosleep\)$"]),
    "calls_and_waits": ("tag_differs calls_and_waits", DEADLOCK, [TITLE + "$", *TAGS]),
    "receives": ("tag_differs receives", DEADLOCK, [TITLE + "$", *TAGS[:2], r"^  its thread \d+ waits in MPI as well$",
                                                    "waits for tag 99 on MPI_COMM_SELF from 0, which is itself"]),
    "wait_all": ("wait_all none", DEADLOCK, ["is in MPI_Waitall", "waits for tag 9 on MPI_COMM_WORLD from 1"]),
    "wait_any": ("wait_any none", DEADLOCK, ["is in MPI_Waitany", "waits for tag 7 on MPI_COMM_WORLD from 1"]),
    "barrier_and_bcast": ("barrier_and_bcast none", DEADLOCK, ["is in MPI_Barrier", "is in MPI_Bcast", "roll call on MPI_COMM_WORLD"]),
    "head_to_head": ("head_to_head none", DEADLOCK, [r"its send to 1 \(tag 5 on MPI_COMM_WORLD", "cycle: 0 -> 1 -> 0"]),
    "probe_in_vain": ("probe_in_vain none", DEADLOCK, ["is in MPI_Probe", "waits for tag 4 on MPI_COMM_WORLD from 1"]),
    "receive_from_finalized": ("receive_from_finalized none", DEADLOCK, ["from 1, which is in MPI_Finalize"]),
    "testing": ("testing none", UNLESS, ["1 of 2 ranks poll, and the others wait; if ranks that poll do nothing else, this is a deadlock$",
                                         "polls by MPI_Test", *POLLED]),
    "testing_and_sleeps": ("testing sleeps", UNLESS, ["do nothing else, and no thread that has never communicated does so, this is a deadlock$", *POLLED,
                                                      NAMED.format(r"sleeps \(clock_nanosleep\)")]),
    "late_sender": ("late_sender none", NO, ["no rank is deadlocked"]),
    "wait_for_no_message": ("wait_for_no_message none", NO, ["no rank is deadlocked"]),
    "wait_for_any_or_no_message": ("wait_for_any_or_no_message none", NO, ["no rank is deadlocked"]),
    "running_ring": ("running_ring sleeps", NO, ["no rank is deadlocked"]),
    "running_collectives": ("running_collectives joins", NO, ["no rank is deadlocked"]),
}
SCRIPTS = {
    "wrong_tags": (DEADLOCK, [TITLE + "$", "is in MPI_Mprobe", *TAGS]),
    "one_too_many": (DEADLOCK, [TITLE + "$", "is in MPI_Mprobe", "from any source, and nobody is left to send it"]),
    "bcast_and_allreduce": (DEADLOCK, [TITLE + "$", "cycle: 0 -> 1 -> 0"]),
    "two_sends": (DEADLOCK, [TITLE + "$", "is in MPI_Send", "is not received by 1, which waits too", "cycle: 0 -> 1 -> 0"]),
    "finalized": (DEADLOCK, ["deadlock of 1 of 2 ranks$", "waits for tag 3 on MPI_COMM_WORLD from 1, which is in MPI_Finalize"]),
    "both_poll": (UNLESS, ["all ranks poll; if ranks that poll do nothing else, this is a deadlock$", "waits for tag 9 on MPI_COMM_WORLD from 1, which polls",
                           r"^rank 0 \(pid \d+\) polls by MPI_\w+ at stuck.py:\d+ in both_poll"]),
    "poll_and_receive": (UNLESS, ["1 of 2 ranks poll, and the others wait", "is in MPI_Mprobe", "cycle: 0 -> 1 -> 0"]),
    "poll_and_compute": (NO, ["no rank is deadlocked"]),
    "in_a_thread": (None, [TITLE, *TAGS]),  # whether the first thread may be in MPI cannot always be told
    "with_a_thread": (UNLESS, [TITLE + ", unless a thread", *TAGS, NAMED.format(".*")]),
}
SHARED = [f"stuck.py:{name}" for name in STUCK]
# what is not reported about ranks with threads
NOT_SAID = ("    rank 1 has described",)
SILENT = 4  # looks at a job without a deadlock


def has_mpi4py():
    return subprocess.run([PYTHON, "-c", "import mpi4py"], stderr=subprocess.DEVNULL).returncode == 0


def check_shared(args, name):
    """A pattern of stuck.py gets the report of the same pattern of stuck.c, with a line of stuck.py for each rank."""
    name = name.partition(":")[2]
    ranks, dead, texts = STUCK[name]
    texts = [words for words in texts if not words.startswith(NOT_SAID)]
    with Job(argparse.Namespace(**dict(vars(args), program=PYTHON)), (os.path.join(HERE, "stuck.py"), name), ranks) as job:
        number = job.wait_for(ranks)
        for _ in looks():
            status, text = job.doctor(number, "--wait", "10000")
            lines = re.findall(r"^rank \d+ \(pid \d+\) is in MPI_\w+ at stuck\.py:\d+ in \w+", text, re.M)
            if status == DEADLOCK and deadlocked(text) == dead and all(words in text for words in texts) and len(lines) == len(dead):
                return
            if status == DEADLOCK and not set(deadlocked(text)) <= set(dead):
                break
    raise Failed(f"status {status}: the doctor says\n{text}and not {texts} of {dead}")


def check(args, name):
    if name in SCRIPTS:
        program, pattern = PYTHON, (os.path.join(HERE, "stuck.py"), name)
        wanted, texts = SCRIPTS[name]
    else:
        program, (words, wanted, texts) = args.stuck, PROGRAMS[name]
        pattern = tuple(words.split())
    ranks = 3 if name.startswith("running_ring") else 2
    right = 0
    with Job(argparse.Namespace(**dict(vars(args), program=program)), pattern, ranks) as job:
        number = job.wait_for(ranks)
        for _ in looks():
            status, text = job.doctor(number, "--wait", "500" if name == "poll_and_compute" else "10000", "--polls", "0")
            if status not in (NO, wanted) and not (wanted is None and status in (DEADLOCK, UNLESS)):
                break
            check_nobody_left_out(text, ranks)
            is_right = all(re.search(words, text, re.M) for words in texts)
            if is_right and status == NO and wanted == NO:
                right += 1
                if right < SILENT:
                    continue
            if is_right and (status == wanted or wanted is None and status != NO):
                if status != NO and not set(deadlocked(text)) <= {0, 1}:
                    break
                return
    raise Failed(f"status {status}: the doctor says\n{text}and not {texts} with status {wanted}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--all", action="store_true", help="with the patterns that stuck.py shares with stuck.c")
    parser.add_argument("--times", type=int, default=1, help="rounds of all")
    parser.add_argument("--jobs", type=int, default=2, help="so many at a time")
    args = parser.parse_intermixed_args()
    args.through, args.mpi = "pml", "openmpi"
    args.mbx = os.path.join(os.path.abspath(args.build), "tools", "mbx")
    args.stuck = os.path.join(os.path.abspath(args.build), "tests", "mpi", "stuck")
    names = args.names or [*PROGRAMS, *SCRIPTS, *(SHARED if args.all else [])]
    if not has_mpi4py():
        print(f"{PYTHON} has no mpi4py: without {', '.join(name for name in names if name not in PROGRAMS)}")
        names = [name for name in names if name in PROGRAMS]

    def goes_wrong(name):
        try:
            (check_shared if name in SHARED else check)(args, name)
            print(f"{name}: right", flush=True)
            return False
        except Failed as why:
            print(f"{name}: {why}", flush=True)
            return True

    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        wrong = sum(pool.map(goes_wrong, names * args.times))
    print(f"doctor_threads_test: {len(names) * args.times} run, {wrong} wrong")
    return wrong != 0


if __name__ == "__main__":
    sys.exit(main())
