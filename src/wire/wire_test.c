/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wire_test.c - valid packets are decoded without a change, all others are refused.
 *
 * Each invalid packet is a valid one with one thing changed, and the reason shows that the
 * check refused that thing.
 */
#include <errno.h>
#include <stdalign.h>
#include <string.h>

#include "base/base.h"
#include "base/random.h"
#include "base/unit.h"
#include "wire/wire.h"

#define PACKET_MAX 256

static struct {
    alignas(8) unsigned char bytes[PACKET_MAX];
    size_t size;
} packet;

static bool has_envelope(enum wire_type type)
{
    switch (type) {
    case WIRE_EAGER:
    case WIRE_SYNC:
    case WIRE_FIRST:
    case WIRE_RTS:
    case WIRE_RTR:
    case WIRE_CLAIM:
    case WIRE_PEEK:
    case WIRE_PEEKED:
    case WIRE_ADVERTISE:
    case WIRE_WRITE:
        return true;
    case WIRE_MORE:
    case WIRE_CTS:
    case WIRE_DATA:
    case WIRE_FIN:
    case WIRE_CREDIT:
    case WIRE_DEFER:
    case WIRE_RETIRE:
    case WIRE_PUT: /* it may have data of its own, with a flag */
    case WIRE_GET:
    case WIRE_ATOMIC:
    case WIRE_ANSWER:
    case WIRE_PUSH:
    case WIRE_WRITTEN:
    case WIRE_SPLIT_COPY:
    case WIRE_WITHDRAW:
    case WIRE_TYPES:
        break;
    }
    return false;
}

static void build(enum wire_type type, const void *body, size_t payload_size)
{
    struct wire_header h = {.frame = 77, .type = (uint8_t)type, .version = WIRE_VERSION};

    if (has_envelope(type)) {
        h.tag = 11;
        h.data = 12;
        h.context_id = 13;
    }
    memset(packet.bytes, 0x5a, sizeof packet.bytes);
    memcpy(packet.bytes, &h, sizeof h);
    if (wire_body_size(type) != 0)
        memcpy(packet.bytes + sizeof h, body, wire_body_size(type));
    packet.size = sizeof h + wire_body_size(type) + payload_size;
    assert_true(packet.size <= PACKET_MAX);
}

static struct wire_header *header(void)
{
    return (struct wire_header *)(void *)packet.bytes;
}

/* Decodes the packet, which must be valid; does not check its payload. */
static struct wire_packet good_in_buffer(void)
{
    struct wire_packet out;
    const char *reason = "untouched";

    assert_int_equal(wire_check(packet.bytes, packet.size, &out, &reason), 0);
    assert_string_equal(reason, "untouched");
    assert_memory_equal(&out.header, packet.bytes, sizeof out.header);
    assert_memory_equal(&out.body, packet.bytes + 32, wire_body_size(out.header.type));
    return out;
}

static struct wire_packet good(void)
{
    struct wire_packet out = good_in_buffer();

    assert_ptr_equal(out.payload, packet.bytes + 32 + wire_body_size(out.header.type));
    assert_int_equal((const char *)out.payload + out.payload_size - (char *)packet.bytes,
                     packet.size);
    return out;
}

static void bad(const char *want)
{
    struct wire_packet out, before;
    const char *reason = NULL;

    memset(&out, 0x33, sizeof out);
    memcpy(&before, &out, sizeof out);
    assert_int_equal(wire_check(packet.bytes, packet.size, &out, &reason), -EPROTO);
    assert_string_equal(reason, want);
    assert_memory_equal(&out, &before, sizeof out);
}

static const struct wire_sync a_sync = {.sender = 5};
static const struct wire_first a_first = {.sender = 0, .size = 1000};
static const struct wire_more a_more = {.offset = 100};
static const struct wire_rts a_rts = {.sender = 6, .size = 1u << 20, .address = 7, .key = 8};
static const struct wire_cts a_cts = {.sender = 6, .receiver = 9, .offset = 10, .size = 20};
static const struct wire_data a_data = {.receiver = 9, .offset = 10};
static const struct wire_fin a_fin = {.sender = 6};
static const struct wire_credit a_credit = {.envelopes = 3, .payload = 400};
static const struct wire_defer a_defer = {.epoch = 2, .capacity = 100, .from = 7, .table = 9};
static const struct wire_rtr a_rtr = {
    .receiver = 9, .epoch = 2, .number = 8, .word = 70, .owner_id = 71};
