# SPDX-License-Identifier: BSD-3-Clause
"""Applications of others that ./dev soak programs runs over ob1 and over Matchbox: what prepares a
folder for each, what it executes, and its answer, which has to be the same both ways.

Debian's packages (group applications of scripts/dev/packages) have the programs, and most of their input; what
is missing is made here, from seeds."""
import glob
import os
import random
import re
import shutil
import subprocess

from proglib import Failed

OPENFOAM = "/usr/share/openfoam"
CAVITY = "/usr/share/doc/openfoam-examples/examples/incompressible/icoFoam/cavity/cavity"
MUMPS = "/usr/lib/mumps/dsimpletest"
EXAML = "/usr/lib/examl/bin/examl-sse2"  # built for any x86-64


def read(where, name="output"):
    with open(os.path.join(where, name), errors="replace") as file:
        return file.read()


def write(where, name, text):
    with open(os.path.join(where, name), "w") as file:
        file.write(text)


def prepare_by(where, *command, env=None):
    """Runs what needs no MPI; its output goes to where/prepared."""
    with open(os.path.join(where, "prepared"), "a") as out:
        status = subprocess.run(command, cwd=where, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                env={**os.environ, **(env or {})}, check=False).returncode
    if status != 0:
        raise Failed(f"{command[0]} ended with status {status}; see {where}/prepared")


def one_of(pattern):
    return next(iter(sorted(glob.glob(pattern))), None)


class Application:
    """ranks: which numbers it can have, None: any; env: of its ranks.  Answers that are equal are right."""
    ranks, env = None, {}

    def commands(self, ranks):
        return [self.command(ranks)]


class Mumps(Application):
    """A sparse direct solver: Poisson's equation on a square, of which the solution is known."""
    def __init__(self):
        self.edge = 40

    def missing(self):
        return None if os.path.exists(MUMPS) else "is not installed"

    def prepare(self, where, ranks):
        n = self.edge
        entries, right = [], []
        for row in range(n * n):
            near = [row + step for step, inside in ((-1, row % n > 0), (1, row % n < n - 1), (-n, row >= n), (n, row < n * n - n))
                    if inside]
            entries += [(row, row, 4.0)] + [(row, other, -1.0) for other in near]
            right.append(4.0 * self.wanted(row) - sum(self.wanted(other) for other in near))
        write(where, "input", f"{n * n}\n{len(entries)}\n" + "".join(f"{r + 1} {c + 1} {v}\n" for r, c, v in entries) +
              "".join(f"{v!r}\n" for v in right))

    @staticmethod
    def wanted(row):
        return float(row % 10 + 1)

    def command(self, _):
        return ["sh", "-c", f'exec "{MUMPS}" < input']

    def answer(self, where):
        text = read(where).partition("Solution is")[2]
        numbers = [float(word) for word in re.findall(r"-?\d+\.\d+(?:E[-+]?\d+)?", text)][:self.edge ** 2]
        off = max((abs(value - self.wanted(row)) for row, value in enumerate(numbers)), default=None)
        if len(numbers) != self.edge ** 2 or off > 1e-8:
            raise Failed(f"mumps: {len(numbers)} values, off by {off}; see {where}/output")
        return len(numbers)

    def say(self, answer):
        return f"{answer} unknowns, off by less than 1e-8"


