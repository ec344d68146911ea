#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""start_test.py BUILD_DIR [--long] [NAME...] - jobs of launchers that are not `mbx run`.

Each test is a job of Open MPI's mpiexec (or MPICH's, which cannot be understood), on this machine
or on hosts that scripts/hosts/netns-hosts makes.  --long: what is run on hosts is as large as in the
demonstration, and all of the MPI programs.  Exit code 77 if there was no mpiexec.
"""
import errno
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid

SCRIPTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts")
sys.path.append(os.path.join(SCRIPTS, "run"))
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
sys.dont_write_bytecode = True
import processes  # noqa: E402
import proglib  # noqa: E402
from patience import PATIENCE_S  # noqa: E402

BUILD = ""
IS_LONG = False
HOSTS = os.path.join(SCRIPTS, "hosts/netns-hosts")
NOT_HERE = 77


class Failed(Exception):
    pass


class NotHere(Exception):
    pass


def path(name):
    return os.path.join(BUILD, name)


def run(*words, env=None):
    """Returns the exit code, standard output and error."""
    environment = {name: value for name, value in os.environ.items()
                   if not re.match("(PMI|SLURM|OMPI_COMM|MBX_BOOT)", name)}
    environment.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                       OMPI_MCA_hwloc_base_binding_policy="none", **(env or {}))
    with subprocess.Popen(words, env=environment, text=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          start_new_session=True) as process:
        try:
            out, err = process.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise Failed(f"does not end: {' '.join(words)}")
    return process.returncode, out, err


def expect(condition, what, result):
    if not condition:
        raise Failed("%s; exit code %d\n%s\n%s" % (what, *result))


def mpiexec(*words, env=None):
    return run("mpiexec", "--oversubscribe", *words, env=env)


def expect_rounds(result, ranks, hosts):
    expect(result[0] == 0 and f"rounds right, {ranks} ranks, {hosts} hosts, by PMIx" in result[1],
           "the rounds are not right", result)


def test_rounds():
    expect_rounds(mpiexec("-n", "4", path("tests/launch/start_program"), "rounds", "4", "1"), 4, 1)
    expect_rounds(mpiexec("-n", "1", path("tests/launch/start_program"), "rounds", "1", "1"), 1, 1)


def test_a_program():
    result = mpiexec("-n", "3", path("examples/job"))
    expect(result[0] == 0 and "all words right" in result[1], "the example", result)


def test_with_mpi_in_one_program():
    if not os.path.exists(path("tests/mpi/both")):
        raise NotHere("built without MPI")
    late = f"LD_PRELOAD={path('tests/mpi/liblate_return.so')}"
    for when in ("first", "last"):
        for how in ([], ["env", late]):
            result = mpiexec("-n", "2", *how, path("tests/mpi/both"), when)
            expect(result[0] == 0 and "both right, 2 ranks" in result[1], f"{when} {how}", result)


def test_a_rank_that_stays_away():
    result = mpiexec("-n", "2", path("tests/launch/start_program"), "leave")
    expect(result[0] == 7 and "rank 0 was told" in result[1] and "MBX_BOOT_TIMEOUT" in result[2],
           "a fence without rank 1", result)


def test_others_are_refused():
    """MPICH's mpiexec speaks PMI: its ranks would be jobs of one."""
    fake = {"PMI_RANK": "1", "PMI_SIZE": "2"}
    step = {"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2"}
    for env in (fake, step):
        result = run(path("examples/job"), env=env)
        expect(result[0] == 1 and "rank 1 of 2" in result[2] and "MBX_BOOT=single" in result[2],
               f"not refused: {env}", result)
        result = run(path("tests/launch/start_program"), "rounds", "1", "1",
                     env={**env, "MBX_BOOT": "single"})
        expect(result[0] == 0, f"refused though told: {env}", result)
    if shutil.which("mpiexec.mpich"):
        result = run("mpiexec.mpich", "-n", "2", path("examples/job"))
        expect(result[0] != 0 and "speaks PMI and no PMIx" in result[2], "MPICH", result)
    # mbx run takes precedence over all of them
    result = run(path("tools/mbx"), "run", "-n", "2", path("tests/launch/start_program"), "rounds", "2",
                 "1", env={**fake, "PMIX_RANK": "0", "PMIX_NAMESPACE": "other"})
    expect(result[0] == 0 and "by mbx run" in result[1], "mbx run under another one", result)


