/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs.h - hardware that matches tags, through libibverbs.
 *
 * What travels.  The hardware knows one header of 16 bytes (struct ibv_tmh, in network byte
 * order) and compares the 64 bits of its tag with those of the receives:
 *
 *     63      48 47      32 31               0
 *    +----------+----------+------------------+
 *    | context  |  source  |       tag        |     (tmh.tag & mask) == entry.tag
 *    +----------+----------+------------------+
 *
 *   message      opcode  tag        app_ctx                 behind the header
 *   eager        EAGER   envelope   data, below 2^31        all of it
 *   announced    EAGER   envelope   VERBS_ANNOUNCED         struct verbs_rts
 *   other        NO_TAG  source     first word of the wire  body and payload of the wire
 *                        alone      packet                  packet (see wire.h)
 *
 * A message that is too long for one packet, that is synchronous, or whose data does not fit
 * 31 bits is announced: it is matched like any other and software fetches it, so its order is
 * kept.  The hardware's own rendezvous is not used.  An envelope that does not fit 64 bits
 * cannot be told apart; receives with such a one stay in software.
 *
 * Untagged buffers receive 16 bytes behind their beginning, so that every packet can be turned
 * where it lies into what it would have been on any other wire: a packet of wire.h.
 */
#ifndef VERBS_VERBS_H
#define VERBS_VERBS_H

#include <matchbox/device.h>

#define VERBS_CONTEXT_BITS 16
#define VERBS_SOURCE_BITS  16
#define VERBS_TAG_BITS     32
#define VERBS_ANNOUNCED    (UINT32_C(1) << 31)

/* In the byte order of the machine, as all of wire.h. */
struct verbs_rts {
    uint64_t sender, size, address, key;
    uint64_t data;
};

/* verbs_tag - the 64 bits of an envelope that fits them. */
static inline uint64_t verbs_tag(const struct mbx_device_envelope *envelope)
{
    return (uint64_t)(envelope->context_id & 0xffff) << 48 |
           (uint64_t)(envelope->source & 0xffff) << 32 | (uint32_t)envelope->tag;
}

static inline struct mbx_device_envelope verbs_envelope(uint64_t tag)
{
    return (struct mbx_device_envelope){
        .context_id = (uint32_t)(tag >> 48),
        .source = (uint32_t)(tag >> 32 & 0xffff),
        .tag = (uint32_t)tag,
    };
}

/* verbs_mask - the bits that a receive compares. */
static inline uint64_t verbs_mask(const struct mbx_device_envelope *envelope, uint64_t ignore)
{
    return UINT64_C(0xffff) << 48 |
           (envelope->source == MBX_DEVICE_ANY_SOURCE_ID ? 0 : UINT64_C(0xffff) << 32) |
           (uint32_t)~ignore;
}

struct ibv_qp;

struct verbs_config {
    const char *name;   /* of libibverbs' device; NULL: the first that matches tags */
    uint32_t peers;     /* that may send: 0 .. peers - 1 */
    uint32_t eager_max; /* bytes of the longest eager message; 0: VERBS_EAGER_MAX */
};

#define VERBS_EAGER_MAX 8192

/* Opens the hardware.  0; -ENODEV libibverbs has no device (of that name); -EOPNOTSUPP none of
 * them matches tags, libibverbs cannot be loaded, or this library is built without; -ENOMEM; what libibverbs says. */
int verbs_open(const struct verbs_config *config, struct mbx_device **device);

/* verbs_attach - a queue pair (RC, state RESET) whose messages this device matches; after
 * configure().  The device owns it, and its send queue.  Whoever wants to send to the peer
 * needs another one.  0; -errno. */
int verbs_attach(struct mbx_device *device, struct ibv_qp **qp);

/* verbs_use - from now on, this file is loaded as libibverbs; until one has been.
 * Threads: any. */
void verbs_use(const char *library);

/* verbs_explain - one line: which hardware there is, or why none can be used.
 * True: verbs_open() would find a device. */
bool verbs_explain(char *line, size_t size);

#endif
