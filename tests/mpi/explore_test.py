#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""explore_test.py BUILD - mbx explore tells runs apart, and repeats the wrong ones.

The program is explore.c, whose arguments say in which order the messages of each run arrive.  So nothing here depends on
time: a deadlock is one, and a run that is too long never ends.  The program forced.c has a known number of orders, of which
mbx explore must find each one once, whichever the first run has.
"""
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
import processes  # noqa: E402
from patience import PATIENCE_S  # noqa: E402

INCOMPLETE = 1
EMPTY = 69632  # bytes of a record without events
FOUND = 3
DEADLOCKED = 86
SHUFFLED = 6


class Failed(Exception):
    pass


def check(condition, text):
    if not condition:
        raise Failed(text)


class Explore:
    """Runs of mbx explore in a folder of their own."""

    def __init__(self, build, folder):
        self.mbx = os.path.join(build, "tools/mbx")
        self.program = os.path.join(build, "tests/mpi/explore")
        self.folder = folder
        self.word = f"EXPLORE_TEST={folder}"
        self.env = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", MBX_HANG="1s", EXPLORE_TEST=folder)
        for name in ("MBX_HANG_THEN", "MBX_EXPLORE_RUN"):
            self.env.pop(name, None)

    def job(self, orders):
        return ["mpiexec", "--oversubscribe", "-n", "4", self.program, *orders]

    def words(self, words):
        return subprocess.run(words, cwd=self.folder, env=self.env, stdin=subprocess.DEVNULL, capture_output=True, text=True)

    def runs(self, options, orders, status, before=()):
        """Returns the lines about the runs, one for each of these orders.  before: words in front of the job."""
        patience = ["--limit", f"{PATIENCE_S}s"]  # a deadlock is found later on a busy machine
        runs = str(len(orders))
        done = self.words([self.mbx, "explore", "-n", runs, "--shuffle", runs, *patience, *options, "--", *before, *self.job(orders)])
        check(done.returncode == status, f"{options} {orders} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        check(done.stderr == "", done.stderr)
        self.is_clean()
        return done.stdout

    def is_clean(self):
        left = processes.marked(self.word)
        check(not left, f"processes are left: {left}")
        check(set(os.listdir(self.folder)) <= {"explore"}, f"files are left: {os.listdir(self.folder)}")

    def is_clean_but_for_file(self):
        left = processes.marked(self.word)
        check(not left, f"processes are left: {left}")


def has(said, *patterns):
    for pattern in patterns:
        check(re.search(pattern, said, re.M), f"'{pattern}' is not in:\n{said}")


RECV = r"MPI_Recv from any source, tag 2, on communicator 1(?: at explore\.c:\d+)?"


def search(run):
    """Every kind of end, and what its replay does."""
    said = run.runs([], ["123", "213", "231", "312", "132", "123o", "123c", "123"], FOUND)
    has(said,
        r"^run 1 of 8: exit status 0, \d+\.\d s, order 1 \(new\)$",
        r"^run 2 of 8: exit status 0, \d+\.\d s, order 2 \(new\)$",
        r"^run 3 of 8: deadlock, .* order 3 \(new\); repeats in its replay$",
        r"^run 7 of 8: exit status 1, .* order 1; does not repeat in its replay$",
        r"^explore: 8 runs, 5 different orders: 3 end as run 1 does, 1 deadlocks, 2 exit with status 1, 2 print other output$",
        rf"^  run 3: deadlock; the first event that differs from run 1: rank 0, event 1: {RECV}: rank 2, tag 2 \(run 1: rank 1, tag 2\)\n"
        r"    who waits for whom: explore/order-3/stderr\n"
        r"    repeats in its replay; to repeat it: mbx exec --replay explore/order-3 mpiexec --oversubscribe -n 4 \S*/explore 123 213 ",
        rf"^  run 4: exit status 1; .* rank 0, event 1: {RECV}: rank 3, tag 2 \(run 1: rank 1, tag 2\)\n    repeats in its replay; ",
        rf"^  run 5: other output: 'sum 7' \(run 1: 'sum 6'\); .* rank 0, event 2: {RECV}: rank 3, tag 2 \(run 1: rank 2, tag 2\)\n    repeats ",
        r"^  run 6: other output: 'another line' \(run 1: no such line\); its messages came in the same order as in run 1\n    repeats ",
        r"^  run 7: exit status 1; its messages .*\n    does not repeat in its replay \(exit status 0\); ")
    check("run 2:" not in said and "run 8:" not in said, said)
    with open(f"{run.folder}/explore/order-3/stderr") as file:
        has(file.read(), "deadlock of 4 of 4 ranks")
    # now the messages arrive as in run 1, and the record decides
    again = subprocess.run([run.mbx, "exec", "--replay", "explore/order-3", *run.job(["123"])], cwd=run.folder, capture_output=True,
                           env=dict(run.env, MBX_HANG_THEN="abort"), check=False)
    check(again.returncode == DEADLOCKED, f"the replay by hand ended with {again.returncode}")


def shuffled(run):
    """The arrivals are the same in all runs, and the orders differ: each wrong one is repeated by its replay."""
    run.env["MBX_HANG"] = "500ms"
    said = run.runs(["--seed", "3"], ["123s"] * SHUFFLED, FOUND)
    has(said, rf"^explore: {SHUFFLED} runs, [2-6] different orders: ")
    check("does not repeat" not in said and said.count("\n    repeats in its replay") > 0, said)
    with open(f"{run.folder}/explore/order-2/job.txt") as file:
        has(file.read(), "^set MBX_EXPLORE_RUN=2$")


def outputs(run):
    orders = ["123", "213", "123r"]
    has(run.runs([], orders, 0), r"^explore: 3 runs, 2 different orders: all end as run 1 does \(exit status 0\)$")
    said = run.runs(["--force", "--output", "same"], orders, FOUND)
    has(said, r"^explore: .* 2 end as run 1 does, 1 prints other output$", r"^  run 3: other output: line 1: 'rank 0 is done' \(run 1: 'sum 6'\); ")
    has(run.runs(["--force", "--output=none"], ["123", "132"], 0), "all end as run 1 does")
    has(run.runs(["--force"], ["123", "123e"], FOUND), r"^  run 2: other output: '\(an empty line\)' \(run 1: no such line\); ")
    has(run.runs(["--force"], ["123e", "123"], FOUND), r"^  run 2: other output: '\(an empty line\)' of run 1 is missing; ")


def not_replayable(run):
    """The replay ends with status 1 as the run does, but only because it is refused."""
    said = run.runs([], ["123", "312t"], FOUND)
    has(said, r"^run 2 of 2: exit status 1, .*; cannot be replayed$", r"^    cannot be replayed \(explore/order-2/replay-stderr\); ")
    with open(f"{run.folder}/explore/order-2/replay-stderr") as file:
        has(file.read(), "replay: rank 0: two threads made the recorded calls", "replay: rank 0 ends: this record cannot be replayed")


def checked(run):
    rule = 'grep -q "sum 6" "$MBX_EXPLORE_STDOUT" && test "$MBX_EXPLORE_STATUS" = 0 && test -r "$MBX_EXPLORE_STDERR" && echo "run $MBX_EXPLORE_RUN"'
    said = run.runs(["--check", rule], ["213", "132"], FOUND)
    has(said, r"^run 1 of 2: passes the check, ", r"^explore: .*: 1 ends as run 1 does, 1 fails the check$",
        r"^  run 2: fails the check; the first event that differs .*\n    repeats in its replay; ")
    with open(f"{run.folder}/explore/order-1/check") as file:
        check(file.read() == "run 1\n", "the output of the check is not kept")


def repeats_sometimes(run):
    """The check fails for run 2, and for the second of its three replays."""
    rule = "echo >>explore/count; case $(wc -l <explore/count) in 2 | 4) exit 1 ;; esac"
    has(run.runs(["--check", rule], ["123", "213"], FOUND), r"^run 2 of 2: fails the check, .*; repeats in 1 of 3 replays$",
        r"^    fails in 1 of 3 replays; to repeat it: ")
    check(os.path.exists(f"{run.folder}/explore/order-2/replay-3-stdout"), "there is no third replay")


def first_fails(run):
    """The first run fails.  Each run starts a process that does not end by itself."""
    said = run.runs([], ["312", "312"], FOUND, ["sh", "-c", 'tail -f /dev/null & exec "$@"', "sh"])
    has(said, r"^explore: 2 runs, one order: all end as run 1 does \(exit status 1\)$", r"^  run 1: exit status 1\n    repeats in its replay; ")
    check("run 2:" not in said, said)
    has(said, r"mbx exec --replay explore/order-1 sh -c 'tail -f /dev/null & exec \"\$@\"' sh mpiexec ")


def limits(run):
    has(run.runs(["--limit", "4s"], ["123w"], FOUND), r"^explore: 1 run, .*: too long, stopped$")
    has(run.runs(["--force", "--time", "1ms"], ["123", "132"], 0), r"^explore: 1 of 2 runs, one order: exit status 0$")


def interrupted(run):
    with processes.started([run.mbx, "explore", "-n", "4", "--shuffle", "4", "--", *run.job(["123", "123w"])], cwd=run.folder, env=run.env,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as explore:
        output = f"{run.folder}/explore/order-2/stdout"
        while not os.path.exists(output) or "rank 0 is done" not in open(output).read():
            check(explore.poll() is None, "it ends by itself")
            time.sleep(0.05)
        explore.send_signal(signal.SIGINT)
        said = explore.stdout.read()
        check(explore.wait() == -signal.SIGINT, f"it ends with {explore.returncode}:\n{said}")
    has(said, r"^run 2 of 4: interrupted$", r"^explore: 1 of 4 runs, one order: exit status 0$")
    run.is_clean()


def refused(run, status, text, words):
    done = run.words([run.mbx, "explore", *words])
    check(done.returncode == status and text in done.stderr, f"{words}: status {done.returncode}, not '{text}':\n{done.stdout}{done.stderr}")
    check(done.stderr.count(text) == 1, f"not once:\n{done.stderr}")


def refusals(run):
    job = run.job(["123"])
    for status, text, words in (
            (2, "COMMAND is missing", []),
            (2, "--runs takes a number from 1 to ", ["-n", "0", *job]),
            (2, "--output is sorted, same or none, not 'some'", ["--output=some", *job]),
            (1, "nothing-like-it", ["--", "nothing-like-it"]),
            (1, "cannot make the folder /dev/null/x", ["--into", "/dev/null/x", *job]),
            (1, "--mca pml ob1", ["--", "mpiexec", "--mca", "pml", "ob1", *job[1:]])):
        refused(run, status, text, words)
    run.is_clean()
    check(not os.listdir(run.folder), f"a refusal leaves {os.listdir(run.folder)}")
    refused(run, 1, "run 1 has left no record: no rank came to MPI_Init over Matchbox", ["--", "true"])
    refused(run, 1, "explore is not empty: name another folder with --into, or --force removes", job)


def forced(run):
    """Only what it has made is removed."""
    os.makedirs(f"{run.folder}/explore/order-1")
    open(f"{run.folder}/explore/order-1/stdout", "w").close()
    refused(run, 1, "--force: explore is not a folder that mbx explore has made, and stays", ["--force", *run.job(["123"])])
    check(os.path.exists(f"{run.folder}/explore/order-1/stdout"), "--force removes files of others")
    shutil.rmtree(f"{run.folder}/explore")
    run.runs([], ["123", "123"], 0)
    open(f"{run.folder}/explore/order-2/mine", "w").close()
    run.runs(["--force"], ["123"], 0)
    check(os.listdir(f"{run.folder}/explore/order-2") == ["mine"], f"order-2 has {os.listdir(run.folder + '/explore/order-2')}")


def forced_words(run, case, *options):
    shutil.rmtree(f"{run.folder}/explore", ignore_errors=True)
    for name in glob.glob(f"{run.folder}/file?"):
        os.unlink(name)
    program = os.path.join(os.path.dirname(run.program), "forced")
    return [run.mbx, "explore", "-n", "40", "--limit", f"{PATIENCE_S}s", *options, "--", "mpiexec", "--oversubscribe", "-n", "4", program, case,
            f"{run.folder}/file"]


def forced_runs(run, case, *options, status=FOUND, also=FOUND):
    """Explores a case of forced.c.  Returns what is said, and what each run printed as its order."""
    done = run.words(forced_words(run, case, *options))
    check(done.returncode in (status, also) and done.stderr == "", f"{case} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    orders = []
    for number in range(1, len(re.findall(r"^run \d+ of ", done.stdout, re.M)) + 1):
        with open(f"{run.folder}/explore/order-{number}/stdout") as file:
            orders += re.findall(r"^order (\S*)$", file.read(), re.M)
    return done.stdout, orders


def all_orders(run, case, wanted, *options, status=FOUND):
    """Each order occurs once, and then nothing is left to be tried."""
    said, orders = forced_runs(run, case, "--output=none", *options, status=status, also=status)
    check(sorted(orders) == sorted(wanted), f"{case}: the orders are {orders}:\n{said}")
    has(said, rf"^explore: {len(wanted)} runs, {len(wanted)} different orders, and no other is known: ")
    check("not enforced" not in said, said)
    run.is_clean_but_for_file()
    return said


def exhausted(run):
    """All orders are found, and the wrong one among them."""
    said = all_orders(run, "three", ["123", "132", "213", "231", "312", "321"])
    check(said.count("repeats in its replay\n") == said.count("; repeats in its replay"), said)
    has(said, r"exit(?:s with)? status 1")
    all_orders(run, "pairs", ["2323", "2332", "3223", "3232"])
    all_orders(run, "probe", ["1", "2"], status=0)
    all_orders(run, "open", ["12", "21"], status=0)
    all_orders(run, "reversed", ["12", "21"], status=0)


def only_after_another(run):
    """Messages that are sent only in some orders."""
    all_orders(run, "nested", ["12", "2113", "2131"])


def named(run):
    """The report names what was forced."""
    said, orders = forced_runs(run, "reversed")
    other = orders[1][0]
    has(said, rf"^  run 2: other output: 'order {orders[1]}' \(run 1: 'order {orders[0]}'\); the first event that differs from run 1: rank 0, event 1: ",
        rf"^    forced: event 1 of rank 0, receive.* \(MPI_Recv from any source, tag 7, on .*\), takes rank {other}'s message.* instead of rank {orders[0][0]}'s",
        "^    repeats in its replay; to repeat it: mbx exec --replay explore/order-2 mpiexec ")


def ends(run):
    """A deadlock, and an abort whose status is 0."""
    said, _ = forced_runs(run, "deadlock", "--output=none")
    has(said, r"^explore: 2 runs, 2 different orders, and no other is known: ", "deadlock")
    said, _ = forced_runs(run, "aborted", "--output=none")
    has(said, r"^explore: 2 runs, 2 different orders, and no other is known: ", r"^run \d of 40: exit status 0 before MPI_Finalize, ")


def not_enforced(run):
    """A rank waits for another without a message: the match does not happen."""
    said, orders = forced_runs(run, "file", status=0, also=0)
    check(orders == ["12"], orders)
    has(said, r"^run 2 of 40: not enforced, ", r"^explore: 2 runs, one order, and no other is known: all end as run 1 does \(exit status 0\), 1 not enforced$")


def threads(run):
    """Nothing can be forced if a second thread receives, and this is said."""
    done = run.words([run.mbx, "explore", "--", *run.job(["123t"])])
    check(done.returncode == 0 and done.stderr == "", f"it ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    has(done.stdout, r"^explore: 1 run, one order: exit status 0$", r"^  no message can be forced: calls of several threads")


def mixed(run):
    """At most one forced match: the order that needs two is not found."""
    said, orders = forced_runs(run, "pairs", "--output=none", "--mix", "1", status=0)
    check(len(orders) == 3 and len(set(orders)) == 3, f"{orders}:\n{said}")
    has(said, r"^explore: 3 runs, 3 different orders, and \d+ other matches were not tried: ")


def reported_together(run):
    """A cut that has only one of the messages that a call reports does not have the call's result."""
    all_orders(run, "together", ["2", "3"], status=0)


