#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""demo_test.py BUILD_DIR [NAME...] - ./dev demo in its short form, what it prints, and its end.

Its times mean nothing here, because builds for tests check everything.
"""
import os
import re
import signal
import subprocess
import sys
import shutil
import xml.etree.ElementTree

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from patience import PATIENCE_S  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.dont_write_bytecode = True
sys.path.append(os.path.join(ROOT, "scripts/run"))
import demo_page  # noqa: E402
import demo_rounds  # noqa: E402

DEMO = os.path.join(ROOT, "scripts/run/demo")
BUILD = os.path.abspath(sys.argv[1])


class Failed(Exception):
    pass


def expect(condition, text):
    if not condition:
        raise Failed(text)


def pictures(text):
    """Returns the SVGs of a page; each is well-formed XML."""
    found = re.findall(r"<svg .*?</svg>", text, re.S)
    for picture in found:
        xml.etree.ElementTree.fromstring(picture)
    return found


def measured(values):
    """Makes Rounds with these values of {(case, engine): [...]} instead of measured ones; 2 for all others."""
    rounds = object.__new__(demo_rounds.Rounds)
    rounds.cases, rounds.engines, rounds.count = demo_rounds.CASES, ["matchbox", "ob1"], 2
    rounds.busy, rounds.line_ns = [0.01], 30.0
    rounds.values = {(case.key, engine): [2.0, 2.0] for case in rounds.cases for engine in rounds.engines}
    rounds.values.update(values)
    return rounds


def test_variation_and_disturbance_are_marked():
    rounds = measured({("latency", "ob1"): [1.0, 1.6], ("rate", "ob1"): [1.0, 1.4]})
    by_key = {case.key: case for case in rounds.cases}
    expect(rounds.is_unsteady(by_key["latency"]) and not rounds.is_unsteady(by_key["rate"]), "spread")
    expect(rounds.best(by_key["latency"], "ob1") == 1.0 and rounds.best(by_key["rate"], "ob1") == 1.4, "best")
    expect(rounds.remarks() == [], f"a quiet machine: {rounds.remarks()}")
    rounds.busy.append(0.5)
    expect("busy: others took 50%" in rounds.remarks()[0], f"busy: {rounds.remarks()}")
    rounds.busy, rounds.line_ns = [0.0], 150.0
    expect("cache line takes 150 ns" in rounds.remarks()[0], f"far: {rounds.remarks()}")


def test_the_page_has_a_picture_for_each_question():
    rounds = measured({("depth-exact-10000", "ob1"): [], ("flood", "ob1"): [0.0]})
    text = demo_page.page(rounds, demo_rounds.NAMES, [["a", "<b>"]], [], "rank 0 <waits>", "about=machine")
    expect(len(pictures(text)) == 7, "pictures")
    expect("&lt;b&gt;" in text and "rank 0 &lt;waits&gt;" in text, "text is not escaped")


def test_a_short_demonstration():
    done = subprocess.run([DEMO, "--quick", BUILD], text=True, stdin=subprocess.DEVNULL, capture_output=True,
                          timeout=PATIENCE_S)
    expect(done.returncode == 0, f"exit code {done.returncode}\n{done.stdout}{done.stderr}")
    for text in ("NetPIPE, 0", "8 B, 10,000 ANY_SOURCE receives posted", "receiver grows", "points",
                 "it waits for tag 7 on MPI_COMM_WORLD from 1", "the tag differs", "over ob1 printed nothing",
                 "All programs finished with correct results", "demo/index.html"):
        expect(text in done.stdout, f"'{text}' is missing:\n{done.stdout}")
    with open(os.path.join(BUILD, "demo/index.html"), encoding="utf-8") as file:
        expect(len(pictures(file.read())) == 7, "pictures of the page")


def test_ctrl_c_ends_it():
    with subprocess.Popen([DEMO, "--quick", BUILD], text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, start_new_session=True) as process:
        for line in process.stdout:
            if "NetPIPE" in line:
                break
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE_S)
    expect(process.returncode == 130 and err.strip() == "demo: interrupted",
           f"exit code {process.returncode}\n{out}{err}")


def test_wrong_arguments_are_named():
    for words, text in ((["--frob"], "'--frob'"), ([BUILD, "more"], "'more'"), (["/nowhere"], "'/nowhere'")):
        done = subprocess.run([DEMO, *words], text=True, capture_output=True, timeout=PATIENCE_S)
        expect(done.returncode == 2 and text in done.stderr, f"{words}: {done.returncode}\n{done.stderr}")


TESTS = {name[5:]: function for name, function in list(globals().items()) if name.startswith("test_")}


def main(names):
    if shutil.which("mpiexec") is None or shutil.which("NPopenmpi") is None or \
            not os.path.exists(os.path.join(BUILD, "bench/mpi_pt2pt")):
        print("skipped: no mpiexec, no NetPIPE, or built without MPI")
        return 77
    failed = 0
    for name in names or TESTS:
        try:
            TESTS[name]()
            print(f"ok {name}", flush=True)
        except (Failed, subprocess.TimeoutExpired) as reason:
            failed += 1
            print(f"FAILED {name}: {reason}", flush=True)
    return failed != 0


sys.exit(main(sys.argv[2:]))
