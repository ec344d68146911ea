/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * share_valid.c - long messages that both sides copy: share.c I1 to I3.
 */
#include "core/share.h"
#include "core/valid.h"

static bool part_is_valid(const struct request *req)
{
    const struct share *share = &req->share;

    return HOLDS("share.c I1", req->state == REQUEST_READ || req->state == REQUEST_READ_WAIT ||
                                   req->state == REQUEST_FILLING) &&
           HOLDS("share.c I2", share->from < share->to) &&
           HOLDS("share.c I2", share->to <= req->total) &&
           HOLDS("share.c I2", req->done <= share->from) &&
           HOLDS("share.c I2", share->word != 0 || share->filled >= share->from) &&
           HOLDS("share.c I2", share->filled <= share->to) &&
           HOLDS("share.c I1", req->state != REQUEST_FILLING || share->word != 0);
}

static bool shared_send_is_valid(const struct request *req)
{
    return HOLDS("share.c I3", req->state == REQUEST_WRITING || req->state == REQUEST_WRITTEN);
}

static void look_at_shared(void *arg, void *object)
{
    const struct request *req = object;
    bool *is_valid = arg;

    if (!*is_valid || !(req->flags & REQUEST_SHARED) || req->state >= REQUEST_COMPLETE)
        return;
    *is_valid = request_is_send(req) ? shared_send_is_valid(req) : part_is_valid(req);
}

bool share_is_valid(const struct mbx_ep *ep)
{
    bool is_valid = true;

    valid_each(ep, look_at_shared, &is_valid);
    return is_valid;
}
