#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""run_test.py MBX [NAME...] - the behaviour of `mbx`, especially of `mbx run`.

The test recognises its processes by a word in their environment, whatever became of their parents,
groups and names.  SEED and KILLS in the environment set the random part: when it kills, and which
process.
"""
import json
import os
import pty
import random
import re
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid

sys.dont_write_bytecode = True
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
import processes  # noqa: E402
from looks import looks  # noqa: E402
from patience import PATIENCE_S  # noqa: E402
from ports import free_port  # noqa: E402

MBX = os.path.abspath(sys.argv[1])
SPREAD = os.path.join(os.path.dirname(MBX), "../tests/support/spread_program")  # with parameters of tests
MARK = "MATCHBOX_RUN_TEST"
ALL = f"MATCHBOX_RUN_TESTS={uuid.uuid4().hex}"  # of all tests here


class Failed(Exception):
    pass


def expect(condition, text):
    if not condition:
        raise Failed(text)


class Job:
    """One mbx with a mark; its output is kept."""

    def __init__(self, *args, stdin="", env=None):
        self.mark = uuid.uuid4().hex
        environment = {**os.environ, MARK: self.mark, **dict([ALL.split("=")]), **(env or {})}
        self.process = subprocess.Popen(
            [MBX, *args], env=environment, text=True, start_new_session=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.stdin = stdin

    def wait(self):
        try:
            self.out, self.err = self.process.communicate(self.stdin, PATIENCE_S)
        except subprocess.TimeoutExpired:
            processes.kill_marked(f"{MARK}={self.mark}")
            raise Failed(f"does not end: {self.process.args}")
        self.code = self.process.returncode
        return self

    def __str__(self):
        return f"{self.process.args}: exit {self.code}\n{self.out}{self.err}"


def mbx(*args, **more):
    return Job(*args, **more).wait()


def marked(mark):
    return processes.marked(f"{MARK}={mark}")


def expect_nothing_left(mark, what):
    end = time.monotonic() + PATIENCE_S
    while left := marked(mark):
        if time.monotonic() > end:
            processes.kill_marked(f"{MARK}={mark}")
            raise Failed(f"{what}: it has left {left}")
        time.sleep(0.01)


def wait_for(condition, text):
    """Waits until the condition is true, and returns its value."""
    end = time.monotonic() + PATIENCE_S
    while not (seen := condition()):
        expect(time.monotonic() < end, text)
        time.sleep(0.01)
    return seen


# ---- arguments -------------------------------------------------------------------------

def wrong_arguments_are_named():
    for args, word in [
            (["frob"], "'frob'"), (["help", "frob"], "'frob'"),
            (["run"], "-n"), (["run", "-n"], "-n"), (["run", "-n", "0", "true"], "'0'"),
            (["run", "-n", "two", "true"], "'two'"), (["run", "-n", "-1", "true"], "'-1'"),
            (["run", "-n", "5000", "true"], "'5000'"), (["run", "-n", "2"], "PROGRAM"),
            (["run", "-n", "2", "--frob", "true"], "--frob"),
            (["run", "-n", "2", "-q", "true"], "-q"),
            (["run", "-n", "2", "--timeout", "soon", "true"], "'soon'"), (["run", "-n", "2", "--timeout", "0", "true"], "number of s, not '0'"),
            (["exec", "--hang", "60x", "true"], "number of s, not '60x'"), (["doctor", "--between", "1h"], "number of ms, not '1h'"),
            (["doctor", "--hosts"], "value: --hosts\n"), (["doctor", "--job"], "value: --job\n"), (["queues", "--core"], "value: --core\n"),
            (["run", "-n"], "value: -n\n"), (["exec", "--summary", "-qv", "true"], ": -q\n"), (["info", "--json=1"], ": --json=1"),
            (["info", "--frob"], "--frob"), (["info", "frob"], "'frob'"),
            (["exec"], "COMMAND"), (["exec", "--frob", "true"], "--frob"),
            (["exec", "--print", "true"], "'true'"),
            (["perf"], "lat"), (["perf", "frob"], "'frob'"), (["perf", "lat", "x"], "'x'"),
            (["perf", "lat", "--size", "8X"], "'8X'"),
            (["perf", "--window", "0", "bw"], "'0'"),
            (["perf", "lat", "--sizes", "8,,9"], "''"),
            (["perf", "lat", "--sizes", "9-8"], "9-8"),
            (["perf", "-s", "8", "overlap"], "'overlap'"), (["perf", "lat", "--threads", "2"], "not for lat"),
            (["perf", "bw", "--depths", "2"], "not for bw"), (["perf", "depth", "--depths", "1,0"], "'0'"),
            (["perf", "overlap", "x"], "'x'"), (["perf", "overlap", "--frob"], "--frob"),
            (["perf", "overlap", "--sizes", "1K,much"], "'much'"),
            (["perf", "overlap", "--repeats", "0"], "'0'"),
            (["perf", "overlap", "--window", "5000"], "'5000'"),
            (["perf", "overlap", "--compute", "0"], "'0'"),
            (["perf", "overlap", "--size", "1M", "--window", "4096"], "1048576 bytes"),
            (["perf", "overlap", "--modes", "software,frob"], "'frob'"),
            (["perf", "overlap", "--modes", "frob/soft"], "'frob/soft'"),
            (["perf", "overlap", "--modes", "soft,split/soft"], "'split/soft'")]:
        job = mbx(*args)
        expect(job.code == 2 and word in job.err and not job.out, f"{word} not named: {job}")


def help_is_there():
    expect(mbx("--help").code == 0 and "perf" in mbx("help").out, "mbx --help")
    expect(mbx().code == 2, "mbx alone")
    for command in ("run", "exec", "info", "perf"):
        job = mbx(command, "--help")
        expect(job.code == 0 and job.out.startswith(f"usage: mbx {command}"), str(job))
        expect(mbx("help", command).out == job.out, f"mbx help {command}")


def the_word_that_was_meant_is_suggested():
    for args, text in [
            (["rum"], "did you mean 'run'"), (["infos"], "did you mean 'info'"),
            (["info", "--jsn"], "did you mean --json"), (["run", "--timout", "3"], "did you mean --timeout"),
            (["perf", "latency"], "did you mean 'lat'"), (["run", "-np", "2", "true"], "-n RANKS"),
            (["exec", "-n", "2", "true"], "mbx exec mpiexec -n RANKS")]:
        job = mbx(*args)
        expect(job.code == 2 and text in job.err and not job.out, f"{text}: {job}")
    job = mbx("frobnicate")
    expect(job.code == 2 and "did you mean" not in job.err and "usage: mbx" in job.err, str(job))


def help_takes_what_there_is():
    expect(mbx("help", "perf", "overlap").out == mbx("perf", "overlap", "--help").out != "", "perf overlap")
    for word in ("help", "version", "complete"):
        job = mbx("help", word)
        expect(job.code == 0 and job.out.startswith(f"usage: mbx {word}"), str(job))
    for args, word in ((["help", "run", "frob"], "'frob'"), (["help", "perf", "overlap", "frob"], "'frob'"),
                       (["version", "frob"], "'frob'"), (["help", "help", "frob"], "'frob'")):
        job = mbx(*args)
        expect(job.code == 2 and word in job.err and not job.out, str(job))


def version_says_how_it_was_built():
    job = mbx("--version")
    expect(job.code == 0 and re.fullmatch(r"matchbox \d+\.\d+\.\d+\ncommit \S+\nnetwork (yes|no), .*buildtype \w+, .*\n",
                                          job.out), str(job))


def a_full_disk_is_noticed():
    for args in (["info", "--stats"], ["help"], ["version"], ["perf", "--help"], ["complete", "bash"], ["info", "--json"],
                 ["run", "-n", "2", "echo", "lost"], ["perf", "lat", "--sizes", "8", "--iterations", "200", "--no-bind"]):
        with open("/dev/full", "w", encoding="ascii") as full:
            done = subprocess.run([MBX, *args], stdout=full, stderr=subprocess.PIPE, text=True, timeout=PATIENCE_S)
        expect(done.returncode == 1 and "No space left on device" in done.stderr, f"{args}: {done}")


def json_is_json():
    said = json.loads(mbx("info", "--json").out)
    for part in ("version", "transports", "network", "devices", "protocols", "window", "statistics", "parameters", "host"):
        expect(part in said, f"no {part} in {said}")
    rows = {row["name"]: row for row in json.loads(mbx("info", "--params", "--json", env={"MBX_SPIN": "7us"}).out)["parameters"]}
    expect(rows["MBX_SPIN"]["value"] == "7us" and rows["MBX_SPIN"]["is_set"] is True and
           rows["MBX_PEERS_MAX"]["is_advanced"] is True, str(rows["MBX_SPIN"]))
    job = mbx("info", "--protocols", "--json")
    expect(set(json.loads(job.out)) == {"version", "protocols"}, str(job))
    job = mbx("perf", "bw", "--sizes", "4K,8K", "--iterations", "500", "--no-bind", "--json")
    lines = [json.loads(line) for line in job.out.splitlines()]
    expect(job.code == 0 and [line["size"] for line in lines] == [4096, 8192] and
           all(line["perf"] == "bw" and line["median_MB_per_s"] > 0 for line in lines), str(job))
    for words in (), ("--modes", "software"):
        job = mbx("perf", "overlap", "--sizes", "1K", "--repeats", "3", "--json", *words)
        lines = [json.loads(line) for line in job.out.splitlines()]
        expect(job.code == 0 and [line["perf"] for line in lines] == ["overlap", "overlap_places"] and
               lines[0]["size"] == 1024, str(job))


def info_tells_what_the_host_allows():
    job = mbx("info", "--host")
    for name in ("cross-memory attach", "ptrace scope", "namespaces", "membarrier", "huge pages", "adapters"):
        expect(re.search(f"^  {name} +\\S", job.out, re.M), f"no {name} in {job}")
    no_attach = os.path.join(os.path.dirname(MBX), "../tests/launch/no_attach")
    done = subprocess.run([no_attach, MBX, "info", "--host"], text=True, capture_output=True, timeout=PATIENCE_S)
    expect(done.returncode == 77 or re.search("^  cross-memory attach +no\n .*copied twice", done.stdout, re.M), str(done))


def values_can_be_pasted():
    job = mbx("info", "--params=all", env={"MBX_UNEXPECTED_MEMORY": "1T", "MBX_TRANSPORT": ""})
    expect(job.code == 0 and "MBX_UNEXPECTED_MEMORY=1T\n" in job.out and "range 0..256T" in job.out, str(job))
    shown = dict(line.strip().split("=", 1) for line in job.out.splitlines() if line.startswith("  MBX_"))
    del shown["MBX_BOOT"]
    again = mbx("info", "--params=all", env={name: value for name, value in shown.items() if value})
    expect(again.code == 0, str(again))
    job = mbx("info", "--params", env={"MBX_SPIN": "1"})
    expect(job.code == 1 and "with its unit: ns, us, ms or s" in job.err, str(job))
    for name in ("HANG", "PEER_TIMEOUT", "CLOSE_TIMEOUT", "BOOT_TIMEOUT"):
        for text in ("60", "60s", "60000ms"):
            job = mbx("info", "--params", env={"MBX_" + name: text})
            expect(job.code == 0 and f"MBX_{name}=60s\n" in job.out, str(job))
    job = mbx("info", "--all", env={"MBX_SPIN": "1"})
    expect(job.code == 1 and job.err.count("MBX_SPIN") == 1, str(job))
    expect("MBX_SPIN=1ms\n" in job.out and "the values below use none of them" in job.err, str(job))


def completion_follows_the_commands():
    for shell, check in (("bash", ["bash", "-n"]), ("zsh", ["zsh", "-n"]), ("fish", ["fish", "-n"])):
        job = mbx("complete", shell)
        expect(job.code == 0 and "overlap" in job.out and "json" in job.out, str(job))
        if shutil.which(check[0]):
            done = subprocess.run([*check, "/dev/stdin"], input=job.out, text=True, capture_output=True)
            expect(done.returncode == 0 and not done.stderr, f"{shell}: {done}")
    words = subprocess.run(["bash", "-c", 'eval "$("$0" complete bash)"; COMP_WORDS=(mbx info --js); COMP_CWORD=2; _mbx;'
                            'echo "${COMPREPLY[*]}"; COMP_WORDS=(mbx ver); COMP_CWORD=1; _mbx; echo "${COMPREPLY[*]}"', MBX],
                           text=True, capture_output=True)
    expect(words.stdout == "--json\nversion\n", str(words))
    expect(mbx("complete").code == 2 and "'csh'" in mbx("complete", "csh").err, "another shell")


def info_lists_statistics_and_parameters():
    job = mbx("info", "--stats")
    expect(re.search(r"^  unexpected_bytes_max +bytes +\w", job.out, re.M), str(job))
    expect(re.search(r"^  sent_rndv-read +\w", job.out, re.M), str(job))
    job = mbx("info", "--params")
    expect(job.code == 0 and "MBX_EAGER_LIMIT=" in job.out, str(job))
    expect("advanced" in job.out and "MBX_PEERS_MAX" not in job.out, str(job))
    line = "      default auto, range 0..1M|auto, unit bytes, from the {}\n"
    expect(line.format("default") in job.out and "the environment" not in job.out, str(job))
    job = mbx("info", "--params", env={"MBX_EAGER_LIMIT": "1234"})
    expect("MBX_EAGER_LIMIT=1234\n" in job.out and line.format("environment") in job.out, str(job))
    everything = mbx("info", "--params=all")
    expect(everything.code == 0 and "MBX_PEERS_MAX=auto\n" in everything.out and "MBX_SPIN" in everything.out and
           "advanced" not in everything.out, str(everything))
    job = mbx("info", "--params=some")
    expect(job.code == 2 and "'some'" in job.err, str(job))
    job = mbx("info", "--params", env={"MBX_SHM_PEERS": "4"})
    expect(job.code == 1 and "MBX_PEERS_MAX" in job.err, str(job))
    job = mbx("info", "--params", env={"MBX_ADVERT_SIZE": "4"})
    expect(job.code == 1 and "MBX_ADVERT_SIZE is not a parameter" in job.err, str(job))
    job = mbx("info", env={"MBX_SPIN": "7us"})
    for text in ("transports", "network\n", "devices", "verbs: ", "protocols", "parameters", "inline", "rndv-read",
                 "  MBX_SPIN=7us\n"):
        expect(text in job.out, f"mbx info: no {text}")
    expect(len(job.out.splitlines()) < 50 and "statistics" not in job.out, f"more than a screen: {job}")
    everything = mbx("info", "--all")
    for text in ("transports", "statistics", "host\n", "MBX_PEERS_MAX=auto\n", "MBX_SPIN"):
        expect(text in everything.out, f"mbx info --all: no {text}")
    # the state of the host may change between the two
    shown = [json.loads(mbx("info", *words, "--json").out) for words in (["--all"], [])]
    named = [[row["name"] for row in one.pop("host")] for one in shown]
    expect(shown[0] == shown[1] and named[0] == named[1], f"--all of --json: {shown}")


def info_tells_of_the_network_or_why_there_is_none():
    lo = {"MBX_OFI_PROVIDER": "tcp;ofi_rxm", "MBX_OFI_INTERFACE": "lo"}
    job = mbx("info", "--network", env=lo)
    expect(job.code == 0 and job.out.startswith("network\n"), str(job))
    has_libfabric, has_lo = "there is no libfabric" not in job.out, True
    if "none: " in job.out:
        expect("error" in job.err, str(job))  # the reason
        has_lo = False
    else:
        for line in ("  provider +tcp;ofi_rxm ", "  interface +lo ", "  libfabric +[0-9]+[.][0-9]+ ",
                     "  memory +read ", "  threading +[a-z]+ "):
            expect(re.search("^" + line, job.out, re.MULTILINE), f"no '{line}' in {job}")
    job = mbx("info", "--network", env={"MBX_OFI_PROVIDER": "frob"})
    expect(job.code == 0 and "  none: " in job.out and "  provider " not in job.out, str(job))
    expect("MBX_OFI_PROVIDER=frob" in job.err or not has_libfabric, str(job))
    job = mbx("info", "--network", env={**lo, "MBX_OFI_INTERFACE": "frob"})
    expect("  none: " in job.out, str(job))
    expect("MBX_OFI_INTERFACE=frob" in job.err or not has_lo, str(job))
    job = mbx("info", "--network", env={"MBX_FROB": "1"})
    expect(job.code == 1 and "MBX_FROB" in job.err and job.out == "", str(job))


def wrong_parameters_are_named():
    job = mbx("info", "--params", env={"MBX_FROB": "1"})
    expect(job.code == 1 and "MBX_FROB" in job.err, str(job))
    job = mbx("info", "--protocols", env={"MBX_EAGER_LIMIT": "much"})
    expect(job.code == 1 and "MBX_EAGER_LIMIT" in job.err and "much" in job.err, str(job))


# ---- exit codes ------------------------------------------------------------------------

def of_rank(rank, action, others="sleep 1000"):
    return ["sh", "-c", f"case $MBX_BOOT in *:{rank}) {action};; esac; {others}"]


def success_is_zero():
    expect(mbx("run", "-n", "3", "true").code == 0, "true")
    expect(mbx("run", "-n", "100", "true").code == 0, "100 ranks")


def first_failing_rank_ends_the_job():
    job = mbx("run", "-n", "4", *of_rank(2, "exit 7"))
    expect(job.code == 7 and "rank 2 exited with code 7" in job.err, str(job))
    expect_nothing_left(job.mark, "exit 7")
    job = mbx("run", "-n", "4", *of_rank(1, "kill -SEGV $$"))
    expect(job.code == 139 and "rank 1 was killed by signal 11" in job.err, str(job))
    expect_nothing_left(job.mark, "kill -SEGV")


def a_rank_that_ignores_the_end_is_killed():
    job = mbx("run", "-n", "2", *of_rank(0, "sleep 0.3; exit 3",
                                         "trap '' TERM; while :; do sleep 0.1; done"))
    expect(job.code == 3, str(job))
    expect_nothing_left(job.mark, "trap TERM")


def programs_that_cannot_run():
    job = mbx("run", "-n", "2", "/nonexistent/program")
    expect(job.code == 127 and "/nonexistent/program" in job.err, str(job))
    job = mbx("run", "-n", "2", "/etc/hostname" if os.getuid() else "/etc/passwd")
    expect(job.code == 126, str(job))
    job = mbx("run", "-n", "2", "/")
    expect(job.code == 126, str(job))


def timeout_ends_the_job():
    job = mbx("run", "-n", "2", "--timeout", "1", "sleep", "1000")
    expect(job.code == 124 and "time" in job.err, str(job))
    expect_nothing_left(job.mark, "timeout")


def processes_that_ranks_leave_are_ended():
    job = mbx("run", "-n", "2", "sh", "-c", "sleep 1000 & setsid sleep 1000 & exit 0")
    expect(job.code == 0, str(job))
    expect_nothing_left(job.mark, "background processes")


# ---- output and input ------------------------------------------------------------------

def lines_are_whole_and_labelled():
    lines = mbx("run", "-n", "4", "--label", "sh", "-c",
                "i=0; while [ $i -lt 200 ]; do printf 'a b '; echo c $i ${MBX_BOOT#*:};"
                "i=$((i+1)); done").out.splitlines()
    wanted = [f"[{rank}] a b c {i} {rank}" for rank in range(4) for i in range(200)]
    expect(sorted(lines) == sorted(wanted), f"{len(lines)} lines, some are not right")


def errors_are_forwarded_to_errors():
    job = mbx("run", "-n", "1", "-l", "sh", "-c", "echo one; echo two >&2")
    expect(job.out == "[0] one\n" and job.err == "[0] two\n", str(job))


def nothing_of_the_output_is_lost():
    size = 3000000
    job = mbx("run", "-n", "2", "sh", "-c", f"head -c {size} /dev/zero | tr '\\0' x; printf end")
    expect(len(job.out) == 2 * (size + 3) and job.out.count("end") == 2,
           f"{len(job.out)} bytes")


def beginnings_of_lines_are_seen():
    job = Job("run", "-n", "1", "sh", "-c", "printf 'name? '; read x; echo $x")
    expect(os.read(job.process.stdout.fileno(), 100) == b"name? ", "no prompt")
    job.stdin = "joe\n"
    expect(job.wait().out == "joe\n", str(job))


def input_goes_to_rank_0():
    job = mbx("run", "-n", "3", "--label", "cat", stdin="one\ntwo\n")
    expect(job.out == "[0] one\n[0] two\n", str(job))


def closed_standard_files_stay_empty():
    for command in ("exec \"$0\" run -n 2 cat <&-", "exec \"$0\" run -n 2 cat <&- >&- 2>&-"):
        done = subprocess.run(["sh", "-c", command, MBX], capture_output=True, timeout=PATIENCE_S)
        expect(done.returncode == 0 and not done.stdout + done.stderr, f"{command}: {done}")


def ranks_have_no_file_but_the_board():
    job = mbx("run", "-n", "3", "sh", "-c", "exec ls -l /proc/$$/fd")
    known = (" 0 -> ", " 1 -> ", " 2 -> ", "matchbox-board", "/proc/")  # what ls itself reads
    others = [line for line in job.out.splitlines()
              if "->" in line and not any(word in line for word in known)]
    expect(job.code == 0 and job.out.count("matchbox-board") == 3 and not others,
           f"{others}: {job}")


def a_reader_that_leaves_ends_the_job():
    job = Job("run", "-n", "2", "sh", "-c", "while :; do echo line; done")
    os.read(job.process.stdout.fileno(), 100)
    job.process.stdout.close()
    job.process.stdout = open(os.devnull, encoding="utf-8")
    expect(job.wait().code != 0, "still well")
    expect_nothing_left(job.mark, "closed output")


def a_terminal_is_read_and_interrupts():
    mark = uuid.uuid4().hex
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ[MARK] = mark
        os.execv(MBX, [MBX, "run", "-n", "2", "-l", "sh", "-c",
                       "read x && echo got $x; sleep 1000"])
    os.write(terminal, b"something\n")
    seen = b""
    while b"[0] got something" not in seen:
        expect(select.select([terminal], [], [], PATIENCE_S)[0], f"no more comes than {seen}: {marked(mark)}")
        seen += os.read(terminal, 1000)
    # a shell that is about to start its program may keep a signal until that program has ended
    wait_for(lambda: sum(name == "sleep" for name in marked(mark).values()) == 2, "the ranks do not sleep")
    os.write(terminal, b"\x03")
    with processes.watched(pid) as launcher:
        if not processes.await_end(launcher, PATIENCE_S):
            left = marked(mark)
            processes.kill_marked(f"{MARK}={mark}")
            raise Failed(f"control-C does not end it: {left}")
    _, status = os.waitpid(pid, 0)
    expect(os.waitstatus_to_exitcode(status) == 128 + signal.SIGINT, f"status {status}")
    expect_nothing_left(mark, "control-C")
    os.close(terminal)


# ---- signals and deaths ----------------------------------------------------------------

def ready_count(job):
    return sum(name == "sleep" for name in marked(job.mark).values())


def signals_are_passed_on():
    job = Job("run", "-n", "2", "sh", "-c",
              "trap 'echo usr1' USR1; trap 'echo term-$$; exit 9' TERM;"
              "echo ready; while :; do sleep 0.05; done")
    seen = ""
    while seen.count("ready") < 2:
        seen += os.read(job.process.stdout.fileno(), 100).decode()
    job.process.send_signal(signal.SIGUSR1)
    while seen.count("usr1") < 2:
        seen += os.read(job.process.stdout.fileno(), 100).decode()
    job.process.send_signal(signal.SIGTERM)
    job.wait()
    # The end of the job is a second TERM: a rank that has not yet left may trap it again.
    ended = set(re.findall(r"term-\d+", seen + job.out))
    expect(len(ended) == 2 and job.code == 9, str(job))


def a_signal_kills_who_does_not_catch_it():
    job = Job("run", "-n", "2", "sleep", "1000")
    wait_for(lambda: ready_count(job) == 2, "not ready")
    job.process.send_signal(signal.SIGTERM)
    expect(job.wait().code == 143, str(job))
    expect_nothing_left(job.mark, "SIGTERM")


def a_repeated_signal_kills_who_ignores_it():
    job = Job("run", "-n", "2", "sh", "-c", "trap '' INT; sleep 1000")
    wait_for(lambda: ready_count(job) == 2, "not ready")
    for _ in looks():  # a signal within a second, as mbx measures it, does not count
        job.process.send_signal(signal.SIGINT)
        time.sleep(1.2)
        if job.process.poll() is not None:
            break
    expect(job.wait().code == 137, str(job))
    expect_nothing_left(job.mark, "SIGINT twice")


def supervisor_of(job):
    return [pid for pid, name in marked(job.mark).items() if name == "mbx-supervisor"]


def is_rank(pid, guards):
    """Is it a child of the supervisor that leads its group?  Adopted orphans do not, or lead a session
    as well."""
    seen = processes.fields(pid)
    if seen is None:
        return False
    parent, group, session = map(int, seen[1][1:4])
    return parent in guards and group == pid and session != pid


def ranks_of(job):
    guards = supervisor_of(job)
    return [pid for pid in marked(job.mark) if is_rank(pid, guards)]


VICTIMS = {
    "mbx run": lambda job: [job.process.pid],
    "the supervisor": supervisor_of,
    "a rank": ranks_of,
    "a grandchild": lambda job: [pid for pid, name in marked(job.mark).items()
                                 if name == "sleep"],
    "anybody": lambda job: list(marked(job.mark)),
}

PROGRAMS = [
    "sleep 1000; exit 0",
    "sleep 1000 & sleep 1000 & wait",
    "setsid sh -c 'sleep 1000 & sleep 1000' & wait",
    "trap '' TERM INT HUP; (setsid sleep 1000 &); sleep 1000; sleep 1000",
]


def whoever_is_killed_nothing_is_left():
    seed = int(os.environ.get("SEED", "1"))
    rng = random.Random(seed)
    for n in range(int(os.environ.get("KILLS", "40"))):
        program, who = rng.choice(PROGRAMS), list(VICTIMS)[n % len(VICTIMS)]
        delay = rng.choice([0, 0.002, 0.005, 0.01, 0.02, 0.05]) * rng.random()
        job = Job("run", "-n", str(rng.randint(1, 4)), "sh", "-c", program)
        time.sleep(delay)
        candidates = VICTIMS[who](job)
        if not candidates:  # too early for any; a process in exec() is invisible for a moment
            candidates = wait_for(lambda: VICTIMS[who](job), f"seed {seed}: {who} never came")
        victim = rng.choice(candidates)
        has_supervisor = marked(job.mark).get(victim) != "mbx-supervisor"
        try:
            os.kill(victim, signal.SIGKILL)
        except ProcessLookupError:
            pass
        # without its supervisor, mbx run must have the time to end the job
        if who in ("a grandchild", "anybody") and has_supervisor and job.process.poll() is None:
            time.sleep(0.05)
            job.process.kill()  # the job may continue
        what = f"seed {seed}, kill {n} of {who} after {delay:.4f} s in `{program}`"
        try:
            job.wait()
        except Failed as error:
            raise Failed(f"{what}: {error}") from None
        expect(job.code != 0 or who in ("a grandchild", "anybody"), f"{what}: {job}")
        expect_nothing_left(job.mark, what)


def after_kill_9_no_rank_is_left():
    for who in ("mbx run", "a rank", "the supervisor"):
        job = Job("run", "-n", "2", MBX, "perf", "rate", "--iterations", "100000000")
        wait_for(lambda: sum(name == "mbx" for name in marked(job.mark).values()) == 3,
                 "no ranks")
        time.sleep(0.3)
        os.kill(VICTIMS[who](job)[0], signal.SIGKILL)
        job.wait()
        expect_nothing_left(job.mark, f"perf, kill of {who}")


def devices_of(job):
    return [pid for pid, name in marked(job.mark).items() if name == "matchbox-device"]


def devices_end_with_their_ranks():
    env = {"MBX_DEVICE": "soft-process", "MBX_DEVICE_THRESHOLD": "0"}
    for who in ("mbx run", "a rank", "the supervisor"):
        job = Job("run", "-n", "2", MBX, "perf", "rate", "--iterations", "100000000", env=env)
        wait_for(lambda: len(devices_of(job)) == 2, "no devices")
        time.sleep(0.3)
        os.kill(VICTIMS[who](job)[0], signal.SIGKILL)
        job.wait()
        expect_nothing_left(job.mark, f"devices, kill of {who}")
    job = Job("run", "-n", "2", MBX, "perf", "rate", "--iterations", "10000", env=env)
    expect(job.wait().code == 0, str(job))
    expect_nothing_left(job.mark, "devices, a good end")
    job = mbx("run", "-n", "2", SPREAD, "messages",
              env={**env, "MBX_DEVICE_PROGRAM": "/nonexistent/device"})
    expect(job.code != 0 and "/nonexistent/device" in job.err, str(job))


# ---- the other tools ---------------------------------------------------------------------

def pairs(text):
    return [dict(word.split("=", 1) for word in line.split()) for line in text.splitlines()]


def perf_prints_what_was_asked_for():
    job = mbx("perf", "lat", "--sizes", "0,8,64K", "--iterations", "500")
    rows = pairs(job.out)
    expect(job.code == 0 and [row["size"] for row in rows] == ["0", "8", "65536"], str(job))
    for row in rows:
        for key in ("half_rtt_median_ns", "half_rtt_min_ns", "line_median_ns", "ratio_median"):
            expect(float(row[key]) > 0, f"{key}: {job}")
        expect(float(row["half_rtt_min_ns"]) <= float(row["half_rtt_median_ns"]), str(job))
    job = mbx("perf", "bw", "-s", "1M", "-i", "200", "-w", "4")
    expect(job.code == 0 and float(pairs(job.out)[0]["median_MB_per_s"]) > 1, str(job))
    job = mbx("perf", "rate", "--sizes", "1-4", "-i", "2000", "--no-bind")
    rows = pairs(job.out)
    expect(job.code == 0 and [row["size"] for row in rows] == ["1", "2", "4"], str(job))
    expect(float(rows[0]["median_messages_per_s"]) > 1, str(job))
    job = mbx("perf", "rate", "--threads", "3", "-i", "2000", "--json")
    row = json.loads(job.out)
    expect(job.code == 0 and row["threads"] == 3 and row["max_messages_per_s"] >= row["median_messages_per_s"] > 1, str(job))
    job = mbx("perf", "depth", "--depths", "1,100")
    rows = pairs(job.out)
    expect(job.code == 0 and [(row["queue"], row["source"], row["depth"]) for row in rows] ==
           [(queue, source, depth) for depth in ("1", "100") for queue in ("posted", "unexpected")
            for source in ("named", "any")], str(job))
    for name, value in ("MBX_WINDOW", "0"), ("MBX_MATCH_AT", "sender"):  # the last message of a block waits for its receive
        job = mbx("perf", "rate", "-i", "64", env={name: value})
        expect(job.code == 0 and "perf=rate" in job.out, f"rate with {name}={value}: {job}")
    job = mbx("perf", "flood", "-i", "300", "-s", "100")
    row = pairs(job.out)[0]
    expect(job.code == 0 and row["kept_messages"] == "300" and int(row["kept_bytes"]) > 300, str(job))
    job = mbx("perf", "flood", "-i", "300", "-s", "1000", env={"MBX_UNEXPECTED_MEMORY": "64K", "MBX_WINDOW": "16"})
    row = pairs(job.out)[0]
    expect(job.code == 0 and 0 < int(row["kept_bytes"]) <= 65536, str(job))
    job = mbx("perf", "flood", "-i", "300", "-s", "100", env={"MBX_WINDOW": "0"})
    expect(job.code == 0 and pairs(job.out)[0]["kept_messages"] == "0", str(job))
    job = mbx("run", "-n", "3", MBX, "perf", "lat")
    expect(job.code == 1 and "two ranks" in job.err, str(job))


def listening(port, *words, **more):
    """Starts one of the two sides and waits until it listens."""
    job = Job("perf", *words, "--listen", "--port", port, **more)
    line = job.process.stderr.readline()
    expect(f"listening on port {port}; on the other host: mbx perf {' '.join(words)}" in line and
           "--connect" in line, line)
    return job


def perf_measures_between_two_that_no_launcher_started():
    port = str(free_port())
    for words in (["lat", "-i", "200"], ["depth", "--depths", "1,20"], ["rate", "--threads", "2", "-i", "500"]):
        first = listening(port, *words)
        with socket.create_connection(("127.0.0.1", int(port))) as stranger:  # not mbx perf: it is refused
            stranger.sendall(b"GET / HTTP/1.1\r\n\r\n" + bytes(8192))
        second = mbx("perf", *words, "--connect", "127.0.0.1", "--port", port)
        first.wait()
        expect(second.code == 0 and all(row["perf"] == words[0] for row in pairs(second.out)) and second.out, str(second))
        expect(first.code == 0 and first.out == "" and "from ::ffff:127.0.0.1 is refused" in first.err or
               "from 127.0.0.1 is refused" in first.err, str(first))
    first = listening(port, "lat")
    second = mbx("perf", "bw", "--connect", "localhost", "--port", port)
    first.wait()
    for job in first, second:
        expect(job.code == 2 and "different things" in job.err, str(job))
    # with one key, and a side without it
    key = {"MBX_KEY": 32 * "7"}
    first = listening(port, "lat", "-i", "200", env=key)
    second = mbx("perf", "lat", "-i", "200", "--connect", "localhost", "--port", port, env=key)
    first.wait()
    expect(first.code == second.code == 0, f"{first}\n{second}")
    first = listening(port, "lat", env=key)
    second = mbx("perf", "lat", "--connect", "localhost", "--port", port)
    first.wait()
    expect(first.code == second.code == 2 and "without MBX_KEY" in second.err, f"{first}\n{second}")
    # nobody listens, and a side that is killed
    job = mbx("perf", "lat", "--connect", "127.0.0.1", "--port", port)
    expect(job.code == 1 and f"nothing listens on port {port}" in job.err, str(job))
    first = listening(port, "lat", "-i", "100000000")
    second = Job("perf", "lat", "-i", "100000000", "--connect", "127.0.0.1", "--port", port, env={"MBX_LOG_LEVEL": "info"})
    line = second.process.stderr.readline()
    expect("transport shm" in line, line)
    first.process.kill()
    first.wait()
    second.wait()
    expect(second.code == 1 and "cannot measure" in second.err, str(second))
    for words, wrong in ((["--listen", "--connect", "a"], "for one host"), (["--port", "1"], "--port is for"),
                         (["--listen", "--port", "0"], "'0'"), (["--connect", "no.such.host.invalid"], "no.such.host")):
        job = mbx("perf", "lat", *words)
        expect(job.code in (1, 2) and wrong in job.err, str(job))


def expect_overlap(row, job):
    """The numbers of a line are consistent."""
    comm, work, both = (float(row[f"{what}_median_ns"]) for what in ("comm", "compute", "both"))
    percent = 100 * (1 - (both - max(comm, work)) / min(comm, work))
    slack = 0.1 + 300 / min(comm, work)  # the times are printed as whole ns
    expect(abs(percent - float(row["overlap_raw_percent"])) <= slack * max(1, both / work),
           f"{percent}: {job}")
    raw = float(row["overlap_raw_percent"])  # rounded
    expect(min(abs(raw + 25), abs(raw - 115)) < 0.1 or row["disturbed"] == ("no" if -25 <= raw <= 115 else "yes"), str(job))
    expect(abs(min(100, max(0, percent)) - float(row["overlap_percent"])) <=
           slack * max(1, both / work), f"{percent}: {job}")
    for what in ("comm", "compute", "both"):
        expect(0 < float(row[f"{what}_min_ns"]) <= float(row[f"{what}_median_ns"]),
               f"{what}: {job}")
    expect(0 <= float(row["overlap_min_percent"]) <= 100, str(job))


def perf_overlap_measures_every_size():
    job = mbx("perf", "overlap", "--sizes", "1,1K,16K,1M", "--repeats", "3")
    expect(job.code == 0, str(job))
    *rows, places = pairs(job.out)
    expect([row["size"] for row in rows] == ["1", "1024", "16384", "1048576"],
           str(job))
    expect([row["window"] for row in rows] == ["64", "64", "16", "1"], str(job))
    for row in rows:
        expect_overlap(row, job)
    expect(places["perf"] == "overlap_places" and places["mode"] == rows[0]["mode"], str(job))
    if len(os.sched_getaffinity(0)) > 1 and places["receiver_cpus"] != places["sender_cpus"]:
        expect(places["receiver_cpus"] not in places["others_cpus"].split(","), str(job))
    job = mbx("perf", "overlap", "-s", "100K", "-r", "1", "-w", "2", "--no-bind")
    rows = pairs(job.out)
    expect(job.code == 0 and rows[0]["window"] == "2" and rows[1]["receiver_cpus"] == "any",
           str(job))
    job = mbx("run", "-n", "3", MBX, "perf", "overlap")
    expect(job.code == 1 and "two ranks" in job.err, str(job))


def perf_overlap_runs_every_mode_that_is_here():
    job = mbx("perf", "overlap", "-s", "64K", "-r", "2", "--modes", "all")
    lines, table = job.out.split("\noverlap in percent\n")
    modes = {}
    for row in pairs(lines):
        modes.setdefault(row["mode"], []).append(row)
    expect(job.code == 0 and list(modes) == ["software", "early", "soft", "soft-thread", "soft-process"],
           str(job))
    head, row, *missing = table.replace("*", "").splitlines()
    missing = [line for line in missing if "disturbed" not in line]
    here = [mode for mode, rows in modes.items() if "skipped" not in rows[0]]
    expect("software" in here and head.split() == ["size", *here], str(job))
    expect(row.split() == ["65536", *(modes[mode][0]["overlap_percent"] for mode in here)],
           str(job))
    expect(missing == [f"{mode}: not in this build" for mode in modes if mode not in here],
           str(job))
    for mode in here:
        expect_overlap(modes[mode][0], job)
    job = mbx("run", "-n", "2", MBX, "perf", "overlap", "--modes", "all")
    expect(job.code == 2 and "--modes" in job.err, str(job))


def computation_takes_its_time():
    """More computation takes longer, and a transfer with it takes no less.  The time of a transfer is set;
    if other programs run at the same time, the test retries until one try is undisturbed."""
    for _ in looks():
        rows = []
        for percent in ("10", "1000"):
            job = mbx("perf", "overlap", "--repeats", "5", "--size", "64K", "--compute", percent)
            expect(job.code == 0, str(job))
            rows.append(pairs(job.out)[0])
        few, many = (float(row["compute_min_ns"]) for row in rows)
        if many > few and float(rows[1]["both_min_ns"]) > many / 2:
            return
    raise Failed(f"the last of many tries: {rows}")


def counts_of_a_receiver(rndv):
    """Returns the mode of perf overlap with long messages, and its counts."""
    with tempfile.TemporaryDirectory() as folder:
        job = mbx("perf", "overlap", "--repeats", "5", "--size", "1M",
                  env={"MBX_RNDV": rndv, "MBX_STATS_FILE": f"{folder}/%r"})
        expect(job.code == 0, str(job))
        with open(f"{folder}/0", encoding="utf-8") as file:
            text = file.read()
    counts = dict(word.split("=", 1) for word in text.split() if "=" in word)
    row = pairs(job.out)[0]
    return row["mode"] if row["protocol"] == "rndv-read" else "", counts, text


def messages_that_software_matches_are_fetched():
    """If software matches a long message, the receiver reads it after it has computed."""
    mode, counts, text = counts_of_a_receiver("read+split")
    expect(mode != "software" or
           counts["advert_sent"] == counts["received_rndv-write"] == "0" and
           int(counts["received_rndv-read"]) >= 10, text)


def early_advertised_receives_are_written():
    """The sender writes an advertised receive while the receiver computes."""
    mode, counts, text = counts_of_a_receiver("write")
    expect(mode != "early" or
           int(counts["advert_won"]) >= 10 and int(counts["received_rndv-write"]) >= 10, text)


def perf_overlap_leaves_nothing():
    job = Job("perf", "overlap", "--modes", "software", "--repeats", "100000")
    wait_for(lambda: sum(name == "mbx" for name in marked(job.mark).values()) == 4, "no ranks")
    job.process.kill()
    job.wait()
    expect_nothing_left(job.mark, "perf overlap, kill of its first process")


def exported(job):
    """Returns {name: value} of the lines of `mbx exec --print`, as a shell reads them."""
    lines = [shlex.split(line) for line in job.out.splitlines()]
    expect(lines and all(line[0] == "export" and len(line) == 2 for line in lines), str(job))
    return dict(line[1].split("=", 1) for line in lines)


def exec_sets_what_is_not_set():
    job = mbx("exec", "--print", "--through=provider")
    if job.code == 1 and "was it built" in job.err:
        return  # no libfabric here
    lines = exported(job)
    expect(lines["FI_PROVIDER"].startswith("matchbox,tcp,ofi_rxm,") and
           lines["OMPI_MCA_mtl"] == "ofi" and lines["OMPI_MCA_pml"] == "cm", str(job))
    # MPICH 4 writes a line for each rank if it is there
    expect(lines["MPIR_CVAR_NOLOCAL"] == "1" and "OFI_USE_PROVIDER" not in job.out, str(job))
    expect(os.path.exists(lines["FI_PROVIDER_PATH"] + "/libmatchbox-fi.so"), str(job))
    expect(re.fullmatch("[0-9a-f]{32}", lines["MBX_KEY"]), str(job))
    job = mbx("exec", "-v", "--through=provider", "sh", "-c", "echo $FI_PROVIDER $MPIR_CVAR_NOLOCAL",
              env={"MPIR_CVAR_NOLOCAL": "0", "MBX_OFI_PROVIDER": "verbs;ofi_rxm"})
    expect(job.out == "matchbox,verbs,ofi_rxm 0\n" and "MPIR_CVAR_NOLOCAL=0" in job.err, str(job))
    expect(mbx("exec", "sh", "-c", "exit 5").code == 5, "exit code of the command")
    expect(mbx("exec", "/nonexistent").code == 127, "no such command")
    for text, seconds in (("60", "60s"), ("60s", "60s"), ("1500ms", "1500ms")):
        job = mbx("exec", f"--hang={text}", "sh", "-c", "echo $MBX_HANG")
        expect(job.out == seconds + "\n", str(job))


def exec_sums_up():
    """Prints one line for all ranks, or a line with the reason if there are none.  Keeps the exit status and the signals
    of the command, and removes its folder."""
    with tempfile.TemporaryDirectory() as folder:
        env = {"TMPDIR": folder}
        for command, code, cause in ((("env", "true"), 0, "true names no MPI library"), (("sh", "-c", "exit 5"), 5, "no rank came to MPI_Finalize"),
                                     (("sh", "-c", "kill -9 $$"), 137, "no rank came to MPI_Finalize")):
            job = mbx("exec", "--summary", *command, env=env)
            expect(job.code == code and job.err.count("\n") == 1 and cause in job.err and not job.out, str(job))
            expect(("no rank used MPI" in job.err) == ("names no MPI" in cause), str(job))
        # the statistics of two ranks, one of them with two endpoints
        write = ("f() { echo \"endpoint rank=$1 pid=1 expected=$2 unexpected=3 sent_eager=4 sent_bytes_eager=1500\"; }; "
                 "f 0 10 >${MBX_STATS_FILE%/*}/1; (f 1 20; f 1 30) >${MBX_STATS_FILE%/*}/2; "
                 "echo 'program rank=0 pid=1 text=component Open MPI v4.1.4, package: x' >>${MBX_STATS_FILE%/*}/1")
        job = mbx("exec", "--summary", "sh", "-c", write, env=env)
        expect(job.err.count("\n") == 1 and re.search(r"exec: 2 ranks over Matchbox [0-9.]+ \(component Open MPI v4\.1\.4\): 12 messages sent, 4\.5 kB; "
                                                      r"69 matched, 9 of them unexpected\n", job.err), str(job))
        job = Job("exec", "--summary", "sh", "-c", "echo started; exec sleep 1000", env=env)
        job.process.stdout.readline()
        job.process.terminate()
        job.wait()
        expect(job.code == 128 + signal.SIGTERM, str(job))
        expect_nothing_left(job.mark, "exec --summary")
        expect(os.listdir(folder) == [], f"left: {os.listdir(folder)}")


def exec_takes_the_component_where_it_can_be_loaded():
    job = mbx("exec", "-v", "--through=pml", "sh", "-c", "echo $OMPI_MCA_pml")
    if job.code == 1:
        expect("component" in job.err, str(job))
        return  # no Open MPI here that could load it
    expect(job.out == "matchbox\n" and "through the component" in job.err, str(job))
    lines = exported(mbx("exec", "--print"))
    folder = lines["OMPI_MCA_mca_base_component_path"].split(":")[0]
    expect(os.path.exists(folder + "/mca_pml_matchbox.so") and lines["OMPI_MCA_pml"] == "matchbox",
           str(lines))
    job = mbx("exec", "sh", "-c", "echo $OMPI_MCA_mca_base_component_path",
              env={"OMPI_MCA_mca_base_component_path": "/site"})
    expect(job.out == folder + ":/site\n", str(job))


def exec_names_what_would_defeat_it():
    """mbx exec then executes nothing, except with --force."""
    for way, name, value in (("pml", "OMPI_MCA_pml", "ob1"), ("provider", "OMPI_MCA_pml", "ob1"),
                             ("provider", "FI_PROVIDER", "tcp"), ("provider", "FI_PROVIDER", "^matchbox"),
                             ("provider", "FI_PROVIDER_PATH", "/nowhere")):
        if mbx("exec", "--print", "--through", way).code != 0:
            continue  # not built here
        job = mbx("exec", "--through", way, "echo", "ran", env={name: value})
        expect(job.code == 1 and job.out == "" and f"{name}={value}" in job.err and
               "--force" in job.err, str(job))
        job = mbx("exec", "--force", "--through", way, "sh", "-c", f"echo ${name}",
                  env={name: value})
        expect(job.code == 0 and job.out not in ("", value + "\n"), str(job))
    if mbx("exec", "--print").code == 0:
        for name, value in ("MBX_WINDOW", "frob"), ("MBX_KEY", "frob"):
            job = mbx("exec", "echo", "ran", env={name: value})
            expect(job.code == 1 and job.out == "" and name in job.err, str(job))


def exec_names_what_its_command_would_defeat():
    """Options of mpiexec that select another library are refused; options that select Matchbox, or something else,
    pass."""
    way = "pml" if mbx("exec", "--print", "--through=pml").code == 0 else "provider"
    if mbx("exec", "--print", "--through", way).code != 0:
        return  # nothing is here
    right = exported(mbx("exec", "--print", "--through", way))["OMPI_MCA_pml"]
    for words, said in ((["--mca", "pml", "ob1"], "--mca pml ob1"), (["-mca", "pml", "ucx"], "-mca pml ucx"),
                        (["-x", "OMPI_MCA_pml=ob1"], "-x OMPI_MCA_pml=ob1"), (["--mca", "pml", right], None),
                        (["--mca", "btl", "self"], None), (["-x", "OMPI_MCA_pml"], None), (["--mca", "pml"], None)):
        job = mbx("exec", "--through", way, "echo", *words)
        expect((job.code == 1 and not job.out and f"{said} of the command overrides OMPI_MCA_pml" in job.err) if said else
               (job.code == 0 and job.out == " ".join(words) + "\n" and not job.err), f"{words}: {job}")
        expect(mbx("exec", "-f", "--through", way, "echo", *words).out == " ".join(words) + "\n", f"{words}, forced")


def exec_warns_of_a_program_of_another_mpi():
    """The name of the launcher and the libraries in the program's file show it."""
    if mbx("exec", "--print").code != 0:
        return  # nothing is here
    with tempfile.TemporaryDirectory() as where:
        for name, text in (("orterun", "#!/bin/sh\necho ran\n"), ("mpiexec.hydra", "#!/bin/sh\necho ran\n"),
                           ("other", "#!/bin/sh\necho ran\n"), ("of_mpich", "\0libmpich.so.12\0"), ("of_its_abi", "\0libmpi.so.12\0"),
                           ("of_open_mpi", "\0libmpi.so.40\0"), ("of_none", "libmpich.so. libmpich.so libmpi.so.x"),
                           ("far", "x" * 65529 + "libmpich.so.12\0")):
            with open(f"{where}/{name}", "w", encoding="ascii") as file:
                file.write(text)
            os.chmod(file.name, 0o755)
        for launcher, program, said in (("orterun", "of_mpich", "is a program of MPICH"), ("orterun", "of_its_abi", "is a program of MPICH"),
                                        ("orterun", "far", "is a program of MPICH"), ("mpiexec.hydra", "of_open_mpi", "is a program of Open MPI"),
                                        ("orterun", "of_open_mpi", None), ("mpiexec.hydra", "of_mpich", None),
                                        ("mpiexec.hydra", "of_its_abi", None), ("orterun", "of_none", None), ("other", "of_mpich", None)):
            job = mbx("exec", f"{where}/{launcher}", "-n", "2", f"{where}/{program}", "of_mpich")
            expect(job.code == 0 and job.out == "ran\n" and (said in job.err if said else not job.err), f"{launcher} {program}: {job}")


