#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""peers_test.py - scripts/bench/peers: it continues where it stopped, names the libraries that are missing, and
marks the comparisons that Matchbox loses; scripts/bench/openmpi reports which aims are met.

usage: peers_test.py BUILD_DIR
"""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

SCRIPTS = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "scripts", "bench")
SCRIPT = os.path.join(SCRIPTS, "peers")
sys.path.insert(0, SCRIPTS)
sys.path.append(os.path.join(os.path.dirname(os.path.realpath(__file__)), "../support"))
sys.dont_write_bytecode = True
import processes  # noqa: E402
from benchlib import run_until  # noqa: E402
from patience import PATIENCE_S  # noqa: E402
from peers_ask import stopped, without_depths  # noqa: E402

BUILD = sys.argv[1]

if len(os.sched_getaffinity(0)) < 2:
    print("one core; two are needed")
    sys.exit(77)


def peers(*arguments, status=0, path=None, script=SCRIPT):
    """Returns stdout and stderr of the script."""
    env = dict(os.environ, PATH=path) if path else None
    done = subprocess.run([sys.executable, script, *arguments], stdin=subprocess.DEVNULL, text=True, env=env,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=PATIENCE_S)
    assert done.returncode == status, f"{arguments}: status {done.returncode}, not {status}:\n{done.stdout}{done.stderr}"
    return done.stdout, done.stderr


def read(folder, name):
    with open(os.path.join(folder, name), encoding="utf-8") as file:
        return file.read()


def figures(lines):
    return [line for line in lines.splitlines() if line.startswith("round=") and "skipped=" not in line]


def goes_on(folder):
    """Continues with another question; then nothing is left to measure."""
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


def waits_for_its_cores(folder):
    """The cores are far, become near, and have moved after the first run: the script waits, and measures again."""
    build, out = os.path.join(folder, "build"), os.path.join(folder, "out")
    os.makedirs(os.path.join(build, "bench"))
    for name in ("tools", "bench/match"):
        os.symlink(os.path.abspath(os.path.join(BUILD, name)), os.path.join(build, name))
    with open(os.path.join(folder, "cores"), "w", encoding="utf-8") as file:
        file.writelines(f"distance={word} line_ns=30.0\n" for word in ["far", "cache", "cache", "far"] + ["cache"] * 100)
    with open(os.path.join(build, "bench", "distance"), "w", encoding="utf-8") as file:
        file.write(f"#!/bin/sh\ncd '{folder}' && head -n 1 cores && sed -i 1d cores\n")
        os.fchmod(file.fileno(), 0o755)
    asked = ["--quick", "--who", "native", "--only", "receive,start", "--out", out]
    _, said = peers(*asked, "--cores", "near", build)
    assert said.count("the cores were not near all the time; again") == 1, said
    lines = [dict(word.split("=", 1) for word in line.split()) for line in figures(read(out, "lines.txt"))]
    assert {line["question"] for line in lines} == {"receive"}, "start does not tell near from far"
    first = [line["cores"] for line in lines if line["group"] == lines[0]["group"]]
    assert first == ["moved"] * (len(first) // 2) + ["near"] * (len(first) // 2), first
    assert "moved" not in read(out, "report.md"), read(out, "report.md")
    _, said = peers(*asked, "--cores", "far", "--resume", build, status=2)
    assert "only_cores=near" in said, said


def refuses_another_commit(folder):
    path = os.path.join(folder, "lines.txt")
    text = re.sub(r"commit=\S+", "commit=0123456789ab", read(folder, "lines.txt"))
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    _, said = peers("--quick", "--only", "receive", "--who", "native", "--out", folder, "--resume", BUILD, status=2)
    assert "commit=0123456789ab" in said, said


def names_who_is_missing(folder):
    """PATH has only taskset: no other library is installed."""
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


def is_interrupted(folder):
    """Interrupts the script at its first line: its measurements are kept, and no process stays."""
    mark = f"PEERS_TEST={os.getpid()}"
    with processes.started([sys.executable, SCRIPT, "--quick", "--only", "receive", "--who", "native", "--rounds", "1000",
                            "--out", folder, BUILD], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                           text=True, env=dict(os.environ, PEERS_TEST=str(os.getpid()))) as process:
        for line in process.stdout:
            if line.startswith("round="):
                break
        assert processes.marked(mark)
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130 and "--resume" in said, said
    assert "Traceback" not in said, said
    assert figures(read(folder, "lines.txt"))
    until = time.monotonic() + PATIENCE_S
    while processes.marked(mark):  # a killed process needs a core to end
        assert time.monotonic() < until, "a process of the run is left"
        time.sleep(0.1)


LINES = """about=machine cpu=none cores=2
round=1 question=latency group=g who=ob1 cores=near line_ns=30.0,30.0 size=8 half_rtt_median_ns=100.0 half_rtt_min_ns=90.0
round=1 question=latency group=g who=ucx cores=near line_ns=30.0,30.0 size=8 half_rtt_median_ns=400.0 half_rtt_min_ns=90.0
round=1 question=latency group=g who=component cores=near line_ns=30.0,30.0 size=8 half_rtt_median_ns=140.0 half_rtt_min_ns=90.0
round=2 question=latency group=g who=component cores=near line_ns=30.0,30.0 size=8 half_rtt_median_ns=777.0 half_rtt_min_ns=7.0
round=2 question=latency group=g who=component cores=near line_ns=30.0,30.0 size=8 half_rtt_median_ns=160.0 half_rtt_min_ns=80.0
round=1 question=latency group=g who=perftest cores=far line_ns=200.0,200.0 size=8 half_rtt_median_ns=7.0
round=1 question=latency group=g who=component cores=far line_ns=200.0,200.0 size=8 distance=far batches=9 half_rtt_median_ns=999.0 half_rtt_min_ns=99.0
round=1 question=latency group=g who=native cores=near line_ns=30.0,30.0 size=8 half_rtt_median_ns=7.0 half_rtt_min_ns=7.0 line_median_ns=156.0
round=1 question=rate group=g who=ob1 cores=near line_ns=30.0,30.0 size=8 median_messages_per_s=3000000 max_messages_per_s=4000000
round=1 question=rate group=g who=component cores=near line_ns=30.0,30.0 size=8 median_messages_per_s=6000000 max_messages_per_s=6000000
round=1 question=rate group=g who=provider cores=near line_ns=30.0,30.0 size=8 median_messages_per_s=1500000 max_messages_per_s=9000000
round=1 question=types group=g who=component skipped=failed why=it_fell
"""


def marks_what_is_lost(folder):
    """150 instead of 100 ns is a loss by 1.5; twice the rate is no loss, and half of it is a loss by 2; far and near
    are separate.  A repeated measurement in a round counts once, and one whose cores moved between two looks, or
    may have, not at all."""
    os.makedirs(folder)
    with open(os.path.join(folder, "lines.txt"), "w", encoding="utf-8") as file:
        file.write(LINES)
    peers("--report", folder)
    rows = [line for line in read(folder, "report.md").splitlines() if line.startswith("| 8 B |")]
    assert rows == ["| 8 B | 150 ns (80 ns) **lost 1.50** | 100 ns (90 ns) | 400 ns (90 ns) |", "| 8 B | 999 ns (99 ns) |",
                    "| 8 B | 6 M/s | 1.5 M/s (9 M/s) **lost 2.00** | 3 M/s (4 M/s) |"], rows
    lost = re.findall(r"^\| (Latency|Message rate).*? \| (\d of \d) \| (.*) \|$", read(folder, "report.md"), re.MULTILINE)
    assert lost == [("Latency", "1 of 1", "1.50 x Open MPI ob1: short messages, 8 B"),
                    ("Message rate", "0 of 1", "-"), ("Message rate", "1 of 1", "2.00 x Open MPI ob1: 8 B")], lost


NEAR = "cores=near line_ns=30.0,30.0"
AIMED = f"""about=machine cpu=none cores=2
round=1 question=short group=g who=ob1 {NEAR} size=8 half_rtt_median_ns=100.0 half_rtt_min_ns=90.0
round=1 question=short group=g who=component {NEAR} size=8 half_rtt_median_ns=90.0 half_rtt_min_ns=80.0
round=1 question=short group=g who=ob1 {NEAR} size=16 half_rtt_median_ns=100.0 half_rtt_min_ns=90.0
round=1 question=short group=g who=ucx {NEAR} size=16 half_rtt_median_ns=99.0 half_rtt_min_ns=90.0
round=1 question=short group=g who=component {NEAR} size=16 half_rtt_median_ns=95.0 half_rtt_min_ns=80.0
round=1 question=rate group=g who=ob1 {NEAR} size=0 median_messages_per_s=8000000 max_messages_per_s=9000000
round=1 question=rate group=g who=component {NEAR} size=0 median_messages_per_s=7000000 max_messages_per_s=9000000
round=1 question=posted group=g who=component {NEAR} depth=4 receives=exact median_ns=50.0 min_ns=40.0
round=1 question=posted group=g who=component {NEAR} depth=16 receives=exact median_ns=50.0 min_ns=40.0
round=1 question=posted group=g who=ob1 {NEAR} depth=4 receives=exact median_ns=60.0 min_ns=40.0
round=1 question=posted group=g who=ob1 mode=expected receives=exact depth=16 skipped=too_slow why=stopped_after_6_s
"""


def says_which_aims_are_met(folder):
    """0.90 of ob1 meets the aim, 0.96 of ucx and 0.88 of the rate do not; a benchmark that was stopped was slower."""
    os.makedirs(folder)
    with open(os.path.join(folder, "lines.txt"), "w", encoding="utf-8") as file:
        file.write(AIMED)
    peers("--report", folder, script=os.path.join(SCRIPTS, "openmpi"))
    found = [dict(word.split("=", 1) for word in line.split()) for line in read(folder, "aims.txt").splitlines()]
    verdicts = [(line["aim"], line.get("size", line.get("depth")), line.get("ratio"), line["met"]) for line in found]
    assert verdicts == [("short", "8", "0.900", "yes"), ("short", "16", "0.960", "no"), ("rate", "0", "0.875", "no"),
                        ("posted", "4", "0.833", "yes"), ("posted", "16", None, "yes")], verdicts
    assert [line["met_by_bests"] for line in found] == ["yes", "yes", "yes", "yes", "yes"], found
    report = read(folder, "report.md")
    assert "| **missed** | 1 of 2 | 2 of 2 |" in report and "| met | 2 of 2 | 2 of 2 |" in report, report
    row = next(line for line in report.splitlines() if line.startswith("| 16 | 50"))
    assert "stopped after 6 s" in row and row.endswith("| - met |"), row


def keeps_what_was_said_in_time():
    """A program that does not end is stopped, and its complete lines are kept."""
    lines, has_ended = run_until("peers_test", ["sh", "-c", "echo depth=1; printf depth=16; exec tail -f /dev/null"], 5)
    assert (lines, has_ended) == (["depth=1"], False), (lines, has_ended)
    assert run_until("peers_test", ["echo", "depth=1"], 60) == (["depth=1"], True)


def leaves_out_what_was_stopped():
    lines = list(stopped([16, 64], 6))
    assert [line["why"] for line in lines] == ["stopped_after_6_s", "not_tried,_since_16_was_stopped_after_6_s"], lines
    group = ("there", 0, [4, 16, 64], 0.1, 6)
    assert without_depths(group, {16, 64}) == ("there", 0, [4], 0.1, 6)
    assert without_depths(group, {4, 16, 64}) is None


def refuses_nonsense():
    for arguments, word in ((["--only", "latensy"], "latensy"), (["--who", "nobody"], "nobody"), (["--rounds", "0"], "'0'"),
                            (["--for", "soon"], "'soon'"), (["--short", "--quick"], "not both"), (["a", "b"], "'b'"),
                            (["--resume", "--again"], "not both"), (["/nowhere"], "/nowhere"),
                            (["--cores", "near,far"], "'near,far'"),
                            (["--cores", "far", "--only", "start"], "one table for all cores")):
        _, said = peers(*arguments, status=2)
        assert word in said, f"{arguments}: {said}"
    _, said = peers("--only", "crowd", status=2, script=os.path.join(SCRIPTS, "openmpi"))
    assert "bench-openmpi: --only: there is no 'crowd'; there are: short long" in said, said


with tempfile.TemporaryDirectory() as place:
    refuses_nonsense()
    marks_what_is_lost(os.path.join(place, "report"))
    says_which_aims_are_met(os.path.join(place, "aims"))
    keeps_what_was_said_in_time()
    leaves_out_what_was_stopped()
    goes_on(os.path.join(place, "pieces"))
    stops_by_its_clock(os.path.join(place, "clock"))
    waits_for_its_cores(os.path.join(place, "cores"))
    refuses_another_commit(os.path.join(place, "pieces"))
    names_who_is_missing(os.path.join(place, "missing"))
    is_interrupted(os.path.join(place, "interrupted"))
print("peers: ok")
