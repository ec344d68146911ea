/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * environ.h - the one place where the environment is read.
 *
 * A program may have more rights than the user who starts it: its file is set-user-ID or set-group-ID,
 * or has capabilities (the kernel's AT_SECURE).  Its environment is that user's, and variables of ours name
 * libraries to load, programs to execute and files to write.  So such a program reads no variable but
 * ENVIRON_HARMLESS, whoever asks: MBX_*, FI_MATCHBOX_*, a launcher's, PATH.  What the program itself says (the
 * overrides of mbx_open()) counts as always.
 */
#ifndef BASE_ENVIRON_H
#define BASE_ENVIRON_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#define ENVIRON_HARMLESS "MBX_LOG_LEVEL"

/* Has the program rights that its caller has not? */
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

#endif
