#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""doctor_test.py BUILD [--through pml|provider|ucp] [--mpi openmpi|mpich] [--programs FOLDER] [--times N] [--jobs N] [PATTERN...] - `mbx doctor` names the deadlock, and only deadlocks.

Each pattern of stuck.c runs until the doctor has given its expected answer, or has been silent often enough.  Two run at
a time (--jobs), because most of the time of a job is its start.  After a deadlock the doctor is asked once more, and must
give the same answer: this time is the time of a diagnosis, and the longest one is printed at the end.
Through ucp the programs are compiled here, by mpicc.mpich.  The status is 77 if there is no MPICH with the device ch4:ucx.
"""
import argparse
import concurrent.futures
import itertools
import json
import os
import re
import signal
import shutil
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from looks import looks  # noqa: E402

AIM_S = 2    # the time that a diagnosis may take
SILENT = 4   # looks at a job without a deadlock,
SILENT_MS = "500"  # in each of which a rank that computes has this time to answer: it will not

# name: ranks, deadlocked ranks, texts that the doctor prints
STUCK = {
    "tag_differs": (2, [0, 1], ["waits for tag 7 on MPI_COMM_WORLD from 1, which waits too",
                                "tag 8 on MPI_COMM_WORLD from 1 is unexpected there: the tag differs"]),
    "communicator_differs": (2, [0, 1], ["waits for tag 7 on MPI_COMM_WORLD from 1", "is unexpected there: the communicator differs"]),
    "source_differs": (3, [0, 1, 2], ["waits for tag 7 on MPI_COMM_WORLD from 2, which waits too",
                                      "tag 7 on MPI_COMM_WORLD from 1 is unexpected there: the source differs", "cycle: 0 -> 2 -> 0"]),
    "source_and_communicator_differ": (3, [0, 1, 2], ["waits for tag 7 on MPI_COMM_WORLD from 2, which waits too",
                                                      "from 1 is unexpected there: the source and the communicator differ", "cycle: 0 -> 2 -> 0"]),
    "head_to_head": (2, [0, 1], ["its send to 1 (tag 5 on MPI_COMM_WORLD", "is not received by 1, which waits too", "cycle: 0 -> 1 -> 0"]),
    "both_synchronous": (2, [0, 1], ["is in MPI_Ssend", "send to 1 (tag 5", "send to 0 (tag 5", "cycle: 0 -> 1 -> 0"]),
    "both_receive": (2, [0, 1], ["waits for tag 1 on MPI_COMM_WORLD from 1", "waits for tag 1 on MPI_COMM_WORLD from 0", "cycle: 0 -> 1 -> 0"]),
    "ring_of_receives": (4, [0, 1, 2, 3], ["cycle: 0 -> 3 -> 2 -> 1 -> 0"]),
    "ring_of_sends": (3, [0, 1, 2], ["cycle: 0 -> 1 -> 2 -> 0"]),
    "all_any_source": (3, [0, 1, 2], ["from any source, and nobody is left to send it"]),
    "receive_from_finalized": (2, [0], ["waits for tag 7 on MPI_COMM_WORLD from 1, which is in MPI_Finalize"]),
    "synchronous_to_finalized": (2, [0], ["send to 1 (tag 7 on MPI_COMM_WORLD", "is not received by 1, which is in MPI_Finalize"]),
    "barrier_and_bcast": (2, [0, 1], ["is in MPI_Barrier", "is in MPI_Bcast", "barrier on MPI_COMM_WORLD from 0 is unexpected there: it belongs to another collective"]),
    "barrier_and_receive": (2, [0, 1], ["is in MPI_Barrier", "waits for tag 7 on MPI_COMM_WORLD from 0, which waits too",
                                        "barrier on MPI_COMM_WORLD from 0 is unexpected there: it belongs to a collective"]),
    "barrier_and_exchange": (2, [0, 1], ["is in MPI_Barrier", "tag 7 on MPI_COMM_WORLD from 0 is unexpected there: it belongs to no collective"]),
    "communicator_left_out": (2, [0, 1], ["is in MPI_Cart_create", "waits for tag 7 on MPI_COMM_WORLD from 0, which waits too"]),
    "leader_left_out": (2, [0, 1], ["is in MPI_Intercomm_create", "waits for tag 9 on MPI_COMM_WORLD from 1, which waits too"]),
    "fence_and_barrier": (2, [0, 1], ["is in MPI_Win_fence", "is in MPI_Barrier", "cycle: 0 -> 1 -> 0"]),
    "detach_and_receive": (2, [0, 1], ["is in MPI_Buffer_detach", "its send to 1 (tag 7 on MPI_COMM_WORLD"]),
    "collective_left_out": (3, [0, 1], ["is in MPI_Allreduce", "which is in MPI_Finalize"]),
    "wait_all": (2, [0, 1], ["is in MPI_Waitall", "waits for tag 9 on MPI_COMM_WORLD from 1"]),
    "wait_any": (2, [0, 1], ["is in MPI_Waitany", "waits for tag 7 on MPI_COMM_WORLD from 1", "waits for tag 8 on MPI_COMM_WORLD from 1"]),
    "probe_in_vain": (2, [0, 1], ["is in MPI_Probe", "waits for tag 4 on MPI_COMM_WORLD from 1"]),
    "sendrecv_chain": (3, [0, 1, 2], ["is in MPI_Sendrecv", "waits for tag 1 on MPI_COMM_WORLD from 1", "send to 1 (tag 1 on MPI_COMM_WORLD"]),
    "send_to_itself": (1, [0], ["send to 0 (tag 3 on MPI_COMM_WORLD", "which is itself"]),
    "receive_from_itself": (1, [0], ["waits for tag 3 on MPI_COMM_WORLD from 0, which is itself", "cycle: 0 -> 0"]),
    "small_head_to_head": (2, [0, 1], ["is in MPI_Send", "its send to 1 (tag 5 on MPI_COMM_WORLD, 4 bytes) is not received by 1", "cycle: 0 -> 1 -> 0"]),
    "two_communicators": (2, [0, 1], ["is in MPI_Bcast", "bcast on communicator", '"one"', '"other"', "roll call on communicator"]),
    "roots_differ": (2, [0, 1], ["waits for bcast on MPI_COMM_WORLD from 1", "waits for bcast on MPI_COMM_WORLD from 0",
                                 "  all of them wait within one bcast on MPI_COMM_WORLD: likely the roots differ, or",
                                 "roll call on MPI_COMM_WORLD: 0, 1 in MPI_Bcast"]),
    "long_roots_differ": (2, [0, 1], ["its send to 1 (bcast on MPI_COMM_WORLD, 1048576 bytes) is not received by 1",
                                      "  all of them wait within one bcast on MPI_COMM_WORLD: likely the roots differ, or"]),
    "all_roots_differ": (3, [0, 1, 2], ["all of them wait within one bcast on MPI_COMM_WORLD: likely the roots differ, or"]),
    "nonblocking_roots_differ": (2, [0, 1], ["is in MPI_Wait", "all of them wait within one nonblocking collective",
                                             "likely they have begun different ones, or with different roots, counts or types"]),
    "not_started": (2, [0, 1], ["waits for tag 2 on MPI_COMM_WORLD from 1, which waits too",
                                "    rank 1 has described this send (MPI_Send_init) and never started it", "cycle: 0 -> 1 -> 0"]),
    "receive_not_started": (2, [0, 1], ["send to 1 (tag 2 on MPI_COMM_WORLD", "    rank 1 has described this receive (MPI_Recv_init) and never started it"]),
    "started_once": (2, [0, 1], ["waits for tag 2 on MPI_COMM_WORLD from 1, which waits too", "cycle: 0 -> 1 -> 0"]),
    "inter_communicator": (2, [0, 1], ["waits for tag 6 on communicator", '"between"', "cycle: 0 -> 1 -> 0"]),
    "nonblocking_differ": (2, [0, 1], ["waits for nonblocking collective number 1 on MPI_COMM_WORLD from 1, which waits too",
                                       "number 2 on MPI_COMM_WORLD from 1 is unexpected there: it belongs to a later nonblocking collective",
                                       "all of them wait within one nonblocking collective number 1 on MPI_COMM_WORLD: likely they have begun different ones"]),
    "nonblocking_left_out": (3, [0, 1, 2], ["is in MPI_Wait", "nonblocking collective", "waits for tag 1 on MPI_COMM_WORLD from 0"]),
    "nonblocking_elsewhere": (2, [0, 1], ["nonblocking collective", "on MPI_COMM_WORLD from 1 is unexpected there: the communicator differs", "cycle: 0 -> 1 -> 0"]),
    "wildcard_took_it": (3, [0, 1, 2], ["waits for tag 3 on MPI_COMM_WORLD from 2", "tag 3 on MPI_COMM_WORLD from 1 is unexpected there: the source differs"]),
    "probed_and_not_received": (2, [0, 1], ["is in MPI_Ssend", "tag 5 on MPI_COMM_WORLD"]),
    "wait_all_beside": (3, [0, 1], ["is in MPI_Waitall", "of the 2 operations that it waits for, 1 cannot end, and it needs all",
                                    "waits for tag 7 on MPI_COMM_WORLD from 1, which waits too"]),
    "beyond_the_window": (2, [0, 1], ["waits for tag 7 on MPI_COMM_WORLD from 1, which waits too", "its send to 0 (tag 8 on MPI_COMM_WORLD",
                                      "the tag differs (", "the space for unexpected messages is used up: rank 0 holds ", "cycle: 0 -> 1 -> 0"]),
    "two_cycles": (4, [0, 1, 2, 3], ["cycle: 0 -> 1 -> 0", "cycle: 2 -> 3 -> 2"]),
}
CROWD = min(os.cpu_count() + 1, 9)  # more ranks than cores, on a small machine
# name: ranks.  No rank is deadlocked
CONTROLS = {"late_sender": 2, "computing_master": 3, "polling": 2, "testing": 2, "both_poll": 2, "poll_and_compute": 2, "testing_a_window": 2, "running_ring": 3, "running_collectives": 2,
            "running_fences": 3, "late_at_barrier": 3, "wait_any_beside": 3, "receive_beside": 3, "late_receiver": 2, "flood": 2, "attach_forbidden": 2, "stopped": 2, "reads_a_file": 2,
            "lock_and_receive": 2, "wait_for_no_message": 2, "wait_for_any_or_no_message": 2, "killed": 3, "crowd": CROWD}
# the doctor's texts about some of them, once they have waited for a second
SAYS = {
    "late_sender": ["waits in MPI_Recv", "tag 7 on MPI_COMM_WORLD from 1, which waits for a signal (pause)"],
    "late_receiver": ["waits in MPI_Send", "tag 5 on MPI_COMM_WORLD to 0, which waits for a signal (pause)"],
    "computing_master": ["waits in MPI_Recv", "rank 0 (pid", ") computes"],
    "late_at_barrier": ["waits in MPI_Barrier", "barrier on MPI_COMM_WORLD from"],
    "flood": ["messages that it has not received; the oldest is tag 8 on MPI_COMM_WORLD from 1, 4 bytes"],
    "attach_forbidden": ["cannot read the memory of its peers (cross-memory attach), so long messages to it are copied twice: it runs with a seccomp filter"],
    "stopped": ["is stopped (SIGSTOP)", "waits in MPI_Recv"],
    # Open MPI's lock of a window is no message, and a rank that is not seen may still send
    "lock_and_receive": ["waits in MPI_Recv", "tag 1 on MPI_COMM_WORLD from 1, which is in MPI_Win_",
                         "waits in MPI_Win_", "no message that is visible here is known to belong to this call"],
    "killed": ["waits in MPI_Recv", "tag 7 on MPI_COMM_WORLD from 2, which is not seen", "1 of its 3 ranks are not seen (2)"],
    "crowd": [f"{CROWD} ranks run on {os.cpu_count()} cores"] if CROWD > os.cpu_count() else [],
    "reads_a_file": ["tag 7 on MPI_COMM_WORLD from 1, which reads pipe:"],
}
POLLS = r"no message for \d+ s: "
# name: ranks, texts.  A deadlock if the ranks that poll do nothing else
POLLING = {"polling": (2, [POLLS + "1 of 2 ranks poll, and the others wait; if ranks that poll do nothing else, this is a deadlock$",
                           r"^rank 0 \(pid \d+\) polls by MPI_Iprobe( at \S+)?, \d+ times a second", "waits for tag 7 on MPI_COMM_WORLD from 1, which waits too",
                           "waits for tag 7 on MPI_COMM_WORLD from 0, which polls", "cycle: 0 -> 1 -> 0"]),
           "testing": (2, [POLLS + "1 of 2 ranks poll", "polls by MPI_Test", "waits for tag 9 on MPI_COMM_WORLD from 1, which waits too"]),
           "both_poll": (2, [POLLS + "all ranks poll; if ranks that poll do nothing else, this is a deadlock$", "waits for tag 9 on MPI_COMM_WORLD from 1, which polls",
                             "waits for tag 7 on MPI_COMM_WORLD from 0, which polls", "cycle: 0 -> 1 -> 0"]),
           "poll_for_finalized": (2, [POLLS + "1 of 2 ranks poll", "waits for tag 7 on MPI_COMM_WORLD from any source, and nobody is left to send it"])}
AT_ONCE, NOT_AT_ALL = ("--polls", "0"), ("--polls", "86400000")  # a rank that polls is judged
# texts that the doctor must never print: for example, that a rank that polls waits there
NEVER = {"polling": "waits in MPI_Iprobe", "testing": "waits in MPI_Test", "testing_a_window": "waits in MPI_Win_test",
         "started_once": "never started"}
MORE = {"small_head_to_head": {"MBX_STRICT_SENDS": "yes"},
        "killed": {"MBX_PEER_TIMEOUT": "600s"}}  # otherwise the death of the rank ends the receives
LAUNCH = {"openmpi": {"": ["--oversubscribe"], "killed": ["--enable-recovery"]},  # "": for every pattern
          "mpich": {}}
WRAPPED = {"attach_forbidden": "no_attach"}  # a program that executes the test program
UNSEEN = {"killed": 1, "receive_from_finalized": 1}  # ranks that have no endpoint any more

# Cases that are not known, and the reasons.  Through the provider, with any MPI, and through ucp:
NOT_BY_PROVIDER = {
    "wait_for_no_message": "that the call waits for no message is not known",
    "wait_for_any_or_no_message": "that the call may end without a message is not known",
    "small_head_to_head": "MBX_STRICT_SENDS has no effect",
    "wait_all_beside": "that MPI_Waitall needs all of its operations is not known",
    "receive_not_started": "what was not started is not known",
    "leader_left_out": "which message the call waits for is not known",
    "beyond_the_window": "a message beyond the window meets its receive at the sender, which goes on",
    "flood": "messages beyond the window stay at their sender, which makes no progress",
}
# under MPICH:
NOT_UNDER_MPICH = {
    "collective_left_out": "the endpoint of the rank in MPI_Finalize is closed, so the others end with an error",
    "synchronous_to_finalized": "it ends with an error, or the other rank is not seen any more: a matter of time",
    "killed": "the job ends with that rank",
}
# Under MPICH these are no deadlocks that could be known: MPI_Finalize closes the endpoint, as if the rank were on another host,
# and a message to the rank itself does not leave MPICH
CONTROLS_OF_MPICH = {"receive_from_finalized": 2, "send_to_itself": 1, "receive_from_itself": 1}
SAYS_OF_MPICH = {
    "receive_from_finalized": ["waits in MPI_Recv", "tag 7 on MPI_COMM_WORLD from peer ", ", which is not seen", "1 of its 2 ranks are not seen (1)"],
}
# Through ucp the rank is there, and waits for its launcher, without progress.
SAYS_OF_UCP = {
    "receive_from_finalized": ["waits in MPI_Recv", "tag 7 on MPI_COMM_WORLD from 1, which reads socket:"],
}
# the texts for a deadlock there.  Unlike in Open MPI, messages of MPI_Intercomm_create can be distinguished from the
# program's, so NOT_BY_PROVIDER does not hold
TEXTS_OF_MPICH = {
    "leader_left_out": ["is in MPI_Intercomm_create", "waits for group collective tag 0 on MPI_COMM_WORLD from 1, which waits too",
                        "waits for tag 7 on MPI_COMM_WORLD from 0, which waits too", "it belongs to a collective"],
}
# Through ucp which rank of the job a rank of another communicator is is not known
TEXTS_OF_UCP = dict(TEXTS_OF_MPICH, **{
    "fence_and_barrier": ["is in MPI_Win_fence", "waits for barrier on communicator", "from rank 1 of it", "is in MPI_Barrier"],
    "inter_communicator": ["waits for tag 6 on communicator", "from rank 0 of it"],
})
NAMES = {"openmpi": "Open MPI", "mpich": "MPICH"}


class Failed(Exception):
    pass


def mpiexec_of(args):
    return "mpiexec.mpich" if args.through == "ucp" else "mpiexec"


def launch_options(args, pattern=""):
    options = LAUNCH[getattr(args, "mpi", "openmpi")]
    return options.get("", []) + (options.get(pattern, []) if pattern != "" else [])


def end(process):
    """Ends a launcher and its ranks; a process that catches SIGTERM, as some providers of libfabric do, is killed."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


