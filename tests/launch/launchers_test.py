#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""launchers_test.py MBX [NAME...] - what `mbx queues` does with the launchers that it starts; all start mbx on this host.

No job is needed: a host on which no rank is seen has also answered.
"""
import argparse
import json
import os
import re
import resource
import select
import shlex
import signal
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
import processes  # noqa: E402
from hosts_test import PATIENT, framed  # noqa: E402
from looks import looks  # noqa: E402
from patience import PATIENCE_S  # noqa: E402



class Failed(Exception):
    pass


def expect(condition, what, text=""):
    if not condition:
        raise Failed(f"{what}\n{text}")


def shell(script):
    """A launcher: the script, with mbx and its arguments as "$@"."""
    return shlex.join(["sh", "-c", script, "sh"])


def test_orphans(args):
    """Each launcher leaves a process that has ended: mbx reaps it."""
    with subprocess.Popen([args.mbx, "queues", "--job", "1", "--watch", "0", "--launch", shell('(true &); exec "$@"')], stdin=subprocess.DEVNULL,
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as mbx:
        counts = []
        try:
            for look in looks():
                # the rank that does not exist, and other processes of Matchbox on this machine
                expect(mbx.stderr.readline() != "", "a look")
                counts.append(len(processes.children(mbx.pid, ended=True)))
                if look > 9 and counts[-1] < 2:
                    return
        finally:
            mbx.terminate()
        raise Failed(f"there are always more processes that have ended: {counts}")


def test_interrupted(args):
    """The processes that launchers have started end with mbx, whatever signal interrupts it."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        kept, given = os.pipe()
        with subprocess.Popen([args.mbx, "queues", "--job", "1", "--launch", shell(f"sh -c 'echo here >&{given}; exec sleep 1000.{os.getpid()}'; true")],
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, pass_fds=[given],
                              preexec_fn=lambda number=number: signal.signal(number, signal.SIG_DFL)) as mbx:  # nohup ignores SIGHUP
            os.close(given)
            expect(os.read(kept, 100) == b"here\n", "a launcher")
            mbx.send_signal(number)
            status = mbx.wait()
        # all processes with the pipe are gone
        gone = select.select([kept], [], [], PATIENCE_S)[0] and os.read(kept, 100) == b""
        for pid in [] if gone else processes.running("sleep", f"1000.{os.getpid()}"):
            os.kill(pid, signal.SIGKILL)
        os.close(kept)
        expect(gone, f"what a launcher has started is left after {number.name}")
        expect(status == -number, f"mbx ends with {status} after {number.name}")


def test_ignored(args):
    """An ignored signal stays ignored, in mbx and in a launcher."""
    result = subprocess.run([args.mbx, "queues", "--job", "1", *PATIENT, "--launch", shell('kill -HUP $PPID; kill -HUP $$; exec "$@"')], stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    expect(result.returncode == 1 and "on the hosts that have answered" in result.stderr and "has not answered" not in result.stderr, "SIGHUP is ignored",
           f"{result.returncode} {result.stderr}")


def test_inherited(args):
    """SIGCHLD is ignored, or standard descriptors are closed."""
    def ignore():
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)

    for what, before in (("SIGCHLD", ignore), ("0", lambda: os.close(0)), ("1", lambda: os.close(1)), ("0, 1", lambda: os.closerange(0, 2)),
                         ("2", lambda: os.close(2)), ("1, 2", lambda: os.closerange(1, 3)), ("0, 1, 2", lambda: os.closerange(0, 3))):
        with tempfile.NamedTemporaryFile("r") as said:
            # the launcher prints its descriptors; it fails if one is closed
            script = f'test -e /dev/fd/0 && test -e /dev/fd/1 && test -e /dev/fd/2 && "$@" && echo answered >>{said.name}'
            result = subprocess.run([args.mbx, "queues", "--job", "1", "--json", *PATIENT, "--launch", shell(script)], stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE, text=True, preexec_fn=before)
            expect(said.read() == "answered\n", f"the launcher of an mbx without {what}", result.stderr)
            expect("has not answered" not in result.stderr, f"mbx without {what}", result.stderr)
            expect("1" in what or '"answered":true' in result.stdout, f"mbx without {what}", result.stdout)


