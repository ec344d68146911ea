#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""waits_test.py MBX WAITS_PROGRAM [--browser] - `mbx trace` says which rank waited for which, to 5 %.

The waits are known by construction (waits_program.c).  The page of the job is one file that shows them, the file for Perfetto
has a flow for each message, and OTF2's own reader finds each message in the trace for OTF2.  All of this also holds if each
rank has a host with a clock of its own.  Time is virtual, so the load of the machine changes nothing.
"""
import glob
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from patience import PATIENCE_S  # noqa: E402

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import trace_file as file  # noqa: E402

MBX, PROGRAM = (os.path.abspath(path) for path in sys.argv[1:3])
BROWSER = "--browser" in sys.argv[3:]
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
    return subprocess.run([MBX, "trace", *arguments], capture_output=True, text=True, timeout=PATIENCE_S)


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
    """The page loads nothing, and has its summary without a script; a browser draws it without an error."""
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
    if not BROWSER:
        return
    browser = shutil.which("chromium")
    if browser is None:
        print("waits_test: there is no chromium, so the page was not opened")
        return
    with tempfile.TemporaryDirectory() as data:
        done = subprocess.run(
            [browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
             "--disable-background-networking", "--disable-component-update", "--disable-sync",
             f"--user-data-dir={data}", "--dump-dom", f"file://{page}"],
            capture_output=True, text=True, timeout=PATIENCE_S)
    root = re.search(r"<html[^>]*>", done.stdout)
    root = root.group(0) if root else done.stderr[-500:]
    if 'data-ready="1"' not in root or "data-error" in root or f'data-messages="{messages}"' not in root:
        failures.append(f"{story}: in a browser: {root}")


def fields(data):
    """Returns [(field, wire type, value)] of a protobuf message."""
    found, at = [], 0

    def number():
        nonlocal at
        value, shift = 0, 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7f) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        key = number()
        if key & 7 == 0:
            found.append((key >> 3, 0, number()))
        elif key & 7 == 1:
            found.append((key >> 3, 1, int.from_bytes(data[at:at + 8], "little")))
            at += 8
        elif key & 7 == 2:
            size = number()
            assert at + size <= len(data)
            found.append((key >> 3, 2, data[at:at + size]))
            at += size
        else:
            raise AssertionError(f"wire type {key & 7}")
    return found


# the used fields of Perfetto's protos: {message: {number: (name, type, message)}}, * for repeated
PERFETTO = {
    "Trace": {1: ("packet", "*message", "TracePacket")},
    "TracePacket": {8: ("timestamp", "uint64", None), 10: ("trusted_packet_sequence_id", "uint32", None),
                    11: ("track_event", "message", "TrackEvent"), 60: ("track_descriptor", "message", "TrackDescriptor")},
    "TrackEvent": {4: ("debug_annotations", "*message", "DebugAnnotation"), 9: ("type", "int32", None),
                   11: ("track_uuid", "uint64", None), 22: ("categories", "*string", None), 23: ("name", "string", None),
                   30: ("counter_value", "int64", None), 47: ("flow_ids", "*fixed64", None),
                   48: ("terminating_flow_ids", "*fixed64", None)},
    "TrackDescriptor": {1: ("uuid", "uint64", None), 2: ("name", "string", None), 3: ("process", "message", "ProcessDescriptor"),
                        5: ("parent_uuid", "uint64", None), 8: ("counter", "message", "CounterDescriptor")},
    "ProcessDescriptor": {1: ("pid", "int32", None), 6: ("process_name", "string", None)},
    "CounterDescriptor": {},
    "DebugAnnotation": {3: ("uint_value", "uint64", None), 6: ("string_value", "string", None), 10: ("name", "string", None)},
}
WIRE = {"uint64": 0, "uint32": 0, "int32": 0, "int64": 0, "fixed64": 1, "string": 2, "message": 2}


def parse(data, message="Trace"):
    """Returns a message as {name: value, or list of values}; PERFETTO has every field, with its wire type."""
    result = {}
    for field, wire, value in fields(data):
        name, kind, inner = PERFETTO[message][field]
        assert wire == WIRE[kind.lstrip("*")], (message, name)
        if inner is not None:
            value = parse(value, inner)
        elif kind.endswith("string"):
            value = value.decode()
        if kind.startswith("*"):
            result.setdefault(name, []).append(value)
        else:
            assert name not in result, (message, name)
            result[name] = value
    return result


def check_with_protobuf(data, packets):
    """Google's own reader, if it is installed, finds as many packets, and no unknown field."""
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    except ImportError:
        return
    file = descriptor_pb2.FileDescriptorProto(name="perfetto.proto", package="p", syntax="proto2")
    for message, members in PERFETTO.items():
        described = file.message_type.add(name=message)
        for number, (name, kind, inner) in members.items():
            field = described.field.add(name=name, number=number, label=3 if kind[0] == "*" else 1,
                                        type=getattr(descriptor_pb2.FieldDescriptorProto, "TYPE_" + kind.lstrip("*").upper()))
            if inner is not None:
                field.type_name = ".p." + inner
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    trace = message_factory.MessageFactory(pool).GetPrototype(pool.FindMessageTypeByName("p.Trace"))()
    trace.ParseFromString(data)
    before = trace.ByteSize()
    trace.DiscardUnknownFields()
    if len(trace.packet) != packets or trace.ByteSize() != before:
        failures.append(f"perfetto: {len(trace.packet)} packets of {packets}, {before - trace.ByteSize()} unknown bytes")


