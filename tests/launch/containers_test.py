#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""containers_test.py BUILD_DIR [NAME...] - ranks on one machine that cannot access each other's
memory.

Each rank runs in namespaces of its own, as in a container; or its program is not readable, so that
nobody may access its processes; or it has a seccomp filter.  A test that is impossible here is
skipped, with the reason.  Without a NAME all of them run, except the tests whose names begin with mpi_.
"""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid

sys.dont_write_bytecode = True
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
import processes  # noqa: E402
from patience import PATIENCE_S  # noqa: E402

BUILD = os.path.abspath(sys.argv[1])
MBX = os.path.join(BUILD, "tools/mbx")
JOB = os.path.join(BUILD, "examples/job")
MIB = "2"  # moved between two ranks: enough for several packets and reads
NO_ATTACH = os.path.join(BUILD, "tests/launch/no_attach")
P2P = os.path.join(BUILD, "tests/mpi/p2p")
COLLECTIVES = os.path.join(BUILD, "tests/mpi/collectives")  # takes a quarter of the time: for all containers except the first
NOBODY = 65534
RIGHT = "all words right"

CONTAINERS = {
    "another user namespace": ["unshare", "-U", "-c"],
    "another pid namespace": ["unshare", "-p", "-f", "--mount-proc"],
    "other user and pid namespaces": ["unshare", "-U", "-r", "-p", "-f", "--mount-proc"],
}


class Failed(Exception):
    pass


class NotHere(Exception):
    pass


class Result:
    def __init__(self, words, env=None, **more):
        clean = {name: value for name, value in os.environ.items()
                 if not re.match("(PMI|SLURM|OMPI_COMM|MBX_|FI_)", name)}
        clean.update({"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                      "OMPI_MCA_hwloc_base_binding_policy": "none", "MBX_LOG_LEVEL": "info", **(env or {})})
        done = subprocess.run(words, env=clean, text=True, stdin=subprocess.DEVNULL, capture_output=True,
                              timeout=PATIENCE_S, **more)
        self.words, self.code, self.out, self.err = words, done.returncode, done.stdout, done.stderr

    def has(self, *texts):
        return all(text in self.out + self.err for text in texts)

    def __str__(self):
        return f"{' '.join(self.words)}: exit code {self.code}\n{self.out}{self.err}"


def expect(condition, what, result):
    if not condition:
        raise Failed(f"{what}; {result}")


def job(*container, env=None, ranks=2):
    """Runs the example under mbx run; the words `container` start each rank."""
    return Result([MBX, "run", "-n", str(ranks), *container, JOB, MIB], env=env)


def containers():
    """Returns (name, words) of the containers that are possible here."""
    made = [(name, words) for name, words in CONTAINERS.items()
            if shutil.which(words[0]) and subprocess.run([*words, "true"], check=False,
                                                         capture_output=True).returncode == 0]
    if not made:
        raise NotHere("no namespaces can be made (unshare)")
    return made


def needs_network():
    if Result([MBX, "info", "--network"], env={"MBX_LOG_LEVEL": "error"}).has("none"):
        raise NotHere("there is no network (mbx info --network)")


SHARES = "ranks of its network namespace and user share memory by passed descriptors"
COPIES = "memory is shared, but not read across them (cross-memory attach)"


def shares_memory(result, ranks=2):
    """No packet went over the network, and each rank has logged how it shares memory."""
    return result.err.count(SHARES) == ranks and COPIES in result.err


def test_one_container_each():
    """Memory is shared by passed descriptors, and the log has the reason."""
    for name, words in containers():
        result = job(*words, env={"MBX_OFI_PROVIDER": "none"})
        expect(result.code == 0 and RIGHT in result.out, name, result)
        expect(result.err.count(f"this process is in {name} than its launcher") == 2 and shares_memory(result),
               f"{name}: no line of both ranks", result)


def test_private_dev_shm():
    """The file systems need not be shared."""
    if Result(["unshare", "-m", "mount", "-t", "tmpfs", "none", "/dev/shm"]).code != 0:
        raise NotHere("no file system can be mounted in a namespace")
    own = ["/dev/shm"] if JOB.startswith("/tmp/") else ["/dev/shm", "/tmp"]  # the program stays visible
    mounts = " && ".join(f"mount -t tmpfs none {folder}" for folder in own)
    for name, words in containers()[-1:]:
        result = job(*words, "unshare", "-m", "sh", "-c", f"{mounts} && exec {JOB} {MIB}",
                     env={"MBX_OFI_PROVIDER": "none"})
        expect(result.code == 0 and RIGHT in result.out and shares_memory(result), name, result)


def inside(name, words):
    """Returns a process that keeps the namespaces of `words`, and the words that enter them."""
    holder = subprocess.Popen([*words, "sh", "-c", "echo; exec sleep 1000"], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL)
    holder.stdout.read(1)
    pid = holder.pid
    while "-f" in words and "sleep" not in open(f"/proc/{pid}/comm", encoding="utf-8").read():
        children = open(f"/proc/{pid}/task/{pid}/children", encoding="utf-8").read().split()
        pid = int(children[0]) if children else pid
    enter = ["nsenter", "-t", str(pid), "--preserve-credentials"]
    enter += ["-U"] * ("user" in name) + ["-p", "-m"] * ("pid" in name)
    return holder, pid, enter


def test_two_ranks_in_one_container():
    """The ranks read each other's memory, although their launcher is outside."""
    if shutil.which("nsenter") is None:
        raise NotHere("there is no nsenter")
    for name, words in containers():
        holder, pid, enter = inside(name, words)
        try:
            result = job(*enter, env={"MBX_OFI_PROVIDER": "none"})
        finally:
            os.kill(pid, signal.SIGKILL)
            holder.wait()
            holder.stdout.close()
        expect(result.code == 0 and RIGHT in result.out, name, result)
        expect(result.err.count(SHARES) == 2 and COPIES not in result.err, f"{name}: memory is not read", result)


