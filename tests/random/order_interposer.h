/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * order_interposer.h - a program on real endpoints, each compared with an oracle, and the
 * interposer that reports arrivals to the oracles.  Test code of order_test.c.
 *
 *   transport ──packet──> interposer ──> core    handles the packet
 *                             └────────> oracle  determines the correct result
 *
 * The interposer sees every packet that begins a message, so the oracle of each endpoint gets
 * arrivals in their real order.  The interposer sees no messages that wait at their sender:
 * when a receive has left the endpoint's queue but not the oracle's, the interposer asks it
 * which message it took.
 */
#ifndef TESTS_ORDER_INTERPOSER_H
#define TESTS_ORDER_INTERPOSER_H

#include "match/oracle.h"
#include "order_program.h"
#include "cluster.h"

#define IDS_MAX (2 * OPS_MAX) /* the end of a program receives the messages that are left */

/* The state of an operation. */
struct item {
    struct op op;
    bool is_live;    /* executed and not complete, or a claimed message */
    bool is_claimed; /* mprobe: held */
    bool is_taken;   /* message: a receive, mrecv or discard got it */
    bool is_here;    /* message: has arrived, or is claimed at its sender */
    bool is_cancelled;
    bool is_asked;     /* send: a cancel has returned 0 */
    bool is_withdrawn; /* ... and nobody gets the message */
    int got;           /* receive, mprobe: the message, or NOBODY */
    int completions;
    mbx_request request;
    mbx_message message;
    unsigned char *buf;
    struct mbx_layout layout; /* send, receive: of data in pieces */
    struct mbx_iovec parts[3];
};

struct run;

/* The interposer between an endpoint and its transport. */
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
    int next_id; /* for receives at the end */
    char why[256];
};

/* Records an error; only the first one counts. */
void wrong(struct run *run, const char *format, ...) __attribute__((format(printf, 2, 3)));

bool is_message(const struct op *op);

/* Would this receive, or probe, match the message? */
bool accepts(const struct op *recv, const struct op *message);

/* Has the sender withdrawn this message, so that nobody gets it? */
bool is_withdrawn(const struct run *run, const struct item *message);

/* Returns the first message below `before` from peer to who that recv accepts and that has not
 * arrived. */
int oldest_held(const struct run *run, int who, const struct op *recv, int peer, int before);

/* recv has got the message. */
void message_taken(struct run *run, int recv, int message);

/* Opens an endpoint, and its transport a second time with the interposer in between. */
void interposer_open(struct interposer *interposer);

/* Makes one round of progress.  Returns how much moved. */
int interposer_progress(struct interposer *interposer);

/* Reports receives that have pulled a message from its sender to the oracle. */
void interposer_taken(struct interposer *interposer);

#endif
