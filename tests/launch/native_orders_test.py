#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""native_orders_test.py BUILD [--replays N] [--only NAME] - a job of programs that call matchbox.h is recorded and replayed.

The results are the same, and the replay records the same again.  native_orders.c has the program.  Each run has a time limit: a
replay that waits for a message that never comes would wait forever.
"""
import argparse
import glob
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "../support"))
from patience import PATIENCE_S  # noqa: E402

RANKS = 3
# A rank that notices the end of another one may give the job its own status.
OTHERS = 1
HEADER = 4096  # bytes in which two records of the same events may differ
LATE = 40
DIVERGED = 87
# src/replay/format.h and replay.h
RING = 4096
ITEM_EVENT, ITEM_DEFINITION = 1, 2
# try_recv, probe, mprobe, test, wait, wait_all, wait_some, wait_any, poll, cancel, and calls that return a number
MBX_KINDS = 18, 19, 20, 22, 23, 24, 25, 26, 27, 28, 29
RESULT_VALUE = 8
IMPOSSIBLE = 1000

# Calls of matchbox.h whose results follow from the results of the recorded ones, or from what the program and its surroundings are.
SAME = """mbx_version mbx_strerror mbx_log_callback mbx_open mbx_address_get mbx_address_share mbx_address_text mbx_peer_add
mbx_peer_address mbx_job_open mbx_job_close mbx_job_key mbx_context_open mbx_context_close
mbx_wake mbx_fd mbx_disarm mbx_deregister mbx_try_deregister mbx_atomic_size mbx_failed_ack mbx_limits_get mbx_protocol_name mbx_protocol_get
mbx_transport_get mbx_network_get mbx_param_get mbx_name_program mbx_explain_waits mbx_explain_threads mbx_explain_unstarted
mbx_name_context mbx_name_peer mbx_trace_note mbx_stat_get""".split()


class Failed(Exception):
    pass


def check(condition, text):
    if not condition:
        raise Failed(text)


class Programs:
    def __init__(self, build):
        self.mbx = os.path.join(build, "tools/mbx")
        self.program = os.path.join(build, "tests/launch/native_orders")
        self.linked = os.path.join(build, "tests/launch/native_orders_linked")
        self.env = {name: value for name, value in os.environ.items() if name not in ("MBX_RECORD", "MBX_REPLAY")}
        self.has_lines = "libdw yes" in subprocess.run([self.mbx, "version"], capture_output=True, text=True, check=True).stdout

    def execute(self, options, words, ranks=RANKS, program=None, **more):
        """The status, what the ranks printed in the order of the ranks, and all that was said."""
        done = subprocess.run(["timeout", "-k", "5", str(PATIENCE_S), self.mbx, "exec", *options, self.mbx, "run", "-n", str(ranks),
                               program or self.program, *words], capture_output=True, text=True, env=dict(self.env, **more))
        return done.returncode, sorted(re.findall(r"^rank \d+: [0-9a-f]{16}$", done.stdout, re.MULTILINE)), done.stdout + done.stderr

    def must(self, options, words, **more):
        status, results, said = self.execute(options, words, **more)
        check(status == 0 and len(results) == RANKS, f"{options} {words} ended with {status}:\n{said}")
        return results, said

    def order(self, *words):
        return subprocess.run([self.mbx, "order", *words], capture_output=True, text=True)


def late_of(name):
    data = open(name, "rb").read() if os.path.exists(name) else b""
    return sorted(data[at:at + LATE] for at in range(0, len(data), LATE))


def compare_files(first, second):
    """Records are equal byte by byte, except for the process that made them; late outcomes may have another order."""
    for part in ("", "/ep-2"):
        check(len(glob.glob(f"{first}{part}/*.mbxrec")) == RANKS, f"{first}{part} does not have {RANKS} records")
        for rank in range(RANKS):
            a, b = (open(f"{folder}{part}/rank-{rank}.mbxrec", "rb").read()[HEADER:] for folder in (first, second))
            check(a == b, f"the records of rank {rank} differ: {first}{part} {second}{part}")
            a, b = (late_of(f"{folder}{part}/rank-{rank}.mbxlate") for folder in (first, second))
            check(a == b, f"the late outcomes of rank {rank} differ: {first}{part} {second}{part}")


def same(run, folder, replays):
    """Free runs differ in their messages or tests, and each replay of a run is as it was."""
    differ = ""
    for seed in ("1", "2"):
        record = f"{folder}/{seed}"
        results, _ = run.must(["--record", record], ["20", seed])
        run.must(["--record", f"{record}-more"], ["20", seed])
        differ += run.order(record, "--compare", f"{record}-more").stdout
        check(os.stat(record).st_mode & 0o777 == 0o700, "the folder is not private")
        for number in range(replays):
            again = f"{record}-again-{number}"
            replayed, said = run.must(["--replay", record, "--record", again], ["20", seed])
            check(replayed == results, f"replay {number} of seed {seed}: {replayed}, recorded: {results}\n{said}")
            compare_files(record, again)
            compared = run.order(record, "--compare", again)
            check(compared.returncode == 0 and compared.stdout.count(": equal\n") == 2 * RANKS, compared.stdout + compared.stderr)
    check(re.search(r"event \d+: mbx_(?!choice)", differ), f"free runs differ in no message and no test:\n{differ}")


def words(run, folder, replays):
    """mbx order names the calls, and their places."""
    run.must(["--record", f"{folder}/record"], ["20", "1"])
    listed = "".join(run.order(f"{folder}/record", "--rank", str(rank)).stdout for rank in range(RANKS))
    where = r" at native_orders\.c:\d+" if run.has_lines else ""
    for line in (fr"mbx_choice of site 7{where}: \d+", fr"mbx_cancel{where}: (true|error: Operation already in progress)",
                 fr"mbx_recv from any source, any tag, in context 1{where}: rank \d, tag \d", r"  whose tag has the upper half: 256",
                 fr"mbx_recv from any source, any tag, in context 2{where}: cancelled", fr"mbx_test{where}: true",
                 fr"mbx_recv from any source, some tags with bits 0x0, in context 1{where}: rank \d, tag \d",
                 fr"mbx_probe from any source, any tag, in context 1{where}: rank \d, tag \d",
                 fr"mbx_poll of queues 2, up to 2 entries{where}: 1\n +  which completed: 0",
                 fr"mbx_wait_any of 2 requests{where}: 1", fr"mbx_wait_some of 2 requests{where}: [12]\n +  which completed: [01]",
                 fr"mbx_wait_all with a timeout of 1 requests{where}: 1", fr"mbx_try_send{where}: [01f]", fr"mbx_progress{where}: \d"):
        check(re.search(line, listed), f"{line} is not in\n{listed[:6000]}")


def divergence(run, folder, replays):
    """The call that differs is named, with what was recorded; the job ends, or continues freely."""
    record = f"{folder}/record"
    run.must(["--record", record], ["6", "1", "time"])
    status, _, said = run.execute(["--replay", record], ["6", "1", "time"], NATIVE_EXTRA="3")
    check(status in (DIVERGED, OTHERS), f"the status is {status}:\n{said}")
    place = r" at native_orders\.c:\d+" if run.has_lines else r" at .*"
    for line in (fr"replay: rank 1 \(pid \d+\) diverged from {record} at its event \d+ of \d+", r"  recorded: mbx_",
                 fr"  now:      mbx_probe from rank 0, tag 7, in context 2{place}", r"  last event that agreed: mbx_"):
        check(re.search(line, said), f"{line} is not in\n{said}")
    _, _, said = run.execute(["--replay", record, "--on-divergence=go"], ["6", "1", "time"], NATIVE_EXTRA="3")
    check("rank 1 continues freely" in said, said)
    status, _, said = run.execute(["--replay", record], ["5", "1", "time"])
    check(status in (DIVERGED, OTHERS) and "  now:      " in said, f"fewer rounds ended with {status}:\n{said}")


def killed(run, folder, replays):
    """The record of a rank that was killed leads to where it was; what was withheld is posted then, and the rank is killed again."""
    record = f"{folder}/record"
    status, _, said = run.execute(["--record", record], ["8", "1", "killed"])
    check(status in (128 + signal.SIGKILL, OTHERS), f"the status is {status}:\n{said}")
    end = re.search(r"rank 1: [0-9a-f]{16} at its end", said).group()
    for _ in range(min(replays, 5)):
        status, _, said = run.execute(["--replay", record], ["8", "1", "killed"])
        check(status in (128 + signal.SIGKILL, OTHERS) and end in said, f"{end} is not what a replay that ended with {status} says:\n{said}")
        check("rank 1: the record ends after event" in said, said)


def goes_on(run, folder, replays):
    """A record that was cut: the rank gets the messages that its withheld receives ask for."""
    record = f"{folder}/record"
    status, _, said = run.execute(["--record", record], ["8", "1", "killed"])
    check(status in (128 + signal.SIGKILL, OTHERS), f"the status is {status}:\n{said}")
    # the same calls up to there, and it is not killed
    run.must(["--replay", record], ["8", "1", "spared"])


def refused(run, folder, replays):
    """A run that cannot be replayed gets a warning when it is recorded, and its record is refused by a replay."""
    for case, why in (("callback", "has MBX_DONE"), ("threads", ""), ("injects", ""),
                      ("early", "a receive was posted before mbx_job_connect")):
        _, said = run.must(["--record", f"{folder}/{case}"], ["3", "1", case])
        check(why in said and (why == "" or "this record cannot be replayed" in said), said)
        status, _, said = run.execute(["--replay", f"{folder}/{case}"], ["3", "1", case])
        check(status != 0 and "this record cannot be replayed" in said, f"{case}: {status}\n{said}")
    record = f"{folder}/record"
    run.must(["--record", record], ["3", "1"])
    status, _, said = run.execute(["--replay", record], ["3", "1"], ranks=2)
    check(status == 1 and f"has records of {RANKS} ranks" in said, said)
    for options in (["--shuffle", "7"], [f"--races={folder}/races"]):
        status, _, said = run.execute(options, ["3", "1"])
        check(status == 1 and "--shuffle and --races need Open MPI" in said, said)
    status, _, said = run.execute(["--record", f"{folder}/linked"], ["3", "1"], program=run.linked)
    check(status == 0 and "MBX_RECORD has no effect on the calls of this program" in said and "nothing was recorded" in said, said)


def change(name, kind):
    """Gives each event of this kind in the ring of a record a number that the call does not return.  How many there were."""
    data = bytearray(open(name, "rb").read())
    slots, changed = set(), 0
    for at in range(HEADER, HEADER + RING * 16, 16):
        value, word = struct.unpack_from("<2Q", data, at)
        slot, low, count = word >> 12 & 0xff, word >> 20 & 0xf, word >> 28
        if word & 0xf == ITEM_DEFINITION:
            slots = slots | {slot} if low | count >> 19 << 4 & 0x10 == kind else slots - {slot}
        elif word & 0xf == ITEM_EVENT and slot in slots:
            struct.pack_into("<2Q", data, at, IMPOSSIBLE, word & ~(0xf << 20) | RESULT_VALUE << 20)
            changed += 1
    open(name, "wb").write(data)
    return changed


def impossible(run, folder, replays):
    """A number that a call cannot return is refused."""
    record = f"{folder}/record"
    run.execute(["--record", record], ["2", "1", "empty"])
    for kind in MBX_KINDS:
        changed = f"{folder}/changed-{kind}"
        shutil.copytree(record, changed)
        check(change(f"{changed}/rank-1.mbxrec", kind) == 1, f"the record does not have one event of kind {kind}")
        status, _, said = run.execute(["--replay", changed], ["2", "1", "empty"])
        check(status in (DIVERGED, OTHERS) and "the recorded outcome does not fit this call" in said,
              f"with an impossible event of kind {kind} the replay ended with {status}:\n{said}")


def forks(run, folder, replays):
    """The calls of a child of fork() are in no record, and its parent goes on."""
    record, words = f"{folder}/record", ["4", "1", "forks"]
    results, _ = run.must(["--record", record], words)
    replayed, said = run.must(["--replay", record], words)
    check(replayed == results, f"the replay: {replayed}, recorded: {results}\n{said}")
    check(run.order(record).stdout.count("mbx_choice") == RANKS, run.order(record).stdout)


def elsewhere(run, folder, replays):
    """A call returns at once in the replay what it returned in the record; while the program then waits in another call, its
    endpoint makes the progress that its peer waits for."""
    for case in ("fence", "second", "close"):
        record = f"{folder}/{case}"
        results, _ = run.must(["--record", record], ["1", "1", case])
        check(re.search(r"mbx_ready.*: 1$", run.order(record, "--rank", "0").stdout, re.MULTILINE), f"{case}: mbx_ready did not return 1")
        for _ in range(min(replays, 3)):
            replayed, said = run.must(["--replay", record], ["1", "1", case], NATIVE_EXTRA="1")
            check(replayed == results, f"the replay: {replayed}, recorded: {results}\n{said}")


def later(run, folder, replays):
    """A rank was killed while two receives waited: messages that come in the replay go to them in the order of the posts.  It may
    have been killed before it connected its other endpoints."""
    record = f"{folder}/record"
    status, _, said = run.execute(["--record", record], ["1", "1", "later"])
    check(status in (128 + signal.SIGKILL, OTHERS), f"the status is {status}:\n{said}")
    for _ in range(min(replays, 3)):
        run.must(["--replay", record], ["1", "1", "later"], NATIVE_EXTRA="1")
    for name in glob.glob(f"{record}/ep-*/rank-1.mbxrec"):
        os.unlink(name)  # as if it had been killed earlier
    _, said = run.must(["--replay", record], ["1", "1", "later"], NATIVE_EXTRA="1")
    check("was killed before it connected endpoint 2" in said, said)


def exits(run, folder, replays):
    """A rank that exits with open endpoints before the end of its record has diverged."""
    record = f"{folder}/record"
    run.must(["--record", record], ["4", "1", "exits"])
    status, _, said = run.execute(["--replay", record], ["4", "1", "exits"], NATIVE_EXTRA="1")
    check(status in (DIVERGED, OTHERS) and re.search(r"replay: rank 1 \(pid \d+\) diverged from", said)
          and "  now:      the program ends" in said, f"the replay ended with {status}:\n{said}")


def ranks(run, folder, replays):
    """A comparison says which ranks only one of the records has."""
    for count in (2, 3):
        status, results, said = run.execute(["--record", f"{folder}/{count}"], ["1", "1", "early"], ranks=count)
        check(status == 0 and len(results) == count, f"{count} ranks ended with {status}:\n{said}")
    for first, other in ((2, 3), (3, 2)):
        compared = run.order(f"{folder}/{first}", "--compare", f"{folder}/{other}")
        check(compared.returncode == 3 and f"rank 2: only in {folder}/3\n" in compared.stdout and "rank 1" in compared.stdout,
              f"{compared.returncode}: {compared.stdout}{compared.stderr}")


def left(run, folder, replays):
    """A send that left at once in the record has left when its call returns, although the receiver is slower now."""
    record = f"{folder}/record"
    run.must(["--record", record], ["2", "1", "flood"])
    at_once = len(re.findall(r"mbx_send with MBX_AT_ONCE.*: 1$", run.order(record, "--rank", "1").stdout, re.MULTILINE))
    check(at_once > 500, f"only {at_once} sends left at once")
    for _ in range(min(replays, 5)):
        run.must(["--replay", record], ["2", "1", "flood"], NATIVE_EXTRA="1")


def all_calls(run, folder, replays):
    """Each call of matchbox.h is recorded, or seen for it; or named when a program that can make it is recorded; or in SAME."""
    source = os.path.join(HERE, "../..")
    declared = set(re.findall(r"^MBX_API [^;(]*?\b(mbx_\w+)\(", open(f"{source}/include/matchbox/matchbox.h").read(), re.MULTILINE))
    seen = set(re.findall(r"CALL\((mbx_\w+)\)", open(f"{source}/src/native/native.h").read()))
    unseen = set(re.findall(r'"(mbx_\w+)"', open(f"{source}/src/replay/identity.c").read()))
    check(len(declared) > 80, f"matchbox.h has only {len(declared)} calls")
    check(declared == seen | unseen | set(SAME), f"{sorted(declared ^ (seen | unseen | set(SAME)))} are in one list and not the other")
    check(not seen & unseen and not (seen | unseen) & set(SAME), "a call is in two lists")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--replays", type=int, default=20)
    parser.add_argument("--only")
    options = parser.parse_args()
    run = Programs(options.build)
    for case in (all_calls, same, words, divergence, killed, goes_on, impossible, forks, left, elsewhere, later, exits, ranks, refused):
        if options.only not in (None, case.__name__):
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                case(run, folder, options.replays)
            except Failed as error:
                sys.exit(f"native_orders_test: {case.__name__}: {error}")


main()
