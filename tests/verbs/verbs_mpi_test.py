#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""verbs_mpi_test.py BUILD_DIR [ROUNDS] - an MPI program on two hosts, whose messages adapters match.

tests/mpi/posted_first runs unmodified over Open MPI, through the component and through libfabric and the provider, a
rank on each of two network namespaces, each of which has a software adapter of its own.  The adapters have to match 95 of
100 messages whose receives were posted first; their counters have to agree with the ranks' counts, to the message; and no
receive may have been missing (RNR).  Without MBX_DEVICE=verbs they have to match none.  Exit code 77 if hosts cannot be
made here.
"""
import os
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from patience import PATIENCE_S  # noqa: E402

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
HOSTS = os.path.join(ROOT, "scripts/hosts/netns-hosts")
NOT_HERE = 77
LEAST = 0.95


def numbers(path, pattern):
    with open(path, encoding="utf-8") as file:
        return {name: int(value) for name, value in re.findall(pattern, file.read())}


def run(build, rounds, way, **env):
    """Runs it through the component (pml) or the provider.  Returns [(the matches that rank r reported, the counters of
    its adapter)], and how many messages each rank received."""
    build = os.path.abspath(build)
    with tempfile.TemporaryDirectory(prefix="matchbox-verbs.") as folder:
        program = f"{build}/tests/mpi/posted_first"
        start = f"MBX_ADAPTER_STATS_FILE={folder}/adapter.$(hostname) exec {program} {rounds}"
        env = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", MBX_TRANSPORT="verbs",
                   MBX_VERBS_LIBRARY=f"{build}/adapter/libmbx-adapter.so", MBX_ADAPTER_INTERFACE="eth0",
                   MBX_STATS_FILE=f"{folder}/rank.%r", **env)
        done = subprocess.run([f"{build}/tools/mbx", "exec", "--through", way, HOSTS, "-n", "2", "mpiexec", "--host", "h1:1,h2:1", "-n", "2",
                               "sh", "-c", start], env=env, text=True, capture_output=True, timeout=PATIENCE_S, check=False)
        if done.returncode == NOT_HERE:
            print(done.stderr)
            sys.exit(NOT_HERE)
        posted = re.search(r"posted first: (\d+)", done.stdout)
        if done.returncode != 0 or posted is None:
            sys.exit(f"exit code {done.returncode}\n{done.stdout}{done.stderr}")
        return [(numbers(f"{folder}/rank.{r}", r"([\w-]+)=(\d+)"),
                 numbers(f"{folder}/adapter.h{r + 1}", r"(\w+)\s+(\d+)")) for r in range(2)], int(posted.group(1))


def main():
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        print(__doc__)
        return 0
    build, rounds = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "10"
    failed = 0
    for way, device in (("pml", "verbs"), ("pml", "none"), ("provider", "verbs")):
        ranks, posted = run(build, rounds, way, MBX_DEVICE=device)
        for rank, (told, adapter) in enumerate(ranks):
            matched = adapter["tm_matched_eager"] + adapter["tm_matched_rndv"]
            print(f"{way}, MBX_DEVICE={device}, rank {rank}: {matched} of {posted} messages matched by the adapter "
                  f"({adapter['tm_matched_eager']} short, {adapter['tm_matched_rndv']} read by it), {told['device_matched']} "
                  f"as the rank was told; incomplete {adapter['tm_incomplete']}, RNR {adapter['rnr_naks']}")
            is_right = matched >= LEAST * posted if device == "verbs" else matched == 0
            if not is_right or matched != told["device_matched"] or adapter["rnr_naks"] != 0:
                failed += 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
