#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""top_test.py BUILD [--through pml|provider] - `mbx top` names the rank that never waits, in a pipe and on a screen.

It runs programs of stuck.c.  Shares of time depend on the other load of the machine, so an answer may come in any of several tables.
"""
import argparse
import fcntl
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios

import doctor_test

sys.dont_write_bytecode = True
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from patience import PATIENCE_S  # noqa: E402

VERDICT = re.compile(r"rank 2 never waits: it (computes|has no core to run on) [0-9]+ % of its time; the others wait ([0-9]+) %")
LEAVES = b"\x1b[?1049l"  # the escape sequence by which an xterm leaves its second screen


class Failed(Exception):
    pass


def check(condition, text):
    if not condition:
        raise Failed(text)


def top(args, *options, **more):
    return subprocess.run([args.mbx, "top", *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)


def in_a_pipe(args, number):
    text = ""
    for _ in doctor_test.looks():
        run = top(args, "--once", "--interval", "1", "--job", number)
        check(run.returncode == 0 and run.stderr == "", f"{run.returncode}: {run.stderr}")
        text = run.stdout
        if VERDICT.search(text):
            break
    check(VERDICT.search(text), f"rank 2 is not named:\n{text}")
    rows = [line.split() for line in text.splitlines() if re.match(r" +[0-9]+ +[0-9]+ %", line)]
    check([row[0] for row in rows] == ["0", "1", "2"], f"the rows of ranks:\n{text}")
    check("MPI_Allreduce" in text and "allreduce on MPI_COMM_WORLD" in text, f"where they wait:\n{text}")
    check(not re.search("[^ -~\n]", text), "only text goes into a pipe")


def balanced(args, number):
    """All ranks wait for each other: none is accused, at least in one of some tables."""
    text = ""
    for _ in doctor_test.looks():
        text = top(args, "--once", "--interval", "1", "--job", number).stdout
        if "never wait" not in text:
            return
    raise Failed(f"a rank of a balanced program is accused each time:\n{text}")


def one_sided(args, number):
    """A rank in MPI_Win_lock waits, although its lock is no message."""
    text = ""
    for _ in doctor_test.looks():
        text = top(args, "--once", "--interval", "1", "--job", number).stdout
        if re.search(r"\n +1 +[1-9].*  MPI_Win_lock.*\nevery rank waits for some of its time\n", text):
            return
    raise Failed(f"a rank in MPI_Win_lock is not said to wait:\n{text}")


def stopped(args, number):
    """A stopped rank is named in the first table in which it is stopped, however little the others get to run."""
    text = ""
    for _ in doctor_test.looks():
        text = top(args, "--once", "--interval", "1", "--job", number).stdout
        if re.search(r"^rank 1 is stopped \(SIGSTOP\); kill -CONT \d+ lets it go on$", text, re.M):
            return
    raise Failed(f"the rank that is stopped is not named:\n{text}")


class Screen:
    """mbx top on a terminal of its own."""

    def __init__(self, args, number, term="xterm"):
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            os.environ["TERM"] = term
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # the caller of the tests may ignore it
            os.execv(args.mbx, [args.mbx, "top", "--interval", "1", "--job", number])
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 200, 0, 0))
        self.seen = b""

    def read_until(self, what):
        start = len(self.seen)
        while not re.search(what, self.seen[start:]):
            check(select.select([self.master], [], [], PATIENCE_S)[0], f"{what} did not come: {self.seen[-2000:]}")
            try:
                self.seen += os.read(self.master, 65536)
            except OSError:
                raise Failed(f"it ended before {what}: {self.seen[-2000:]}") from None

    def end(self, key):
        os.write(self.master, key)
        try:
            while select.select([self.master], [], [], PATIENCE_S)[0]:
                self.seen += os.read(self.master, 65536)
            os.kill(self.pid, signal.SIGKILL)
            raise Failed(f"{key} does not end it")
        except OSError:
            pass  # the other side of the terminal is closed
        _, status = os.waitpid(self.pid, 0)
        os.close(self.master)
        return status


def on_a_terminal(args, number):
    for key, how in ((b"q", "q"), (b"\x03", "an interrupt")):
        screen = Screen(args, number)
        screen.read_until(number.encode())
        status = screen.end(key)
        check(LEAVES in screen.seen, f"the screen is given back after {how}")
        check(status == 0 or key != b"q", f"status {status} after q")
    screen = Screen(args, number, term="unknown-to-all")
    screen.read_until(rb"no screen, but tables: TERM names no terminal")
    screen.read_until(number.encode())
    screen.end(b"\x03")


def on_a_screen(args, number):
    """Checks the screen of a tmux session."""
    tmux = ["tmux", "-f", "/dev/null", "-L", f"top_test_{os.getpid()}"]
    command = f"'{os.path.abspath(args.mbx)}' top --interval 1 --job {number}"

    def wait_for(what):
        text = ""
        for _ in doctor_test.looks():
            text = subprocess.run([*tmux, "capture-pane", "-p"], stdout=subprocess.PIPE, text=True, check=True).stdout
            if re.search(what, text, re.DOTALL):
                return
            top(args, "--once", "--interval", "1", "--job", number)  # takes as long as a table
        raise Failed(f"{what} does not come to the screen:\n{text}")

    subprocess.run([*tmux, "new-session", "-d", "-x", "200", "-y", "30", command], check=True)
    try:
        wait_for(r"\n +0 .*\n +1 .*\n +2 .*\nrank 2 never waits: it")
        subprocess.run([*tmux, "send-keys", "w"], check=True)
        wait_for(r"\n +2 .*\n +[01] .*\n +[01] .*\nrank 2 never waits: it")
    finally:
        subprocess.run([*tmux, "kill-server"], check=False)


def arguments(args):
    run = top(args, "--once", "--interval", "1", "--job", "1")
    check(run.returncode == 1 and "no job of this user" in run.stderr, f"{run.returncode}: {run.stderr}")
    for wrong, why in ((["--interval", "0"], "--interval"), (["--interval", "x"], "--interval"), (["--job"], "--job"),
                       (["more"], "unknown argument 'more'"), (["--onces"], "did you mean --once?")):
        run = top(args, *wrong)
        check(run.returncode == 2 and why in run.stderr, f"{wrong}: {run.returncode}: {run.stderr}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--through", choices=("pml", "provider"), default="pml")
    args = parser.parse_args()
    args.mbx = os.path.join(args.build, "tools/mbx")
    args.program = os.path.join(args.build, "tests/mpi/stuck")
    os.environ["DOCTOR_TEST"] = str(os.getpid())
    try:
        arguments(args)
        with doctor_test.Job(args, "imbalance", 3) as job:
            number = job.wait_for(3)
            in_a_pipe(args, number)
            if "curses yes" in subprocess.run([args.mbx, "version"], stdout=subprocess.PIPE, text=True).stdout:
                on_a_terminal(args, number)
                if shutil.which("tmux"):
                    on_a_screen(args, number)
        with doctor_test.Job(args, "lock_and_receive", 2) as job:
            one_sided(args, job.wait_for(2))
        with doctor_test.Job(args, "stopped", 2) as job:
            stopped(args, job.wait_for(2))
        with doctor_test.Job(args, "running_ring", 2) as job:
            balanced(args, job.wait_for(2))
    except (Failed, doctor_test.Failed) as failed:
        print(f"top_test: {failed}", file=sys.stderr)
        return 1
    print("top_test: ok")
    return 0


signal.signal(signal.SIGPIPE, signal.SIG_IGN)
sys.exit(main())
