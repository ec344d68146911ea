/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * caller.h - from the stack of this thread: the call of MPI, or of the library, that the
 * program is in, and where in the program it is.
 *
 * A walk of the stack takes some tens of microseconds, the first one more.
 */
#ifndef BASE_CALLER_H
#define BASE_CALLER_H

#include <stdint.h>

#define CALLER_CALL   40
#define CALLER_FRAMES 24
#define CALLER_PATH   1024

struct caller {
    /* "MPI_Recv": the outermost call of MPI, or, if there is none, of the library; or empty */
    char call[CALLER_CALL];
    uint64_t address; /* where that call returns to in the program; or 0 */
    int count;        /* of frames */
    uint64_t frames[CALLER_FRAMES];
};

void caller_find(struct caller *caller);

/* Finds the file that is mapped at an address of this process: its path, and in *at the address
 * as the symbols of that file count it.  0; -ENOENT no file is mapped there, or its name is too
 * long. */
int caller_place(uint64_t address, char path[CALLER_PATH], uint64_t *at);

#endif
