#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""strangers_test.py MBX STAY_PROGRAM [NAME...] - jobs that another user of the machine attacks.

The stranger reaches every socket of a job that the kernel lets him reach, and holds what he can as long as
the test lasts.  Meanwhile the job must do all its work: if it takes longer than PATIENCE_S, it was held.
"""
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import stranger  # noqa: E402
from patience import PATIENCE_S  # noqa: E402

MBX, STAY = (os.path.abspath(path) for path in sys.argv[1:3])

# Sends a descriptor whose close() takes LINGER seconds to each socket, in every way: a connection with unsent bytes.
# Each time a child sends it; its end closes its own copy without waiting.
LINGERS = r"""
import os, socket, struct, sys
linger, names = int(sys.argv[1]), sys.argv[2:]
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
listener.bind(("127.0.0.1", 0))
listener.listen(1)

def attack(to, name, text):
    client = socket.socket()
    client.connect(listener.getsockname())
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, linger))
    client.setblocking(False)
    try:
        while True:
            client.send(bytes(65536))
    except BlockingIOError:
        pass
    try:
        to.connect("\0" + name[1:])
        socket.send_fds(to, [text], [client.fileno()])
    except OSError:
        os._exit(1)
    os._exit(0)

held, sent = [], 0
for name in names:
    for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET, socket.SOCK_DGRAM):
        for text in (b"x", b"mbxpass1" + bytes(24)):
            to = socket.socket(socket.AF_UNIX, kind)
            child = os.fork()
            if child == 0:
                attack(to, name, text)
            held += [to, listener.accept()[0]]
            sent += os.waitpid(child, 0)[1] == 0
print(sent, flush=True)
sys.stdin.read()
"""

# Takes every lock of the file by whose locks the ranks of a job find each other.
LOCKS = r"""
import fcntl, struct, sys
file = open("/dev/zero", "r+b", buffering=0)
fcntl.fcntl(file, 37, struct.pack("hhqqi", fcntl.F_WRLCK, 0, 0, 0, 0))  # F_OFD_SETLK
print("locked", flush=True)
sys.stdin.read()
"""


class Failed(Exception):
    pass


def expect(condition, what):
    if not condition:
        raise Failed(what)


def sockets_of(pids):
    """Returns the names of the abstract sockets of these processes."""
    inodes = set()
    for pid in pids:
        for fd in os.listdir(f"/proc/{pid}/fd"):
            try:
                inodes.update(re.findall(r"^socket:\[(\d+)\]$", os.readlink(f"/proc/{pid}/fd/{fd}")))
            except FileNotFoundError:
                pass
    with open("/proc/net/unix", encoding="utf-8", errors="surrogateescape") as lines:
        found = [line.split() for line in lines]
    return sorted({words[7] for words in found if len(words) > 7 and words[6] in inodes and words[7].startswith("@")})


def with_children(pid):
    """Returns the process and all its descendants."""
    pids = [pid]
    for parent in pids:
        for task in os.listdir(f"/proc/{parent}/task"):
            with open(f"/proc/{parent}/task/{task}/children", encoding="ascii") as children:
                pids += map(int, children.read().split())
    return pids


class Job:
    """Two ranks of the program that stays open, under `mbx run`, which end with the `with`."""

    def __init__(self, **env):
        clean = {name: value for name, value in os.environ.items() if not name.startswith("MBX_")}
        self.folder = tempfile.mkdtemp(prefix="matchbox-strangers.")
        self.fifo = os.path.join(self.folder, "go")
        os.mkfifo(self.fifo)
        self.writer = os.open(self.fifo, os.O_RDWR)  # a rank's open() of it does not wait
        self.process = subprocess.Popen([MBX, "run", "-n", "2", STAY, self.fifo], text=True, env={**clean, **env},
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True)
        self.pids = []

    def lines(self, text):
        """Reads this line from each rank."""
        for _ in range(2):
            line = self.process.stdout.readline()
            expect(line == text + "\n", f"a rank said {line!r} in place of {text!r}")

    def opened(self):
        self.lines("open")
        self.pids = with_children(self.process.pid)
        return self

    def go(self):
        """The ranks exchange messages and end, within PATIENCE_S."""
        self.close_writer()
        signal.alarm(PATIENCE_S)
        try:
            self.lines("closed")
            code = self.process.wait()
        finally:
            signal.alarm(0)
        expect(code == 0, f"the job has ended with {code}")

    def close_writer(self):
        if self.writer is not None:
            os.close(self.writer)
            self.writer = None

    def __enter__(self):
        return self

    def signal(self, number):
        for pid in self.pids:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass

    def __exit__(self, *exception):
        self.signal(signal.SIGKILL)
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.close_writer()
        shutil.rmtree(self.folder)


def held(_signal, _frame):
    raise Failed(f"the job is held: it has not ended within {PATIENCE_S} s")


def test_lingering_descriptors_stay():
    """A socket that accepts the strangers' descriptors is held: the other tests would notice such an attack."""
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        victim = socket.socket(socket.AF_UNIX, kind)
        name = f"matchbox-strangers-{os.getpid()}"
        victim.bind("\0" + name)
        if kind == socket.SOCK_STREAM:
            victim.listen()
        with stranger.Stranger(LINGERS, 1, "@" + name) as enemy:
            expect(int(enemy.line()) == 2, "the descriptors were not sent")
            began = time.monotonic()
            victim.close()
            expect(time.monotonic() - began >= 0.99, "nothing lingers")