def check_perfetto(story, path, ranks, messages):
    """Every message is one flow, from one rank to another; waits begin and end."""
    with open(path, "rb") as file:
        data = file.read()
    packets = parse(data)["packet"]
    check_with_protobuf(data, len(packets))
    events = [packet["track_event"] for packet in packets if "track_event" in packet]
    begun = sorted(flow for event in events for flow in event.get("flow_ids", []))
    ended = sorted(flow for event in events for flow in event.get("terminating_flow_ids", []))
    if begun != list(range(1, messages + 1)) or ended != begun:
        failures.append(f"{story}: perfetto: {len(begun)} flows begin and {len(ended)} end, of {messages} messages")
    tracks = {packet["track_descriptor"]["uuid"]: packet["track_descriptor"] for packet in packets if "track_descriptor" in packet}
    if sum("process" in track for track in tracks.values()) != ranks or any(event["track_uuid"] not in tracks for event in events):
        failures.append(f"{story}: perfetto: tracks {tracks}")
    ends = [sum(event["type"] == kind for event in events) for kind in (1, 2)]
    late = sum(note["uint_value"] for event in events for note in event.get("debug_annotations", []) if note["name"] == "late_ns")
    want = sum(seconds for _, seconds, _, _, _ in STORIES[story]) * 1e9
    if ends[0] != ends[1] or abs(late - want) > max(0.05 * want, 20e6):
        failures.append(f"{story}: perfetto: {ends} ends of waits, {late} ns late, want {want}")


