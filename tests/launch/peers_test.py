#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""peers_test.py - scripts/bench/peers: it goes on where it stopped, names who is missing, and marks what is lost.

usage: peers_test.py BUILD_DIR
"""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

SCRIPT = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "scripts", "bench", "peers")
BUILD = sys.argv[1]
LIMIT_S = 200

if len(os.sched_getaffinity(0)) < 2:
    print("one core; two are needed")
    sys.exit(77)


def peers(*arguments, status=0, path=None):
    """What it has said, on stdout and on stderr."""
    env = dict(os.environ, PATH=path) if path else None
    done = subprocess.run([sys.executable, SCRIPT, *arguments], stdin=subprocess.DEVNULL, text=True, env=env,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=LIMIT_S)
    assert done.returncode == status, f"{arguments}: status {done.returncode}, not {status}:\n{done.stdout}{done.stderr}"
    return done.stdout, done.stderr


def read(folder, name):
    with open(os.path.join(folder, name), encoding="utf-8") as file:
        return file.read()


def figures(lines):
    return [line for line in lines.splitlines() if line.startswith("round=") and "skipped=" not in line]


def goes_on(folder):
    """With one question after another; then there is nothing left."""
    alone = ["--quick", "--who", "native", "--out", folder, BUILD]
    both = [*alone, "--only", "receive,posted"]
    peers(*alone, "--only", "receive")
    before = figures(read(folder, "lines.txt"))
    assert before and all("question=receive" in line for line in before), before
    _, said = peers(*both, status=2)
    assert "--resume" in said and "--again" in said, said
    out, _ = peers(*both, "--resume")
    assert figures(out) and all("question=posted" in line for line in figures(out)), out
    whole = read(folder, "lines.txt")
    assert figures(whole)[:len(before)] == before, "what was there is gone"
    out, _ = peers(*both, "--resume")
    assert not figures(out), f"measured again: {out}"
    report = read(folder, "report.md")
    assert "**One receive" in report and "**One message" in report, report
    peers(*both, "--again")
    assert not set(before) & set(figures(read(folder, "lines.txt")))


def stops_by_its_clock(folder):
    _, said = peers("--quick", "--only", "receive", "--who", "native", "--rounds", "5000", "--for", "1", "--out", folder,
                    BUILD, status=3)
    assert "of 10000 runs are there; --resume goes on" in said, said
    assert figures(read(folder, "lines.txt"))


def refuses_another_commit(folder):
    path = os.path.join(folder, "lines.txt")
    text = re.sub(r"commit=\S+", "commit=0123456789ab", read(folder, "lines.txt"))
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    _, said = peers("--quick", "--only", "receive", "--who", "native", "--out", folder, "--resume", BUILD, status=2)
    assert "commit=0123456789ab" in said, said


def names_who_is_missing(folder):
    """A path with taskset alone: nobody else is installed."""
    tools = os.path.join(folder, "tools")
    os.makedirs(tools)
    os.symlink(shutil.which("taskset"), os.path.join(tools, "taskset"))
    _, said = peers("--quick", "--only", "start", "--who", "native,ob1,mpich,perftest,fi-shm", "--out", folder, BUILD,
                    path=tools)
    for package in ("openmpi-bin libopenmpi-dev", "mpich libmpich-dev", "ucx-utils", "libfabric-bin"):
        assert f"apt-get install {package}" in said, f"{package}: {said}"
    assert figures(read(folder, "lines.txt")), "nobody was measured"
    _, said = peers("--quick", "--only", "start", "--who", "ob1", "--again", "--out", folder, BUILD, path=tools,
                    status=2)
    assert "nobody is left" in said, said


def of_run(mark):
    """Processes that have this word in their environment."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                if mark.encode() in file.read():
                    found.append(name)
        except OSError:  # it has ended, or is another user's
            pass
    return found


