/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * failpoints.c - dying at a place, or reporting it.
 */
#include "testing/fault/failpoints.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "trace/trace.h"
#include "wire/wire.h"

#define NAME_MAX_BYTES 64

static failpoint_witness_fn *witness;
static void *witness_arg;

void failpoint_set_witness(failpoint_witness_fn *fn, void *arg)
{
    witness = fn;
    witness_arg = arg;
}

_Noreturn void failpoint_die(void)
{
    kill(getpid(), SIGKILL);
    abort(); /* not reached: SIGKILL cannot be blocked */
}

void failpoint_reach(const char *wanted, const char *prefix, const char *name)
{
    char place[NAME_MAX_BYTES];

    snprintf(place, sizeof place, "%s%s", prefix, name);
    if (witness != NULL)
        witness(witness_arg, place);
    if (strcmp(wanted, place) == 0)
        failpoint_die();
}

/* ---- which there are ---- */

static bool is_packet(const char *name)
{
    for (unsigned type = 1; type < WIRE_TYPES; type++)
        if (strcmp(name, wire_type_name(type)) == 0)
            return true;
    return false;
}

static bool is_event(const char *name)
{
    for (unsigned type = 1; type < TRACE_TYPES; type++)
        if (!trace_is_name(type) && !trace_is_travel(type) &&
            strcmp(name, trace_type_name(type)) == 0)
            return true;
    return false;
}

int failpoint_check(const char *place)
{
    if (place[0] == '\0' || strcmp(place, FAILPOINT_NOWHERE) == 0 || is_event(place) ||
        strcmp(place, FAILPOINT_READING) == 0 || strcmp(place, FAILPOINT_WRITING) == 0 ||
        (strncmp(place, FAILPOINT_SENT, strlen(FAILPOINT_SENT)) == 0 &&
         is_packet(place + strlen(FAILPOINT_SENT))) ||
        (strncmp(place, FAILPOINT_GOT, strlen(FAILPOINT_GOT)) == 0 &&
         is_packet(place + strlen(FAILPOINT_GOT))))
        return 0;
    LOG_ERROR("MBX_FAULT_DIE= %s : there is no such place", place);
    return -EINVAL;
}
