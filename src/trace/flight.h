/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * flight.h - the ring of a flight recording; trace.c makes its file.
 */
#ifndef TRACE_FLIGHT_H
#define TRACE_FLIGHT_H

#include "trace/trace.h"

struct flight;

/* Makes the file of fd, which is empty, a ring for so many events.  fd stays the caller's.
 * 0; -ENOMEM; or why the file cannot grow.  Undone by flight_close(). */
int flight_open(int fd, uint64_t slots, const struct trace_info *info, struct flight **out);

/* Puts an event into the ring, or a name behind it; delta_ns is not looked at.
 * 0; or why a name cannot be written: names that follow are left out. */
int flight_record(struct flight *flight, const struct trace_event *event);

/* When the last event was recorded. */
uint64_t flight_last_ns(const struct flight *flight);

/* Takes back the event that was recorded last. */
void flight_take_back(struct flight *flight);

/* As trace_count(), and trace_done(). */
uint64_t flight_count(const struct flight *flight);
void flight_done(struct flight *flight);

void flight_close(struct flight *flight);

#endif