def exec_says_early_that_statistics_would_be_lost():
    if mbx("exec", "--print").code != 0:
        return  # nothing is here
    with tempfile.TemporaryDirectory() as where:
        for file, warns in ((f"{where}/no/stats", True), (f"{where}/stats.%r", False), (f"{where}/%p/stats", False), ("stats", False)):
            job = mbx("exec", "echo", "ran", env={"MBX_STATS_FILE": file})
            expect(job.code == 0 and job.out == "ran\n" and (f"MBX_STATS_FILE={file}: no file can be made" in job.err) == warns, str(job))


def exec_says_where_the_provider_was_sought():
    """A copy of mbx is started."""
    with tempfile.TemporaryDirectory() as where:
        shutil.copy(MBX, where + "/mbx")
        done = subprocess.run([where + "/mbx", "exec", "--print"], text=True, capture_output=True, timeout=PATIENCE_S)
        expect(done.returncode == 1 and done.stderr.count("\n") == 1 and "/libmatchbox-fi.so" in done.stderr and
               "run mbx from the folder" in done.stderr, str(done))


def run_says_that_an_mpi_program_was_many_jobs():
    """The ranks of an MPI program ignore mbx run.  A program that also contains MPI, or only names it, gets no line."""
    program = os.path.join(os.path.dirname(MBX), "../tests/mpi/p2p")
    if not os.path.exists(program):
        return  # built without MPI
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    job = mbx("run", "-n", "2", program, env=root)
    expect(job.err.count("ran as 2 MPI jobs of one rank each; mbx exec mpiexec -n 2") == 1, str(job))
    for words in (["-n", "1", program], ["-n", "2", "/bin/true"], ["-n", "2", MBX, "version"],
                  ["-n", "2", MBX, "perf", "lat", "-i", "100"]):
        job = mbx("run", *words, env=root)
        expect("MPI jobs" not in job.err, str(job))


