/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * order_interposer.h - a program on real endpoints beside an oracle for each, and what tells the
 * oracles of arrivals.  Test code of order_test.c.
 *
 *   transport ──packet──> interposer ──> core    what it makes of the packet
 *                             └────────> oracle  what it should have made of it
 *
 * The interposer sees every packet that begins a message, so the oracle of each endpoint is told
 * of arrivals in the order in which they really came.  Messages that wait at their sender do not
 * come by: when a receive has left the endpoint's queue but not the oracle's, the interposer asks
 * it which message it took.
 */
#ifndef TESTS_ORDER_INTERPOSER_H
#define TESTS_ORDER_INTERPOSER_H

#include "match/oracle.h"
#include "order_program.h"
#include "cluster.h"

#define IDS_MAX (2 * OPS_MAX) /* the end receives what is left */

/* What has become of an operation. */
struct item {
    struct op op;
    bool is_live;    /* it was done and will complete, or is a claimed message */
    bool is_claimed; /* mprobe: held */
    bool is_taken;   /* message: a receive, mrecv or discard got it */
    bool is_here;    /* message: it has come, or is claimed where it waits */
    bool is_cancelled;
    bool is_asked;     /* send: a cancel has returned 0 */
    bool is_withdrawn; /* ... and nobody gets it */
    int got;           /* receive, mprobe: the message, or NOBODY */
    int completions;
    mbx_request request;
    mbx_message message;
    unsigned char *buf;
    struct mbx_layout layout; /* send, receive: of the data, if it is in pieces */
    struct mbx_iovec parts[3];
};

struct run;

/* Between an endpoint and its transport. */
struct interposer {
    struct run *run;
    int who;
    struct mbx_ep *ep;
};

struct run {
    const struct program *program;
    struct interposer interposers[EPS_MAX];
    struct oracle oracles[EPS_MAX];
    struct item items[IDS_MAX];
    int next_id; /* for receives of the end */
    char why[256];
};

/* The first thing that is wrong is what counts. */
void wrong(struct run *run, const char *format, ...) __attribute__((format(printf, 2, 3)));

bool is_message(const struct op *op);

/* Would this receive, or probe, take the message? */
bool accepts(const struct op *recv, const struct op *message);

/* Has its sender taken this message back, and nobody gets it? */
bool is_withdrawn(const struct run *run, const struct item *message);

/* The first message below `before` from peer to who that recv accepts and that has not come. */
int oldest_held(const struct run *run, int who, const struct op *recv, int peer, int before);

/* recv has got the message. */
void message_taken(struct run *run, int recv, int message);

/* Opens an endpoint, and its transport a second time with the interposer in between. */
void interposer_open(struct interposer *interposer);

/* One round of progress; how much moved. */
int interposer_progress(struct interposer *interposer);

/* Tells the oracle of receives that have taken a message where it waits. */
void interposer_taken(struct interposer *interposer);

#endif
