/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * flight.h - the ring of a flight recording; trace.c makes its file.
 */
#ifndef TRACE_FLIGHT_H
#define TRACE_FLIGHT_H

#include "trace/trace.h"

/* Flight recording: the last events of an endpoint, in a ring of fixed size */
struct flight;

/* Makes the file of fd, which is empty, a ring for so many events.  fd stays the caller's.
 * 0; -ENOMEM; or why the file cannot grow.  Undone by flight_close(). */
int flight_open(int fd, uint64_t slots, const struct trace_info *info, struct flight **out);

/* Where the events are put, slots of them: number k at k mod slots. */
unsigned char *flight_ring(const struct flight *flight);

/* So many events have been put there so far: others see them from now on. */
void flight_count(struct flight *flight, uint64_t count);

/* Appends a name after the ring.  0; or why it cannot be written: all later names are left out. */
int flight_name(struct flight *flight, const struct trace_event *event);

void flight_close(struct flight *flight);

#endif
