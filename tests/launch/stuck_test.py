#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""stuck_test.py MBX STUCK_PROGRAM NO_ATTACH [--times N] [PATTERN...] - `mbx doctor` names the deadlock of a job of the library, and only deadlocks.

As doctor_test.py does with MPI programs, but without an MPI: a job starts in a moment.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from looks import looks  # noqa: E402

SILENT = 3   # looks at a job without a deadlock
SILENT_MS = 300  # the time of a rank there to answer

# name: ranks, deadlocked ranks, texts that the doctor prints
STUCK = {
    "tag_differs": (2, [0, 1], ["is in mbx_wait", "waits for tag 7 on context 1 from 1, which waits too",
                                "tag 8 on context 1 from 1 is unexpected there: the tag differs"]),
    "context_differs": (2, [0, 1], ["waits for tag 7 on context 1 from 1", "tag 7 on context 2 from 1 is unexpected there: the communicator differs"]),
    "source_differs": (3, [0, 1, 2], ["waits for tag 7 on context 1 from 2", "tag 7 on context 1 from 1 is unexpected there: the source differs",
                                      "cycle: 0 -> 2 -> 0"]),
    "head_to_head": (2, [0, 1], ["its send to 1 (tag 5 on context 1, 1048576 bytes) is not received by 1, which waits too", "cycle: 0 -> 1 -> 0"]),
    "both_synchronous": (2, [0, 1], ["its send to 0 (tag 5 on context 1, 4 bytes)", "cycle: 0 -> 1 -> 0"]),
    "ring_of_receives": (4, [0, 1, 2, 3], ["cycle: 0 -> 3 -> 2 -> 1 -> 0"]),
    "ring_of_sends": (3, [0, 1, 2], ["cycle: 0 -> 1 -> 2 -> 0"]),
    "all_any_source": (3, [0, 1, 2], ["from any source, and nobody is left to send it"]),
    "wait_all": (3, [0, 1], ["is in mbx_wait_all", "of the 2 operations that it waits for, 1 cannot end, and it needs all"]),
    "wait_any": (2, [0, 1], ["is in mbx_wait_any", "waits for tag 7 on context 1 from 1", "waits for tag 8 on context 1 from 1"]),
    "receive_from_itself": (1, [0], ["waits for tag 3 on context 1 from 0, which is itself", "cycle: 0 -> 0"]),
    "send_to_itself": (1, [0], ["send to 0 (tag 3 on context 1", "which is itself"]),
    "two_cycles": (4, [0, 1, 2, 3], ["cycle: 0 -> 1 -> 0", "cycle: 2 -> 3 -> 2"]),
    "beyond_the_window": (2, [0, 1], ["waits for tag 7 on context 1 from 1, which waits too", "its send to 0 (tag 8 on context 1, 4 bytes) is not received",
                                      "the tag differs (", "the space for unexpected messages is used up: rank 0 holds ", "cycle: 0 -> 1 -> 0"]),
}
# name: ranks.  No rank is deadlocked
CONTROLS = {"late_sender": 2, "wait_any_beside": 3, "attach_forbidden": 2, "polling": 2, "waits_for_a_while": 2, "running_ring": 3}
# the doctor's texts about some of them
SAYS = {"attach_forbidden": ["rank 0 (pid ", "cannot read the memory of its peers (cross-memory attach), so long messages to it are copied twice: "
                             "it runs with a seccomp filter"]}


class Failed(Exception):
    pass