def on_hosts(count, *words):
    result = run(HOSTS, "-n", str(count), *words)
    if result[0] == NOT_HERE:
        raise NotHere(result[2].strip())
    return result


def test_hosts():
    """Three hosts have two ranks each; each rank knows which others share its host."""
    result = on_hosts(3, "mpiexec", "--host", "h1:2,h2:2,h3:2", "-n", "6",
                      path("tests/launch/start_program"), "rounds", "6", "3")
    expect_rounds(result, 6, 3)


def spread(modes, on_two, env=None):
    """Runs spread_program under mbx run; every other rank is on another host."""
    rank = f"{path('tests/support/spread_program')} {' '.join(modes)}"
    host = "MBX_FAULT_HOST=$((${MBX_BOOT#*:} % 2)) " if on_two else ""
    return run(path("tools/mbx"), "run", "-n", "4", "sh", "-c", f"{host}exec {rank}", env=env)


def needs_network():
    result = run(path("tools/mbx"), "info", "--transports")
    expect(result[0] == 0, "mbx info", result)
    if "not in this build" in result[1]:
        raise NotHere("built without libfabric")


SPREAD = ("messages", "order", "access")


def expect_spread(result, ranks):
    for mode in SPREAD:
        expect(result[0] == 0 and f"{mode} right, {ranks} ranks" in result[1], mode, result)
    expect("dropped" not in result[2], "packets were dropped", result)


def test_perf_between_hosts():
    """The two commands of mbx perf --help, one on each host, without a launcher."""
    needs_network()
    script = ("mbx=$0 hosts=$1; "
              "$hosts enter h1 $mbx perf depth --depths 1,20 --listen 2>$2/said & "
              "until grep -q 'listening on port' $2/said; do kill -0 $! || exit 9; done; "
              "$hosts enter h2 $mbx perf depth --depths 1,20 --connect h1 && wait $!")
    with tempfile.TemporaryDirectory() as folder:
        open(os.path.join(folder, "said"), "w", encoding="utf-8").close()
        result = on_hosts(2, "sh", "-c", script, path("tools/mbx"), HOSTS, folder)
    expect(result[0] == 0 and result[1].count("perf=depth ") == 8, "mbx perf depth", result)


def test_two_kinds_of_peers():
    """Shared memory and the network in one endpoint, with ranks that seem to be on two hosts; and a
    job on one host that opens no network."""
    needs_network()
    expect_spread(spread(SPREAD, True, env={"MBX_TRANSPORT": "shm+ofi"}), 4)
    # mbx run opens no network, although an outer launcher has ranks on other machines
    result = spread(["messages"], False, env={
        "MBX_LOG_LEVEL": "debug", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_SIZE": "2"})
    expect(result[0] == 0 and not networks_of(result), "mbx run", result)


def info(**env):
    """Opens an endpoint over the network; returns the output about it."""
    return run(path("tools/mbx"), "info", "--window", env={"MBX_TRANSPORT": "ofi", **env})


def test_networks_that_are_refused():
    """A line names what is wrong with each network."""
    needs_network()
    ours = {"FI_PROVIDER_PATH": path("src/provider"), "MBX_LOG_LEVEL": "debug"}
    result = info(**ours)
    expect(result[0] == 0 and networks_of(result) == 1 and "provider matchbox" not in result[2],
           "it has chosen itself", result)
    expect("there is no key" in result[2], "no warning that there is no key", result)
    result = info(MBX_KEY="00112233445566778899aabbccddeeff")
    expect(result[0] == 0 and "no key" not in result[2], "a warning though there is one", result)
    result = info(MBX_OFI_PROVIDER="matchbox", **ours)
    expect(result[0] == 1 and "is Matchbox itself" in result[2], "itself", result)
    result = info(FI_PROVIDER="matchbox", **ours)
    expect(result[0] == 1 and "FI_PROVIDER=matchbox" in result[2], "libfabric's filter", result)
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "libfabric.so.1"), "w") as file:
            file.write("no library")
        result = info(LD_LIBRARY_PATH=folder)
    expect(result[0] == 1 and "Debian: libfabric1" in result[2], "no libfabric", result)


