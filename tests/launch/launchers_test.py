#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""launchers_test.py MBX [NAME...] - what `mbx queues` does with the launchers that it starts; all start mbx on this host.

No job is needed: a host on which no rank is seen has answered, too.
"""
import argparse
import os
import shlex
import subprocess
import sys

LOOKS = 200  # until what must be seen is seen


class Failed(Exception):
    pass


def expect(condition, what, text=""):
    if not condition:
        raise Failed(f"{what}\n{text}")


def shell(script):
    """A launcher: the script, with mbx and what it is told as "$@"."""
    return shlex.join(["sh", "-c", script, "sh"])


def children(pid, state):
    """How many children of the process are in that state."""
    count = 0
    for name in os.listdir("/proc"):
        try:
            with open(f"/proc/{name}/stat") as file:
                fields = file.read().rpartition(")")[2].split()
        except OSError:
            continue
        count += fields[0] == state and int(fields[1]) == pid
    return count


def test_orphans(args):
    """A process that each launcher leaves behind, and that has ended, is reaped."""
    with subprocess.Popen([args.mbx, "queues", "--job", "1", "--watch", "0", "--launch", shell('(true &); exec "$@"')], stdin=subprocess.DEVNULL,
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as mbx:
        counts = []
        try:
            for look in range(LOOKS):
                line = mbx.stderr.readline()
                expect("no such rank" in line, "a look", line)
                counts.append(children(mbx.pid, "Z"))
                if look > 9 and counts[-1] < 2:
                    return
        finally:
            mbx.terminate()
        raise Failed(f"there are always more processes that have ended: {counts}")


TESTS = {name[5:]: test for name, test in list(globals().items()) if name.startswith("test_")}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mbx", type=os.path.abspath)
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    failed = []
    for name in args.names or TESTS:
        try:
            TESTS[name](args)
            print(f"{name}: right", flush=True)
        except Failed as why:
            print(f"{name}: {why}", flush=True)
            failed.append(name)
    print(f"launchers_test: {len(failed)} wrong {failed}")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