def names(mark):
    """Returns the names of the sockets by which the processes with this mark pass segments."""
    own = set()
    for pid in processes.marked(mark):
        for fd in processes.descriptors(pid):
            own.update(re.findall(r"^socket:\[(\d+)\]$", fd))
    return {path for inode, path in passing() if inode in own}


def passing():
    """Returns (inode, name) of all such sockets here."""
    with open("/proc/net/unix", "rb") as sockets:
        return [(inode.decode(), path.decode()) for inode, path in re.findall(rb" (\d+) (@matchbox/[0-9a-f]{8})$", sockets.read(), re.M)]


def test_nothing_is_left():
    """All processes are killed at once, while they run."""
    for name, words in containers():
        mark = uuid.uuid4().hex
        with processes.started([MBX, "run", "-n", "2", *words, MBX, "perf", "lat", "-i", "100000000"], stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, env={**os.environ, "CONTAINERS_TEST": mark}) as job_of_two:
            mark = f"CONTAINERS_TEST={mark}"
            while len(own := names(mark)) < 2:
                if job_of_two.poll() is not None:
                    raise Failed(f"{name}: the job ended with {job_of_two.returncode}")
                os.sched_yield()
            job_of_two.kill()
            job_of_two.wait()
            end = time.monotonic() + PATIENCE_S
            while left := processes.marked(mark) or own & {path for _, path in passing()}:
                if time.monotonic() > end:
                    processes.kill_marked(mark)
                    raise Failed(f"{name}: processes or files are left: {left}")
                os.sched_yield()


def test_over_the_network():
    """A parameter selects the network."""
    needs_network()
    for name, words in containers():
        result = job(*words, env={"MBX_SHM_PASS": "never"})
        expect(result.code == 0 and RIGHT in result.out, name, result)
        expect(result.err.count(f"transport shm+ofi: this process is in {name} than its launcher") == 2 and
               COPIES not in result.err and result.has("; ranks of its namespaces share memory"),
               f"{name}: no line of both ranks", result)


def test_network_namespaces_of_their_own():
    """Neither rank reaches the other: its line names the namespace and the remedy."""
    for name, words in containers():
        result = job(*words, "unshare", "-n", env={"MBX_OFI_PROVIDER": "none"})
        if result.has("Operation not permitted"):
            continue  # a user namespace without root
        expect(result.code != 0 and result.has("in another network namespace", "podman --net=host"), name, result)
        if "-U" not in words or "-r" in words:
            result = job(*words, "unshare", "-n", "sh", "-c", f"ip link set lo up && exec {JOB} {MIB}")
            expect(result.code != 0 and result.has("in another network namespace", "podman --net=host"),
                   f"{name}, each with a loopback interface", result)


