#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""races_test.py BUILD [NAME...] - mbx exec --races and mbx races tell which receives could have matched another message.

The program is races.c.  Where its messages come in a certain order, files order them, of which the report knows nothing: so
nothing here depends on time.
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
import processes  # noqa: E402

FOUND = 3
SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "races.c")
NEVER = "    the other order was never seen$"


class Failed(Exception):
    pass


def check(condition, text):
    if not condition:
        raise Failed(text)


def has(said, *patterns):
    for pattern in patterns:
        check(re.search(pattern, said, re.M), f"'{pattern}' is not in:\n{said}")


class Races:
    """Runs in a folder of their own."""

    def __init__(self, build, folder):
        self.mbx = os.path.join(build, "tools/mbx")
        self.program = os.path.join(build, "tests/mpi/races")
        self.folder = folder
        self.word = f"RACES_TEST={folder}"
        self.env = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", RACES_TEST=folder)
        self.env.pop("OMPI_MCA_coll", None)

    def mbx_is(self, words, status):
        done = subprocess.run([self.mbx, *words], cwd=self.folder, env=self.env, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        check(done.returncode == status, f"{words} ended with {done.returncode}, not {status}:\n{done.stdout}{done.stderr}")
        return done

    def job(self, case, *order):
        for name in ("0", "1"):
            if os.path.exists(f"{self.folder}/{name}"):
                os.unlink(f"{self.folder}/{name}")
        return ["mpiexec", "--oversubscribe", "-n", "3", self.program, self.folder, case, *order]

    def run(self, case, *order, into="run", options=()):
        """Returns the last line of mbx exec."""
        done = self.mbx_is(["exec", *options, f"--races={into}", *self.job(case, *order)], 0)
        has(done.stderr, r"collectives use messages \(OMPI_MCA_coll=\^sm,")
        return done.stderr.splitlines()[-1]

    def report(self, *folders, status=FOUND, options=()):
        done = self.mbx_is(["races", *options, *(folders or ["run"])], status)
        check(done.stderr == "", done.stderr)
        return done.stdout


def line_of(text):
    """Where it is in races.c, as the report says it, if it can read lines."""
    with open(SOURCE, encoding="utf-8") as file:
        lines = file.read().splitlines()
    return next(f"races.c:{number}" for number, line in enumerate(lines, 1) if text in line)


def call(kind, where, name, wanted="tag 7", comm="MPI_COMM_WORLD"):
    """The pattern of a line."""
    return rf"^{kind} at {re.escape(line_of(where))} \({name} from any source, {wanted}, on {comm}\), "


PUT = "MPI_Send(&rank, 1, MPI_INT, to, tag"
GET_ANY = "MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, DATA"
ONE = r"matchbox: 1 receive could have matched differently \(1 in an order that was never seen\): mbx races run$"


def race(run):
    has(run.run("race"), ONE)
    said = run.report()
    has(said, call("receive", GET_ANY, "MPI_Recv") + "2 times, rank 0\n"
        rf"  once: another rank's message could have come first \(both: MPI_Send at {re.escape(line_of(PUT))}\)\n"
        r"    first at event 1 of rank 0: rank ([12])'s was taken, rank ([12])'s could have come first$", NEVER)
    check("no race" not in said and "not c" not in said, said)


def kinds(run):
    """Every kind of call that is recorded."""
    for case, kind, where, name in (("probe", "probe", "MPI_Probe(MPI_ANY", "MPI_Probe"), ("matched_probe", "probe", "MPI_Mprobe(MPI_ANY", "MPI_Mprobe"),
                                    ("persistent", "receive", "MPI_Start(&", "MPI_Start"), ("both", "receive", "MPI_Irecv(&values", "MPI_Irecv")):
        run.run(case, into=case)
        has(run.report(case), call(kind, where, name) + "2 times, rank 0\n  once: ", NEVER)


def late(run):
    """It is complete when rank 2 is told to send, and no call has said so."""
    run.run("late")
    said = run.report()
    has(said, call("receive", "MPI_Irecv(&value, 1, MPI_INT, MPI_ANY_SOURCE, DATA, MPI_COMM_WORLD, &request)", "MPI_Irecv") + "once, rank 0\n",
        "rank 1's was taken, rank 2's could have come first", "^no race in this run: 1 other receive or probe")


def asked(run):
    """MPI_Request_get_status has said that it is complete."""
    has(run.run("asked"), "^matchbox: no receive could have matched differently in this run: mbx races run$")
    has(run.report(status=0), r"^no race in this run: 2 .* from any source, 2 times\n\Z")


def different(run):
    run.run("different")
    said = run.report()
    has(said, call("receive", "MPI_ANY_TAG, work", "MPI_Recv", "any tag", "work"),
        r"  once: it took a message \(tag [79], MPI_Send at races.c:\d+\)\n    where another rank's could have come first \(tag [79], MPI_Send at races.c:\d+\)$",
        "    the other order was never seen, and the two sends differ: look here first$", "    these messages have no data$")


def standard(run):
    run.run("standard")
    has(run.report(), NEVER)


def no_race(run):
    for case in ("handshake", "one_sender", "synchronous", "waited_synchronous", "persistent_synchronous", "barrier", "nonblocking_barrier"):
        has(run.run(case, into=case), rf"^matchbox: no receive could have matched differently in this run: mbx races {case}$")
        has(run.report(case, status=0), r"^no race in this run: 1 receive or probe from any source, 2 times\n\Z")
    has(run.report("handshake", status=0, options=["--all"]), r"^  receive at races.c:\d+ \(MPI_Recv from any source, tag 7, on MPI_COMM_WORLD\), 2 times, rank 0$")


def reported(run):
    """Each call that reports a completion makes a handshake."""
    run.run("reported")
    has(run.report(status=0), r"^no race in this run: 1 receive or probe from any source, 7 times\n\Z")


def both_orders(run):
    """Two runs in one order, one in the other."""
    for into, order in (("one", "12"), ("two", "12"), ("three", "21")):
        run.run("ordered", order, into=into)
    has(run.report("one", "two"), "  2 times: another", "first at event 1 of rank 0 in one: rank 1's was taken, rank 2's could", NEVER)
    has(run.report("one", "three"), "  2 times: another", "^    the other order was also seen$")


def replayed(run):
    """A replay posts exact receives, and has the same races; a shuffled run has some."""
    run.run("ordered", "21")
    before = run.report()
    run.run("race", into="shuffled", options=["--shuffle", "3"])
    has(run.report("shuffled"), "  once: another rank's message could have come first", NEVER)
    run.run("race", into="again", options=["--replay", "shuffled"])
    check(run.report("again") == run.report("shuffled"), f"{run.report('again')}\n{run.report('shuffled')}")
    check(before.count("rank 2's was taken") == 1, before)


def as_json(run):
    run.run("ordered", "21")
    what = json.loads(run.report(options=["--json"]))
    check(what["unchecked"] == 0 and what["undecided"] == 0 and what["problems"] == [], str(what))
    one = what["calls"][0]
    check(one["times"] == 2 and one["races"] == 1 and one["groups"][0]["first"]["event"] == 1, str(what))
    check(one["groups"][0]["first"]["taken_rank"] == 2 and one["groups"][0]["first"]["other_rank"] == 1, str(what))


def trace_of(run, folder, rank):
    for name in sorted(os.listdir(f"{run.folder}/{folder}")):
        if not name.endswith(".trace"):
            continue
        with open(f"{run.folder}/{folder}/{name}", "rb") as file:
            if int.from_bytes(file.read(20)[16:], "little") == rank:
                return f"{run.folder}/{folder}/{name}"
    raise Failed(f"no trace of rank {rank}")


def incomplete(run):
    """A file that is missing, cut or of another run is named."""
    run.run("race")
    run.run("handshake", into="other")
    for number, (rank, spoil, said) in enumerate((
            (1, os.unlink, "there is no trace of rank 1$"),
            (0, os.unlink, "there is no trace of rank 0$"),
            (2, lambda path: os.truncate(path, os.path.getsize(path) - 20), r"matchbox-\S*\.trace: at offset \d+: the file ends"),
            (1, lambda path: os.truncate(path, 10), r"\.trace: at offset 10: the file ends within the header"))):
        folder = f"copy{number}"
        shutil.copytree(f"{run.folder}/run", f"{run.folder}/{folder}")
        spoil(trace_of(run, folder, rank))
        has(run.report(folder, status=1), "^not complete: .*" + said)
    shutil.copytree(f"{run.folder}/run", f"{run.folder}/records")
    os.unlink(f"{run.folder}/records/rank-0.mbxrec")
    has(run.report("records", status=1), r"^not complete: records/rank-0.mbxrec: No such file")
    shutil.copy(f"{run.folder}/other/rank-0.mbxrec", f"{run.folder}/records/rank-0.mbxrec")
    has(run.report("records", status=1), "^not complete: rank 0: its trace and its record are of two runs$")
    os.mkdir(f"{run.folder}/empty")
    has(run.report("empty", status=1), "^not complete: empty: there are no traces: mbx exec --races=DIR writes them$")
    has(run.report("nowhere", status=1), r"\Anot complete: nowhere: No such file or directory\n\Z")
    has(run.report(SOURCE, status=1), r"\Anot complete: \S*/races.c: Not a directory\n\Z")


def damaged(run):
    """Any byte of a trace may be wrong: nothing but a report, or a problem."""
    run.run("different")
    path = trace_of(run, "run", 0)
    with open(path, "rb") as file:
        whole = bytearray(file.read())
    for at in range(0, len(whole), 97):
        spoiled = bytearray(whole)
        spoiled[at] ^= 0x5a
        with open(path, "wb") as file:
            file.write(spoiled)
        done = subprocess.run([run.mbx, "races", "run"], cwd=run.folder, env=run.env, capture_output=True, text=True)
        check(done.returncode == 1 and "not complete: " in done.stdout and done.stderr == "", f"byte {at}: {done.returncode}\n{done.stdout}{done.stderr}")


def refusals(run):
    for status, said, words in (
            (2, "DIR is missing", ["races"]),
            (2, "--races records into its own folder: leave --record out", ["exec", "--races", "--record", "x", "true"]),
            (2, "--print takes no --record, --replay, --shuffle or --races", ["exec", "--races", "--print"])):
        has(run.mbx_is(words, status).stderr, re.escape(said))
    run.run("race")
    has(run.mbx_is(["exec", "--races=run", *run.job("race")], 1).stderr, "run has records already; name another folder, or --force replaces them")
    for name in os.listdir(f"{run.folder}/run"):
        if not name.endswith(".trace"):
            os.unlink(f"{run.folder}/run/{name}")
    has(run.mbx_is(["exec", "--races=run", *run.job("race")], 1).stderr, "run has traces already; name another folder, or --force replaces them")
    run.run("race", options=["--force"])
    has(run.report(), "  once: another")
    run.env["OMPI_MCA_coll"] = "^sm"
    has(run.mbx_is(["exec", "--races=more", *run.job("race")], 0).stderr, r"--races: OMPI_MCA_coll=\^sm stays: the order that collectives make is known only if")
    has(run.mbx_is(["exec", "--summary", "--races=sum", *run.job("race")], 0).stderr, r"3 ranks over Matchbox.*\nmatchbox: 1 receive could")


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    if shutil.which("mpiexec") is None:
        return 77
    tests = [race, kinds, late, asked, different, standard, no_race, reported, both_orders, replayed, as_json, incomplete, damaged, refusals]
    for test in [test for test in tests if test.__name__ in sys.argv[2:] or not sys.argv[2:]]:
        with tempfile.TemporaryDirectory() as folder:
            run = Races(os.path.abspath(sys.argv[1]), folder)
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
