# SPDX-License-Identifier: BSD-3-Clause
"""processes.py - the processes of a test, among all others of the machine.

The only place where tests list /proc.  A name there may be any bytes, and a process may be gone, or another user's,
when it is read: a process that cannot be read does not belong to this test.  A process of a test is one of its
descendants, or has a word in its environment that no other process has.
"""
import contextlib
import os
import select
import signal
import subprocess


def numbers():
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def read(pid, name):
    """The bytes of this file of the process; empty if they cannot be read."""
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return file.read()
    except OSError:
        return b""


def descriptors(pid):
    """The targets of the links in /proc/PID/fd."""
    found = []
    with contextlib.suppress(OSError):
        for fd in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                found.append(os.readlink(f"/proc/{pid}/fd/{fd}"))
    return found


def fields(pid):
    """From /proc/PID/stat: the name as text, and the fields that follow it (state, parent, group, session ...); None: it
    has gone."""
    _, _, rest = read(pid, "stat").partition(b"(")
    name, found, rest = rest.rpartition(b")")
    return (name.decode("utf-8", "replace"), rest.decode().split()) if found else None


def children(pid, ended=False):
    """{number: name} of its children that have not ended; or, if `ended`, of zombies that it has not waited for."""
    seen = {number: fields(number) for number in numbers()}
    return {number: one[0] for number, one in seen.items() if one and one[1][1] == str(pid) and (one[1][0] in "ZX") == ended}


def running(*words):
    """The numbers of the processes with these words in their command line."""
    return [pid for pid in numbers() if {word.encode() for word in words} <= set(read(pid, "cmdline").split(b"\0"))]


def marked(word):
    """{number: name} of the processes with this word, NAME=VALUE, in their environment that have not ended."""
    found = [pid for pid in numbers() if word.encode() in read(pid, "environ").split(b"\0")]
    seen = {pid: fields(pid) for pid in found}
    return {pid: one[0] for pid, one in seen.items() if one and one[1][0] not in "ZX"}


def kill_marked(word):
    for pid in marked(word):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@contextlib.contextmanager
def watched(pid):
    """The argument of await_end(): this process, even if another one gets its number later."""
    fd = os.pidfd_open(pid)
    try:
        yield fd
    finally:
        os.close(fd)


def await_end(watched_process, patience_s):
    """Has it ended in this time?"""
    return bool(select.select([watched_process], [], [], patience_s)[0])


@contextlib.contextmanager
def started(words, **more):
    """A process that ends with the block, as do the others of its session."""
    with subprocess.Popen(words, start_new_session=True, **more) as process:
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
