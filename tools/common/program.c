/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * program.c - see program.h.
 *
 * The bytes of the file are searched for the names.  A program that only mentions a library, as this
 * one does, has its name without a version.
 */
#include "program.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"

#define PIECE   65536
#define OVERLAP 32                 /* a name may span two pieces */
#define MOST    ((size_t)64 << 20) /* of a file: the name of its MPI comes earlier */

enum { MPI, MPICH, NAMES };

/* The names that a file contains, and their versions. */
struct named {
    bool is_there[NAMES];
    int version[NAMES];
};

static void look(const char *bytes, size_t size, struct named *named)
{
    static const char *const names[NAMES] = {[MPI] = "libmpi.so.", [MPICH] = "libmpich.so."};

    for (int i = 0; i < NAMES; i++) {
        const char *at = bytes, *end = bytes + size;
        size_t length = strlen(names[i]);

        while ((at = memmem(at, (size_t)(end - at), names[i], length)) != NULL) {
            int version = 0, digits = 0;

            for (at += length; at < end && *at >= '0' && *at <= '9' && digits < 4; digits++)
                version = 10 * version + (*at++ - '0');
            if (digits > 0 && at < end) { /* a cut name is complete in the next piece */
                named->is_there[i] = true;
                named->version[i] = version;
            }
        }
    }
}

static struct named names_in(const char *path)
{
    static char bytes[OVERLAP + PIECE];
    struct named named = {{false, false}, {0, 0}};
    FILE *file = fopen(path, "rb");
    size_t kept = 0, all = 0, got;

    while (file != NULL && all < MOST && !named.is_there[MPI] && !named.is_there[MPICH] &&
           (got = fread(bytes + kept, 1, PIECE, file)) > 0) {
        size_t size = kept + got;

        if (all == 0 && got > 1 && memcmp(bytes, "#!", 2) == 0)
            break;
        all += got;

        look(bytes, size, &named);
        kept = min_size(size, OVERLAP);
        memmove(bytes, bytes + size - kept, kept);
    }
    if (file != NULL)
        fclose(file);
    return named;
}

enum program_mpi program_mpi(const char *path)
{
    struct named named = names_in(path);

    if (named.is_there[MPICH] || (named.is_there[MPI] && named.version[MPI] == 12))
        return PROGRAM_MPICH;
    if (named.is_there[MPI])
        return named.version[MPI] == 40 ? PROGRAM_OPEN_MPI : PROGRAM_OTHER_MPI;
    return PROGRAM_NO_MPI;
}
