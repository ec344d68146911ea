/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * failpoint.h - places at which a test may end this process.
 *
 * The library has named places, and does nothing there.  A program that needs them sets the
 * hook before it opens anything, as testing/ does.
 */
#ifndef BASE_FAILPOINT_H
#define BASE_FAILPOINT_H

#include <stdbool.h>
#include <stddef.h>

/* Failpoint: a named place where a test lets a process die or a call fail */
/* settings: the endpoint's, as the transport knows them. */
struct failpoint_hook {
    bool (*is_wanted)(const void *settings); /* does this endpoint use failpoints?  Called
                                                once */
    void (*reached)(const void *settings, const char *place);
};

extern const struct failpoint_hook *failpoint_hook; /* NULL: failpoints are not used */

static inline bool failpoint_is_wanted(const void *settings)
{
    return failpoint_hook != NULL && failpoint_hook->is_wanted(settings);
}

static inline void failpoint_reached(const void *settings, const char *place)
{
    if (failpoint_hook != NULL)
        failpoint_hook->reached(settings, place);
}

#endif
