#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""orders_test.py BUILD [--replays N] [--only NAME] - a recorded job is replayed: the same results, and the same record again.

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
CHILDREN = 3  # of orders.c
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
        self.choices = os.path.join(build, "tests/mpi/choices")
        self.has_lines = "libdw yes" in subprocess.run([self.mbx, "version"], capture_output=True, text=True, check=True).stdout
        self.env = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")

    def execute(self, options, words, ranks=RANKS, program=None):
        """The status, what the ranks printed in the order of the ranks, and all that was said."""
        done = subprocess.run([self.mbx, "exec", *options, "timeout", "-k", "5", str(PATIENCE_S), "mpiexec", "--oversubscribe", "-n",
                               str(ranks), program or self.program, *words], capture_output=True, text=True, env=self.env)
        results = sorted(re.findall(r"^(?:rank|child) \d+: [0-9a-f]{16}$", done.stdout, re.MULTILINE))
        return done.returncode, results, done.stdout + done.stderr

    def must(self, options, words, program=None, count=RANKS):
        status, results, said = self.execute(options, words, program=program)
        check(status == 0 and len(results) == count, f"{options} {words} ended with {status}:\n{said}")
        return results, said

    def order(self, *words):
        return subprocess.run([self.mbx, "order", *words], capture_output=True, text=True)


def compare_files(first, second, ranks=RANKS):
    """Records are equal byte by byte, except for the process that made them; late outcomes may have another order."""
    check(len(glob.glob(first + "/*.mbxrec")) == ranks, f"{first} does not have {ranks} records")
    for rank in range(ranks):
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
    check("record: this program can call MPI_Compare_and_swap: their results, and their order, are not recorded" in said, said)
    listed = run.order(f"{folder}/record", "--rank", "0", "--from", "300").stdout
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "orders.c"), encoding="utf-8") as file:
        lines = [number for number, text in enumerate(file, 1) if FOLD in text]
    place = f" at orders.c:{lines[0]}" if run.has_lines else ""
    check(listed.startswith(f"rank 0: 300 events, complete\n     300  MPI_Recv from any source, tag 2, on communicator 1{place}: rank "), listed)


def others(run, folder, replays):
    for seed in (1, 2, 3):
        same(run, f"{folder}/{seed}", ["all", str(seed), "25"], replays)


# of receive() in orders.c
WAYS = {"Waitany": 8, "Waitsome": 9, "Testsome": 10, "Testany": 11, "Testall": 12, "Test": 13, "Request_get_status": 14}


def each_way(run, folder, replays):
    """The results of each of these calls alone vary from run to run, and each replay has them again."""
    for name, way in WAYS.items():
        words, found = ["one", "9", "12", str(way)], set()
        for seed in ("1", "2", "3"):
            record = f"{folder}/{name}-{seed}"
            results, _ = run.must(["--shuffle", seed, "--record", record], words)
            found.add(tuple(results))
            listed = run.order(record, "--rank", "0").stdout
            check(re.search(rf"MPI_{name}\b.*{' at orders.c:[0-9]+: ' if run.has_lines else ''}", listed), f"{name} is not in the record")
            for number in range(replays if seed == "1" else 0):
                replayed, said = run.must(["--replay", record], words)
                check(replayed == results, f"replay {number} of MPI_{name}: {replayed}, recorded: {results}\n{said}")
        check(len(found) > 1, f"MPI_{name} has the same results in three runs")


def divergence(run, folder, _):
    record = f"{folder}/record"
    run.must(["--record", record], ["all", "5", "12"])
    status, _, said = run.execute(["--replay", record], ["less", "5", "12"])
    check(status == DIVERGED, f"status {status}:\n{said}")
    place = r"orders\.c:\d+" if run.has_lines else r"\S+/orders\+0x[0-9a-f]+"
    for text in (r"replay: rank 1 \(pid \d+\) diverged from \S+/record at its event \d+ of \d+\n", rf"  recorded: MPI_\w+ .*at {place}: ",
                 rf"  now:      MPI_Iprobe from rank 0, tag 77, on \S.* at {place}\n", rf"  last event that agreed: MPI_.* at {place}: ",
                 r"  something other than messages differs: time, random numbers, files, memory"):
        check(re.search(text, said), f"{text} was not said:\n{said}")
    check("replay: the arguments of the program differ" in said, said)
    results, said = run.must(["--replay", record, "--on-divergence=go"], ["less", "5", "12"])
    check("rank 1 continues freely" in said and len(results) == RANKS, said)


