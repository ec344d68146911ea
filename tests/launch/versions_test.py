#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""versions_test.py MBX RECORDS... [--record FILE --program INSPECT_PROGRAM] - today's `mbx queues` reads what libraries of other versions show.

A record (records/VERSION.json) has the memory that an observer reads of the two ranks of inspect_program: the page of
each, the blocks with its queues, and their layout; and the entries that must be in the queues and were shown then.  Each
record is read as an answer, from a page, and as a core file.  In the same way records are read that are changed as a newer
library may change them: with more fields in the layout, in another order.  If a record has another version of the page, or
lacks a field, the message names the version.  An answer that is still being written is not taken for one.

`--record FILE --program INSPECT_PROGRAM` writes the record of this build: one for each released version, kept for ever.
"""
import argparse
import base64
import ctypes
import json
import mmap
import os
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import zlib

BLOCK = 4096
PAGE = 65536
MAGIC, ROOT_MAGIC = b"MBXSEE1\0", b"MBXROOT\0"
VERSION_AT, PID_AT, JOB_AT, ROOT_AT = 8, 16, 32, 48  # in the head of a page
ADDRESS_AT, LIBRARY_AT = 40, 72
ENTRIES_AT, ENTRY, POSTED = 12288, 64, 1
ASK_AT, ANSWERED_AT, TURN_AT = 320, 384, 388
FIELDS_AT, FIELD, NAME = 280, 24, 20  # in the layout; its head has the version at 8, the number of fields at 12


def check(condition, text):
    if not condition:
        print("versions_test: " + text, file=sys.stderr)
        raise SystemExit(1)


def pack(data):
    return base64.b64encode(zlib.compress(bytes(data), 9)).decode()


def unpack(text):
    return bytearray(zlib.decompress(base64.b64decode(text)))


class Rank:
    """A rank of a record.  A test may change it, because it is a copy."""

    def __init__(self, record):
        self.page = unpack(record["page"])
        self.page_address = record["page_address"]
        self.blocks = {int(address, 16): unpack(block) for address, block in record["blocks"].items()}
        self.expected = sorted(tuple(e) for e in record["expected"])
        self.shown = record.get("shown")

    def root(self):
        return struct.unpack_from("<Q", self.page, ROOT_AT)[0]

    def read(self, at, size):
        data = bytearray()
        while size > 0:
            part = min(size, BLOCK - at % BLOCK)
            data += self.blocks[at - at % BLOCK][at % BLOCK:at % BLOCK + part]
            at, size = at + part, size - part
        return data

    def write(self, at, data):
        for i, byte in enumerate(data):
            block = (at + i) - (at + i) % BLOCK
            self.blocks.setdefault(block, bytearray(BLOCK))[(at + i) % BLOCK] = byte

    def fields(self):
        count = struct.unpack("<I", self.read(self.root() + 12, 4))[0]
        data = self.read(self.root() + FIELDS_AT, count * FIELD)
        return [bytes(data[i:i + FIELD]) for i in range(0, len(data), FIELD)]

    def set_fields(self, fields):
        """Writes the fields to a new place: other data may follow the old one."""
        head = self.read(self.root(), FIELDS_AT)
        struct.pack_into("<I", head, 12, len(fields))
        place = max(self.blocks) + 16 * BLOCK
        self.write(place, bytes(head) + b"".join(fields))
        struct.pack_into("<Q", self.page, ROOT_AT, place)

    def core(self, path):
        """Writes the rank's memory as a core file: a segment for the page, and one for each run of blocks."""
        runs = [(self.page_address, bytes(self.page))]
        for address in sorted(self.blocks):
            if runs[-1][0] != self.page_address and runs[-1][0] + len(runs[-1][1]) == address:
                runs[-1] = (runs[-1][0], runs[-1][1] + bytes(self.blocks[address]))
            else:
                runs.append((address, bytes(self.blocks[address])))
        at = 64 + 56 * len(runs)
        with open(path, "wb") as file:
            file.write(struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\2\1\1", 4, MACHINES[os.uname().machine], 1, 0, 64, 0, 0, 64, 56, len(runs), 0, 0, 0))
            for address, data in runs:
                file.write(struct.pack("<IIQQQQQQ", 1, 4, at, address, 0, len(data), len(data), BLOCK))
                at += len(data)
            for _, data in runs:
                file.write(data)


MACHINES = {"x86_64": 62, "aarch64": 183}


def queues(args, *options):
    return subprocess.run([args.mbx, "queues", "--json", *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def entries(result):
    ranks = [r for j in json.loads(result.stdout)["jobs"] for r in j["ranks"]]
    check(len(ranks) == 1, f"{len(ranks)} ranks are seen: {result.stdout[:300]}{result.stderr}")
    return sorted((e["kind"], e["context"], e["tag"], e["ignore"], e["size"]) for e in ranks[0]["entries"])


def shown(result):
    """Returns all output about the only rank, except the data of the host and of the process that has the page now."""
    rank = json.loads(result.stdout)["jobs"][0]["ranks"][0]
    return {key: value for key, value in rank.items() if key not in ("pid", "state", "host")}


def as_recorded(got, record):
    """Returns the part of the output that already existed when this was recorded: a newer mbx shows more of the same
    page."""
    if isinstance(record, dict) and isinstance(got, dict):
        return {key: as_recorded(value, record[key]) for key, value in got.items() if key in record}
    if isinstance(record, list) and isinstance(got, list) and len(record) == len(got):
        return [as_recorded(value, record[i]) for i, value in enumerate(got)]
    return got


def check_head(what, rank, got):
    """Checks the head of the page, and the peers of the entries."""
    address, _, endpoint, opened_ns = struct.unpack_from("<4Q", rank.page, ADDRESS_AT)
    library = bytes(rank.page[LIBRARY_AT:LIBRARY_AT + 16]).split(b"\0")[0].decode()
    compare(what + ", its head", (int(got["address"], 16), got["endpoint"], got["opened_ns"], got["library"]),
            (address, endpoint, opened_ns, library))
    entries_of_page = {struct.unpack_from("<Q", rank.page, at + 40)[0]: struct.unpack_from("<2Q", rank.page, at + 48)
                       for at in range(ENTRIES_AT, ENTRIES_AT + ENTRY * len(got["entries"]), ENTRY)
                       if rank.page[at] == POSTED}
    for entry in got["entries"]:
        if entry["kind"] == "posted":
            compare(what + ", an entry", (entry["age"], int(entry["address"], 16)), entries_of_page[entry["id"]])


def compare(what, got, want):
    check(got == want, f"{what}: {got} instead of {want}")


def read_core(args, rank):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "core")
        rank.core(path)
        return queues(args, "--core", path)


class Page:
    """A page of this process, and a thread that answers."""

    def __init__(self, rank):
        fd = os.memfd_create("matchbox-inspect", os.MFD_CLOEXEC)
        os.write(fd, bytes(rank.page))
        self.map = mmap.mmap(fd, PAGE)
        os.close(fd)  # the mapping keeps the file
        struct.pack_into("<I", self.map, PID_AT, os.getpid())
        self.job = os.getpid()
        struct.pack_into("<Q", self.map, JOB_AT, self.job)
        self.is_open = True
        self.thread = threading.Thread(target=self.answer)
        self.thread.start()

    def answer(self):
        ask, answered = ctypes.c_uint32.from_buffer(self.map, ASK_AT), ctypes.c_uint32.from_buffer(self.map, ANSWERED_AT)
        while self.is_open:
            answered.value = ask.value
            os.sched_yield()

    def close(self):
        self.is_open = False
        self.thread.join()
        self.map.close()


def read_page(args, rank, wait_ms=60000):
    page = Page(rank)
    try:
        return queues(args, "--job", f"{page.job:016x}", "--wait", str(wait_ms), "--stats")
    finally:
        page.close()


def refused(result, *words):
    check(result.returncode == 1 and all(word in result.stderr for word in words),
          f"{words} are not in {result.returncode}: {result.stdout[:300]}{result.stderr}")


def read_record(args, path):
    with open(path) as file:
        record = json.load(file)
    name, version = os.path.basename(path), record["version"]
    for number, of in enumerate(record["ranks"]):
        what = f"{name}, rank {number}"
        rank = Rank(of)
        answer = read_page(args, rank)
        compare(f"{what}, its answer", entries(answer), rank.expected)
        compare(f"{what}, all of its answer", as_recorded(shown(answer), rank.shown), rank.shown)
        check_head(what, rank, shown(answer))
        compare(f"{what}, its memory", entries(read_core(args, rank)), rank.expected)

        rank.set_fields([struct.pack(f"<{NAME}sI", b"NOT_YET_INVENTED", 7), *reversed(rank.fields())])
        compare(f"{what}, with a field more", entries(read_core(args, rank)), rank.expected)

        rank = Rank(of)
        struct.pack_into("<I", rank.page, TURN_AT, struct.unpack_from("<I", rank.page, TURN_AT)[0] | 1)
        seen = json.loads(read_page(args, rank, 100).stdout)["jobs"][0]["ranks"][0]["seen"]
        check(seen == "failed", f"{what}: an answer that is being written was {seen}")

        rank = Rank(of)
        rank.set_fields(rank.fields()[1:])
        refused(read_core(args, rank), "layout", version)

        rank = Rank(of)
        struct.pack_into("<I", rank.page, VERSION_AT, 99)
        for result in (read_core(args, rank), read_page(args, rank)):
            refused(result, "version 99", version)


# ---- recording ----


def mappings(pid):
    """Yields (start, end, name) of each readable mapping."""
    with open(f"/proc/{pid}/maps") as file:
        for line in file:
            words = line.split(None, 5)
            start, end = (int(word, 16) for word in words[0].split("-"))
            if words[1][0] == "r" and (words[5].strip() if len(words) > 5 else "") not in ("[vvar]", "[vsyscall]", "[vdso]"):
                yield start, end, words[1][1] == "w", words[5].strip() if len(words) > 5 else ""


def record_rank(pid, expected):
    rank = Rank({"page": pack(b""), "page_address": 0, "blocks": {}, "expected": expected})
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for start, end, _, path in mappings(pid):
            if path.startswith("/memfd:matchbox-inspect"):
                memory.seek(start)
                rank.page, rank.page_address = bytearray(memory.read(PAGE)), start
        check(rank.page[:8] == MAGIC, f"process {pid} has no page")
        root = rank.root()
        for start, end, is_writable, path in mappings(pid):
            has_root = start <= root < end
            if path.startswith("/memfd:") or not (is_writable or has_root):
                continue
            for address in range(start, end, BLOCK):
                if has_root and not is_writable and not root - BLOCK < address < root + 2 * BLOCK:
                    continue
                memory.seek(address)
                block = memory.read(BLOCK)
                if any(block):
                    rank.blocks[address] = bytearray(block)
    return rank


def blank(args, rank, address, first, size, want):
    """Overwrites all bytes of a block that do not matter with zeros: so a record has no data of its machine."""
    block = rank.blocks[address]
    was = block[first:first + size]
    block[first:first + size] = bytes(size)
    if not any(was) or read_core(args, rank).stdout == want:
        return
    block[first:first + size] = was
    if size > 64:
        blank(args, rank, address, first, size // 2, want)
        blank(args, rank, address, first + size // 2, size // 2, want)


def shrink(args, rank):
    """Keeps only the blocks without which the output would differ."""
    want = read_core(args, rank).stdout
    check(entries(read_core(args, rank)) == rank.expected, "what is read is not what is there")
    size = len(rank.blocks) // 2
    while size >= 1:
        for first in list(range(0, len(rank.blocks), size)):
            kept = rank.blocks
            gone = sorted(kept)[first:first + size]
            rank.blocks = {a: b for a, b in kept.items() if a not in gone}
            if not rank.blocks or read_core(args, rank).stdout != want:
                rank.blocks = kept
        size //= 2
    for address in rank.blocks:
        blank(args, rank, address, 0, BLOCK, want)


def record(args):
    import queues_test

    job = queues_test.Job(args, 4, 24)
    try:
        look = queues(args, "--wait", "60000")  # so that each page has an answer
        check(look.returncode == 0, look.stderr)
        ranks = []
        for number, pid in enumerate(job.pids):
            os.kill(pid, signal.SIGSTOP)
            expected = sorted((kind, *more) for kind, _, *more in job.expected[number])
            ranks.append(record_rank(pid, expected))
            shrink(args, ranks[-1])
            ranks[-1].shown = shown(read_page(args, ranks[-1]))
    finally:
        job.abandon()
    version = bytes(ranks[0].page[72:88]).split(b"\0")[0].decode()
    with open(args.record, "w") as file:
        json.dump({"version": version,
                   "ranks": [{"expected": rank.expected, "shown": rank.shown, "page_address": rank.page_address, "page": pack(rank.page),
                              "blocks": {f"{a:x}": pack(b) for a, b in sorted(rank.blocks.items())}} for rank in ranks]}, file, indent=1)
        file.write("\n")
    print(f"versions_test: {args.record}: Matchbox {version}, {[len(rank.blocks) for rank in ranks]} blocks")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mbx")
    parser.add_argument("records", nargs="*")
    parser.add_argument("--record", metavar="FILE")
    parser.add_argument("--program", help="inspect_program")
    args = parser.parse_args()
    args.mbx = os.path.abspath(args.mbx)
    if args.record:
        args.program = os.path.abspath(args.program)
        record(args)
    if os.uname().machine not in MACHINES or sys.byteorder != "little":
        print("versions_test: core files of this kind of machine are not known here")
        sys.exit(77)
    for path in args.records:
        read_record(args, path)
    print(f"versions_test: {len(args.records)} records")


if __name__ == "__main__":
    main()
