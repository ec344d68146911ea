#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""hosts_test.py MBX STUCK_PROGRAM [NAME...] - `mbx doctor` and `mbx queues` of a job whose ranks are on several hosts.

Three hosts that scripts/hosts/netns-hosts makes, with two ranks of a job on each: the processes of each host have numbers of their own, the
same on all of them, and a host sees none of another one.  A launcher is what enters a host, in place of ssh, or Open MPI's mpiexec.  Exit code 77 if
hosts cannot be made here, or if there is no mpiexec.
"""
import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
import processes  # noqa: E402
from looks import looks  # noqa: E402
from patience import PATIENCE_S  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
HOSTS = os.path.join(HERE, "../../scripts/hosts/netns-hosts")
SCHEMA = os.path.join(HERE, "../../docs/reference/queues.schema.json")
NAMES = ["h1", "h2", "h3"]
PATIENT = ["--launch-wait", str(PATIENCE_S * 1000)]
MISSES = 5   # looks at a ring that do not name it without giving a reason: perhaps only one rank answered the second time
SILENT = 3   # looks at a job that is not deadlocked
NOT_HERE = 77


class Failed(Exception):
    pass


def expect(condition, what, text=""):
    if not condition:
        raise Failed(f"{what}\n{text}")


def outside(args):
    """Makes the hosts and runs the test inside them."""
    if shutil.which("mpiexec") is None:
        print("hosts_test: there is no mpiexec")
        return NOT_HERE
    with subprocess.Popen([HOSTS, "-n", str(len(NAMES)), sys.executable, os.path.abspath(__file__), "--within", args.mbx, args.program,
                           *args.names]) as process:
        return process.wait()


def enter(host):
    return f"{HOSTS} enter {host}"


def run(*words):
    result = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return result.returncode, result.stdout, result.stderr


class Job:
    """Six ranks; each has printed that it is ready."""

    def __init__(self, args, pattern, hosts="h1:2,h2:2,h3:2", **environment):
        self.process = subprocess.Popen(["mpiexec", "--host", hosts, "-n", "6", args.program, pattern], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
                                        env={**os.environ, **environment})
        for _ in range(6):
            line = self.process.stdout.readline()
            if not line:
                raise Failed(f"the job ends with {self.process.wait()}: {self.process.stderr.read()}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.communicate()


def doctor(args, *options, launch=None, hosts=NAMES):
    where = ["--launch", launch] if launch else ["--hosts", ",".join(hosts), "--launch", enter("%h")]
    return run(args.mbx, "doctor", *PATIENT, "--wait", "10000", *where, *options)


def until(look, is_right, is_wrong):
    """Returns the result of look() once it is right.  Failed if it is wrong, or never right."""
    result = None
    for _ in looks():
        result = look()
        if is_right(result):
            return result
        if is_wrong(result):
            break
    raise Failed("the doctor says: %d\n%s%s" % result)


# The reasons why a look at a deadlock does not name it: a host or a rank has not answered, or has changed meanwhile.
REASON = re.compile(r"has not answered|are not seen|on their way|^rank \d+ \(pid \d+ on h\d\) (computes|sleeps|waits for|cannot be read|has ended)", re.M)


def until_ring(look):
    """As until(); the look names the ring.  It also fails if too many looks miss the ring without a reason."""
    misses = []

    def is_wrong(result):
        if result[0] == 0 and not REASON.search(result[1]):
            misses.append(result[1])
        expect(len(misses) <= MISSES, f"{len(misses)} looks miss the ring, and do not say why", "".join(misses))
        return result[0] not in (0, 1, 3) or (result[0] == 1 and "has not answered" not in result[1])

    return until(look, is_ring, is_wrong)


def named(text):
    return sorted(int(rank) for rank in re.findall(r"^rank (\d+) \(pid \d+ on h[123]\) is in", text, re.M))


RING = "cycle: 0 -> 5 -> 4 -> 3 -> 2 -> 1 -> 0"


def is_ring(result):
    return result[0] == 3 and named(result[1]) == [0, 1, 2, 3, 4, 5] and RING in result[1] and "deadlock of 6 of 6 ranks" in result[1]


def test_ring(args):
    """One command names the ranks that wait in a ring over three hosts."""
    with Job(args, "ring_of_receives"):
        result = until_ring(lambda: doctor(args))
        expect(set(re.findall(r"^rank (\d) \(pid \d+ on (h\d)\)", result[1], re.M)) ==
               {(str(rank), NAMES[rank // 2]) for rank in range(6)}, "ranks are on other hosts", result[1])
        pids = re.findall(r"\(pid (\d+) on", result[1])
        expect(len(set(pids)) < 6, "no two hosts have processes of one number: they are one host", result[1])
        # one launcher that starts mbx on all hosts; twice on each
        for count in ("3", "6"):
            until_ring(lambda: doctor(args, launch=f"mpiexec --host h1:2,h2:2,h3:2 --map-by node -n {count}"))
        # a launcher for each host; and one that prints labels before the lines
        each = [word for host in NAMES for word in ("--launch", enter(host))]
        until_ring(lambda: run(args.mbx, "doctor", *PATIENT, *each))
        # this launcher leaves a process that keeps its standard error open
        stays = f"sh -c 'sleep infinity >/dev/null & exec \"$@\"' sh {enter('%h')}"
        result = until_ring(lambda: run(args.mbx, "doctor", "--hosts", ",".join(NAMES), "--launch", stays, *PATIENT))
        expect("has not answered" not in result[1], "mbx waited for a process that a launcher has left", result[1])
        until_ring(lambda: doctor(args, "--rounds", "3"))
        check_alone(args)
        check_silent(args)
        check_queues(args)


def check_alone(args):
    """A host alone, or the host of the tool, sees no ranks of other hosts."""
    expect(run(args.mbx, "doctor")[0] == 1, "the head sees ranks of hosts")
    result = doctor(args, hosts=["h2"])
    expect(result[0] == 0 and "no rank is deadlocked" in result[1] and "4 of its 6 ranks are not seen (0, 1, 4, 5)" in result[1],
           "one host knows more than its own ranks", result[1])


def check_silent(args):
    """Some hosts do not answer: their ranks are unknown, and a rank that waits for them is not called deadlocked."""
    sleep = f"sleep 1000.{os.getpid()}"  # an argument that no other process has
    # the longer the wait, the more have answered on a busy machine; the sleeping one never does
    for silent, why in ((f"{HOSTS} enter h9", "exit status 2"), ("/nowhere/ssh h3", "exit status 127: /nowhere/ssh: No such file"),
                        (f"{enter('h3')} 'echo gone >&2; exit 9;'", "exit status 9: gone"), ("echo hello", "it has printed no snapshot"),
                        (f"{enter('h3')} 'exec {sleep};'", "no answer within ")):
        for look in looks():
            result = run(args.mbx, "doctor", "--wait", "5000", "--launch", enter("h1"), "--launch", enter("h2"), "--launch", silent, "--launch-wait",
                         str(min(4 << look, PATIENCE_S) * 1000) if "sleep" in silent else str(PATIENCE_S * 1000))
            if result[1].count("has not answered") == 1:
                break
        expect(result[0] == 1 and f" has not answered: {why}" in result[1] and "its ranks are not known" in result[1],
               f"'{silent}' is not said to be silent", "%d\n%s%s" % result)
        expect("no rank is deadlocked" in result[1] and "2 of its 6 ranks are not seen (4, 5)" in result[1], f"'{silent}': who is deadlocked",
               "%d\n%s%s" % result)
    expect(any(not processes.running(*sleep.split()) for _ in looks()), "a launcher is left")


def check_queues(args):
    """The queues of all hosts: JSON follows the schema, and a damaged snapshot is refused."""
    result = run(args.mbx, "queues", *PATIENT, "--json", "--details", "--stats", "--hosts", ",".join([*NAMES, "h9"]), "--launch", enter("%h"))
    expect(result[0] == 1 and "h9 has not answered" in result[2], "mbx queues", "%d\n%s%s" % result)
    merged = json.loads(result[1])
    check_schema(merged)
    expect([(h["host"], h["answered"]) for h in merged["hosts"] if h["answered"]] == [(name, True) for name in NAMES], "hosts", result[1])
    ranks = merged["jobs"][0]["ranks"]
    expect([(r["rank"], r["host"]) for r in ranks] == [(i, NAMES[i // 2]) for i in range(6)], "ranks", result[1])
    expect([[e["rank"] for e in r["entries"]] for r in ranks] == [[(i + 5) % 6] for i in range(6)], "whom they wait for", result[1])
    expect(all(r["statistics"].startswith("endpoint rank=") for r in ranks), "statistics", result[1])
    result = run(args.mbx, "queues", *PATIENT, "--hosts", ",".join(NAMES), "--launch", enter("%h"))
    expect(result[0] == 0 and "6 of 6 ranks on 3 hosts" in result[1] and re.search(r"rank 0  pid \d+ on h1 .*\n  posted +from 5, tag 1", result[1]),
           "mbx queues", "%d\n%s%s" % result)
    check_damaged(args)


def check_damaged(args):
    """A snapshot of h3 that is changed on its way is ignored."""
    whole = run(HOSTS, "enter", "h3", args.mbx, "queues", "--snapshot", "--details")[1]
    lines = whole.splitlines()
    expect(len(lines) > 3 and all(len(line) == 511 for line in lines), "the lines of a snapshot", whole)
    text = re.sub(r"(?m)^@mbx1 \S+ \d+ \d+ \d+ (.*) [0-9a-f]{8} *$\n", r"\1", whole)
    check_schema(json.loads(text))
    newer = text.replace('"format":1,"matchbox":"' + json.loads(text)["matchbox"], '"format":2,"matchbox":"9.9.9')
    older = text.replace('"hosts":[{', '"hosts":[{"came":[{"later":1}],').replace('"matchbox":"', '"matchbox":"0.0.9-', 2)
    with tempfile.TemporaryDirectory() as folder:
        for what, snapshot, says in (
                ("all", whole, None), ("labels", "".join(f"[1,2]<stdout>: {line}\r\n" for line in ["motd", *lines, "bye"]), None),
                ("a newer one with more fields", framed(older), "h3 has mbx 0.0.9-"),
                ("cut", "\n".join(lines[:-1]), "1 answers are damaged"), ("swapped", "\n".join([lines[1], lines[0], *lines[2:]]), "1 answers are damaged"),
                ("one byte", whole.replace('"endpoint":', '"endpoinT":', 1), "1 answers are damaged"),
                ("another format", framed(newer), "h3 has mbx 9.9.9, whose snapshots are of version 2; mbx "),
                ("other lines", whole.replace("@mbx1 ", "@mbx2 "), "its mbx writes snapshots in lines of version 2"),
                ("no JSON", framed(text[:-1]), "it is cut short"), ("a huge number", framed(re.sub(r'"pid":\d+', '"pid":4294967297', text)), "a number is too large, in 'pid'"),
                ("a wrong field", framed(text.replace('"kind":"posted"', '"kind":7')), "no text where one is expected, in 'kind'"),
                ("no field", framed(text.replace('"cancelled"', '"cancelleD"')), "there is no field 'cancelled'")):
            path = os.path.join(folder, "snapshot")
            with open(path, "w") as file:
                file.write(snapshot)
            shim = os.path.join(folder, "shim")
            with open(shim, "w") as file:
                file.write(f"#!/bin/sh\nexec cat {path}\n")
            os.chmod(shim, 0o755)
            result = run(args.mbx, "queues", *PATIENT, "--launch", enter("h1"), "--launch", enter("h2"), "--launch", shim)
            count = "6 of 6 ranks on 3 hosts" if says is None or "mbx 0.0.9" in says else "4 of 6 ranks on 2 hosts"
            expect(count in result[1] and (says is None or says in result[2]), f"a snapshot, {what}", "%d\n%s%s" % result)


def framed(text, size=400, stream=0xaa):
    """Frames text as mbx does (tools/queues/snapshot.h)."""
    count, lines = (len(text) + size - 1) // size, ""
    for number in range(count):
        part = text[number * size:(number + 1) * size]
        line, check = f"@mbx1 {stream:016x} {number} {count} {len(part)} {part}", 0x811c9dc5
        for byte in line.encode():
            check = (check ^ byte) * 0x01000193 & 0xffffffff
        lines += f"{line} {check:08x}\n"
    return lines


def check_schema(document):
    try:
        import jsonschema
    except ImportError:
        print("hosts_test: python3-jsonschema is not installed: the schema is not looked at")
        return
    with open(SCHEMA) as file:
        jsonschema.validate(document, json.load(file))


def look_without_deadlock(args, looks):
    for _ in range(looks):
        result = doctor(args, "--between", "50")
        expect(result[0] == 0 and "no rank is deadlocked" in result[1], "a job that goes on is accused", "%d\n%s%s" % result)


def test_goes_on(args):
    """No rank is accused in a running job, nor while the network between its hosts is interrupted and messages are under
    way."""
    with Job(args, "running_ring"):
        look_without_deadlock(args, 1)  # a look takes long if six ranks have two cores
    with Job(args, "resting_ring"):
        look_without_deadlock(args, SILENT)
        result = doctor(args, "--between", "10", "--rounds", "5")
        expect(result[0] == 0 and "5 rounds: no rank was deadlocked" in result[1], "a job that goes on is accused", "%d\n%s%s" % result)
        expect(run(HOSTS, "cut", "h2")[0] == 0, "cut")
        result = until(lambda: doctor(args), lambda r: "messages are on their way between its hosts" in r[1], lambda r: r[0] != 0)
        expect("no rank is deadlocked" in result[1], "a job whose network is interrupted is accused", result[1])
        expect(run(HOSTS, "mend", "h2")[0] == 0, "mend")


def test_all(args):
    """With --all, mbx finds the hosts in what Open MPI has told its ranks, and the command that reaches them."""
    names = ["head", "h1", "h2"]
    with Job(args, "ring_of_receives", ",".join(f"{name}:2" for name in names)):
        result = until(lambda: run(args.mbx, "doctor", "--all", *PATIENT, "--wait", "10000"),
                       lambda r: r[0] == 3 and "deadlock of 6 of 6 ranks" in r[1] and RING in r[1], lambda r: r[0] not in (0, 3))
        expect(set(re.findall(r"^rank (\d) \(pid \d+ on (\w+)\)", result[1], re.M)) == {(str(rank), names[rank // 2]) for rank in range(6)},
               "ranks are on other hosts", result[1])
        result = run(args.mbx, "queues", "--all", *PATIENT)
        expect(result[0] == 0 and "6 of 6 ranks on 3 hosts" in result[1], "mbx queues", "%d\n%s%s" % result)
        launch = f"sh -c 'test %h != h2 || exit 9; exec {enter('%h')} \"$@\"' sh"
        result = run(args.mbx, "doctor", "--all", "--launch", launch, *PATIENT, "--wait", "10000")
        expect(result[0] == 1 and "h2 has not answered: exit status 9; its ranks are not known" in result[1] and
               "2 of its 6 ranks are not seen (4, 5)" in result[1], "h2 is not said to be silent", "%d\n%s%s" % result)
        result = run(HOSTS, "enter", "h3", args.mbx, "doctor", "--all")
        expect(result[0] == 1 and "--all finds no job of this user over Matchbox on this host" in result[2], "a host without ranks", "%d\n%s%s" % result)


def test_not_in_the_list(args):
    """--all asks this host also if the list of hosts does not have it, and uses the first agent that is there."""
    with tempfile.NamedTemporaryFile("w", suffix=".nodes") as nodes:
        nodes.write("h1\nh2\n")
        nodes.flush()
        agents = f"/nowhere/ssh : {os.environ['OMPI_MCA_plm_rsh_agent']}"
        with Job(args, "ring_of_receives", "head:2,h1:2,h2:2", PBS_NODEFILE=nodes.name, OMPI_MCA_plm_rsh_agent=agents):
            result = until(lambda: run(args.mbx, "doctor", "--all", *PATIENT, "--wait", "10000"),
                           lambda r: r[0] == 3 and "deadlock of 6 of 6 ranks" in r[1] and RING in r[1], lambda r: r[0] not in (0, 3))
            expect(set(re.findall(r"^rank (\d) \(pid \d+ on (\w+)\)", result[1], re.M)) ==
                   {(str(rank), ["head", "h1", "h2"][rank // 2]) for rank in range(6)}, "ranks are on other hosts", result[1])


def test_wrong_options(args):
    for words, says in ((["--hosts", "a,,b"], "--hosts takes names"), (["--hosts", "-oProxyCommand=x"], "--hosts takes names"),
                        (["--all", "--hosts", "a"], "--all finds the hosts"), (["--hosts", "a", "--hosts", "b"], "--hosts is given once"), (["--hosts", "a", "--launch", "ssh a"], "with %h"), (["--launch", "'ssh"], "takes a command line"),
                        (["--launch", " "], "takes a command line"), (["--launch-wait", "0", "--launch", "x"], "--launch-wait")):
        for tool in ("doctor", "queues"):
            result = run(args.mbx, tool, *words)
            expect(result[0] == 2 and says in result[2], f"{tool} {words}", "%d\n%s%s" % result)


TESTS = {"ring": test_ring, "goes_on": test_goes_on, "all": test_all, "not_in_the_list": test_not_in_the_list, "wrong_options": test_wrong_options}


def within(args):
    failed = []
    for name in args.names or TESTS:
        try:
            TESTS[name](args)
            print(f"{name}: right", flush=True)
        except Failed as why:
            print(f"{name}: {why}", flush=True)
            failed.append(name)
    print(f"hosts_test: {len(failed)} wrong {failed}")
    return bool(failed)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--within", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("mbx", type=os.path.abspath)
    parser.add_argument("program", type=os.path.abspath)
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    return (within if args.within else outside)(args)


if __name__ == "__main__":
    sys.exit(main())
