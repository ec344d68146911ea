#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""verbs_tools_test.py MBX ADAPTER RUNTIME - the output of `mbx info` and of the stock ibv_devinfo for the software
adapter.

ADAPTER is its library, RUNTIME the library to be loaded before it, or "".  The part with ibv_devinfo is skipped if
that is not installed (Debian: ibverbs-utils).
"""
import os
import re
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from patience import PATIENCE_S  # noqa: E402

MBX, ADAPTER = os.path.abspath(sys.argv[1]), sys.argv[2]
PRELOAD = " ".join(filter(None, [sys.argv[3], ADAPTER]))
# a network for each command, and with it an adapter
APART = ["unshare", "--map-root-user", "--net"]
SKIPPED = 77


def output(*command, **environment):
    result = subprocess.run(["env", *(f"{name}={value}" for name, value in environment.items()), *command], text=True,
                            capture_output=True, timeout=PATIENCE_S)
    if result.returncode != 0:
        sys.exit(f"{command}: exit {result.returncode}\n{result.stdout}{result.stderr}")
    return result.stdout


def expect(condition, what, text):
    if not condition:
        sys.exit(f"{what} is not in:\n{text}")


def verbs_line(**environment):
    """The one line of `mbx info --devices` about verbs."""
    text = output(*APART, MBX, "info", "--devices", **environment)
    lines = [line.strip() for line in text.splitlines() if line.split()[:1] == ["verbs:"]]
    expect(len(lines) == 1, "one line about verbs", text)
    return lines[0]


def info_says_what_there_is():
    for environment, line in [
            ({}, "verbs: available (mbx0: max_num_tags 127)"),
            ({"MBX_ADAPTER_TAGS": "0"},
             "verbs: no device matches tags in hardware (mbx0: max_num_tags 0)"),
            ({"MBX_ADAPTER_DEVICES": "0"}, "verbs: libibverbs finds no device")]:
        for way in {"LD_PRELOAD": PRELOAD}, {"MBX_VERBS_LIBRARY": ADAPTER}:
            said = verbs_line(**way, **environment)
            expect(said == line, line, said)


def info_says_what_another_library_has():
    said = verbs_line(MBX_VERBS_LIBRARY="/no/such/library.so")
    expect(said.startswith("verbs: libibverbs cannot be loaded: /no/such/library.so"), "the name", said)
    said = verbs_line(MBX_VERBS_LIBRARY="libc.so.6")
    expect(said.startswith("verbs: libc.so.6 lacks ibv_"), "what is missing", said)


def info_runs_on_without_it():
    """Whatever this machine has, and without options too: `mbx info` then opens the network, whose
    provider for verbs knows adapters that this one does not resemble."""
    said = verbs_line(LD_PRELOAD="")
    everything = output(MBX, "info", LD_PRELOAD="")
    expect(said in map(str.strip, everything.splitlines()), said, everything)
    expect(re.match(r"verbs: (available|no device|libibverbs finds no device)", said),
           "what this machine has", said)


def devinfo_shows_that_it_matches_tags():
    for environment, lines in [
            ({}, [r"hca_id:\s+mbx0", r"max_rndv_hdr_size:\s+64", r"max_num_tags:\s+127",
                  r"max_ops:\s+16384"]),
            ({"MBX_ADAPTER_TAGS": "0"}, [r"hca_id:\s+mbx0", "tag matching not supported"])]:
        text = output(*APART, "ibv_devinfo", "-v", LD_PRELOAD=PRELOAD, **environment)
        for line in lines:
            expect(re.search(rf"^\s*{line}$", text, re.MULTILINE), line, text)


if subprocess.run([*APART, "true"], capture_output=True).returncode != 0:
    print("skipped: this machine lets nobody make network namespaces")
    sys.exit(SKIPPED)
info_says_what_there_is()
info_says_what_another_library_has()
info_runs_on_without_it()
if shutil.which("ibv_devinfo") is None:
    print("skipped: ibv_devinfo is not installed (Debian: ibverbs-utils)")
    sys.exit(SKIPPED)
devinfo_shows_that_it_matches_tags()
