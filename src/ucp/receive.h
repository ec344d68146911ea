/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * receive.h - probes, for receive.c: probe.c.
 */
#ifndef UCP_RECEIVE_H
#define UCP_RECEIVE_H

#include "ucp/door.h"

/* The record of the message that a receive would take now, which leaves the queue; or NULL. */
struct ucpx_record *ucpx_probe_take(struct ucp_worker *worker, ucp_tag_t tag,
                                    ucp_tag_t tag_mask, ucp_tag_recv_info_t *info);
/* As above, and the message stays where it is: a record that cannot be received. */
struct ucpx_record *ucpx_probe_look(struct ucp_worker *worker, ucp_tag_t tag,
                                    ucp_tag_t tag_mask, ucp_tag_recv_info_t *info);

#endif
