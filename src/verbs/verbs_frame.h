/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs_frame.h - what travels to hardware that matches tags.
 *
 * The hardware knows one header of 16 bytes (struct ibv_tmh, in network byte
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
 *                begins with the opcode, 0; the rest of the frame is the transport's
 *
 * What met no entry is told as a packet of wire.h whose frame begins with that opcode, too.
 *
 * The hardware reads the data of a rendezvous itself and answers with FIN, which is the request's
 * two headers.  Announced is a message that it cannot fetch: longer than 4 GiB, or with data above
 * VERBS_DATA_MAX.  It is matched like any other and software fetches it, so its order is kept.
 *
 * A message of an envelope that the layout cannot tell from others is NO_TAG.  So the hardware must
 * not hold a receive that accepts such a one (MBX_DEVICE_NARROW).
 */
#ifndef VERBS_VERBS_FRAME_H
#define VERBS_VERBS_FRAME_H

#include <matchbox/device.h>

enum verbs_layout { VERBS_NATIVE, VERBS_FABRIC };

#define VERBS_SOURCE_BITS     16
#define VERBS_NATIVE_TAG_BITS 32
#define VERBS_FABRIC_TAG_BITS 48
#define VERBS_FABRIC_CONTEXT  1 /* the context id of the provider's tagged messages */

/* In app_ctx. */
#define VERBS_ANNOUNCED (UINT32_C(1) << 31)
#define VERBS_RNDV      (UINT32_C(1) << 30)
#define VERBS_DATA_MAX  (VERBS_RNDV - 1)

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

/* verbs_fits - do the bits of verbs_tag() tell this envelope, of a message, from all others? */
static inline bool verbs_fits(enum verbs_layout layout,
                              const struct mbx_device_envelope *envelope)
{
    const struct mbx_device_envelope told = verbs_envelope(layout, verbs_tag(layout, envelope));

    return told.context_id == envelope->context_id && told.source == envelope->source &&
           told.tag == envelope->tag;
}

#endif
