/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * see_root.c - where an observer finds what: walk.h has the names.
 */
#include "core/core.h"
#include "lib/see.h"
#include "p2p/p2p.h"

#define EP(field)      offsetof(struct mbx_ep, field)
#define POOL(field)    offsetof(struct pool, field)
#define REQUEST(field) offsetof(struct request, field)
#define MESSAGE(field) offsetof(struct message, field)
#define STATUS(field)  offsetof(struct mbx_status, field)

/* What see/walk.c takes of each. */
static_assert(sizeof(struct mbx_match_envelope) == 16, "read as it is");
static_assert(sizeof((struct pool *)0)->slot_count == 4, "read as it is");
static_assert(sizeof((struct request *)0)->state == 1, "read as it is");
static_assert(sizeof((struct request *)0)->flags == 4, "read as it is");
static_assert(sizeof((struct request *)0)->match.state == 4, "read as it is");
static_assert(sizeof((struct message *)0)->size == 4, "read as it is");
static_assert(sizeof((struct mbx_ep *)0)->names.program >= SEE_MPI_TEXT, "read as it is");
static_assert(sizeof(size_t) == 8, "read as it is");

#define ALL_OF(proto, kind)                                                                    \
    [PROTO_STATE(proto, 0)] = (kind), [PROTO_STATE(proto, 1)] = (kind),                        \
                        [PROTO_STATE(proto, 2)] = (kind), [PROTO_STATE(proto, 3)] = (kind),    \
                        [PROTO_STATE(proto, 4)] = (kind), [PROTO_STATE(proto, 5)] = (kind),    \
                        [PROTO_STATE(proto, 6)] = (kind), [PROTO_STATE(proto, 7)] = (kind)

const struct see_root mbx_see_root = {
    .magic = SEE_ROOT_MAGIC,
    .version = SEE_VERSION,
    .fields = SEE_FIELDS,
    .offsets =
        {
            [SEE_EP_REQUESTS] = EP(requests.pool),
            [SEE_EP_MESSAGES] = EP(messages),
            [SEE_EP_ADDRESSES] = EP(peers.addresses),
            [SEE_EP_PEERS] = EP(peers.count),
            [SEE_EP_EXPECTED] = EP(stats.expected),
            [SEE_EP_UNEXPECTED] = EP(stats.unexpected),
            [SEE_EP_CANCELLED] = EP(stats.cancelled),
            [SEE_EP_SENT] = EP(stats.sent),
            [SEE_EP_RECEIVED] = EP(stats.received),
            [SEE_PROTOCOLS] = MBX_PROTOCOLS,
            [SEE_EP_PEEKED] = EP(see.peeked),
            [SEE_EP_PEEK] = EP(see.peek),
            [SEE_EP_PEEK_IGNORE] = EP(see.peek_ignore),
            [SEE_EP_PROGRAM] = EP(names.program),
            [SEE_POOL_CHUNKS] = POOL(chunks),
            [SEE_POOL_SLOTS] = POOL(slot_count),
            [SEE_POOL_SHIFT] = POOL(chunk_shift),
            [SEE_POOL_STRIDE] = POOL(stride),
            [SEE_POOL_LIVE_BIT] = POOL(live_bit),
            [SEE_SLOT_BYTES] = sizeof(struct pool_slot),
            [SEE_REQUEST_STATE] = REQUEST(state),
            [SEE_REQUEST_FLAGS] = REQUEST(flags),
            [SEE_REQUEST_SIZE] = REQUEST(size),
            [SEE_REQUEST_ENVELOPE] = REQUEST(match.envelope),
            [SEE_REQUEST_IGNORE] = REQUEST(match.ignore),
            [SEE_REQUEST_SEQ] = REQUEST(match.seq),
            [SEE_REQUEST_QUEUED] = REQUEST(match.state),
            [SEE_REQUEST_STATUS] = REQUEST(completion.status),
            [SEE_REQUEST_BYTES] = sizeof(struct request),
            [SEE_STATUS_CONTEXT] = STATUS(context_id),
            [SEE_STATUS_SOURCE] = STATUS(source),
            [SEE_STATUS_TAG] = STATUS(tag),
            [SEE_STATUS_SIZE] = STATUS(size),
            [SEE_MESSAGE_ENVELOPE] = MESSAGE(match.envelope),
            [SEE_MESSAGE_SEQ] = MESSAGE(match.seq),
            [SEE_MESSAGE_QUEUED] = MESSAGE(match.state),
            [SEE_MESSAGE_SIZE] = MESSAGE(size),
            [SEE_MESSAGE_RTS_SIZE] = MESSAGE(rts.size),
            [SEE_MESSAGE_MORE] = MESSAGE(more),
            [SEE_MESSAGE_BYTES] = sizeof(struct message),
            [SEE_MORE_SIZE] = offsetof(struct arrival, size), /* message.c: it stands first */
            [SEE_ADDRESS_BYTES] = sizeof(struct transport_address),
            [SEE_ADDRESS_SKIP] = offsetof(struct transport_address, credit),
            [SEE_VALUE_QUEUED] = MBX_MATCH_QUEUED,
            [SEE_VALUE_LONG] = MESSAGE_LONG,
            [SEE_VALUE_RTS] = MESSAGE_RTS,
            [SEE_VALUE_SYNC] = REQUEST_SYNC,
            [SEE_VALUE_INTERNAL] = REQUEST_INTERNAL,
        },
    .kinds =
        {
            /* PROTO_REQUEST: complete */
            [REQUEST_POSTED] = SEE_POSTED,
            [REQUEST_REVOKING] = SEE_RECEIVING,
            ALL_OF(PROTO_SEND, SEE_SENDING),
            [EAGER_SENDING] = SEE_SENDING,
            [EAGER_WAIT_FIN] = SEE_SEND,
            [EAGER_ASSEMBLE] = SEE_RECEIVING,
            [RNDV_RTS] = SEE_SENDING,
            [RNDV_WAIT_FIN] = SEE_SEND,
            [RNDV_SEND_DATA] = SEE_SENDING,
            [RNDV_READ] = SEE_RECEIVING,
            [RNDV_READ_WAIT] = SEE_RECEIVING,
            [RNDV_CTS] = SEE_RECEIVING,
            [RNDV_WAIT_DATA] = SEE_RECEIVING,
            ALL_OF(PROTO_BACKLOG, SEE_SEND),
            ALL_OF(PROTO_RPUT_SEND, SEE_SENDING),
            ALL_OF(PROTO_RPUT_RECV, SEE_RECEIVING),
            ALL_OF(PROTO_COOP, SEE_RECEIVING),
            ALL_OF(PROTO_ACCESS, SEE_ACCESS),
            /* PROTO_TARGET: a peer's */
            ALL_OF(PROTO_OFFLOAD, SEE_RECEIVING),
            ALL_OF(PROTO_PIECES, SEE_RECEIVING),
        },
};
