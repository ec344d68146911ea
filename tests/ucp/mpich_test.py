#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""mpich_test.py BUILD [RANKS...] - programs of an installed MPICH with the device ch4:ucx run over Matchbox.

They are the programs of tests/mpi, compiled by mpicc.mpich, and started by `mbx exec mpiexec.mpich`.  Some also run over UCX's own
libucp, where both must print the same.  Status 77 where there is no such MPICH.
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

# Left out: errors, and truncation in rules and datatypes: MPICH 4.0.2 also ends the program in MPI_Wait over UCX.
PROGRAMS = ["p2p", "collectives", "order", "patterns", "rules --no-truncation", "rules --no-truncation --mixed",
            "rules --threads 4 --no-truncation", "datatypes --over-ofi 2 20", "datatypes --over-ofi --threads 3 5", "typemaps 1 300",
            "threads", "onesided", "windows", "many", "forked", "app_amr", "app_farm", "app_farm --posted 0"]
TRIES = 20
SOURCES = {"rules": ["tests/mpi/rules.c", "tests/mpi/rules_oracle.c"], "app_amr": ["bench/app_amr.c"], "app_farm": ["bench/app_farm.c"],
           "windows": ["tests/ucp/windows.c"]}


class Failed(Exception):
    """A check failed."""


