# SPDX-License-Identifier: BSD-3-Clause
"""demo_hang.py - a program that waits for ever: what `mbx doctor` says of it, and what is said without Matchbox.

The program is tests/mpi/stuck with a wrong tag: rank 1 sends tag 8, rank 0 receives tag 7, and then both wait
for the other.
"""
import contextlib
import json
import os
import subprocess
import time

from proglib import LIMIT_S, OB1, Failed, end_group, environment, mpiexec

PATTERN = "tag_differs"
SILENT_S = 2.0  # seconds of silence before the user without the doctor looks at it
MARK = "MATCHBOX_DEMO"


@contextlib.contextmanager
def job(command, where):
    """The process of a job whose output goes to where/output; it is ended in the end."""
    os.makedirs(where, exist_ok=True)
    env = environment(os.path.join(where, "stats.%r"), "", {MARK: str(os.getpid())})
    with open(os.path.join(where, "output"), "w", encoding="utf-8") as out:
        process = subprocess.Popen(command, cwd=where, env=env, stdin=subprocess.DEVNULL, stdout=out,
                                   stderr=subprocess.STDOUT, start_new_session=True)
    try:
        yield process
    finally:
        end_group(process)


def is_ours(pid):
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return f"{MARK}={os.getpid()}\0".encode() in file.read()
    except OSError:
        return False


def job_number(mbx):
    """The number of the job as `mbx queues` prints it, or None."""
    shown = subprocess.run([mbx, "queues", "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    with contextlib.suppress(ValueError, KeyError):
        for seen in json.loads(shown.stdout)["jobs"]:
            if any(is_ours(rank["pid"]) for rank in seen["ranks"]):
                return seen["job"]
    return None


def explained(mbx, process):
    """The doctor's output about the job, as soon as it has seen the deadlock."""
    until = time.monotonic() + LIMIT_S
    while time.monotonic() < until:
        if process.poll() is not None:
            raise Failed("the program that is to hang has ended")
        number = job_number(mbx)
        if number is not None:
            looked = subprocess.run([mbx, "doctor", "--job", number], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                    text=True, check=False)
            if looked.returncode == 3:
                return looked.stdout
        else:
            time.sleep(0.1)
    raise Failed(f"mbx doctor does not see the deadlock of {PATTERN}")


def said_without(program, where):
    """The output of the same program over ob1 in some seconds, in which it hangs as well."""
    with job(mpiexec(2) + OB1 + [program, PATTERN], where) as process:
        end = time.monotonic() + SILENT_S
        while time.monotonic() < end:
            if process.poll() is not None:
                raise Failed("the program that is to hang has ended over ob1")
            time.sleep(0.1)
        with open(os.path.join(where, "output"), encoding="utf-8", errors="replace") as out:
            return out.read()


def hang(build, top):
    """(what mbx doctor says, what is printed over ob1)"""
    mbx, program = os.path.join(build, "tools", "mbx"), os.path.join(build, "tests", "mpi", "stuck")
    if not os.access(program, os.X_OK):
        raise Failed(f"there is no {program}: ./dev build makes it where mpicc is")
    with job([mbx, "exec"] + mpiexec(2) + [program, PATTERN], os.path.join(top, "hang")) as process:
        text = explained(mbx, process)
    return text, said_without(program, os.path.join(top, "hang-ob1"))
