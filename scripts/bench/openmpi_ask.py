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
    Question("short", "Half a round trip of short messages", "Two ranks on two cores play ping-pong.",
             [Figure("short", "half a round trip, 8 B to 1 KiB", "ns", LATENCY_KEYS, "size",
                     aim=Aim("at most 0.90 of the better of ob1 and pml/ucx", 0.90, PEERS))],
             WAYS, {"full": 5, "short": 2, "quick": 1},
             {"full": {"to-1K": (SHORT, [], 60)}, "short": {"to-1K": (SHORT[::3], [], 60)},
              "quick": {"few": ([8], [], 10)}}, latency),
    Question("long", "Half a round trip of long messages", "Two ranks on two cores play ping-pong.",
             [Figure("long", "half a round trip, 4 KiB to 4 MiB", "ns", LATENCY_KEYS, "size",
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
             [Figure("rate", "messages in a second, 0 B to 1 KiB", "/s",
                     [("median_messages_per_s", "max_messages_per_s")], "size", better="more",
                     aim=Aim("at least 1.0 of the better of ob1 and pml/ucx", 1, PEERS))],
             WAYS, {"full": 5, "short": 2, "quick": 1},
             {"full": {"to-1K": RATES}, "short": {"to-1K": RATES[::4]}, "quick": {"few": [0, 8]}},
             stream("rate", "tag_bw")),
    Question("receive", "Receive of a message that is there",
             "N messages of 8 bytes with tags of their own have arrived; MPI_Recv of each, exact or from ANY_SOURCE, in the "
             f"order of arrival or the newest first. Time of one call. A run of all depths is stopped after {DEEP_LIMIT_S} s.",
             [Figure("receive", "one receive", "ns", [("median_ns", "min_ns")], "depth", mode_and_receives,
                     aim=Aim("at most the better of ob1 and pml/ucx", 1, PEERS))],
             THREE, {"full": 5, "short": 1, "quick": 1}, depth_levels(["there", "there_back"], 1), depths,
             without=without_depths),
    Question("posted", "Posted receives, met in reverse",
             "N receives of 8 bytes with tags of their own are posted, then met by messages that come in the "
             "reverse order. Time of one message, from the first post to the last completion. A run of all depths is "
             f"stopped after {DEEP_LIMIT_S} s.",
             [Figure("posted", "one message", "ns", [("median_ns", "min_ns")], "depth", "receives",
                     aim=Aim("at most the better of ob1 and pml/ucx", 1, PEERS))],
             THREE, {"full": 5, "short": 1, "quick": 1}, depth_levels(["expected"], 16), depths, without=without_depths),
    Question("start", "A job that does nothing",
             "MPI_Init and MPI_Finalize, as rank 0 sees them, with 2 ranks on two cores and 32 that share them.",
             [Figure("init", "MPI_Init and MPI_Finalize", "ms", [("init_ms", "init_ms")], "ranks", add="finalize_ms",
                     aim=Aim("not above ob1's", 1, ["ob1"]))],
             WAYS, {"full": 5, "short": 1, "quick": 1},
             {"full": {"2": 2, "32": 32}, "short": {"2": 2, "32": 32}, "quick": {"2": 2}}, starts, by_distance=False),
    Question("types-bandwidth", "Derived types: bandwidth",
             "Windows of 64 messages of a derived type at both ends, each answered by one message. The size is that of "
             "the data.",
             [Figure("types-bandwidth", "bandwidth", "MB/s", [("median_MB_per_s", "max_MB_per_s")], "size",
                     lambda line: KINDS[line["type"]], better="more", aim=Aim("at least ob1's", 1, ["ob1"]))],
             THREE, {"full": 5, "short": 1, "quick": 1}, type_groups("bw"), types),
    Question("types-latency", "Derived types: half a round trip",
             "Two ranks on two cores play ping-pong with a derived type at both ends. The size is that of the data.",
             [Figure("types-latency", "half a round trip", "ns", LATENCY_KEYS, "size", lambda line: KINDS[line["type"]],
                     aim=Aim("not above ob1's", 1, ["ob1"]))],
             THREE, {"full": 5, "short": 1, "quick": 1}, type_groups("lat"), types),
]
OPENMPI = Bench("openmpi", "The component for Open MPI and its aims", ASKED, WAYS, formats=("png",))
