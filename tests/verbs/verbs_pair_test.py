#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""verbs_pair_test.py PROGRAM - two processes that know nothing of each other but a TCP port exchange messages.

PROGRAM is verbs_pair, and MBX_VERBS_LIBRARY the software adapter; with its matching, and without.  With it also
where one of the two is stopped while messages come.
"""
import os
import random
import re
import socket
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from patience import PATIENCE_S  # noqa: E402


def free_port():
    """A port that the system does not hand out by itself."""
    while True:
        port = random.randrange(16384, 32768)
        with socket.socket() as held:
            try:
                held.bind(("", port))
                return str(port)
            except OSError:
                pass


def pair(program, *stop, **settings):
    """How many messages the device of each of the two has matched."""
    port = free_port()
    env = dict(os.environ, MBX_TRANSPORT="verbs", MBX_KEY="00112233445566778899aabbccddeeff", **settings)
    both = [subprocess.Popen([program, *words], env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            for words in (["listen", port, *stop], ["connect", "127.0.0.1", port, *stop])]
    said = [process.communicate(timeout=PATIENCE_S)[0] for process in both]
    found = [re.search(r"all right; matched by a device: (\d+)", text) for text in said]
    if any(process.returncode for process in both) or None in found:
        sys.exit("\n".join(said))
    return [int(match.group(1)) for match in found]


def main():
    if len(sys.argv) != 2 or sys.argv[1] in ("-h", "--help"):
        print(__doc__)
        return 0
    plain = pair(sys.argv[1])
    matched = pair(sys.argv[1], MBX_DEVICE="verbs", MBX_MATCH="device")
    stopped = pair(sys.argv[1], "stop", MBX_DEVICE="verbs", MBX_MATCH="device", MBX_VERBS_WINDOW="64")
    print(f"matched by the adapter: {plain} without MBX_DEVICE=verbs, {matched} with it, {stopped} for a stopped process")
    return 0 if plain == [0, 0] and min(matched) > 0 and stopped[0] >= 24 else 1


if __name__ == "__main__":
    sys.exit(main())
