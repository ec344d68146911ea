/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ticks.h - the time of clock_now() from the processor's counter, for callers that read it many
 * times a microsecond.
 *
 * A clock read takes 24 ns, a counter read 10 (bench/trace_event).  So the clock is read only
 * once per period.  Between two such samples, the anchors, the time is the last anchor plus the
 * time since, by the counter:
 *
 *   clock    anchor                          anchor
 *   ─────────|───────────── PERIOD ──────────|──────────
 *   counter  └── gone * rate ──> now
 *
 * So two processes do not drift apart: an error of the rate of 20 ppm is 0.4 ns at the end of a
 * period.  If the counter is not known to be usable, if the system itself does not use it, or
 * if clock_set() has replaced the clock, the time comes from clock_now(), and the counter is
 * not read (if the clock is replaced later: not after the next anchor).
 *
 * Invariants
 *   I1  the time of one struct ticks never goes back
 *   I2  the time of an anchor is between the two clock reads around its counter read.  These
 *       two are about as close together as any have been, or the time is the one predicted from
 *       a recent anchor, clamped to them
 *   I3  the counter is not used (again) before its rate was measured over LEARN; after
 *       STRIKES_MAX anchors that differ from the time that counter and rate predicted, it is
 *       never used again
 */
#ifndef BASE_TICKS_H
#define BASE_TICKS_H

#include <stdbool.h>
#include <stdint.h>

/* All members are private to ticks.c. */
struct ticks {
    uint64_t reach;         /* ticks after the anchor for which it is valid; 0: there is none */
    uint64_t at, at_ns;     /* the anchor */
    uint64_t rate;          /* nanoseconds of 2^32 ticks; 0: not known */
    uint64_t last_ns;       /* the last time that was returned */
    uint64_t base, base_ns; /* an earlier anchor, from which the rate is measured; 0, 0: none */
    uint64_t narrowest;     /* ns: the width of the narrowest sample */
    unsigned strikes;
};

/* Call it before the first ticks_now(). */
void ticks_start(struct ticks *ticks);

/* As clock_now().  Only one thread at a time. */
uint64_t ticks_now(struct ticks *ticks);

/* As ticks_now(), but ordered after earlier loads: after any action of another thread that they
 * have seen. */
uint64_t ticks_now_behind(struct ticks *ticks);

/* For tests.  From now on counter() is the counter, and is usable; NULL restores the
 * processor's. */
typedef uint64_t ticks_counter_fn(void);
void ticks_set(ticks_counter_fn *counter);

#endif
