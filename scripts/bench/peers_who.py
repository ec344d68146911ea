# SPDX-License-Identifier: BSD-3-Clause
"""The libraries that `./dev bench peers` and `./dev bench openmpi` measure: Matchbox in its forms and the others, what
each needs, and how its programs are started."""
import os
import shutil

from benchlib import COLORS, OB1, RED, as_dict, output_of, run_limited

MPI, LIBRARY, LIBFABRIC = "an MPI program", "a library", "a program of libfabric's"
# Debian's Open MPI uses UCX between processes of one machine only on request
UCX = ["--mca", "pml", "ucx", "--mca", "pml_ucx_tls", "any", "--mca", "pml_ucx_devices", "any"]
CORES = 2
LIMIT_S = 60  # for one run
DISTANCES = {"core": "one-core", "cache": "near", "far": "far"}  # names as in bench/distance.h


class Who:
    """One line of a plot.  rivals: the ones to which it may lose."""

    def __init__(self, name, title, kind, color, package, rivals=(), style="-"):
        self.name, self.title, self.kind, self.color = name, title, kind, color
        self.package, self.rivals, self.style = package, rivals, style

    def is_ours(self):
        return bool(self.rivals)


MPIS = ("ob1", "ucx", "mpich")
ALL = {who.name: who for who in (
    Who("native", "Matchbox, native", LIBRARY, RED, None, MPIS + ("perftest", "fi-shm"), "--"),
    Who("component", "Matchbox, component of Open MPI", MPI, RED, "openmpi-bin libopenmpi-dev", MPIS),
    Who("provider", "Matchbox, provider under Open MPI", MPI, RED, "openmpi-bin libopenmpi-dev", MPIS, ":"),
    Who("ob1", "Open MPI ob1", MPI, COLORS["ob1"], "openmpi-bin libopenmpi-dev"),
    Who("ucx", "Open MPI pml/ucx", MPI, COLORS["ucx"], "openmpi-bin libopenmpi-dev"),
    Who("mpich", "MPICH ch4:ucx", MPI, COLORS["mpich"], "mpich libmpich-dev"),
    Who("perftest", "ucx_perftest", LIBRARY, COLORS["ucx"], "ucx-utils", style="--"),
    Who("fi-matchbox", "fi_pingpong over Matchbox", LIBFABRIC, RED, "libfabric-bin", ("fi-shm", "fi-tcp"), "-."),
    Who("fi-shm", "fi_pingpong over shm", LIBFABRIC, "#515a5a", "libfabric-bin", style=":"),
    Who("fi-tcp", "fi_pingpong over tcp", LIBFABRIC, "#99a3a4", "libfabric-bin", style=":"),
)}
# a picture has the first five of these that were measured
DRAWN = ("component", "ob1", "ucx", "mpich", "native", "provider", "perftest", "fi-matchbox", "fi-shm", "fi-tcp")
CURVES = 5
MPI_PROGRAMS = [name for name, who in ALL.items() if who.kind == MPI]


class Build:
    """A build directory, and what of the machine can be used with it.  bench: who speaks in its errors."""

    def __init__(self, path, bench):
        self.path, self.bench = os.path.abspath(path), bench
        self.launchers = {"openmpi": shutil.which("mpiexec.openmpi") or shutil.which("mpiexec"),
                          "mpich": shutil.which("mpiexec.mpich")}

    def file(self, *names):
        return os.path.join(self.path, *names)

    def has(self, *names):
        return os.path.exists(self.file(*names))

    def why_missing(self, who):
        """Why who cannot be measured, with the cure; None: it can."""
        if who.kind == MPI:
            is_mpich = who.name == "mpich"
            program = self.program("mpi_pt2pt", who.name)
            if not self.launchers["mpich" if is_mpich else "openmpi"]:
                return f"not installed: apt-get install {who.package}"
            if not os.path.exists(program):
                return (f"{os.path.relpath(program)} is not built: install {who.package}, "
                        "then meson setup --reconfigure, and build again")
            if who.name == "ucx" and "ucx" not in output_of(["ompi_info", "--parsable", "--param", "pml", "ucx",
                                                             "--level", "9"]):
                return "this Open MPI was built without pml/ucx"
            module = {"component": "src/pml/mca_pml_matchbox.so", "provider": "src/provider/libmatchbox-fi.so"}.get(who.name)
            return None if module is None or self.has(module) else f"the build has no {module}"
        program = {"native": None, "perftest": "ucx_perftest"}.get(who.name, "fi_pingpong")
        if program and not shutil.which(program):
            return f"not installed: apt-get install {who.package}"
        if who.name == "fi-matchbox" and not self.has("src/provider/libmatchbox-fi.so"):
            return "the build has no src/provider/libmatchbox-fi.so"
        return None

    def program(self, name, who):
        folder = "bench/match" if name in ("mpi_match", "native_match") else "bench"
        return self.file(folder, name + ("_mpich" if who == "mpich" else ""))

    def launch(self, who, ranks, name, *arguments):
        """The command of an MPI program, with who for the argument LABEL: 2 ranks have a core each, more
        share the first two."""
        program = [self.program(name, who), *(who if a == "LABEL" else str(a) for a in arguments)]
        shares = ranks > CORES
        pinned = ["taskset", "-c", ",".join(map(str, sorted(os.sched_getaffinity(0))[:CORES]))] if shares else []
        if who == "mpich":
            return [*pinned, self.launchers["mpich"], "-n", str(ranks), "-bind-to", "none" if shares else "core",
                    *program]
        words = [self.launchers["openmpi"], "-n", str(ranks)]
        words += ["--oversubscribe", "--bind-to", "none"] if shares else ["--bind-to", "core"]
        words += {"ob1": OB1, "ucx": UCX}.get(who, [])
        if who in ("component", "provider"):
            way = {"component": "pml", "provider": "provider"}[who]
            words = [self.file("tools", "mbx"), "exec", f"--through={way}", *words]
        return [*pinned, *words, *program]

    def native(self, ranks, name, *arguments):
        """The command of a program that calls the library."""
        bind = ["--bind"] if ranks <= CORES else []
        cores = ",".join(map(str, sorted(os.sched_getaffinity(0))[:CORES]))
        return ["taskset", "-c", cores, self.file("tools", "mbx"), "run", *bind, "-n", str(ranks),
                self.program(name, "native"), *map(str, arguments)]

    def distance(self):
        """(how far the two cores are from each other now, what a cache line takes in ns); None: the program failed."""
        cores = map(str, sorted(os.sched_getaffinity(0))[:CORES])
        try:
            lines = run_limited(self.bench, [self.file("bench", "distance"), *cores], LIMIT_S)
        except SystemExit:
            lines = None
        if not lines:
            return None
        line = as_dict(lines[0])
        return DISTANCES[line["distance"]], float(line["line_ns"])
