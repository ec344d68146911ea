#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""on_hosts.py [--any] PROGRAM [ARGUMENT...] - a behaviour test whose endpoints are on several hosts.

Five hosts that scripts/hosts/netns-hosts makes; tests/support/hosts.c puts each endpoint that PROGRAM opens on the next
one.  The exit code is PROGRAM's, but 1 if all was right and nothing went from host to host; with
--any that is 77, as for a test that has nothing to do here.  77 if hosts cannot be made here.
"""
import os
import subprocess
import sys

SELF = os.path.abspath(__file__)
HOSTS = os.path.join(os.path.dirname(SELF), "..", "..", "scripts/hosts/netns-hosts")
COUNT = 5  # a test uses four of them; prime to the number of endpoints that a test opens for each that it uses
NOTHING_TO_DO = 77
TALK = 20  # packets from a host that has made a connection, and not from one that is idle


def received():
    """The number of packets that reached the switch from each host."""
    counts = {}
    for i in range(1, COUNT + 1):
        with open(f"/sys/class/net/vh{i}/statistics/rx_packets") as file:
            counts[f"h{i}"] = int(file.read())
    return counts


def within(code_of_silence, command):
    subprocess.run(["mount", "-t", "sysfs", "sysfs", "/sys"], check=True)  # of this network
    before = received()
    status = subprocess.run(command).returncode
    packets = {host: count - before[host] for host, count in received().items()}
    print("packets of hosts:", *(f"{host} {count}" for host, count in packets.items()))
    talked = sum(count >= TALK for count in packets.values())
    if status == 0 and talked < 2:
        print("on_hosts: nothing went from host to host")
        return code_of_silence
    return 128 - status if status < 0 else status


def main(words):
    if not words or words[0] in ("-h", "--help"):
        print(__doc__.strip())
        return 0 if words else 2
    if words[0] == "--within":
        return within(int(words[1]), words[2:])
    code_of_silence = 1
    if words[0] == "--any":
        code_of_silence = NOTHING_TO_DO
        words = words[1:]
    if not words:
        sys.stderr.write("on_hosts: PROGRAM is missing\n")
        return 2
    os.execv(HOSTS, [HOSTS, "-n", str(COUNT), sys.executable, SELF, "--within", str(code_of_silence),
                     *words])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
