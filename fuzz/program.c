/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * program.c - how a fuzz target that has found an error ends.
 */
#include "fuzz/program.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

void require(bool ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "%s: %s\n", program_invocation_short_name, what);
    abort();
}