def is_interrupted(folder):
    """At its first line; what was measured is kept, and no process stays."""
    mark = f"PEERS_TEST={os.getpid()}"
    process = subprocess.Popen([sys.executable, SCRIPT, "--quick", "--only", "receive", "--who", "native", "--rounds",
                                "1000", "--out", folder, BUILD], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, start_new_session=True,
                               env=dict(os.environ, PEERS_TEST=str(os.getpid())))
    for line in process.stdout:
        if line.startswith("round="):
            break
    assert of_run(mark)
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 130 and "--resume" in said, said
    assert "Traceback" not in said, said
    assert figures(read(folder, "lines.txt"))
    assert not of_run(mark), "a process of the run is left"


LINES = """about=machine cpu=none cores=2
round=1 question=latency group=g who=ob1 cores=near line_ns=30.0,30.0 size=8 half_rtt_median_ns=100.0 half_rtt_min_ns=90.0
round=1 question=latency group=g who=ucx cores=near line_ns=30.0,30.0 size=8 half_rtt_median_ns=400.0 half_rtt_min_ns=90.0
round=1 question=latency group=g who=component cores=near line_ns=30.0,30.0 size=8 half_rtt_median_ns=140.0 half_rtt_min_ns=90.0
round=2 question=latency group=g who=component cores=near line_ns=30.0,30.0 size=8 half_rtt_median_ns=160.0 half_rtt_min_ns=80.0
round=1 question=latency group=g who=component cores=far line_ns=200.0,200.0 size=8 half_rtt_median_ns=999.0 half_rtt_min_ns=99.0
round=1 question=rate group=g who=ob1 cores=near line_ns=30.0,30.0 size=8 median_messages_per_s=3000000 max_messages_per_s=4000000
round=1 question=rate group=g who=component cores=near line_ns=30.0,30.0 size=8 median_messages_per_s=6000000 max_messages_per_s=6000000
round=1 question=rate group=g who=provider cores=near line_ns=30.0,30.0 size=8 median_messages_per_s=1500000 max_messages_per_s=9000000
round=1 question=types group=g who=component skipped=failed why=it_fell
"""


def marks_what_is_lost(folder):
    """150 of 100 ns is lost by 1.5; twice the rate is not, and half of it is by 2; far is apart from near."""
    os.makedirs(folder)
    with open(os.path.join(folder, "lines.txt"), "w", encoding="utf-8") as file:
        file.write(LINES)
    peers("--report", folder)
    rows = [line for line in read(folder, "report.md").splitlines() if line.startswith("| 8 B |")]
    assert rows == ["| 8 B | 150 ns (80 ns) **lost 1.50** | 100 ns (90 ns) | 400 ns (90 ns) |", "| 8 B | 999 ns (99 ns) |",
                    "| 8 B | 6 M/s | 1.5 M/s (9 M/s) **lost 2.00** | 3 M/s (4 M/s) |"], rows
    lost = re.findall(r"^\| (.*?): .* \| (\d of \d) \| (.*) \|$", read(folder, "report.md"), re.MULTILINE)
    assert lost == [("Half a round trip", "1 of 1", "1.50 of Open MPI ob1: short messages, 8 B"),
                    ("Message rate", "0 of 1", "-"), ("Message rate", "1 of 1", "2.00 of Open MPI ob1: 8 B")], lost


def refuses_nonsense():
    for arguments, word in ((["--only", "latensy"], "latensy"), (["--who", "nobody"], "nobody"), (["--rounds", "0"], "'0'"),
                            (["--for", "soon"], "'soon'"), (["--short", "--quick"], "not both"), (["a", "b"], "'b'"),
                            (["--resume", "--again"], "not both"), (["/nowhere"], "/nowhere")):
        _, said = peers(*arguments, status=2)
        assert word in said, f"{arguments}: {said}"


with tempfile.TemporaryDirectory() as place:
    refuses_nonsense()
    marks_what_is_lost(os.path.join(place, "report"))
    goes_on(os.path.join(place, "pieces"))
    stops_by_its_clock(os.path.join(place, "clock"))
    refuses_another_commit(os.path.join(place, "pieces"))
    names_who_is_missing(os.path.join(place, "missing"))
    is_interrupted(os.path.join(place, "interrupted"))
print("peers: ok")