class SuperLU(Application):
    """A sparse direct solver, on a matrix of the package."""
    ranks = (2, 4)

    def folder(self):
        return one_of("/usr/lib/*/superlu-dist/tests/EXAMPLE")

    def missing(self):
        return None if self.folder() else "is not installed"

    def prepare(self, where, ranks):
        pass

    def command(self, ranks):
        rows = 2 if ranks == 4 else 1
        return [os.path.join(self.folder(), "pddrive"), "-r", str(rows), "-c", str(ranks // rows),
                os.path.join(self.folder(), "big.rua")]

    def answer(self, where):
        error = re.search(r"\|\|X-Xtrue\|\|/\|\|X\|\| = (\S+)", read(where))
        if error is None or not float(error[1]) < 1e-9:
            raise Failed(f"superlu: the error is {error[1] if error else 'not told'}; see {where}/output")
        return "the error is less than 1e-9"

    def say(self, answer):
        return answer


class Examl(Application):
    """Likelihoods of a tree of 16 sequences that were made from a seed."""
    def missing(self):
        return None if os.path.exists(EXAML) and shutil.which("parse-examl") else "is not installed"

    def prepare(self, where, ranks):
        chance, leaves = random.Random(5), []
        leaves.append([chance.choice("ACGT") for _ in range(1000)])
        while len(leaves) < 16:
            parent = leaves.pop(chance.randrange(len(leaves)))
            leaves += [[chance.choice("ACGT") if chance.random() < 0.08 else base for base in parent] for _ in range(2)]
        write(where, "data.phy", f"16 {len(leaves[0])}\n" + "".join(f"t{i} {''.join(leaf)}\n" for i, leaf in enumerate(leaves)))
        tree = "t0"
        for i in range(1, 14):
            tree = f"({tree},t{i})"
        write(where, "data.tree", f"({tree},t14,t15);\n")
        prepare_by(where, "parse-examl", "-s", "data.phy", "-m", "DNA", "-n", "data")

    def command(self, _):
        return [EXAML, "-s", "data.binary", "-t", "data.tree", "-m", "GAMMA", "-n", "run", "-f", "e"]

    def answer(self, where):
        likelihood = re.search(r"Likelihood.*?(-\d+\.\d+)", read(where, "ExaML_info.run"), re.IGNORECASE | re.DOTALL)
        return read(where, "ExaML_TreeFile.run"), likelihood and likelihood[1]

    def say(self, answer):
        return f"the same branch lengths, likelihood {answer[1]}"


class Coarrays(Application):
    """Tests of OpenCoarrays: Fortran's images over MPI's one-sided calls."""
    ranks = (4,)
    tests = ("hello_multiverse", "allocatable_p2p_event_post", "co_sum_test", "co_broadcast_test", "co_reduce_test", "atomics")

    def folder(self):
        return one_of("/usr/lib/*/open-coarrays/openmpi/bin/OpenCoarrays-*-tests")

    def missing(self):
        return None if self.folder() else "is not installed"

    def prepare(self, where, ranks):
        pass

    def commands(self, _):
        return [[os.path.join(self.folder(), test)] for test in self.tests]

    def answer(self, where):
        if "Test passed" not in read(where):
            raise Failed(f"coarrays: no test has passed; see {where}/output")
        return "passed"

    def say(self, answer):
        return answer


class Gromacs(Application):
    """A box of water, 100 steps, reproducible: the coordinates in the end are the same to the last digit."""
    def missing(self):
        if not shutil.which("gmx_mpi") or not shutil.which("gmx"):
            return "is not installed"
        with open("/proc/cpuinfo") as info:
            return None if re.search(r"\brdtscp\b", info.read()) else "needs a processor with rdtscp"

    def prepare(self, where, ranks):
        prepare_by(where, "gmx", "solvate", "-cs", "spc216.gro", "-box", "3", "3", "3", "-o", "box.gro")
        molecules = int(read(where, "box.gro").splitlines()[1]) // 3
        write(where, "topol.top", '#include "oplsaa.ff/forcefield.itp"\n#include "oplsaa.ff/spc.itp"\n[ system ]\nwater\n'
              f"[ molecules ]\nSOL {molecules}\n")
        write(where, "run.mdp", "integrator = md\nnsteps = 100\ndt = 0.001\ncutoff-scheme = Verlet\ncoulombtype = PME\n"
              "rcoulomb = 0.9\nrvdw = 0.9\nfourierspacing = 0.15\ngen-vel = yes\ngen-seed = 7\n")
        prepare_by(where, "gmx", "grompp", "-f", "run.mdp", "-c", "box.gro", "-p", "topol.top", "-o", "run.tpr")

    def command(self, _):
        return ["gmx_mpi", "mdrun", "-s", "run.tpr", "-reprod", "-ntomp", "1", "-npme", "0", "-c", "end.gro"]

    def answer(self, where):
        return read(where, "end.gro")

    def say(self, answer):
        return f"the same {len(answer.splitlines()) - 3} coordinates"


class OpenFoam(Application):
    """The lid-driven cavity of its examples: the residuals of each step are the same."""
    ranks, env = (2, 4), {"WM_PROJECT_DIR": OPENFOAM}

    def missing(self):
        return None if shutil.which("icoFoam") and os.path.isdir(CAVITY) else "is not installed"

    def prepare(self, where, ranks):
        shutil.copytree(CAVITY, where, dirs_exist_ok=True)
        write(where, "system/decomposeParDict", "FoamFile { version 2.0; format ascii; class dictionary; object decomposeParDict; }\n"
              f"numberOfSubdomains {ranks};\nmethod simple;\nsimpleCoeffs {{ n (2 {ranks // 2} 1); delta 0.001; }}\n")
        prepare_by(where, "blockMesh", env=self.env)
        prepare_by(where, "decomposePar", env=self.env)

    def command(self, _):
        return ["icoFoam", "-parallel"]

    def answer(self, where):
        lines = [line for line in read(where).splitlines() if "residual" in line or "continuity" in line]
        if len(lines) < 100:
            raise Failed(f"openfoam: {len(lines)} lines of residuals; see {where}/output")
        return lines

    def say(self, answer):
        return f"the same {len(answer)} lines of residuals"


APPLICATIONS = {"mumps": Mumps(), "superlu": SuperLU(), "examl": Examl(), "coarrays": Coarrays(), "gromacs": Gromacs(),
                "openfoam": OpenFoam()}