def networks_of(result):
    """Counts the endpoints of ranks with MBX_LOG_LEVEL=debug that have opened a network."""
    return len(re.findall(r"ofi: provider .*, domain", result[2]))


def test_one_host_opens_no_network():
    result = mpiexec("-n", "2", path("tests/support/spread_program"), "messages",
                     env={"MBX_LOG_LEVEL": "debug"})
    expect(result[0] == 0 and "messages right, 2 ranks" in result[1], "on one host", result)
    expect(networks_of(result) == 0, "a network was opened on one host", result)


def test_hosts_talk():
    """Two ranks on each of three hosts: shared memory within a host, the network between hosts."""
    needs_network()
    places = ("mpiexec", "--host", "h1:2,h2:2,h3:2", "-n", "6", "-x", "MBX_LOG_LEVEL=debug")
    result = on_hosts(3, *places, path("examples/job"))
    expect(result[0] == 0 and "all words right" in result[1], "the example", result)
    expect(networks_of(result) == 6, "some rank has opened no network", result)
    expect_spread(on_hosts(3, *places, path("tests/support/spread_program"), *SPREAD), 6)


# Programs of tests/mpi and bench/ that each way supports.  Over libfabric Open MPI 4.1 does not end the other ranks.
ON_HOSTS = ("p2p", "collectives", "order", "patterns", "rules", "rules --threads 4", "threads", "app_amr", "app_farm",
            "app_farm --posted 0")
BY_COMPONENT_ON_HOSTS = ("rules --mixed", "errors", "dynamic --no-spawn")


def test_mpi_on_hosts():
    """An MPI program as a user would start it, two ranks on each of three hosts; --long: all programs, on two and on
    three."""
    needs_network()
    if not os.path.exists(path("tests/mpi/app_farm")):
        raise NotHere("built without MPI")
    for way in ("provider", "pml"):
        over = (path("tools/mbx"), "exec", "--through", way)
        if run(*over, "--print")[0] != 0:
            continue  # not built here
        names = ON_HOSTS + (BY_COMPONENT_ON_HOSTS if way == "pml" else ()) if IS_LONG else ("app_farm",)
        for count in (2, 3) if IS_LONG else (3,):
            places = ["-n", str(count), "mpiexec", "--host", ",".join(f"h{host + 1}:2" for host in range(count)),
                      "-n", str(2 * count)]
            for name in names:
                what = f"{name} through {way} on {count} hosts"
                result = run(*over, HOSTS, *places, path(f"tests/mpi/{name.split()[0]}"), *name.split()[1:],
                             env={"MBX_LOG_LEVEL": "debug"})
                if result[0] == NOT_HERE:
                    raise NotHere(result[2].strip())
                expect(result[0] == 0 and f"ok {name.split()[0]} ranks={2 * count}" in result[1], what, result)
                expect(networks_of(result) == 2 * count, f"{what}: some rank has opened no network", result)
                expect("dropped" not in result[2], f"{what}: packets were dropped", result)
                if IS_LONG:
                    print(f"   {what}", flush=True)


