/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * death.c - dying at a point, or being seen there.
 */
#include "base/death.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAME_MAX_BYTES 64

static death_witness_fn *witness;
static void *witness_arg;

void death_set_witness(death_witness_fn *fn, void *arg)
{
    witness = fn;
    witness_arg = arg;
}

_Noreturn void death_now(void)
{
    kill(getpid(), SIGKILL);
    abort(); /* not reached: nothing holds that signal back */
}

void death_come_by(const char *wanted, const char *prefix, const char *name)
{
    char point[NAME_MAX_BYTES];

    snprintf(point, sizeof point, "%s%s", prefix, name);
    if (witness != NULL)
        witness(witness_arg, point);
    if (strcmp(wanted, point) == 0)
        death_now();
}
