/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs.h - hardware that matches tags, through libibverbs.
 *
 * What travels.  The hardware knows one header of 16 bytes (struct ibv_tmh, in network byte
 * order) and compares the 64 bits of its tag with those of the receives.  Both sides of a link
 * have the same layout of these bits:
 *
 *     63      48 47      32 31               0
 *    +----------+----------+------------------+
 *    | context  |  source  |       tag        |   VERBS_NATIVE
 *    +----------+----------+------------------+
 *    |  source  |            tag              |   VERBS_FABRIC: one context id, the others are
 *    +----------+-----------------------------+   not tagged
 *
 *   message      opcode  tag       app_ctx                 behind the header
 *   eager        EAGER   envelope  data                    all of it
 *   rendezvous   RNDV    envelope  VERBS_RNDV + data       struct ibv_rvh, struct verbs_rndv
 *   announced    EAGER   envelope  VERBS_ANNOUNCED         struct verbs_rts
 *   other        NO_TAG: the header is the first 16 bytes of a packet of wire.h, whose `frame`
 *                begins with the opcode; the rest of the frame is the transport's
 *
 * The hardware reads the data of a rendezvous itself and answers with FIN, which is the request's
 * two headers.  Announced is a message that it cannot fetch: longer than 4 GiB, or with data above
 * VERBS_DATA_MAX.  It is matched like any other and software fetches it, so its order is kept.
 *
 * A link carries only envelopes that its layout can tell apart: a message of another one would be
 * NO_TAG, and a receive in the hardware that accepts it could not meet it.
 *
 * Untagged buffers receive 16 bytes behind their beginning, so that an eager packet can be turned
 * where it lies into what it would have been on any other wire: a packet of wire.h.
 */
#ifndef VERBS_VERBS_H
#define VERBS_VERBS_H

#include <matchbox/device.h>

enum verbs_layout { VERBS_NATIVE, VERBS_FABRIC };

#define VERBS_SOURCE_BITS     16
#define VERBS_NATIVE_TAG_BITS 32
#define VERBS_FABRIC_TAG_BITS 48
#define VERBS_FABRIC_CONTEXT  1 /* the context id of the provider's tagged messages */

/* In app_ctx. */
#define VERBS_ANNOUNCED    (UINT32_C(1) << 31)
#define VERBS_RNDV         (UINT32_C(1) << 30)
#define VERBS_DATA_MAX     (VERBS_RNDV - 1)

#define VERBS_EAGER_MAX    8192
#define VERBS_UNTAGGED_MIN 33 /* a real one does not match before it has had so many buffers */

/* These two in the byte order of the machine, as all of wire.h. */
struct verbs_rts {
    uint64_t sender, size, address, key;
    uint64_t data;
};

/* The sender's request, for software that has to finish a rendezvous. */
struct verbs_rndv {
    uint64_t sender;
    uint64_t zero;
};

/* What a FIN of the hardware says, of the request that it answers. */
struct verbs_fin {
    uint64_t tag, address;
    uint32_t key, size, app_ctx;
};

static inline uint32_t verbs_tag_bits(enum verbs_layout layout)
{
    return layout == VERBS_FABRIC ? VERBS_FABRIC_TAG_BITS : VERBS_NATIVE_TAG_BITS;
}

static inline uint32_t verbs_context_bits(enum verbs_layout layout)
{
    return 64 - VERBS_SOURCE_BITS - verbs_tag_bits(layout);
}

/* verbs_tag - the 64 bits of an envelope that fits them. */
static inline uint64_t verbs_tag(enum verbs_layout layout,
                                 const struct mbx_device_envelope *envelope)
{
    const uint32_t bits = verbs_tag_bits(layout);
    const uint64_t rest = (uint64_t)(envelope->source & 0xffff) << bits |
                          (envelope->tag & ((UINT64_C(1) << bits) - 1));

    return layout == VERBS_FABRIC ? rest
                                  : (uint64_t)(envelope->context_id & 0xffff) << 48 | rest;
}

