/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * names.h - names that a program sets, so that traces, statistics and the log use its words:
 * the meaning of its envelopes, and the names of context ids and peers.  Nothing else depends
 * on them, and without names no memory is used.
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
    uint32_t id, size; /* size: the number of its ranks; 0: not known */
    uint32_t change;   /* value of ep->names.changes when it was named */
    char name[NAMES_TEXT_MAX];
};

struct named_peer {
    uint32_t job, rank;
    uint32_t change; /* 0: not named */
};

/* Written by names.c. */
struct ep_names {
    char program[NAMES_TEXT_MAX]; /* WAY VERSION, inspect/mpi.h; empty: not set */
    uint32_t program_change;
    struct named_context *contexts;
    uint32_t context_count, context_slots;
    struct named_peer *peers; /* by number, up to peer_slots */
    uint32_t peer_slots;
    bool has_others;  /* a peer was named that belongs to another job */
    uint32_t changes; /* grows with each call that sets a new name */
};

/* In report.c: lines at info level; none if the program has not named itself. */
void report_start(const struct mbx_ep *ep);
void report_end(const struct mbx_ep *ep);

/* A warning when the first operation that needs peer ends with this error.  Only for a program
 * that uses the provider: no other line is shown there, and the component has its own. */
void report_end_of(const struct mbx_ep *ep, struct peer *peer, int error);

/* As report_end_of(), for a peer that was found dead and that perhaps no operation needs.  Only
 * if the peer has ever identified itself: of a peer without any contact it is not known whether
 * it closed its endpoint before it ended. */
void report_death_of(const struct mbx_ep *ep, struct peer *peer);

/* A warning for the first injected message to peer that was lost. */
void report_lost(const struct mbx_ep *ep, struct peer *peer, int error);

void names_fini(struct mbx_ep *ep);

/* This number no longer belongs to a peer. */
void names_forget_peer(struct mbx_ep *ep, uint32_t number);

/* The name of this context id, or NULL. */
const struct named_context *names_context(const struct mbx_ep *ep, uint32_t id);

/* The name of this peer, or NULL. */
const struct named_peer *names_peer(const struct mbx_ep *ep, uint32_t number);

#define NAMES_PEER_TEXT 64

/* "rank 3", "rank 0 of job 7" for a named peer, "peer 3" for others.  Returns text. */
const char *names_peer_text(const struct mbx_ep *ep, uint32_t number,
                            char text[NAMES_PEER_TEXT]);

#endif
