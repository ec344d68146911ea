/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * names.h - what a program has said of itself, so that traces, statistics and the log speak its
 * words: what its envelopes mean, and the names of context ids and peers.  Nothing else depends on
 * it, and where nothing was said there is no memory.
 */
#ifndef CORE_NAMES_H
#define CORE_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NAMES_TEXT_MAX 128

struct mbx_ep;
struct peer;

struct named_context {
    uint32_t id, size; /* size: its ranks; 0: not known */
    uint32_t change;   /* of ep->names.changes, when it was named */
    char name[NAMES_TEXT_MAX];
};

struct named_peer {
    uint32_t job, rank;
    uint32_t change; /* 0: it was not named */
};

/* names.c */
struct ep_names {
    char program[NAMES_TEXT_MAX]; /* WAY VERSION, inspect/mpi.h; empty: nothing was said */
    uint32_t program_change;
    struct named_context *contexts;
    uint32_t context_count, context_slots;
    struct named_peer *peers; /* by number, those below peer_slots */
    uint32_t peer_slots;
    uint32_t changes; /* grows with each call that says something new */
};

/* report.c: lines at info; nothing if the program has not named itself. */
void report_start(const struct mbx_ep *ep);
void report_end(const struct mbx_ep *ep);

/* A warning, the first time that something which needs peer ends with this error.  For a program that came
 * through the provider, which no other line reaches: the component has its own. */
void report_end_of(const struct mbx_ep *ep, struct peer *peer, int error);

/* The same, of a peer that was found dead and that no operation may need: only if it has ever said who it is.  Of one that
 * we never had to do with nobody can know whether it had closed before it ended. */
void report_death_of(const struct mbx_ep *ep, struct peer *peer);

/* A warning for the first injected message to peer that was lost. */
void report_lost(const struct mbx_ep *ep, struct peer *peer, int error);

void names_fini(struct mbx_ep *ep);

/* This number names nobody any more. */
void names_forget_peer(struct mbx_ep *ep, uint32_t number);

/* What was said of this context id, or NULL. */
const struct named_context *names_context(const struct mbx_ep *ep, uint32_t id);

/* What was said of this peer, or NULL. */
const struct named_peer *names_peer(const struct mbx_ep *ep, uint32_t number);

#define NAMES_PEER_TEXT 64

/* "rank 3", "rank 0 of job 7" for a peer that was named, "peer 3" for others.  text. */
const char *names_peer_text(const struct mbx_ep *ep, uint32_t number,
                            char text[NAMES_PEER_TEXT]);

#endif
