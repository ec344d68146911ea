/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * patience.h - how long a test waits for anything.
 *
 * The limit only ends a test that hangs, before meson ends it, so that the test can report what
 * hung.  The delays of a busy machine are no fault of the tested code.  Test code.
 */
#ifndef BASE_PATIENCE_H
#define BASE_PATIENCE_H

#include <stdint.h>

#define PATIENCE_S  900
#define PATIENCE_MS (PATIENCE_S * 1000)
#define PATIENCE_NS (PATIENCE_S * INT64_C(1000000000))

#endif
