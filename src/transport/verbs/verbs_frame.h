/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs_frame.h - the packets to hardware that matches tags.
 *
 * The hardware knows one header of 16 bytes (struct ibv_tmh, in network byte order) and
 * compares the 64 bits of its tag with the receives.  Both sides of a link use the same layout
 * of these bits:
 *
 *     63    56 55      40 39                  0
 *    +--------+----------+--------------------+
 *    |context |  source  |        tag         |   VERBS_NATIVE
 *    +--------+-+--+-----+--------------------+
 *    |  source  |63| 47 bits of the tag       |   VERBS_FABRIC: one context id, the others are
 *    +----------+--+--------------------------+   not tagged
 *
 * The tags of an MPI have 32 bits; the component for Open MPI puts the generation of the
 * communicator above these.
 *
 * VERBS_FABRIC is for the libfabric provider, whose tags hold everything that MPI compares.
 * There bit 63 says that a message has data.  The 47 bits are in two runs, [0, low) and [high,
 * high + 47 - low).
 *
 *   message      opcode  tag       app_ctx                 after the header
 *   eager        EAGER   envelope  data                    all of it
 *   rendezvous   RNDV    envelope  VERBS_RNDV, number,     struct ibv_rvh, struct verbs_rndv
 *                                  data
 *   announced    EAGER   envelope  VERBS_ANNOUNCED         struct verbs_rts
 *   other        NO_TAG: the header is the first 16 bytes of a packet of wire.h, whose `frame`
 *                begins with the opcode, 0; the rest of the frame is the transport's
 *
 * A message that meets no entry is passed on as a packet of wire.h whose frame also begins with
 * that opcode.
 *
 * The hardware itself reads the data of a rendezvous and answers with FIN, which is the
 * request's two headers.  To identify the request, requests that wait for a FIN of one peer all
 * have different numbers: everything else in them may be equal.  An announced message is one
 * that the hardware cannot fetch: longer than 1 GiB, with data above VERBS_RNDV_DATA_MAX, or
 * without a number.  It is matched like any other and software fetches it, so it stays in
 * order.
 *
 * A message whose envelope the layout cannot tell from others is NO_TAG.  So the hardware must
 * not hold a receive that accepts such a message (MBX_DEVICE_NARROW).
 */
#ifndef TRANSPORT_VERBS_FRAME_H
#define TRANSPORT_VERBS_FRAME_H

#include <matchbox/device.h>

enum verbs_layout_kind { VERBS_NATIVE, VERBS_FABRIC };

#define VERBS_SOURCE_BITS     16
#define VERBS_NATIVE_TAG_BITS 40
#define VERBS_FABRIC_TAG_BITS 48 /* with bit 63 */
#define VERBS_FABRIC_CONTEXT  1  /* the context id of the provider's tagged messages */
#define VERBS_RUNS            (VERBS_FABRIC_TAG_BITS - 1)
#define VERBS_HIGH_MAX        16 /* most bits of the upper run */

/* All 0: VERBS_NATIVE. */
struct verbs_layout {
    uint8_t kind;      /* enum verbs_layout_kind */
    uint8_t low, high; /* VERBS_FABRIC: the runs */
};

/* Each layout as a number above 0, as links exchange it. */
#define VERBS_LAYOUT_WORD_MAX ((VERBS_FABRIC << 12 | 0xfff) + 1)

/* The contents of app_ctx. */
#define VERBS_ANNOUNCED (UINT32_C(1) << 31)
#define VERBS_RNDV      (UINT32_C(1) << 30)
#define VERBS_DATA_MAX  (VERBS_RNDV - 1)

/* The contents of app_ctx of a rendezvous. */
#define VERBS_NUMBER_SHIFT  22
#define VERBS_NUMBERS       256
#define VERBS_RNDV_DATA_MAX ((UINT32_C(1) << VERBS_NUMBER_SHIFT) - 1)

/* These two structures are in the byte order of the machine, as all of wire.h. */
struct verbs_rts {
    uint64_t sender, size, address, key;
    uint64_t data;
};

/* The sender's request number, for software that has to complete a rendezvous. */
struct verbs_rndv {
    uint64_t sender;
    uint64_t zero;
};

/* The contents of a FIN of the hardware, which identify its request. */
struct verbs_fin {
    uint64_t tag, address;
    uint32_t key, size, app_ctx;
};

/* verbs_data - the data in this app_ctx, of an eager message or a rendezvous. */
static inline uint32_t verbs_data(uint32_t app_ctx)
{
    return app_ctx & (app_ctx & VERBS_RNDV ? VERBS_RNDV_DATA_MAX : VERBS_DATA_MAX);
}

static inline uint32_t verbs_layout_word(struct verbs_layout layout)
{
    return ((uint32_t)layout.kind << 12 | (uint32_t)layout.low << 6 | layout.high) + 1;
}

