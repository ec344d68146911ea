#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""stranger.py - a second user of the machine, for tests in which that user is hostile.

    import stranger                                  # Python
    stranger.needed()                                # first of all in main()
    with stranger.Stranger(words) as enemy:          # a program that runs as the second user, in a folder of its own
        enemy.line()                                 # what it has written: an event to go on with

    stranger.py PROGRAM [ARGUMENTS]                  # of another language: PROGRAM finds itself root, or is skipped (77)

The test must be root to start processes of a second user.  It is root, or becomes it in a user namespace into which
newuidmap maps a second user; where neither is possible, it is skipped, and says why.  A process that it starts as STRANGER
has none of its rights.  A process that it starts as HONEST is another ordinary user, for tests in which the user who is
attacked may not be root.

Nobody else has these numbers: they follow from the number of the process that runs the test.  A stranger dies with the
test, however that ends.
"""
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile

from patience import PATIENCE_S

SKIPPED = 77
INSIDE = "MATCHBOX_STRANGER_INSIDE"
PR_SET_PDEATHSIG = 1
AS_ROOT = ["unshare", "--user", "--map-root-user", "--map-auto"]


def numbers():
    """Two numbers that are valid for a user and a group here, and that nobody has."""
    most = 1 << 31
    for name in ("/proc/self/uid_map", "/proc/self/gid_map"):
        with open(name, encoding="ascii") as lines:
            most = min(most, max(int(line.split()[0]) + int(line.split()[2]) for line in lines))
    # each test has two numbers of the upper half, counted from the end
    first = most - 3 - os.getpid() % max(most // 4, 1) * 2
    return (first, first + 1) if first > 0 else None


def needed():
    """Returns in a process that is root, and in which STRANGER, HONEST and PYTHON are set."""
    global STRANGER, HONEST, PYTHON
    found = numbers() if os.geteuid() == 0 else None
    if found is None and INSIDE not in os.environ:
        if shutil.which("newuidmap") and subprocess.run([*AS_ROOT, "true"], check=False, capture_output=True).returncode == 0:
            os.execvpe(AS_ROOT[0], [*AS_ROOT, sys.executable, *sys.argv], {**os.environ, INSIDE: "1"})
        print("skipped: this needs a second user, and so root, or newuidmap and lines for this user in /etc/subuid and /etc/subgid")
        sys.exit(SKIPPED)
    if found is None:
        print("skipped: this needs a second user, and no other is mapped into this user namespace")
        sys.exit(SKIPPED)
    STRANGER, HONEST = found
    PYTHON = python_for_all()


STRANGER = HONEST = PYTHON = None


def python_for_all():
    """An interpreter that the second user may also start: the present one may be in a folder of root."""
    for python in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        try:
            if subprocess.run([python, "-c", "pass"], check=False, capture_output=True, cwd="/", **as_user(STRANGER)).returncode == 0:
                return python
        except OSError:
            pass
    print("skipped: a second user can start no Python here")
    sys.exit(SKIPPED)


def as_user(user):
    """Arguments of subprocess.Popen for a process of that user."""
    parent = os.getpid()
    prctl = ctypes.CDLL(None).prctl

    def die_with_the_test():
        # after the change of the user, which would undo it
        if prctl(PR_SET_PDEATHSIG, signal.SIGKILL) != 0 or os.getppid() != parent:
            os._exit(1)

    return {"user": user, "group": user, "extra_groups": [], "preexec_fn": die_with_the_test}


class Stranger:
    """A program of the second user, until the end of `with`. `words` is the command as a list, or the text of a program
    in Python; *arguments follow it.  Its folder, .folder, is the only one that it owns."""

    def __init__(self, words, *arguments, user=None):
        user = STRANGER if user is None else user
        if isinstance(words, str):
            words = [PYTHON, "-c", words]
        self.folder = tempfile.mkdtemp(prefix="matchbox-stranger.")
        os.chown(self.folder, user, user)
        self.process = subprocess.Popen([*words, *map(str, arguments)], cwd=self.folder, text=True, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, env={**os.environ, "TMPDIR": self.folder}, **as_user(user))
        self.pid = self.process.pid

    def line(self):
        """The next line that it writes; fails if it ends before."""
        text = self.process.stdout.readline()
        if not text.endswith("\n"):
            raise RuntimeError(f"the stranger has ended with {self.process.wait(PATIENCE_S)} and said {text!r}")
        return text[:-1]

    def say(self, text):
        """Sends it a line."""
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()

    def lives(self):
        return self.process.poll() is None

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()
        shutil.rmtree(self.folder, ignore_errors=True)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    needed()
    os.execvp(sys.argv[1], sys.argv[1:])
