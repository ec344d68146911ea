/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * probe.c - probes for tagged messages.
 *
 * UCX's probes make no progress.  A probe of the library makes progress once if it finds nothing.  No client sees the
 * difference, because callbacks wait for ucp_worker_progress().
 */
#include "ucp/receive.h"

static void describe(ucp_tag_recv_info_t *info, const struct mbx_status *status)
{
    info->sender_tag = status->tag;
    info->length = status->size;
}

/* That a peer has died, which a probe may return instead of nothing, is no answer to it. */
struct ucpx_record *ucpx_probe_look(struct ucp_worker *worker, ucp_tag_t tag,
                                    ucp_tag_t tag_mask, ucp_tag_recv_info_t *info)
{
    struct mbx_status status;

    if (mbx_probe(worker->mbx, MBX_ANY_SOURCE, UCPX_ID_TAGS, tag, ~tag_mask, &status) != 1)
        return NULL;
    describe(info, &status);
    return &worker->peeked;
}

/* The record is there before the message is taken, which could not be put back. */
struct ucpx_record *ucpx_probe_take(struct ucp_worker *worker, ucp_tag_t tag,
                                    ucp_tag_t tag_mask, ucp_tag_recv_info_t *info)
{
    struct ucpx_record *record = ucpx_record_take(worker, UCPX_PROBED);
    struct mbx_status status;

    if (record == NULL)
        return NULL;
    if (mbx_mprobe(worker->mbx, MBX_ANY_SOURCE, UCPX_ID_TAGS, tag, ~tag_mask, &status,
                   &record->number) != 1) {
        ucpx_record_put(record);
        return NULL;
    }
    describe(info, &status);
    return record;
}