def choice(run, folder, replays):
    """A value that a program has read and passed on is the same in a replay, and one that it has not passed on is found."""
    record = f"{folder}/record"
    results, said = run.must(["--record", record], [], run.choices)
    check("chosen 1, before MPI_Init free, NULL refused" in said, said)
    for number in range(replays):
        replayed, said = run.must(["--replay", record, "--record", f"{folder}/again-{number}"], [], run.choices)
        check(replayed == results and "chosen 2, before MPI_Init free, NULL refused" in said, f"{replayed}, recorded: {results}\n{said}")
        compare_files(record, f"{folder}/again-{number}")
    listed = run.order(record, "--rank", "0").stdout
    check(re.search(rf"       1  mbx_choice of site 0{' at choices.c:[0-9]+' if run.has_lines else ''}: \d+\n", listed), listed)
    status, _, said = run.execute(["--replay", record], ["other"], program=run.choices)
    check(status == DIVERGED and "recorded: mbx_choice of site 3" in said and "now:      mbx_choice of site 4711" in said, f"status {status}:\n{said}")
    status, _, said = run.execute(["--replay", record], ["free"], program=run.choices)
    check(status == DIVERGED and "recorded: mbx_choice of site 0" in said, f"status {status}:\n{said}")
    _, said = run.must([], [], run.choices)
    check("chosen 0, before MPI_Init free, NULL refused" in said and "mbx_choice:" not in said, said)
    run.env["MBX_RECORD"] = f"{folder}/bare"
    _, said = run.must([], [], run.choices)
    del run.env["MBX_RECORD"]
    check("mbx_choice: MBX_RECORD is set, but choices are not recorded" in said, said)


def threads(run, folder, replays):
    """Each communicator is used by one thread: the events of each are replayed.  Two threads on one are refused."""
    lanes, words = os.path.join(os.path.dirname(run.program), "lanes"), ["own", "25"]
    record = f"{folder}/record"
    results, said = run.must(["--record", record], words, lanes)
    check("record:" not in said, said)
    parts = sorted(name for name in os.listdir(record) if name.startswith("comm-"))
    check(len(parts) == 3, f"folders: {parts}")
    for number in range(replays):
        again = f"{folder}/again-{number}"
        replayed, said = run.must(["--replay", record, "--record", again], words, lanes)
        check(replayed == results, f"replay {number}: {replayed}, recorded: {results}\n{said}")
        for part in parts:
            compare_files(f"{record}/{part}", f"{again}/{part}")
        compared = run.order(record, "--compare", again)
        check(compared.returncode == 0 and compared.stdout.count(": equal\n") == 4 * RANKS, compared.stdout)
    shutil.rmtree(f"{again}/{parts[0]}")
    for one, other in ((record, again), (again, record)):
        compared = run.order(one, "--compare", other)
        check(compared.returncode == 3 and compared.stdout.count(f", {parts[0]}: only in {record}\n") == RANKS, compared.stdout)
    listed = run.order(record, "--rank", "2")
    check(all(re.search(rf"^rank 2, {part}: \d+ events, complete$", listed.stdout, re.MULTILINE) for part in parts), listed.stdout)
    status, _, said = run.execute(["--replay", record], ["less", "25"], program=lanes)
    check(status == DIVERGED and re.search(rf"rank 0 \(pid \d+\) diverged from \S+/{parts[1]} at its event", said), f"status {status}:\n{said}")
    _, said = run.must(["--record", record, "--force"], ["shared", "25"], lanes)
    check("make calls that are recorded, on one communicator, or" in said and "this record cannot be replayed" in said, said)
    status, _, said = run.execute(["--replay", record], ["shared", "25"], program=lanes)
    check(status != 0 and "two threads made the recorded calls: their order cannot be replayed" in said, f"status {status}:\n{said}")


