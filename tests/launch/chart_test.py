#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""chart_test.py MBX CHART_PROGRAM [--write] - `mbx trace --chart` draws each protocol as docs/internals/charts has it.

Each story is run twice: in two processes over shared memory, and with both endpoints in one process over the
transport that the simulation uses.  Both give the same text; --write writes it, and the SVG, to docs/internals/charts.
"""
import glob
import os
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from patience import PATIENCE_S  # noqa: E402

MBX, PROGRAM = (os.path.abspath(path) for path in sys.argv[1:3])
WRITES = "--write" in sys.argv[3:]
CHARTS = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/internals/charts"))
READ = ["RNDV=read", "RTS_PAYLOAD=0"]
# name: size, when the receive is posted, parameters
STORIES = {
    "inline": (8, "posted", []),
    "short": (300, "posted", []),
    "unexpected": (8, "late", []),
    "bounce": (10000, "posted", ["EAGER_LIMIT=64K", "OVERSUBSCRIBED=no"]),
    "rndv-read": (1 << 20, "posted", READ),
    "rndv-read-late": (1 << 20, "late", READ),
    "rndv-data": (1 << 20, "posted", ["RNDV=data", "RTS_PAYLOAD=0"]),
    "rndv-write": (1 << 20, "posted", ["RNDV=write"]),
    "split_copy": (1 << 20, "posted", ["RNDV=split", "RTS_PAYLOAD=0"]),
    "deferred": (8, "posted", ["MATCH_AT=sender"]),
    "deferred-late": (8, "late", ["MATCH_AT=sender"]),
    "device": (8, "posted", ["DEVICE=soft", "MATCH=device"]),
}
failures = []


def chart(kind, folder):
    done = subprocess.run([MBX, "trace", "--chart", kind, *glob.glob(os.path.join(folder, "*.trace"))],
                          capture_output=True, text=True, timeout=PATIENCE_S)
    if done.returncode != 0 or done.stderr:
        failures.append(f"{folder}: {done.stderr}")
    # a process without a rank is named by its number
    return re.sub(r"endpoint \d+-(\d+)", r"rank \1", done.stdout)


def run(name, launcher, *more):
    size, when, params = STORIES[name]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([*launcher, PROGRAM, str(size), when, f"TRACE={folder}", *params, *more],
                              capture_output=True, text=True, timeout=PATIENCE_S)
        if done.returncode != 0:
            failures.append(f"{name}: {launcher}: {done.stderr}")
        return chart("mermaid", folder), chart("svg", folder)


def compare(name, what, got, want):
    if got != want:
        failures.append(f"{name}: {what}: got\n{got}\nwant\n{want}")


def main():
    for name in STORIES:
        text, picture = run(name, [MBX, "run", "-n", "2"])
        here = run(name, [], "TRANSPORT=loop")
        compare(name, "in one process", here[0], text)
        for suffix, got in ("mmd", text), ("svg", picture):
            path = os.path.join(CHARTS, f"{name}.{suffix}")
            if WRITES:
                os.makedirs(CHARTS, exist_ok=True)
                with open(path, "w", encoding="utf-8") as out:
                    out.write(got)
            with open(path, encoding="utf-8") as file:
                compare(name, path, got, file.read())
        compare(name, "SVG in one process", here[1], picture)
    for failure in failures:
        print("FAIL", failure)
    print(f"chart_test: {len(STORIES)} charts, {len(failures)} failures")
    return 1 if failures else 0


sys.exit(main())
