#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""torn_test.py MBX CHURN_PROGRAM [--readings N] [--command "COMMAND..."] - no torn entry is ever shown as exact.

Two observers read the queues of a job again and again, while its ranks change them all the time: one gives the ranks time
to answer, the other one hardly any, so that in most cases it reads their memory.  Ranks are stopped wherever they are, and
continued.  In every reading of a rank that is called exact

  - no posted receive accepts an unexpected message, as the matching engine would have made them meet;
  - no two entries are of one request, or of one message;
  - each envelope is whole: churn_program makes tags from which the context id and the size follow.

`--readings 100000` is the long form.  `--command "mbx exec mpiexec -n 3 rules --rounds 1000000"` reads the queues of another
job, about whose envelopes nothing is known.
"""
import argparse
import atexit
import contextlib
import json
import os
import random
import shlex
import signal
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from patience import PATIENCE_S  # noqa: E402

SIZES = (8, 300, 9000, 100000)
RANKS = 3
WAITS_MS = (1, 500)  # of the observers
MOST = 50  # up to this many times the requested readings, and PATIENCE_S, until each way of reading has been seen
MESSAGES = ("unexpected", "probed")


def code(context, kind):
    """As in churn_program.c."""
    return (context * 0x9e3779b1 + kind * 0x85ebca77) << 8 | kind


KNOWN = {(context, code(context, kind)): SIZES[kind] for context in (1, 2, 3) for kind in range(len(SIZES))}


def is_below(pid, root):
    """Is root an ancestor of this process?"""
    while pid > 1 and pid != root:
        try:
            with open(f"/proc/{pid}/stat") as file:
                pid = int(file.read().rsplit(")", 1)[1].split()[1])
        except OSError:
            return False
    return pid == root


def accepts(receive, message):
    return (receive["context"] == message["context"] and (receive["any_source"] or receive["peer"] == message["peer"])
            and (receive["tag"] ^ message["tag"]) & ~receive["ignore"] == 0)


def what_is_wrong(rank, is_churn):
    """Returns the error in a reading that claims to be exact, or None."""
    entries = rank["entries"]
    posted = [e for e in entries if e["kind"] == "posted"]
    # one of several equal messages is enough
    unexpected = {(e["context"], e["peer"], e["tag"]): e for e in entries if e["kind"] == "unexpected"}
    for receive in posted:
        for message in unexpected.values():
            if accepts(receive, message):
                return f"the receive {receive} accepts the unexpected message {message}"
    ids = [(e["kind"] in MESSAGES, e["id"]) for e in entries if e["kind"] != "probe"]
    if len(ids) != len(set(ids)):
        return f"two entries have one id: {sorted(ids)}"
    for e in entries if is_churn else ():
        size = KNOWN.get((e["context"], e["tag"]))
        if size is None or (e["kind"] in ("posted", "unexpected", "probed", "send") and e["size"] != size):
            return f"an envelope is torn: {e}"
    return None


class Observer(threading.Thread):
    def __init__(self, args, wait_ms, stops, job, enough):
        super().__init__(daemon=True)
        self.args, self.job, self.enough = args, job, enough
        self.chance = random.Random(args.seed) if stops else None
        self.seen = {"asked": 0, "read": 0, "moving": 0, "failed": 0}
        self.both = 0  # readings in which receives and messages wait
        self.stops = 0  # readings of stopped ranks
        self.wrong = None
        self.process = subprocess.Popen([args.mbx, "queues", "--json", "--watch", "0", "--wait", str(wait_ms), "--job", job],
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)  # it names processes of other users
        atexit.register(self.end)

    def end(self):
        if self.process.poll() is None:
            self.process.terminate()
        self.process.wait()

    def run(self):
        while self.wrong is None and not self.enough():
            line = self.process.stdout.readline()
            jobs = json.loads(line)["jobs"] if line else []
            if not jobs:
                self.wrong = "the job, or its observer, has ended"
                return
            for rank in jobs[0]["ranks"]:
                self.seen[rank["seen"]] += 1
                self.stops += rank["state"] == "T"
                if rank["seen"] in ("asked", "read"):
                    kinds = {e["kind"] for e in rank["entries"]}
                    self.both += {"posted", "unexpected"} <= kinds
                    wrong = what_is_wrong(rank, not self.args.command)
                    if wrong is not None:
                        self.wrong = f"rank {rank['rank']}, {rank['seen']} (state {rank['state']}): {wrong}"
                        if self.args.go_on:
                            print(self.wrong, flush=True)
                            self.args.go_on -= 1
                            self.wrong = None
            if self.chance:
                self.stop_another([rank["pid"] for rank in jobs[0]["ranks"]])

    def stop_another(self, pids):
        """Stops another rank, so that the next reading sees it stopped, or none."""
        pids = [pid for pid in pids if is_below(pid, self.args.root.pid)]
        let_go_on(STOPPED)
        if pids and self.chance.randrange(2):
            STOPPED.append(self.chance.choice(pids))
            with contextlib.suppress(ProcessLookupError):
                os.kill(STOPPED[-1], signal.SIGSTOP)


STOPPED = []  # pids


def let_go_on(pids):
    while pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pids.pop(), signal.SIGCONT)


def job_of(args, root):
    """Returns the number of this launcher's job, once all its ranks have opened."""
    while root.poll() is None:
        result = subprocess.run([args.mbx, "queues", "--json", "--wait", "1"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        for job in json.loads(result.stdout or '{"jobs": []}')["jobs"]:
            if job["size"] == len(job["ranks"]) and is_below(job["ranks"][0]["pid"], root.pid):
                return job["job"]
    sys.exit(f"torn_test: the job ends with {root.wait()}")


def end(root):
    if root.poll() is None:
        let_go_on(STOPPED)
        root.terminate()
        root.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mbx")
    parser.add_argument("program", help="churn_program")
    parser.add_argument("--readings", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--command", help="another job")
    parser.add_argument("--go-on", type=int, default=0, metavar="N", help="show so many findings, and end with the next one")
    args = parser.parse_args()
    command = shlex.split(args.command) if args.command else [args.mbx, "run", "-n", str(RANKS), args.program, str(args.seed)]
    root = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    atexit.register(end, root)
    args.root = root
    job = job_of(args, root)
    observers, until = [], time.monotonic() + PATIENCE_S

    def is_all_seen():
        return all((sum(o.both for o in observers), sum(o.stops for o in observers),
                    *(sum(o.seen[how] for o in observers) for how in ("asked", "read"))))

    def enough():
        readings = sum(o.seen["asked"] + o.seen["read"] for o in observers)
        is_late = time.monotonic() > until and readings >= MOST * args.readings
        return (readings >= args.readings and is_all_seen() or is_late
                or any(o.wrong for o in observers) or root.poll() is not None)

    for wait_ms in WAITS_MS:
        observers.append(Observer(args, wait_ms, wait_ms == WAITS_MS[0], job, enough))
    for observer in observers:
        observer.start()
    for observer in observers:
        observer.join()
    seen = {how: sum(o.seen[how] for o in observers) for how in observers[0].seen}
    text = (f"{seen['asked'] + seen['read']} exact readings of ranks, {seen['asked']} by asking and {seen['read']} by reading their memory, "
            f"{sum(o.stops for o in observers)} of them stopped; {seen['moving']} not exact")
    wrong = next((o.wrong for o in observers if o.wrong), None)
    if wrong is None and root.poll() is not None:
        wrong = f"the job ends with {root.wait()}"
    if wrong is None and not is_all_seen():
        wrong = "not all ways were looked at, or no rank was seen stopped, or receives and messages have never waited together"
    if wrong:
        sys.exit(f"torn_test: seed {args.seed}: {wrong}\n{text}")
    print(f"torn_test: {text}; in {sum(o.both for o in observers)} of the exact ones receives and messages wait")


if __name__ == "__main__":
    main()
