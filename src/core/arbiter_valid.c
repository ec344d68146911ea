/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * arbiter_valid.c - words that senders take: arbiter.c I1, I2.
 */
#include "core/arbiter.h"
#include "core/valid.h"

struct words {
    const struct mbx_ep *ep;
    uint32_t count;
    bool is_valid;
};

/* The name of the word of req, or 0. */
static uint64_t word_of(const struct request *req)
{
    if (PROTO_OF(req->state) == PROTO_SHARE)
        return req->share.word;
    return req->state == REQUEST_POSTED ? req->key : 0;
}

static void look_at_word(void *arg, void *object)
{
    struct words *words = arg;
    const struct arbiter *arbiter = words->ep->arbiter;
    uint64_t name = word_of(object);
    uint32_t index = (uint32_t)name - 1;

    if (name == 0 || !words->is_valid)
        return;
    words->count++;
    words->is_valid =
        HOLDS("arbiter.c I1", arbiter != NULL) &&
        HOLDS("arbiter.c I1", index < arbiter->count) &&
        HOLDS("arbiter.c I2",
              arbiter->last[index] == arbiter_word((uint32_t)(name >> 32), WORD_OPEN, 0));
}

bool arbiter_is_valid(const struct mbx_ep *ep)
{
    struct words words = {.ep = ep, .is_valid = true};

    valid_each(ep, look_at_word, &words);
    if (!words.is_valid || ep->arbiter == NULL)
        return words.is_valid;
    for (uint32_t i = 0; i < ep->arbiter->free_count; i++)
        if (!HOLDS("arbiter.c I1", ep->arbiter->free[i] < ep->arbiter->count))
            return false;
    return HOLDS("arbiter.c I1", ep->arbiter->free_count + words.count == ep->arbiter->count);
}
