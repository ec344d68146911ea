/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * handoff_testing.h - shared code of the tests of split endpoints: halves that record what they
 * received, in memory that outlives them.
 *
 * A half is the owner of an endpoint, or has taken it over; its peers are on the board: peer i
 * has board->address[i].  All packets delivered to it are recorded in notes, which both halves
 * of an endpoint share, across processes.  Peer i sends it the numbers from 0 on.
 */
#ifndef SHM_HANDOFF_TESTING_H
#define SHM_HANDOFF_TESTING_H

#include "transport/handoff.h"
#include "transport/shm/shm_testing.h"

#define PEERS     4
#define NOTES_MAX 100000

struct note {
    uint32_t peer;
    bool announced; /* announced as a possible repeat */
    uint64_t number;
};

/* In memory that child processes share. */
struct notes {
    struct transport_handle handle; /* of the endpoint that was split */
    _Atomic uint64_t count;         /* a packet counts as heard once it is counted */
    _Atomic uint32_t stop;          /* tells the half that has taken over to close */
    struct note note[NOTES_MAX];
};

extern struct notes *notes;

struct half {
    struct transport *t;
    struct link *link[PEERS]; /* of peers that have sent */
    bool announced;           /* the next packet may be a repeat */
    unsigned refuses;         /* deliver() takes nothing every this many times; 0 = never */
    uint64_t offered;
    void (*noted)(void); /* called at the end of each deliver(), or NULL */
};

/* Opens an endpoint as number i of the board; or takes over the endpoint of notes->handle. */
void half_open(struct half *half, unsigned i);
int half_take_over(struct half *half);

/* half_open(), and then splits it: notes->handle is set. */
void half_hand_over(struct half *half);

/* The other half has closed or died: receives again. */
void half_take_back(struct half *half);
void half_close(struct half *half);

struct link *half_link(struct half *half, unsigned i);

/* Sleeps and polls until this many packets were recorded, by either half. */
void half_await(struct half *half, uint64_t count);

/* Polls and sleeps until notes->stop. */
void half_serve(struct half *half);

/* Polls and sleeps until nothing is left. */
void half_drain(struct half *half);

/* Checks that peer i's packets [first[i], end[i]) came in order, none is missing, and only
 * announced ones came twice; returns how many did.  Begins new notes. */
unsigned notes_check(const uint64_t first[PEERS], const uint64_t end[PEERS]);

int set_up_notes(void **state);
int set_up_all_notes(void **state);
int tear_down_all_notes(void **state);

#define NOTES_TEST(name) cmocka_unit_test_setup_teardown(name, set_up_notes, tear_down)

#endif