def compile_all(folder):
    for name in sorted({words.split()[0] for words in PROGRAMS} | {"statuses", "killed"}):
        files = [os.path.join(SOURCE, path) for path in SOURCES.get(name, [f"tests/mpi/{name}.c"])]
        if name == "killed":
            files = [os.path.join(HERE, "killed.c")]
        done = subprocess.run(["mpicc.mpich", "-w", "-O1", "-g", "-I", SOURCE, "-o", f"{folder}/{name}", *files, "-lpthread", "-lm"],
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Failed(f"{name} does not compile: {done.stderr[-2000:]}")


def run(*words, **env):
    """Ends with MPICH's own processes, which are in its session."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("UCX_", "LD_LIBRARY", "MBX_"))}
    return subprocess.run(list(words), env={**clean, **env}, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


def expect(condition, done, what):
    if not condition:
        raise Failed(f"{what}: status {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-3000:]}")


class Test:
    def __init__(self, build, folder):
        self.build, self.folder = build, folder
        self.mbx = [f"{build}/tools/mbx", "exec"]

    def programs_are_right(self, ranks):
        for words in PROGRAMS:
            name, *arguments = words.split()
            done = run(*self.mbx, "--summary", "mpiexec.mpich", "-n", str(ranks), f"{self.folder}/{name}", *arguments)
            expect(done.returncode == 0 and f"ok {name}" in done.stdout + done.stderr, done, f"{words}, {ranks} ranks")
            expect(re.search(rf"{ranks} ranks over Matchbox .*\(ucp MPICH .*: [1-9]\d* messages sent", done.stderr), done,
                   f"{words}, {ranks} ranks: not over Matchbox")

    def statuses_are_those_of_ucx(self):
        words = ["mpiexec.mpich", "-n", "2", f"{self.folder}/statuses", "--show", "--whatever"]
        theirs, ours = run(*words), run(*self.mbx, *words)
        expect(theirs.returncode == 0 and len(theirs.stdout.splitlines()) > 100, theirs, "statuses over UCX")
        expect(ours.stdout == theirs.stdout, ours, "statuses differ from those over UCX")

    def windows_are_accessed_directly(self, ranks):
        """Each rank makes 162 puts or more to others; each one is performed by the rank whose memory it is."""
        done = run(*self.mbx, "mpiexec.mpich", "-n", str(ranks), f"{self.folder}/windows", MBX_STATS_FILE=f"{self.folder}/stats.%r")
        expect(done.returncode == 0, done, "windows, with statistics")
        counts = []
        for rank in range(ranks):
            with open(f"{self.folder}/stats.{rank}", encoding="utf-8") as file:
                counts.append({name: int(value) for name, value in re.findall(r"(\w+)=(\d+)", file.read())})
            expect(counts[-1]["puts"] >= 162 and counts[-1]["gets"] >= 160 and counts[-1]["access_errors"] == 0, done,
                   f"puts and gets of rank {rank} are accesses: {counts[-1]}")
        for made, served in (("puts", "served_writes"), ("gets", "served_reads")):
            expect(sum(count[made] for count in counts) == sum(count[served] for count in counts), done, f"all {made} are served")

    def each_rank_says_its_way(self):
        done = run(*self.mbx, "-v", "--summary", "mpiexec.mpich", "-n", "2", f"{self.folder}/order")
        expect("through libucp: MPICH" in done.stderr, done, "mbx exec -v names the way")
        expect("MPIR_CVAR_NOLOCAL" not in done.stderr, done, "ranks of one node stay together")
        expect(len(re.findall(r"rank \d of 2: over Matchbox .* by libucp, MPICH", done.stderr)) == 2, done, "each rank says its way")

    def a_killed_rank_ends_the_job(self):
        """With a /dev/shm of its own, where that is allowed, in which nothing stays."""
        own = ["unshare", "-rm", "sh", "-c",
               'mount -t tmpfs none /dev/shm || exit 1; "$@"; status=$?; echo "left: $(ls -A /dev/shm)."; exit $status', "sh"]
        is_alone = run(*own, "true").returncode == 0
        done = run(*(own if is_alone else []), *self.mbx, "--summary", "mpiexec.mpich", "-n", "3", f"{self.folder}/killed")
        expect(done.returncode != 0 and "completed" not in done.stdout, done, "a rank is killed")
        expect("BAD TERMINATION" in done.stdout + done.stderr, done, "a rank is killed: not by itself")
        expect(not is_alone or "left: ." in done.stdout, done, "in /dev/shm")
        expect("no rank came to MPI_Finalize over Matchbox" in done.stderr, done, "the summary of a job that was ended")

    def mixed_jobs_end(self):
        program, other = f"{self.folder}/order", ["-env", "LD_LIBRARY_PATH", "/none"]
        ours, theirs = "received an address of UCX 1.x: that rank does not use Matchbox's libucp", "transport to matchbox rank"
        for name, words in (("rank 0", [*other, program, ":", "-n", "1", program]), ("rank 1", [program, ":", "-n", "1", *other, program])):
            # which of the two looks first is chance; the other one is ended by then, and its text may be lost with it
            for _ in range(TRIES):
                done = run(*self.mbx, "mpiexec.mpich", "-n", "1", *words)
                expect(done.returncode not in (0, 139), done, f"{name} over UCX")
                if ours in done.stdout + done.stderr or theirs in done.stdout + done.stderr:
                    break
            else:
                expect(False, done, f"{name} over UCX: no text in {TRIES} jobs")

    def what_keeps_messages_away_is_refused(self):
        command = ["mpiexec.mpich", "-n", "2", f"{self.folder}/order"]
        done = run(*self.mbx, *command, LD_PRELOAD="/none/libucp.so.0")
        expect(done.returncode == 1 and "names another libucp" in done.stderr, done, "LD_PRELOAD")
        done = run(*self.mbx, "--through=provider", *command)
        expect(done.returncode == 1 and "has device ch4:ucx" in done.stderr, done, "another way")
        done = run(*self.mbx, *command, UCX_TLS="tcp")
        expect(done.returncode == 0 and "UCX_TLS has no effect" in done.stderr, done, "UCX_TLS")
        done = run(*self.mbx, "--print", "--through=ucp")
        expect(f"export LD_LIBRARY_PATH='{self.build}/src/ucp" in done.stdout, done, "--print")
        shutil.copy(f"{self.folder}/order", f"{self.folder}/privileged")
        os.chmod(f"{self.folder}/privileged", 0o4755)
        done = run(*self.mbx, "mpiexec.mpich", "-n", "2", f"{self.folder}/privileged")
        expect(done.returncode == 1 and "is set-user-ID or has file capabilities" in done.stderr, done, "set-user-ID")

    def an_rpath_is_overridden(self):
        where = f"{self.folder}/elsewhere"
        os.mkdir(where)
        os.symlink(os.path.realpath(subprocess.run(["gcc", "-print-file-name=libucp.so.0"], capture_output=True, text=True,
                                                   check=True).stdout.strip()), f"{where}/libucp.so.0")
        subprocess.run(["mpicc.mpich", "-w", f"-Wl,-rpath,{where},--disable-new-dtags", "-o", f"{self.folder}/rpath",
                        f"{SOURCE}/tests/mpi/order.c"], check=True)
        done = run(*self.mbx, "--summary", "mpiexec.mpich", "-n", "2", f"{self.folder}/rpath")
        expect("has another libucp.so.0: using LD_PRELOAD" in done.stderr, done, "RPATH")
        expect(done.returncode == 0 and "2 ranks over Matchbox" in done.stderr, done, "RPATH: not over Matchbox")

    def all(self, ranks):
        for count in ranks:
            self.programs_are_right(count)
            self.windows_are_accessed_directly(count)
        self.statuses_are_those_of_ucx()
        self.each_rank_says_its_way()
        self.a_killed_rank_ends_the_job()
        self.mixed_jobs_end()
        self.what_keeps_messages_away_is_refused()
        self.an_rpath_is_overridden()


def is_here():
    """Whether there is an MPICH with the device ch4:ucx."""
    if not all(shutil.which(name) for name in ("mpicc.mpich", "mpiexec.mpich", "mpichversion.mpich")):
        if not all(shutil.which(name) for name in ("mpicc.mpich", "mpiexec.mpich", "mpichversion")):
            return False
    tool = shutil.which("mpichversion.mpich") or shutil.which("mpichversion")
    return re.search(r"MPICH Device:\s*ch4:ucx", subprocess.run([tool], capture_output=True, text=True, check=False).stdout) is not None


def main():
    if not is_here():
        print("mpich: there is no MPICH with the device ch4:ucx (Debian: mpich libmpich-dev)")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        try:
            compile_all(folder)
            Test(os.path.abspath(sys.argv[1]), folder).all([int(word) for word in sys.argv[2:]] or [2, 4])
        except Failed as failure:
            print(f"FAIL: {failure}")
            return 1
    print(f"mpich: {len(PROGRAMS)} programs over libucp")
    return 0


if __name__ == "__main__":
    sys.exit(main())
