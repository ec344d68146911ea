#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""contract_test.py CONTRACT FOLDER [--ours] - what clients rely on in libucp holds over UCX's own library and over FOLDER's.

CONTRACT prints each statement with its answer; both runs print the same.  Status 77 where UCX's own library is not installed.
--ours skips the run over UCX's own library: it replaces functions of the C library that a sanitizer also replaces.
"""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from patience import PATIENCE_S  # noqa: E402


def run(program, folder):
    env = {name: value for name, value in os.environ.items() if not name.startswith(("UCX_", "LD_"))}
    env["LD_LIBRARY_PATH"] = folder
    env["UCX_WARN_UNUSED_ENV_VARS"] = "n"
    return subprocess.run([program], env=env, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


def names_ours(program, folder):
    """Whether the loader takes the library of this folder."""
    text = subprocess.run(["ldd", program], env={**os.environ, "LD_LIBRARY_PATH": folder}, capture_output=True, text=True,
                          check=True).stdout
    return f"{folder}/libucp.so.0" in text, "libucp.so.0 => not found" in text


def answers(done):
    """The statements; UCX also writes its log to standard output."""
    return [line for line in done.stdout.splitlines() if line.endswith((": yes", "ok contract"))]


def main():
    program, folder = sys.argv[1], os.path.abspath(sys.argv[2])
    if names_ours(program, "")[1]:
        print("contract: UCX's own libucp is not installed")
        return 77
    if not names_ours(program, folder)[0]:
        print(f"FAIL: the loader does not take {folder}/libucp.so.0")
        return 1
    runs = [("ours", run(program, folder))]
    if "--ours" not in sys.argv[3:]:
        runs.append(("UCX's own libucp", run(program, "")))
    for who, done in runs:
        if done.returncode != 0 or "ok contract" not in done.stdout:
            print(f"FAIL over {who}: status {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
            return 1
    ours = runs[0][1]
    if answers(ours) != answers(runs[-1][1]):
        print("FAIL: the statements differ")
        return 1
    if ours.stderr:
        print(f"FAIL: ours says: {ours.stderr}")
        return 1
    print(f"contract: {len(answers(ours)) - 1} statements hold over {' and '.join(who for who, _ in runs)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