def asked(run):
    """The same for a message that MPI_Request_get_status reports before MPI_Wait does."""
    all_orders(run, "asked", ["2", "3"], status=0)


def threaded(run):
    """A run with races has one sequence of events, also with MPI_THREAD_MULTIPLE, and so has its replay."""
    said, orders = forced_runs(run, "threaded")
    check(sorted(orders) == ["12", "21"], f"{orders}:\n{said}")
    has(said, "^run 2 of 40: .*; repeats in its replay$")


def trace_missing(run):
    """More orders are possible than are known: nobody may conclude that there are no others."""
    removes = 'rm -f "$(ls explore/order-$MBX_EXPLORE_RUN/matchbox-*.trace | tail -n 1)"'
    said, _ = forced_runs(run, "three", "--check", removes, status=INCOMPLETE, also=INCOMPLETE)
    has(said, "^  not complete: .*trace")
    check("no other is known" not in said, said)
    said, _ = forced_runs(run, "three", "--check", f"{removes}; false")
    has(said, "^  not complete: .*trace", "^  run 1: fails the check$")


def fails_early(run):
    """A run that fails by itself before the forced match is no run in which that match was not enforced."""
    said, _ = forced_runs(run, "early")
    has(said, "^run 2 of 40: exit status 5, ", "^explore: 2 runs, .*, 1 exits with status 5$")
    check("not enforced" not in said, said)


