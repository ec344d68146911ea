/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * inspect_root.c - the layout for observers: walk.h has the names.
 */
#include "core/core.h"
#include "device/host/offload.h"
#include "lib/inspect.h"
#include "rma/rma.h"
#include "advert/advert.h"
#include "defer/defer.h"
#include "p2p/p2p.h"

#define EP(field)      offsetof(struct mbx_ep, field)
#define POOL(field)    offsetof(struct pool, field)
#define REQUEST(field) offsetof(struct request, field)
#define MESSAGE(field) offsetof(struct message, field)
#define STATUS(field)  offsetof(struct mbx_status, field)

/* inspect/walk.c reads this many bytes of the member. */
#define READ_AS(bytes, type, member)                                                           \
    static_assert(sizeof((struct type *)0)->member == (bytes), "read as it is")

READ_AS(16, request, match.envelope);
READ_AS(4, pool, slot_count);
READ_AS(1, request, state);
READ_AS(4, request, flags);
READ_AS(4, request, match.state);
READ_AS(4, message, size);
static_assert(sizeof((struct mbx_ep *)0)->names.program >= INSPECT_MPI_TEXT &&
                  sizeof((struct named_context *)0)->name >= INSPECT_NAME_TEXT,
              "texts are there whole");
static_assert(sizeof(size_t) == 8, "sizes are read as they are");

enum {
    AT_EP_REQUESTS = EP(requests.pool),
    AT_EP_MESSAGES = EP(messages),
    AT_EP_ADDRESSES = EP(peers.addresses),
    AT_EP_PEERS = EP(peers.count),
    AT_EP_EXPECTED = EP(stats.expected),
    AT_EP_UNEXPECTED = EP(stats.unexpected),
    AT_EP_CANCELLED = EP(stats.cancelled),
    AT_EP_SENT = EP(stats.sent),
    AT_EP_RECEIVED = EP(stats.received),
    AT_PROTOCOLS = MBX_PROTOCOLS,
    AT_EP_PEEKED = EP(peeks) + offsetof(struct ep_peeks, count),
    AT_EP_PEEK = EP(peeks) + offsetof(struct ep_peeks, envelope),
    AT_EP_PEEK_IGNORE = EP(peeks) + offsetof(struct ep_peeks, ignore),
    AT_EP_PROGRAM = EP(names.program),
    AT_EP_PAGE = EP(observed.page),
    AT_EP_NEXT = EP(inspect) + offsetof(struct ep_inspect, next),
    AT_EP_CONTEXTS = EP(names.contexts),
    AT_EP_CONTEXT_COUNT = EP(names.context_count),
    AT_CONTEXT_BYTES = sizeof(struct named_context),
    AT_CONTEXT_ID = offsetof(struct named_context, id),
    AT_CONTEXT_SIZE = offsetof(struct named_context, size),
    AT_CONTEXT_NAME = offsetof(struct named_context, name),
    AT_EP_NAMED_PEERS = EP(names.peers),
    AT_EP_NAMED_SLOTS = EP(names.peer_slots),
    AT_NAMED_BYTES = sizeof(struct named_peer),
    AT_NAMED_JOB = offsetof(struct named_peer, job),
    AT_NAMED_RANK = offsetof(struct named_peer, rank),
    AT_NAMED_CHANGE = offsetof(struct named_peer, change),
    AT_EP_LOOKED = EP(inspect) + offsetof(struct ep_inspect, checked_ns),
    AT_EP_REQUEST_AGES = EP(inspect) + offsetof(struct ep_inspect, requests),
    AT_EP_MESSAGE_AGES = EP(inspect) + offsetof(struct ep_inspect, messages),
    AT_AGES_SEEN = offsetof(struct inspect_ages, seen),
    AT_AGES_PLACES = offsetof(struct inspect_ages, places),
    AT_AGE_BYTES = sizeof(struct inspect_age),
    AT_AGE_ID = offsetof(struct inspect_age, id),
    AT_AGE_SINCE = offsetof(struct inspect_age, since_ns),
    AT_POOL_INDEX_MASK = POOL(index_mask),
    AT_POOL_CHUNKS = POOL(chunks),
    AT_POOL_SLOTS = POOL(slot_count),
    AT_POOL_SHIFT = POOL(chunk_shift),
    AT_POOL_STRIDE = POOL(stride),
    AT_POOL_LIVE_BIT = POOL(live_bit),
    AT_SLOT_BYTES = sizeof(struct pool_slot),
    AT_REQUEST_STATE = REQUEST(state),
    AT_REQUEST_FLAGS = REQUEST(flags),
    AT_REQUEST_SIZE = REQUEST(size),
    AT_REQUEST_ENVELOPE = REQUEST(match.envelope),
    AT_REQUEST_IGNORE = REQUEST(match.ignore),
    AT_REQUEST_SEQ = REQUEST(match.seq),
    AT_REQUEST_QUEUED = REQUEST(match.state),
    AT_REQUEST_STATUS = REQUEST(completion.status),
    AT_REQUEST_BYTES = REQUEST_BYTES_MIN, /* without a shadow: all fields that are read are
                                             before it */
    AT_STATUS_CONTEXT = STATUS(context_id),
    AT_STATUS_SOURCE = STATUS(source),
    AT_STATUS_TAG = STATUS(tag),
    AT_STATUS_SIZE = STATUS(size),
    AT_MESSAGE_ENVELOPE = MESSAGE(match.envelope),
    AT_MESSAGE_SEQ = MESSAGE(match.seq),
    AT_MESSAGE_QUEUED = MESSAGE(match.state),
    AT_MESSAGE_SIZE = MESSAGE(size),
    AT_MESSAGE_RTS_SIZE = MESSAGE(rts.size),
    AT_MESSAGE_MORE = MESSAGE(more),
    AT_MESSAGE_BYTES = sizeof(struct message),
    AT_MORE_SIZE = offsetof(struct arrival, size), /* message.c: the arrival is the first
                                                      member */
    AT_ADDRESS_BYTES = sizeof(struct transport_address),
    AT_ADDRESS_SKIP = offsetof(struct transport_address, credit),
    AT_VALUE_QUEUED = MBX_MATCH_QUEUED,
    AT_VALUE_LONG = MESSAGE_LONG,
    AT_VALUE_RTS = MESSAGE_RTS,
    AT_VALUE_DEFERRED = PROTO_STATE(PROTO_BACKLOG, 0), /* as in defer/backlog.h */
    AT_VALUE_SYNC = REQUEST_SYNC,
    AT_VALUE_INTERNAL = REQUEST_INTERNAL,
};

