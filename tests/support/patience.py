# SPDX-License-Identifier: BSD-3-Clause
"""patience.py - how long a test waits for anything at all.

The limit only ends a test that hangs, before meson ends it, so that the test can report what hung.  A busy machine must
not make a test fail.
"""
import os

PATIENCE_S = int(os.environ.get("TEST_PATIENCE_S", 900))  # scripts/check/mutants sets it: its mutants hang
