#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""pingpong_test.py - scripts/bench/pingponglib.py and scripts/bench/pingpong, with a fi_pingpong that fails.

This file is also that fi_pingpong: the name of its provider selects its behaviour.  It opens the sockets
that the real one opens, and no provider.  Exit code 77 on one core.
"""
import os
import signal
import socket
import subprocess
import sys
import tempfile

sys.path.append(os.path.join(os.path.dirname(os.path.realpath(__file__)), "../support"))
from patience import PATIENCE_S  # noqa: E402

SELF = os.path.realpath(__file__)
SCRIPTS = os.path.join(os.path.dirname(SELF), "..", "..", "scripts/bench")
NOT_HERE = 77


# ---- a fi_pingpong ------------------------------------------------------------------

def leave(status, text):
    print(text, flush=True)
    os._exit(status)


def serve(provider, port):
    if provider == "none":
        leave(61, "fi_getinfo(): no such provider")
    if provider == "late":
        with open(os.environ["LATE"]) as fifo:
            fifo.read()
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("", port))
    except OSError as error:
        leave(error.errno, f"bind(): {error}")
    if provider == "deaf":
        signal.pause()
    listener.listen(10)
    connection = listener.accept()[0]
    if provider == "server-dies":
        leave(12, "\nserver's first word\nserver's last word\n")
    if provider in ("client-dies", "both-stay"):
        signal.pause()
    connection.recv(1)
    leave(5 if provider == "server-ends-badly" else 0, "fin")


def call(provider, mode, port):
    connection = socket.socket()
    error = connection.connect_ex(("localhost", port))
    if error != 0:
        leave(error, "failed to connect")
    if provider == "client-dies":
        os.kill(os.getpid(), signal.SIGKILL)
    if provider in ("server-dies", "both-stay"):
        signal.pause()
    connection.send(b"x")
    if provider != "no-number":
        us = {"tagged": 1.25, "msg": 2.5}[mode]
        print(f"bytes   #sent   usec/xfer   Mxfers/sec\n64      100      {us}       0.8")
    leave(0, "fin")


def fi_pingpong(words):
    value = dict(zip(words, words[1:]))
    if "-B" in value:
        serve(value["-p"], int(value["-B"]))
    call(value["-p"], value["-m"], int(value["-P"]))


# ---- the test -----------------------------------------------------------------------

sys.dont_write_bytecode = True
sys.path.insert(0, SCRIPTS)
import pingponglib  # noqa: E402


def measured(provider):
    return pingponglib.measure(provider, "msg", 64, 100, {})


def failure(provider):
    try:
        found = measured(provider)
    except pingponglib.Failed as why:
        return str(why)
    raise AssertionError(f"{provider} did not fail: {found}")


def listening():
    held = socket.socket()
    held.bind(("", 0))
    held.listen(1)
    return held


def in_time_wait():
    """Returns the port of a client that has closed first."""
    with listening() as held, socket.socket() as client:
        client.connect(("localhost", held.getsockname()[1]))
        port = client.getsockname()[1]
        server = held.accept()[0]
        client.close()
        server.recv(1)
        server.close()
    return port


def a_number_is_read():
    assert measured("right") == 2.5


def ports_that_are_taken_are_passed_over():
    before, others = pingponglib.PORTS, in_time_wait()
    with listening() as held:
        pingponglib.PORTS = iter([held.getsockname()[1], others] + [next(before)])
        assert measured("right") == 2.5
        assert list(pingponglib.PORTS) == []
        pingponglib.PORTS = iter([held.getsockname()[1]] * 2)
        assert "ports were all in use" in failure("right")
    pingponglib.PORTS = before


def no_port_is_one_that_clients_are_given():
    ports = pingponglib.ports_from(32768, 60999, 22000)
    some = {next(ports) for _ in range(40000)}
    assert some == {*range(10240, 32768), *range(61000, 65536)}
    assert next(pingponglib.ports_from(1, 65535, 0)) == 10240


def a_client_starts_when_its_server_listens():
    looks, look = [], pingponglib.Side.listens

    def counted(side, port):
        looks.append(look(side, port))
        if len(looks) == 3:
            with open(os.environ["LATE"], "w") as fifo:
                fifo.write("go")
        return looks[-1]

    pingponglib.Side.listens = counted
    assert measured("late") == 2.5
    pingponglib.Side.listens = look
    assert looks[:3] == [False] * 3 and looks[-1]


def another_listener_is_not_taken_for_the_server():
    with listening() as held:
        side = pingponglib.Side("server", ["-p", "deaf", "-B", str(next(pingponglib.PORTS))],
                             pingponglib.cores()[0], {})
        assert not side.listens(held.getsockname()[1])
        side.stop()


def the_side_that_fails_first_is_named():
    assert failure("none") == "server: status 61: fi_getinfo(): no such provider"
    assert failure("server-dies") == ("server: status 12: server's first word / "
                                      "server's last word")
    assert failure("client-dies") == f"client: signal {int(signal.SIGKILL)}: said nothing"
    assert failure("no-number") == "client: status 0: fin"
    assert "server: status 5: fin" in failure("server-ends-badly")


def nobody_is_waited_for_without_end():
    limits = pingponglib.LIMIT_S, pingponglib.LISTEN_LIMIT_S
    pingponglib.LIMIT_S = 0.1
    assert failure("both-stay") == "server and client: no end within 0.1 s"
    pingponglib.LISTEN_LIMIT_S = 0.1
    assert failure("deaf") == "server: does not listen within 0.1 s"
    pingponglib.LIMIT_S, pingponglib.LISTEN_LIMIT_S = limits


def bench(build, *words):
    done = subprocess.run([os.path.join(SCRIPTS, "pingpong"), "--sizes", "64", "--rounds",
                           "2", *words, build], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE)
    return done.returncode, done.stdout.splitlines(), done.stderr


def the_others_go_on():
    build = os.path.join(os.environ["PATH"].split(":")[0], "build")
    os.makedirs(f"{build}/src/provider")
    open(f"{build}/src/provider/libmatchbox-fi.so", "w").close()
    status, lines, said = bench(build, "--providers", "right,client-dies")
    assert status == 0, said
    assert [line for line in lines if line.startswith("bench=")] == [
        f"bench=pingpong provider={provider} mode={mode} size=64 round={number} {result}"
        for number in range(2) for mode, us in (("tagged", "us=1.25"), ("untagged", "us=2.5"))
        for provider, result in (("matchbox", us), ("right", us),
                                 ("client-dies", "error=client:_signal_9:_said_nothing"))]
    rows = [line.split() for line in lines if line.lstrip().startswith("64 ")]
    assert rows == [["64", *[us] * 4, "-", "-", "1.00", "-"] for us in ("1.25", "2.50")]
    assert said == "bench-pingpong: client-dies failed 4 times; see error= above\n"


def matchbox_must_not_fail():
    os.environ["MATCHBOX_FAILS"] = "yes"
    status, lines, _ = bench(f"{os.environ['PATH'].split(':')[0]}/build", "--mode", "untagged",
                             "--providers", "right")
    del os.environ["MATCHBOX_FAILS"]
    assert status == 1
    assert sum("provider=matchbox" in line and "error=server" in line for line in lines) == 2
    assert sum("provider=right" in line and "us=2.5" in line for line in lines) == 2


def main():
    if len(pingponglib.cores()) < 2:
        return NOT_HERE
    pingponglib.LIMIT_S = pingponglib.LISTEN_LIMIT_S = PATIENCE_S
    with tempfile.TemporaryDirectory(prefix="matchbox-pingpong.") as folder:
        os.symlink(SELF, f"{folder}/fi_pingpong")
        os.environ["PATH"] = f"{folder}:{os.environ['PATH']}"
        os.environ["LATE"] = f"{folder}/late"
        os.mkfifo(os.environ["LATE"])
        for test in (a_number_is_read, ports_that_are_taken_are_passed_over,
                     no_port_is_one_that_clients_are_given,
                     a_client_starts_when_its_server_listens,
                     another_listener_is_not_taken_for_the_server, the_side_that_fails_first_is_named,
                     nobody_is_waited_for_without_end, the_others_go_on, matchbox_must_not_fail):
            test()
            print(f"ok {test.__name__}", flush=True)
            try:
                raise AssertionError(f"left: {os.waitpid(-1, os.WNOHANG)}")
            except ChildProcessError:
                pass
    return 0


if __name__ == "__main__":
    if os.path.basename(sys.argv[0]) == "fi_pingpong":
        fails = sys.argv.count("matchbox") and "MATCHBOX_FAILS" in os.environ
        fi_pingpong([("none" if fails and w == "matchbox" else w) for w in sys.argv[1:]])
    sys.exit(main())