class Job:
    """A running program: a pattern, or the program with these arguments."""

    numbers = itertools.count()

    def __init__(self, args, pattern, ranks, options=()):
        self.mark = f"{os.getpid()}.{next(self.numbers)}"
        env = dict(os.environ, DOCTOR_TEST=self.mark, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                   **MORE.get(pattern, {}))
        self.process = subprocess.Popen(
            [args.mbx, "exec", "--through", args.through, mpiexec_of(args), *launch_options(args, pattern), *options, "-n", str(ranks),
             *([os.path.join(args.wrappers, WRAPPED[pattern])] if pattern in WRAPPED else []), args.program,
             *((pattern,) if isinstance(pattern, str) else pattern)],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env, start_new_session=True)
        self.args = args

    def __enter__(self):
        return self

    def __exit__(self, *_):
        end(self.process)
        self.process.stdout.close()

    def is_mine(self, pid):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                return f"DOCTOR_TEST={self.mark}\0".encode() in file.read()
        except OSError:
            return False

    def ranks(self):
        """Returns (number of the job, its ranks), once all are there."""
        shown = subprocess.run([self.args.mbx, "queues", "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        for job in json.loads(shown.stdout)["jobs"]:
            if self.is_mine(job["ranks"][0]["pid"]):
                return job["job"], job["ranks"]
        return None, []

    def doctor(self, number, *options):
        run = subprocess.run([self.args.mbx, "doctor", "--job", number, *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return run.returncode, run.stdout

    def wait_for(self, ranks):
        for _ in looks():
            number, seen = self.ranks()
            if len(seen) == ranks:
                return number
            if self.process.poll() is not None:
                raise Failed("the job has ended: " + self.process.stdout.read().decode())
        raise Failed(f"{len(seen)} of {ranks} ranks are seen")


LINE = re.compile(r"^rank (\d+) \(pid \d+\) is in (MPI_\w+)(?: at (\S*)stuck\.c:(\d+))?", re.M)


def check_lines(args, text):
    """The line of each rank in the program must contain the call that the rank is in."""
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "stuck.c")) as file:
        source = file.read().splitlines()
    has_lines = "libdw yes" in subprocess.run([args.mbx, "version"], stdout=subprocess.PIPE, text=True).stdout
    for rank, call, _, line in LINE.findall(text):
        if call == "MPI_Finalize" or not has_lines:
            continue
        if not line or f"{call}(" not in source[int(line) - 1]:
            raise Failed(f"rank {rank} is not in {call} at line {line or '(none)'} of stuck.c: {source[int(line or 1) - 1]!r}\n{text}")


def deadlocked(text):
    return sorted(int(rank) for rank in re.findall(r"^rank (\d+) \(pid \d+\) is in", text, re.M))


def diagnose(args, pattern, job, number, dead):
    """Runs the doctor on ranks that are stuck, and measures the time.  A rank without a core may not answer in time;
    then the result is not checked."""
    for _ in looks():
        start = time.monotonic()
        status, text = job.doctor(number)
        took = time.monotonic() - start
        if status != 0:
            break
    args.diagnoses.append((took, pattern))
    if took > AIM_S:
        print(f"{pattern}: a diagnosis took {took:.2f} s, at a load of {os.getloadavg()[0]:.1f}", flush=True)
    if status != 3 or deadlocked(text) != dead:
        raise Failed("asked a second time, the doctor says\n" + text)


def stuck(args, pattern):
    ranks, dead, texts = STUCK[pattern]
    if args.mpi == "mpich":
        texts = (TEXTS_OF_UCP if args.through == "ucp" else TEXTS_OF_MPICH).get(pattern, texts)
    # through the provider communicators have no names, and requests that were not started are unknown
    texts = [words for words in texts if args.through == "pml" or not words.startswith(('"', "    rank 1 has described"))]
    text = ""
    with Job(args, pattern, ranks) as job:
        number = job.wait_for(ranks)
        for _ in looks():
            status, text = job.doctor(number, "--wait", "10000")
            named = deadlocked(text)
            if pattern in NEVER and NEVER[pattern] in text:
                break
            if status == 3 and named == dead and all(words in text for words in texts):
                check_lines(args, text)
                diagnose(args, pattern, job, number, dead)
                return
            if status == 3 and not set(named) <= set(dead):
                break
    raise Failed("the doctor says\n" + text + f"and not {texts} of {dead}")


def check_nobody_left_out(text, ranks):
    """Each rank that was seen has a line with the reason why it is not deadlocked."""
    named = {int(number) for number in re.findall(r"^rank (\d+) \(pid ", text, re.M)}
    for listed in re.findall(r"^not deadlocked: ranks? ([\d, ]+) \([^)]", text, re.M):
        named |= {int(number) for number in listed.split(", ")}
    unseen = re.search(r"ranks are not seen \(([\d, ]+)", text)
    named |= {int(number) for number in unseen[1].split(", ")} if unseen else set()
    if named != set(range(ranks)):
        raise Failed(f"of {ranks} ranks only {sorted(named)} are named by the doctor:\n{text}")


def control(args, pattern):
    says = dict(SAYS, **(SAYS_OF_UCP if args.through == "ucp" else SAYS_OF_MPICH if args.mpi == "mpich" else {}))
    unseen = 0 if args.through == "ucp" else UNSEEN.get(pattern, 0)
    texts = [words for words in says.get(pattern, []) if args.through == "pml" or pattern != "killed" or "from 2" not in words]
    with Job(args, pattern, args.controls[pattern]) as job:
        number = job.wait_for(args.controls[pattern] - unseen)
        for _ in range(SILENT):
            status, text = job.doctor(number, "--wait", SILENT_MS, *(AT_ONCE if pattern == "poll_and_compute" else NOT_AT_ALL))
            if status != 0:
                raise Failed("nobody is deadlocked, and the doctor says\n" + text)
            check_nobody_left_out(text, args.controls[pattern])
            if pattern in NEVER and NEVER[pattern] in text:
                raise Failed("a rank polls, and the doctor says\n" + text)
        for _ in looks():
            if all(words in text for words in texts):
                return
            status, text = job.doctor(number, *NOT_AT_ALL)
        raise Failed("the doctor says\n" + text + f"and not {texts}")


def polls(args, pattern):
    """Ranks that poll are deadlocked if they do nothing else, and only then."""
    ranks, texts = POLLING[pattern]
    with Job(args, pattern, ranks) as job:
        number = job.wait_for(ranks)
        for _ in looks():
            status, text = job.doctor(number, "--wait", "10000", *AT_ONCE)
            if status == 4 and all(re.search(words, text, re.M) for words in texts):
                return
            if status not in (0, 4):
                break
            check_nobody_left_out(text, ranks)
    raise Failed("the doctor says\n" + text + f"and not {texts}")


def elsewhere(args):
    """A job that was started without mbx exec is listed with the missing variable."""
    env = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    process = subprocess.Popen([mpiexec_of(args), *launch_options(args), "-n", "2", args.program, "late_at_barrier"], stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, env=env, start_new_session=True)
    wanted = (f"2 ranks of stuck: {NAMES[args.mpi]}, not over Matchbox: "
              f"{'OMPI_MCA_pml' if args.mpi == 'openmpi' else 'FI_PROVIDER_PATH'} is not in the environment")
    try:
        for _ in looks():
            text = subprocess.run([args.mbx, "doctor"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
            if wanted in text:
                return
    finally:
        end(process)
    raise Failed("the doctor says\n" + text)


def spawner(args):
    """A job of one rank and the job of two that it has spawned are one for the doctor and for queues: each names the
    ranks of the other."""
    title = r"job [0-9a-f]{16} \(stuck, started [0-9: -]+\)"
    wanted = [rf"^{title}: deadlock of 3 of 3 ranks\n  job 2 of these is {title}: 2 ranks$",
              r"^rank 0 \(pid (\d+)\) is in MPI_Recv.*\n  it waits for tag 7 on communicator .* from 0 of job 2, which waits too$",
              r"^rank 0 of job 2 \(pid \d+\) is in MPI_Recv.*\n  it waits for tag 7 on communicator .* from 0, which waits too$",
              r"^cycle: 0 -> 0 of job 2 -> 0$"]
    text = ""
    with Job(args, "spawner", 1) as job:
        for _ in looks():
            run = subprocess.run([args.mbx, "doctor"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            text = next((block for block in re.split(r"^(?=job )", run.stdout, flags=re.M)
                         if (found := re.search(wanted[1], block, re.M)) and job.is_mine(found[1])), "")
            if text and all(re.search(words, text, re.M) for words in wanted):
                break
        else:
            raise Failed("the doctor says\n" + (text or run.stdout))
        pid = re.search(wanted[1], text, re.M)[1]
        shown = subprocess.run([args.mbx, "queues"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
        if not re.search(rf"^rank 0  pid {pid}  in MPI_Recv.*\n  posted      from 0 of job 2, tag 7", shown, re.M):
            raise Failed("queues shows\n" + shown)


def spawner_of_one_that_computes(args):
    """A receive from any process of a spawned job is no deadlock while one of that job computes."""
    waits = r"^rank 0 \(pid (\d+)\) (?:is|waits) in MPI_Recv"
    text = ""
    with Job(args, "spawner_of_one_that_computes", 1) as job:
        for _ in looks():
            run = subprocess.run([args.mbx, "doctor"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            text = next((block for block in re.split(r"^(?=job )", run.stdout, flags=re.M)
                         if (found := re.search(waits, block, re.M)) and job.is_mine(found[1])), "")
            if text:
                break
        if "no rank is deadlocked" not in text:
            raise Failed("the doctor says\n" + (text or run.stdout))


def second_endpoint(args):
    """Open MPI's btl/ofi opens a second endpoint in each rank, which carries no messages of the program."""
    with Job(args, "tag_differs", 2, ["--mca", "btl", "^openib"]) as job:  # Debian's own list leaves btl/ofi out
        for _ in looks():
            number, seen = job.ranks()
            if {rank["rank"] for rank in seen} == {0, 1}:
                break
        if len(seen) == 2:
            print("second_endpoint: this Open MPI has opened none", flush=True)
        for _ in looks():
            status, text = job.doctor(number, "--wait", "10000")
            if status == 3:
                break
    if status != 3 or "deadlock of 2 of 2 ranks" not in text or deadlocked(text) != [0, 1]:
        raise Failed("the doctor says\n" + text)


def late_to_init(args):
    """A rank that does not reach MPI_Init keeps the others in it: the doctor reports what it does, and no rank is
    deadlocked."""
    wanted = [f"1 rank of stuck: {NAMES[args.mpi]}, not over Matchbox yet: ", "  rank 1 (pid ", ") waits for a signal (pause)"]
    with Job(args, "late_to_init", 2) as job:
        number = job.wait_for(1)
        for _ in looks():
            run = subprocess.run([args.mbx, "doctor"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            if re.search(f"^job {number} .*: deadlock", run.stdout, re.M):  # another user's job may be in one
                break
            if all(words in run.stdout for words in wanted):
                return
    raise Failed("the doctor says\n" + run.stdout)


def leaks(args):
    """The messages and receives that are left at the end are reported in MPI's words."""
    env = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", MBX_LEAKS="warn")
    text = subprocess.run([args.mbx, "exec", "--through", args.through, mpiexec_of(args), *launch_options(args), "-n", "2", args.program, "leaves"],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env, text=True).stdout
    for words in ("rank 0 ends with 3 messages that nobody received: 3 from ", "tag 8 on MPI_COMM_WORLD, 4 bytes",
                  "rank 0 ends with 1 receives that matched no message: 1 from ", "tag 7 on MPI_COMM_WORLD, 4 bytes"):
        if words not in text:
            raise Failed(f"'{words}' is missing:\n{text}")


def has_mpich_over_ucx():
    tool = shutil.which("mpichversion.mpich") or shutil.which("mpichversion")
    return (all([tool, shutil.which("mpicc.mpich"), shutil.which("mpiexec.mpich")]) and
            re.search(r"MPICH Device:\s*ch4:ucx", subprocess.run([tool], stdout=subprocess.PIPE, text=True).stdout) is not None)


def compile_for_mpich(folder):
    here, program = os.path.dirname(os.path.abspath(__file__)), os.path.join(folder, "stuck")
    subprocess.run(["mpicc.mpich", "-w", "-O1", "-g", "-I", os.path.join(here, "../.."), "-o", program, os.path.join(here, "stuck.c"),
                    "-lpthread", "-lm"], check=True)
    return program


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build")
    parser.add_argument("patterns", nargs="*")
    parser.add_argument("--through", default="pml", choices=["pml", "provider", "ucp"])
    parser.add_argument("--mpi", default="openmpi", choices=["openmpi", "mpich"], help="whose mpiexec is in PATH")
    parser.add_argument("--programs", help="where stuck and no_attach are, built for that MPI")
    parser.add_argument("--times", type=int, default=1, help="rounds of all patterns")
    parser.add_argument("--jobs", type=int, default=2, help="so many at a time")
    args = parser.parse_intermixed_args()
    args.diagnoses = []  # (seconds, pattern)
    args.mbx = os.path.join(os.path.abspath(args.build), "tools", "mbx")
    tests = os.path.join(os.path.abspath(args.build), "tests")
    args.program = os.path.join(args.programs or os.path.join(tests, "mpi"), "stuck")
    args.wrappers = args.programs or os.path.join(tests, "launch")
    if args.through == "ucp":
        if not has_mpich_over_ucx():
            print("doctor: there is no MPICH with the device ch4:ucx (Debian: mpich libmpich-dev)")
            return 77
        args.mpi = "mpich"
        args.own = tempfile.TemporaryDirectory()
        args.program = compile_for_mpich(args.own.name)
    if args.mpi == "mpich" and args.through == "pml":
        parser.error("MPICH reaches Matchbox through the provider or ucp")
    others = {"elsewhere": elsewhere, "spawner": spawner, "spawner_of_one_that_computes": spawner_of_one_that_computes,
              "second_endpoint": second_endpoint, "late_to_init": late_to_init, "leaks": leaks}

    def goes_wrong(pattern):
        try:
            if pattern in others:
                others[pattern](args)
            else:
                if pattern in args.controls:
                    control(args, pattern)
                elif pattern in STUCK:
                    stuck(args, pattern)
                if pattern in POLLING:
                    polls(args, pattern)
            print(f"{pattern}: right", flush=True)
            return False
        except Failed as why:
            print(f"{pattern}: {why}", flush=True)
            return True

    untold = dict(NOT_BY_PROVIDER if args.through != "pml" else {}, **(NOT_UNDER_MPICH if args.mpi == "mpich" else {}))
    if args.mpi == "mpich":
        untold = {pattern: why for pattern, why in untold.items() if pattern not in TEXTS_OF_MPICH}
    args.controls = dict(CONTROLS, **(CONTROLS_OF_MPICH if args.mpi == "mpich" else {}))
    for pattern, why in untold.items():
        if pattern in args.patterns or not args.patterns:
            print(f"{pattern}: cannot be told: {why}")
    patterns = [pattern for pattern in args.patterns or [*dict.fromkeys([*STUCK, *args.controls, *POLLING]), *others] if pattern not in untold] * args.times
    alone = [pattern for pattern in patterns if pattern in others]  # these check all jobs of this machine
    patterns = [pattern for pattern in patterns if pattern not in others]
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        failed = [pattern for pattern, wrong in zip(patterns, pool.map(goes_wrong, patterns)) if wrong]
    failed += [pattern for pattern in alone if goes_wrong(pattern)]
    if args.diagnoses:
        longest, pattern = max(args.diagnoses)
        print(f"{len(args.diagnoses)} diagnoses of deadlocks, the longest {longest:.2f} s ({pattern}), "
              f"{sum(seconds > AIM_S for seconds, _ in args.diagnoses)} longer than {AIM_S} s")
    print(f"doctor_test: {len(patterns) + len(alone)} run, {len(failed)} wrong {failed}")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
