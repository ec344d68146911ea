#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""hostile_test.py MBX STUCK_PROGRAM HOSTILE_PAGE HOSTILE_NAMES - root observes its jobs while another user shows pages,
pipes, files with leases, and names of that user's choice: they are left out, cost little, and reach no job and no
terminal.
"""
import ctypes
import html
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "support"))
sys.dont_write_bytecode = True
import stranger  # noqa: E402
import trace_file  # noqa: E402
from patience import PATIENCE_S  # noqa: E402

MBX, STUCK, PAGE, NAMES = (os.path.abspath(path) for path in sys.argv[1:5])
# terminal commands: control characters, also of Latin-1 and in UTF-8
COMMANDS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]")

# In a file system of its own the links of two descriptors have the names of memory files.
LINKS = """
set -e
mount -t tmpfs none "$1"
cd "$1"
mkfifo "memfd:matchbox-inspect" "memfd:matchbox-flight x"
mkdir old
pivot_root . old
exec 8<>"/memfd:matchbox-inspect" 9<>"/memfd:matchbox-flight x"
echo ready
read end
"""


def run(*words, status=None, **more):
    """Returns the output as bytes that are valid UTF-8."""
    done = subprocess.run(words, capture_output=True, timeout=PATIENCE_S, check=False, stdin=subprocess.DEVNULL, **more)
    assert status is None or done.returncode == status, f"{words}: status {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout, done.stderr


def text_of(data, what):
    """May this text be shown?"""
    text = data.decode("utf-8")  # or an exception
    found = COMMANDS.search(text)
    assert found is None, f"{what}: {text[max(found.start() - 40, 0):found.start() + 40]!r}"
    return text


def jobs(*options):
    """Returns the jobs.  Other tests also have jobs here: --job selects one whose number is known."""
    return json.loads(run(MBX, "queues", "--json", "--wait", "200", *options)[0])["jobs"]


def pids(job):
    return sorted(rank["pid"] for rank in job["ranks"])


class Job:
    """Two ranks of root that wait for each other."""

    def __enter__(self):
        self.process = subprocess.Popen([MBX, "run", "-n", "2", STUCK, "tag_differs"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                        text=True, env={**os.environ, "MBX_FLIGHT": "64"})
        self.pids = sorted(int(self.process.stdout.readline().split()[-1]) for _ in range(2))
        self.number = next(job["job"] for job in jobs() if pids(job) == self.pids)
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.stdout.read()
        self.process.stdout.close()
        self.process.wait()


class Programs:
    """Copies that the second user can execute."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="matchbox-hostile-")
        os.chmod(self.folder, 0o755)
        self.page = shutil.copy(PAGE, self.folder)

    def close(self):
        shutil.rmtree(self.folder, ignore_errors=True)

    def show(self, kind, job, rank=0, program=None):
        return stranger.Stranger([program or self.page, kind, job.number, str(rank)])


def a_page_joins_no_job(job, programs):
    """The page claims to be a rank of root's job, whose number is known."""
    for rank in 0, 7:
        with programs.show("silent", job, rank) as enemy:
            assert enemy.line() == "ready"
            assert [pids(found) for found in jobs("--job", job.number)] == [job.pids], "root sees its own ranks alone"
            found = sorted((pids(found) for found in jobs("--job", job.number, "--all-users")), key=len)
            assert found == [[enemy.pid], job.pids], f"{found} of {enemy.pid} and {job.pids}"
            shown = text_of(run(MBX, "queues", "--job", job.number, "--wait", "200", "--all-users")[0], "queues")
            assert f"pid {enemy.pid} of user {stranger.STRANGER} " in shown, shown
            done, _ = run(MBX, "doctor", "--job", job.number, "--wait", "500", "--all-users")
            assert str(enemy.pid) not in text_of(done, "doctor").split("rank 0 (pid", 1)[-1].split("job ")[0], done


