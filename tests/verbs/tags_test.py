#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""tags_test.py BUILD WHAT - tag matching over the queue pairs of an adapter without it: libmbx-tags.so over the
software adapter, whose own tag matching is switched off.

  conformance   `mbx adapter-test`, with each way in which adapters may differ, and one that is wrong on purpose
  stopped       a receiver that is stopped, served by a process of its own
  behaviour     behaviour tests with MBX_DEVICE=verbs
  ends          the helper ends with its program, however that ends; if the helper dies, the device is lost
  refused       requests that cannot be met get an error message

Each command has a network namespace of its own, and so an adapter of its own. 77: this machine does not allow
that.
"""
import contextlib
import ctypes
import errno
import json
import os
import re
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
import processes  # noqa: E402
from patience import PATIENCE_S  # noqa: E402

BUILD = os.path.abspath(sys.argv[1])
TAGS, ADAPTER = (os.path.join(BUILD, "adapter", name) for name in ("libmbx-tags.so", "libmbx-adapter.so"))
APART = ["unshare", "--map-root-user", "--net"]
NOT_HERE, FAILED = 77, 1
LISTS = [1, 2, 16, 127]
DEVICE_FATAL = 8  # enum ibv_event_type
KEY = "00112233445566778899aabbccddeeff"


def settings(**more):
    values = {"MBX_VERBS_LIBRARY": TAGS, "MBX_ADAPTER_OVER_LIBRARY": ADAPTER, "MBX_ADAPTER_TAGS": "0", "MBX_KEY": KEY,
              **more}
    return ["env", *(f"{name}={value}" for name, value in values.items())]


def run(*words, **more):
    return subprocess.run([*APART, *settings(**more), *words], text=True, capture_output=True, timeout=PATIENCE_S)


def expect(condition, what, result):
    if not condition:
        sys.exit(f"{what}: status {result.returncode}\n{result.stdout[-3000:]}\n{result.stderr[-3000:]}")


def program(*names):
    return os.path.join(BUILD, *names)


def suite(quirks):
    result = run(program("tools", "mbx"), "adapter-test", "--library", TAGS, "--json", "--brief",
                 MBX_ADAPTER_OVER_QUIRKS=quirks)
    try:
        return result, json.loads(result.stdout)
    except ValueError:
        expect(False, f"quirks '{quirks}': no JSON", result)


def fences():
    """The adapter beneath keeps no fence: Soft-RoCE may keep one for ever.  A FIN leaves after its read."""
    words = (f"{program('tests', 'verbs', 'verbs_pair')} listen 7000 & "  # keeps the adapter, and its counters
             f"{program('tools', 'mbx')} adapter-test --library {TAGS} --brief >&2; code=$?; "
             f"{program('adapter', 'mbx-adapter')} --counters; kill $!; exit $code")
    result = run("sh", "-c", words, MBX_ADAPTER_QUIRKS="unfenced", MBX_TRANSPORT="verbs", MBX_DEVICE="verbs")
    counted = {name: int(value) for name, value in re.findall(r"(\w+)\s+(\d+)", result.stdout)}
    expect(result.returncode == 0 and counted.get("rdma_reads", 0) > 0, "an adapter beneath without fences", result)
    expect(counted["sends_past_reads"] == 0, "no FIN before its read", result)


def conformance():
    fences()
    for quirks in "", "recv,sync,apart", "eager-only":
        result, said = suite(quirks)
        expect(result.returncode == 0 and said["failed"] == 0, f"quirks '{quirks}'", result)
        expect([one["list"] for one in said["lists"]] == LISTS, "the lists", result)
        expect(said["rendezvous"] == (quirks != "eager-only"), "rendezvous", result)
    result, said = suite("hasty")
    expect(result.returncode == FAILED and said["failed"] > 0, "one that is wrong on purpose", result)


def stopped():
    result = run(program("tests", "verbs", "verbs_stopped_test"))
    expect(result.returncode == 0, "a receiver that is stopped", result)
    print(re.search("stopped: .*", result.stdout)[0])


def behaviour():
    for name in "sync", "process", "sizes":
        for configuration in "verbs", "verbs-tm", "verbs-tm-1", "both-verbs-tm":
            result = run(program("tests", name + "_test"), "--quick", configuration)
            expect(result.returncode == 0, f"{name} {configuration}", result)


def helpers_of(pid):
    """Its children of that name: the helper shares the program's memory, and is a process of its own."""
    return [child for child, name in processes.children(pid).items() if name == "mbx-tags"]


def wait_until(what, is_so):
    until = time.monotonic() + PATIENCE_S
    while not is_so():
        if time.monotonic() > until:
            sys.exit(f"{what}: not after {PATIENCE_S} s")
        time.sleep(0.01)