def cut_not_written(run):
    """A search that cannot go on says so, and its status is not the one of a search that has found nothing."""
    done = run.words(forced_words(run, "three", "--check", "mkdir -p explore/order-2 && : >explore/order-2/cut"))
    check(done.returncode == 1, f"it ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    has(done.stderr, "^mbx explore: cannot write the record of rank 0 to explore/order-2/cut: Not a directory$")


def no_space(run):
    """The record with which run 2 is to begin does not fit: no file of mbx explore may be longer than one without events."""
    limits = f'{sys.executable} -c "import resource, sys; resource.prlimit(int(sys.argv[1]), resource.RLIMIT_FSIZE, ({EMPTY}, {EMPTY}))" $PPID'
    done = subprocess.run(forced_words(run, "three", "--check", limits), cwd=run.folder, env=run.env, stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, check=False, preexec_fn=lambda: signal.signal(signal.SIGXFSZ, signal.SIG_IGN))
    check(done.returncode == 1, f"it ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    has(done.stderr, r"\Ambx explore: cannot write the record of rank 0 to explore/order-2/cut: File too large\n\Z")
    has(done.stdout, "^explore: 1 of 40 runs, one order, and 2 other matches were not tried: passes the check$")


def needless(run):
    """The run that fails first has three forced matches, of which one matters.  This one alone is tried after it, and named."""
    said, _ = forced_runs(run, "needless", "--output=none", "-n", "6")
    has(said, r"^  run 4: .*\n(?:    forced: event [456] of rank 0, .*\n){3}    fails with fewer forced matches: run 6\n",
        r"^  run 6: .*\n    forced: event 6 of rank 0, .* takes rank 2's message.*\n    repeats in its replay; ")
    check(said.count("fails with fewer forced matches: run 6\n") == 2, said)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    if shutil.which("mpiexec") is None:
        return 77
    tests = [search, shuffled, outputs, not_replayable, checked, repeats_sometimes, first_fails, limits, interrupted, refusals, forced, exhausted, only_after_another, named, ends,
             not_enforced, threads, mixed, reported_together, asked, threaded, trace_missing, fails_early, cut_not_written, no_space, needless]
    for test in [test for test in tests if test.__name__ in sys.argv[2:] or not sys.argv[2:]]:
        with tempfile.TemporaryDirectory() as folder:
            run = Explore(os.path.abspath(sys.argv[1]), folder)
            try:
                test(run)
            except Failed as failed:
                print(f"{test.__name__}: {failed}", file=sys.stderr)
                return 1
            finally:
                processes.kill_marked(run.word)
        print(f"ok {test.__name__}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
