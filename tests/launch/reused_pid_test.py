#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""reused_pid_test.py MBX STUCK_PROGRAM - `mbx doctor --rounds` ends with its job, although other processes have the numbers of
its ranks by then.

The numbers are given out anew in a namespace of processes.
"""
import os
import signal
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from patience import PATIENCE_S  # noqa: E402

MBX, STUCK = (os.path.abspath(path) for path in sys.argv[1:3])
INSIDE = "MATCHBOX_REUSED_PID_INSIDE"
LAST = "/proc/sys/kernel/ns_last_pid"


def enter():
    """Runs this test in a namespace, and ends with its status."""
    command = ["unshare", *(["--user", "--map-root-user"] if os.geteuid() != 0 else []), "--pid", "--fork", "--kill-child", "--mount-proc"]
    try:
        found = subprocess.run([*command, "sh", "-c", f"echo 5000 >{LAST}"], check=False, capture_output=True).returncode
    except FileNotFoundError:
        found = 1
    if found != 0:
        print("skipped: there are no namespaces of processes here, or their numbers cannot be chosen")
        sys.exit(77)
    os.execvpe(command[0], [*command, sys.executable, *sys.argv], {**os.environ, INSIDE: "1"})


def questions(pid):
    """The number of the last question in the page of this rank (src/inspect/page.h)."""
    for name in os.listdir(f"/proc/{pid}/fd"):
        path = f"/proc/{pid}/fd/{name}"
        if os.readlink(path).startswith("/memfd:matchbox-inspect"):
            with open(path, "rb") as page:
                page.seek(320)
                return int.from_bytes(page.read(4), sys.byteorder)
    raise RuntimeError(f"process {pid} has no page")


def process_with(pid):
    """Starts a process with this number."""
    while True:
        with open(LAST, "w", encoding="ascii") as last:
            last.write(str(pid - 1))
        process = subprocess.Popen(["sleep", "infinity"])
        if process.pid == pid:
            return process
        process.kill()
        process.wait()


def main():
    job = subprocess.Popen([MBX, "run", "-n", "2", STUCK, "running_ring"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    ranks = [int(job.stdout.readline().split()[-1]) for _ in range(2)]
    asked = questions(ranks[0])
    doctor = subprocess.Popen([MBX, "doctor", "--job", str(ranks[0]), "--wait", "200", "--between", "1", "--rounds", "1000000"],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    while questions(ranks[0]) < asked + 3:
        assert doctor.poll() is None, doctor.stdout.read()
        os.sched_yield()
    doctor.send_signal(signal.SIGSTOP)
    job.terminate()
    job.stdout.read()
    job.stdout.close()
    job.wait()
    assert not any(os.path.exists(f"/proc/{pid}") for pid in ranks), "mbx run has left a rank"
    others = [process_with(pid) for pid in ranks]
    doctor.send_signal(signal.SIGCONT)
    try:
        said = doctor.communicate(timeout=PATIENCE_S)[0]
    finally:
        for process in (doctor, *others):
            process.kill()
            process.wait()
    assert doctor.returncode == 0 and "rounds: no rank was deadlocked" in said, said


if INSIDE not in os.environ:
    enter()
main()
