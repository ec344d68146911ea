/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * temporary.h - names of a test's temporary files: in the folder that tests/support/guard.c
 * removes in the end, or in /tmp.  Test code.
 */
#ifndef BASE_TEMPORARY_H
#define BASE_TEMPORARY_H

#include <stdio.h>

#include "base/environ.h"

#define TEMPORARY_SIZE 128

/* A name for mkstemp() or mkdtemp(), in out. */
static inline char *temporary_name(char out[TEMPORARY_SIZE], const char *name)
{
    const char *folder = environ_get("TMPDIR");

    snprintf(out, TEMPORARY_SIZE, "%s/%s.XXXXXX", folder != NULL ? folder : "/tmp", name);
    return out;
}

/* Writes a temporary file to the output of the test, which is there longer. */
static inline void temporary_show(const char *path)
{
    FILE *file = fopen(path, "re");
    char line[512];

    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        fputs(line, stderr);
    if (file != NULL)
        fclose(file);
}

#endif
