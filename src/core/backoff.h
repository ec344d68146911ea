/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * backoff.h - tries that cost something and may be of no use.
 *
 * After a try that was of no use the next `pause` are left out; pause doubles with each such try, up
 * to what the caller says, and is 0 again after one that was of use.
 */
#ifndef CORE_BACKOFF_H
#define CORE_BACKOFF_H

#include <stdbool.h>
#include <stdint.h>

struct backoff {
    uint8_t skip;  /* so many tries more are left out */
    uint8_t pause; /* as many were when the last one was of no use */
};

/* Is the next try to be left out? */
static inline bool backoff_is_on(const struct backoff *backoff)
{
    return backoff->skip != 0;
}

/* A try was left out, if the next one was to be. */
static inline void backoff_pass(struct backoff *backoff)
{
    backoff->skip -= backoff->skip != 0;
}

/* Is this try made?  If not, it counts as left out. */
static inline bool backoff_try(struct backoff *backoff)
{
    bool is_made = !backoff_is_on(backoff);

    backoff_pass(backoff);
    return is_made;
}

static inline void backoff_more(struct backoff *backoff, uint8_t most)
{
    if (backoff->pause == 0)
        backoff->pause = 1;
    else
        backoff->pause = backoff->pause > most / 2 ? most : (uint8_t)(2 * backoff->pause);
    backoff->skip = backoff->pause;
}

static inline void backoff_end(struct backoff *backoff)
{
    backoff->skip = backoff->pause = 0;
}

#endif