static inline uint64_t verbs_low_bits(uint32_t count)
{
    return (UINT64_C(1) << count) - 1; /* count < 64 */
}

/* verbs_layout_of - VERBS_FABRIC for tags of this format (fi_endpoint(3), mem_tag_format),
 * which is not 0 and has bit 63 clear.  If it has more than 47 bits, at most 16 bits of its
 * highest field are compared, and the lowest bits; the upper bits of the field between are
 * not. */
static inline struct verbs_layout verbs_layout_of(uint64_t format)
{
    const uint32_t width = 64 - (uint32_t)__builtin_clzll(format);
    uint32_t top = 0;

    if (width <= VERBS_RUNS)
        return (struct verbs_layout){.kind = VERBS_FABRIC, .low = VERBS_RUNS};
    while (top < VERBS_HIGH_MAX && (format >> (width - top - 1) & 1) != 0)
        top++;
    return (struct verbs_layout){.kind = VERBS_FABRIC,
                                 .low = (uint8_t)(VERBS_RUNS - top),
                                 .high = (uint8_t)(width - top)};
}

static inline uint32_t verbs_tag_bits(struct verbs_layout layout)
{
    return layout.kind == VERBS_FABRIC ? VERBS_FABRIC_TAG_BITS : VERBS_NATIVE_TAG_BITS;
}

static inline uint32_t verbs_context_bits(struct verbs_layout layout)
{
    return 64 - VERBS_SOURCE_BITS - verbs_tag_bits(layout);
}

/* verbs_context - the bits of a context id, in place; FABRIC has none. */
static inline uint64_t verbs_context(struct verbs_layout layout, uint64_t context_id)
{
    const uint32_t bits = verbs_context_bits(layout);

    return bits != 0 ? context_id << (64 - bits) : 0;
}

/* verbs_pack - the compared bits of a tag, contiguous; verbs_unpack restores them. */
static inline uint64_t verbs_pack(struct verbs_layout layout, uint64_t tag)
{
    if (layout.kind != VERBS_FABRIC)
        return tag & verbs_low_bits(VERBS_NATIVE_TAG_BITS);
    return tag >> 63 << VERBS_RUNS |
           (tag >> layout.high & verbs_low_bits(VERBS_RUNS - layout.low)) << layout.low |
           (tag & verbs_low_bits(layout.low));
}

static inline uint64_t verbs_unpack(struct verbs_layout layout, uint64_t bits)
{
    if (layout.kind != VERBS_FABRIC)
        return bits & verbs_low_bits(VERBS_NATIVE_TAG_BITS);
    return bits >> VERBS_RUNS << 63 |
           (bits >> layout.low & verbs_low_bits(VERBS_RUNS - layout.low)) << layout.high |
           (bits & verbs_low_bits(layout.low));
}

/* verbs_tag_mask - the bits of a tag that are compared. */
static inline uint64_t verbs_tag_mask(struct verbs_layout layout)
{
    return verbs_unpack(layout, verbs_low_bits(verbs_tag_bits(layout)));
}

/* verbs_tag - the 64 bits for an envelope; see verbs_fits(). */
static inline uint64_t verbs_tag(struct verbs_layout layout,
                                 const struct mbx_device_envelope *envelope)
{
    return verbs_context(layout, envelope->context_id) |
           (uint64_t)(envelope->source & 0xffff) << verbs_tag_bits(layout) |
           verbs_pack(layout, envelope->tag);
}

static inline struct mbx_device_envelope verbs_envelope(struct verbs_layout layout,
                                                        uint64_t tag)
{
    const uint32_t bits = verbs_tag_bits(layout);

    return (struct mbx_device_envelope){
        .context_id = layout.kind == VERBS_FABRIC
                          ? VERBS_FABRIC_CONTEXT
                          : (uint32_t)(tag >> (VERBS_SOURCE_BITS + VERBS_NATIVE_TAG_BITS)),
        .source = (uint32_t)(tag >> bits & 0xffff),
        .tag = verbs_unpack(layout, tag & verbs_low_bits(bits)),
    };
}

/* verbs_mask - the bits that a receive compares. */
static inline uint64_t verbs_mask(struct verbs_layout layout,
                                  const struct mbx_device_envelope *envelope, uint64_t ignore)
{
    const uint64_t source = envelope->source == MBX_DEVICE_ANY_SOURCE_ID
                                ? 0
                                : UINT64_C(0xffff) << verbs_tag_bits(layout);

    return verbs_context(layout, UINT64_MAX) | source | verbs_pack(layout, ~ignore);
}

/* verbs_fits - do the bits of verbs_tag() tell a message's envelope from all others? */
static inline bool verbs_fits(struct verbs_layout layout,
                              const struct mbx_device_envelope *envelope)
{
    const struct mbx_device_envelope compared =
        verbs_envelope(layout, verbs_tag(layout, envelope));

    return compared.context_id == envelope->context_id && compared.source == envelope->source &&
           compared.tag == envelope->tag;
}

#endif