def spawned(run, folder, replays):
    """Each job that is spawned has a record of its own, which its replay finds."""
    record, words = f"{folder}/record", ["spawn", "30"]
    results, said = run.must(["--record", record], words, count=RANKS + 2 * CHILDREN)
    check("has a record" not in said, said)
    jobs = sorted(name for name in os.listdir(record) if name.startswith("spawn-"))
    check(len(jobs) == 2 and all(len(glob.glob(f"{record}/{job}/*.mbxrec")) == CHILDREN for job in jobs), f"jobs: {jobs}")
    for number in range(replays):
        again = f"{folder}/again-{number}"
        replayed, said = run.must(["--replay", record, "--record", again], words, count=RANKS + 2 * CHILDREN)
        check(replayed == results, f"replay {number}: {replayed}, recorded: {results}\n{said}")
        compare_files(record, again)
        for job in jobs:
            compare_files(f"{record}/{job}", f"{again}/{job}", CHILDREN)
        compared = run.order(record, "--compare", again)
        check(compared.returncode == 0 and all(f"rank 1, {job}: equal\n" in compared.stdout for job in jobs), f"{compared.stdout}{compared.stderr}")
        shutil.copy(f"{record}/{jobs[0]}/rank-0.mbxrec", f"{again}/{jobs[0]}/rank-1.mbxrec")
        compared = run.order(record, "--compare", again)
        check(compared.returncode == 1 and f"{again}/{jobs[0]}/rank-1.mbxrec" in compared.stderr, f"{compared.stdout}{compared.stderr}")
        shutil.rmtree(f"{again}/{jobs[0]}")
        compared = run.order(record, "--compare", again)
        check(compared.returncode == 3 and f"rank 0, {jobs[0]}: only in {record}\n" in compared.stdout, f"{compared.stdout}{compared.stderr}")
    listed = run.order(record)
    check(listed.returncode == 0 and listed.stdout.count(f"spawned job: mbx order {record}/spawn-") == 2, listed.stdout)
    listed = run.order(f"{record}/{jobs[0]}", "--rank", "2").stdout
    check(listed.startswith(f"rank 2: {30 * RANKS} events, complete"), listed)
    shutil.rmtree(f"{record}/{jobs[1]}")
    status, _, said = run.execute(["--replay", record], words)
    check(status != 0 and f"{jobs[1]}/rank-0.mbxrec" in said and "this record cannot be replayed" in said, f"status {status}:\n{said}")
    run.must(["--force", "--record", record], ["fold", "5"])
    check(not glob.glob(f"{record}/spawn-*"), "--force has left the records of a spawned job")


def nothing(run, folder, _):
    """A job that records nothing says so."""
    def start(*words, **more):
        return subprocess.run([run.mbx, "exec", *words], capture_output=True, text=True, env=dict(run.env, **more))

    done = start("--record", f"{folder}/1/true", "true")
    check(done.returncode == 0 and "nothing was recorded in" in done.stderr, done.stderr)
    for option in ("--shuffle=3", "--races"):
        done = start(option, run.mbx, "run", "-n", "2", "true")
        check(done.returncode == 1 and "--shuffle and --races need Open MPI" in done.stderr, f"{option}: {done.stderr}")
    done = start("--record", f"{folder}/native", run.mbx, "run", "-n", "2", "true")
    check(done.returncode == 0 and "nothing was recorded in" in done.stderr, done.stderr)
    done = subprocess.run([run.mbx, "run", "-n", "1", "true"], capture_output=True, text=True, env=dict(run.env, MBX_SHUFFLE="3"))
    check(done.returncode == 0 and "MBX_SHUFFLE has no effect: only MPI programs are shuffled" in done.stderr, done.stderr)
    for name, text in (("mpiexec.hydra", "echo ran"), ("mpichversion", "printf 'MPICH Version:\\t4.0\\nMPICH Device:\\t%s\\n' $DEVICE")):
        with open(f"{folder}/{name}", "w", encoding="ascii") as file:
            file.write(f"#!/bin/sh\n{text}\n")
        os.chmod(file.name, 0o755)
    for device in ("ch4:ofi", "ch4:ucx"):
        done = start("--record", f"{folder}/3/mpich", f"{folder}/mpiexec.hydra", DEVICE=device)
        check(done.returncode == 1 and done.stdout == "" and f"starts programs of MPICH ({device})" in done.stderr, f"{device}: {done}")
    done = start("--through=provider", "mpiexec", "--oversubscribe", "-n", "2", run.program, "fold", "3", MBX_RECORD=f"{folder}/none")
    check(done.returncode == 0 and done.stderr.count("MBX_RECORD has no effect on messages through libfabric or libucp") == 1, done.stderr)


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


# which messages of rank 1 the two open receives and a third one get
LATER = {"end": 0x123, "wait": 0x213, "waitall": 0x213, "recv": 0x312}


def later(run, folder, _):
    """Two receives are open where a rank was killed: the first one gets the first message that comes, although its replay posts it
    at the end of the record, unless a call needs the second one before."""
    record = f"{folder}/record"
    run.execute(["--record", record], ["later", "end"])
    listed = run.order(record, "--rank", "0").stdout
    check("it ends where the rank was killed" in listed and listed.count("MPI_Recv from any source") == 2, listed)
    run.env["ORDERS_LIVES"] = "1"
    for way, got in LATER.items():
        results, said = run.must(["--replay", record], ["later", way])
        check(results[0] == f"rank 0: {got:016x}" and "continues freely" in said, f"{way}: {results}:\n{said}")
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
    parser.add_argument("--only", metavar="NAME")
    args = parser.parse_args()
    if shutil.which("mpiexec") is None:
        return 77
    run = Programs(os.path.abspath(args.build))
    for test in (fold, others, each_way, divergence, choice, threads, spawned, nothing, killed, later, refusals, shuffled, other_run):
        if args.only not in (None, test.__name__):
            continue
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
