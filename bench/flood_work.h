/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * flood_work.h - a flood: the part that is common to all carriers of messages.
 *
 *   flood.c       carrier_*() over matchbox.h
 *   flood_mpi.c   carrier_*() over MPI
 *
 *   receiver (rank 0)    fence   sleep, then a receive for every message    fence
 *   senders              fence   M sends at once, then M waits              fence
 *
 * A sender starts all its sends before it waits for the first one, so it keeps all messages
 * that the receiver does not keep.  Message i has tag i / 2: two with the same tag show
 * whether order is kept.  Its content is a section of a pattern, chosen by sender and i.
 */
#ifndef BENCH_FLOOD_WORK_H
#define BENCH_FLOOD_WORK_H

#include <stddef.h>
#include <stdint.h>

#define FLOOD_ANY     (-1)
#define FLOOD_NO_MARK UINT64_MAX

/* The purpose of a message: the flood itself, or the synchronisation of the ranks. */
enum flood_lane { FLOOD_LANE, FENCE_LANE };

struct flood_got {
    int source, tag;
    size_t size;
    uint64_t mark; /* as passed to carrier_send(), or FLOOD_NO_MARK */
};

/* ---- operations of a carrier, which end the program if they fail ---- */

extern const char carrier_name[];  /* of the program */
extern const char carrier_about[]; /* how to start it */

void carrier_open(int *rank, int *ranks);

/* Makes slots 0 .. count-1 available: each holds one active message. */
void carrier_slots(size_t count);

void carrier_send(size_t slot, enum flood_lane lane, int to, int tag, const void *buf,
                  size_t size, uint64_t mark);

/* from and tag may be FLOOD_ANY. */
void carrier_recv(size_t slot, enum flood_lane lane, int from, int tag, void *buf, size_t size);

/* Waits for the slot, which is then free.  *got is for a receive, or NULL. */
void carrier_wait(size_t slot, struct flood_got *got);

/* The maximum memory for unexpected messages that the carrier reports; 0: none. */
uint64_t carrier_high_water(void);

void carrier_close(void);

/* ---- functions for a carrier ---- */

/* Prints an error message and ends the program with status 1. */
void flood_die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* As malloc(), but ends the program without memory. */
void *flood_alloc(size_t size);

/* Returns the exit code of the program. */
int flood_main(int argc, char **argv);

#endif
