/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ticks.h - the time of clock_now() by the processor's counter, for who asks for it many times a microsecond.
 *
 * A look at the clock takes 24 ns, one at the counter 10 (bench/trace_event).  So the clock is looked at now and then, and
 * between two such samples, the anchors, the time is that of the last one and what the counter says has gone since:
 *
 *   clock    anchor                          anchor
 *   ─────────|───────────── PERIOD ──────────|──────────
 *   counter  └── gone * rate ──> now
 *
 * So two processes do not drift apart: an error of the rate of 20 ppm is 0.4 ns at the end of a period.  Where the counter
 * is not known to be good, where the system itself does not use it, and where clock_set() has replaced the clock, the time is
 * that of clock_now(), and the counter is not read (any more than until the next anchor, if it is replaced later).
 *
 * Invariants
 *   I1  what one struct ticks says never goes back
 *   I2  an anchor is within the two looks at the clock between which the counter was read, and these are about as close as
 *       any have been, or it is as near as that to where an anchor of shortly before leads
 *   I3  the counter is not used (again) before its rate is known over LEARN; after STRIKES_MAX anchors that are not where
 *       counter and rate have led it never is again
 */
#ifndef BASE_TICKS_H
#define BASE_TICKS_H

#include <stdbool.h>
#include <stdint.h>

/* All of it is ticks.c's. */
struct ticks {
    uint64_t reach;     /* so many ticks behind the anchor it holds; 0: there is none */
    uint64_t at, at_ns; /* the anchor */
    uint64_t rate;      /* nanoseconds of 2^32 ticks; 0: not known */
    uint64_t last_ns;   /* said last */
    uint64_t base,
        base_ns; /* an anchor of before, from which on the rate is measured; 0, 0: none */
    uint64_t narrowest; /* ns: of the samples of which anchors were made */
    unsigned strikes;
};

/* Before the first sample. */
void ticks_start(struct ticks *ticks);

/* As clock_now().  One thread at a time. */
uint64_t ticks_now(struct ticks *ticks);

/* As ticks_now(), but not before what was loaded before: after what another thread is seen to have done. */
uint64_t ticks_now_behind(struct ticks *ticks);

/* For tests.  From now on the counter is counter(), and is good; NULL restores that of the processor. */
typedef uint64_t ticks_counter_fn(void);
void ticks_set(ticks_counter_fn *counter);

#endif
