/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs_bits.c - the 64 bits of a tag that an adapter compares: how an envelope is encoded in
 * them, and which envelopes fit.
 */
#include "verbs_groups.h"

#include <string.h>

#include "base/base.h"
#include "verbs_bench.h"

static void an_envelope_survives_its_tag(UNUSED void **state)
{
    const struct verbs_layout layout = {.kind = VERBS_NATIVE};
    const struct mbx_device_envelope native = {0xfe, 0xdcba, 0x9876543210};
    const struct mbx_device_envelope anybody = {1, MBX_DEVICE_ANY_SOURCE_ID, 0};
    struct mbx_device_envelope got;

    assert_int_equal(verbs_tag(layout, &native), 0xfedcba9876543210);
    got = verbs_envelope(layout, 0xfedcba9876543210);
    assert_memory_equal(&got, &native, sizeof got);
    assert_int_equal(verbs_mask(layout, &native, 0), UINT64_MAX);
    assert_int_equal(verbs_mask(layout, &native, 0xff), 0xffffffffffffff00);
    assert_int_equal(verbs_mask(layout, &anybody, UINT64_MAX), 0xff00000000000000);
}

/* The bits that an adapter compares of tags of this format, except bit 63. */
static uint64_t compared(uint64_t format)
{
    const uint64_t mask = verbs_tag_mask(verbs_layout_of(format));

    assert_true(mask >> 63);
    assert_int_equal(__builtin_popcountll(mask), VERBS_FABRIC_TAG_BITS);
    return mask & INT64_MAX;
}

static void forty_seven_bits_of_a_format_are_compared(UNUSED void **state)
{
    const uint64_t low = 0x7fffffffffff;
    const uint64_t mpich = 0x007000007fffffff; /* 3 bits of protocol, 21 of others, 31 of tag */

    assert_int_equal(compared(0x555555555555), low);
    assert_int_equal(compared(1), low);
    assert_int_equal(compared(low), low);
    assert_int_equal(compared(mpich), 0x00700fffffffffff);
    assert_int_equal(compared(0x800000000000), 0xbfffffffffff); /* one bit too many */
    assert_int_equal(compared(INT64_MAX),
                     0x7fff80007fffffff); /* one field: 16 of its bits are high */
    assert_int_equal(compared(0x5555555555555555), 0x40003fffffffffff);
}

/* For each bit of a tag: decoding returns it, or the envelope does not fit. */
static void an_envelope_fits_what_is_compared(UNUSED void **state)
{
    const uint64_t formats[] = {0x555555555555, 0x007000007fffffff, INT64_MAX};

    for (int i = 0; i < 3; i++) {
        const struct verbs_layout layout = verbs_layout_of(formats[i]);
        const uint64_t mask = verbs_tag_mask(layout);

        for (uint64_t bit = 1; bit != 0; bit <<= 1) {
            const struct mbx_device_envelope envelope = {VERBS_FABRIC_CONTEXT, 0xba98, bit | 1};
            const struct mbx_device_envelope got =
                verbs_envelope(layout, verbs_tag(layout, &envelope));
            const uint64_t all = verbs_mask(layout, &envelope, 0);

            assert_int_equal(verbs_fits(layout, &envelope), (mask & bit) != 0);
            assert_int_equal(got.tag, (bit | 1) & mask);
            assert_int_equal(got.source, envelope.source);
            assert_int_equal(all, UINT64_MAX);
            assert_int_equal(__builtin_popcountll(all ^ verbs_mask(layout, &envelope, bit)),
                             (mask & bit) != 0);
        }
        assert_false(verbs_fits(layout, &(struct mbx_device_envelope){2, 1, 1}));
        assert_int_equal(verbs_mask(layout,
                                    &(struct mbx_device_envelope){VERBS_FABRIC_CONTEXT,
                                                                  MBX_DEVICE_ANY_SOURCE_ID, 1},
                                    0),
                         0x0000ffffffffffff);
    }
}

static void the_limits_are_those_of_the_layout(UNUSED void **state)
{
    const struct verbs_layout layout = verbs_layout_of(0x007000007fffffff);
    struct mbx_device_limits limits;
    struct mbx_device *device;

    assert_int_equal(verbs_open(&(struct verbs_config){.peers = 4, .layout = layout}, &device),
                     0);
    device->ops->limits(device, &limits);
    assert_int_equal(limits.tag_mask, 0x80700fffffffffff);
    assert_int_equal(limits.context_bits, 0);
    assert_int_equal(limits.context_id, VERBS_FABRIC_CONTEXT);
    assert_int_equal(limits.untagged_min, VERBS_UNTAGGED_MIN);
    assert_true(limits.caps & MBX_DEVICE_RENDEZVOUS);
    device->ops->close(device);
}

static const struct CMUnitTest bits[] = {
    cmocka_unit_test(an_envelope_survives_its_tag),
    cmocka_unit_test(forty_seven_bits_of_a_format_are_compared),
    cmocka_unit_test(an_envelope_fits_what_is_compared),
    cmocka_unit_test(the_limits_are_those_of_the_layout),
};
const struct verbs_group verbs_bits = {"verbs bits", bits, ARRAY_COUNT(bits)};
