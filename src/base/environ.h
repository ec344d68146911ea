/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * environ.h - the one place where the environment is read.
 *
 * A program may have more rights than the user who starts it: its file is set-user-ID or set-group-ID,
 * or has capabilities (the kernel's AT_SECURE).  Its environment is that user's, and variables of ours name
 * libraries to load, programs to execute and files to write.  So in such a program
 * ENVIRON_HARMLESS is the only variable that is read: MBX_*, FI_MATCHBOX_*, PATH and a
 * launcher's variables are not, whichever code reads them.  Settings by the program itself (the
 * overrides of mbx_open()) have effect as always.
 */
#ifndef BASE_ENVIRON_H
#define BASE_ENVIRON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#define ENVIRON_HARMLESS "MBX_LOG_LEVEL"

/* Does the program have rights that its caller does not have? */
static inline bool environ_is_privileged(void)
{
    return getauxval(AT_SECURE) != 0;
}

/* The value of a variable, or NULL. */
static inline const char *environ_get(const char *name)
{
    if (environ_is_privileged() && strcmp(name, ENVIRON_HARMLESS) != 0)
        return NULL;
    return getenv(name);
}

/* The variables that ask for a record, a replay or a random order of events: the next one from *next on that
 * is set, or NULL. */
static inline const char *environ_next_order(size_t *next)
{
    static const char *const names[] = {"MBX_RECORD", "MBX_REPLAY", "MBX_SHUFFLE"};

    while (*next < sizeof names / sizeof names[0]) {
        const char *name = names[(*next)++], *value = environ_get(name);

        if (value != NULL && value[0] != '\0')
            return name;
    }
    return NULL;
}

#endif
