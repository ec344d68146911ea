/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * share_valid.c - long messages that both sides copy: share.c I1 to I3.
 */
#include "rput/early.h"
#include "rput/share.h"
#include "core/valid.h"

static bool part_is_valid(const struct request *req)
{
    const struct share *share = &req->share;

    return HOLDS("share.c I1", !request_is_send(req)) &&
           HOLDS("share.c I2", share->from < share->to) &&
           HOLDS("share.c I2", share->to <= req->total) &&
           HOLDS("share.c I2", req->done <= share->from) &&
           HOLDS("share.c I2", ((req->flags & REQUEST_LENT) != 0) == (share->word != 0)) &&
           HOLDS("share.c I2", share->word != 0 || share->filled >= share->from) &&
           HOLDS("share.c I2", share->filled <= share->to) &&
           HOLDS("share.c I1", req->state != SHARE_FILLING || share->word != 0);
}

static void look_at_shared(void *arg, void *object)
{
    const struct request *req = object;
    bool *is_valid = arg;

    if (!*is_valid)
        return;
    if (PROTO_OF(req->state) == PROTO_SHARE)
        *is_valid = part_is_valid(req);
    else if ((req->flags & REQUEST_SHARED) && req->state > REQUEST_LINGER)
        *is_valid =
            HOLDS("share.c I3", req->state == EARLY_WRITING || req->state == EARLY_WRITTEN);
}

bool share_is_valid(const struct mbx_ep *ep)
{
    bool is_valid = true;

    valid_each(ep, look_at_shared, &is_valid);
    return is_valid;
}
