/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * net_valid.c - checks the invariants of net.h.
 *
 * In the library only with MBX_CHECKS (base/check.h).
 */
#include "transport/net/net.h"

#include "base/check.h"

bool net_link_is_valid(const struct net_link *link)
{
    bool is_open = link->state == NET_OPEN;

    return HOLDS("net.h I2", (link->error != 0) == (link->state == NET_DEAD)) &&
           HOLDS("net.h I2", (link->end != NET_LIVES) == (link->state == NET_DEAD)) &&
           HOLDS("net.h I3", !is_open || link->is_self || link->theirs.id != 0);
}