@contextlib.contextmanager
def waiting_program():
    """Starts a program that waits for a peer that never comes; and finds its helper."""
    with processes.started([*APART, *settings(MBX_TRANSPORT="verbs", MBX_DEVICE="verbs", MBX_LOG_LEVEL="warn"),
                            program("tests", "verbs", "verbs_pair"), "listen", "7000"], text=True,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        wait_until("a helper", lambda: process.poll() is not None or helpers_of(process.pid))
        if process.poll() is not None:
            sys.exit(f"the program has ended:\n{process.stdout.read()}")
        with processes.watched(helpers_of(process.pid)[0]) as helper:
            yield process, helper


def named_sockets(pid):
    """The sockets of the process that others can find, and send something to."""
    inodes = {os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")}
    with open(f"/proc/{pid}/net/unix", encoding="utf-8", errors="surrogateescape") as lines:
        sockets = [line.split() for line in lines]
    return [words[7] for words in sockets if len(words) > 7 and f"socket:[{words[6]}]" in inodes]


def ends():
    with waiting_program() as (process, helper):
        if named_sockets(helper):
            sys.exit(f"the helper can be reached by others: {named_sockets(helper)}")
    for number in signal.SIGKILL, signal.SIGTERM:
        with waiting_program() as (process, helper):
            process.send_signal(number)
            process.wait()
            if not processes.await_end(helper, PATIENCE_S):
                sys.exit(f"the helper outlives its program: not after {PATIENCE_S} s")
    result = run(sys.executable, os.path.abspath(__file__), BUILD, "orphan")
    expect(result.returncode == 0, "a program whose helper is killed", result)


def orphan():
    """In a namespace of its own: a program whose helper dies loses the device, and may open it again."""
    library = ctypes.CDLL(TAGS, use_errno=True)
    for name in "ibv_get_device_list", "ibv_open_device", "ibv_alloc_pd":
        getattr(library, name).restype = ctypes.c_void_p
    devices = ctypes.cast(library.ibv_get_device_list(None), ctypes.POINTER(ctypes.c_void_p))
    contexts = [ctypes.c_void_p(library.ibv_open_device(ctypes.c_void_p(devices[0]))) for _ in range(2)]
    helpers = helpers_of(os.getpid())
    if None in [context.value for context in contexts] or len(helpers) != 1:
        sys.exit(f"two contexts, one helper: {contexts}, {helpers}")
    os.kill(helpers[0], signal.SIGKILL)
    for context in contexts:
        event = (ctypes.c_uint64 * 2)()
        if library.ibv_get_async_event(context, event) != 0 or event[1] & 0xffffffff != DEVICE_FATAL:
            sys.exit(f"the event: {event[1]}")
        if library.ibv_alloc_pd(context) is not None or ctypes.get_errno() != errno.EIO:
            sys.exit(f"a domain of a lost device: errno {ctypes.get_errno()}")
    again = ctypes.c_void_p(library.ibv_open_device(ctypes.c_void_p(devices[0])))
    domain = library.ibv_alloc_pd(again) if again.value else None
    if domain is None or library.ibv_dealloc_pd(ctypes.c_void_p(domain)) != 0:
        sys.exit("the device cannot be opened again")
    for context in contexts + [again]:
        library.ibv_close_device(context)
    if helpers_of(os.getpid()):
        sys.exit("the helper outlives the last context")


def refused():
    for variable, value, words in [("LIBRARY", "/nowhere.so", "/nowhere.so"), ("DEVICE", "none9", "the adapter none9"),
                                   ("TAGS", "many", "0 to 4095"), ("EAGER", "1", "1024 to 1048576"),
                                   ("QUIRKS", "sideways", "there is no 'sideways'")]:
        result = run(program("tools", "mbx"), "adapter-test", "--library", TAGS, "--brief",
                     **{"MBX_ADAPTER_OVER_" + variable: value})
        expect(result.returncode != 0 and words in result.stdout + result.stderr, f"{variable}={value}", result)
    result = run(program("tools", "mbx"), "adapter-test", "--library", TAGS, "--brief", MBX_ADAPTER_OVER_TAGS="0")
    expect(result.returncode not in (0, FAILED), "without tags", result)


def main():
    if sys.argv[2] == "orphan":
        orphan()
        return 0
    if subprocess.run([*APART, "true"], capture_output=True).returncode != 0:
        print("this machine allows no network namespaces")
        return NOT_HERE
    {"conformance": conformance, "stopped": stopped, "behaviour": behaviour, "ends": ends, "refused": refused}[sys.argv[2]]()
    return 0


if __name__ == "__main__":
    sys.exit(main())
