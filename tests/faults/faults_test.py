#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""faults_test.py BUILD_DIR [--long] [NAME...] - what a network does to ranks on hosts of their own.

Three hosts that scripts/hosts/netns-hosts makes, one rank of tests/faults/far_program on each, and a fourth for
processes without the key.  The test judges what the ranks are told, not how long this takes.  Cases that take long
run with --long only.  Exit code 77 if hosts cannot be made here.
"""
import collections
import os
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from patience import PATIENCE_S  # noqa: E402

SELF = os.path.abspath(__file__)
HOSTS = os.path.join(os.path.dirname(SELF), "..", "..", "scripts/hosts/netns-hosts")
NOT_HERE = 77
RANKS = 3
VICTIM = RANKS - 1


class Failed(Exception):
    pass


class NotHere(Exception):
    pass


def control(*words):
    subprocess.run([HOSTS, *words], check=True)


class Ranks:
    """The ranks of one test, each on its host."""

    def __init__(self, build, mode, **env):
        self.folder = tempfile.mkdtemp(prefix="matchbox-faults.")
        self.env = dict(os.environ, MBX_TRANSPORT="ofi", MBX_OFI_PROVIDER="tcp;ofi_rxm",
                        MBX_KEY=os.urandom(16).hex(), **env)
        program = os.path.join(build, "tests/faults/far_program")
        self.processes = [self.start(program, rank, mode) for rank in range(RANKS)]

    def start(self, program, rank, mode):
        words = [HOSTS, "enter", f"h{rank + 1}", "echo", "$$", ">", f"{self.folder}/pid.{rank};",
                 "exec", program, self.folder, str(rank), str(RANKS), mode]
        return subprocess.Popen(words, env=self.env, text=True, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE)

    def on(self, rank, command):
        """Runs a command with the pid of this rank's process, on the host of the rank."""
        with open(f"{self.folder}/pid.{rank}") as file:
            control("enter", f"h{rank + 1}", command, file.read().strip())

    def await_mark(self, mark):
        deadline = time.monotonic() + PATIENCE_S
        for rank in range(RANKS):
            while not os.path.exists(f"{self.folder}/{mark}.{rank}"):
                if time.monotonic() > deadline or self.processes[rank].poll() is not None:
                    raise Failed(f"rank {rank} does not come to '{mark}'\n{self.end()}")
                time.sleep(0.01)

    def mark(self, mark):
        with open(f"{self.folder}/{mark}.0", "w"):
            pass

    def expect_right(self, ranks, may_drop=False):
        """These ranks end, and succeed."""
        for rank in ranks:
            process = self.processes[rank]
            deadline = time.monotonic() + PATIENCE_S
            while process.poll() is None:
                if time.monotonic() > deadline:
                    raise Failed(f"rank {rank} does not end\n{self.end()}")
                process.send_signal(signal.SIGCONT)  # nsenter stops with its child
                time.sleep(0.05)
            out, err = process.communicate()
            if (process.returncode != 0 or "right" not in out or
                    ("dropped" in err and not may_drop)):
                raise Failed(f"rank {rank} ends with {process.returncode}\n{out}{err}")

    def end(self):
        """Kills the remaining processes and returns their output."""
        said = ""
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            if not process.stdout.closed:
                said += "".join(process.communicate())
        return said

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.end()
        shutil.rmtree(self.folder, ignore_errors=True)


# ---- the tests, inside the hosts ----------------------------------------------------------------


def talk(build, disturb, **env):
    """The ranks talk while disturb() runs, and nothing fails."""
    with Ranks(build, "talk", **env) as ranks:
        ranks.await_mark("talks")
        disturb(ranks)
        ranks.mark("enough")
        ranks.expect_right(range(RANKS))


def test_a_network_that_comes_and_goes(build):
    """Packets sent meanwhile are lost; TCP sends them again."""
    def blink(ranks):
        for _ in range(6):
            control("cut", "h3")
            time.sleep(0.2)
            control("mend", "h3")
            time.sleep(0.2)
    talk(build, blink)


def test_a_cable_that_is_out_for_a_while(build):
    def pull(ranks):
        control("cut", "--down", "h2")
        time.sleep(2)
        control("mend", "h2")
    talk(build, pull)