static const struct wire_claim a_claim = {
    .sender = 6, .receiver = 9, .size = 1000, .address = 7, .key = 8};
static const struct wire_retire a_retire = {.receiver = 9, .sender = 6};
static const struct wire_range a_put = {.sender = 6, .key = 7, .at = 100, .size = 40};
static const struct wire_range a_get = {
    .sender = 6, .key = 7, .at = 100, .size = 1000, .address = 8, .exposed = 9};
static const struct wire_atomic an_atomic = {
    .sender = 6, .key = 7, .at = 100, .what = WIRE_ATOMIC_FETCH, .count = 5};
static const struct wire_answer an_answer = {.sender = 6, .offset = 100};
static const struct wire_push a_push = {.sender = 6, .offset = 100};
static const struct wire_peek a_peek = {.question = 4};
static const struct wire_peeked a_peeked = {
    .question = 4, .sender = 6, .size = 1000, .address = 7, .key = 8};
static const struct wire_advertise an_advert = {.receiver = 9,
                                                .number = 8,
                                                .from = 5,
                                                .credit = 3,
                                                .word = 70,
                                                .owner_id = 71,
                                                .size = 1000,
                                                .address = 7,
                                                .key = 8};
static const struct wire_write a_write = {
    .receiver = 9, .sender = 6, .size = 1000, .done = 1000};
static const struct wire_written a_written = {.receiver = 9, .done = 1000};
static const struct wire_split_copy a_split_copy = {.sender = 6,
                                                    .receiver = 9,
                                                    .offset = 500,
                                                    .size = 500,
                                                    .word = 70,
                                                    .owner_id = 71,
                                                    .address = 7,
                                                    .key = 8};
static const struct wire_withdraw a_withdraw = {.sender = 5};

static const struct {
    enum wire_type type;
    const void *body;
    size_t payload_size;
    unsigned flags; /* the flags that it may have */
} samples[] = {
    {WIRE_EAGER, NULL, 0, 0},
    {WIRE_EAGER, NULL, 40, 0},
    {WIRE_SYNC, &a_sync, 0, 0},
    {WIRE_SYNC, &a_sync, 40, 0},
    {WIRE_FIRST, &a_first, 40, WIRE_WANTS_FIN},
    {WIRE_MORE, &a_more, 40, 0},
    {WIRE_RTS, &a_rts, 0, WIRE_SHORT_OF},
    {WIRE_RTS, &a_rts, 40, WIRE_SHORT_OF},
    {WIRE_CTS, &a_cts, 0, 0},
    {WIRE_DATA, &a_data, 40, 0},
    {WIRE_FIN, &a_fin, 0, WIRE_WITHDRAWN},
    {WIRE_CREDIT, &a_credit, 0, 0},
    {WIRE_DEFER, &a_defer, 0, 0},
    {WIRE_RTR, &a_rtr, 0, WIRE_ANY_SOURCE | WIRE_CAPACITY_USED},
    {WIRE_CLAIM, &a_claim, 0, WIRE_WON},
    {WIRE_CLAIM, &a_claim, 40, WIRE_WON},
    {WIRE_RETIRE, &a_retire, 0, WIRE_WON},
    {WIRE_PEEK, &a_peek, 0, WIRE_ANY_SOURCE},
    {WIRE_PEEKED, &a_peeked, 0, 0},
    {WIRE_PUT, &a_put, 40, WIRE_HAS_DATA},
    {WIRE_PUT, &a_put, 0, WIRE_HAS_DATA},
    {WIRE_GET, &a_get, 0, 0},
    {WIRE_ATOMIC, &an_atomic, 40, 0},
    {WIRE_ANSWER, &an_answer, 40, WIRE_LAST},
    {WIRE_PUSH, &a_push, 40, 0},
    {WIRE_ADVERTISE, &an_advert, 0, 0},
    {WIRE_WRITE, &a_write, 0, WIRE_STOPPED},
    {WIRE_WRITTEN, &a_written, 0, WIRE_STOPPED},
    {WIRE_SPLIT_COPY, &a_split_copy, 0, 0},
    {WIRE_WITHDRAW, &a_withdraw, 0, 0},
};

/* Every type has a sample, so a test of all samples covers all types. */
static void every_type_has_a_sample(UNUSED void **state)
{
    unsigned seen = 0;

    for (size_t i = 0; i < ARRAY_COUNT(samples); i++)
        seen |= 1u << samples[i].type;
    assert_int_equal(seen, (1u << WIRE_TYPES) - 2);
}

