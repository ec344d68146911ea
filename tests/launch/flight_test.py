#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""flight_test.py MBX JOB INSPECT_PROGRAM [--no-cores] - MBX_FLIGHT keeps the last events of a rank: in a file that remains
when the rank is killed, in the memory of a running rank, and in its core file; and no file remains of a job that ends.
"""
import os
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile

import trace_file

sys.dont_write_bytecode = True
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from looks import looks  # noqa: E402
from patience import PATIENCE_S  # noqa: E402

MBX, JOB, SEE = (os.path.abspath(path) for path in sys.argv[1:4])
CORES = "--no-cores" not in sys.argv[4:]
SLOTS = 500
TITLE = re.compile(r"^(.*): process (\d+), endpoint (\d+), rank (\d): the last (\d+) of (\d+) records$")
# The second event of a record that is complete has the time of the first one.
SECOND = {"sent": "send", "received": "arrive"}
failures = []


def environment(**more):
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MBX_")}
    return dict(clean, MBX_FLIGHT=str(SLOTS), **more)


def trace(*arguments):
    return subprocess.run([MBX, "trace", *arguments], capture_output=True, text=True, timeout=PATIENCE_S)


def check(is_right, what):
    if not is_right:
        failures.append(what)


def check_listing(what, done, ranks, least=1):
    """The listing has the titles of these ranks, and as many records as each title says; sends to a peer have
    consecutive numbers."""
    check(done.returncode == 0 and done.stderr == "", f"{what}: status {done.returncode}, {done.stderr!r}")
    seen, lines, last, before = {}, 0, {}, None
    for line in done.stdout.splitlines() + [""]:
        title = TITLE.match(line)
        if title or line == "":
            if seen:
                check(lines == seen[rank], f"{what}: rank {rank} has {lines} records of {seen[rank]}")
            lines, last, before = 0, {}, None
        if title:
            rank = int(title.group(4))
            seen[rank] = int(title.group(5))
            check(seen[rank] in (min(SLOTS, int(title.group(6))), SLOTS - 1), f"{what}: {line!r}")
            check(seen[rank] >= least, f"{what}: {line!r}")
        elif line and not line.startswith("place "):
            event = line.split()[:2]
            lines += event[1] not in SECOND or before != [event[0], SECOND[event[1]]]
            before = event
            send = re.match(r" *[0-9.]+ send .* to (\S+) .*, message (\d+)$", line)
            if send:
                peer, number = send.group(1), int(send.group(2))
                check(number == last.get(peer, number - 1) + 1, f"{what}: {line!r} after message {last.get(peer)}")
                last[peer] = number
    check(sorted(seen) == sorted(ranks), f"{what}: ranks {sorted(seen)} of {ranks}: {done.stdout[:300]!r}")


def written(path):
    """Returns the number of events, by the header."""
    try:
        with open(path, "rb") as file:
            data = file.read(128)
    except FileNotFoundError:
        return 0
    return int.from_bytes(data[72:80], "little") if len(data) == 128 else 0


def kill_at_work(folder):
    """False: the job has ended, and removed its files."""
    job = subprocess.Popen([MBX, "run", "-n", "2", JOB], env=environment(MBX_FLIGHT_FOLDER=folder),
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    while job.poll() is None:
        if sum(written(os.path.join(folder, name)) > 2 * SLOTS for name in os.listdir(folder)) == 2:
            break
    names = os.listdir(folder)
    for how in (signal.SIGSTOP, signal.SIGKILL):  # so that no rank sees the death of another
        for name in names:
            try:
                os.kill(int(name.split("-")[2]), how)
            except ProcessLookupError:
                pass
    job.wait()
    return len(os.listdir(folder)) == 2


def check_killed(folder):
    for _ in looks():  # this process may get no core until the job has ended
        if kill_at_work(folder):
            break
        for name in os.listdir(folder):
            os.unlink(os.path.join(folder, name))
    else:
        failures.append("killed: not once have both ranks left a file")
        return
    paths = [os.path.join(folder, name) for name in os.listdir(folder)]
    check_listing("killed", trace(*paths), [0, 1], SLOTS - 1)
    summary = trace("--summary", *paths)
    # A rank may or may not have waited in these last events; the summary has a line in either case.
    waits = re.search(r"^(rank \d waited [0-9.]+ of [0-9.]+ s|no rank waited)$", summary.stdout, re.MULTILINE)
    check(summary.returncode == 0 and waits and "longest posted" not in summary.stdout,
          f"summary: {summary.stdout!r} {summary.stderr!r}")
    page = os.path.join(folder, "page.html")
    done = trace("--html", page, *paths)
    check(done.returncode == 0 and os.path.getsize(page) > 1000, f"page: {done.stderr!r}")


def check_ended(folder):
    done = subprocess.run([MBX, "run", "-n", "1", JOB], env=environment(MBX_FLIGHT_FOLDER=folder), capture_output=True,
                          text=True, timeout=PATIENCE_S)
    check(done.returncode == 0 and done.stderr == "", f"ended: {done.stderr!r}")
    check(os.listdir(folder) == [], f"ended: {os.listdir(folder)} is left")


def check_living(folder):
    stop = os.path.join(folder, "stop")
    job = subprocess.Popen([MBX, "run", "-n", "2", SEE, "1", "50", stop], env=environment(), stdout=subprocess.PIPE, text=True)
    pids = []
    for line in job.stdout:
        if line.startswith("ready "):
            pids.append(line.split()[1])
        if len(pids) == 2:
            break
    check_listing("living", trace("--flight", *pids), [0, 1])
    check(set(pids) <= set(re.findall(r"process (\d+),", trace("--flight").stdout)), "living: not all are found")
    wrong = trace("--flight", str(os.getpid()))
    check(wrong.returncode == 1 and "keeps no events" in wrong.stderr, f"not one of a job: {wrong.stderr!r}")
    check(trace("--flight", "x").returncode == 2, "--flight x")
    if CORES and shutil.which("gcore"):
        core = os.path.join(folder, "core")
        for pid in pids:
            made = subprocess.run(["gcore", "-o", core, pid], capture_output=True, text=True, timeout=PATIENCE_S)
            check(os.path.exists(f"{core}.{pid}"), f"gcore: {made.stdout} {made.stderr}")
        check_listing("core", trace(*(f"{core}.{pid}" for pid in pids)), [0, 1])
    with open(stop + ".0", "w", encoding="ascii"):
        pass
    job.stdout.read()
    job.wait()
    wrong = trace("--flight", pids[0])
    check(wrong.returncode == 1 and "is gone" in wrong.stderr, f"gone: {wrong.stderr!r}")


def check_settings(folder):
    """Parameters without effect are reported."""
    for more, words in (({"MBX_FLIGHT": "0", "MBX_FLIGHT_FOLDER": folder}, "no effect without MBX_FLIGHT"),
                        ({"MBX_TRACE": folder}, "no effect with MBX_TRACE"),
                        ({"MBX_FLIGHT_FOLDER": folder + "/none"}, "cannot keep events (MBX_FLIGHT_FOLDER= ")):
        done = subprocess.run([MBX, "run", "-n", "1", JOB], env={**environment(), **more}, capture_output=True, text=True,
                              timeout=PATIENCE_S)
        check(words in done.stderr, f"{more}: {done.stderr!r}")
    done = subprocess.run([MBX, "run", "-n", "1", JOB], env={**environment(), "MBX_FLIGHT": "2000000"}, capture_output=True,
                          text=True, timeout=PATIENCE_S)
    check(done.returncode != 0 and "MBX_FLIGHT" in done.stderr and "1048576" in done.stderr, f"too many: {done.stderr!r}")
    core = shutil.which("true")
    done = trace(core)
    check(done.returncode == 1 and "no core file" in done.stderr, f"a program: {done.stderr!r}")


def check_large_core(folder):
    """A hole in a core file may claim to be a recording: no more of it is read than a recording can have."""
    header = trace_file.checked(struct.pack("<8s6IQQIIQ", b"MBXFLGHT", 3, 56, 0, 4711, 0, 0, 1000, 77, 2, 1, 0), 28, 0)
    event = trace_file.checked(struct.pack("<4I5Q", trace_file.CANCEL, 1, 0, 0, 7, 0, 1, 0, 5), 12, 0)
    machine = {"x86_64": 62, "aarch64": 183}.get(os.uname().machine)
    if machine is None:
        return
    hole = 1 << 30
    path = os.path.join(folder, "core")
    with open(path, "wb") as core:
        core.write(struct.pack("<4s5B7xHHIQQQIHHHHHH", b"\x7fELF", 2, 1, 1, 0, 0, 4, machine, 1, 0, 64, 0, 0, 64, 56, 1, 0, 0, 0))
        core.write(struct.pack("<IIQQQQQQ", 1, 4, 4096, 1 << 32, 0, hole, hole, 4096))
        core.seek(4096)
        core.write(header + struct.pack("<QQ48x", 8, 1) + event)
        core.truncate(4096 + hole)
    done = subprocess.run([MBX, "trace", path], capture_output=True, text=True, timeout=PATIENCE_S,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (128 << 20, 128 << 20)))
    check(done.returncode == 0 and done.stderr == "" and "the last 1 of 1 records" in done.stdout,
          f"a core file with a hole: {done.returncode} {done.stdout!r} {done.stderr!r}")


for part in (check_large_core, check_killed, check_ended, check_living, check_settings):
    with tempfile.TemporaryDirectory() as place:
        part(place)
for failure in failures:
    print("FAIL", failure)
print(f"flight_test: {len(failures)} failures")
sys.exit(len(failures) != 0)
