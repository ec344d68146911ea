# SPDX-License-Identifier: BSD-3-Clause
"""The MPI programs that the demonstration, the soak, the modes and the recording run, and
their own verdicts."""
import os
import re
import signal
import subprocess
import sys
import time

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tests/support"))
from patience import PATIENCE_S as LIMIT_S  # noqa: E402

# Open MPI's own shared memory, with its default settings.
OB1 = ["--mca", "pml", "ob1", "--mca", "btl", "self,vader"]
# UCX, which Open MPI uses only over adapters unless configured otherwise.
UCX = ["--mca", "pml", "ucx", "--mca", "opal_common_ucx_tls", "any", "--mca", "opal_common_ucx_devices", "any"]
NETPIPE = ["NPopenmpi", "-p", "0", "-n", "200", "-u", "4194304"]


class Failed(Exception):
    pass


def say(text):
    print(text, flush=True)


def environment(stats, trace="", more=None):
    env = dict(os.environ, MBX_STATS_FILE=stats, MBX_TRACE=trace, **(more or {}))
    if os.geteuid() == 0:  # Open MPI requires two confirmations for root
        env["OMPI_ALLOW_RUN_AS_ROOT"] = env["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"
    # ranks that share a core (four on two) must yield it while they poll
    env.setdefault("OMPI_MCA_hwloc_base_binding_policy", "core:overload-allowed")
    return env


def end_group(process):
    """Ends the group, first by SIGTERM: its programs have memory to unlink, and ranks to end.  Returns the output."""
    for end in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, end)
        except ProcessLookupError:  # they have ended meanwhile
            pass
        try:
            return process.communicate(timeout=10)[0]
        except subprocess.TimeoutExpired:
            continue
    return process.communicate()[0]


def run(name, command, where, stats, trace="", more=None, limit_s=LIMIT_S):
    """Runs command in folder `where`; its output goes to where/output.  stats names a file
    for the statistics, trace a folder, more has more of the environment.  Seconds."""
    os.makedirs(where, exist_ok=True)
    log = os.path.join(where, "output")
    start = time.monotonic()
    with open(log, "w") as out:
        process = subprocess.Popen(command, cwd=where, env=environment(stats, trace, more),
                                   stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                   start_new_session=True)
        try:
            status = process.wait(limit_s)
        except BaseException as end:
            end_group(process)
            if isinstance(end, subprocess.TimeoutExpired):
                raise Failed(f"{name} did not finish in {limit_s} s; its output is in {log}")
            raise
    if status != 0:
        with open(log) as out:
            tail = "".join(out.readlines()[-15:])
        raise Failed(f"{name} ended with status {status}; its output is in {log}:\n{tail}")
    return time.monotonic() - start


def mpiexec(ranks):
    return ["mpiexec", "-n", str(ranks), "--oversubscribe"]


def statistics(folder):
    """One dict per rank, endpoints of a rank added up."""
    ranks = {}
    for name in sorted(os.listdir(folder)):
        if not name.startswith("stats."):
            continue
        with open(os.path.join(folder, name)) as lines:
            for line in lines:
                if not line.startswith("endpoint "):
                    continue
                pairs = dict(word.split("=", 1) for word in line.split() if "=" in word)
                rank = ranks.setdefault(int(pairs["rank"]), {})
                for key, value in pairs.items():
                    if key not in ("rank", "pid"):
                        rank[key] = rank.get(key, 0) + int(value)
    return ranks


def carried(name, where, ranks):
    """Has Matchbox matched something in each rank, by its own statistics in where/stats.*?"""
    found = statistics(where)
    idle = [rank for rank in range(ranks)
            if not sum(found.get(rank, {}).get(key, 0) for key in ("expected", "unexpected"))]
    if idle:
        raise Failed(f"{name}: Matchbox has matched nothing in ranks {idle}; see {where}")


def netpipe(where):
    """size -> (half round trip in us, MB/s)"""
    rows = {}
    with open(os.path.join(where, "np.out")) as lines:
        for line in lines:
            size, megabits, seconds = line.split()
            rows[int(size)] = (float(seconds) * 1e6, float(megabits) * 1048576 / 8e6)
    for size in (8, 1048576):
        if size not in rows:
            raise Failed(f"NetPIPE measured no {size} bytes; see {where}/np.out")
    return rows


def netpipe_whole(where):
    """How many sizes NetPIPE has found whole, if it was asked to look (-i).  Rank 0 has a file of its
    own, because mpiexec mixes the lines of ranks."""
    path = os.path.join(where, "each.0")
    with open(path) as lines:
        text = lines.read()
    sizes = [line for line in text.splitlines() if "-->" in line]
    whole = [line for line in sizes if line.endswith("Integrity check passed")]
    if not sizes or len(whole) != len(sizes) or "check failed" in text:
        raise Failed(f"NetPIPE found {len(whole)} of {len(sizes)} sizes whole; see {path}")
    return len(whole)


def hpcc_loses_updates(text, values):
    """Did RandomAccess find errors, and may that be its own doing?  With more than four ranks each
    has four receives from anybody, and asks which of them has ended.  The last rank's "finished" may
    be told before an update that another receive had got earlier, and that one is then lost; over
    any MPI (seen over ob1, its tcp and tcp;ofi_rxm)."""
    return int(values.get("CommWorldProcs", 0)) > 4 and re.search(r"errors in .* \(failed\)", text)


