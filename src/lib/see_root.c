/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * see_root.c - where an observer finds what: walk.h has the names.
 */
#include "core/core.h"
#include "device/host/offload.h"
#include "lib/see.h"
#include "rma/rma.h"
#include "rput/rput.h"
#include "sendside/sendside.h"
#include "p2p/p2p.h"

#define EP(field)      offsetof(struct mbx_ep, field)
#define POOL(field)    offsetof(struct pool, field)
#define REQUEST(field) offsetof(struct request, field)
#define MESSAGE(field) offsetof(struct message, field)
#define STATUS(field)  offsetof(struct mbx_status, field)

/* see/walk.c reads so many bytes of it. */
#define READ_AS(bytes, type, member)                                                           \
    static_assert(sizeof((struct type *)0)->member == (bytes), "read as it is")

READ_AS(16, request, match.envelope);
READ_AS(4, pool, slot_count);
READ_AS(1, request, state);
READ_AS(4, request, flags);
READ_AS(4, request, match.state);
READ_AS(4, message, size);
static_assert(sizeof((struct mbx_ep *)0)->names.program >= SEE_MPI_TEXT &&
                  sizeof((struct named_context *)0)->name >= SEE_NAME_TEXT,
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
    AT_EP_NEXT = EP(see) + offsetof(struct ep_see, next),
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
    AT_EP_LOOKED = EP(see) + offsetof(struct ep_see, looked_ns),
    AT_EP_REQUEST_AGES = EP(see) + offsetof(struct ep_see, requests),
    AT_EP_MESSAGE_AGES = EP(see) + offsetof(struct ep_see, messages),
    AT_AGES_SEEN = offsetof(struct see_ages, seen),
    AT_AGES_PLACES = offsetof(struct see_ages, places),
    AT_AGE_BYTES = sizeof(struct see_age),
    AT_AGE_ID = offsetof(struct see_age, id),
    AT_AGE_SINCE = offsetof(struct see_age, since_ns),
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
    AT_REQUEST_BYTES = REQUEST_BYTES_MIN, /* without a shadow: what is read lies before it */
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
    AT_MORE_SIZE = offsetof(struct arrival, size), /* message.c: it stands first */
    AT_ADDRESS_BYTES = sizeof(struct transport_address),
    AT_ADDRESS_SKIP = offsetof(struct transport_address, credit),
    AT_VALUE_QUEUED = MBX_MATCH_QUEUED,
    AT_VALUE_LONG = MESSAGE_LONG,
    AT_VALUE_RTS = MESSAGE_RTS,
    AT_VALUE_DEFERRED = PROTO_STATE(PROTO_BACKLOG, 0), /* as sendside/backlog.h has it */
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
        [REQUEST_POSTED] = SEE_POSTED, [REQUEST_REVOKING] = SEE_RECEIVING,                     \
        ALL_OF(PROTO_SEND, SEE_SENDING), [EAGER_SENDING] = SEE_SENDING,                        \
        [EAGER_WAIT_FIN] = SEE_SEND, [EAGER_ASSEMBLE] = SEE_RECEIVING,                         \
        [RNDV_RTS] = SEE_SENDING, [RNDV_WAIT_FIN] = SEE_SEND, [RNDV_SEND_DATA] = SEE_SENDING,  \
        [RNDV_READ] = SEE_RECEIVING, [RNDV_READ_WAIT] = SEE_RECEIVING,                         \
        [RNDV_CTS] = SEE_RECEIVING, [RNDV_WAIT_DATA] = SEE_RECEIVING,                          \
        ALL_OF(PROTO_BACKLOG, SEE_SEND), ALL_OF(PROTO_RPUT_SEND, SEE_SENDING),                 \
        ALL_OF(PROTO_RPUT_RECV, SEE_RECEIVING), ALL_OF(PROTO_COOP, SEE_RECEIVING),             \
        ALL_OF(PROTO_ACCESS, SEE_ACCESS), ALL_OF(PROTO_OFFLOAD, SEE_RECEIVING),                \
        ALL_OF(PROTO_PIECES, SEE_RECEIVING),                                                   \
    }

struct mbx_ep *see_endpoints;

const struct see_map see_own_map = {
    .kinds = KINDS,
    .offsets =
        {
#define OFFSET(name) [SEE_##name] = AT_##name,
            SEE_FIELD_LIST(OFFSET)
#undef OFFSET
        },
};

static const struct see_root see_root = {
    .magic = SEE_ROOT_MAGIC,
    .version = SEE_VERSION,
    .fields = SEE_FIELDS,
    .endpoints = &see_endpoints,
    .kinds = KINDS,
    .at =
        {
#define ROW(name) [SEE_##name] = {#name, AT_##name},
            SEE_FIELD_LIST(ROW)
#undef ROW
        },
};

/* A debugger looks for this name.  Inside it is not used: of two libraries in a process each has a layout of its own, and
 * the dynamic linker would make one of them. */
extern const struct see_root mbx_see_root
    __attribute__((alias("see_root"), visibility("default")));

uint64_t see_root_address(void)
{
    return (uint64_t)(uintptr_t)&see_root;
}
