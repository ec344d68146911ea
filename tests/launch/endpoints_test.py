#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""endpoints_test.py MBX ENDPOINTS_PROGRAM - a further endpoint of a rank, without messages of MPI, is no rank.

In endpoints_program rank 0 answers, and rank 1 does not.  So nobody needs an answer to know which endpoint is for MPI.
"""
import json
import re
import subprocess
import sys

MBX, PROGRAM = sys.argv[1:3]


def run(*words, status=0):
    result = subprocess.run([MBX, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert result.returncode == status, f"{words}: {result}"
    return result.stdout + result.stderr


def check_queues(job):
    """Both ranks once, and the further endpoint in which something waits."""
    text = run("queues", "--job", job, "--wait", "100")
    assert "component Open MPI v4.1.4): 2 of 2 ranks on this host" in text, text
    assert re.findall(r"^rank (\d)  pid \d+  (another endpoint, without messages of MPI  )?", text, re.M) == [
        ("0", ""), ("1", "another endpoint, without messages of MPI  "), ("1", "")], text
    assert text.count(" posted ") == 3, text


def check_statistics(job):
    """With --stats also an endpoint in which nothing waits, if it has answered."""
    text = run("queues", "--job", job, "--stats", "--rank", "0")
    assert text.count("  endpoint rank=0 ") == text.count("\nrank 0 ") == 2, text


def check_json(job):
    ranks = json.loads(run("queues", "--job", job, "--json", "--wait", "100"))["jobs"][0]["ranks"]
    assert [(rank["rank"], rank["other"], len(rank["entries"])) for rank in ranks] == [(0, True, 0), (0, False, 1), (1, True, 1), (1, False, 1)], ranks


def check_top(job):
    """A row for each rank."""
    text = run("top", "--once", "--interval", "1", "--job", job)
    assert ": 2 of 2 ranks on this host, " in text, text
    assert re.findall(r"^ +(\d+)(?: +\d+ %){6}", text, re.M) == ["0", "1"], text


def check_choice(pids):
    """The list of jobs for a --job that names none has each process once."""
    text = run("top", "--once", "--job", "no-such-program", status=1)
    pattern = rf"2 ranks, pid ({pids[0]} {pids[1]}|{pids[1]} {pids[0]})$"
    assert re.search(pattern, text, re.M), text


def main():
    job = subprocess.Popen([MBX, "run", "-n", "2", PROGRAM], stdout=subprocess.PIPE, text=True)
    try:
        pids = [job.stdout.readline().split()[-1] for _ in range(2)]
        check_queues(pids[0])
        check_statistics(pids[0])
        check_json(pids[0])
        check_top(pids[0])
        check_choice(pids)
    finally:
        job.terminate()
        job.wait()
    print("endpoints_test: right")


if __name__ == "__main__":
    main()
