# SPDX-License-Identifier: BSD-3-Clause
"""looks.py - looks at a job until what must be seen is seen.

On a busy machine a rank may not answer in time, or not yet be where it gets stuck: it is looked at again, and only what hangs
is given up.
"""
import time

from patience import PATIENCE_S


def looks():
    """The numbers of the looks that are left."""
    until = time.monotonic() + PATIENCE_S
    look = 0
    while look == 0 or time.monotonic() < until:
        yield look
        look += 1