def check_otf2(story, folder, traces, messages):
    """OTF2's own reader finds each message sent and received, and the waits in order of time."""
    out = os.path.join(folder, "otf2")
    done = mbx("--otf2", out, *traces)
    if "otf2 no" in subprocess.run([MBX, "version"], capture_output=True, text=True, check=True).stdout:
        if done.returncode != 1 or "libotf2-trace-dev" not in done.stderr:
            failures.append(f"{story}: --otf2 without OTF2: {done.stderr!r}")
        return None
    if done.returncode != 0 or done.stderr:
        failures.append(f"{story}: --otf2: {done.stderr}")
        return None
    again = mbx("--otf2", out, *traces)
    if again.returncode != 1 or "File exists" not in again.stderr:
        failures.append(f"{story}: --otf2 into a folder that is there: {again.stderr!r}")
    if shutil.which("otf2-print") is None:
        print("waits_test: there is no otf2-print (Debian: otf2-tools), so what --otf2 writes was not read")
        return None
    done = subprocess.run(["otf2-print", os.path.join(out, "traces.otf2")], capture_output=True, text=True, timeout=PATIENCE_S)
    found, inside, late = {}, {}, {}
    for line in done.stdout.splitlines():
        event = re.match(r"(ENTER|LEAVE|MPI_SEND|MPI_RECV) +(\d+) +(\d+)  (.*)$", line)
        if not event:
            continue
        kind, place, time, what = event.group(1), int(event.group(2)), int(event.group(3)), event.group(4)
        found[kind] = found.get(kind, 0) + 1
        if kind == "ENTER":
            inside.setdefault(place, []).append((time, what))
        elif kind == "LEAVE":
            begun, region = inside.setdefault(place, []).pop()
            if region != what:
                failures.append(f"{story}: otf2: {line!r} leaves {region!r}")
            late[place, region] = late.get((place, region), 0) + time - begun
    if done.returncode != 0 or done.stderr or found.get("MPI_SEND", 0) != messages or \
            found.get("MPI_RECV", 0) != messages or any(inside.values()) or found["ENTER"] != found["LEAVE"]:
        failures.append(f"{story}: otf2: {found} of {messages} messages, {done.stderr!r}")
    for who, seconds, _, what, _ in STORIES.get(story, ()):
        took = sum(ns for (place, region), ns in late.items() if place == who and f"wait: {what}" in region) / 1e9
        if abs(took - seconds) > 0.05 * seconds:
            failures.append(f"{story}: otf2: rank {who} is {took} s in `{what}`, want {seconds}")
    return found


def put_on_hosts(paths, walls, rates, apart=3600 * 10**9):
    """Copies these files as if each rank were on a host of its own: with another clock, which runs faster by rates[n] than
    the first one.  The time of day is wrong by walls[n] ns.  The n-th host was started n times `apart` ns earlier."""
    files = []
    for n, path in enumerate(paths):
        with open(path, "rb") as opened:
            files.append((path, opened.read()))
    hosts = {struct.unpack_from("<I", data, 52)[0]: 1000 + n for n, (_, data) in enumerate(files)}  # by address
    for n, (path, data) in enumerate(files):
        begun, = struct.unpack_from("<Q", data, 32)
        head = bytearray(data[:64])
        struct.pack_into("<Q", head, 32, int((begun - 10**9) * (1 + rates[n])) + (n + 1) * apart)
        struct.pack_into("<Q", head, 40, 1000 + n)
        struct.pack_into("<Q", head, 56, 10**18 + begun + walls[n])
        moved = file.checked(bytes(head[:28]) + bytes(4) + bytes(head[32:]), 28, 0)
        behind = 0.0
        for number, record in file.records(data):
            is_tiny, check = len(record) == 8, 4 if len(record) == 8 else 12
            time = ("<Q", record, 48) if len(record) == 56 else ("<I", record, 0 if is_tiny else 8)
            ns, = struct.unpack_from(*time)
            delta = (ns >> 8 if is_tiny else ns) * (1 + rates[n]) + behind
            struct.pack_into(*time, record[0] | int(delta) << 8 if is_tiny else int(delta))
            behind = delta - int(delta)
            if record[0] == file.PEER:
                struct.pack_into("<Q", record, 16, hosts[struct.unpack_from("<I", record, 4)[0]])
            struct.pack_into("<I", record, check, 0)
            moved += file.checked(bytes(record), check, number)
        with open(f"{path}.moved", "wb") as opened:
            opened.write(moved)
    return [f"{path}.moved" for path in paths]


