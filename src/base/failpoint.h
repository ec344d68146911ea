/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * failpoint.h - places at which a test may end this process.
 *
 * The library has places with names, and does nothing there: a program that wants to do something
 * sets the hook before it opens anything.  testing/ does.
 */
#ifndef BASE_FAILPOINT_H
#define BASE_FAILPOINT_H

#include <stdbool.h>
#include <stddef.h>

/* Glossary: failpoint - a named place where a test lets a process die or a call fail */
/* settings: those of the endpoint that is concerned, as the transport knows them. */
struct failpoint_hook {
    bool (*is_wanted)(const void *settings); /* by this endpoint, asked once */
    void (*reached)(const void *settings, const char *place);
};

extern const struct failpoint_hook *failpoint_hook; /* NULL: nobody wants to know */

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
