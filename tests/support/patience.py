# SPDX-License-Identifier: BSD-3-Clause
"""patience.py - how long a test waits for anything at all.

The limit only ends what hangs, before meson ends it, so that the test can say what hung.  How long a machine that is busy
takes is no fault of what is tested.
"""
PATIENCE_S = 900