def queues_without_an_end_are_left(job, programs):
    with programs.show("walk", job) as enemy:
        assert enemy.line() == "ready"
        assert jobs("--job", job.number)[0]["ranks"], "root's job is seen"
        out, said = run(MBX, "queues", "--job", job.number, "--all-users", "--wait", "100")
        assert f"process {enemy.pid}: its queues take longer to read".encode() in said, said
        assert f"pid {job.pids[0]} ".encode() in out, out


def a_lease_is_not_waited_for(job, programs):
    """Root does not open the page at all; with --all-users, it does not wait until the lease is broken."""
    with programs.show("lease", job, 5) as enemy:
        if enemy.line() == "no lease":
            print("a lease is not tried: memory files have no leases here (EINVAL)")
            return
        for options in [], ["--all-users"]:
            found = [pids(found) for found in jobs("--job", job.number, *options)]
            assert found == [job.pids], found


def many_pages_are_not_all_read(job, programs):
    with programs.show("many", job) as enemy:
        assert enemy.line() == "ready"
        seen = [pid for found in jobs("--job", job.number, "--all-users") for pid in pids(found) if pid == enemy.pid]
        assert len(seen) == 1024, len(seen)


def why_no_lines():
    """Why mbx can show no line of a program here, or None."""
    if b"libdw yes" not in run(MBX, "--version", status=0)[0]:
        return "mbx is built without libdw"
    with open(PAGE, "rb") as file:
        if b".debug_line" not in file.read():
            return "hostile_page is built without debug information"
    try:
        ctypes.CDLL("libdw.so.1")
    except OSError as error:
        return f"mbx cannot load libdw: {error}"
    return None


def a_file_that_blocks_is_left(job, programs):
    """A line of a program of the second user is shown, unless its debug information is a pipe."""
    reason = why_no_lines()
    if reason is not None:
        print(f"a pipe instead of debug information is not tried: {reason}")
        return
    debug, blocking = (os.path.join(programs.folder, name) for name in ("debug", "blocking"))
    queues = [MBX, "queues", "--job", job.number, "--all-users", "--details", "--wait", "60000"]
    with programs.show("line", job) as enemy:
        assert enemy.line() == "ready"
        # mbx reads files of other users for 5 s in all, which a busy machine may need for something else
        until = time.monotonic() + PATIENCE_S
        while "in MPI_Recv at hostile_page.c:" not in (shown := text_of(run(*queues)[0], "queues")):
            assert time.monotonic() < until, f"the line of {enemy.pid} is never shown:\n{shown}"
    if shutil.which("objcopy") is None:
        print("a pipe instead of debug information is not tried: objcopy is missing")
        return
    with open(debug, "wb") as file:
        file.write(b"here")
    subprocess.run(["objcopy", "--strip-debug", f"--add-gnu-debuglink={debug}", programs.page, blocking], check=True)
    os.remove(debug)
    os.mkfifo(debug, 0o666)
    with programs.show("line", job, 0, blocking) as enemy:
        assert enemy.line() == "ready"
        shown = text_of(run(*queues)[0], "queues")
        assert "in MPI_Recv" in shown and "in MPI_Recv at" not in shown, shown
        shown = text_of(run(MBX, "doctor", "--job", job.number, "--all-users", "--verbose", "--wait", "60000")[0], "doctor")
        assert f"(pid {enemy.pid} of user {stranger.STRANGER}): no line of its program: the files of other users'" in shown, shown


