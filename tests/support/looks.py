# SPDX-License-Identifier: BSD-3-Clause
"""looks.py - looks at a job repeatedly until it shows the expected state.

On a busy machine a rank may not answer in time, or may not have reached the place where it gets stuck: so the test
looks again, and gives up only a job that hangs.
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
