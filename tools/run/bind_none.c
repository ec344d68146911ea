/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bind_none.c - replaces bind.c in a build without hwloc.
 */
#include "bind.h"

#include <errno.h>

int bind_plan(cpu_set_t *sets, uint32_t count)
{
    (void)sets;
    (void)count;
    return -ENOTSUP;
}