def exec_warns_of_a_container_of_another_user():
    """A user starts podman run: the ranks are root in the container, unless an option keeps the user's number."""
    if mbx("exec", "--print").code != 0:
        return  # nothing is here
    user = {"user": 65534, "group": 65534} if os.geteuid() == 0 else {}
    for words, warns in ((["echo", "podman", "run", "image", "./program"], True),
                         (["echo", "/usr/bin/podman", "--log-level=info", "run", "--userns=keep-id", "image"], False),
                         (["echo", "podman", "run", "--userns", "keep-id:uid=7", "image"], False),
                         (["echo", "podman", "ps"], False)):
        try:
            done = subprocess.run([MBX, "exec", *words], cwd="/", text=True, capture_output=True, timeout=PATIENCE_S, **user)
        except PermissionError:
            return  # this user may not execute the build
        expect(done.returncode == 0 and done.stdout == " ".join(words[1:]) + "\n" and
               ("--userns=keep-id to podman run" in done.stderr) == warns, f"{words}: {done}")


def exec_names_an_mpich_that_cannot_reach_it():
    """The mpichversion of the launcher's folder shows it; links lead to the launcher."""
    if mbx("exec", "--print").code != 0:
        return  # nothing is here
    with tempfile.TemporaryDirectory() as where:
        launcher = os.path.join(where, "mpiexec")
        os.mkdir(where + "/bin")
        for name, text in (("mpiexec.hydra", "echo ran"),
                           ("mpichversion", "printf 'MPICH Version:\\t4.0\\nMPICH Device:\\t%s\\n' $DEVICE")):
            with open(f"{where}/bin/{name}", "w", encoding="ascii") as file:
                file.write(f"#!/bin/sh\n{text}\n")
            os.chmod(file.name, 0o755)
        os.symlink("bin/mpiexec.hydra", launcher)
        job = mbx("exec", launcher, env={"DEVICE": "ch3:nemesis"})
        expect(job.code == 1 and job.out == "" and "has device ch3:nemesis" in job.err, str(job))
        expect(mbx("exec", "-f", launcher, env={"DEVICE": "ch3:nemesis"}).out == "ran\n", "forced")
        expect(mbx("exec", launcher, env={"DEVICE": "ch4:ofi"}).out == "ran\n", "ch4:ofi")
        for way, device in (("provider", "ch4:ucx"), ("ucp", "ch4:ofi")):
            job = mbx("exec", f"--through={way}", launcher, env={"DEVICE": device})
            expect(job.code == 1 and job.out == "", f"{device} through {way}: {job}")


