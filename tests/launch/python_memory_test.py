#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""python_memory_test.py MBX HOSTILE_PYTHON [KIND...] - `mbx doctor` reads the structures of Python in a process that has made them up.

It ends, gives the line where the structures are right, and otherwise the reason why there is none.
"""
import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from looks import looks  # noqa: E402

MBX, PROGRAM = (os.path.abspath(path) for path in sys.argv[1:3])
LINE = " at solve.py:7 in exchange"
DAMAGED = "the memory of the process is not as this version of Python has it"
UNREADABLE = "the memory of the process cannot be read"
# kind: the line, or the reason why there is none
KINDS = {
    "right": LINE,
    "garbage": UNREADABLE,
    "table": (UNREADABLE, DAMAGED, "the thread that calls MPI runs no function of Python"),
    "large_table": "version 3.13.1 has another table of offsets than is known",
    "no_table": "version 3.14.0 has another table of offsets than is known",
    "no_lock": "version 3.14.0 is built without its global lock",
    "unknown": "version 3.15.0 is unknown",
    "unreleased": "version 3.14.0 (before its release) is unknown",
    "old": "a version before 3.11 is unknown",
    "nonsense": "is unknown",
    "another_number": "the thread that calls MPI runs no function of Python",
    "twice": "the thread that calls MPI occurs twice",
    "threads_in_a_ring": DAMAGED,
    "interpreters_in_a_ring": DAMAGED,
    "frames_in_a_ring": LINE,
    "no_frame": "the thread that calls MPI runs no function of Python",
    "frame_nowhere": UNREADABLE,
    "long_name": DAMAGED,
    "no_kind": DAMAGED,
    "long_lines": DAMAGED,
    "lines_without_an_end": DAMAGED,
    "numbers_without_an_end": (DAMAGED, " at solve.py:"),
    "before_the_function": DAMAGED,
    "after_the_function": DAMAGED,
    "commands": " at ?[2J",
    "restless": "its program has gone on meanwhile",
}
RANK = re.compile(r"^rank 0 \(pid \d+\) is in mbx_wait(.*)$", re.M)


def judged(pid, kind):
    """Returns the report of the doctor, once it judges the rank.  A restless process may stand still while it is read."""
    for _ in looks():
        done = subprocess.run([MBX, "doctor", "--verbose", "--job", str(pid)], capture_output=True, check=False)
        text = done.stdout.decode("utf-8")  # or an exception
        # the line of the C program, if it has debug information
        text = re.sub(r" at hostile_python\.c:\d+", "", text.replace(", from ", " at "))
        if done.returncode == 3 and (kind != "restless" or (KINDS[kind] in text and LINE not in text)):
            return text
    raise AssertionError(f"process {pid} is not judged: {done}")


def check(kind):
    expected = KINDS[kind]
    job = subprocess.Popen([MBX, "run", "-n", "1", PROGRAM, kind], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        text = judged(int(job.stdout.readline().split()[-1]), kind)
    finally:
        job.terminate()
        job.wait()
        job.stdout.close()
    shown = RANK.search(text)[1]
    reason = re.search(r"^rank 0 \(pid \d+\): no Python line: (.*)$", text, re.M)
    said = reason[1] if reason else shown
    assert any(words in said for words in ((expected,) if isinstance(expected, str) else expected)), f"{kind}: {text}"
    assert (reason is None) == shown.startswith(" at "), f"{kind}: {text}"
    assert re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text) is None, f"{kind}: {text!r}"
    if kind == "commands":
        assert "äλ" in shown, text


for kind in sys.argv[3:] or KINDS:
    check(kind)
    print(kind, flush=True)