static void build_sample(size_t i)
{
    build(samples[i].type, samples[i].body, samples[i].payload_size);
}

static void every_type_passes_and_comes_out_whole(UNUSED void **state)
{
    for (size_t i = 0; i < ARRAY_COUNT(samples); i++) {
        build_sample(i);
        assert_int_equal(good().header.type, samples[i].type);
        assert_int_equal(good().payload_size, samples[i].payload_size);
    }
}

static void truncation_is_refused(UNUSED void **state)
{
    for (size_t i = 0; i < ARRAY_COUNT(samples); i++) {
        size_t whole = sizeof(struct wire_header) + wire_body_size(samples[i].type);

        build_sample(i);
        for (packet.size = 0; packet.size < sizeof(struct wire_header); packet.size++)
            bad("shorter than a header");
        for (; packet.size < whole; packet.size++)
            bad("shorter than its body");
    }
}

static bool may_be_in_buffer(enum wire_type type)
{
    return type == WIRE_EAGER || type == WIRE_MORE || type == WIRE_DATA;
}

/* Builds such a packet, whose bytes are in bounce buffer 3 of its sender. */
static void build_in_buffer(size_t i, uint64_t size)
{
    const struct wire_buffer in = {.buffer = 3, .size = size};

    build(samples[i].type, samples[i].body, sizeof in);
    header()->flags = WIRE_IN_BUFFER;
    memcpy(packet.bytes + packet.size - sizeof in, &in, sizeof in);
}

static void payload_may_lie_in_a_bounce_buffer(UNUSED void **state)
{
    for (size_t i = 0; i < ARRAY_COUNT(samples); i++) {
        struct wire_packet out;

        build_in_buffer(i, 500);
        if (!may_be_in_buffer(samples[i].type)) {
            bad("unknown packet flags");
            continue;
        }
        out = good_in_buffer();
        assert_null(out.payload);
        assert_int_equal(out.payload_size, 500);
        assert_int_equal(out.buffer, 3);
        packet.size--;
        bad("payload is not the name of a bounce buffer");
        build_in_buffer(i, 0);
        bad("an empty bounce buffer");
        build_in_buffer(i, WIRE_EAGER_MAX);
        good_in_buffer();
        build_in_buffer(i, WIRE_EAGER_MAX + 1);
        bad("a bounce buffer with more than an eager message");
    }
}

static void bad_headers_are_refused(UNUSED void **state)
{
    for (size_t i = 0; i < ARRAY_COUNT(samples); i++) {
        build_sample(i);
        header()->version = WIRE_VERSION + 1;
        bad("unknown wire version");

        build_sample(i);
        header()->type = 0;
        bad("unknown packet type");
        for (unsigned type = WIRE_TYPES; type < 256; type++) {
            header()->type = (uint8_t)type;
            bad("unknown packet type");
        }

        build_sample(i);
        header()->zero = 1u << 31;
        bad("header field zero is not 0");

        for (unsigned bit = 0; bit < 16; bit++) {
            build_sample(i);
            header()->flags = (uint16_t)(1u << bit);
            if (samples[i].type == WIRE_ANSWER && 1u << bit == WIRE_PULL)
                bad("an answer that asks for a push has other contents");
            else if (samples[i].type == WIRE_DATA && 1u << bit == WIRE_BROKEN)
                bad("data of a message that is broken");
            else if (may_be_in_buffer(samples[i].type) && 1u << bit == WIRE_IN_BUFFER)
                bad("payload is not the name of a bounce buffer");
            else if (samples[i].flags & 1u << bit)
                good();
            else
                bad("unknown packet flags");
        }
    }
}

static void an_envelope_stands_only_where_it_is_matched(UNUSED void **state)
{
    for (size_t i = 0; i < ARRAY_COUNT(samples); i++) {
        if (has_envelope(samples[i].type))
            continue;
        build_sample(i);
        header()->tag = 1;
        bad("envelope in a packet that has none");
        build_sample(i);
        header()->data = 1;
        bad(samples[i].type == WIRE_PUT ? "data in a put that has none"
                                        : "envelope in a packet that has none");
        build_sample(i);
        header()->context_id = 1;
        bad("envelope in a packet that has none");
    }
}

