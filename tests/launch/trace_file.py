# SPDX-License-Identifier: BSD-3-Clause
"""Trace files, written from the description in docs/reference/trace-format.md, without the library."""
import struct

POST, ARRIVE, CANCEL, PEEK, CLAIM, TAKE, DISCARD, CLOSE, _, RTR = range(1, 11)
PROGRAM, NAME, PEER, SEND, LEAVE, SENT, RECEIVED, RTS, DATA, CTS, READ, SHARE, FIN, HAND, WAIT, WAITED = range(22, 38)
DONE = 0x100  # added to the type of a record whose operation completes at once
TINY = 64  # added to the type of a tiny record
SHORT = 128  # added to the type of a short record
HALF = 1 << 26  # in a short record: the number is the last one of its type
ANY = 0xffffffff
ALL = (1 << 64) - 1


def check_of(data, check_at, number):
    total = number ^ 0x6d626d6174636865
    for at in range(0, len(data), 8):
        word = struct.unpack_from("<Q", data, at)[0] & (0xffffffff if at + 4 == check_at else ALL)
        total = ((total ^ word) * 0x9e3779b97f4a7c15) & ALL
        total ^= total >> 29
    return (total ^ total >> 32) & 0xffffffff


def checked(data, check_at, number, done=False):
    data = bytearray(data)
    struct.pack_into("<I", data, check_at, check_of(data, check_at, number) ^ (0x646f6e65 if done else 0))
    return bytes(data)


def header(rank, pid=4711, version=5):
    return checked(struct.pack("<8s6IQQIIQ", b"MBXTRACE", version, 56, rank, pid, 2, 0, 1000, 77, 4, pid, 0), 28, 0)


def long_record(number, kind, context, source, tag, ignore, entry, partner, ns=1500):
    """kind: the type, and the number of its form times 2^16"""
    return checked(struct.pack("<4I5Q", kind & ~DONE, context, source, 0, tag, ignore, entry, partner, ns), 12, number, kind & DONE != 0)


def short_record(number, kind, form, entry, partner, ns=1500):
    first = SHORT | form & 127 | form >> 7 << 8 | entry << 10 | partner << 37
    return checked(struct.pack("<QII", first, ns, 0), 12, number, kind & DONE != 0)


def tiny_record(number, kind, ns=1500):
    return checked(struct.pack("<II", kind & ~DONE | ns << 8, 0), 4, number, kind & DONE != 0)


def records(data):
    """Yields the number and the bytes of each record of a trace."""
    at, number = 64, 0
    while at < len(data):
        size = 16 if data[at] & SHORT else 8 if data[at] & TINY else 56
        yield number, bytearray(data[at:at + size])
        at, number = at + size, number + 1


def trace(*events, rank=5, pid=4711, version=5):
    """events: (type, context, source, tag, ignore, entry, partner) or (SHORT, form, entry, partner) or (type | TINY,); and
    the ns since the previous event, if not 1,500"""
    data = header(rank, pid, version)
    for number, event in enumerate(events):
        put = short_record if event[0] & SHORT else tiny_record if event[0] & TINY else long_record
        data += put(number, *event)
    return data


def text(kind, text, context=0, size=0):
    """Returns the records of a text."""
    data = (text if isinstance(text, bytes) else text.encode()) + b"\0"
    data += bytes(-len(data) % 24)
    return [(kind, context, 0, part << 32 | size, *struct.unpack_from("<3Q", data, 24 * part))
            for part in range(len(data) // 24)]