def test_a_network_that_drops_packets(build):
    """A queue of two packets before a slow line: packets that do not fit are dropped."""
    def narrow(ranks):
        tc = "tc qdisc replace dev eth0 root tbf rate 20mbit burst 4000 limit 8000"
        if subprocess.run([HOSTS, "enter", "h3", tc], capture_output=True).returncode != 0:
            raise NotHere("no tc with a token bucket")
        until = time.monotonic() + PATIENCE_S
        shown = "dropped 0,"
        while "dropped 0," in shown:
            if time.monotonic() > until:
                raise Failed(f"nothing was dropped: {shown}")
            time.sleep(3)
            shown = subprocess.run([HOSTS, "enter", "h3", "tc -s qdisc show dev eth0"], check=True,
                                   capture_output=True, text=True).stdout
        control("enter", "h3", "tc qdisc del dev eth0 root")
    talk(build, narrow)


def test_a_process_that_is_stopped(build):
    def stop(ranks):
        ranks.on(VICTIM, "kill -STOP")
        time.sleep(3)
        ranks.on(VICTIM, "kill -CONT")
    talk(build, stop)


def test_a_process_that_is_stopped_before_they_meet(build):
    """A rank is stopped for longer than a process may take to authenticate itself."""
    with Ranks(build, "talk") as ranks:
        ranks.await_mark("address")
        ranks.on(VICTIM, "kill -STOP")
        time.sleep(25)
        ranks.on(VICTIM, "kill -CONT")
        ranks.await_mark("talks")
        ranks.mark("enough")
        ranks.expect_right(range(RANKS))


def vanish(build, *words, **env):
    with Ranks(build, "vanish", **env) as ranks:
        ranks.await_mark("waits")
        if words:
            control(*words)
        else:
            ranks.on(VICTIM, "kill -KILL")
        ranks.expect_right(range(VICTIM))


def test_a_process_that_is_killed(build):
    vanish(build)


def test_a_host_that_vanishes(build):
    """No packet arrives any more, not even a refusal: only a time limit detects the silence."""
    vanish(build, "cut", "h3", MBX_OFI_TIMEOUT="5s")


def test_a_cable_that_is_out(build):
    vanish(build, "cut", "--down", "h3", MBX_OFI_TIMEOUT="5s")


def test_a_host_without_power(build):
    vanish(build, "end", "h3", MBX_OFI_TIMEOUT="5s")


# ---- processes without the key ----

FRAMES = 20000  # that a sniffer still reads when it must end


class Flow:
    """One direction of a TCP connection, from its SYN on."""

    def __init__(self):
        self.first, self.pieces = None, {}

    def take(self, sequence, is_syn, payload):
        if is_syn:
            self.first, self.pieces = (sequence + 1) % 2**32, {}
        elif payload and self.first is not None:
            at = (sequence - self.first) % 2**32
            if at < 2**18:
                self.pieces[at] = max(self.pieces.get(at, b""), payload, key=len)

    def bytes(self):
        """Returns the bytes up to the first gap."""
        whole = b""
        for at, payload in sorted(self.pieces.items()):
            if at > len(whole):
                break
            whole += payload[len(whole) - at:]
        return whole


def take_frame(flows, frame):
    """Takes the TCP segment over IPv4 of an Ethernet frame, if it has one."""
    if len(frame) < 54 or frame[12:14] != b"\x08\x00" or frame[23] != socket.IPPROTO_TCP:
        return
    packet = frame[14:14 + struct.unpack_from("!H", frame, 16)[0]]
    segment = packet[(packet[0] & 15) * 4:]
    flow = flows[packet[12:20] + segment[:4]]
    flow.take(struct.unpack_from("!I", segment, 4)[0], segment[13] & 2 != 0,
              segment[(segment[12] >> 4) * 4:])


def sniff(interface, path):
    """Sniffs until standard input ends; then the file has the captured bytes of TCP."""
    flows = collections.defaultdict(Flow)
    try:
        wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))  # ETH_P_ALL
    except OSError as error:
        print(f"the network cannot be listened to: {error}", flush=True)
        return NOT_HERE
    wire.bind((interface, 0))
    print("ready", flush=True)
    while sys.stdin not in select.select([wire, sys.stdin], [], [])[0]:
        take_frame(flows, wire.recv(70000))
    wire.setblocking(False)
    try:
        for _ in range(FRAMES):
            take_frame(flows, wire.recv(70000))
    except BlockingIOError:
        pass
    with open(path, "wb") as file:
        for flow in flows.values():
            file.write(struct.pack("=I", len(flow.bytes())) + flow.bytes())
    return 0