static void payload_stands_only_where_it_belongs(UNUSED void **state)
{
    static const enum wire_type without[] = {
        WIRE_CTS,    WIRE_FIN,     WIRE_CREDIT,     WIRE_DEFER,   WIRE_RTR,
        WIRE_RETIRE, WIRE_PEEK,    WIRE_PEEKED,     WIRE_GET,     WIRE_ADVERTISE,
        WIRE_WRITE,  WIRE_WRITTEN, WIRE_SPLIT_COPY, WIRE_WITHDRAW};

    for (size_t i = 0; i < ARRAY_COUNT(samples); i++)
        for (size_t k = 0; k < ARRAY_COUNT(without); k++) {
            if (samples[i].type != without[k])
                continue;
            build(samples[i].type, samples[i].body, 1);
            bad("payload in a packet that has none");
        }
}

static void contradicting_sizes_are_refused(UNUSED void **state)
{
    struct wire_first first = a_first;
    struct wire_rts rts = a_rts;
    struct wire_more more = a_more;
    struct wire_data data = a_data;
    struct wire_cts cts = a_cts;

    first.size = 40;
    build(WIRE_FIRST, &first, 40);
    bad("first fragment not shorter than its message");
    first.size = 41;
    build(WIRE_FIRST, &first, 40);
    good();
    build(WIRE_FIRST, &first, 0);
    bad("empty fragment");
    first.sender = 1;
    build(WIRE_FIRST, &first, 40);
    bad("sender in a first fragment that wants no FIN");
    header()->flags = WIRE_WANTS_FIN;
    good();

    rts.size = 40;
    build(WIRE_RTS, &rts, 40);
    good();
    build(WIRE_RTS, &rts, 41);
    bad("more RTS payload than message");

    build(WIRE_MORE, &more, 0);
    bad("empty fragment");
    more.offset = UINT64_MAX - 40;
    build(WIRE_MORE, &more, 40);
    good();
    build(WIRE_MORE, &more, 41);
    bad("range of a fragment wraps");

    build(WIRE_DATA, &data, 0);
    bad("empty fragment");
    header()->flags = WIRE_BROKEN;
    good();
    data.offset = UINT64_MAX - 39;
    build(WIRE_DATA, &data, 40);
    bad("range of a fragment wraps");

    cts.offset = UINT64_MAX - 19;
    build(WIRE_CTS, &cts, 0);
    bad("range of a cts wraps");

    build(WIRE_RETIRE, &(struct wire_retire){.receiver = 9}, 0);
    good();
    header()->flags = WIRE_WON;
    bad("no message has won");
}

static void contradicting_accesses_are_refused(UNUSED void **state)
{
    struct wire_range put = a_put, get = a_get;
    struct wire_atomic atomic = an_atomic;
    struct wire_answer answer = an_answer;

    build(WIRE_PUT, &put, 39);
    bad("payload is not the data of the write");
    put.at = UINT64_MAX - 39;
    build(WIRE_PUT, &put, 40);
    bad("range of a put wraps");
    header()->flags = WIRE_HAS_DATA;
    bad("range of a put wraps");
    get.at = UINT64_MAX - 998;
    build(WIRE_GET, &get, 0);
    bad("range of a get wraps");
    get.at = UINT64_MAX - 1000;
    build(WIRE_GET, &get, 0);
    good();

    atomic.count = 0;
    build(WIRE_ATOMIC, &atomic, 0);
    bad("atomic of nothing");
    atomic = an_atomic;
    atomic.what = 1u << 17;
    build(WIRE_ATOMIC, &atomic, 40);
    bad("unknown bits in an atomic");

    build(WIRE_ANSWER, &answer, 0);
    bad("empty fragment");
    header()->flags = WIRE_PULL;
    good();
    header()->flags = WIRE_PULL | WIRE_LAST;
    bad("an answer that asks for a push has other contents");
    answer.error = 5;
    build(WIRE_ANSWER, &answer, 0);
    bad("an error with bytes, or not the last answer");
    header()->flags = WIRE_LAST;
    good();
    build(WIRE_ANSWER, &answer, 1);
    header()->flags = WIRE_LAST;
    bad("an error with bytes, or not the last answer");
    answer.error = WIRE_ERROR_MAX;
    build(WIRE_ANSWER, &answer, 0);
    header()->flags = WIRE_LAST;
    bad("unknown error in an answer");
    answer = (struct wire_answer){.offset = UINT64_MAX - 38};
    build(WIRE_ANSWER, &answer, 40);
    bad("range of an answer wraps");
}

