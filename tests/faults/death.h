/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * death.h - what three processes play while death_test.c lets one of them die.
 *
 * A scene checks in each survivor what the head of death_test.c says; a survivor for which it does not hold exits.
 */
#ifndef FAULTS_DEATH_H
#define FAULTS_DEATH_H

#include <stdbool.h>
#include <stddef.h>

#include "forked_job.h"

#define RANKS      3
#define SCENES_MAX 32

struct scene {
    const char *name;
    void (*receiver)(struct forked_job *job, const struct scene *scene, int victim,
                     struct mbx_ep *ep);
    void (*sender)(struct forked_job *job, const struct scene *scene, int victim,
                   struct mbx_ep *ep, int rank);
    const char *params[6]; /* ends with NULL */
    size_t size;
    bool is_sync;
    bool is_late;     /* messages arrive before their receives */
    bool is_directed; /* no receive is from any source */
    bool is_packed;   /* the data of sends is in pieces */
    bool is_unpacked; /* the data of receives is in pieces */
    bool is_waited;   /* the first message is received before the others are sent */
};

extern const struct scene death_scenes[];
extern const int death_scene_count; /* at most SCENES_MAX */

/* Do the ranks use a network?  Set before a scene is played. */
extern bool death_is_network;

#endif
