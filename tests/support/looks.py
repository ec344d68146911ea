# SPDX-License-Identifier: BSD-3-Clause
"""looks.py - looks at a job until what must be seen is seen.

On a busy machine a rank may not answer in time, or not yet be where it gets stuck: there are at least TRIES
looks, and as many as there are in SEEN_S.
"""
import time

TRIES = 60
SEEN_S = 60


def looks():
    """The numbers of the looks that are left."""
    until = time.monotonic() + SEEN_S
    look = 0
    while look < TRIES or time.monotonic() < until:
        yield look
        look += 1
