/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * split_copy_valid.c - checks split_copy.c I1 and I2; I3 is in advert_valid.c.
 */
#include "advert/advert.h"
#include "advert/split_copy.h"
#include "core/core.h"

static bool part_is_valid(const struct request *req)
{
    const struct split_copy *split_copy = &req->split_copy;

    return HOLDS("split_copy.c I1", !request_is_send(req)) &&
           HOLDS("split_copy.c I2", split_copy->from < split_copy->to) &&
           HOLDS("split_copy.c I2", split_copy->to <= req->total) &&
           HOLDS("split_copy.c I2", req->done <= split_copy->from) &&
           HOLDS("split_copy.c I2",
                 ((req->flags & REQUEST_ADVERTISED) != 0) == (split_copy->word != 0)) &&
           HOLDS("split_copy.c I2",
                 split_copy->word != 0 || split_copy->filled >= split_copy->from) &&
           HOLDS("split_copy.c I2", split_copy->filled <= split_copy->to) &&
           HOLDS("split_copy.c I1", req->state != SPLIT_COPY_FILLING || split_copy->word != 0);
}

static void check_split_copy(void *arg, void *object)
{
    const struct request *req = object;
    bool *is_valid = arg;

    if (!*is_valid)
        return;
    if (PROTO_OF(req->state) == PROTO_SPLIT_COPY)
        *is_valid = part_is_valid(req);
}

bool split_copy_is_valid(const struct mbx_ep *ep)
{
    bool is_valid = true;

    valid_each(ep, check_split_copy, &is_valid);
    return is_valid;
}
