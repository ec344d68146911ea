#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""openmpi_test.py BUILD - programs of an installed Open MPI run over Matchbox through its own component for UCX, pml/ucx.

They are programs of tests/mpi, compiled by Open MPI's mpicc, and started by `mbx exec --through=ucp mpiexec`.  Status 77, with the
reason, where there is no such component.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
from patience import PATIENCE_S  # noqa: E402

# errors is left out, because it fails over UCX as well: bytes and count of a message that is too long.
PROGRAMS = {2: ["order", "p2p", "rules", "datatypes --kept 2 10", "typemaps 1 100", "threads", "onesided"],
            4: ["collectives", "rules --mixed", "rules --threads 4", "windows"]}
SOURCES = {"rules": ["tests/mpi/rules.c", "tests/mpi/rules_oracle.c"], "windows": ["tests/ucp/windows.c"]}


class Failed(Exception):
    """The reason of a failure."""


def first_of(*names):
    return next((name for name in names if shutil.which(name)), None)


MPICC, MPIEXEC = first_of("mpicc.openmpi", "mpicc"), first_of("mpiexec.openmpi", "mpiexec")


def run(*words, **env):
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("UCX_", "LD_LIBRARY", "MBX_", "OMPI_MCA_"))}
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return subprocess.run(list(words), env={**clean, **root, **env}, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


def expect(condition, done, what):
    if not condition:
        raise Failed(f"{what}: status {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-3000:]}")


def compile_all(folder):
    for name in sorted({words.split()[0] for programs in PROGRAMS.values() for words in programs}):
        files = [os.path.join(SOURCE, path) for path in SOURCES.get(name, [f"tests/mpi/{name}.c"])]
        done = run(MPICC, "-w", "-O1", "-g", "-I", SOURCE, "-o", f"{folder}/{name}", *files, "-lpthread", "-lm")
        expect(done.returncode == 0, done, f"{name} does not compile")


class Test:
    def __init__(self, build, folder):
        self.folder = folder
        self.mbx = [f"{build}/tools/mbx", "exec", "--through=ucp"]
        self.launch = [MPIEXEC, "--oversubscribe", "-n"]

    def programs_are_right(self):
        for ranks, programs in PROGRAMS.items():
            for words in programs:
                name, *arguments = words.split()
                done = run(*self.mbx, "--summary", *self.launch, str(ranks), f"{self.folder}/{name}", *arguments)
                expect(done.returncode == 0 and f"ok {name}" in done.stdout + done.stderr, done, f"{words}, {ranks} ranks")
                expect(re.search(rf"{ranks} ranks over Matchbox .*\(ucp Open MPI .*: [1-9]\d* messages sent.* [1-9]\d* matched", done.stderr),
                       done, f"{words}, {ranks} ranks: not over Matchbox")

    def the_way_is_named(self):
        done = run(*self.mbx, "-v", *self.launch, "2", f"{self.folder}/order")
        for text in ("through libucp", "OMPI_MCA_pml=ucx", "OMPI_MCA_pml_ucx_tls=any", "OMPI_MCA_pml_ucx_devices=any"):
            expect(text in done.stderr, done, f"mbx exec -v names {text}")

    def what_keeps_messages_away_is_refused(self):
        done = run(*self.mbx, *self.launch, "2", f"{self.folder}/order", OMPI_MCA_pml="ob1")
        expect(done.returncode == 1 and "OMPI_MCA_pml=ob1 is set" in done.stderr, done, "OMPI_MCA_pml")
        done = run(*self.mbx, MPIEXEC, "--mca", "pml", "ob1", "-n", "2", f"{self.folder}/order")
        expect(done.returncode == 1 and "overrides OMPI_MCA_pml" in done.stderr, done, "--mca pml")

    def all(self):
        self.programs_are_right()
        self.the_way_is_named()
        self.what_keeps_messages_away_is_refused()


def missing():
    """The reason why the test cannot run here, or None."""
    if MPICC is None or MPIEXEC is None or shutil.which("ompi_info") is None:
        return "there is no Open MPI (Debian: libopenmpi-dev openmpi-bin)"
    folder = run("ompi_info", "--path", "pkglibdir", "--parsable").stdout.strip().partition("pkglibdir:")[2]
    component = f"{folder}/mca_pml_ucx.so"
    if not os.path.exists(component):
        return f"this Open MPI has no component for UCX ({component})"
    if re.search(r"lib(ucp|ucs)\.so.* not found", run("ldd", component).stdout):
        return "UCX's libraries are not installed (Debian: libucx0)"
    return None


def main():
    reason = missing()
    if reason is not None:
        print(f"openmpi: {reason}")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        try:
            compile_all(folder)
            Test(os.path.abspath(sys.argv[1]), folder).all()
        except Failed as failure:
            print(f"FAIL: {failure}")
            return 1
    print(f"openmpi: {sum(map(len, PROGRAMS.values()))} programs over libucp")
    return 0


if __name__ == "__main__":
    sys.exit(main())
