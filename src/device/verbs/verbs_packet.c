/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs_packet.c - converts the header of tag matching into the header of wire.h.
 *
 *   EAGER, VERBS_ANNOUNCED       the header is replaced in place; nothing moves.  The frame of a
 *                                tagged packet begins with its opcode
 *   RNDV                         becomes an RTS
 *   FIN                          becomes the FIN of the request that config.fin() finds
 *   NO_TAG                       is a packet already, and moves to the beginning of its buffer;
 *                                after the opcode, its frame is the transport's
 */
#include <endian.h>

#include "base/base.h"
#include "device/verbs/verbs_state.h"

static_assert(offsetof(struct verbs_rts, data) == sizeof(struct wire_rts),
              "what follows the header of an announced message is the body of an RTS");
static_assert(sizeof(struct ibv_tmh) == 16 && sizeof(struct ibv_rvh) == 16, "as on the wire");

bool verbs_describe_rts(const unsigned char *bytes, size_t size, struct mbx_device_event *event)
{
    struct verbs_rts rts;

    if (size != sizeof rts)
        return false;
    memcpy(&rts, bytes, sizeof rts);
    event->size = rts.size;
    event->data = rts.data;
    event->sender = rts.sender;
    event->address = rts.address;
    event->key = rts.key;
    return true;
}

/* Reads the two structures that follow a TMH. */
static bool read_rndv(const unsigned char *bytes, size_t size, struct wire_rts *rts)
{
    struct verbs_rndv rndv;
    struct ibv_rvh rvh;

    if (size != sizeof rvh + sizeof rndv)
        return false;
    memcpy(&rvh, bytes, sizeof rvh);
    memcpy(&rndv, bytes + sizeof rvh, sizeof rndv);
    *rts = (struct wire_rts){.sender = rndv.sender,
                             .size = be32toh(rvh.len),
                             .address = be64toh(rvh.va),
                             .key = be32toh(rvh.rkey)};
    return rndv.zero == 0;
}

bool verbs_describe_rndv(const unsigned char *bytes, size_t size,
                         struct mbx_device_event *event)
{
    struct ibv_tmh tmh;
    struct wire_rts rts;

    if (size < sizeof tmh)
        return false;
    memcpy(&tmh, bytes, sizeof tmh);
    if (tmh.opcode != IBV_TMH_RNDV || !read_rndv(bytes + sizeof tmh, size - sizeof tmh, &rts))
        return false;
    event->size = rts.size;
    event->sender = rts.sender;
    event->address = rts.address;
    event->key = rts.key;
    return true;
}

/* Writes a header and a body to the beginning of the buffer. */
static size_t verbs_packet_write(unsigned char *memory, const struct wire_header *header,
                                 const void *body, size_t size)
{
    memcpy(memory, header, sizeof *header);
    memcpy(memory + sizeof *header, body, size);
    return sizeof *header + size;
}

/* Writes a packet that wire_check() refuses. */
static size_t nonsense(unsigned char *memory)
{
    return verbs_packet_write(memory, &(struct wire_header){0}, "", 0);
}

static size_t tagged(const struct verbs *v, const struct verbs_pair *pair,
                     unsigned char *memory, const struct ibv_tmh *tmh, size_t behind)
{
    const struct mbx_device_envelope envelope =
        verbs_envelope(v->config.layout, be64toh(tmh->tag));
    const uint32_t app_ctx = be32toh(tmh->app_ctx);
    struct wire_header header = {.tag = envelope.tag, .context_id = envelope.context_id};
    const unsigned char *body = memory + sizeof header;
    struct verbs_rts rts;
    struct wire_rts found;

    if (envelope.source != pair->peer)
        return nonsense(memory);
    header.frame = tmh->opcode;
    header.what = wire_what(WIRE_RTS);
    header.data = verbs_data(app_ctx);
    if (tmh->opcode == IBV_TMH_RNDV)
        return (app_ctx & ~VERBS_DATA_MAX) == VERBS_RNDV && read_rndv(body, behind, &found)
                   ? verbs_packet_write(memory, &header, &found, sizeof found)
                   : nonsense(memory);
    if (app_ctx == VERBS_ANNOUNCED && behind == sizeof rts) {
        memcpy(&rts, body, sizeof rts);
        header.data = rts.data;
        return verbs_packet_write(memory, &header, "", 0) + sizeof(struct wire_rts);
    }
    if (app_ctx > VERBS_DATA_MAX || behind > v->limits.eager_max)
        return nonsense(memory);
    header.what = wire_what(WIRE_EAGER);
    return verbs_packet_write(memory, &header, "", 0) + behind;
}

/* A FIN of the hardware, which identifies the request by the request's own header. */
static size_t fin(const struct verbs *v, const struct verbs_pair *pair, unsigned char *memory,
                  const struct ibv_tmh *tmh, size_t behind)
{
    const struct wire_header header = {.what = wire_what(WIRE_FIN)};
    struct verbs_fin told = {.tag = be64toh(tmh->tag), .app_ctx = be32toh(tmh->app_ctx)};
    struct wire_fin body;
    struct ibv_rvh rvh;

    if (behind < sizeof rvh || v->config.fin == NULL)
        return nonsense(memory);
    memcpy(&rvh, memory + sizeof header, sizeof rvh);
    told.address = be64toh(rvh.va);
    told.key = be32toh(rvh.rkey);
    told.size = be32toh(rvh.len);
    if (!v->config.fin(v->config.arg, pair->peer, &told, &body.sender))
        return nonsense(memory);
    return verbs_packet_write(memory, &header, &body, sizeof body);
}

/* Also accepts a packet that is shorter than the header: the core checks packets. */
static size_t no_tag(unsigned char *memory, size_t size)
{
    memmove(memory, memory + VERBS_HEADROOM, size);
    return size;
}

void verbs_packet(struct verbs *v, const struct verbs_pair *pair, unsigned char *memory,
                  size_t size, struct mbx_device_event *event)
{
    const size_t behind = size - sizeof(struct ibv_tmh);
    struct ibv_tmh tmh;

    memcpy(&tmh, memory + VERBS_HEADROOM, sizeof tmh);
    event->peer = pair->peer;
    event->type = MBX_DEVICE_PASSED;
    if (tmh.opcode == IBV_TMH_EAGER || tmh.opcode == IBV_TMH_RNDV) {
        event->type = MBX_DEVICE_UNEXPECTED;
        event->bytes = tagged(v, pair, memory, &tmh, behind);
    } else if (tmh.opcode == IBV_TMH_FIN) {
        event->bytes = fin(v, pair, memory, &tmh, behind);
    } else if (tmh.opcode == IBV_TMH_NO_TAG) {
        event->bytes = no_tag(memory, size);
    } else {
        event->bytes = nonsense(memory);
    }
}
