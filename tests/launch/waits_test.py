#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""waits_test.py MBX WAITS_PROGRAM - `mbx trace` says who waited for whom, to 5 %, where it is known by construction;
and its page of a job is one file that shows that.

Time is virtual (waits_program.c), so no load of the machine has a part in it.
"""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

MBX, PROGRAM = (os.path.abspath(path) for path in sys.argv[1:3])
LINE = re.compile(r"^endpoint \d+-(\d+) waited ([0-9.]+) of ([0-9.]+) s for endpoint \d+-(\d+) \((\d+) times?\): (.*), "
                  r"MPI_COMM_WORLD (.*)$")
# story: [(who waits, seconds, for whom, what, in what)]
STORIES = {
    "sender": [(0, 0.4, 1, "late sender", "tag 7")],
    "receiver": [(1, 0.6, 0, "late receiver", "tag 8")],
    "barrier": [(rank, 0.2, 3, "came last", "barrier") for rank in range(3)],
    "balanced": [],
}
failures = []


def mbx(*arguments):
    return subprocess.run([MBX, "trace", *arguments], capture_output=True, text=True, timeout=120)


def check_waits(story, output):
    found = []
    for line in output.splitlines():
        if " for " not in line or " waited " not in line:
            continue
        match = LINE.match(line)
        if match is None:
            failures.append(f"{story}: {line!r}")
            continue
        who, seconds, _, guilty, times, what, where = match.groups()
        found.append((int(who), int(guilty), what, where, float(seconds), int(times)))
    for who, seconds, guilty, what, where in STORIES[story]:
        same = [f for f in found if f[:4] == (who, guilty, what, where)]
        if len(same) != 1 or abs(same[0][4] - seconds) > 0.05 * seconds or same[0][5] != 20:
            failures.append(f"{story}: rank {who} waits {seconds} s for {guilty}, {what}; found {found}")
    if len(found) != len(STORIES[story]):
        failures.append(f"{story}: {len(found)} are accused: {found}")


def check_page(story, page, messages):
    """It asks nobody, and has its summary without a script; a browser draws it without an error."""
    with open(page, encoding="utf-8") as file:
        text = file.read()
    body = text[:text.index("<script>")]
    if re.search(r"(src|href)\s*=|url\(|@import|https?:", text):
        failures.append(f"{story}: the page names something outside of it")
    for who, _, guilty, what, _ in STORIES[story]:
        if not re.search(rf"-{who} waited [0-9.]+ of [0-9.]+ s for endpoint \d+-{guilty} .*{what}", body):
            failures.append(f"{story}: without a script the page does not say that {who} waited for {guilty}")
    if "k0" not in body or "<svg" not in body:
        failures.append(f"{story}: no picture without a script")
    browser = shutil.which("chromium")
    if browser is None:
        return
    with tempfile.TemporaryDirectory() as data:
        done = subprocess.run(
            [browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
             "--disable-background-networking", "--disable-component-update", "--disable-sync",
             f"--user-data-dir={data}", "--dump-dom", f"file://{page}"],
            capture_output=True, text=True, timeout=120)
    root = re.search(r"<html[^>]*>", done.stdout)
    root = root.group(0) if root else done.stderr[-500:]
    if 'data-ready="1"' not in root or "data-error" in root or f'data-messages="{messages}"' not in root:
        failures.append(f"{story}: in a browser: {root}")


def check_hostile_names(folder):
    """A name that a program has given gets into the page as text."""
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import trace_file as file
    path, page = os.path.join(folder, "a.trace"), os.path.join(folder, "a.html")
    name = "</script><script>document.title=1//\"'\\"
    with open(path, "wb") as out:
        out.write(file.trace(*file.text(file.PROGRAM, "component Open MPI v4.1.4"), *file.text(file.NAME, name, 3, 2),
                             (file.SEND, 3, 0, 7, 10, 1, 0), (file.SENT, 3, 0, 7, 1, 0, 1), (file.WAIT, 0, 0, 0, 10, 1, 0)))
    done = mbx("--html", page, path)
    with open(page, encoding="utf-8") as out:
        text = out.read()
    if done.returncode != 1 or "without a close" not in done.stderr or "<script>document" in text:
        failures.append(f"hostile name: {done.returncode} {done.stderr}")
    for said in "without a close", "the traces of 1 of them were read", "whose arrival is in no trace":
        if said not in text[:text.index("<script>")]:
            failures.append(f"an incomplete job: the page does not say {said!r}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        check_hostile_names(folder)
    for story in STORIES:
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([PROGRAM, folder, story], check=True, timeout=120)
            traces = glob.glob(os.path.join(folder, "*.trace"))
            done = mbx("--summary", *traces)
            if done.returncode != 0:
                failures.append(f"{story}: {done.stderr}")
            check_waits(story, done.stdout)
            page = os.path.join(folder, "job.html")
            done = mbx("--html", page, *traces)
            if done.returncode != 0 or done.stderr:
                failures.append(f"{story}: --html: {done.stderr}")
            check_page(story, page, 160 if len(traces) == 4 else 20)
    for failure in failures:
        print("FAIL", failure)
    print(f"waits_test: {len(failures)} failures")
    return 1 if failures else 0


sys.exit(main())
