#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""queues_test.py MBX INSPECT_PROGRAM MSGQ MSGQ_HOST GDB_SCRIPT [--seeds N] [--count N] - `mbx queues` shows what is there, and harms nobody.

A job of two ranks prints what must be in its queues.  That is compared, entry by entry, with what `mbx queues --json`
says: when the ranks answer, when they are stopped and are read from outside, and of their core files; and with what libmatchbox-msgq.so
says to a debugger, and gdb to a user.  `--seeds 1000 --only same`
is the long form.
"""
import argparse
import atexit
import collections
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from looks import looks  # noqa: E402
from patience import PATIENCE_S  # noqa: E402

PAGE = 65536
ASK = 320
CAPACITY = 832  # entries in a page
SEEDS_OF_A_JOB = 50
PATIENCE_MS = str(PATIENCE_S * 1000)


class Job:
    """inspect_program under `mbx run`; once this object exists, its ranks are ready."""

    def __init__(self, args, seed, count, seeds=1, **environment):
        self.folder = tempfile.TemporaryDirectory()
        self.stop = os.path.join(self.folder.name, "stop")
        env = dict(os.environ, MBX_WINDOW="unlimited", MBX_WINDOW_PAYLOAD="unlimited", **environment)
        self.process = subprocess.Popen([args.mbx, "run", "-n", "2", "-l", args.program, str(seed), str(count), self.stop, str(seeds)],
                                        stdout=subprocess.PIPE, text=True, env=env)
        atexit.register(self.abandon)
        self.at = 0  # the current seed, counted from the first one
        self.pids = [0, 0]
        self.read(seed)

    def read(self, seed):
        """Reads what must be in the queues now."""
        self.expected = {0: [], 1: []}
        ready = 0
        while ready < 2:
            line = self.process.stdout.readline()
            if not line:
                raise SystemExit(f"seed {seed}: the job ends with {self.process.wait()}")
            label, words = line.split(" ", 1)
            words = words.split()
            if words[0] == "ready":
                self.pids[int(label.strip("[]"))] = int(words[1])
                ready += 1
            else:
                self.expected[int(label.strip("[]"))].append((words[0], *map(int, words[1:])))

    def next(self, seed):
        """Makes the ranks show the queues of the next seed."""
        self.go_on()
        self.read(seed)

    def go_on(self):
        open(f"{self.stop}.{self.at}", "w").close()
        self.at += 1

    def abandon(self):
        if self.process.poll() is None:
            self.process.terminate()
            for pid in self.pids:
                if pid:
                    os.kill(pid, signal.SIGCONT)
            self.process.wait()

    def end(self):
        status = self.end_later()
        self.folder.cleanup()
        return status

    def end_later(self):
        """Ends the job; its folder stays."""
        self.go_on()
        self.process.stdout.read()
        status = self.process.wait()
        ALL_PIDS.difference_update(self.pids)  # other processes may soon have these numbers
        return status


def queues(args, *options):
    return subprocess.run([args.mbx, "queues", *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def check_schema(args, text):
    """Checks against the schema of the repository; without python3-jsonschema it prints that it does not."""
    try:
        import jsonschema
    except ImportError:
        print("queues_test: python3-jsonschema is not installed: the schema is not looked at")
        return
    schema = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/reference/queues.schema.json")
    with open(schema) as file:
        jsonschema.validate(json.loads(text), json.load(file))


def seen(args, job=None, cores=(), schema=True):
    """Returns {rank: its JSON} of the only job, or of this job, or of these core files."""
    if job is None:  # jobs of others may not answer: waits only 1 ms for them
        shown = json.loads(queues(args, "--json", "--wait", "1").stdout)["jobs"]
        job = next((j["job"] for j in shown if any(r["pid"] in ALL_PIDS for r in j["ranks"])), None)
    of = [word for core in cores for word in ("--core", core)] or ["--wait", PATIENCE_MS]
    result = queues(args, "--json", *of, *(["--job", job] if job else []))
    check(result.returncode == 0, f"mbx queues: status {result.returncode}: {result.stdout[:500]}{result.stderr[-3000:]}")
    if schema:
        check_schema(args, result.stdout)
    mine = [j for j in json.loads(result.stdout)["jobs"] if any(r["pid"] in ALL_PIDS for r in j["ranks"])]
    check(len(mine) == 1, f"{len(mine)} jobs are seen: {result.stdout[:500]} {result.stderr}")
    return mine[0]["job"], {r["rank"]: r for r in mine[0]["ranks"]}


ALL_PIDS = set()


def check(condition, text):
    if not condition:
        print("queues_test: " + text, file=sys.stderr)
        raise SystemExit(1)


def entries(rank):
    return sorted((e["kind"], -1 if e["any_source"] else e["rank"], e["context"], e["tag"], e["ignore"], e["size"])
                  for e in rank["entries"])


def differ(got, want):
    """Returns the missing entries, and the entries that should not be there."""
    got, want = collections.Counter(got), collections.Counter(want)
    return list(want - got), list(got - want)


def compare(seed, how, ranks, expected):
    for rank in (0, 1):
        got, want = entries(ranks[rank]), sorted(expected[rank])
        check(ranks[rank]["seen"] == how, f"seed {seed}: rank {rank} was {ranks[rank]['seen']}, not {how}")
        missing, more = differ(got, want)
        if how == "asked" and len(want) > CAPACITY:  # a page has no more entries, and counts all
            counts = collections.Counter(e[0] for e in want)
            check(len(got) == CAPACITY and not more, f"seed {seed}: rank {rank}, {len(got)} are shown; not there {more[:3]}")
            check({k: n for k, n in ranks[rank]["counts"].items() if n} == counts, f"seed {seed}: rank {rank}, counts {ranks[rank]['counts']}, not {counts}")
            continue
        check(got == want, f"seed {seed}: rank {rank}, {how}: missing {missing[:3]}, not there {more[:3]}")


def page_of(pid):
    for name in os.listdir(f"/proc/{pid}/fd"):
        path = f"/proc/{pid}/fd/{name}"
        if os.readlink(path).startswith("/memfd:matchbox-inspect"):
            return path
    return None


def start(args, seed, count, seeds=1, **environment):
    ROOTS.clear()
    job = Job(args, seed, count, seeds, **environment)
    ALL_PIDS.update(job.pids)
    return job


def is_stopped(pid):
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rsplit(")", 1)[1].split()[0] == "T"


def same(args, first, seeds, count):
    """Uses one job for many seeds: starting it takes longer than reading it."""
    job = start(args, first, count, seeds)
    number = None
    for seed in range(first, first + seeds):
        if seed != first:
            job.next(seed)
        number = same_seed(args, job, number, seed)
    check(job.end() == 0, f"seeds {first} to {first + seeds - 1}: the job fails")


def same_seed(args, job, number, seed):
    number, ranks = seen(args, number, schema=number is None)
    compare(seed, "asked", ranks, job.expected)
    for pid in job.pids:
        os.kill(pid, signal.SIGSTOP)
    while not all(is_stopped(pid) for pid in job.pids):
        os.sched_yield()
    compare(seed, "read", seen(args, number, schema=False)[1], job.expected)
    check("is stopped" in queues(args, "--job", number).stdout, "the text does not say that they are stopped")
    for rank in (0, 1):
        compare_debugger(seed, "the library for debuggers", rank, msgq(args, job.pids[rank], others=job.pids), job.expected)
    if args.cores:
        paths = cores_of(job)
        compare(seed, "core", seen(args, number, paths)[1], job.expected)
        compare_debugger(seed, "gdb on a core file", 0, in_gdb(args, args.program, paths[0]), job.expected)
        compare_debugger(seed, "gdb", 1, in_gdb(args, "-p", str(job.pids[1])), job.expected)
        for path in paths:
            os.unlink(path)
    for pid in job.pids:
        os.kill(pid, signal.SIGCONT)
    compare(seed, "asked", seen(args, number, schema=False)[1], job.expected)
    return number


def ages(args):
    """The ages of entries: never too long, and growing, by each way of reading."""
    begin = time.monotonic()
    job = start(args, 7, 300)

    def look(*options, **more):
        number, ranks = seen(args, *options, **more)
        waited = {(rank, e["kind"] == "unexpected", e["id"]): e["waited_ms"] for rank in ranks for e in ranks[rank]["entries"]}
        limit = (time.monotonic() - begin) * 1000 + 1
        check(all(ms is None or 0 <= ms <= limit for ms in waited.values()), f"something waits for longer than {limit} ms: {waited}")
        return number, waited

    number, first = look()
    check(len(first) > 300, f"{len(first)} entries")
    last = {key: ms or 0 for key, ms in first.items()}
    for how in ("asked", "asked", "read", "core"):
        if how == "core" and not args.cores:
            continue
        if how == "read":
            for pid in job.pids:
                os.kill(pid, signal.SIGSTOP)
        paths = cores_of(job, "age") if how == "core" else ()
        for _ in looks():
            now = look(number, cores=paths)[1]
            check(set(now) == set(last), f"{how}: other entries are there")
            if how == "core":  # the time of its last look
                grown = all(now[key] is not None and now[key] <= last[key] for key in last)
                check(grown and any(now.values()), f"in core files {now} of {last}")
            else:
                check(all(now[key] is None or now[key] >= last[key] for key in last), f"{how}: {now} is younger than {last}")
                grown = all(now[key] is not None and now[key] > last[key] for key in last)
            if grown:
                break
        else:
            check(False, f"{how}: the entries do not grow older")
        last = {key: ms or 0 for key, ms in now.items()}
    for pid in job.pids:
        os.kill(pid, signal.SIGCONT)
    check(job.end() == 0, "a job whose ages were looked at fails")


# ---- debuggers ----


ROOTS = {}  # by pid, of the job that was started last


def root_of(pid):
    if pid not in ROOTS:
        ROOTS[pid] = find_root(pid)
    return ROOTS[pid]


def find_root(pid):
    """Returns the address of mbx_see_root in a process: of its mapped files, the first one that has it."""
    with open(f"/proc/{pid}/maps") as file:
        lines = [line.split(None, 5) for line in file]
    for line in lines:
        path = line[5].strip() if len(line) > 5 else ""
        if line[2] != "00000000" or not os.path.isfile(path):
            continue
        for option in ("-D", "-a"):
            names = subprocess.run(["nm", option, path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
            values = [n.split()[0] for n in names.splitlines() if n.endswith((" mbx_see_root", " mbx_see_root@@MATCHBOX_0"))]
            if values:
                return int(line[0].split("-")[0], 16) + int(values[0], 16)
    return 0


def debugger_entry(class_, rank, tag, size, text):
    """Parses KIND[, MORE]; context N tag N ignore 0xN into an entry as of entries()."""
    kind, envelope = text.rsplit("; ", 1)
    _, context, _, whole, _, ignore = envelope.split()
    kind = kind.split(",")[0].strip()
    check({"posted": "receive", "receiving": "receive", "send": "send", "sending": "send"}.get(kind, "unexpected") == class_,
          f"{kind} is shown among {class_}")
    check(int(tag) % 2**64 == int(whole), f"tag {tag} of {whole}")
    return (kind, int(rank), int(context), int(whole), int(ignore, 16), int(size))


def msgq(args, pid, root=None, others=()):
    """Returns the answers of libmatchbox-msgq.so to a debugger that also has these other processes."""
    root = root_of(pid) if root is None else root
    more = [word for other in others for word in (str(other), f"{root_of(other):x}")]
    result = subprocess.run([args.msgq_host, args.msgq, str(pid), f"{root:x}", *more], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    check(result.returncode == 0 and result.stderr == "", f"msgq_host: {result.stdout[:300]}{result.stderr[:500]}")
    got = []
    for line in result.stdout.splitlines():
        word, rest = line.split(" ", 1)
        if word in ("send", "receive", "unexpected"):
            _, rank, wild, tag, size, text = rest.split(" ", 5)
            check(wild == "0", f"a tag is said to be any: {line}")
            got.append(debugger_entry(word, rank, tag, size, text))
        elif word == "none":
            return rest
    return sorted(got)


LINE = re.compile(r"^  (\w+) +(?:from|to) (?:peer )?(\d+|any source), tag (-?\d+), (\d+) bytes(.*)$")


def in_gdb(args, *of):
    """Returns the output of `mbx queues -v` in gdb."""
    result = subprocess.run(["gdb", "-nx", "-batch", "-x", args.gdb_script, *of, "-ex", "mbx queues -v"], stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    got = []
    for line in result.stdout.splitlines():
        match = LINE.match(line)
        if match:
            kind, rank, tag, size, text = match.groups()
            class_ = {"posted": "receive", "receiving": "receive", "send": "send", "sending": "send"}.get(kind, "unexpected")
            got.append(debugger_entry(class_, -1 if rank == "any source" else rank, tag, size, kind + text))
    check("Python Exception" not in result.stderr and "mbx queues:" not in result.stderr, f"gdb: {result.stdout[-1000:]}{result.stderr[-1000:]}")
    return sorted(got)


def compare_debugger(seed, how, rank, got, expected):
    want = sorted(expected[rank])
    missing, more = differ(got, want)
    check(got == want, f"seed {seed}: rank {rank}, {how}: missing {missing[:3]}, not there {more[:3]}")


def debuggers(args):
    """The library has every function of the interface, and reports for a process without queues that it has none."""
    names = subprocess.run(["nm", "-D", "--defined-only", args.msgq], stdout=subprocess.PIPE, text=True).stdout
    names = {line.split()[-1] for line in names.splitlines()}
    if args.interface:
        with open(args.interface) as file:
            wanted = set(re.findall(r"^OMPI_DECLSPEC.*?\b(mqs_\w+) *\(", file.read(), re.M))
        check(len(wanted) == 18 and names == wanted, f"libmatchbox-msgq.so: {sorted(names ^ wanted)} of {len(wanted)}")
    text = msgq(args, os.getpid(), 0)
    check(isinstance(text, str) and "no symbol mbx_see_root" in text, f"a process without Matchbox: {text}")
    job = start(args, 6, 20)
    for wrong in (root_of(job.pids[0]) + 8, 8):
        result = subprocess.run([args.msgq_host, args.msgq, str(job.pids[0]), f"{wrong:x}"], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)
        check(result.returncode == 1 and ("another version" in result.stderr or "cannot be read" in result.stderr),
              f"a wrong root: {result.returncode} {result.stdout[:300]}{result.stderr[:300]}")
    check(job.end() == 0, "a job that was debugged fails")
    result = subprocess.run(["gdb", "-nx", "-batch", "-x", args.gdb_script, sys.executable, "-ex", "mbx queues"], stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) if args.cores else None
    check(result is None or "no process is being debugged" in result.stdout, f"gdb without a process: {result and result.stdout}")


# ---- core files ----


def cores_of(job, name="core"):
    """Makes gdb write core files of the ranks, which continue."""
    paths = []
    for pid in job.pids:
        result = subprocess.run(["gcore", "-o", os.path.join(job.folder.name, name), str(pid)], stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True)
        paths.append(os.path.join(job.folder.name, f"{name}.{pid}"))
        check(os.path.exists(paths[-1]), f"gcore: {result.stdout}")
    return paths


def refused(args, words, *cores):
    result = queues(args, *[word for core in cores for word in ("--core", core)])
    check(result.returncode == 1 and words in result.stderr and result.stdout == "",
          f"{cores}: '{words}' is not in {result.returncode}: {result.stdout[:200]}{result.stderr[:500]}")


def cores(args, rounds):
    """Core files that are cut, changed, of another program, or without shared memory."""
    job = start(args, 5, 200)
    paths = cores_of(job)
    with open(f"/proc/{job.pids[0]}/coredump_filter", "w") as file:
        file.write("0x31")
    bare = cores_of(job, "bare")[0]
    check(job.end_later() == 0, "a job whose core files were written fails")
    expected = sorted(e[:1] + e[2:] for e in job.expected[0])
    result = queues(args, "--json", "--core", bare)
    check(result.returncode == 0, f"a core file without shared memory: {result.stderr}")
    check_schema(args, result.stdout)
    rank = json.loads(result.stdout)["jobs"][0]["ranks"][0]
    shown = sorted((e["kind"], e["context"], e["tag"], e["ignore"], e["size"]) for e in rank["entries"])
    check(shown == expected, "a core file without shared memory shows something else")
    check(rank["pid"] == job.pids[0] and rank["rank"] is None, f"it is of {rank['pid']}, rank {rank['rank']}")
    text = queues(args, "--core", paths[0], "--stats").stdout
    check("in a core file" in text and "no statistics" in text and "1 of 2 ranks in core files" in text, text[:200])
    check(queues(args, "--core", paths[0], "--rank", "1").returncode == 1, "rank 1 is in the core file of rank 0")
    check(queues(args, "--core", paths[0], "--watch", "1").returncode == 2, "a core file is watched")
    cut = os.path.join(job.folder.name, "cut")
    with open(paths[0], "rb") as file:
        whole = file.read()
    for size in (0, 20, 63):
        write(cut, whole[:size])
        refused(args, "too short", cut)
    for size in (64, 100, 5000, len(whole) // 2, len(whole) - 65536):
        write(cut, whole[:size])
        refused(args, "it is cut short", cut)
    write(cut, whole[:18] + b"\x08\x00" + whole[20:])
    refused(args, "another kind", cut)
    refused(args, "no core file", args.mbx)
    refused(args, "no ELF file", os.path.abspath(__file__))
    refused(args, "no file", job.folder.name)
    refused(args, "No such file", os.path.join(job.folder.name, "none"))
    write(cut, whole.replace(b"MBXSEE1", b"MBXSEE0").replace(b"MBXROOT", b"MBXR00T"))
    refused(args, "no endpoint of Matchbox", cut)
    refused(args, "none", paths[0], os.path.join(job.folder.name, "none"))
    chance = random.Random(5)
    with open(bare, "rb") as file:
        small = file.read()
    for i in range(rounds):
        damaged = bytearray(small if i % 6 else whole)
        for _ in range(chance.choice((1, 10, 1000))):
            at = chance.randrange(len(damaged) if chance.randrange(2) else chance.choice((64, 8192, len(damaged) // 8)))
            damaged[at] = chance.choice((0, 255, chance.randrange(256)))
        write(cut, damaged)
        result = queues(args, "--json", "--core", cut)
        check(result.returncode in (0, 1), f"of a damaged core file the observer ends with {result.returncode}: {result.stderr}")
        if result.returncode == 0:
            json.loads(result.stdout)
    job.folder.cleanup()


def write(path, what):
    with open(path, "wb") as file:
        file.write(what)


def scribble(args, rounds):
    """Whatever is in the page, neither a rank nor an observer ends, and a new job is seen."""
    job = start(args, 1, 40)
    chance = random.Random(1)
    paths = [page_of(pid) for pid in job.pids]
    for _ in range(rounds):
        with open(paths[0], "r+b", buffering=0) as page:
            for _ in range(chance.randrange(1, 40)):
                size = chance.choice((1, 4, 8, 64, 4096))
                os.pwrite(page.fileno(), chance.randbytes(size), chance.randrange(0, PAGE - size))
            if chance.randrange(2):
                os.pwrite(page.fileno(), chance.randbytes(4), ASK)
        result = queues(args, "--json", "--stats", "--wait", "50")
        check(result.returncode in (0, 1), f"the observer ends with {result.returncode}: {result.stderr}")
        json.loads(result.stdout)
    page = open(paths[0], "r+b", buffering=0)
    for size in (0, 4096, 2 * PAGE):
        try:
            os.ftruncate(page.fileno(), size)
            check(False, "the page can be cut or grown")
        except PermissionError:
            pass
    check(job.end() == 0, "a rank whose page was written over fails")


def observers_are_killed(args):
    job = start(args, 2, 200)
    number = seen(args)[0]
    for _ in range(10):
        observer = subprocess.Popen([args.mbx, "queues", "--watch", "1", "--job", number], stdout=subprocess.PIPE)
        observer.stdout.read(1)
        observer.kill()
        observer.stdout.close()
        observer.wait()
    compare(2, "asked", seen(args, number)[1], job.expected)
    check(job.end() == 0, "a rank whose observers were killed fails")


def started_at(pid):
    """Returns the start time of a process, in seconds since 1970."""
    with open("/proc/stat") as file:
        boot = next(int(line.split()[1]) for line in file if line.startswith("btime "))
    with open(f"/proc/{pid}/stat", errors="replace") as file:
        return boot + int(file.read().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")


def by_name(args):
    """Three jobs run at a time: --job takes a program, a process, or the launcher, and lists the possible jobs."""
    with tempfile.TemporaryDirectory() as folder:
        ocean, ice = f"ocean{os.getpid()}", f"ice{os.getpid()}"
        jobs, numbers = [], []
        for name in (ocean, ice, ocean):
            path = os.path.join(folder, name)
            if not os.path.lexists(path):
                os.symlink(args.program, path)
            job = start(argparse.Namespace(**{**vars(args), "program": path}), 5, 20)
            for pid in (job.pids[0], job.pids[1], job.process.pid):
                shown = json.loads(queues(args, "--json", "--job", str(pid)).stdout)["jobs"]
                check(len(shown) == 1 and [rank["pid"] for rank in shown[0]["ranks"]] == job.pids, f"--job {pid}: {shown}")
                check(shown[0]["program"] == name and shown[0]["ranks"][1]["program"] == name, f"the program: {shown[0]['program']}")
                check(abs(shown[0]["started"] - min(map(started_at, job.pids))) <= 2, f"started {shown[0]['started']}")
            jobs.append(job)
            numbers.append(shown[0]["job"])
        for text in (ice, f"./{ice}", numbers[1]):
            shown = queues(args, "--job", text).stdout
            check(re.match(rf"job {numbers[1]} \({ice}, started ([0-9-]+ )?[0-9:]+\): 2 of 2 ranks on this host", shown) and
                  shown.count("\njob ") == 0, f"--job {text}:\n{shown}")
        for command in ("queues", "doctor", "top"):
            result = subprocess.run([args.mbx, command, "--job", ocean], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            check(result.returncode == 2 and all(number in result.stderr for number in (numbers[0], numbers[2])) and
                  numbers[1] not in result.stderr and result.stdout == "", f"{command}: two are meant: {result}")
            result = subprocess.run([args.mbx, command, "--job", ocean + "?"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            check(result.returncode == 1 and f"'{ocean}?'" in result.stderr and numbers[1] in result.stderr, f"{command}: none is meant: {result}")
        for job in jobs:
            check(job.end() == 0, "a job that was looked at by its name fails")


def nothing_is_left(args):
    job = start(args, 3, 20)
    pids = list(job.pids)
    os.kill(pids[1], signal.SIGKILL)
    job.process.stdout.read()
    job.process.wait()
    result = queues(args, "--json")
    left = [r for j in json.loads(result.stdout)["jobs"] for r in j["ranks"] if r["pid"] in pids]
    check(not left, f"ranks that are gone are shown: {left}")
    job.folder.cleanup()


def hidden(args):
    job = start(args, 4, 20, MBX_INSPECT="off")
    check(all(page_of(pid) is None for pid in job.pids), "there is a page with MBX_INSPECT=no")
    check(job.end() == 0, "a job with MBX_INSPECT=no fails")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mbx")
    parser.add_argument("program")
    parser.add_argument("msgq", help="libmatchbox-msgq.so")
    parser.add_argument("msgq_host")
    parser.add_argument("gdb_script", help="matchbox-gdb.py")
    parser.add_argument("--interface", help="Open MPI's msgq_interface.h")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--no-cores", dest="cores", action="store_false",
                        help="no core files: those of a program with a sanitizer have terabytes")
    parser.add_argument("--only", choices=("same",), help="the comparison of queues, and nothing else")
    args = parser.parse_args()
    for name in ("mbx", "program", "msgq", "msgq_host", "gdb_script"):
        setattr(args, name, os.path.abspath(getattr(args, name)))
    if args.cores and not shutil.which("gcore"):
        print("queues_test: gdb is not installed: core files are not looked at")
        args.cores = False
    for first in range(args.first, args.first + args.seeds, SEEDS_OF_A_JOB):
        same(args, first, min(SEEDS_OF_A_JOB, args.first + args.seeds - first), args.count)
        if args.seeds > SEEDS_OF_A_JOB:
            print(f"queues_test: {first - args.first} of {args.seeds} seeds", flush=True)
    if args.only:
        print(f"queues_test: {args.seeds} seeds")
        return
    ages(args)
    by_name(args)
    debuggers(args)
    if args.cores:
        cores(args, 8 * args.seeds)
    scribble(args, 8 * args.seeds)
    observers_are_killed(args)
    nothing_is_left(args)
    hidden(args)
    check(queues(args, "--rank", "x").returncode == 2, "a rank that is none is accepted")
    check(queues(args, "--job", "0").returncode == 1, "there is a job 0")
    empty = queues(args, "--job", "0", "--json")
    check(empty.returncode == 1 and json.loads(empty.stdout)["jobs"] == [], f"JSON where no job is meant: {empty}")
    print(f"queues_test: {args.seeds} seeds")


if __name__ == "__main__":
    main()
