# SPDX-License-Identifier: BSD-3-Clause
"""The questions of `./dev bench openmpi`: the ones of peers_ask.py that the component for Open MPI has an aim for, at
every size and depth that the aim names."""
from peers_ask import (KIB, LATENCY_KEYS, Aim, Bench, Figure, Question, depth_groups, depths, latency, starts, stream,
                       types, without_depths)

WAYS = ["component", "provider", "ob1", "ucx"]  # for an unmodified MPI program
THREE = ["component", "ob1", "ucx"]
PEERS = ["ob1", "ucx"]
SHORT = [1 << bits for bits in range(3, 11)]
LONG = [1 << bits for bits in range(12, 23)]
RATES = [0, *SHORT]
TYPE_SIZES = [1 << bits for bits in range(10, 23)]
DEEP_LIMIT_S = 6  # for one run with all depths: linear search of the longest queue takes minutes
KINDS = {"vector": "vector: 8 bytes of 16", "tile": "subarray: 128 bytes of 256", "struct": "struct: 32 bytes of 40 in three parts",
         "record": "resized struct: 16 bytes of 24"}


def depth_levels(modes, first):
    powers = [1 << bits for bits in range(0, 17, 2)]
    return depth_groups(modes, [0, 1], [n for n in powers if n >= first], [16, 1024, 16384], DEEP_LIMIT_S)


def mode_and_receives(line):
    return f"{line.get('mode', '')},_{line.get('receives', '')}"


def type_groups(what):
    return {"full": {name: (name, what, TYPE_SIZES) for name in KINDS},
            "short": {name: (name, what, TYPE_SIZES[::6]) for name in KINDS},
            "quick": {"tile": ("tile", what, [KIB])}}


ASKED = [
    Question("short", "Latency of short messages", "Two ranks on two cores play ping-pong; half of the time of a round trip.",
             [Figure("short", "latency, 8 B to 1 KiB", "ns", LATENCY_KEYS, "size",
                     aim=Aim("at most 0.90 of the better of ob1 and pml/ucx", 0.90, PEERS))],
             WAYS, {"full": 5, "short": 2, "quick": 1},
             {"full": {"to-1K": (SHORT, [], 60)}, "short": {"to-1K": (SHORT[::3], [], 60)},
              "quick": {"few": ([8], [], 10)}}, latency),
    Question("long", "Latency of long messages", "Two ranks on two cores play ping-pong; half of the time of a round trip.",
             [Figure("long", "latency, 4 KiB to 4 MiB", "ns", LATENCY_KEYS, "size",
                     aim=Aim("ahead of ob1 and pml/ucx", 1, PEERS))],
             THREE, {"full": 5, "short": 2, "quick": 1},
             {"full": {"to-4M": (LONG, [], 30)}, "short": {"to-4M": (LONG[::5], [], 30)},
              "quick": {"few": ([4 * KIB], [], 10)}}, latency),
    Question("bandwidth", "Bandwidth", "Windows of 64 messages one way, each answered by one message.",
             [Figure("bandwidth", "bandwidth, 4 KiB to 4 MiB", "MB/s", [("median_MB_per_s", "max_MB_per_s")], "size",
                     better="more", aim=Aim("ahead of ob1 and pml/ucx", 1, PEERS))],
             THREE, {"full": 5, "short": 1, "quick": 1},
             {"full": {"to-4M": LONG}, "short": {"to-4M": LONG[::5]}, "quick": {"few": [16 * KIB]}},
             stream("bw", "tag_bw")),
    Question("rate", "Message rate", "Windows of 64 short messages one way, each answered by one message.",
             [Figure("rate", "messages per second, 0 B to 1 KiB", "/s",
                     [("median_messages_per_s", "max_messages_per_s")], "size", better="more",
                     aim=Aim("at least 1.0 of the better of ob1 and pml/ucx", 1, PEERS))],
             WAYS, {"full": 5, "short": 2, "quick": 1},
             {"full": {"to-1K": RATES}, "short": {"to-1K": RATES[::4]}, "quick": {"few": [0, 8]}},
             stream("rate", "tag_bw")),
    Question("receive", "Receive of an unexpected message",
             "N messages of 8 bytes, each with its own tag, have arrived. MPI_Recv, exact or from ANY_SOURCE, receives them in "
             "order of arrival, or the newest message first. Time of one call. A run of all depths is stopped after "
             f"{DEEP_LIMIT_S} s.",
             [Figure("receive", "one receive", "ns", [("median_ns", "min_ns")], "depth", mode_and_receives,
                     aim=Aim("at most the better of ob1 and pml/ucx", 1, PEERS))],
             THREE, {"full": 5, "short": 1, "quick": 1}, depth_levels(["there", "there_back"], 1), depths,
             without=without_depths),
    Question("posted", "Posted receives, matched in reverse order",
             "N receives of 8 bytes, each with its own tag, are posted. Then the messages arrive in reverse order. Time of one "
             "message, from the first post to the last completion. A run of all depths is stopped after "
             f"{DEEP_LIMIT_S} s.",
             [Figure("posted", "one message", "ns", [("median_ns", "min_ns")], "depth", "receives",
                     aim=Aim("at most the better of ob1 and pml/ucx", 1, PEERS))],
             THREE, {"full": 5, "short": 1, "quick": 1}, depth_levels(["expected"], 16), depths, without=without_depths),
    Question("start", "A job that does nothing",
             "Time of MPI_Init and MPI_Finalize in rank 0, with 2 and with 32 ranks on two cores.",
             [Figure("init", "MPI_Init and MPI_Finalize", "ms", [("init_ms", "init_ms")], "ranks", add="finalize_ms",
                     aim=Aim("at most as long as with ob1", 1, ["ob1"]))],
             WAYS, {"full": 5, "short": 1, "quick": 1},
             {"full": {"2": 2, "32": 32}, "short": {"2": 2, "32": 32}, "quick": {"2": 2}}, starts, by_distance=False),
    Question("types-bandwidth", "Derived types: bandwidth",
             "Windows of 64 messages of a derived type at both ends, each answered by one message. The size counts "
             "the data without gaps.",
             [Figure("types-bandwidth", "bandwidth", "MB/s", [("median_MB_per_s", "max_MB_per_s")], "size",
                     lambda line: KINDS[line["type"]], better="more", aim=Aim("at least as much as with ob1", 1, ["ob1"]))],
             THREE, {"full": 5, "short": 1, "quick": 1}, type_groups("bw"), types),
    Question("types-latency", "Derived types: latency",
             "Two ranks on two cores play ping-pong with a derived type at both ends. The size counts the data without gaps.",
             [Figure("types-latency", "latency", "ns", LATENCY_KEYS, "size", lambda line: KINDS[line["type"]],
                     aim=Aim("at most as long as with ob1", 1, ["ob1"]))],
             THREE, {"full": 5, "short": 1, "quick": 1}, type_groups("lat"), types),
]
OPENMPI = Bench("openmpi", "The component for Open MPI and its aims", ASKED, WAYS, formats=("png",))
