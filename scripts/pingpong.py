# SPDX-License-Identifier: BSD-3-Clause
"""One run of libfabric's fi_pingpong: a server and a client, pinned to two cores."""
import os
import subprocess
import sys

FIRST_PORT = 47600
LIMIT_S = 60


def start(provider, mode, size, iterations, core, more, env):
    return subprocess.Popen(
        ["taskset", "-c", str(core), "fi_pingpong", "-p", provider, "-e", "rdm", "-m", mode,
         "-S", str(size), "-I", str(iterations)] + more,
        env=dict(os.environ, **env), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True)


def half_trip(text):
    """The column usec/xfer of the only row."""
    lines = text.splitlines()
    for names, values in zip(lines, lines[1:]):
        if "usec/xfer" in names:
            return float(values.split()[names.split().index("usec/xfer")])
    return None


def client(who, provider, mode, size, iterations, port, env):
    """Until the server listens, a client is refused."""
    for _ in range(50):
        run = start(provider, mode, size, iterations, 1, ["-P", str(port), "localhost"], env)
        text = run.communicate(timeout=LIMIT_S)[0]
        if run.returncode == 0 and half_trip(text) is not None:
            return half_trip(text)
        if "Connection refused" not in text and "connect" not in text:
            break
    sys.exit(f"{who}: fi_pingpong -p {provider} -S {size} ended with status "
             f"{run.returncode}:\n{text}")


def measure(who, provider, mode, size, iterations, port, env):
    """A half round trip in us.  who speaks if it fails."""
    server = start(provider, mode, size, iterations, 0, ["-B", str(port)], env)
    try:
        us = client(who, provider, mode, size, iterations, port, env)
        server.wait(LIMIT_S)
    finally:
        if server.poll() is None:
            server.kill()
            server.wait()
    return us
