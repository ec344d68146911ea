/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * testing.h - additions to the library in a program that also links testing/.
 *
 *   MBX_TRANSPORT=loop, sim, count
 *                             transports of one process (loop/, sim/; count/: the smallest one)
 *   MBX_FAULT_PERCENT, _SEED  a transport around the chosen one, which makes rare events
 *                             frequent (fault/)
 *   MBX_FAULT_DIE             the process dies at a place with that name (fault/failpoints.h)
 *   MBX_FAULT_HOST            processes treat each other as processes of other machines
 *   MBX_ADVERT, ...             parameters that users do not set (core/tuning.h)
 *
 * The library knows none of this; testing.c registers it (transport_extension, tuning_extension,
 * failpoint_hook) before main().
 */
#ifndef TESTING_TESTING_H
#define TESTING_TESTING_H

#include "transport/transport.h"

/* The content of transport_settings.extension. */
struct testing_settings {
    uint64_t loop_depth;    /* packets that a link of loop can hold; 0: default */
    uint64_t fault_percent; /* frequency of disturbed send, deliver, read */
    uint64_t fault_seed;
    char fault_die[PARAM_STRING_MAX]; /* where to die; "": nowhere */
};

static_assert(sizeof(struct testing_settings) <= TRANSPORT_EXTENSION_SIZE, "there is space");

#define TESTING_AT(field)                                                                      \
    (offsetof(struct transport_settings, extension) + offsetof(struct testing_settings, field))

static inline struct testing_settings *testing_settings(struct transport_settings *settings)
{
    return (struct testing_settings *)(void *)settings->extension;
}

static inline const struct testing_settings *
testing_settings_of(const struct transport_settings *settings)
{
    return (const struct testing_settings *)(const void *)settings->extension;
}

#endif
