/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * races_pair.h - which send and which arrival of the traces are one message.
 *
 * tools/trace knows that as well, but keeps all that happened to a message on its way, which is several times as much: mbx races
 * reads jobs of millions of messages.
 */
#ifndef TOOLS_RACES_PAIR_H
#define TOOLS_RACES_PAIR_H

#include "base/hash.h"
#include "tools/trace/trace_job.h"

/* A send, or an arrival. */
struct half {
    uint64_t tag;
    uint32_t peer; /* the rank of the other side, or JOB_NOBODY */
    uint32_t context_id;
    uint32_t event; /* of its file, from 1 on */
    union {
        uint32_t post;  /* of an arrival: the event that posted its receive; or 0 */
        uint32_t empty; /* of a send: 1, it has no bytes */
    };
    uint32_t
        message; /* the number of the send; JOB_NOBODY: the other side of the arrival, or the receiver of a send, is not there */
};

/* Those of one file: halves [first, first + count). */
struct half_range {
    size_t first, count;
};

struct halves {
    struct half *all;
    size_t count;
    uint32_t slots;
    struct half_range *of_rank;
};

struct pairs {
    struct halves sends, arrivals;
    uint32_t messages; /* that have a sender and a receiver */
    /* while the files are read */
    struct hash names; /* of one file */
    uint32_t rank;
};

/* Reads the traces of a job, and pairs what they say.  Messages are numbered by sender.  0; -ENOMEM.  Undone by pairs_free(), and
 * job_free(), in both cases. */
int pairs_read(struct pairs *pairs, struct job *traces, char **paths, size_t count);
void pairs_free(struct pairs *pairs);

#endif
