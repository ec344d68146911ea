/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * offload_valid.c - checks I1 and I2 of offload.c, and the invariants of the shadow.
 */
#include "device/host/offload.h"
#include "core/core.h"

static bool recv_is_valid(const struct mbx_ep *ep, const struct request *req)
{
    enum shadow_state shadow = req->shadow.state;
    bool is_alone = shadow == SHADOW_NONE && ep->offload->shadow.is_stopped;

    switch ((int)req->state) {
    case REQUEST_POSTED:
        return HOLDS("offload.c I1", !recv_is_open(req) || shadow == SHADOW_SOFTWARE ||
                                         shadow == SHADOW_WAITING || shadow == SHADOW_HANDED ||
                                         shadow == SHADOW_RECALLED || is_alone);
    case OFFLOAD_MATCHED:
        return HOLDS("offload.c I1", shadow == SHADOW_MATCHED);
    case REQUEST_REVOKING:
        return HOLDS("offload.c I1", shadow == SHADOW_REVOKING);
    case OFFLOAD_PAIRED:
        return HOLDS("offload.c I1", shadow == SHADOW_PAIRED);
    default:
        return true;
    }
}

struct checked {
    const struct mbx_ep *ep;
    bool is_valid;
};

static void check_recv(void *arg, void *object)
{
    struct checked *checked = arg;
    const struct request *req = object;

    if (!checked->is_valid)
        return;
    if (checked->ep->offload == NULL)
        checked->is_valid = HOLDS("offload.c I2", req->state != OFFLOAD_MATCHED &&
                                                      req->state != REQUEST_REVOKING &&
                                                      req->state != OFFLOAD_PAIRED);
    else
        checked->is_valid = recv_is_valid(checked->ep, req);
}

/* Does a peer defer its sends?  Then the device has no receives, or is giving them back. */
static bool does_anybody_defer(const struct mbx_ep *ep)
{
    for (uint32_t i = 0; i < ep->peers.count; i++)
        if (ep->peers.all[i] != NULL && peer_defer(ep->peers.all[i])->defers)
            return true;
    return false;
}

bool offload_is_valid(const struct mbx_ep *ep)
{
    struct checked checked = {.ep = ep, .is_valid = true};

    valid_each(ep, check_recv, &checked);
    return checked.is_valid &&
           (ep->offload == NULL ||
            (HOLDS("shadow.h, bypass.h, held.h", shadow_is_valid(&ep->offload->shadow)) &&
             HOLDS("receiver.c I6",
                   ep->offload->shadow.is_recalled == does_anybody_defer(ep)) &&
             HOLDS("offload.c I2", ep->modules.watched_from == 0)));
}