#define ALL_OF(proto, kind)                                                                    \
    [PROTO_STATE(proto, 0)] = (kind), [PROTO_STATE(proto, 1)] = (kind),                        \
                        [PROTO_STATE(proto, 2)] = (kind), [PROTO_STATE(proto, 3)] = (kind),    \
                        [PROTO_STATE(proto, 4)] = (kind), [PROTO_STATE(proto, 5)] = (kind),    \
                        [PROTO_STATE(proto, 6)] = (kind), [PROTO_STATE(proto, 7)] = (kind)

#define KINDS                                                                                  \
    {                                                                                          \
        [REQUEST_POSTED] = INSPECT_POSTED, [REQUEST_REVOKING] = INSPECT_RECEIVING,             \
        ALL_OF(PROTO_SEND, INSPECT_SENDING), [EAGER_SENDING] = INSPECT_SENDING,                \
        [EAGER_WAIT_FIN] = INSPECT_SEND, [EAGER_ASSEMBLE] = INSPECT_RECEIVING,                 \
        [RNDV_RTS] = INSPECT_SENDING, [RNDV_WAIT_FIN] = INSPECT_SEND,                          \
        [RNDV_SEND_DATA] = INSPECT_SENDING, [RNDV_READ] = INSPECT_RECEIVING,                   \
        [RNDV_READ_WAIT] = INSPECT_RECEIVING, [RNDV_CTS] = INSPECT_RECEIVING,                  \
        [RNDV_WAIT_DATA] = INSPECT_RECEIVING, ALL_OF(PROTO_BACKLOG, INSPECT_SEND),             \
        ALL_OF(PROTO_ADVERT_SEND, INSPECT_SENDING),                                            \
        ALL_OF(PROTO_ADVERT_RECV, INSPECT_RECEIVING),                                          \
        ALL_OF(PROTO_SPLIT_COPY, INSPECT_RECEIVING), ALL_OF(PROTO_ACCESS, INSPECT_ACCESS),     \
        ALL_OF(PROTO_OFFLOAD, INSPECT_RECEIVING), ALL_OF(PROTO_PIECES, INSPECT_RECEIVING),     \
    }

struct mbx_ep *inspect_endpoints;

const struct inspect_map inspect_own_map = {
    .kinds = KINDS,
    .offsets =
        {
#define OFFSET(name) [INSPECT_##name] = AT_##name,
            INSPECT_FIELD_LIST(OFFSET)
#undef OFFSET
        },
};

static const struct inspect_root inspect_root = {
    .magic = INSPECT_ROOT_MAGIC,
    .version = INSPECT_VERSION,
    .fields = INSPECT_FIELDS,
    .endpoints = &inspect_endpoints,
    .kinds = KINDS,
    .at =
        {
#define ROW(name) [INSPECT_##name] = {#name, AT_##name},
            INSPECT_FIELD_LIST(ROW)
#undef ROW
        },
};

/* A debugger looks for this symbol.  The library itself does not use it: two libraries in a
 * process have different layouts, and the dynamic linker would merge the symbols. */
extern const struct inspect_root mbx_see_root
    __attribute__((alias("inspect_root"), visibility("default")));

uint64_t inspect_root_address(void)
{
    return (uint64_t)(uintptr_t)&inspect_root;
}