def test_late(args):
    """Launchers whose time is over get the signal at once: each of two ends when the other has also got it."""
    said = ""
    for look in looks():
        wait_ms = min(300 << look, 60000)  # on a busy machine both must have begun by then
        with tempfile.TemporaryDirectory() as folder:
            scripts = [f"trap 'touch {folder}/{mine}; while ! test -e {folder}/{other}; do sleep 0.01; done; echo met >&2; exit 1' TERM; while :; do sleep 0.01; done"
                       for mine, other in (("a", "b"), ("b", "a"))]
            result = subprocess.run([args.mbx, "queues", "--job", "1", "--launch-wait", str(wait_ms), "--launch", shell(scripts[0]), "--launch", shell(scripts[1])],
                                    stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            said = result.stderr
            expect(said.count(f"no answer within {wait_ms} ms") == 2, "who is late", said)
            if said.count("(--launch-wait): met;") == 2:
                return
    raise Failed(f"no launcher is told before the other one has ended\n{said}")


def test_descriptors(args):
    """mbx reports launchers that it cannot start, and ends those that run."""
    sleeps = [word for _ in range(20) for word in ("--launch", shell("exec sleep 1000"))]
    result = subprocess.run([args.mbx, "queues", "--job", "1", *sleeps], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16)))
    expect(result.returncode == 1 and "cannot call the launcher: Too many open files" in result.stderr, "too few descriptors",
           f"{result.returncode} {result.stderr}")


def said_of(args, *tries):
    """Returns the warnings of mbx about a launcher that prints these texts on its first, second and third call, and the
    hosts that have answered."""
    with tempfile.TemporaryDirectory() as folder:
        for number, text in enumerate(tries):
            with open(os.path.join(folder, f"text{number}"), "w") as file:
                file.write(text)
        script = f'cd {folder}; n=$(ls | grep -c called); touch called$n; exec cat text$n'
        result = subprocess.run([args.mbx, "queues", "--json", "--job", "1", *PATIENT, "--launch", shell(script)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)
        called = len([name for name in os.listdir(folder) if name.startswith("called")])
    expect(called == len(tries), f"the launcher is called {called} times", result.stderr)
    said = re.findall(r"^(.*) has not answered: (.*); its ranks are not known$", result.stderr, re.M)
    return said, [host["host"] for host in json.loads(result.stdout)["hosts"] if host["answered"]]


def test_tries(args):
    """A launcher that mixes the lines of hosts is called again.  Each warning is printed once, about hosts that have not
    answered in any try."""
    own = subprocess.run([args.mbx, "queues", "--json", "--details", "--job", "1"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                         stderr=subprocess.DEVNULL, text=True).stdout
    own = own[:-1].replace(json.loads(own)["host"], "HOST").replace(json.loads(own)["hosts"][0]["id"], "ID")

    def host(number, is_whole=True, name=None, version=1, stream=None):
        text = own.replace("HOST", name or f"h{number}").replace("ID", f"{number:016x}").replace('"format":1', f'"format":{version}')
        lines = framed(text + " " * 400, stream=stream or number).splitlines(keepends=True)
        return "".join(lines if is_whole else lines[:-1])

    newer = host(3, version=2) + host(3, version=2, stream=4)
    said, hosts = said_of(args, host(1) + host(2, False) + newer, host(1) + host(2) + newer)
    expect(len(said) == 1 and "of version 2" in said[0][1] and hosts == ["h1", "h2"], "a host that cannot be read is said once", f"{said} {hosts}")
    said, hosts = said_of(args, host(1) + host(2, False), host(1, False) + host(2), host(1) + host(2, False))
    expect(said == [] and hosts == ["h1", "h2"], "a host that was damaged once has answered", f"{said} {hosts}")
    said, hosts = said_of(args, host(1))
    expect(said == [] and hosts == ["h1"], "one host", f"{said} {hosts}")
    said, hosts = said_of(args, *[host(1) + host(2, False)] * 3)
    expect(len(said) == 1 and said[0][1].startswith("1 answers are damaged") and hosts == ["h1"], "a host that is always damaged", f"{said} {hosts}")
    said, hosts = said_of(args, host(1) + host(1, stream=2) + host(1, name="other", stream=3))
    expect(said == [] and hosts == ["h1"], "a host that answers several times, and one that shows the same processes", f"{said} {hosts}")


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
