#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""hang_test.py BUILD [--through pml|provider] [NAME...] - MBX_HANG reports a deadlock once, and nothing else.

The programs are the patterns of stuck.c.  The output is read up to a line that must come, so nothing here waits for a
time.  Two jobs run at a time, because most of the time of a job is its start and its end.
"""
import argparse
import concurrent.futures
import json
import os
import re
import signal
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
import processes  # noqa: E402

HANG = "500ms"
REPORT = "matchbox: MBX_HANG: no message has come for "
AGAIN = "(again)"
UNLESS = ", unless a thread that has never communicated sends one"
NONE = "but this is no deadlock"
LOOKS = 8  # of the doctor at a running job: each takes at least 0.3 s


class Failed(Exception):
    pass


def check(condition, text):
    if not condition:
        raise Failed(text)


class Job:
    def __init__(self, args, folder, pattern, ranks, **more):
        env = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", **{"MBX_HANG": HANG, **more})
        self.folder = folder
        self.process = subprocess.Popen(
            [args.mbx, "exec", "--through", args.through, "mpiexec", "--oversubscribe", "-n", str(ranks), args.program, *pattern.split()],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env, start_new_session=True, cwd=folder, text=True)
        self.said = ""

    def read_until(self, *words):
        """Reads lines up to one that contains one of these words."""
        for line in self.process.stdout:
            self.said += line
            if any(word in line for word in words):
                return
        raise Failed(f"the job ends, and {words} did not come:\n{self.said}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)
        self.said += self.process.stdout.read()
        self.process.wait()

    def file(self):
        names = [name for name in os.listdir(self.folder) if name.startswith("matchbox-hang-")]
        check(len(names) == 1, f"files: {names}")
        with open(os.path.join(self.folder, names[0])) as text:
            return names[0][len("matchbox-hang-"):-len(".txt")], text.read()


def reporters(job):
    return processes.running("--from-watchdog", job)


def deadlock(args, folder):
    with Job(args, folder, "tag_differs", 2) as job:
        job.read_until(AGAIN)
        job.read_until("cycle: 0 -> 1 -> 0")
        number, text = job.file()
        check(len(reporters(number)) == 1, f"reporters: {reporters(number)}")
    check(job.said.count(REPORT) == 2 and job.said.count("cycle: 0 -> 1 -> 0") == 2, "once, and once again:\n" + job.said)
    check("waits for tag 7 on MPI_COMM_WORLD from 1, which waits too" in job.said and "the tag differs" in job.said, job.said)
    check(text in job.said.replace("\r", "") and text.count(REPORT) == 2, f"the file says\n{text}\nand not\n{job.said}")
    while reporters(number):  # the reporter ends because its rank has
        os.sched_yield()


def abort(args, folder, pattern):
    with Job(args, folder, pattern, 2, MBX_HANG_THEN="abort") as job:
        job.read_until("MBX_HANG_THEN=abort (status 86)")
        job.said += job.process.stdout.read()
        status = job.process.wait()
    check(status == 86, f"status {status}, not 86:\n{job.said}")
    check(job.said.count(REPORT) == 1, "not one report:\n" + job.said)


def unless(args, folder):
    """A deadlock that a thread may still end is reported, and does not end the job."""
    with Job(args, folder, "tag_differs sleeps", 2, MBX_HANG_THEN="abort") as job:
        job.read_until(AGAIN)
        job.read_until("cycle: 0 -> 1 -> 0")
        check(job.process.poll() is None, "the job has ended:\n" + job.said)
    check(job.said.count(UNLESS) == 2, "not two reports:\n" + job.said)
    check("has never communicated: it sleeps (clock_nanosleep)" in job.said and "MBX_HANG_THEN=abort" not in job.said, job.said)


def unless_no_more(args, folder, second):
    """After two reports with "unless", the thread that they name ends, or waits as well: now the job is ended."""
    with Job(args, folder, f"tag_differs {second}", 2, MBX_HANG_THEN="abort") as job:
        job.read_until(AGAIN)
        job.read_until("cycle: 0 -> 1 -> 0")
        check(job.said.count(UNLESS) == 2, "not two reports:\n" + job.said)
        os.kill(int(re.search(r"^process (\d+) sleeps$", job.said, re.M)[1]), signal.SIGUSR1)
        job.read_until("MBX_HANG_THEN=abort (status 86)")
        job.said += job.process.stdout.read()
        status = job.process.wait()
    check(status == 86 and "the job is ended" in job.said, f"status {status}:\n{job.said}")


def killed(args, folder):
    """The only rank starts another reporter if its reporter was killed, although nothing has happened since."""
    with Job(args, folder, "receive_from_itself", 1, MBX_HANG="200ms") as job:
        job.read_until(REPORT)
        number, _ = job.file()
        for pid in reporters(number):
            os.kill(int(pid), signal.SIGKILL)
        while True:  # a report that follows another one of the same reporter has a mark
            job.read_until(REPORT)
            if AGAIN not in job.said.splitlines()[-1]:
                break
    check("deadlock of 1 of 1 ranks" in job.said, job.said)


def session_of(pid):
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return None


def polls(args, folder):
    """Ranks that poll are reported with an if, which does not end the job.  A rank starts the reporter with the limit of
    60 s, so this one is started here, without a limit."""
    with Job(args, folder, "both_poll", 2, MBX_HANG="0") as job:
        number, ranks = None, []
        while len(ranks) != 2:
            shown = json.loads(subprocess.run([args.mbx, "queues", "--json"], stdout=subprocess.PIPE, text=True).stdout)
            number, ranks = next(((one["job"], one["ranks"]) for one in shown["jobs"]
                                  if session_of(one["ranks"][0]["pid"]) == job.process.pid), (None, []))
        reporter = subprocess.Popen(  # it tells the rank by descriptor 3 (src/inspect/hang.h)
            ["sh", "-c", 'exec "$@" 3>&1 > /dev/null', "sh", args.mbx, "doctor", "--from-watchdog", str(ranks[0]["pid"]), "--job", number,
             "--hang", "500", "--polls", "0", "--abort"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder)
        said = ""
        for line in reporter.stderr:
            said += line
            if said.count("cycle: 0 -> 1 -> 0") == 2:
                break
        check(job.process.poll() is None, "the job has ended")
    said += reporter.stderr.read()
    check(reporter.stdout.read() == "" and reporter.wait() == 0, "the reporter has told the rank something")
    check(said.count(", and nothing can, if ranks that poll do nothing else") == 2 and "all ranks poll; if ranks that poll do nothing else" in said
          and AGAIN in said, said)


def no_deadlock(args, folder, pattern, ranks, words):
    """MBX_HANG_THEN=abort also acts only on deadlocks."""
    with Job(args, folder, pattern, ranks, MBX_HANG_THEN="abort") as job:
        job.read_until(NONE)
        job.read_until(words)
    check(REPORT not in job.said and "deadlock of" not in job.said, f"{pattern}:\n{job.said}")
    check(not os.listdir(folder), f"{pattern} leaves {os.listdir(folder)}")


def late_deadlock(args, folder):
    """A deadlock that begins after the report that there is none ends the job as well."""
    with Job(args, folder, "late_deadlock", 2, MBX_HANG_THEN="abort") as job:
        job.read_until(NONE)
        job.read_until("waits for a signal")
        os.kill(int(re.search(r"^process (\d+) sleeps$", job.said, re.M)[1]), signal.SIGUSR1)
        job.read_until("MBX_HANG_THEN=abort (status 86)")
        job.said += job.process.stdout.read()
        status = job.process.wait()
    check(status == 86 and "cycle: 0 -> 1 -> 0" in job.said, f"status {status}:\n{job.said}")


def runs(args, folder, pattern, ranks):
    with Job(args, folder, pattern, ranks) as job:
        for _ in range(LOOKS):
            subprocess.run([args.mbx, "doctor"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        check(job.process.poll() is None, f"{pattern} ends")
    # a line that no message has come for long may be true if ranks wait for a core
    check(job.said.count("MBX_HANG") == job.said.count(NONE), f"{pattern}:\n{job.said}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--through", default="pml", choices=["pml", "provider"])
    args = parser.parse_intermixed_args()
    args.mbx = os.path.join(os.path.abspath(args.build), "tools", "mbx")
    args.program = os.path.join(os.path.abspath(args.build), "tests", "mpi", "stuck")
    scenes = {
        "deadlock": deadlock,
        "abort": lambda a, f: abort(a, f, "both_receive"),
        "abort_with_threads": lambda a, f: abort(a, f, "both_receive joins"),
        "unless": unless,
        "thread_ends": lambda a, f: unless_no_more(a, f, "ends"),
        "thread_begins": lambda a, f: unless_no_more(a, f, "begins"),
        "late_deadlock": late_deadlock,
        "killed": killed,
        "polls": polls,
        "late_sender": lambda a, f: no_deadlock(a, f, "late_sender", 2, "waits for a signal"),
        "computing_master": lambda a, f: no_deadlock(a, f, "computing_master", 3, "computes"),
        "polling": lambda a, f: no_deadlock(a, f, "polling", 2, "from 0, which is in MPI_Iprobe"),
        "running_ring": lambda a, f: runs(a, f, "running_ring", 3)}

    def goes_wrong(name):
        with tempfile.TemporaryDirectory() as folder:
            try:
                scenes[name](args, folder)
                print(f"{name}: right", flush=True)
                return False
            except Failed as why:
                print(f"{name}: {why}", flush=True)
                return True

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return any([*pool.map(goes_wrong, args.names or scenes)])


if __name__ == "__main__":
    sys.exit(main())
