/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oracle.h - the rules of matching, in the simplest code.  Test code.
 *
 * Two vectors in age order and linear scans.  Receives and messages are numbers of the caller;
 * -1 is none.
 */
#ifndef MATCH_ORACLE_H
#define MATCH_ORACLE_H

#include <matchbox/match.h>

#define ORACLE_MAX 1024

struct oracle_entry {
    struct mbx_match_envelope envelope;
    uint64_t ignore; /* of a receive */
    int id;
};

struct oracle_queue {
    int count;
    struct oracle_entry entries[ORACLE_MAX]; /* oldest first */
};

/* Oracle: a page of linear scans that states the rules of MPI; tests compare every
 * matcher with it */
struct oracle {
    struct oracle_queue recvs, msgs;
};

void oracle_init(struct oracle *o);

/* The message that the receive takes, or -1 and the receive waits. */
int oracle_post(struct oracle *o, struct mbx_match_envelope envelope, uint64_t ignore, int id);

/* The receive that takes the message, or -1 and the message waits. */
int oracle_arrive(struct oracle *o, struct mbx_match_envelope envelope, int id);

/* As oracle_arrive(), but on -1 nothing waits. */
int oracle_find(struct oracle *o, struct mbx_match_envelope envelope);

/* The message that such a receive would take, or -1. */
int oracle_peek(const struct oracle *o, struct mbx_match_envelope envelope, uint64_t ignore);

/* Did it wait?  If so, it is removed. */
bool oracle_cancel(struct oracle *o, int id);
bool oracle_extract(struct oracle *o, int id);

#endif