PLACES = ["-n", "3", "mpiexec", "--host", "h1:2,h2:2,h3:2", "-n", "6"]
PAIR = ["-n", "2", "mpiexec", "--host", "h1:1,h2:1", "-n", "2"]
SHORT_NETPIPE = ["NPopenmpi", "-p", "0", "-n", "5", "-u", "1048576"]


def demo_programs():
    """The programs of ./dev demo, as in proglib.everything(), for 6 ranks on three hosts.  NetPIPE has
    one rank on each of two hosts: with six ranks it does not continue after its first size, also over
    ob1."""
    over = [path("tools/mbx"), "exec", "--through=provider", HOSTS, *PLACES]
    missing = [tool for tool in ("NPopenmpi", "hpcc") if shutil.which(tool) is None]
    if missing:
        print(f"   not installed, and left out: {' '.join(missing)}", flush=True)
    if "NPopenmpi" not in missing:
        yield ("NetPIPE", [path("tools/mbx"), "exec", "--through=provider", HOSTS, *PAIR] +
               (proglib.NETPIPE if IS_LONG else SHORT_NETPIPE), None, proglib.netpipe)
    if "hpcc" not in missing:
        size = 1000 if IS_LONG else 200
        yield ("hpcc", over + ["hpcc"], lambda where: proglib.hpcc_input(where, 6, size),
               proglib.hpcc)
    for name in proglib.MPI_TESTS if IS_LONG else ():
        yield name, over + [path(f"tests/mpi/{name}")], None, None
    yield "the native example", [HOSTS, *PLACES, path("examples/job")], None, None


def expect_carried(name, folder, count):
    """Each rank has received through Matchbox, with an open network, and no packet was dropped."""
    ranks = proglib.statistics(folder)
    with open(os.path.join(folder, "output"), errors="replace") as file:
        said = file.read()
    result = (0, said[-3000:], "")
    expect(len(ranks) == count and all(rank["expected"] + rank["unexpected"] for rank in ranks.values()),
           f"{name}: some rank has received nothing by Matchbox", result)
    expect(not any(rank["dropped_packets"] for rank in ranks.values()), f"{name}: packets were dropped",
           result)
    expect(networks_of((0, "", said)) == count, f"{name}: some rank has opened no network", result)


def test_demo_on_hosts():
    """Runs the programs of ./dev demo, which are usually on one host, with two ranks on each of three."""
    needs_network()
    on_hosts(3, "true")
    if not os.path.exists(path("tests/mpi/p2p")):
        raise NotHere("built without MPI")
    with tempfile.TemporaryDirectory(prefix="matchbox-start.") as folder:
        for program in demo_programs():
            name, count = program[0], 2 if program[0] == "NetPIPE" else 6
            where = os.path.join(folder, name.replace(" ", "-"))
            try:
                seconds = proglib.run_checked(program, count, where, stats=os.path.join(where, "stats.%r"),
                                               more={"MBX_LOG_LEVEL": "debug"}, limit_s=PATIENCE_S)
            except proglib.Failed as reason:  # the folder goes
                with open(os.path.join(where, "output"), errors="replace") as file:
                    raise Failed(f"{reason}; the end of it:\n{file.read()[-3000:]}") from None
            expect_carried(name, where, count)
            print(f"   {name}, {count} ranks: {seconds:.0f} s", flush=True)


def test_slurm():
    """Two ranks on each of two nodes, which seem to be two hosts."""
    needs_network()
    rank = f"MBX_FAULT_HOST=$((SLURM_NODEID + 1)) exec {path('tests/support/spread_program')}"
    result = run(os.path.join(SCRIPTS, "hosts/slurm-here"), "srun", "--mpi=pmix", "-N2", "-n4", "sh", "-c",
                 f"{rank} {' '.join(SPREAD)}",
                 env={"MBX_TRANSPORT": "shm+ofi", "MBX_LOG_LEVEL": "debug"})
    if result[0] == NOT_HERE:
        raise NotHere(result[2].strip())
    expect_spread(result, 4)
    expect(networks_of(result) == 4 * len(SPREAD), "some rank has opened no network", result)