static inline struct mbx_device_envelope verbs_envelope(enum verbs_layout layout, uint64_t tag)
{
    const uint32_t bits = verbs_tag_bits(layout);

    return (struct mbx_device_envelope){
        .context_id = layout == VERBS_FABRIC ? VERBS_FABRIC_CONTEXT : (uint32_t)(tag >> 48),
        .source = (uint32_t)(tag >> bits & 0xffff),
        .tag = tag & ((UINT64_C(1) << bits) - 1),
    };
}

/* verbs_mask - the bits that a receive compares. */
static inline uint64_t verbs_mask(enum verbs_layout layout,
                                  const struct mbx_device_envelope *envelope, uint64_t ignore)
{
    const uint32_t bits = verbs_tag_bits(layout);
    const uint64_t source =
        envelope->source == MBX_DEVICE_ANY_SOURCE_ID ? 0 : UINT64_C(0xffff) << bits;

    return (layout == VERBS_FABRIC ? 0 : UINT64_C(0xffff) << 48) | source |
           (~ignore & ((UINT64_C(1) << bits) - 1));
}

/* The bits of mbx_device_recv.region: memory that the caller has registered, with the device's
 * protection domain. */
static inline uint64_t verbs_region(uint32_t lkey)
{
    return UINT64_C(1) << 32 | lkey;
}

struct ibv_comp_channel;
struct ibv_context;
struct ibv_pd;
struct ibv_qp;

struct verbs_config {
    const char *name;            /* of libibverbs' device; NULL: the first that matches tags */
    uint32_t peers;              /* that may send: 0 .. peers - 1 */
    uint32_t eager_max;          /* bytes of the longest eager message; 0: VERBS_EAGER_MAX */
    enum verbs_layout layout;    /* of all links */
    struct ibv_context *context; /* the caller's, and so is pd, until close; NULL: opened */
    struct ibv_pd *pd;           /* here; name is not looked at */
    struct ibv_comp_channel *channel; /* where verbs_arm() tells; or NULL */
    /* A FIN of the hardware has come from this peer: sets *sender, the request that it is of.
     * False: there is none.  NULL: nobody sends a rendezvous from here. */
    bool (*fin)(void *arg, uint32_t peer, const struct verbs_fin *fin, uint64_t *sender);
    /* The link of this peer has failed, its queue pair is in ERR, and the caller's
     * verbs_detach() follows, later.  NULL: verbs_poll() calls verbs_detach(). */
    void (*link_failed)(void *arg, uint32_t peer, const char *why);
    void *arg;
};

/* Opens the hardware.  0; -ENODEV libibverbs has no device (of that name); -EOPNOTSUPP none of
 * them matches tags, libibverbs cannot be loaded, or this library is built without; -ENOMEM; what
 * libibverbs says. */
int verbs_open(const struct verbs_config *config, struct mbx_device **device);

/* verbs_attach - a queue pair (RC, state RESET) by which this peer's messages come; after
 * configure().  The device owns it, and its send queue, on which it reads and sends FINs: whoever
 * brings it to RTS sets max_rd_atomic above 0.  Whoever wants to send to the peer needs another
 * one.  0; -EALREADY the peer has one; -errno. */
int verbs_attach(struct mbx_device *device, uint32_t peer, struct ibv_qp **qp);

/* verbs_detach - the peer is gone.  When this returns the device writes nothing for it any more;
 * what it had matched and not filled ends with -ENOTCONN, by a later poll. */
void verbs_detach(struct mbx_device *device, uint32_t peer);

/* verbs_arm - the completion channel tells of the next event.  0; -ENODEV. */
int verbs_arm(struct mbx_device *device);

/* verbs_lose - the caller knows that the device cannot be used any more (an async event). */
void verbs_lose(struct mbx_device *device, const char *why);

/* verbs_use - from now on, this file is loaded as libibverbs; until one has been.
 * Threads: any. */
void verbs_use(const char *library);

/* verbs_explain - one line: which hardware there is, or why none can be used.
 * True: verbs_open() would find a device. */
bool verbs_explain(char *line, size_t size);

#endif
