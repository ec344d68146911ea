#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""flood_test.py MBX FLOOD [--no-resident|--network|--verbs] [--few] - a flood costs its receiver no more than the limit.

FLOOD (bench/flood.c) checks the data and the order of the messages.  It compares the memory that the library kept,
and the growth of the receiver's resident memory, with a limit.  Here the limit is far below the size of the floods.
With --no-resident only the library's memory is checked (a sanitizer keeps memory of its own).  With --network the
test only checks that messages arrive after 70 and 1,000 others that have no receive yet, over a network of this
machine.  With --verbs it does so over the adapter of MBX_VERBS_LIBRARY, first without and then with matching in the
adapter.  With --few the floods are a third as large, and still several times the limit.
"""
import os
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from patience import PATIENCE_S  # noqa: E402

MBX, FLOOD = map(os.path.abspath, sys.argv[1:3])
NETWORK = "--network" in sys.argv[3:]
VERBS = "--verbs" in sys.argv[3:]
FEW = "--few" in sys.argv[3:]
MORE = ["--no-resident"] if NETWORK or VERBS else [word for word in sys.argv[3:] if word != "--few"]
LIMIT = 8 << 20

FLOODS = [
    # ranks, messages, sizes, orders, other variables of the environment
    (9, 2000, "0,1,100,10000", "last", {}),
    (9, 2000, "10000", "in-order", {}),
    (9, 1500, "0,1,100,10000", "any", {}),
    (9, 500, "0,100,10000", "wanted", {}),
    (4, 500, "1,100,10000", "shuffled", {"MBX_WINDOW": "1", "MBX_WINDOW_PAYLOAD": "0"}),
    (4, 200, "0,100,10000", "last-any", {"MBX_WINDOW": "0"}),
    (4, 300, "0,1,10000", "any-tag", {"MBX_WINDOW": "3", "MBX_WINDOW_PAYLOAD": "4096"}),
    # messages in bounce buffers: 2 MiB from each sender
    (9, 600, "16000,60000", "in-order", {}),
    (9, 600, "12000,60000", "shuffled", {}),
    (4, 600, "60000", "any", {}),
    (3, 600, "16000,60000", "any", {"MBX_UNEXPECTED_MEMORY": str(2 << 20)}),
]

# One more than the number of messages before the wanted one.
NETWORK_FLOODS = [
    (2, 71, "0,100,10000", "wanted", {}),
    *4 * [(3, 1001, "0,100,10000", "wanted", {})],  # tcp;ofi_rxm lost one in four of these
    (2, 201, "100", "last", {"MBX_WINDOW": "1"}),
]
OVER_VERBS = [{"MBX_TRANSPORT": "verbs"}, {"MBX_TRANSPORT": "verbs", "MBX_DEVICE": "verbs"}]
OVER_TCP = {"MBX_TRANSPORT": "ofi", "MBX_OFI_PROVIDER": "tcp;ofi_rxm"}


class Failed(Exception):
    pass


def run(ranks, messages, sizes, orders, env, more):
    if FEW:
        messages = max(messages // 3, 200)
    # messages of several packets arrive eagerly, whatever the number of cores
    env = {"MBX_UNEXPECTED_MEMORY": str(LIMIT), "MBX_OVERSUBSCRIBED": "no", **env}
    command = [MBX, "run", "--timeout", str(PATIENCE_S), "-n", str(ranks), FLOOD,
               "--messages", str(messages), "--sizes", sizes, "--orders", orders,
               "--sleep-ms", "100", "--limit", env["MBX_UNEXPECTED_MEMORY"], *more]
    done = subprocess.run(command, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=PATIENCE_S + 10, env={**os.environ, **env})
    return done.returncode, f"{env} {' '.join(command)}\nexit {done.returncode}\n{done.stdout}"


def expect(is_so, text):
    if not is_so:
        raise Failed(text)


def floods_stay_below_the_limit(floods, more_env):
    for ranks, messages, sizes, orders, env in floods:
        env = {**env, **more_env}
        code, text = run(ranks, messages, sizes, orders, env, MORE)
        expect(code == 0, text)
        expect(text.count("bench=flood ") == len(sizes.split(",")), text)
        print(text.split("\n", 2)[2], end="", flush=True)


def without_windows_the_limit_is_exceeded():
    """Checks the output that the test would have without limits."""
    env = {"MBX_WINDOW": "unlimited", "MBX_WINDOW_PAYLOAD": "unlimited"}
    code, text = run(9, 2000, "8192", "wanted", env, MORE)
    expect(code == 1 and "were kept for unexpected messages, the limit is" in text, text)


def main():
    if NETWORK:
        floods_stay_below_the_limit(NETWORK_FLOODS, OVER_TCP)
    elif VERBS:
        for more_env in OVER_VERBS:
            floods_stay_below_the_limit(NETWORK_FLOODS, more_env)
    else:
        floods_stay_below_the_limit(FLOODS, {})
        without_windows_the_limit_is_exceeded()
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failed as failure:
        print(f"flood_test: {failure}", file=sys.stderr)
        sys.exit(1)
