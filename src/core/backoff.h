/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * backoff.h - leaves out attempts that cost something and often fail.
 *
 * After a useless attempt the next `pause` attempts are left out.  pause doubles with each
 * useless attempt, up to a limit from the caller, and becomes 0 after a useful one.
 */
#ifndef CORE_BACKOFF_H
#define CORE_BACKOFF_H

#include <stdbool.h>
#include <stdint.h>

struct backoff {
    uint8_t skip;  /* attempts that are still to be left out */
    uint8_t pause; /* attempts left out after the last useless one */
};

/* Will the next attempt be left out? */
static inline bool backoff_is_on(const struct backoff *backoff)
{
    return backoff->skip != 0;
}

/* Counts the next attempt as left out, if it was to be. */
static inline void backoff_pass(struct backoff *backoff)
{
    backoff->skip -= backoff->skip != 0;
}

/* Is this attempt made?  If not, it counts as left out. */
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
