#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""adapter_test_test.py MBX ADAPTER [--few] - `mbx adapter-test` over the software adapter: with each way in which adapters
may differ, with one that is wrong on purpose, with one that does not match, and without any.

Each command has a network namespace of its own, and so an adapter of its own. --few: combines ways that do not exclude
each other, and makes each report in one form.
"""
import json
import os
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from patience import PATIENCE_S  # noqa: E402

MBX, ADAPTER = os.path.abspath(sys.argv[1]), sys.argv[2]
APART = ["unshare", "--map-root-user", "--net"]
SKIPPED, FAILED, NOTHING = 77, 1, 3
LISTS = [1, 2, 16, 127]
IS_FEW = sys.argv[3:] == ["--few"]
QUIRKS = ("recv,sync,apart,fin-recv", "eager-only", "dawdle") if IS_FEW else (
    "", "recv,sync", "apart", "fin-recv", "eager-only", "dawdle")


def run(*words, library=ADAPTER, **environment):
    settings = [f"{name}={value}" for name, value in environment.items()]
    return subprocess.run([*APART, "env", *settings, MBX, "adapter-test", "--library", library, *words], text=True,
                          capture_output=True, timeout=PATIENCE_S)


def expect(condition, what, result):
    if not condition:
        sys.exit(f"{what}: status {result.returncode}\n{result.stdout[-2000:]}\n{result.stderr[-2000:]}")


def report(result, what):
    try:
        return json.loads(result.stdout)
    except ValueError:
        expect(False, f"{what}: no JSON", result)


def names(said, how):
    return {case["name"] for one in said["lists"] for case in one["cases"] if case["result"] == how}


def each_quirk_passes():
    for quirks in QUIRKS:
        result = run("--json", "--brief", MBX_ADAPTER_QUIRKS=quirks)
        expect(result.returncode == 0, f"quirks '{quirks}'", result)
        said = report(result, quirks)
        expect([one["list"] for one in said["lists"]] == LISTS, "the lists", result)
        expect(said["device"] == "mbx0" and said["tags"] == 127, "what it found", result)
        expect(said["rendezvous"] == (quirks != "eager-only"), "rendezvous", result)
        passed = names(said, "passed")
        expect(("a_rendezvous_needs_no_software" in passed) == said["rendezvous"], "a rendezvous", result)
        expect("the_oldest_receive_is_met" in passed and said["failed"] == 0, "what has passed", result)


def a_wrong_adapter_is_found_out():
    result = run("--json", "--brief", MBX_ADAPTER_QUIRKS="hasty")
    expect(result.returncode == FAILED, "an adapter that ignores the count", result)
    said = report(result, "hasty")
    failed = names(said, "failed")
    expect("an_entry_waits_until_what_was_found_is_reported" in failed, "the case about it", result)
    expect("the_oldest_receive_is_met" not in failed and said["failed"] >= 1, "the other cases", result)
    if IS_FEW:
        return
    result = run("--brief", MBX_ADAPTER_QUIRKS="hasty")
    expect("failed  list 1: an_entry_waits_until_what_was_found_is_reported" in result.stdout, "as text", result)


def words_say_what_there_is():
    result = run("--brief")
    expect(result.returncode == 0, "text", result)
    expect("mbx0: 127 tags, rendezvous yes" in result.stdout, "the adapter", result)
    expect("list 127: " in result.stdout and "mbx0 does what Matchbox expects" in result.stdout, "the end", result)
    result = run("--brief", MBX_ADAPTER_TAGS="3")
    expect(result.returncode == 0 and "list 3: " in result.stdout and "list 16" not in result.stdout, "3 tags", result)
    for words, environment, said in [
            ([], {"MBX_ADAPTER_TAGS": "0"}, "no device matches tags in hardware (mbx0: max_num_tags 0)"),
            (["--device", "mbx0"], {"MBX_ADAPTER_TAGS": "0"}, "mbx0 does not match tags"),
            (["--device", "mlx5_0"], {}, "there is no device 'mlx5_0': available (mbx0: max_num_tags 127)"),
            ([], {"MBX_ADAPTER_DEVICES": "0"}, "libibverbs finds no device")]:
        result = run(*words, **environment)
        expect(result.returncode == NOTHING and said in result.stderr, said, result)
    result = run(library="/no/such/library.so")
    expect(result.returncode == NOTHING and "cannot be loaded: /no/such/library.so" in result.stderr, "a library",
           result)
    result = run("--bad")
    expect(result.returncode == 2, "a wrong option", result)


if subprocess.run([*APART, "true"], capture_output=True).returncode != 0:
    print("skipped: this machine lets nobody make network namespaces")
    sys.exit(SKIPPED)
words_say_what_there_is()
each_quirk_passes()
a_wrong_adapter_is_found_out()
