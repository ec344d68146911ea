/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tag.c - messages that the peer's adapter matches (verbs_frame.h).
 *
 *   EAGER ───────────────────────────────> TMH EAGER
 *   RTS, if the adapter can read it ─────> TMH RNDV, RVH, the request     <── FIN: TMH, RVH
 *   RTS, otherwise ──────────────────────> TMH EAGER, announced, the request
 *   other packets ───────────────────────> unchanged
 *
 * The new header is shorter than the packet's, and directly precedes the rest.
 *
 * A FIN of the adapter takes a receive here, without credit.  So at most as many rendezvous are
 * open as there are receives for the peer; further messages are announced.  A FIN repeats the
 * contents of its request, with its number (rma.c).
 */
#include "transport/verbs/tag.h"

#include <endian.h>
#include <infiniband/tm_types.h>
#include <string.h>

#include "transport/verbs/ib.h"
#include "transport/verbs/verbs_frame.h"

/* The longest message that an adapter's entry receives: lengths have 32 bits. */
#define READ_MAX (UINT32_C(1) << 30)

static struct mbx_device_envelope ib_tag_envelope_of(const struct ib_link *link,
                                                     const struct wire_header *header)
{
    return (struct mbx_device_envelope){
        .context_id = header->context_id, .source = link->pair.number, .tag = header->tag};
}

/* Both sides have the same layout, and the source fits into it. */
bool ib_tag_fits(const struct ib_link *link, const struct wire_header *header)
{
    const struct mbx_device_envelope envelope = ib_tag_envelope_of(link, header);
    const bool is_message = header->type == WIRE_EAGER || header->type == WIRE_SYNC ||
                            header->type == WIRE_FIRST || header->type == WIRE_RTS;

    return is_message && verbs_fits(ib_of_link(link)->conns.inlet.layout, &envelope);
}

bool ib_tag_is_due(const struct ib_link *link, const struct wire_header *header)
{
    return link->pair.is_tagged && ib_tag_fits(link, header);
}

static uint32_t ib_tag_put(unsigned char *packet, size_t end, const void *head, size_t size)
{
    memcpy(packet + end - size, head, size);
    return (uint32_t)(end - size);
}

static uint32_t frame_announced(unsigned char *packet, struct ibv_tmh tmh,
                                const struct wire_rts *rts, uint64_t data)
{
    struct {
        struct ibv_tmh tmh;
        struct verbs_rts rts;
    } head = {.tmh = tmh,
              .rts = {.sender = rts->sender,
                      .size = rts->size,
                      .address = rts->address,
                      .key = rts->key,
                      .data = data}};

    head.tmh.opcode = IBV_TMH_EAGER;
    head.tmh.app_ctx = htobe32(VERBS_ANNOUNCED);
    return ib_tag_put(packet, IB_TAG_HEAD, &head, sizeof head);
}

static uint32_t frame_rts(struct ib_link *link, unsigned char *packet, struct ibv_tmh tmh,
                          uint64_t data)
{
    struct {
        struct ibv_tmh tmh;
        struct ibv_rvh rvh;
        struct verbs_rndv rndv;
    } head = {.tmh = tmh};
    struct verbs_fin fin;
    struct wire_rts rts;

    memcpy(&rts, packet + sizeof(struct wire_header), sizeof rts);
    if (data > VERBS_RNDV_DATA_MAX || rts.size > READ_MAX)
        return frame_announced(packet, tmh, &rts, data);
    fin = (struct verbs_fin){.tag = be64toh(tmh.tag),
                             .address = rts.address,
                             .key = (uint32_t)rts.key,
                             .size = (uint32_t)rts.size,
                             .app_ctx = VERBS_RNDV | (uint32_t)data};
    if (!ib_rma_expect(link, &fin, rts.key, rts.sender))
        return frame_announced(packet, tmh, &rts, data);
    head.tmh.opcode = IBV_TMH_RNDV;
    head.tmh.app_ctx = htobe32(fin.app_ctx);
    head.rvh = (struct ibv_rvh){
        .va = htobe64(fin.address), .rkey = htobe32(fin.key), .len = htobe32(fin.size)};
    head.rndv.sender = rts.sender;
    return ib_tag_put(packet, IB_TAG_HEAD, &head, sizeof head);
}

uint32_t ib_tag_frame(struct ib_link *link, unsigned char *packet, size_t size)
{
    const struct verbs_layout layout = ib_of_link(link)->conns.inlet.layout;
    struct mbx_device_envelope envelope;
    struct wire_header header;
    struct ibv_tmh tmh = {.opcode = IBV_TMH_EAGER};

    memcpy(&header, packet, sizeof header);
    if (!ib_tag_is_due(link, &header))
        return 0;
    envelope = ib_tag_envelope_of(link, &header);
    tmh.tag = htobe64(verbs_tag(layout, &envelope));
    if (header.type == WIRE_RTS) {
        assert(size == IB_TAG_HEAD); /* limits.data_max: there is no payload */
        return frame_rts(link, packet, tmh, header.data);
    }
    assert(header.type == WIRE_EAGER && header.data <= VERBS_DATA_MAX); /* data_max again */
    tmh.app_ctx = htobe32((uint32_t)header.data);
    (void)size;
    return ib_tag_put(packet, sizeof header, &tmh, sizeof tmh);
}

size_t ib_tag_fin(struct ib_link *link, unsigned char *packet, size_t size)
{
    const struct wire_header header = {.what = wire_what(WIRE_FIN)};
    struct {
        struct ibv_tmh tmh;
        struct ibv_rvh rvh;
    } head;
    struct verbs_fin fin;
    struct wire_fin body;

    if (size != sizeof head)
        return 0;
    memcpy(&head, packet, sizeof head);
    if (head.tmh.opcode != IBV_TMH_FIN)
        return 0;
    fin = (struct verbs_fin){.tag = be64toh(head.tmh.tag),
                             .address = be64toh(head.rvh.va),
                             .key = be32toh(head.rvh.rkey),
                             .size = be32toh(head.rvh.len),
                             .app_ctx = be32toh(head.tmh.app_ctx)};
    if (!ib_rma_answered(link, &fin, &body.sender))
        return 0;
    memcpy(packet, &header, sizeof header);
    memcpy(packet + sizeof header, &body, sizeof body);
    return sizeof header + sizeof body;
}
