/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * eager_valid.c - checks incomplete messages: eager.c I1, I2.
 */
#include "p2p/p2p.h"
#include "core/core.h"

static bool request_is_assembled(const struct peer *peer, const struct request *req)
{
    return HOLDS("eager.c I2", req->state == EAGER_ASSEMBLE) &&
           HOLDS("eager.c I2", req->peer == peer->number);
}

static bool message_is_assembled(const struct peer *peer, const struct message *message)
{
    struct arrival storage;
    const struct arrival *arrival = message_arrival(message, &storage);

    return HOLDS("eager.c I2", message->match.envelope.source == peer->number) &&
           HOLDS("eager.c I2", arrival->size == peer_assembly(peer)->size) &&
           HOLDS("eager.c I2", arrival->have == peer_assembly(peer)->offset);
}

static bool assembly_is_valid(const struct peer *peer)
{
    const struct assembly *assembly = peer_assembly(peer);

    if (assembly->size == 0)
        return HOLDS("eager.c I2", assembly->message == NULL && !assembly->has_request);
    return HOLDS("eager.c I1", assembly->offset < assembly->size) &&
           HOLDS("eager.c I2", assembly->message != NULL) &&
           HOLDS("eager.c I2", !assembly->is_lost || assembly->has_request) &&
           (assembly->has_request ? request_is_assembled(peer, assembly->request)
                                  : message_is_assembled(peer, assembly->message));
}

static void count_assembled(void *arg, void *object)
{
    const struct request *req = object;
    uint32_t *count = arg;

    *count += req->state == EAGER_ASSEMBLE;
}

bool eager_is_valid(const struct mbx_ep *ep)
{
    uint32_t assembled = 0, requests = 0;

    for (uint32_t i = 0; i < ep->peers.count; i++) {
        if (ep->peers.all[i] == NULL)
            continue;
        if (!assembly_is_valid(ep->peers.all[i]))
            return false;
        assembled += peer_assembly(ep->peers.all[i])->has_request;
    }
    valid_each(ep, count_assembled, &requests);
    return HOLDS("eager.c I2", assembled == requests);
}