def a_later_table_has_the_line(job, programs):
    """Each table of mbx top has its own time for the second user's files: the debug information is a pipe at first."""
    debug, blocking = (os.path.join(programs.folder, name) for name in ("late_debug", "late_blocking"))
    reason = why_no_lines() or (None if shutil.which("objcopy") else "objcopy is missing")
    if reason is not None:
        print(f"a later table is not tried: {reason}")
        return
    subprocess.run(["objcopy", "--only-keep-debug", programs.page, debug], check=True)
    subprocess.run(["objcopy", "--strip-debug", f"--add-gnu-debuglink={debug}", programs.page, blocking], check=True)
    os.rename(debug, debug + ".real")
    os.mkfifo(debug, 0o666)
    with programs.show("line", job, 0, blocking) as enemy:
        assert enemy.line() == "ready"
        top = subprocess.Popen([MBX, "top", "--all-users", "--plain", "--interval", "500ms", "--job", job.number], stdout=subprocess.PIPE, text=True)
        try:
            for line in top.stdout:
                if " MPI_Recv from " in line and os.path.exists(debug + ".real"):  # without a line of the program
                    os.rename(debug + ".real", debug)
                elif " MPI_Recv at hostile_page.c:" in line:
                    return
            raise AssertionError("mbx top has ended")
        finally:
            top.kill()
            top.stdout.close()
            top.wait()


def links_are_not_believed(job, _):
    """Pipes whose links have the names of a page and of a recording."""
    folder = tempfile.mkdtemp(prefix="matchbox-links-")
    os.chmod(folder, 0o777)
    try:
        tried = subprocess.run(["unshare", "-Urm", "true"], check=False, capture_output=True, text=True, **stranger.as_user(stranger.STRANGER))
        if tried.returncode:
            print(f"links are not tried: the second user can make no file system here: {tried.stderr.strip()}")
            return
        with stranger.Stranger(["unshare", "-Urm", "bash", "-c", LINKS, "x", folder]) as enemy:
            assert enemy.line() == "ready"
            links = [os.readlink(f"/proc/{enemy.pid}/fd/{number}") for number in (8, 9)]
            assert links == ["/memfd:matchbox-inspect", "/memfd:matchbox-flight x"], links
            assert [pids(found) for found in jobs("--job", job.number, "--all-users")] == [job.pids]
            _, said = run(MBX, "trace", "--flight", str(enemy.pid), status=1)
            assert b"keeps no events in memory" in said, said
            out, _ = run(MBX, "trace", "--flight")
            seen = [int(pid) for pid in re.findall(rb": process (\d+),", out)]
            assert set(job.pids) <= set(seen) and enemy.pid not in seen, seen
    finally:
        os.rmdir(folder)


def pages_speak_no_commands(job, programs):
    with programs.show("names", job) as enemy:
        assert enemy.line() == "ready"
        for options in ["--stats"], ["--json", "--stats"], ["--json", "--details"]:
            for said in run(MBX, "queues", "--job", job.number, "--all-users", "--wait", "60000", *options):
                text_of(said, f"queues {options}")


def the_report_goes_into_no_link(job, _):
    """The report goes into matchbox-hang-JOB.txt in the folder of a rank."""
    with tempfile.TemporaryDirectory() as folder:
        report, victim = os.path.join(folder, f"matchbox-hang-{job.number}.txt"), os.path.join(folder, "victim")
        with open(victim, "w", encoding="utf-8") as file:
            file.write("mine\n")
        for make in os.symlink, os.link, None:
            if make is not None:
                make(victim, report)
            else:
                with open(report, "w", encoding="utf-8") as file:
                    file.write("before\n")
            said = report_of(job, folder)
            with open(victim, encoding="utf-8") as file:
                assert file.read() == "mine\n", make
            assert ("cannot write" in said) == (make is not None), said
            if make is None:
                with open(report, encoding="utf-8") as file:
                    text = file.read()
                assert text.startswith("before\n") and "MBX_HANG" in text, "reports are added"
            os.remove(report)


def report_of(job, folder):
    """Returns the output of a watchdog of the job until its report has ended."""
    words = [MBX, "doctor", "--from-watchdog", str(job.pids[0]), "--job", job.number, "--hang", "1000"]
    watchdog = subprocess.Popen(["bash", "-c", 'exec "$@" 3>/dev/null', "x", *words], cwd=folder, stderr=subprocess.PIPE, text=True)
    said = ""
    try:
        for line in watchdog.stderr:
            said += line
            if "cycle" in line:
                return said
    finally:
        watchdog.kill()
        watchdog.wait()
        watchdog.stderr.close()
    raise AssertionError(f"no report: {said}")