def check_hosts(story, paths, walls, rates):
    """The waits are the same, and no message arrives before it is sent."""
    before = len(failures)
    paths = put_on_hosts(paths, walls, rates)
    done = mbx("--summary", *paths)
    check_waits(f"{story}", done.stdout)
    told = re.findall(r"^endpoint \d+-(\d+) is on another host: (?:its times may be wrong by ([0-9.]+) us|how wrong .* is not known)",
                      done.stdout, re.M)
    # in the stories of two ranks, messages have only one direction
    if sorted(int(rank) for rank, _ in told) != list(range(1, len(paths))) or \
            any((wrong == "") != (len(paths) == 2) or float(wrong or 1) > 1e6 for _, wrong in told):
        failures.append(f"{story}: the clocks are told as {told}")
    out = paths[0] + ".pftrace"
    mbx("--perfetto", out, *paths)
    with open(out, "rb") as opened:
        packets = parse(opened.read())["packet"]
    sent = {flow: packet["timestamp"] for packet in packets for flow in packet.get("track_event", {}).get("flow_ids", [])}
    took = [packet["timestamp"] - sent[flow] for packet in packets
            for flow in packet.get("track_event", {}).get("terminating_flow_ids", [])]
    if not took or min(took) < 0:
        failures.append(f"{story}: of {len(took)} messages the fastest takes {min(took, default=0)} ns")
    failures[before:] = [f"{failure}, with clocks wrong by {walls} ns and rates {rates}" for failure in failures[before:]]


def check_containers(story, paths):
    """Pid namespaces of one machine are hosts of their own with one clock, which no messages are needed to determine."""
    paths = put_on_hosts(paths, [1000] * len(paths), [0] * len(paths), apart=0)
    summary = mbx("--summary", *paths).stdout
    check_waits(f"{story}", summary)
    if "another host" in summary:
        failures.append(f"{story}: containers of one machine have several clocks: {summary}")
    page = paths[0] + ".html"
    mbx("--html", page, *paths)
    with open(page, encoding="utf-8") as opened:
        if "is on another host" in opened.read():
            failures.append(f"{story}: containers of one machine have several clocks")


def check_hostile_names(folder):
    """The page shows a name that a program has given as text."""
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
    for said in "without a close", "the traces of 1 of them were read", "whose arrival is in no trace", "</span>does not wait<":
        if said not in text[:text.index("<script>")]:
            failures.append(f"an incomplete job: the page does not say {said!r}")


def check_waits_alone(folder):
    """There are more waits than messages, with numbers of their own: no wait is looked up among the messages."""
    path, count = os.path.join(folder, "b.trace"), 5000
    with open(path, "wb") as out:
        out.write(file.trace(*[event for n in range(1, count + 1) for event in
                               ((file.WAIT, 0, 0, 0, 10, n, 0, 20), (file.WAITED, 0, 0, 0, 10, n, 0, 20))], (file.CLOSE, 0, 0, 0, 0, 0, 0)))
    found = check_otf2("waits alone", folder, [path], 0)
    if found and found["ENTER"] != count + 1:
        failures.append(f"waits alone: otf2: {found}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        check_hostile_names(folder)
        check_waits_alone(folder)
    for story in STORIES:
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([PROGRAM, folder, story], check=True, timeout=PATIENCE_S)
            traces = glob.glob(os.path.join(folder, "*.trace"))
            done = mbx("--summary", *traces)
            if done.returncode != 0:
                failures.append(f"{story}: {done.stderr}")
            check_waits(story, done.stdout)
            page = os.path.join(folder, "job.html")
            done = mbx("--html", page, *traces)
            if done.returncode != 0 or done.stderr:
                failures.append(f"{story}: --html: {done.stderr}")
            messages = 160 if len(traces) == 4 else 20
            check_page(story, page, messages)
            out = os.path.join(folder, "job.pftrace")
            done = mbx("--perfetto", out, *traces)
            if done.returncode != 0 or done.stderr:
                failures.append(f"{story}: --perfetto: {done.stderr}")
            check_perfetto(story, out, len(traces), messages)
            check_otf2(story, folder, traces, messages)
            traces.sort()
            check_containers(story, traces)
            if len(traces) == 4:  # messages in all directions: a wrong time of day is noticed, and clocks that drift
                check_hosts(story, traces, (0, 5_000_000, -70_000_000, 3_600_000_000_000), (0, 0, 0, 0))
                check_hosts(story, traces, (0, 5_000_000, -70_000_000, 0), (0, 7e-4, -5e-4, 2e-4))
            else:
                check_hosts(story, traces, (0, 0), (0, 0))
    for failure in failures:
        print("FAIL", failure)
    print(f"waits_test: {len(failures)} failures")
    return 1 if failures else 0


sys.exit(main())
