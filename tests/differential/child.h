/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * child.h - an engine in a process of its own, so that it may crash or hang.  Test code.
 */
#ifndef DIFFERENTIAL_CHILD_H
#define DIFFERENTIAL_CHILD_H

#include <sys/types.h>

#include "engine.h"

/* An engine as given by --engine KIND[:ARGUMENT]. */
struct engine_name {
    const struct engine_kind *kind;
    const char *argument; /* or NULL */
    const char *text;     /* the whole option */
    bool is_patient;
};

struct child {
    struct engine_name name;
    char version[ENGINE_VERSION_SIZE];
    unsigned can;
    pid_t pid; /* 0: not running */
    int socket;
    char death[64]; /* how it died */
};

/* Starts the process and its engine.  Returns 0 or the error of create(); -EIO: the process
 * died. */
int child_start(struct child *c, const struct engine_name *name);
void child_stop(struct child *c);

/* Makes the engine execute h, from empty queues. answers[0 .. returned) are its answers; fewer
 * than h->count if the last is ANSWER_STALLED or ANSWER_DIED.  After those the child is started
 * again for the next history. */
int child_run(struct child *c, const struct history *h, int *answers);

#endif