class Job:
    def __init__(self, args, pattern, ranks):
        wrapped = [args.no_attach] if pattern == "attach_forbidden" else []
        self.process = subprocess.Popen([args.mbx, "run", "-n", str(ranks), *wrapped, args.program, pattern], stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True)
        self.pids = []
        while len(self.pids) < ranks:
            line = self.process.stdout.readline()
            if not line:
                raise Failed(f"the job ends with {self.process.wait()}")
            self.pids.append(int(line.split()[-1]))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.stdout.read()
        self.process.stdout.close()
        self.process.wait()

    def number(self, args):
        shown = subprocess.run([args.mbx, "queues", "--json", "--wait", "1"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
        for job in json.loads(shown)["jobs"]:
            if job["ranks"][0]["pid"] in self.pids:
                return job["job"]
        raise Failed("the job is not seen")


def doctor(args, number, wait=1000):
    """A rank that does not answer within `wait` ms is read from outside; on a busy machine it is asked again."""
    run = subprocess.run([args.mbx, "doctor", "--job", number, "--wait", str(wait)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return run.returncode, run.stdout


def stuck(args, pattern):
    ranks, dead, texts = STUCK[pattern]
    text = ""
    with Job(args, pattern, ranks) as job:
        number = job.number(args)
        for _ in looks():
            status, text = doctor(args, number)
            named = sorted(int(rank) for rank in re.findall(r"^rank (\d+) \(pid \d+\) is in", text, re.M))
            if status == 3 and named == dead and all(words in text for words in texts):
                return
            if status == 3 and not set(named) <= set(dead):
                break
    raise Failed("the doctor says\n" + text + f"and not {texts} of {dead}")


def control(args, pattern):
    with Job(args, pattern, CONTROLS[pattern]) as job:
        number = job.number(args)
        texts = SAYS.get(pattern, [])
        for look in looks():
            status, text = doctor(args, number, SILENT_MS)
            if status != 0 or "no rank is deadlocked" not in text:
                raise Failed(f"nobody is deadlocked, and the doctor ends with {status} and says\n" + text)
            if look >= SILENT - 1 and all(words in text for words in texts):
                return
    raise Failed("the doctor says\n" + text + f"and not {texts}")


def questions(pid):
    """Returns the number of the last question in the page of this rank (src/inspect/page.h)."""
    for name in os.listdir(f"/proc/{pid}/fd"):
        path = f"/proc/{pid}/fd/{name}"
        if os.readlink(path).startswith("/memfd:matchbox-inspect"):
            with open(path, "rb") as page:
                page.seek(320)
                return int.from_bytes(page.read(4), sys.byteorder)
    raise Failed(f"process {pid} has no page")


def rounds_of_a_job_that_ends(args):
    """Questions of other tests also count, so the job may end before its doctor has seen it."""
    for _ in looks():
        with Job(args, "late_sender", 2) as job:
            command, asked = judge(args, job, "1000000"), questions(job.pids[0])
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            while questions(job.pids[0]) < asked + 2 and process.poll() is None:
                os.sched_yield()
        text = process.communicate()[0]  # the job is over
        if process.returncode != 1 or "no job of this user" not in text:
            break
    return process.returncode, text


def judge(args, job, *options):
    return [args.mbx, "doctor", "--job", job.number(args), "--wait", "1000", "--between", "10", "--rounds", *options]


def rounds(args):
    """Judges again and again: until a rank is deadlocked, for a number of rounds, or until the job is over."""
    with Job(args, "head_to_head", 2) as job:
        run = subprocess.run(judge(args, job, "1000000"), stdout=subprocess.PIPE, text=True)
        if run.returncode != 3 or "deadlock of 2 of 2 ranks" not in run.stdout or "rounds: a rank is deadlocked" not in run.stdout:
            raise Failed(f"rounds end with {run.returncode}:\n{run.stdout}")
    with Job(args, "running_ring", 2) as job:
        for _ in looks():  # five rounds may find no rank that waits
            run = subprocess.run(judge(args, job, "5"), stdout=subprocess.PIPE, text=True)
            waits = re.fullmatch(r"5 rounds: no rank was deadlocked\n(in [1-9]\d* of them a rank was judged that has reported something that waits.*\n)?", run.stdout)
            if run.returncode != 0 or waits:
                break
        if run.returncode != 0 or not waits:
            raise Failed(f"rounds end with {run.returncode}:\n{run.stdout}")
    for pattern in "two_endpoints", "nothing_waits":
        with Job(args, pattern, 2) as job:
            run = subprocess.run(judge(args, job, "5"), stdout=subprocess.PIPE, text=True)
            if run.returncode != 0 or not run.stdout.startswith("5 rounds: no rank was deadlocked\nbut no rank was judged"):
                raise Failed(f"rounds of {pattern}, which judge nothing, end with {run.returncode}:\n{run.stdout}")
    status, text = rounds_of_a_job_that_ends(args)
    if status != 0 or "rounds: no rank was deadlocked" not in text:
        raise Failed(f"rounds of a job that ends end with {status}:\n{text}")


def hostile(args):
    """A name that a process of another MPI has given itself is printed without its terminal commands.  A process is of an MPI
    if a library with exactly this name is mapped."""
    escape = "\x1b[2J"
    for name, is_mpi in (("libmpi.so", True), ("libmpi.software", False)):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, name)
            with open(path, "wb") as library:
                library.write(bytes(4096))
            script = ("import mmap, sys; library = open(sys.argv[1], 'rb'); pages = mmap.mmap(library.fileno(), 0, access=mmap.ACCESS_READ);"
                      f"open('/proc/self/comm', 'w').write('{escape}evil'); print(flush=True); sys.stdin.read()")
            env = dict(os.environ, OMPI_COMM_WORLD_RANK=escape, OMPI_MCA_pml=escape)
            process = subprocess.Popen([sys.executable, "-c", script, path], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            process.stdout.readline()
            shown = subprocess.run([args.mbx, "doctor", "--between", "1"], stdout=subprocess.PIPE, text=True).stdout
            process.communicate()
        is_said = "1 rank of ?[2Jevil: Open MPI, not over Matchbox: OMPI_MCA_pml=?[2J is" in shown
        if is_said != is_mpi or "\x1b" in shown:
            raise Failed(f"the doctor says of {name}: {shown!r}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mbx")
    parser.add_argument("program")
    parser.add_argument("no_attach", help="runs a program without cross-memory attach")
    parser.add_argument("patterns", nargs="*")
    parser.add_argument("--times", type=int, default=1)
    args = parser.parse_args()
    failed = []
    for pattern in (args.patterns or [*STUCK, *CONTROLS, "rounds", "hostile"]) * args.times:
        try:
            if pattern in ("rounds", "hostile"):
                (rounds if pattern == "rounds" else hostile)(args)
            else:
                (stuck if pattern in STUCK else control)(args, pattern)
        except Failed as why:
            print(f"{pattern}: {why}", flush=True)
            failed.append(pattern)
    print(f"stuck_test: {len(failed)} wrong {failed}")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
