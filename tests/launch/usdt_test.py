#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""usdt_test.py PROGRAM LIBRARY... - the libraries have the probes for tracers that the documents list, and gdb stops at
each with its arguments.

PROGRAM posts a receive that matches, sends to itself, and receives an unexpected message (bench/self_round): so it
passes each probe.
"""
import os
import re
import shutil
import subprocess
import sys

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/hangs.md")
EXECUTED = {"expected": ["posted", "expected", "complete"], "unexpected": ["unexpected", "met", "complete"]}


def fail(text):
    sys.exit("usdt_test: " + text)


def listed():
    with open(PAGE) as file:
        return set(re.findall(r"^\| `(\w+)` \|", file.read().split("| `matchbox:`")[1].split("```")[0], re.M))


def places(path):
    text = subprocess.run(["readelf", "-n", path], stdout=subprocess.PIPE, text=True, check=True).stdout
    return set(re.findall(r"Provider: matchbox\s+Name: (\w+)", text))


def main():
    program, *libraries = sys.argv[1:]
    for library in libraries:
        if places(library) != listed():
            fail(f"{library} has {sorted(places(library))}, and the document {sorted(listed())}")
    if not shutil.which("gdb"):
        print("usdt_test: gdb is not installed: nothing stops at them")
        return
    for kind, names in EXECUTED.items():
        for name in names:
            command = ["gdb", "-nx", "-batch", "-ex", "set breakpoint pending on", "-ex", f"break -probe-stap matchbox:{name}", "-ex", "run", "-ex", "print $_probe_argc",
                       "-ex", "print $_probe_arg2", "--args", program, kind, "20"]
            text = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout
            if not re.search(r"^Breakpoint 1(?:\.\d+)?, ", text, re.M) or not re.search(r"^\$1 = 4$", text, re.M) or not re.search(r"^\$2 = \d+", text, re.M):
                fail(f"{kind}: gdb does not stop at {name}:\n{text[-1500:]}")
    print(f"usdt_test: {len(listed())} places in {len(libraries)} libraries")


if __name__ == "__main__":
    main()
