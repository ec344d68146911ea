/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coop_valid.c - long messages that both sides copy: coop.c I1 and I2; I3 is in rput_valid.c.
 */
#include "rput/rput.h"
#include "rput/coop.h"
#include "core/core.h"

static bool part_is_valid(const struct request *req)
{
    const struct coop *coop = &req->coop;

    return HOLDS("coop.c I1", !request_is_send(req)) &&
           HOLDS("coop.c I2", coop->from < coop->to) &&
           HOLDS("coop.c I2", coop->to <= req->total) &&
           HOLDS("coop.c I2", req->done <= coop->from) &&
           HOLDS("coop.c I2", ((req->flags & REQUEST_ANNOUNCED) != 0) == (coop->word != 0)) &&
           HOLDS("coop.c I2", coop->word != 0 || coop->filled >= coop->from) &&
           HOLDS("coop.c I2", coop->filled <= coop->to) &&
           HOLDS("coop.c I1", req->state != COOP_FILLING || coop->word != 0);
}

static void look_at_coop(void *arg, void *object)
{
    const struct request *req = object;
    bool *is_valid = arg;

    if (!*is_valid)
        return;
    if (PROTO_OF(req->state) == PROTO_COOP)
        *is_valid = part_is_valid(req);
}

bool coop_is_valid(const struct mbx_ep *ep)
{
    bool is_valid = true;

    valid_each(ep, look_at_coop, &is_valid);
    return is_valid;
}