def test_one_container_for_all():
    """Ranks in one container use shared memory, and no network."""
    for name, words in containers():
        result = Result([*words, MBX, "run", "-n", "2", JOB, MIB])
        expect(result.code == 0 and RIGHT in result.out, name, result)
        expect(result.err.count("transport shm: no rank of the job is known to be on another host") == 2,
               f"{name}: no line of both ranks", result)


def test_perf_between_two():
    """Ranks that share no memory are measured over the network, without the time of a cache line."""
    needs_network()
    for name, words in containers():
        result = Result([MBX, "run", "-n", "2", *words, MBX, "perf", "lat", "-i", "200"],
                        env={"MBX_SHM_PASS": "never"})
        expect(result.code == 0 and result.out.count("perf=lat size=8 half_rtt_median_ns=") == 1, name, result)
        expect("line_" not in result.out and "on two hosts: there is no cache line" in result.err, name, result)


def test_overlap_needs_one_clock():
    """Two boot ids, as on two machines: overlap is refused, and does not wait for a time of another clock."""
    needs_network()
    boot = "/proc/sys/kernel/random/boot_id"
    with tempfile.TemporaryDirectory() as folder:
        for rank in "01":
            with open(os.path.join(folder, rank), "w", encoding="utf-8") as file:
                file.write(f"{8 * rank}-0000-0000-0000-000000000000\n")
        words = ["unshare", "-m", "sh", "-c",
                 f"mount --bind {folder}/${{MBX_BOOT#*:}} {boot} || exit 77; exec {MBX} perf overlap -s 1K -r 3"]
        result = Result([MBX, "run", "-n", "2", *words])
    if result.code == 77 or result.has("unshare failed"):
        raise NotHere("another boot cannot be shown to a process here")
    expect(result.code == 1 and result.has("two machines, which have no clock in common"), "overlap", result)


def test_mpi_in_containers():
    if not os.path.exists(P2P) or shutil.which("mpiexec") is None:
        raise NotHere("built without MPI, or there is no mpiexec")
    for i, (name, words) in enumerate(containers()):
        program = P2P if i == 0 else COLLECTIVES
        for way in ("provider", "pml"):
            if Result([MBX, "exec", "--through", way, "--print"]).code != 0:
                continue  # not built here
            for env in ({"MBX_OFI_PROVIDER": "none"}, {"MBX_SHM_PASS": "never"})[:2 if i == 0 else 1]:
                result = Result([MBX, "exec", "--through", way, "mpiexec", "--oversubscribe", "-n", "2",
                                 *words, program], env=env)
                expect(result.code == 0 and f"ok {os.path.basename(program)} ranks=2" in result.out, f"{way}, {name}, {env}", result)
                expect(result.err.count(f"is in {name} than its launcher") == 2, f"{way}, {name}: lines", result)


def test_mpi_without_mbx_exec():
    """No variable names the launcher's namespaces, so they are compared with the initial ones."""
    needs_network()
    if not os.path.exists(P2P) or shutil.which("mpiexec") is None:
        raise NotHere("built without MPI, or there is no mpiexec")
    printed = Result([MBX, "exec", "--through", "provider", "--print"])
    if printed.code != 0:
        raise NotHere("the provider is not here")
    variables = dict(re.findall(r"export (\w+)='(.*)'", printed.out))
    for name, words in containers():
        result = Result(["mpiexec", "--oversubscribe", "-n", "2", *words, COLLECTIVES], env=variables)
        expect(result.code == 0 and "ok collectives ranks=2" in result.out, name, result)
        expect(result.err.count("transport shm+ofi: this process is in a container") == 2, name, result)


def one_rank_inside(words, fifo):
    """A command for each of two ranks; neither ends before the other's program has.  The launcher ends a rank when the
    other one fails, and both must report why they fail."""
    return (f"case $MBX_BOOT in *:1) {' '.join(words)} {JOB} {MIB}; code=$?; read -r line <{fifo} ;; "
            f"*) {JOB} {MIB}; code=$?; echo >{fifo} ;; esac; exit $code")


def test_one_rank_inside_alone():
    """Only one rank is inside.  The other cannot know that; both name the remedies."""
    needs_network()
    for name, words in containers():
        with tempfile.TemporaryDirectory() as folder:
            one_rank_inside_alone(name, words, os.path.join(folder, "fifo"))


