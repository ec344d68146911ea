#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""kill_test.py BUILD_DIR [NAME...] - what remains of a job when something of it is killed.

A job runs until SIGKILL hits its launcher, one rank, all ranks or a matching device of its own; who
is not hit hears of it and ends.  The ranks have pages for observers, and keep their last events in memory (MBX_FLIGHT).  Then nothing may be left: no process, nothing of ours in
/dev/shm and in the folder for temporary files, no socket with a name of ours.  (What a process
publishes for clients of libfabric does remain; provider_address_test has that.)

It all happens in namespaces that scripts/hosts/netns-hosts makes, so what is there is the job's.  Exit
code 77 if they cannot be made here.
"""
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
import processes  # noqa: E402
from patience import PATIENCE_S  # noqa: E402

SELF = os.path.abspath(__file__)
HOSTS = os.path.join(os.path.dirname(SELF), "..", "..", "scripts/hosts/netns-hosts")
INSIDE = "--inside"
NOT_HERE = 77
BUILD = ""


class Failed(Exception):
    pass


class NotHere(Exception):
    pass


def path(name):
    return os.path.join(BUILD, name)


# ---- processes and objects that exist -------------------------------------------------------------


def here():
    """Returns {pid: name} of the processes here that are not dead, without this test and the ones that were here before
    it."""
    seen = {pid: processes.fields(pid) for pid in processes.numbers() if pid not in before}
    return {pid: one[0] for pid, one in seen.items() if one and (one[1][0] not in "ZX" or has_threads(pid))}


def has_threads(pid):
    """A process whose first thread is dead keeps its files until the last one is."""
    try:
        return len(os.listdir(f"/proc/{pid}/task")) > 1
    except OSError:
        return False


def named(name):
    return [pid for pid, what in here().items() if what == name[:15]]


def is_at_work(pid):
    """Does the process have a page for observers, and keep its last events?"""
    maps = processes.read(pid, "maps")
    return b"memfd:matchbox-inspect" in maps and b"memfd:matchbox-flight" in maps


def is_looking(pid):
    """Does the process have the page of a rank open?"""
    try:
        return any("memfd:matchbox-inspect" in os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return False


def left():
    """Returns our names of files and sockets here."""
    names = [name for name in os.listdir("/dev/shm") if re.search("mbx|matchbox", name)]
    names += [name for name in os.listdir(tempfile.gettempdir()) if re.search("mbx|matchbox", name)]
    with open("/proc/net/unix", encoding="utf-8") as file:
        names += [line.split()[-1] for line in file if re.search("mbx|matchbox", line)]
    return names


def until(condition, what):
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            raise Failed(f"{what}: not within {PATIENCE_S} s; here are {here()}")
        time.sleep(0.02)


# ---- jobs --------------------------------------------------------------------------------------

RANKS = 3
FLIGHT = {"MBX_FLIGHT": "4096"}
DEVICE = {"MBX_DEVICE": "soft-process", "MBX_MATCH": "device"}


class Job:
    """A job that would run for long, once it is at work. name is the name of its ranks; devices is the number of its
    devices."""

    def __init__(self, words, name, devices=0, env=None):
        self.name = name
        self.output = tempfile.TemporaryFile()
        self.launcher = subprocess.Popen(
            words, env={**os.environ, **FLIGHT, **(env or {})}, stdin=subprocess.DEVNULL, stdout=self.output,
            stderr=subprocess.STDOUT)
        until(lambda: self.is_complete(devices) or self.launcher.poll() is not None,
              "the job starts")
        if self.launcher.poll() is not None:
            raise Failed(f"the job ended with {self.launcher.returncode}: {self.said()}")

    def is_complete(self, devices):
        ranks = [pid for pid in self.ranks() if is_at_work(pid)]
        return len(ranks) == RANKS and len(named("matchbox-device")) >= devices

    def ranks(self):
        return sorted(named(self.name))

    def said(self):
        self.output.seek(0)
        return self.output.read().decode(errors="replace")

    def expect_end(self, what):
        until(lambda: not here() or set(here()) == {self.launcher.pid}, what)
        until(lambda: self.launcher.poll() is not None, what)
        remains = left()
        if remains:
            raise Failed(f"{what}: {' '.join(remains)} remains\n{self.said()}")
        if self.launcher.returncode == 0:
            raise Failed(f"{what}: the launcher says that all was well\n{self.said()}")


def native(**env):
    # exchanges messages, as often as necessary
    words = [path("tools/mbx"), "run", "-n", str(RANKS), path("tests/support/spread_program")]
    return Job(words + ["messages"] * 10000, "spread_program", RANKS if env else 0,
               env)


def mpi():
    if not os.path.exists(path("tests/mpi/app_amr")):
        raise NotHere("built without MPI")
    words = [path("tools/mbx"), "exec", "mpiexec", "--oversubscribe", "-n", str(RANKS),
             path("tests/mpi/app_amr"), "--steps", "1000000"]
    return Job(words, "app_amr")


def kill(pids):
    """Kills all of them; the end of the first may already have ended others."""
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def test_native_launcher():
    job = native(**DEVICE)
    kill([job.launcher.pid])
    job.expect_end("the launcher is killed")


def test_native_rank():
    job = native(**DEVICE)
    kill(job.ranks()[1:2])
    job.expect_end("a rank is killed")


def test_native_ranks():
    job = native(**DEVICE)
    kill(job.ranks())
    job.expect_end("all ranks are killed")


def test_native_observer():
    """One observer is killed while it looks; then the ranks are killed while another looks."""
    job = native()
    ranks = job.ranks()
    observers = [subprocess.Popen([path("tools/mbx"), "doctor", "--between", "1", "--rounds", "1000000"], stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL) for _ in range(2)]
    until(lambda: all(is_looking(observer.pid) or observer.poll() is not None for observer in observers), "the observers look")
    if any(observer.poll() is not None for observer in observers):
        raise Failed("an observer ends while the job runs")
    observers[0].kill()
    observers[0].wait()
    # a rank that has just ended one round has no page until it begins the next
    until(lambda: job.is_complete(0) or job.ranks() != ranks, "the ranks go on without the observer")
    if job.ranks() != ranks:
        raise Failed(f"an observer is killed, and a rank ends: {job.said()}")
    kill(job.ranks())
    observers[1].wait()
    job.expect_end("all ranks are killed while an observer looks")


def test_native_device():
    """The ranks continue without their devices, so the launcher is killed as well."""
    job = native(**DEVICE)
    kill(named("matchbox-device"))
    kill([job.launcher.pid])
    job.expect_end("the devices are killed")


def test_mpi_launcher():
    job = mpi()
    kill([job.launcher.pid])
    job.expect_end("the launcher is killed")


def test_mpi_rank():
    job = mpi()
    kill(job.ranks()[1:2])
    job.expect_end("a rank is killed")


def test_mpi_ranks():
    job = mpi()
    kill(job.ranks())
    job.expect_end("all ranks are killed")


# ---- the tests ---------------------------------------------------------------------------------

before = set()


def run(names):
    ran = 0
    before.update(processes.numbers())
    for name in names:
        start = time.monotonic()
        try:
            globals()[f"test_{name}"]()
        except NotHere as reason:
            print(f"{name}: left out, {reason}", flush=True)
            continue
        ran += 1
        print(f"{name}: {time.monotonic() - start:.1f} s", flush=True)
    return 0 if ran else NOT_HERE


def main(args):
    global BUILD
    inside = args[:1] == [INSIDE]
    args = args[1:] if inside else args
    tests = [name[len("test_"):] for name in globals() if name.startswith("test_")]
    wrong = [name for name in args[1:] if name not in tests]
    if args[:1] in (["-h"], ["--help"]):
        print(__doc__.strip(), "\n\nNAME is one of: " + " ".join(tests), sep="")
        return 0
    if not args or wrong or not os.access(os.path.join(args[0], "tools/mbx"), os.X_OK):
        print(f"kill_test: wrong argument '{(wrong or args or [''])[0]}'; --help says what there is",
              file=sys.stderr)
        return 2
    BUILD = os.path.abspath(args[0])
    if inside:
        return run(args[1:] or tests)
    with tempfile.TemporaryDirectory(prefix="kill-test.") as folder:
        return subprocess.run([HOSTS, "-n", "1", SELF, INSIDE, *args],
                              env={**os.environ, "TMPDIR": folder}).returncode


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except Failed as failure:
        print(f"kill_test: {failure}", file=sys.stderr)
        sys.exit(1)
