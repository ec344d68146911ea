#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""perftest_test.py BUILD - UCX's own benchmark, ucx_perftest, runs over Matchbox, with two processes.

Each test must end, and the statistics of each process must show that Matchbox has carried its messages.  Its times mean nothing
here.  Status 77 where it is not installed.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
from patience import PATIENCE_S  # noqa: E402
from ports import free_port  # noqa: E402

COUNT = 300
# Sizes, lists of parts, outstanding sends, threads, and a client that sleeps instead of polling.
TESTS = [["tag_lat"], ["tag_lat", "-s", "100000"], ["tag_lat", "-s", "16,48,8192,8192,14", "-D", "iov,iov"], ["tag_lat", "-E", "sleep"],
         ["tag_lat", "-U"], ["tag_lat", "-T", "2", "-M", "multi"], ["tag_bw"], ["tag_bw", "-s", "1000000", "-O", "4"], ["tag_sync_lat"],
         ["tag_sync_bw"], ["ucp_am_lat"], ["ucp_am_lat", "-H", "100"], ["ucp_am_lat", "-E", "sleep"], ["ucp_am_bw"],
         ["ucp_am_bw", "-s", "100000"], ["ucp_am_bw", "-s", "16,48,8192", "-D", "iov,iov"]]


class Failed(Exception):
    """The reason of a failure."""


def listens(port):
    with open("/proc/net/tcp", encoding="ascii") as table:
        return re.search(rf":{port:04X} 00000000:0000 0A ", table.read()) is not None


def messages(text):
    """How many messages the statistics of a process say that it has sent and matched."""
    return sum(int(value) for value in re.findall(r"\b(?:expected|unexpected|sent_(?!bytes)[a-z-]+)=(\d+)", text))


class Test:
    def __init__(self, build, folder):
        self.mbx = [f"{build}/tools/mbx", "exec", "--through=ucp"]
        self.folder = folder
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("UCX_", "LD_LIBRARY", "MBX_"))}
        # the two processes may share one core
        self.env = {**clean, "MBX_STATS_FILE": f"{folder}/%p", "MBX_OVERSUBSCRIBED": "yes", "UCX_WARN_UNUSED_ENV_VARS": "n",
                    "MBX_KEY": "0123456789abcdef" * 2}

    def start(self, *words):
        return subprocess.Popen([*self.mbx, "ucx_perftest", *words], env=self.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def run(self, test):
        port = free_port()
        options = ["-t", *test, "-n", str(COUNT), "-w", "10", "-p", str(port), "-f"]
        server = self.start(*options)
        try:
            while not listens(port) and server.poll() is None:
                time.sleep(0.01)
            client = self.start(*options, "127.0.0.1")
            said = client.communicate(timeout=PATIENCE_S)[0]
            said += server.communicate(timeout=PATIENCE_S)[0]
        finally:
            server.kill()
        if server.returncode != 0 or client.returncode != 0:
            raise Failed(f"status {server.returncode} and {client.returncode}\n{said[-3000:]}")
        return said

    def try_one(self, test):
        self.run(test)
        texts = []
        for name in os.listdir(self.folder):
            with open(f"{self.folder}/{name}", encoding="utf-8") as file:
                texts.append(file.read())
            os.remove(f"{self.folder}/{name}")
        moved = [messages(text) for text in texts]
        if len([count for count in moved if count >= COUNT]) != 2:
            raise Failed(f"{len(texts)} processes over Matchbox, which sent and matched {moved}\n{''.join(texts)[-2000:]}")


def main():
    if shutil.which("ucx_perftest") is None:
        print("perftest: there is no ucx_perftest (Debian: ucx-utils)")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        one = Test(os.path.abspath(sys.argv[1]), folder)
        for test in TESTS:
            try:
                one.try_one(test)
            except Failed as failure:
                print(f"FAIL: {' '.join(test)}: {failure}")
                return 1
    print(f"perftest: {len(TESTS)} tests over libucp")
    return 0


if __name__ == "__main__":
    sys.exit(main())