def test_mpich_on_hosts():
    """MPICH's launcher also finds the hosts."""
    if not shutil.which("mpiexec.mpich"):
        raise NotHere("there is no MPICH")
    result = on_hosts(2, "mpiexec.mpich", "-hosts", "h1,h2", "-n", "2", "hostname")
    expect(result[0] == 0 and sorted(result[1].split()) == ["h1", "h2"], "two hosts", result)


def test_hosts_end_with_a_signal():
    """The script gets a signal while its command runs: it ends at once, with everything that it has made."""
    with subprocess.Popen([HOSTS, "-n", "1", "sh", "-c", "echo up; exec sleep 1000"], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        if process.stdout.readline() != "up\n":
            raise NotHere(process.stderr.read().strip())
        process.terminate()
        try:
            status = process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            raise Failed("it does not end")
        expect(status == 128 + signal.SIGTERM, "the exit code", (status, "", process.stderr.read()))


def test_hosts_leave_nothing():
    """A host is cut off, reconnected and ended; then neither an interface nor a process is left."""
    mark = f"MATCHBOX_START_TEST={uuid.uuid4().hex}"
    os.environ.update([mark.split("=")])
    script = (f"{HOSTS} cut h1 && {HOSTS} enter h2 {reach('10.77.0.1', 2)} && exit 1; "
              f"{HOSTS} enter h2 {reach('10.77.0.254', PATIENCE_S)} || exit 2; "
              f"{HOSTS} mend h1 && {HOSTS} enter h2 {reach('10.77.0.1', PATIENCE_S)} || exit 3; "
              f"{HOSTS} end h1; {HOSTS} enter h1 true 2>/dev/null && exit 4; echo reached")
    result = on_hosts(2, "sh", "-c", script)
    expect(result[0] == 0 and "reached" in result[1], "cut, mend, end", result)
    networks = os.listdir("/sys/class/net")
    expect(not {"switch", "vh1", "vh2"} & set(networks), f"a network is left: {networks}", result)
    expect(not processes.marked(mark), "a process is left", result)
    result = run(HOSTS, "cut", "h1")
    expect(result[0] == 2 and "only a command" in result[2], "cut from outside", result)
    result = on_hosts(1, "sh", "-c", "exit 9")
    expect(result[0] == 9, "the exit code of the command", result)


def reach(address, patience_s):
    """Returns a command that succeeds when this address answers."""
    return f"{sys.executable} {os.path.abspath(__file__)} --reach {address} {patience_s}"


def is_reached(address, patience_s):
    """Does the address answer in this time?  A refusal is an answer; a missing route may appear."""
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            probe.settimeout(1)
            if probe.connect_ex((address, 9)) == errno.ECONNREFUSED:
                return True
    return False


TESTS = {name[5:]: function for name, function in list(globals().items())
         if name.startswith("test_")}


def main(words):
    global BUILD, IS_LONG
    if not words or words[0] in ("-h", "--help"):
        print(__doc__.strip() + "\n\nNAME: " + " ".join(TESTS))
        return 0 if words else 2
    if words[0] == "--reach":
        return not is_reached(words[1], float(words[2]))
    BUILD = os.path.abspath(words[0])
    IS_LONG = "--long" in words
    words = [word for word in words if word != "--long"]
    for name in words[1:]:
        if name not in TESTS:
            sys.stderr.write(f"start_test: there is no test '{name}'; there are: "
                             f"{' '.join(TESTS)}\n")
            return 2
    if shutil.which("mpiexec") is None:
        return NOT_HERE
    failed = 0
    for name in words[1:] or TESTS:
        try:
            TESTS[name]()
            print(f"ok {name}", flush=True)
        except NotHere as reason:
            print(f"skipped {name}: {reason}", flush=True)
        except (Failed, proglib.Failed) as reason:
            failed += 1
            print(f"FAILED {name}: {reason}", flush=True)
    return failed != 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
