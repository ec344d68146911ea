#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""trace_kill_test.py MBX PROGRAM [--times N] [--seed N] - a rank that is killed leaves its whole trace.

PROGRAM, a job of two ranks, is killed (SIGKILL to all of its processes) at random moments.  Each remaining file is read
up to its last record but one: after that there is reserved space, or the one record that was being written.
"""
import argparse
import os
import random
import re
import signal
import struct
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from looks import looks  # noqa: E402
from patience import PATIENCE_S  # noqa: E402

HEADER, RECORD = 64, 56  # the size of a long record; no record is longer
ENDED = re.compile(r"at offset (\d+): (the file ends without a close: the program was ended|"
                   r"the file ends within a record: the program was ended)")


def traces(folder):
    return sorted(os.path.join(folder, name) for name in os.listdir(folder))


def written(path):
    """Returns the size up to the last byte that is not 0."""
    with open(path, "rb") as file:
        data = file.read()
    return len(data.rstrip(b"\0"))


def read(mbx, path):
    """Returns the error in the file of a killed rank, or None."""
    done = subprocess.run([mbx, "trace", "--summary", path], capture_output=True, text=True, timeout=PATIENCE_S)
    if done.returncode == 0:
        return None  # the file was complete
    size = written(path)
    if size < HEADER:
        return None  # the file had not begun
    found = ENDED.search(done.stderr)
    if found is None or len(done.stderr.splitlines()) != 1:
        return f"it says {done.stderr!r}"
    at = int(found.group(1))
    # a record may end with zero bytes, and its last field, a time, with up to eight
    if not at - RECORD < size <= at + RECORD:
        return f"it is read up to {at}, and written up to {size}"
    return None


def kill_once(mbx, program, chance):
    """Returns the smallest number of records that were read.  None: the job ended before.  Raises AssertionError."""
    with tempfile.TemporaryDirectory() as folder:
        env = dict(os.environ, MBX_TRACE=folder, MBX_LOG_LEVEL="error")
        job = subprocess.Popen([mbx, "run", "-n", "2", program], env=env, start_new_session=True,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        least = chance.randrange(HEADER, 200000)  # the files of a whole job have 267,000 bytes and more
        limit = time.monotonic() + PATIENCE_S
        while job.poll() is None and time.monotonic() < limit:
            if any(written(path) >= least for path in traces(folder)):
                break
        if job.poll() is not None:
            assert job.returncode == 0, f"the job has ended with {job.returncode}"
            return None
        os.killpg(job.pid, signal.SIGKILL)
        job.wait()
        events = 0
        for path in traces(folder):
            wait_unused(path)
            wrong = read(mbx, path)
            assert wrong is None, f"{path}: {wrong}"
            events += max(0, written(path) - HEADER) // RECORD
        return events


def wait_unused(path):
    """Waits for the end of the ranks: they are children of the launcher, and end after it."""
    pid = re.search(r"matchbox-[0-9a-f]+-(\d+)-", path).group(1)
    while os.path.exists(f"/proc/{pid}"):
        try:
            with open(f"/proc/{pid}/stat", encoding="ascii") as file:
                if file.read().rsplit(")", 1)[1].split()[0] == "Z":
                    return
        except OSError:
            return
        os.sched_yield()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("mbx")
    parser.add_argument("program")
    parser.add_argument("--times", type=int, default=30)
    parser.add_argument("--seed", type=int, default=struct.unpack("<I", os.urandom(4))[0])
    options = parser.parse_args()
    chance = random.Random(options.seed)
    events = kills = 0
    for n in range(options.times):
        try:
            for _ in looks():  # this process may get no core until the job has ended
                read_of_it = kill_once(os.path.abspath(options.mbx), os.path.abspath(options.program), chance)
                if read_of_it is not None:
                    break
            events += read_of_it or 0
            kills += read_of_it is not None
        except AssertionError as error:
            print(f"FAIL seed {options.seed}, kill {n}: {error}")
            return 1
        if sys.stdout.isatty():
            print(f"\r{n + 1} of {options.times}", end="", flush=True)
    print(f"trace_kill_test: {kills} kills, at least {events} records read, seed {options.seed}")
    return 0 if events > 0 and kills == options.times else 1


sys.exit(main())
