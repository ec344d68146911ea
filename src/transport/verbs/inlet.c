/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * inlet.c - handles reports of a device that receives instead of the transport (verbs_inlet.h).
 */
#include <errno.h>

#include "base/base.h"
#include "transport/verbs/ib.h"

bool transport_verbs_parts(struct transport *t, struct transport_verbs_parts *parts)
{
    const struct ib *ib = ib_own(t);

    if (ib == NULL)
        return false;
    *parts = (struct transport_verbs_parts){.context = ib->hca.context,
                                            .pd = ib->hca.pd,
                                            .regions = ib->rma.regions,
                                            .channel = ib->hca.channel};
    return true;
}

int transport_verbs_set_inlet(struct transport *t, const struct transport_verbs_inlet *inlet)
{
    struct ib *ib = ib_own(t);

    if (ib == NULL)
        return -ENOTSUP;
    if (ib->conns.id_count != 0)
        return -EBUSY;
    ib->conns.inlet = *inlet;
    t->limits.data_max = VERBS_DATA_MAX;
    return 0;
}

void transport_verbs_end_inlet(struct transport *t)
{
    struct ib *ib = ib_of(t);

    ib_end(ib);
    for (uint32_t i = 0; i < ib->conns.id_count; i++)
        if (ib->conns.by_id[i]->pair.is_inlet)
            ib_pair_destroy_in(ib->conns.by_id[i]);
}

void transport_verbs_lose_inlet(struct transport *t)
{
    struct ib *ib = ib_of(t);

    for (uint32_t i = 0; i < ib->conns.id_count; i++)
        if (ib->conns.by_id[i]->pair.is_inlet) {
            net_kill(&ib->conns.by_id[i]->net, -ENOTCONN, NET_DIED);
            ib_ud_control(ib->conns.by_id[i], NET_BROKEN);
        }
}

bool transport_verbs_is_tagged(struct link *link)
{
    return ib_link_of(link)->pair.is_tagged;
}

bool transport_verbs_is_beside(struct link *l)
{
    const struct ib_link *link = ib_link_of(l);

    return link->net.is_self || (link->net.state == NET_OPEN && !link->pair.is_tagged);
}

void transport_verbs_matched(struct link *l)
{
    struct ib_link *link = ib_link_of(l);

    if (net_confirm(&link->net) && ib_rx_begin(link))
        ib_rx_end(link);
}

bool transport_verbs_arrived(struct link *link, const void *packet, size_t size)
{
    return ib_rx_arrived(ib_link_of(link), packet, size);
}

void transport_verbs_read(struct link *link)
{
    ib_rx_end(ib_link_of(link));
}

void transport_verbs_failed(struct link *link, const char *why)
{
    ib_link_failed(ib_link_of(link), why);
}