def names_are_text(folder):
    """The names of our own program in its log, its statistics, its trace, and the output made from the trace."""
    stats = os.path.join(folder, "stats")
    env = {**os.environ, "MBX_TRACE": folder, "MBX_STATS_FILE": stats, "MBX_LOG_LEVEL": "info"}
    with subprocess.Popen([MBX, "run", "-n", "1", NAMES], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env) as job:
        ready, pid = job.stdout.readline().split()
        assert ready == b"ready"
        number = next(found["job"] for found in jobs() if int(pid) in pids(found))
        for options in [], ["--stats"], ["--json"]:
            text = text_of(run(MBX, "queues", "--job", number, "--wait", "60000", *options)[0], f"queues {options}")
            assert "grüß" in text, text
        said = job.communicate()[1]
        assert job.returncode == 0, said
    assert b"over Matchbox" in said, said
    text_of(said, "the log")
    with open(stats, "rb") as file:
        assert "grüß" in text_of(file.read(), "the statistics")
    return [os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".trace")]


def hostile_trace(folder):
    """A trace with names that no recorder of ours writes; one ends within a character, and one before its last part."""
    path = os.path.join(folder, "made.trace")
    names = [b"\x1b[2J", b"\xc2\x9b31m", b"\x9b31m raw", b"\xff\xfe", b"a\nb", b"</script>'\"", b"\xe2\x80\xae", b"; forged #59;", b"x\xe6\xb1",
             b"23 bytes before, then \xe6\xb1\xba"]
    events = []
    for number, name in enumerate(names):
        events += trace_file.text(trace_file.NAME, name, 5 + number, 1)
        events += [(trace_file.SEND, 5 + number, 0, 7, 10, number + 1, 0), (trace_file.SENT, 5 + number, 0, 7, 1, 0, number + 1),
                   (trace_file.ARRIVE, 5 + number, 0, 7, 0, number + 1, 0)]
    events += trace_file.text(trace_file.NAME, b"cut \x9b " * 8, 99, 1)[:1]
    with open(path, "wb") as file:
        file.write(trace_file.trace(*trace_file.text(trace_file.PROGRAM, "component Open MPI v4.1.4"), *events,
                                    (trace_file.CLOSE, 0, 0, 0, 0, 0, 0)))
    return [path]


def traces_are_text(folder, paths):
    page = os.path.join(folder, "page.html")
    for options in [], ["--summary"], ["--chart", "mermaid"], ["--chart", "svg"], ["--html", page]:
        out, said = run(MBX, "trace", *options, *paths)
        text = text_of(out, f"trace {options}")
        text_of(said, f"trace {options}, errors")
        if options == ["--chart", "mermaid"]:
            for line in text.splitlines():
                words = line.split(": ", 1)[-1]
                assert re.search(r";|[<>\"]|#(?!\d+;)", re.sub(r"#\d+;", "", words)) is None or line.lstrip().startswith("r"), line
    with open(page, "rb") as file:
        text = text_of(file.read().replace(b"\r", b""), "the page")
    assert "<script>alert" not in text and "<img src=x" not in text
    assert "alert(1)" not in html.unescape(re.sub(r"<[^>]*>", "", text)) or "&#60;script" in text or "u003c" in text


def main():
    stranger.needed()
    programs = Programs()
    try:
        with Job() as job:
            for check in (a_page_joins_no_job, queues_without_an_end_are_left, a_lease_is_not_waited_for, many_pages_are_not_all_read, a_file_that_blocks_is_left,
                          a_later_table_has_the_line,
                          links_are_not_believed, pages_speak_no_commands, the_report_goes_into_no_link):
                check(job, programs)
                print(check.__name__, flush=True)
    finally:
        programs.close()
    with tempfile.TemporaryDirectory() as folder:
        traces_are_text(folder, names_are_text(folder))
    with tempfile.TemporaryDirectory() as folder:
        traces_are_text(folder, hostile_trace(folder))
    print("names are text")


main()