def one_rank_inside_alone(name, words, fifo):
    os.mkfifo(fifo)
    result = Result([MBX, "run", "-n", "2", "sh", "-c", one_rank_inside(words, fifo)])
    expect(result.code != 0 and "cannot be reached" in result.err and
           "in another pid or user namespace (a container)" in result.err and
           "MBX_TRANSPORT=shm+ofi for all ranks" in result.err and
           "MBX_SHM_PASS=always for all ranks" in result.err, name, result)
    for cure in ({"MBX_SHM_PASS": "always"}, {"MBX_TRANSPORT": "shm+ofi"})[:2 if "-c" in words else 1]:
        result = Result(result.words, env=cure)
        expect(result.code == 0 and RIGHT in result.out, f"{name}, {cure}", result)


def test_no_network_in_containers():
    needs_network()
    name, words = containers()[0]
    result = job(*words, env={"FI_PROVIDER": "matchbox"})
    expect(result.code == 0 and RIGHT in result.out and "there is no network" in result.err and
           f"this process is in {name} than its launcher: {SHARES}" in result.err,
           "no warning that there is no network", result)
    result = job(*words, env={"FI_PROVIDER": "matchbox", "MBX_SHM_PASS": "never"})
    expect(result.code != 0 and "MBX_TRANSPORT=shm+ofi for all ranks" in result.err, "no cure", result)


def test_shared_memory_insisted_on():
    _, words = containers()[0]
    result = job(*words, env={"MBX_TRANSPORT": "shm"})
    expect(result.code == 0 and RIGHT in result.out and COPIES in result.err, "not shared", result)
    result = job(*words, env={"MBX_TRANSPORT": "shm", "MBX_SHM_PASS": "never"})
    expect(result.code != 0 and "in another pid or user namespace (a container)" in result.err and
           "MBX_TRANSPORT=shm+ofi for all ranks" in result.err, "not named", result)


def unreadable_job(where):
    """Makes a program that may be executed and not read, and a user who runs it."""
    os.chmod(where, 0o755)
    for source in (MBX, JOB, os.path.join(BUILD, "libmatchbox.so.0")):
        shutil.copy(os.path.realpath(source), os.path.join(where, os.path.basename(source)))
    os.chmod(os.path.join(where, "job"), 0o111)
    if os.geteuid() != 0:
        return []
    if shutil.which("setpriv") is None:
        raise NotHere("root reads every file, and there is no setpriv to be somebody else")
    return ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]


def test_a_program_that_may_not_be_read():
    needs_network()
    with tempfile.TemporaryDirectory(prefix="matchbox-containers.") as where:
        as_user = unreadable_job(where)
        words = [*as_user, f"{where}/mbx", "run", "-n", "2", f"{where}/job", MIB]
        result = Result(words, env={"LD_LIBRARY_PATH": where}, cwd=where)
        expect(result.code == 0 and RIGHT in result.out, "not right", result)
        expect(result.err.count("shares its memory with nobody, because the file of its program may not "
                                "be read (mode 0111)") == 2, "no line of both ranks", result)
        expect(shares_memory(result), "memory is not shared", result)
        result = Result(words, env={"LD_LIBRARY_PATH": where, "MBX_TRANSPORT": "shm", "MBX_SHM_PASS": "never"},
                        cwd=where)
        expect(result.code != 0 and "not dumpable" in result.err, "shared memory alone", result)


def test_no_cross_memory_attach():
    """Long messages are copied another way, and one line names the filter that forbids the direct way."""
    probe = Result([NO_ATTACH, "true"])
    if probe.code == 77:
        raise NotHere(probe.err.strip())
    result = job(NO_ATTACH)
    expect(result.code == 0 and RIGHT in result.out, "not right", result)
    expect("a seccomp filter of this process" in result.err and "copied twice" in result.err,
           "not named", result)
    expect("forbidden" not in job().err, "named where it is allowed", result)


TESTS = {name[5:]: function for name, function in list(globals().items())
         if name.startswith("test_")}


def main(names):
    failed = 0
    for name in names or [name for name in TESTS if not name.startswith("mpi_")]:
        try:
            TESTS[name]()
            print(f"ok {name}", flush=True)
        except NotHere as reason:
            print(f"skipped {name}: {reason}", flush=True)
        except (Failed, subprocess.TimeoutExpired) as reason:
            failed += 1
            print(f"FAILED {name}: {reason}", flush=True)
    return failed != 0


sys.exit(main(sys.argv[2:]))
