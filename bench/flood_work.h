/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * flood_work.h - a flood: the part that is the same whatever carries the messages.
 *
 *   flood.c       carrier_*() over matchbox.h
 *   flood_mpi.c   carrier_*() over MPI
 *
 *   receiver (rank 0)    fence   sleep, then a receive for every message    fence
 *   senders              fence   M sends at once, then M waits              fence
 *
 * A sender has all its messages under way before it waits for the first one, so whatever is
 * not kept by the receiver is kept by it.  Message i has tag i / 2: two with the same tag show
 * whether order is kept.  Its content is a place in a pattern, chosen by sender and i.
 */
#ifndef BENCH_FLOOD_WORK_H
#define BENCH_FLOOD_WORK_H

#include <stddef.h>
#include <stdint.h>

#define FLOOD_ANY     (-1)
#define FLOOD_NO_MARK UINT64_MAX

/* Where a message travels: the flood itself, and what keeps the ranks in step. */
enum flood_lane { FLOOD_LANE, FENCE_LANE };

struct flood_got {
    int source, tag;
    size_t size;
    uint64_t mark; /* what the sender gave to carrier_send(), or FLOOD_NO_MARK */
};

/* ---- what a carrier does; it ends the program when something fails ---- */

extern const char carrier_name[];  /* of the program */
extern const char carrier_about[]; /* how it is started */

void carrier_open(int *rank, int *ranks);

/* From now on slots 0 .. count-1 may be used: each holds one message under way. */
void carrier_slots(size_t count);

void carrier_send(size_t slot, enum flood_lane lane, int to, int tag, const void *buf,
                  size_t size, uint64_t mark);

/* from and tag may be FLOOD_ANY. */
void carrier_recv(size_t slot, enum flood_lane lane, int from, int tag, void *buf, size_t size);

/* Waits for the slot; the next one may use it.  *got of a receive, or NULL. */
void carrier_wait(size_t slot, struct flood_got *got);

/* The most bytes that it says it has kept for unexpected messages; 0: it does not say. */
uint64_t carrier_high_water(void);

void carrier_close(void);

/* ---- what it may use ---- */

/* Says what is wrong and ends the program with status 1. */
void flood_die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* As malloc(), but there always is memory. */
void *flood_alloc(size_t size);

/* Ends with the exit code of the program. */
int flood_main(int argc, char **argv);

#endif
