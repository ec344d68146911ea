#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""languages_test.py BUILD [NAME...] - `mbx doctor`, `mbx queues` and MBX_HANG show the line of a Python or Fortran program that waits.

The programs are stuck_python.py, with each Python that is installed, and stuck_fortran.F90.  Two jobs run at a time, because
most of the time of a job is its start.  A NAME selects the jobs with this word in their names.
"""
import concurrent.futures
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "../support"))
from looks import looks  # noqa: E402

MBX = os.path.join(os.path.abspath(sys.argv[1]), "tools", "mbx")
PYTHON, FORTRAN = (os.path.join(HERE, name) for name in ("stuck_python.py", "stuck_fortran.F90"))
KNOWN = range(11, 15)  # the versions 3.11 to 3.14
FIRST = 7  # older ones have no _PyRuntime
# pattern: the function; the place, if it is not a line of stuck_python.py with the name of the pattern
PATTERNS = {"plain": ("exchange", None), "several_lines": ("several_lines", None),
            "backwards": ("backwards", None), "deep": ("<lambda>", None), "recursive": ("recursive", None),
            "worker": ("exchange", None), "thread_of_c": ("run", "threading.py:NUMBER"), "long": ("long", "long.py:6002"), "names": ("prüfe", "größe-λ-😀-?[2J.py:4"), "modules": ("modules", None)}
LINE = re.compile(r"^rank (\d) \(pid \d+\) (?:is|waits) in (MPI_\w+) at (.+?)(?:, for \d+ s)?(?:: .*)?$", re.M)
# an extension with debug information
EXTENSION = """#include <mpi.h>
void exchange(void)
{
    int rank, value;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Recv(&value, 1, MPI_INT, 1 - rank, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    value++;
}
"""
# a version that is not known has no line, and a reason
REASON = re.compile(r"^rank (\d) \(pid \d+\): no Python line: (.*)$", re.M)


def line_with(path, words):
    with open(path, encoding="utf-8") as file:
        return next(number for number, line in enumerate(file, 1) if words in line)


def place(pattern):
    function, where = PATTERNS[pattern]
    if where is None:
        where = f"stuck_python.py:{line_with(PYTHON, '# ' + pattern + chr(10))}"
    return f"{where} in {function}"


class Job:
    def __init__(self, words, **more):
        env = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", **more)
        self.folder = tempfile.TemporaryDirectory()
        self.process = subprocess.Popen([MBX, "exec", "mpiexec", "--oversubscribe", "-n", "2", *words], stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, env=env, start_new_session=True, text=True, cwd=self.folder.name)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)
        self.process.stdout.read()
        self.process.stdout.close()
        self.process.wait()
        self.folder.cleanup()

    def look(self, *words):
        """Returns the output of mbx about this job."""
        assert self.process.poll() is None, f"the job has ended: {self.process.stdout.read()}"
        return subprocess.run([MBX, *words, "--job", str(self.process.pid)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                              check=False).stdout

    def said(self, pattern):
        """Returns the matches of this expression in the report of the doctor, once both ranks have one."""
        text = ""
        for _ in looks():
            text = self.look("doctor", "--verbose")
            found = pattern.findall(text)
            if {match[0] for match in found} == {"0", "1"}:
                return found
        raise AssertionError(text)


def shows(words, expected):
    with Job(words) as job:
        for rank, call, line in job.said(LINE):
            assert re.sub(r"(threading\.py):\d+", r"\1:NUMBER", line) == expected, f"rank {rank} is in {call} at {line}, and not at {expected}"


def gives_a_reason(words, version):
    with Job(words) as job:
        assert {reason for _, reason in job.said(REASON)} <= {f"version {version} is unknown", "a version before 3.11 is unknown"}


def queues_show_it(words, expected):
    with Job(words) as job:
        job.said(LINE)
        text = job.look("queues", "--details")
        assert len(re.findall(rf"in MPI_Recv at {re.escape(expected)}(?:,|$)", text, re.M)) == 2, text
        ranks = json.loads(job.look("queues", "--json", "--details"))["jobs"][0]["ranks"]
        assert [rank["line"] for rank in ranks] == [expected] * 2, ranks


def hang_shows_it(words, expected):
    said = ""
    with Job(words, MBX_HANG="500ms") as job:
        for line in job.process.stdout:
            said += line
            if line.startswith("cycle: "):
                break
        assert len(re.findall(rf"is in MPI_Recv at {re.escape(expected)}(?:,|$)", said, re.M)) == 2, said


def fortran(folder, module, *options):
    program = os.path.join(folder, module)
    subprocess.run(["mpifort", "-g", *options, "-o", program, FORTRAN], check=True)
    shows([program], f"stuck_fortran.F90:{line_with(FORTRAN, 'call MPI_Recv')}")


def extension(folder, name, program, expected):
    """name: of a folder for the extension"""
    library = os.path.join(folder, name, "libfield.so")
    os.makedirs(os.path.dirname(library))
    with open(os.path.join(folder, name, "field.c"), "w", encoding="utf-8") as file:
        file.write(EXTENSION)
    subprocess.run(["mpicc", "-g", "-shared", "-fPIC", "-o", library, file.name], check=True)
    shows([program, PYTHON, "ctypes", "extension", library], expected)


def pythons():
    """{version: program} of the Pythons that are installed."""
    found = {}
    of_pyenv = sorted(glob.glob(os.path.expanduser("~/.pyenv/versions/3.*/bin/python3")))
    for name in ["python3", "/usr/bin/python3", *(f"python3.{minor}" for minor in range(FIRST, 20)), *of_pyenv]:
        try:
            done = subprocess.run([name, "-c", "import platform, sys; print(platform.python_version(), sys.executable)"], capture_output=True,
                                  text=True, check=True)
        except (OSError, subprocess.CalledProcessError):
            continue
        version, program = done.stdout.split(" ", 1)
        if int(version.split(".")[1]) >= FIRST:
            found.setdefault(version, program.strip())
    return found


def scenes(folder):
    """{name: (function, arguments)}"""
    all_scenes = {}
    has_mpi4py = known = None
    for version, program in pythons().items():
        if subprocess.run([program, "-c", "import mpi4py"], capture_output=True, check=False).returncode == 0:
            has_mpi4py = program
        if int(version.split(".")[1]) not in KNOWN:
            all_scenes[f"{version} plain"] = (gives_a_reason, [program, PYTHON, "ctypes", "plain"], version)
            continue
        known = program
        for pattern in PATTERNS:
            if pattern != "modules":
                all_scenes[f"{version} {pattern}"] = (shows, [program, PYTHON, "ctypes", pattern], place(pattern))
    if has_mpi4py:
        words = [has_mpi4py, PYTHON, "mpi4py"]
        for pattern in ("plain", "worker", "modules"):
            all_scenes[f"mpi4py {pattern}"] = (shows, [*words, pattern], place(pattern))
        all_scenes["mpi4py-multiple plain"] = (shows, [has_mpi4py, PYTHON, "mpi4py-multiple", "plain"], place("plain"))
        all_scenes["mpi4py queues"] = (queues_show_it, [*words, "plain"], place("plain"))
        all_scenes["mpi4py hang"] = (hang_shows_it, [*words, "plain"], place("plain"))
    else:
        print("without mpi4py, its programs are left out")
    has_libdw = "libdw yes" in subprocess.run([MBX, "version"], capture_output=True, text=True, check=True).stdout
    if shutil.which("mpifort") and has_libdw:
        all_scenes["fortran mpi"] = (fortran, folder, "mpi")
        all_scenes["fortran mpi_f08"] = (fortran, folder, "mpi_f08", "-DF08")
    else:
        print("without mpifort or libdw, Fortran is left out")
    if known and shutil.which("mpicc") and has_libdw:
        python = f"stuck_python.py:{line_with(PYTHON, '# extension')} in extension"
        all_scenes["extension"] = (extension, folder, "other", known, f"field.c:6, from {python}")
        all_scenes["extension in mpi4py's folder"] = (extension, folder, "mpi4py", known, python)
    return all_scenes


def main():
    failures = 0
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(2) as pool:
        running = {name: pool.submit(*scene) for name, scene in scenes(folder).items()
                   if not sys.argv[2:] or any(word in name for word in sys.argv[2:])}
        for name, future in running.items():
            error = future.exception()
            failures += error is not None
            print(f"FAIL {name}: {error!r}" if error else name, flush=True)
    print(f"languages_test: {len(running)} jobs, {failures} failures")
    return failures != 0


sys.exit(main())
