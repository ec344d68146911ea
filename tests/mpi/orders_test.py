#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""orders_test.py BUILD [--replays N] - a recorded job is replayed: the same results, and the same record again.

The programs are the cases of orders.c.  Each has a time limit: a replay that waits for a message that never comes would wait
forever.
"""
import argparse
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from patience import PATIENCE_S  # noqa: E402

RANKS = 4
HEADER = 4096  # bytes in which two records of the same events may differ
LATE = 40
DIVERGED = 87
FOLD = "MPI_Recv(&x, 1, MPI_DOUBLE, MPI_ANY_SOURCE, 2"  # the line of orders.c


class Failed(Exception):
    pass


def check(condition, text):
    if not condition:
        raise Failed(text)


class Programs:
    def __init__(self, build):
        self.mbx = os.path.join(build, "tools/mbx")
        self.program = os.path.join(build, "tests/mpi/orders")
        self.env = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")

    def execute(self, options, words, ranks=RANKS):
        """The status, what the ranks printed in the order of the ranks, and all that was said."""
        done = subprocess.run([self.mbx, "exec", *options, "timeout", "-k", "5", str(PATIENCE_S), "mpiexec", "--oversubscribe", "-n",
                               str(ranks), self.program, *words], capture_output=True, text=True, env=self.env)
        results = sorted(re.findall(r"^rank \d+: [0-9a-f]{16}$", done.stdout, re.MULTILINE))
        return done.returncode, results, done.stdout + done.stderr

    def must(self, options, words):
        status, results, said = self.execute(options, words)
        check(status == 0 and len(results) == RANKS, f"{options} {words} ended with {status}:\n{said}")
        return results, said

    def order(self, *words):
        return subprocess.run([self.mbx, "order", *words], capture_output=True, text=True)


def compare_files(first, second):
    """Records are equal byte by byte, except for the process that made them; late outcomes may have another order."""
    check(len(glob.glob(first + "/*.mbxrec")) == RANKS, f"{first} does not have {RANKS} records")
    for rank in range(RANKS):
        a, b = (open(f"{folder}/rank-{rank}.mbxrec", "rb").read()[HEADER:] for folder in (first, second))
        check(a == b, f"the records of rank {rank} differ: {first} {second}")
        late = []
        for folder in (first, second):
            name = f"{folder}/rank-{rank}.mbxlate"
            data = open(name, "rb").read() if os.path.exists(name) else b""
            late.append(sorted(data[at:at + LATE] for at in range(0, len(data), LATE)))
        check(late[0] == late[1], f"the late outcomes of rank {rank} differ: {first} {second}")
        a, b = ([open(name).read() for name in glob.glob(f"{folder}/rank-{rank}.mbxplaces")] for folder in (first, second))
        check(a == b, f"the places of rank {rank} differ: {a} {b}")


def same(run, folder, words, replays):
    """Record, and replay several times."""
    record = f"{folder}/record"
    results, said = run.must(["--record", record], words)
    check(os.stat(record).st_mode & 0o777 == 0o700, "the folder is not private")
    for name in os.listdir(record):
        check(os.stat(f"{record}/{name}").st_mode & 0o777 == 0o600, f"{name} is not private")
    for number in range(replays):
        again = f"{folder}/again-{number}"
        replayed, what = run.must(["--replay", record, "--record", again], words)
        check(replayed == results, f"replay {number} of {words}: {replayed}, recorded: {results}\n{what}")
        compare_files(record, again)
        compared = run.order(record, "--compare", again)
        check(compared.returncode == 0 and compared.stdout.count(": equal\n") == RANKS, compared.stdout + compared.stderr)
    return said


def fold(run, folder, replays):
    said = same(run, folder, ["fold", "100"], replays)
    check("record: this program can call MPI_Request_get_status: their results, and their order, are not recorded" in said, said)
    listed = run.order(f"{folder}/record", "--rank", "0", "--from", "300").stdout
    has_lines = "libdw yes" in subprocess.run([run.mbx, "version"], capture_output=True, text=True, check=True).stdout
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "orders.c"), encoding="utf-8") as file:
        lines = [number for number, text in enumerate(file, 1) if FOLD in text]
    place = f" at orders.c:{lines[0]}" if has_lines else ""
    check(listed.startswith(f"rank 0: 300 events, complete\n     300  MPI_Recv from any source, tag 2, on communicator 1{place}: rank "), listed)


def others(run, folder, replays):
    for seed in (1, 2, 3):
        same(run, f"{folder}/{seed}", ["all", str(seed), "25"], replays)


def divergence(run, folder, _):
    record = f"{folder}/record"
    run.must(["--record", record], ["all", "5", "12"])
    status, _, said = run.execute(["--replay", record], ["less", "5", "12"])
    check(status == DIVERGED, f"status {status}:\n{said}")
    for text in (r"replay: rank 1 \(pid \d+\) diverged from \S+/record at its event \d+ of \d+\n", r"  recorded: MPI_\w+ .*at \S+/orders\+0x[0-9a-f]+: ",
                 r"  now:      MPI_Iprobe from rank 0, tag 77, on \S.* at \S+/orders\+0x[0-9a-f]+\n", r"  last event that agreed: MPI_",
                 r"  something other than messages differs: time, random numbers, files, memory"):
        check(re.search(text, said), f"{text} was not said:\n{said}")
    check("replay: the arguments of the program differ" in said, said)
    results, said = run.must(["--replay", record, "--on-divergence=go"], ["less", "5", "12"])
    check("rank 1 continues freely" in said and len(results) == RANKS, said)


def killed(run, folder, _):
    """The stored events are replayed, and then the program goes on: to its end, which the record does not have."""
    record, again = f"{folder}/record", f"{folder}/again"
    run.execute(["--record", record], ["die", "100"])
    first = run.order(record, "--rank", "0").stdout
    check("it ends where the rank was killed" in first and first.count("MPI_Recv from any source") == 101, first)
    run.execute(["--replay", record, "--record", again], ["die", "100"])
    second = run.order(again, "--rank", "0").stdout
    check(first == second, f"recorded:\n{first}\nreplayed:\n{second}")
    run.env["ORDERS_LIVES"] = "1"
    _, said = run.must(["--replay", record], ["die", "100"])
    check(re.search(r"replay: rank 0: the record ends after event \d+, where the recorded rank was killed: from here on the rank continues freely", said), said)
    del run.env["ORDERS_LIVES"]


def refusals(run, folder, _):
    record = f"{folder}/record"
    run.must(["--record", record], ["fold", "10"])
    for options, ranks, status, text in (
            (["--record", record], RANKS, 1, "has records already; name another folder, or --force replaces them"),
            (["--replay", record], RANKS + 1, 1, ""),
            (["--replay", f"{folder}/none"], RANKS, 1, "--replay: "),
            (["--on-divergence=go"], RANKS, 2, "--on-divergence needs --replay"),
            (["--replay", record, "--on-divergence=wait"], RANKS, 2, "--on-divergence is stop or go, not 'wait'"),
            (["--through=provider", "--record", f"{folder}/x"], RANKS, 1, "need the component for Open MPI")):
        got, _, said = run.execute(options, ["fold", "10"], ranks)
        check(got == status and text in said, f"{options}: status {got}:\n{said}")
    done = subprocess.run([run.mbx, "exec", "--replay", record, "mpiexec", "-n", "8", run.program, "fold", "10"], capture_output=True, text=True, env=run.env)
    check(done.returncode == 1 and f"has records of {RANKS} ranks, but mpiexec starts 8" in done.stderr, done.stderr)
    run.must(["--force", "--record", record], ["fold", "11"])
    check(run.order(record, "--rank", "0").stdout.startswith("rank 0: 33 events, complete"), "--force did not replace the record")
    with open(f"{record}/rank-0.mbxrec", "r+b") as file:
        file.seek(69632 + 40)
        byte = file.read(1)
        file.seek(69632 + 40)
        file.write(bytes([byte[0] ^ 1]))
    listed = run.order(record, "--rank", "0")
    check("is damaged at byte 69632: the checksum of block 0 is wrong; the record can be replayed up to event 0" in listed.stderr, listed.stderr)
    check(run.order(record, "--rank").returncode == 2 and run.order().returncode == 2, "usage")


def shuffled(run, folder, _):
    """The choices are legal, they are recorded, and where all messages wait, the seed alone gives them."""
    for seed in ("1", "2", "3"):
        results, _ = run.must(["--shuffle", seed, "--record", f"{folder}/all-{seed}"], ["all", seed, "12"])
        replayed, said = run.must(["--replay", f"{folder}/all-{seed}"], ["all", seed, "12"])
        check(replayed == results, f"replay of seed {seed}: {replayed}, recorded: {results}\n{said}")
    orders = {}
    for number, seed in enumerate(("1", "2", "3", "4", "1")):
        _, said = run.must(["--shuffle", seed, "--record", f"{folder}/ready-{number}"], ["ready", "8"])
        found = [re.search(rf"^{word} 0: [0-9a-f]+$", said, re.MULTILINE).group() for word in ("received", "probed", "rank")]
        check(orders.setdefault(seed, found) == found, f"seed {seed} gives {orders[seed]} and {found}")
    for what in range(3):
        check(len({found[what] for found in orders.values()}) > 1, f"four seeds give one order: {orders}")
    for options, text in ((["--shuffle", "0"], "--shuffle"), (["--shuffle", "1", "--replay", f"{folder}/all-1"], "give one of them")):
        status, _, said = run.execute(options, ["fold", "10"])
        check(status == 2 and text in said, f"{options}: status {status}:\n{said}")
    run.env["MBX_SHUFFLE"] = "1"
    status, _, said = run.execute(["--replay", f"{folder}/all-1"], ["all", "1", "12"])
    check(status != 0 and "MBX_REPLAY and MBX_SHUFFLE are both set; unset one of them" in said, said)
    del run.env["MBX_SHUFFLE"]


def other_run(run, folder, _):
    """Two records of which one has other messages."""
    run.must(["--record", f"{folder}/a"], ["fold", "50"])
    run.must(["--record", f"{folder}/b"], ["fold", "51"])
    compared = run.order(f"{folder}/a", "--compare", f"{folder}/b")
    check(compared.returncode == 3 and "rank 0: differs first here\n  " in compared.stdout and "rank 1: equal" in compared.stdout, compared.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--replays", type=int, default=3)
    args = parser.parse_args()
    if shutil.which("mpiexec") is None:
        return 77
    run = Programs(os.path.abspath(args.build))
    for test in (fold, others, divergence, killed, refusals, shuffled, other_run):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("1", "2", "3"):
                os.mkdir(f"{folder}/{name}")
            try:
                test(run, folder, args.replays)
            except Failed as failed:
                print(f"{test.__name__}: {failed}", file=sys.stderr)
                return 1
        print(f"ok {test.__name__}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
