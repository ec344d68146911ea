/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * caller.h - from the stack of this thread: the call of MPI, or of the library, that the
 * program is in, and where in the program it is.
 *
 * A walk of the stack takes some tens of microseconds, the first one more.  A thread that asks
 * often uses caller_address(): the distance between two return addresses on the stack is
 * usually the same each time, so it is learnt from one walk, and later calls take some ten
 * instructions for each function on the stack.
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

#define CALLER_STEPS 4096

/* The distances that were learnt, for callers that take turns.  Begins as zeros.  If two threads
 * use it alternately, each call is a walk. */
struct caller_learnt {
    struct caller_step {
        uint64_t address; /* a return address; 0: the entry is free */
        uint32_t distance;
        uint32_t uses; /* of the address that is the answer */
    } steps[CALLER_STEPS];
    /* a part of a stack of this thread that walks have seen: nothing is read outside */
    uint64_t thread, lowest, highest;
    uint64_t walks; /* so often the distances did not suffice, or were checked */
};

/* The address of caller_find(), or 0.  The distances are checked by a walk of the stack at
 * the 1st, 2nd, 4th, 8th ... use of an answer.  A distance that has changed is not used
 * again.  Nothing is read outside of the part of the stack that walks have seen, because a
 * program may have several stacks.  A program with thousands of places walks more often.  If a
 * call of MPI calls the program, and the program calls MPI, the address is of either call. */
uint64_t caller_address(struct caller_learnt *learnt);

/* Finds the file that is mapped at an address of this process: its path from the root, and in
 * *at the address as the symbols of that file count it.  0; -ENOENT no file is mapped there, or its name is too
 * long. */
int caller_place(uint64_t address, char path[CALLER_PATH], uint64_t *at);

#endif