def unauthenticated_process(*words):
    """Starts a process without the key."""
    env = {name: value for name, value in os.environ.items() if name != "MBX_KEY"}
    return subprocess.Popen(words, env=env, text=True, stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE)


def expect_dropped(ranks, must):
    """Each rank drops at least this many packets."""
    def dropped(rank):
        with open(f"{ranks.folder}/dropped.{rank}") as file:
            return int(file.read())
    deadline = time.monotonic() + PATIENCE_S
    while any(dropped(rank) < count for rank, count in must.items()):
        if time.monotonic() > deadline or any(p.poll() is not None for p in ranks.processes):
            break
        time.sleep(0.05)
    for rank, count in must.items():
        if dropped(rank) != count:
            raise Failed(f"rank {rank} has dropped {dropped(rank)} packets, not {count}\n"
                         f"{ranks.end()}")


def repeat(build, ranks, flows):
    """A process without the key, on a fourth host, sends the packets.  Returns how many each rank must drop."""
    program = os.path.join(build, "tests/faults/replay_program")
    said = []
    with unauthenticated_process(HOSTS, "enter", "h4", program, ranks.folder, str(RANKS),
                               flows) as replayer:
        for line in replayer.stdout:
            said.append(line)
            if line == "said\n":
                break
        must = dict.fromkeys(range(RANKS), 0)
        for rank, count in re.findall(r"to (\d+): (\d+) of", "".join(said)):
            must[int(rank)] += int(count)
        if said[-1:] == ["said\n"]:
            expect_dropped(ranks, must)
        said.append(replayer.communicate()[0])
    if replayer.returncode != 0 or said[-1] != "heard 0\n" or min(must.values()) < 200:
        raise Failed(f"the process without the key ends with {replayer.returncode}: {''.join(said)}")
    return must


def test_a_greeting_that_is_repeated(build):
    """One process without the key records the packets on the wire, and another sends them again, whole
    and changed: no packet is accepted or answered, and the talking ranks do not notice."""
    with tempfile.TemporaryDirectory(prefix="matchbox-faults.") as folder:
        flows = f"{folder}/flows"
        with unauthenticated_process(sys.executable, SELF, "--sniff", "vh2", flows) as sniffer:
            if (said := sniffer.stdout.readline()) != "ready\n":
                raise NotHere(said.strip())
            with Ranks(build, "talk") as ranks:
                ranks.await_mark("talks")
                sniffer.communicate()
                must = repeat(build, ranks, flows)
                ranks.mark("enough")
                ranks.expect_right(range(RANKS), may_drop=True)
                expect_dropped(ranks, must)


TESTS = {name[5:]: function for name, function in list(globals().items())
         if name.startswith("test_")}
SHORT = ("a_host_that_vanishes", "a_greeting_that_is_repeated")


# ---- outside ---------------------------------------------------------------------------------------


def run_one(build, name):
    """Runs a test in hosts of its own, which end with it.  Returns the exit code and the output."""
    result = subprocess.run([HOSTS, "-n", str(RANKS + 1), sys.executable, SELF, "--within", build, name],
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True)
    return result.returncode, result.stdout.strip()


def within(build, name):
    try:
        TESTS[name](build)
    except NotHere as reason:
        print(reason)
        return NOT_HERE
    except (Failed, subprocess.CalledProcessError) as reason:
        print(reason)
        return 1
    return 0


def main(words):
    if not words or words[0] in ("-h", "--help"):
        print(__doc__.strip() + "\n\nNAME: " + " ".join(TESTS))
        return 0 if words else 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    if words[0] == "--within":
        return within(words[1], words[2])
    if words[0] == "--sniff":
        return sniff(words[1], words[2])
    build = os.path.abspath(words[0])
    names = [word for word in words[1:] if word != "--long"]
    for name in names:
        if name not in TESTS:
            sys.stderr.write(f"faults_test: there is no test '{name}'; there are: "
                             f"{' '.join(TESTS)}\n")
            return 2
    failed, skipped = 0, 0
    names = names or (list(TESTS) if "--long" in words else SHORT)
    for name in names:
        started = time.monotonic()
        code, said = run_one(build, name)
        failed += code not in (0, NOT_HERE)
        skipped += code == NOT_HERE
        print({0: "ok", NOT_HERE: "skipped"}.get(code, "FAILED"), name,
              f"({time.monotonic() - started:.0f} s)", said, flush=True)
    return 1 if failed else NOT_HERE if skipped == len(names) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
