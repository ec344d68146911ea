# SPDX-License-Identifier: BSD-3-Clause
"""One run of libfabric's fi_pingpong, or of ucx_perftest: a server and a client, pinned to two cores.

The server listens before it opens its provider, and takes one connection.  So the client starts
when the server's socket listens, which is looked up and not tried; until then a server that ends
has said nothing of its provider.  If its port was taken, it is started again at another.

Ports lie outside the range from which Linux takes the ports of clients.  A client that closes first
leaves its port in TIME_WAIT for a minute, and a listener cannot have it: SO_REUSEADDR helps only
if both have set it.
"""
import errno
import itertools
import os
import select
import subprocess
import tempfile
import time

LIMIT_S = 60
LISTEN_LIMIT_S = 60
PORTS_TRIED = 20
FIRST_PORT = 10240
LOOK_AGAIN_MS = 2
LISTEN = "0A"  # the state in /proc/net/tcp


class Failed(Exception):
    """There is no number; says which side ended how, and what it said last."""


def ports_from(low, high, start):
    """All ports that no client is given, beginning anywhere; low to high are clients'."""
    ports = [p for p in range(FIRST_PORT, 1 << 16) if not low <= p <= high]
    ports = ports or list(range(FIRST_PORT, 1 << 16))
    start %= len(ports)
    return itertools.cycle(ports[start:] + ports[:start])


def own_ports():
    with open("/proc/sys/net/ipv4/ip_local_port_range") as numbers:
        low, high = map(int, numbers.read().split())
    return ports_from(low, high, os.getpid() * 64)  # so that concurrent runs seldom collide


PORTS = own_ports()


class Side:
    """A server or a client.  Its output goes to a file, so that it never waits for a reader."""

    def __init__(self, role, command, core, env):
        self.role = role
        self.said = tempfile.TemporaryFile("w+", errors="replace")
        self.process = subprocess.Popen(["taskset", "-c", str(core)] + command,
                                        env=dict(os.environ, LC_ALL="C", **env),
                                        stdin=subprocess.DEVNULL, stdout=self.said,
                                        stderr=subprocess.STDOUT)
        self.pidfd = os.pidfd_open(self.process.pid)

    def text(self):
        self.said.seek(0)
        return self.said.read()

    def why(self):
        status = self.process.poll()
        how = f"status {status}" if status >= 0 else f"signal {-status}"
        lines = [line.strip() for line in self.text().splitlines() if line.strip()]
        return f"{self.role}: {how}: " + (" / ".join(lines[-3:]) or "said nothing")

    def sockets(self):
        """The inodes of its sockets."""
        folder = f"/proc/{self.process.pid}/fd"
        try:
            links = [os.readlink(os.path.join(folder, fd)) for fd in os.listdir(folder)]
        except OSError:  # the process ends, or closes a file meanwhile: try again
            return set()
        return {link[len("socket:["):-1] for link in links if link.startswith("socket:[")}

    def listens(self, port):
        """At this port, and not somebody else."""
        with open("/proc/net/tcp") as table:
            rows = [row.split() for row in table.readlines()[1:]]
        found = {row[9] for row in rows if row[3] == LISTEN and row[1].endswith(f":{port:04X}")}
        return bool(found and found & self.sockets())

    def stop(self):
        """First gently: a provider has memory to unlink."""
        for end in (self.process.terminate, self.process.kill):
            if self.process.poll() is None:
                end()
                first_to_end([self], 5)
        self.process.wait()
        os.close(self.pidfd)
        self.said.close()


def first_to_end(sides, limit_s):
    """The sides that have ended; waits until one has."""
    poll = select.poll()
    for side in sides:
        poll.register(side.pidfd, select.POLLIN)
    ended = {fd for fd, _ in poll.poll(max(0, limit_s * 1000))}
    return [side for side in sides if side.pidfd in ended]


def cores():
    """Two cores that this process may use."""
    return sorted(os.sched_getaffinity(0))[:2]


def port_was_taken(server):
    return server.process.wait() == errno.EADDRINUSE or os.strerror(errno.EADDRINUSE) in server.text()


def start_server(command, env):
    """A server that listens, and its port; command ends with the option of its port."""
    for port in itertools.islice(PORTS, PORTS_TRIED):
        server = Side("server", command + [str(port)], cores()[0], env)
        try:
            deadline = time.monotonic() + LISTEN_LIMIT_S
            while not server.listens(port):
                if first_to_end([server], LOOK_AGAIN_MS / 1000):
                    break
                if time.monotonic() > deadline:
                    raise Failed(f"server: does not listen within {LISTEN_LIMIT_S} s")
            else:
                return server, port
            if not port_was_taken(server):
                raise Failed(server.why())
        except BaseException:
            server.stop()
            raise
        server.stop()
    raise Failed(f"server: {PORTS_TRIED} ports were all in use")


def finish(sides):
    """Both end by themselves, or the case has failed; nobody waits for who cannot come."""
    deadline = time.monotonic() + LIMIT_S
    while sides:
        ended = first_to_end(sides, deadline - time.monotonic())
        if not ended:
            raise Failed(" and ".join(side.role for side in sides) +
                         f": no end within {LIMIT_S} s")
        failed = [side.why() for side in ended if side.process.wait() != 0]
        if failed:
            raise Failed("; ".join(failed))
        sides = [side for side in sides if side not in ended]


def half_trip(text):
    """The column usec/xfer of the only row."""
    lines = text.splitlines()
    for names, values in zip(lines, lines[1:]):
        if "usec/xfer" in names:
            return float(values.split()[names.split().index("usec/xfer")])
    return None


def run_both(server_command, client_command, find, env):
    """The result of find() for the output of the client.  server_command ends with the option of its port,
    client_command(port) is the client's.  Raises Failed, also if find() finds nothing."""
    server, port = start_server(server_command, env)
    sides = [server]
    try:
        sides.append(Side("client", client_command(port), cores()[1], env))
        finish(sides)
        found = find(sides[1].text())
        if found is None:
            raise Failed(sides[1].why())
    finally:
        for side in reversed(sides):
            side.stop()
    return found


def measure(provider, mode, size, iterations, env):
    """A half round trip in us; mode is tagged or msg.  Raises Failed."""
    words = ["fi_pingpong", "-p", provider, "-e", "rdm", "-m", mode, "-S", str(size), "-I",
             str(iterations)]
    return run_both(words + ["-B"], lambda port: words + ["-P", str(port), "localhost"], half_trip, env)


def columns(text):
    """name -> figure of the only row that ucx_perftest -v prints below its names, or None."""
    rows = [line.split(",") for line in text.splitlines() if line.count(",") >= 5]
    if len(rows) != 2 or len(rows[0]) != len(rows[1]):
        return None
    return dict(zip(rows[0], map(float, rows[1])))


def ucx_perftest(test, size, iterations, env):
    """The figures of `ucx_perftest -t TEST`, by the names of its columns; of tag_lat half round trips in
    us.  Raises Failed."""
    words = ["ucx_perftest", "-f", "-v"]
    what = ["-t", test, "-s", str(size), "-n", str(iterations), "-w", str(max(iterations // 10, 10)), "-O", "64"]
    return run_both(words + ["-p"], lambda port: words + what + ["-p", str(port), "localhost"], columns, env)
