/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lockword_valid.c - words that senders take: lockword.c I1, I2.
 */
#include "core/lockword.h"

#include "core/core.h"
#include "core/valid.h"

struct words {
    const struct mbx_ep *ep;
    uint32_t count;
    bool is_valid;
};

/* The name of the word of req, or 0. */
static uint64_t word_of(const struct mbx_ep *ep, const struct request *req)
{
    if (request_has(ep, req, PART_SPLIT_COPY))
        return req->split_copy.word;
    return req->state == REQUEST_POSTED ? req->open.word : 0;
}

static void check_word(void *arg, void *object)
{
    struct words *words = arg;
    const struct lockwords *lockwords = words->ep->lockwords;
    uint64_t name = word_of(words->ep, object);
    uint32_t index = (uint32_t)name - 1;

    if (name == 0 || !words->is_valid)
        return;
    words->count++;
    words->is_valid =
        HOLDS("lockword.c I1", lockwords != NULL) &&
        HOLDS("lockword.c I1", index < lockwords->count) &&
        HOLDS("lockword.c I2",
              lockwords->last[index] == lockword_make((uint32_t)(name >> 32), WORD_OPEN, 0));
}

bool lockword_is_valid(const struct mbx_ep *ep)
{
    struct words words = {.ep = ep, .is_valid = true};

    valid_each(ep, check_word, &words);
    if (!words.is_valid || ep->lockwords == NULL)
        return words.is_valid;
    for (uint32_t i = 0; i < ep->lockwords->free_count; i++)
        if (!HOLDS("lockword.c I1", ep->lockwords->free[i] < ep->lockwords->count))
            return false;
    return HOLDS("lockword.c I1",
                 ep->lockwords->free_count + words.count == ep->lockwords->count);
}