TESTS = [
    wrong_arguments_are_named, the_word_that_was_meant_is_suggested, help_is_there, help_takes_what_there_is,
    version_says_how_it_was_built, a_full_disk_is_noticed, json_is_json, info_tells_what_the_host_allows,
    values_can_be_pasted, completion_follows_the_commands, info_lists_statistics_and_parameters,
    info_tells_of_the_network_or_why_there_is_none,
    wrong_parameters_are_named, success_is_zero, first_failing_rank_ends_the_job,
    a_rank_that_ignores_the_end_is_killed, programs_that_cannot_run, timeout_ends_the_job,
    processes_that_ranks_leave_are_ended, lines_are_whole_and_labelled,
    errors_are_forwarded_to_errors, nothing_of_the_output_is_lost,
    beginnings_of_lines_are_seen, input_goes_to_rank_0, closed_standard_files_stay_empty,
    ranks_have_no_file_but_the_board, a_reader_that_leaves_ends_the_job,
    a_terminal_is_read_and_interrupts, signals_are_passed_on,
    a_signal_kills_who_does_not_catch_it, a_repeated_signal_kills_who_ignores_it,
    whoever_is_killed_nothing_is_left, after_kill_9_no_rank_is_left,
    devices_end_with_their_ranks,
    perf_prints_what_was_asked_for, perf_measures_between_two_that_no_launcher_started, perf_overlap_measures_every_size,
    computation_takes_its_time, perf_overlap_runs_every_mode_that_is_here,
    messages_that_software_matches_are_fetched, early_advertised_receives_are_written,
    perf_overlap_leaves_nothing, exec_sums_up, exec_sets_what_is_not_set,
    exec_takes_the_component_where_it_can_be_loaded, exec_names_what_would_defeat_it,
    exec_names_what_its_command_would_defeat, exec_warns_of_a_program_of_another_mpi,
    exec_says_early_that_statistics_would_be_lost, exec_says_where_the_provider_was_sought,
    exec_names_an_mpich_that_cannot_reach_it, exec_warns_of_a_container_of_another_user,
    run_says_that_an_mpi_program_was_many_jobs,
]


def main():
    names = sys.argv[2:]
    failures = 0
    for test in TESTS:
        if names and test.__name__ not in names:
            continue
        try:
            test()
            print("ok  ", test.__name__, flush=True)
        except Failed as error:
            failures += 1
            print("FAIL", test.__name__, error, flush=True)
        finally:
            processes.kill_marked(ALL)
    sys.exit(1 if failures else 0)


main()
