/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * check.h - conditions that always hold, and builds that check them.
 *
 * An assert checks what one function relies on; it costs a few instructions, and is in every
 * build.  The functions NAME_is_valid() walk whole structures and compare their parts, which is
 * too slow for users: they are in the library, and called, in builds with MBX_CHECKS (meson:
 * -Dchecks, on where tests are built).
 *
 *   return HOLDS("backlog.c I6", backlog->locks <= backlog->claims) &&
 *          HOLDS("backlog.c I2", ...);
 *
 * Each condition has the name of its invariant: the file, and the number in the list at the
 * head of that file.  A condition that does not hold is reported on standard error.
 */
#ifndef BASE_CHECK_H
#define BASE_CHECK_H

#include <stdbool.h>

#include "base/compiler.h"

#ifndef MBX_CHECKS
#define MBX_CHECKS 0
#endif

/* Is the condition true?  If not, it is reported. */
#define HOLDS(invariant, condition)                                                            \
    (likely(condition) || check_failed(invariant, #condition, __FILE__, __LINE__))

/* Reports to standard error, not through the log, which a test may have silenced.  Returns
 * false. */
bool check_failed(const char *invariant, const char *condition, const char *file, int line);

#endif
