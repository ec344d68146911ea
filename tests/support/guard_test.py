#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""guard_test.py GUARD - whatever a test does, and however it ends, the guard leaves neither its processes nor its files."""
import os
import signal
import subprocess
import sys
import tempfile

GUARD = sys.argv[1]
LITTER = 'mkdir -p "$TMPDIR/a/b"; echo text > "$TMPDIR/a/b/file"; ln -s / "$TMPDIR/a/link"; sleep 1000 & echo "$TMPDIR" $!; '


def begun(end):
    """A guarded test that litters: its guard, the folder around its own one, its own one, and the process that it leaves."""
    around = tempfile.TemporaryDirectory(prefix="guard-test.")
    guard = subprocess.Popen([GUARD, "sh", "-c", LITTER + end], env={**os.environ, "TMPDIR": around.name}, stdout=subprocess.PIPE, text=True)
    folder, pid = guard.stdout.readline().split()
    return guard, around, folder, int(pid)


def nothing_is_left(guard, around, folder, pid, status):
    assert guard.wait() == status, guard.returncode
    guard.stdout.close()
    with around:
        assert os.listdir(around.name) == [], f"{os.listdir(around.name)} is left in {folder}"
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return
    raise AssertionError(f"process {pid} is left")


def a_failed_test_leaves_nothing():
    for status in 1, 3:
        nothing_is_left(*begun(f"exit {status}"), status)
    nothing_is_left(*begun("kill -SEGV $$"), 128 + signal.SIGSEGV)


def a_passed_test_leaves_nothing():
    nothing_is_left(*begun("kill $!; exit 0"), 0)


def a_stopped_test_leaves_nothing():
    for number in signal.SIGTERM, signal.SIGINT, signal.SIGHUP:
        guard, *of = begun("exec sleep 1000")
        guard.send_signal(number)
        nothing_is_left(guard, *of, 128 + number)


def others_pass_through_the_folder_of_a_test():
    guard, around, folder, pid = begun("exec sleep 1000")
    assert folder != around.name and os.stat(folder).st_mode & 0o777 == 0o711, oct(os.stat(folder).st_mode)
    guard.terminate()
    nothing_is_left(guard, around, folder, pid, 128 + signal.SIGTERM)


for check in (a_failed_test_leaves_nothing, a_passed_test_leaves_nothing, a_stopped_test_leaves_nothing,
              others_pass_through_the_folder_of_a_test):
    check()
    print(check.__name__, flush=True)
