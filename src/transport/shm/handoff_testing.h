/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * handoff_testing.h - what the tests of split endpoints share: halves that write down, in
 * memory that outlives them, what they heard.
 *
 * A half is an endpoint, its owner's or joined, whose peers are those of the board: peer i
 * has board->address[i].  All that is delivered to it goes to notes, which both halves of
 * an endpoint share, across processes.  Peer i sends it the numbers from 0.
 */
#ifndef SHM_HANDOFF_TESTING_H
#define SHM_HANDOFF_TESTING_H

#include "transport/handoff.h"
#include "transport/shm/shm_testing.h"

#define PEERS     4
#define NOTES_MAX 100000

struct note {
    uint32_t peer;
    bool announced; /* as one that may be a repeat */
    uint64_t number;
};

/* In memory that children share. */
struct notes {
    struct transport_handle handle; /* of the endpoint that was split */
    _Atomic uint64_t count;         /* a packet is heard when it is counted */
    _Atomic uint32_t stop;          /* tells who has joined to close */
    struct note note[NOTES_MAX];
};

extern struct notes *notes;

struct half {
    struct transport *t;
    struct link *link[PEERS]; /* of those that have sent */
    bool announced;           /* the next packet may be a repeat */
    unsigned refuses;         /* deliver() takes nothing each so many times; 0 = never */
    uint64_t offered;
    void (*noted)(void); /* called at the end of each deliver(), or NULL */
};

/* An endpoint of its own as number i of the board, or in the place of notes->handle. */
void half_open(struct half *half, unsigned i);
int half_take_over(struct half *half);

/* half_open()ed, and split: notes->handle is set. */
void half_hand_over(struct half *half);

/* The other one has closed or died: receives again. */
void half_take_back(struct half *half);
void half_close(struct half *half);

struct link *half_link(struct half *half, unsigned i);

/* Sleeps and polls until so many packets were noted, by this half or the other one. */
void half_await(struct half *half, uint64_t count);

/* Polls and sleeps until notes->stop. */
void half_serve(struct half *half);

/* Polls and sleeps until nothing is left. */
void half_drain(struct half *half);

/* Peer i's packets [first[i], end[i]) came in order, none is missing, and only such came
 * twice as were announced; returns how many did.  Begins new notes. */
unsigned notes_check(const uint64_t first[PEERS], const uint64_t end[PEERS]);

int set_up_notes(void **state);
int set_up_all_notes(void **state);
int tear_down_all_notes(void **state);

#define NOTES_TEST(name) cmocka_unit_test_setup_teardown(name, set_up_notes, tear_down)

#endif
