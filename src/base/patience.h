/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * patience.h - how long a test waits for anything at all.
 *
 * The limit only ends what hangs, before meson ends it, so that the test can say what hung.  How long a machine that is
 * busy takes is no fault of what is tested.  Test code.
 */
#ifndef BASE_PATIENCE_H
#define BASE_PATIENCE_H

#include <stdint.h>

#define PATIENCE_S  900
#define PATIENCE_MS (PATIENCE_S * 1000)
#define PATIENCE_NS (PATIENCE_S * INT64_C(1000000000))

#endif