def attack(**env):
    with Job(**env).opened() as job:
        names = sockets_of(job.pids)
        job.signal(signal.SIGSTOP)  # so that the sender has closed its copies of the descriptors when the job reads them
        with stranger.Stranger(LINGERS, 3600, *names) as enemy:
            enemy.line()
            job.signal(signal.SIGCONT)
            job.go()
            expect(enemy.lives(), "the stranger has ended")
    return names


def test_descriptors_that_linger():
    """Nobody can send anything to a job."""
    expect(attack() == [], "a socket of the job has a name")


def test_descriptors_that_linger_where_some_are_passed():
    """A rank that passes descriptors accepts none from outside its job."""
    expect(len(attack(MBX_SHM_PASS="always")) == 2, "no socket of each rank has a name")


def test_locks():
    """Runs in a mount namespace of its own, where /dev/zero is another file: the locks of other jobs are not touched."""
    with tempfile.NamedTemporaryFile(prefix="matchbox-strangers.") as file:
        os.chmod(file.name, 0o666)
        apart = ["unshare", "--mount", "sh", "-c", 'mount --bind "$1" /dev/zero && shift && exec "$@"', "sh", file.name]
        if subprocess.run([*apart, "true"], check=False).returncode != 0:
            print("skipped locks: no mount namespace can be made", flush=True)
            return
        code = subprocess.run([*apart, sys.executable, __file__, MBX, STAY, "all_locks"], check=False).returncode
        expect(code == 0, f"with all locks taken it has ended with {code}")


def all_locks():
    """A process that holds all locks gains nothing: the ranks find each other, and none waits for it."""
    with stranger.Stranger(LOCKS) as enemy:
        expect(enemy.line() == "locked", "no lock")
        with Job().opened() as job:
            job.go()
            expect(enemy.lives(), "the stranger has ended")


TESTS = {name[5:]: function for name, function in list(globals().items()) if name.startswith("test_")}
INNER = {"all_locks": all_locks}  # tests that run elsewhere


def main(names):
    stranger.needed()
    signal.signal(signal.SIGALRM, held)
    failed = 0
    for name in names or TESTS:
        try:
            (TESTS.get(name) or INNER[name])()
            print(f"ok      {name}", flush=True)
        except Failed as why:
            failed += 1
            print(f"FAILED  {name}: {why}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[3:]))
