#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""queues_test.py MBX SEE_PROGRAM [--seeds N] [--count N] - `mbx queues` shows what is there, and harms nobody.

A job of two ranks prints what must be in its queues.  That is compared, entry by entry, with what `mbx queues --json`
says: when the ranks answer, and when they are stopped and are read from outside.
"""
import argparse
import atexit
import json
import os
import random
import signal
import subprocess
import sys
import tempfile

PAGE = 65536
ASK = 320
PATIENCE_MS = "60000"  # a rank that answers does so at once, but on a machine that is busy with other things


class Job:
    """see_program under `mbx run`; its ranks are ready when this is made."""

    def __init__(self, args, seed, count, **environment):
        self.folder = tempfile.TemporaryDirectory()
        self.stop = os.path.join(self.folder.name, "stop")
        env = dict(os.environ, MBX_WINDOW="unlimited", MBX_WINDOW_PAYLOAD="unlimited", **environment)
        self.process = subprocess.Popen([args.mbx, "run", "-n", "2", "-l", args.program, str(seed), str(count), self.stop],
                                        stdout=subprocess.PIPE, text=True, env=env)
        atexit.register(self.abandon)
        self.expected = {0: [], 1: []}
        self.pids = [0, 0]
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

    def abandon(self):
        if self.process.poll() is None:
            self.process.terminate()
            for pid in self.pids:
                if pid:
                    os.kill(pid, signal.SIGCONT)
            self.process.wait()

    def end(self):
        open(self.stop, "w").close()
        self.process.stdout.read()
        status = self.process.wait()
        self.folder.cleanup()
        return status


def queues(args, *options):
    return subprocess.run([args.mbx, "queues", *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def check_schema(args, text):
    """Against the schema of the repository; without python3-jsonschema it says that it is not."""
    try:
        import jsonschema
    except ImportError:
        print("queues_test: python3-jsonschema is not installed: the schema is not looked at")
        return
    schema = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/queues.schema.json")
    with open(schema) as file:
        jsonschema.validate(json.loads(text), json.load(file))


def seen(args, job=None):
    """{rank: its JSON} of the only job, or of that one."""
    result = queues(args, "--json", "--wait", PATIENCE_MS, *(["--job", job] if job else []))
    check(result.returncode == 0, f"mbx queues: status {result.returncode}: {result.stdout[:500]}{result.stderr[-3000:]}")
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


def compare(seed, how, ranks, expected):
    for rank in (0, 1):
        got, want = entries(ranks[rank]), sorted(expected[rank])
        check(ranks[rank]["seen"] == how, f"seed {seed}: rank {rank} was {ranks[rank]['seen']}, not {how}")
        missing, more = [e for e in want if e not in got], [e for e in got if e not in want]
        check(got == want, f"seed {seed}: rank {rank}, {how}: missing {missing[:3]}, not there {more[:3]}")


def page_of(pid):
    for name in os.listdir(f"/proc/{pid}/fd"):
        path = f"/proc/{pid}/fd/{name}"
        if os.readlink(path).startswith("/memfd:matchbox-see"):
            return path
    return None


def start(args, seed, count, **environment):
    job = Job(args, seed, count, **environment)
    ALL_PIDS.update(job.pids)
    return job


def is_stopped(pid):
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rsplit(")", 1)[1].split()[0] == "T"


def same(args, seed, count):
    job = start(args, seed, count)
    number, ranks = seen(args)
    compare(seed, "asked", ranks, job.expected)
    for pid in job.pids:
        os.kill(pid, signal.SIGSTOP)
    while not all(is_stopped(pid) for pid in job.pids):
        os.sched_yield()
    compare(seed, "read", seen(args, number)[1], job.expected)
    check("is stopped" in queues(args, "--job", number).stdout, "the text does not say that they are stopped")
    for pid in job.pids:
        os.kill(pid, signal.SIGCONT)
    compare(seed, "asked", seen(args, number)[1], job.expected)
    check(job.end() == 0, f"seed {seed}: the job fails")


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
    job = start(args, 4, 20, MBX_SEE="off")
    check(all(page_of(pid) is None for pid in job.pids), "there is a page with MBX_SEE=off")
    check(job.end() == 0, "a job with MBX_SEE=off fails")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mbx")
    parser.add_argument("program")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--count", type=int, default=400)
    args = parser.parse_args()
    args.mbx, args.program = os.path.abspath(args.mbx), os.path.abspath(args.program)
    for seed in range(1, args.seeds + 1):
        same(args, seed, args.count)
    scribble(args, 8 * args.seeds)
    observers_are_killed(args)
    nothing_is_left(args)
    hidden(args)
    check(queues(args, "--rank", "x").returncode == 2, "a rank that is none is accepted")
    check(queues(args, "--job", "0").returncode == 2, "job 0 is accepted")
    print(f"queues_test: {args.seeds} seeds")


if __name__ == "__main__":
    main()
