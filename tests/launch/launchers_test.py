#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""launchers_test.py MBX [NAME...] - what `mbx queues` does with the launchers that it starts; all start mbx on this host.

No job is needed: a host on which no rank is seen has answered, too.
"""
import argparse
import os
import select
import shlex
import signal
import subprocess
import sys
import tempfile

LOOKS = 200  # until what must be seen is seen
HANG = 100   # seconds, after which something that must come is said not to have come


class Failed(Exception):
    pass


def expect(condition, what, text=""):
    if not condition:
        raise Failed(f"{what}\n{text}")


def shell(script):
    """A launcher: the script, with mbx and what it is told as "$@"."""
    return shlex.join(["sh", "-c", script, "sh"])


def children(pid, state):
    """How many children of the process are in that state."""
    count = 0
    for name in os.listdir("/proc"):
        try:
            with open(f"/proc/{name}/stat") as file:
                fields = file.read().rpartition(")")[2].split()
        except OSError:
            continue
        count += fields[0] == state and int(fields[1]) == pid
    return count


def test_orphans(args):
    """A process that each launcher leaves behind, and that has ended, is reaped."""
    with subprocess.Popen([args.mbx, "queues", "--job", "1", "--watch", "0", "--launch", shell('(true &); exec "$@"')], stdin=subprocess.DEVNULL,
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as mbx:
        counts = []
        try:
            for look in range(LOOKS):
                line = mbx.stderr.readline()
                expect("no such rank" in line, "a look", line)
                counts.append(children(mbx.pid, "Z"))
                if look > 9 and counts[-1] < 2:
                    return
        finally:
            mbx.terminate()
        raise Failed(f"there are always more processes that have ended: {counts}")


def test_interrupted(args):
    """What launchers have started ends with mbx, whatever signal interrupts it."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        kept, given = os.pipe()
        with subprocess.Popen([args.mbx, "queues", "--job", "1", "--launch", shell(f"sh -c 'echo here >&{given}; exec sleep 1000.{os.getpid()}'; true")],
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, pass_fds=[given]) as mbx:
            os.close(given)
            expect(os.read(kept, 100) == b"here\n", "a launcher")
            mbx.send_signal(number)
            status = mbx.wait()
        # all that have the pipe are gone
        gone = select.select([kept], [], [], HANG)[0] and os.read(kept, 100) == b""
        if not gone:
            subprocess.run(["pkill", "-f", f"sleep 1000.{os.getpid()}$"])
        os.close(kept)
        expect(gone, f"what a launcher has started is left after {number.name}")
        expect(status == -number, f"mbx ends with {status} after {number.name}")


def test_ignored(args):
    """A signal that is ignored stays ignored, in mbx and in a launcher."""
    result = subprocess.run([args.mbx, "queues", "--job", "1", "--launch", shell('kill -HUP $PPID; kill -HUP $$; exec "$@"')], stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    expect(result.returncode == 1 and "on the hosts that have answered" in result.stderr and "has not answered" not in result.stderr, "SIGHUP is ignored",
           f"{result.returncode} {result.stderr}")


def test_inherited(args):
    """SIGCHLD that is ignored, and standard descriptors that are closed."""
    def ignore():
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)

    for what, before in (("SIGCHLD", ignore), ("0", lambda: os.close(0)), ("1", lambda: os.close(1)), ("0, 1", lambda: os.closerange(0, 2)),
                         ("2", lambda: os.close(2)), ("1, 2", lambda: os.closerange(1, 3)), ("0, 1, 2", lambda: os.closerange(0, 3))):
        with tempfile.NamedTemporaryFile("r") as said:
            # the launcher says what it has; fails if a descriptor is closed
            script = f'test -e /dev/fd/0 && test -e /dev/fd/1 && test -e /dev/fd/2 && "$@" && echo answered >>{said.name}'
            result = subprocess.run([args.mbx, "queues", "--job", "1", "--json", "--launch-wait", "60000", "--launch", shell(script)], stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE, text=True, preexec_fn=before)
            expect(said.read() == "answered\n", f"the launcher of an mbx without {what}", result.stderr)
            expect("has not answered" not in result.stderr, f"mbx without {what}", result.stderr)
            expect("1" in what or '"answered":true' in result.stdout, f"mbx without {what}", result.stdout)


def test_late(args):
    """Launchers whose time is over are told at once: each of two ends when the other one was told, too."""
    said = ""
    for _ in range(LOOKS // 5):
        with tempfile.TemporaryDirectory() as folder:
            scripts = [f"trap 'touch {folder}/{mine}; while ! test -e {folder}/{other}; do sleep 0.01; done; echo met >&2; exit 1' TERM; while :; do sleep 0.01; done"
                       for mine, other in (("a", "b"), ("b", "a"))]
            result = subprocess.run([args.mbx, "queues", "--job", "1", "--launch-wait", "300", "--launch", shell(scripts[0]), "--launch", shell(scripts[1])],
                                    stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            said = result.stderr
            expect(said.count("no answer within 300 ms") == 2, "who is late", said)
            if said.count("(--launch-wait): met;") == 2:
                return
    raise Failed(f"no launcher is told before the other one has ended\n{said}")


TESTS = {name[5:]: test for name, test in list(globals().items()) if name.startswith("test_")}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mbx", type=os.path.abspath)
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    failed = []
    for name in args.names or TESTS:
        try:
            TESTS[name](args)
            print(f"{name}: right", flush=True)
        except Failed as why:
            print(f"{name}: {why}", flush=True)
            failed.append(name)
    print(f"launchers_test: {len(failed)} wrong {failed}")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
