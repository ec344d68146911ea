#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A program with more rights than its caller ignores all variables of its caller's environment.

usage: privileged_test.py PROGRAM LIBRARY

The program is copied and made set-user-ID root, and a second user starts it.  The environment requests a statistics
file, a trace, and a library of the caller as libibverbs.  A copy without the bit obeys all three, so the test would
notice them.
"""
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "support"))
sys.dont_write_bytecode = True
import stranger  # noqa: E402
from patience import PATIENCE_S  # noqa: E402


class Place:
    """A folder with the program, and a folder that everybody may write into."""

    def __init__(self, program, library):
        self.folder = tempfile.mkdtemp(prefix="matchbox-privileged-")
        os.chmod(self.folder, 0o755)
        self.program = shutil.copy(program, self.folder)
        self.library = shutil.copy(library, self.folder)
        os.chmod(self.library, 0o755)
        self.output = os.path.join(self.folder, "output")
        os.mkdir(self.output)
        os.chmod(self.output, 0o777)

    def close(self):
        shutil.rmtree(self.folder, ignore_errors=True)

    def run(self, **more):
        for name in os.listdir(self.output):
            os.remove(os.path.join(self.output, name))
        env = {"PATH": "/usr/bin:/bin", "MBX_STATS_FILE": os.path.join(self.output, "stats"), "MBX_TRACE": self.output,
               "MBX_VERBS_LIBRARY": self.library, **more}
        done = subprocess.run([self.program], env=env, capture_output=True, text=True, check=False, timeout=PATIENCE_S,
                              cwd=self.folder, **stranger.as_user(stranger.STRANGER))
        assert done.returncode == 0, done
        print(done.stdout, done.stderr, sorted(os.listdir(self.output)))
        return done, os.listdir(self.output)


def try_all(place):
    done, files = place.run()
    assert "privileged: no" in done.stdout
    assert "stats" in files and any(name.endswith(".trace") for name in files), files
    has_verbs = "code of the caller" in done.stderr

    os.chmod(place.program, 0o4755)
    done, files = place.run()
    if "privileged: yes" not in done.stdout:
        print("skipped: a set-user-ID program has no rights here: a file system with nosuid, or no_new_privs")
        sys.exit(stranger.SKIPPED)
    assert "open: ok" in done.stdout, done.stdout
    assert files == [], f"it wrote {files} with its rights"
    assert "code of the caller" not in done.stderr
    said = [line for line in done.stderr.splitlines() if "are ignored" in line]
    assert len(said) == 1 and "MBX_STATS_FILE" in said[0] and "MBX_LOG_LEVEL" in said[0], done.stderr

    assert ": info:" not in done.stderr
    done, files = place.run(MBX_LOG_LEVEL="info")
    assert files == [] and ": info:" in done.stderr, "MBX_LOG_LEVEL counts"
    print(f"statistics and traces{' and libraries' if has_verbs else ''} of the caller are ignored")


def main():
    stranger.needed()
    place = Place(*sys.argv[1:3])
    try:
        try_all(place)
    finally:
        place.close()


main()
