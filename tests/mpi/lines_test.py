#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""lines_test.py BUILD - `mbx trace --summary` reports for an MPI program in which line a rank has waited, and in which
line the rank that it waited for came back to MPI.  It does so also for a program without .debug_aranges: clang writes none.
"""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from patience import PATIENCE_S  # noqa: E402

BUILD = os.path.abspath(sys.argv[1])
MBX, PROGRAM = os.path.join(BUILD, "tools/mbx"), os.path.join(BUILD, "tests/mpi/late")
SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "late.c")
# story: (kind, text of the waiting rank's line, text of the other rank's line)
STORIES = {
    "sender": ("late sender", "MPI_Recv(buffer, 8", "MPI_Send(buffer, 8"),
    "receiver": ("late receiver", "MPI_Ssend(buffer, LONG", "MPI_Recv(buffer, LONG"),
    "barrier": ("came last", "MPI_Barrier(", "MPI_Barrier("),
}
SAID = re.compile(r"^rank 0 waited ([0-9.]+) of [0-9.]+ s for rank 1 .*: (.*), MPI_COMM_WORLD .*, in (MPI_\w+)(?: at late\.c:(\d+))?; "
                  r"rank 1 came by (MPI_\w+)(?: at late\.c:(\d+))?$", re.M)
failures = []


def check(story, name, output):
    kind, waits, comes = STORIES[story]
    with open(SOURCE, encoding="utf-8") as file:
        lines = file.read().splitlines()
    has_lines = "libdw yes" in subprocess.run([MBX, "version"], capture_output=True, text=True, check=True).stdout
    found = [match for match in SAID.findall(output) if match[1] == kind]
    if len(found) != 1:
        failures.append(f"{name}: not said once for a {kind}:\n{output[max(0, output.find('waits')):]}")
        return
    _, _, call, line, came, came_line = found[0]
    for said, number, words in ((call, line, waits), (came, came_line, comes)):
        if said not in lines[[words in text for text in lines].index(True)]:
            failures.append(f"{name}: {said}, and not that of {words!r}:\n{output}")
        if has_lines and (number == "" or words not in lines[int(number) - 1]):
            failures.append(f"{name}: line {number or '(none)'} of late.c has no {words!r}:\n{output}")


def run(story, name, folder, program):
    """name: of the story in failures"""
    env = {key: value for key, value in os.environ.items() if not key.startswith("MBX_")}
    env.update(MBX_TRACE=folder, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    job = subprocess.run([MBX, "exec", "mpiexec", "--oversubscribe", "-n", "2", program, story], env=env, capture_output=True,
                         text=True, timeout=PATIENCE_S)
    if job.returncode != 0:
        failures.append(f"{name}: {job.stdout}{job.stderr}")
        return
    done = subprocess.run([MBX, "trace", "--summary", *glob.glob(os.path.join(folder, "*.trace"))], capture_output=True,
                          text=True, timeout=PATIENCE_S)
    if done.returncode != 0:
        failures.append(f"{name}: {done.stderr}")
    check(story, name, done.stdout)


for name in STORIES:
    with tempfile.TemporaryDirectory() as folder:
        run(name, name, folder, PROGRAM)
if shutil.which("objcopy"):
    with tempfile.TemporaryDirectory() as folder:
        COPY = os.path.join(folder, "late")
        subprocess.run(["objcopy", "--remove-section=.debug_aranges", PROGRAM, COPY], check=True)
        run("sender", "sender, no .debug_aranges", folder, COPY)
for failure in failures:
    print("FAIL", failure)
print(f"lines_test: {len(failures)} failures")
sys.exit(len(failures) != 0)
