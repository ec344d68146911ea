/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * version.c - see version.h.
 */
#include "transport/version.h"

#include <stdio.h>

#include "base/log.h"
#include "matchbox/matchbox.h"
#include "wire/wire.h"

#define TEXT_SIZE 64

struct version version_own(uint8_t format)
{
    return (struct version){
        .format = format,
        .packets = WIRE_VERSION,
        .major = MBX_VERSION_MAJOR,
        .minor = MBX_VERSION_MINOR,
        .patch = MBX_VERSION_PATCH,
    };
}

bool version_is_understood(const struct version *theirs, uint8_t format)
{
    return theirs->format == format && theirs->packets == WIRE_VERSION;
}

/* Includes the formats: development versions with the same number may differ only in them. */
static void version_describe(const struct version *v, char text[TEXT_SIZE])
{
    if (v->packets == 0)
        snprintf(text, TEXT_SIZE, "an earlier version of Matchbox");
    else
        snprintf(text, TEXT_SIZE, "Matchbox %u.%u.%u (formats %u and %u)", v->major, v->minor,
                 v->patch, v->format, v->packets);
}

void version_warn(const char *transport, const char *who, const struct version *theirs,
                  uint8_t format)
{
    const struct version own = version_own(format);
    char one[TEXT_SIZE], other[TEXT_SIZE];

    version_describe(theirs, one);
    version_describe(&own, other);
    LOG_WARN("%s: %s has %s, this process has %s: both processes must use the same version of "
             "Matchbox",
             transport, who, one, other);
}
