/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hints.h - our offer, and its comparison with a client's hints: hints.c.
 */
#ifndef PROVIDER_HINTS_H
#define PROVIDER_HINTS_H

#include "provider/compat.h"

#define PROV_TYPE_CAPS     (FI_MSG | FI_TAGGED)
#define PROV_WAY_CAPS      (FI_SEND | FI_RECV)
#define PROV_SIDE_CAPS     (FI_RMA | FI_ATOMIC)
#define PROV_SIDE_WAY_CAPS (FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)
#define PROV_HINT_CAPS                                                                         \
    (PROV_TYPE_CAPS | PROV_WAY_CAPS | FI_DIRECTED_RECV | FI_MULTI_RECV | PROV_SIDE_CAPS |      \
     PROV_SIDE_WAY_CAPS | FI_RMA_EVENT)
/* Granted whether requested or not: they cost nothing. */
#define PROV_FREE_CAPS   (FI_SOURCE | FI_LOCAL_COMM | FI_REMOTE_COMM)
#define PROV_DOMAIN_CAPS (FI_LOCAL_COMM | FI_REMOTE_COMM)
#define PROV_SEND_CAPS   (PROV_TYPE_CAPS | FI_SEND | PROV_SIDE_CAPS | FI_READ | FI_WRITE)
#define PROV_RECV_CAPS                                                                         \
    (PROV_TYPE_CAPS | FI_RECV | FI_DIRECTED_RECV | FI_MULTI_RECV | FI_SOURCE |                 \
     PROV_SIDE_CAPS | FI_REMOTE_READ | FI_REMOTE_WRITE | FI_RMA_EVENT)

/* R and W are one-sided accesses, atomics included; these are not ordered with messages. */
#define PROV_ORDERS                                                                            \
    (FI_ORDER_SAS | FI_ORDER_RAR | FI_ORDER_RAW | FI_ORDER_WAR | FI_ORDER_WAW |                \
     FI_ORDER_RMA_RAR | FI_ORDER_RMA_RAW | FI_ORDER_RMA_WAR | FI_ORDER_RMA_WAW |               \
     FI_ORDER_ATOMIC_RAR | FI_ORDER_ATOMIC_RAW | FI_ORDER_ATOMIC_WAR | FI_ORDER_ATOMIC_WAW)
#define PROV_COUNT_LIMIT ((size_t)1 << 16) /* endpoints and queues of a domain */

/* The capabilities granted to a client with this hint, or 0. */
uint64_t prov_hints_caps(uint64_t hint);
/* Does the offer meet all hints?  If not, libfabric's log names the first that fails
 * (FI_LOG_LEVEL=info). */
bool prov_hints_fit(const struct fi_info *hints);

#endif
