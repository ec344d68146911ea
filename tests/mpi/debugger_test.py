#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""debugger_test.py BUILD [--through pml|provider|ucp] - debuggers see what MPI programs wait for, in the words of the MPI.

A program is stuck over the component, over the provider (pml/cm), or through libucp (MPICH); libmatchbox-msgq.so and the script for gdb say
which receive waits, and which message is unexpected, on which communicator.  A debugger that looks where Open MPI names such libraries finds
ours.  Through ucp the status is 77 if there is no MPICH with the device ch4:ucx.
"""
import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../launch"))

import doctor_test  # noqa: E402
import queues_test  # noqa: E402


def lines_of(command):
    result = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if result.returncode != 0:
        raise doctor_test.Failed(f"{command}: {result.stdout}{result.stderr}")
    return result.stdout


def expect(text, how, *wanted):
    for words in wanted:
        if words not in text:
            raise doctor_test.Failed(f"{how}: '{words}' is not in\n{text}")


def expect_none(text, how, words):
    if words in text:
        raise doctor_test.Failed(f"{how}: '{words}' is in\n{text}")


def look(args, job, pattern, ranks, library, gdb):
    number = job.wait_for(ranks)
    for _ in doctor_test.looks():
        if job.doctor(number, "--wait", "10000")[0] == 3:  # all its messages have arrived
            break
    else:
        raise doctor_test.Failed(f"{pattern} is not stuck")
    shown = {rank["rank"]: rank["pid"] for rank in job.ranks()[1]}
    for pid in shown.values():
        os.kill(pid, signal.SIGSTOP)
    try:
        targets = [word for _, pid in sorted(shown.items()) for word in (str(pid), f"{queues_test.root_of(pid):x}")]
        text = lines_of([args.msgq_host, args.msgq, *targets])
        expect(text, f"{pattern} through {args.through}, libmatchbox-msgq.so", *library)
        expect_none(text, f"{pattern} through {args.through}, libmatchbox-msgq.so", "context 2")
    finally:
        for pid in shown.values():
            os.kill(pid, signal.SIGCONT)
    if shutil.which("gdb"):
        text = lines_of(["gdb", "-nx", "-batch", "-p", str(shown[0]), "-x", args.gdb_script, "-ex", "mbx queues"])
        expect(text, f"{pattern} through {args.through}, gdb", *gdb)
        expect_none(text, f"{pattern} through {args.through}, gdb", "context 2")  # receives that libucp keeps posted
        if args.through == "ucp":
            return
        named = lines_of(["gdb", "-nx", "-batch", "-p", str(shown[0]), "-ex", "print **(char***)&mpimsgq_dll_locations",
                          "-ex", "print (*(char***)&mpimsgq_dll_locations)[1]"])
        expect(named, f"{pattern} through {args.through}, mpimsgq_dll_locations", f'"{os.path.realpath(args.msgq)}"', "= 0x0\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build")
    parser.add_argument("--through", default="pml", choices=["pml", "provider", "ucp"])
    args = parser.parse_args()
    build = os.path.abspath(args.build)
    args.mbx, args.program = os.path.join(build, "tools/mbx"), os.path.join(build, "tests/mpi/stuck")
    args.msgq, args.msgq_host = os.path.join(build, "src/msgq/libmatchbox-msgq.so"), os.path.join(build, "tests/support/msgq_host")
    args.gdb_script = os.path.join(build, "tools/gdb/matchbox-gdb.py")
    named = "peer " if args.through == "provider" else "1"
    folder = tempfile.TemporaryDirectory()
    if args.through == "ucp":
        if not doctor_test.has_mpich_over_ucx():
            return 77
        args.program, args.mpi = doctor_test.compile_for_mpich(folder.name), "mpich"
    with doctor_test.Job(args, "tag_differs", 2) as job:
        look(args, job, "tag_differs", 2,
             ["MPI_COMM_WORLD\n", "\nreceive 0 1 0 7 4 posted; context", "\nunexpected 0 1 0 8 4 unexpected; context"],
             ["MPI_COMM_WORLD: rank 0", f"posted      from {named}", ", tag 7, 4 bytes", f"unexpected  from {named}", ", tag 8, 4 bytes"])
    if args.through == "pml":
        with doctor_test.Job(args, "two_communicators", 2) as job:
            look(args, job, "two_communicators", 2, [" 2 0 one\n", "posted, bcast; context"], ["one: rank 0 of 2", "4 bytes, bcast"])
    print("debugger_test: all are seen")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except doctor_test.Failed as failed:
        sys.exit(f"debugger_test: {failed}")