static void absurd_numbers_of_deferring_are_refused(UNUSED void **state)
{
    struct wire_credit credit = {.envelopes = (UINT64_C(1) << 62) - 1};
    struct wire_defer defer = a_defer;
    struct wire_claim claim = a_claim;

    credit.payload = credit.envelopes;
    build(WIRE_CREDIT, &credit, 0);
    good();
    credit.payload = UINT64_C(1) << 62;
    build(WIRE_CREDIT, &credit, 0);
    bad("more credit than there can be");
    credit = (struct wire_credit){.envelopes = UINT64_MAX};
    build(WIRE_CREDIT, &credit, 0);
    bad("more credit than there can be");

    defer.capacity = 0;
    build(WIRE_DEFER, &defer, 0);
    bad("no space for a single rtr");
    defer.epoch = 0; /* it is over */
    build(WIRE_DEFER, &defer, 0);
    good();

    claim.size = 40;
    build(WIRE_CLAIM, &claim, 40);
    good();
    build(WIRE_CLAIM, &claim, 41);
    bad("more RTS payload than message");
}

static void absurd_parts_are_refused(UNUSED void **state)
{
    struct wire_split_copy split_copy = a_split_copy;
    struct wire_withdraw withdraw = a_withdraw;

    split_copy.word = 0;
    build(WIRE_SPLIT_COPY, &split_copy, 0);
    bad("a part without a word");
    split_copy = a_split_copy;
    split_copy.size = 0;
    build(WIRE_SPLIT_COPY, &split_copy, 0);
    bad("an empty part");
    split_copy = a_split_copy;
    split_copy.offset = UINT64_MAX - 498;
    build(WIRE_SPLIT_COPY, &split_copy, 0);
    bad("range of a part wraps");
    split_copy = a_split_copy;
    split_copy.address = UINT64_MAX - 498;
    build(WIRE_SPLIT_COPY, &split_copy, 0);
    bad("buffer of a part wraps");
    withdraw.sender = 0;
    build(WIRE_WITHDRAW, &withdraw, 0);
    bad("no message is wanted back");
}

/* Whatever the bytes are, an accepted packet obeys the rules that others rely on. */
static void accepted_noise_is_well_formed(UNUSED void **state)
{
    struct wire_packet out;
    const char *reason;
    struct random r;
    unsigned accepted = 0;

    random_seed(&r, 1);
    for (unsigned round = 0; round < 200000; round++) {
        size_t noise = random_below(&r, 3);

        build_sample(random_below(&r, ARRAY_COUNT(samples)));
        while (noise-- > 0)
            packet.bytes[random_below(&r, 64)] = (unsigned char)random_next(&r);
        packet.size = random_below(&r, 2) != 0 ? packet.size : random_below(&r, PACKET_MAX);
        if (wire_check(packet.bytes, packet.size, &out, &reason) != 0)
            continue;
        accepted++;
        assert_in_range(out.header.type, WIRE_EAGER, WIRE_TYPES - 1);
        assert_int_equal(sizeof out.header + wire_body_size(out.header.type) + out.payload_size,
                         packet.size);
        if (out.header.type == WIRE_FIRST)
            assert_true(out.payload_size < out.body.first.size);
        if (out.header.type == WIRE_MORE)
            assert_true(out.body.more.offset + out.payload_size > out.body.more.offset);
        if (out.header.type == WIRE_CLAIM)
            assert_true(out.payload_size <= out.body.claim.size);
        if (out.header.type == WIRE_CTS)
            assert_true(out.body.cts.offset + out.body.cts.size >= out.body.cts.offset);
    }
    assert_in_range(accepted, 1000, 199000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_has_a_sample),
        cmocka_unit_test(every_type_passes_and_comes_out_whole),
        cmocka_unit_test(truncation_is_refused),
        cmocka_unit_test(bad_headers_are_refused),
        cmocka_unit_test(payload_may_lie_in_a_bounce_buffer),
        cmocka_unit_test(an_envelope_stands_only_where_it_is_matched),
        cmocka_unit_test(payload_stands_only_where_it_belongs),
        cmocka_unit_test(contradicting_sizes_are_refused),
        cmocka_unit_test(contradicting_accesses_are_refused),
        cmocka_unit_test(absurd_numbers_of_deferring_are_refused),
        cmocka_unit_test(absurd_parts_are_refused),
        cmocka_unit_test(accepted_noise_is_well_formed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
