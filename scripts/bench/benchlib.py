# SPDX-License-Identifier: BSD-3-Clause
"""Common functions of the benchmark scripts: lines of key=value, properties of the machine, and
programs that run with a limit."""
import datetime
import os
import platform
import re
import signal
import subprocess
import sys

sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.append(os.path.join(ROOT, "scripts/run"))
from proglib import OB1, UCX, end_group, environment  # noqa: E402, F401

# The colours of every picture: Matchbox is always the same red, and its forms differ by their lines.
RED = "#c62828"
COLORS = {"matchbox": RED, "native": RED, "ob1": "#1565c0", "ucx": "#2e7d32", "mpich": "#6a4c93"}


def one_word(text):
    return re.sub(r"\s+", "_", text.strip()) or "unknown"


def machine():
    """The properties of the machine on which the numbers depend, without its name."""
    model = "unknown"
    with open("/proc/cpuinfo") as lines:
        for line in lines:
            if line.startswith(("model name", "Processor", "CPU part")):
                model = line.split(":", 1)[1]
                break
    yield (f"about=machine cpu={one_word(model)} cores={os.cpu_count()} "
           f"kernel={one_word(platform.release())} machine={platform.machine()} "
           f"load={os.getloadavg()[0]:.2f}")
    yield f"about=run date={datetime.date.today().isoformat()} commit={commit()}"
    for name, command in (("ucx", ["pkg-config", "--modversion", "ucx"]),
                          ("open-mpi", ["mpiexec", "--version"]),
                          ("mpich", ["mpichversion"])):
        yield f"about=peer name={name} version={version(command)}"


def output_of(command):
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=ROOT)
    except OSError:
        return ""
    return done.stdout if done.returncode == 0 else ""


def commit():
    changed = "+changes" if output_of(["git", "status", "--porcelain", "-uno"]).strip() else ""
    return one_word(output_of(["git", "rev-parse", "--short=12", "HEAD"])) + changed


def version(command):
    found = re.search(r"\d+(\.\d+)+\w*", output_of(command))
    return found.group(0) if found else "absent"


def numbers(text, most):
    """The numbers in a list like 8,64,1024, each from 1 to most; None if it is no such list."""
    words = text.split(",")
    if not all(re.fullmatch("[0-9]{1,9}", n) and 1 <= int(n) <= most for n in words):
        return None
    return [int(n) for n in words]


class Sink:
    """Lines go to the terminal and to the file as they come."""

    def __init__(self, folder, name):
        os.makedirs(folder, exist_ok=True)
        self.file = open(os.path.join(folder, name), "w")

    def put(self, line):
        print(line, flush=True)
        self.file.write(line + "\n")
        self.file.flush()


def is_line(text):
    return re.match(r"\w+=\S+( \w+=\S+)*$", text) is not None


def as_dict(line):
    return dict(word.split("=", 1) for word in line.split())


def run_limited(who, command, limit_s, env=None):
    """The lines of one run, or None if it was too slow.  who speaks if it fails."""
    lines, has_ended = run_until(who, command, limit_s, env)
    return lines if has_ended else None


def whole_lines(text):
    return [line for line in text[:text.rfind("\n") + 1].splitlines() if is_line(line)]


def run_until(who, command, limit_s, env=None):
    """(the lines that one run has printed in this time, has it ended by itself?)"""
    interrupts = []
    # an interrupt during Popen() would leave a process whose id is unknown
    usual = signal.signal(signal.SIGINT, lambda *_: interrupts.append(True))
    try:
        process = subprocess.Popen(command, env=dict(environment("", ""), **(env or {})),
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, start_new_session=True)
    except OSError as error:
        signal.signal(signal.SIGINT, usual)
        sys.exit(f"{who}: {command[0]}: {error.strerror}")
    except BaseException:
        signal.signal(signal.SIGINT, usual)
        raise
    try:
        signal.signal(signal.SIGINT, usual)
        if interrupts:
            raise KeyboardInterrupt
        out, errors = process.communicate(timeout=limit_s)
    except BaseException as end:
        out = end_group(process)
        if isinstance(end, subprocess.TimeoutExpired):
            return whole_lines(out), False
        raise
    if process.returncode != 0:
        sys.exit(f"{who}: {' '.join(command)} ended with status {process.returncode}:\n"
                 f"{out}{errors}")
    return whole_lines(out), True
