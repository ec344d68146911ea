#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""verbs_tools_test.py MBX PRELOAD [ADAPTER] - what `mbx info` and the stock ibv_devinfo say of the fake, and of the
software adapter, the library ADAPTER.

Skipped as far as ibv_devinfo is not installed (Debian: ibverbs-utils).
"""
import os
import re
import shutil
import subprocess
import sys

MBX, PRELOAD = os.path.abspath(sys.argv[1]), sys.argv[2]
ADAPTER = sys.argv[3] if len(sys.argv) > 3 else None
SKIPPED = 77


def output(*command, **environment):
    result = subprocess.run(command, env={**os.environ, **environment}, text=True,
                            capture_output=True, timeout=120)
    if result.returncode != 0:
        sys.exit(f"{command}: exit {result.returncode}\n{result.stdout}{result.stderr}")
    return result.stdout


def expect(condition, what, text):
    if not condition:
        sys.exit(f"{what} is not in:\n{text}")


def verbs_line(**environment):
    """The one line of `mbx info --devices` about verbs."""
    text = output(MBX, "info", "--devices", **environment)
    lines = [line.strip() for line in text.splitlines() if line.split()[:1] == ["verbs:"]]
    expect(len(lines) == 1, "one line about verbs", text)
    return lines[0]


def info_says_what_there_is():
    for environment, line in [
            ({}, "verbs: available (fake0: max_num_tags 127)"),
            ({"FAKE_VERBS_TAGS": "0"},
             "verbs: no device matches tags in hardware (fake0: max_num_tags 0)"),
            ({"FAKE_VERBS_DEVICES": "0"}, "verbs: libibverbs finds no device")]:
        said = verbs_line(LD_PRELOAD=PRELOAD, **environment)
        expect(said == line, line, said)


def info_says_what_another_library_has():
    said = verbs_line(MBX_VERBS_LIBRARY="/no/such/library.so")
    expect(said.startswith("verbs: libibverbs cannot be loaded: /no/such/library.so"), "the name", said)
    said = verbs_line(MBX_VERBS_LIBRARY="libc.so.6")
    expect(said.startswith("verbs: libc.so.6 lacks ibv_"), "what is missing", said)
    if ADAPTER is not None:
        said = verbs_line(MBX_VERBS_LIBRARY=ADAPTER)
        expect(said == "verbs: available (mbx0: max_num_tags 127)", "the software adapter", said)


def info_runs_on_without_the_fake():
    """Whatever this machine has, and without options too: that opens the network, whose provider for
    verbs knows adapters that no fake is like."""
    said = verbs_line(LD_PRELOAD="")
    everything = output(MBX, "info", LD_PRELOAD="")
    expect(said in map(str.strip, everything.splitlines()), said, everything)
    expect(re.match(r"verbs: (available|no device|libibverbs finds no device)", said),
           "what this machine has", said)


def devinfo_shows_that_it_matches_tags():
    for environment, lines in [
            ({}, [r"hca_id:\s+fake0", r"max_rndv_hdr_size:\s+64", r"max_num_tags:\s+127",
                  r"max_ops:\s+4096"]),
            ({"FAKE_VERBS_TAGS": "0"}, [r"hca_id:\s+fake0", "tag matching not supported"])]:
        text = output("ibv_devinfo", "-v", LD_PRELOAD=PRELOAD, **environment)
        for line in lines:
            expect(re.search(rf"^\s*{line}$", text, re.MULTILINE), line, text)


info_says_what_there_is()
info_says_what_another_library_has()
info_runs_on_without_the_fake()
if shutil.which("ibv_devinfo") is None:
    print("skipped: ibv_devinfo is not installed (Debian: ibverbs-utils)")
    sys.exit(SKIPPED)
devinfo_shows_that_it_matches_tags()
