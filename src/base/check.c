/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * check.c - reports a condition that does not hold; see check.h.
 */
#include "base/check.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

bool check_failed(const char *invariant, const char *condition, const char *file, int line)
{
    const char *name = strrchr(file, '/');

    dprintf(STDERR_FILENO, "matchbox: broken invariant %s: %s (%s:%d)\n", invariant, condition,
            name != NULL ? name + 1 : file, line);
    return false;
}
