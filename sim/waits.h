/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * waits.h - jobs whose ranks block (sim --doctor), and whether mbx doctor's graph is right about them.
 *
 * After an operation a rank may wait: for this operation, for one or all of its open operations, or until a probe finds
 * something.  It begins nothing until the wait is over.  A job in which all events are over, and a rank waits, is
 * deadlocked by construction: nothing is left that could end the wait.
 *
 *   at random moments, two looks at all ranks, of one after the other while the job goes on:
 *                 whoever is called deadlocked never goes on
 *   at the end    exactly the ranks that wait are called deadlocked; if the operations of the job do not say which
 *                 of them is waited for, only ranks that wait are
 */
#ifndef SIM_WAITS_H
#define SIM_WAITS_H

#include <stdbool.h>
#include <stdint.h>

enum wait_kind { WAIT_NOT, WAIT_ONE, WAIT_ALL, WAIT_ANY, WAIT_SOME, WAIT_PROBE, WAIT_KINDS };

#define WAIT_MAX 8

/* The wait of a rank. */
struct wait {
    enum wait_kind kind;
    uint32_t ids[WAIT_MAX]; /* of operations; WAIT_PROBE: of the probe */
    uint32_t count;
    uint64_t ask_ns; /* WAIT_PROBE: not before */
    uint32_t serial; /* grows with each wait */
    uint32_t doomed; /* the wait of which was said that it is never over; 0: none */
};

/* Results of the graph, for one job or many. */
struct wait_counts {
    uint64_t diagnoses;         /* pairs of looks */
    uint64_t stuck[WAIT_KINDS]; /* ranks that wait at the end */
    uint64_t named[WAIT_KINDS]; /* ... and are called deadlocked then */
    uint64_t early[WAIT_KINDS]; /* ... and were while the job went on */
    uint64_t over[WAIT_KINDS];  /* waits that came to their end */
    uint64_t
        silent; /* ranks that wait at the end of a job whose operations do not say it, and are not named */
};

struct job;
struct item;
struct plan;

/* Makes a plan whose ranks block, and in which nobody dies. */
void waits_draw(struct plan *plan);

/* This operation of rank who was done: does the rank wait now? */
void waits_begin(struct job *job, uint32_t who, const struct item *item);
/* Does it still? */
bool waits_on(struct job *job, uint32_t who);
/* When it is to be looked at again, although nothing wakes it; 0: then alone when something does. */
uint64_t waits_again_ns(const struct job *job, uint32_t who);

/* Looks at the job, if it is time; between two steps. */
void waits_look(struct job *job);
/* All events are over. */
void waits_end(struct job *job);

#endif