def hpcc(where):
    """hpcc's own verdict and the figures about communication."""
    path = os.path.join(where, "hpccoutf.txt")
    with open(path) as lines:
        text = lines.read()
    values = dict(line.split("=", 1) for line in text.splitlines()
                  if "=" in line and " " not in line)
    failed = text.count("FAILED") + sum(
        int(line.split()[0]) for line in text.splitlines() if "completed and failed" in line)
    # the transposition prints each result twice, but only once if it has measured no processor time
    passed = sum("PASSED" in line or "(passed)" in line for line in text.splitlines()
                 if not line.startswith("CPU "))
    # the transposition and Linpack have a verdict of this kind
    solved = sum(int(line.split()[0]) > 0 for line in text.splitlines()
                 if "tests completed and passed residual checks" in line)
    success = values.get("Success", "nothing")
    if success != "1" and not (success == "0" and hpcc_loses_updates(text, values)) or \
            failed or solved != 2:
        raise Failed(f"hpcc found wrong results; see {path}")
    return {"verdict": f"Success={success}, {passed} checks passed, {failed} failed",
            "latency": float(values["AvgPingPongLatency_usec"]),
            "bandwidth": float(values["AvgPingPongBandwidth_GBytes"])}


# hpcc's grid of ranks: rows and columns.
HPCC_GRIDS = {1: (1, 1), 2: (1, 2), 3: (1, 3), 4: (2, 2), 6: (2, 3), 8: (2, 4)}


def hpcc_input(where, ranks, size=1000):
    """A problem of size x size."""
    rows, columns = HPCC_GRIDS[ranks]
    os.makedirs(where, exist_ok=True)
    if os.path.exists(os.path.join(where, "hpccoutf.txt")):
        os.unlink(os.path.join(where, "hpccoutf.txt"))  # hpcc appends
    with open(os.path.join(where, "hpccinf.txt"), "w") as out:
        out.write("HPLinpack benchmark input file\nsmall, for a demonstration\n"
                  f"HPL.out\n8 device\n1 problem sizes\n{size} Ns\n1 NBs\n80 NBs\n"
                  f"0 PMAP\n1 grids\n{rows} Ps\n{columns} Qs\n16.0 threshold\n1 PFACTs\n2\n"
                  "1 NBMINs\n4\n1 NDIVs\n2\n1 RFACTs\n1\n1 BCASTs\n1\n1 DEPTHs\n1\n"
                  "2 SWAP\n64 swapping threshold\n0 L1\n0 U\n1 Equilibration\n"
                  "8 alignment\n(separator)\n0 more PTRANS sizes\n1200\n"
                  "0 more PTRANS blocks\n40\n")


# One-sided calls by reads, writes and atomics of the provider.
OSC_RDMA = ["--mca", "osc", "rdma", "--mca", "btl", "ofi,self",
            "--mca", "btl_ofi_provider_include", "matchbox"]

MPI_TESTS = ("p2p", "collectives", "order", "patterns", "rules", "threads", "app_amr", "app_farm")


def everything(build, ranks, pipe=NETPIPE, size=200, over=None):
    """The programs to run on so many ranks: (name, command, a function that prepares its folder, a
    function that checks its result; both may be None).  size: of hpcc's problem.  over: the beginning
    of the commands, if they shall run over something else than Matchbox."""
    mbx = os.path.join(build, "tools", "mbx")
    native = over is None
    over = over or [mbx, "exec", "--through=provider"] + mpiexec(ranks)
    if ranks == 2:
        yield "NetPIPE", over + pipe, None, netpipe
    yield "hpcc", over + ["hpcc"], lambda where: hpcc_input(where, ranks, size), hpcc
    for name in MPI_TESTS:
        # ob1 writes beyond the buffer of a receive that is too short
        less = ["--no-truncation"] if name in ("p2p", "rules") and not native else []
        yield name, over + [os.path.join(build, "tests", "mpi", name)] + less, None, None
    onesided = os.path.join(build, "tests", "mpi", "onesided")
    if ranks <= 4:
        yield "onesided", over + ["--mca", "osc", "pt2pt", onesided], None, None
    if native and ranks <= 4:
        yield ("onesided by accesses", over + OSC_RDMA + [onesided, "--no-swaps"], None, None)
    if native:
        yield ("the native example",
               [mbx, "run", "-n", str(ranks), os.path.join(build, "examples", "job")], None,
               None)


# Results that hpcc computes, not measures.
HPCC_RESULTS = ("HPL_Anorm1", "HPL_AnormI", "HPL_BnormI", "HPL_RnormI", "HPL_Xnorm1", "HPL_XnormI",
                "PTRANS_residual", "MPIFFT_maxErr", "MPIRandomAccess_Errors",
                "MPIRandomAccess_LCG_Errors", "Success")


def result_of(name, where):
    """The result of a program of everything(), as text: the same over any MPI library's transport,
    to the last digit."""
    if name == "NetPIPE":
        return " ".join(str(size) for size in sorted(netpipe(where)))
    if name == "hpcc":
        path, wanted = "hpccoutf.txt", tuple(f"{key}=" for key in HPCC_RESULTS)
    else:
        path, wanted = "output", ("ok ", "app_")
    with open(os.path.join(where, path)) as lines:
        found = [line.strip() for line in lines if line.startswith(wanted)]
    if not found:
        raise Failed(f"{name} has said nothing; see {where}/{path}")
    return "\n".join(found)


def run_checked(program, ranks, where, **how):
    """Runs one of everything(); as run()."""
    name, command, prepare, check = program
    if prepare:
        prepare(where)
    seconds = run(f"{name}, {ranks} ranks", command, where, **how)
    if check:
        check(where)
    return seconds
