/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs_messages.c - what the adapter does with each kind of message: it matches, reads and
 * answers it, or passes it to software.
 */
#include "verbs_groups.h"

#include <endian.h>
#include <string.h>

#include "base/base.h"
#include "base/mem.h"
#include "verbs_bench.h"

/* A message of several packets is matched with the first, and complete with the last, which
 * gives the length. */
static void a_long_message_is_matched_before_it_is_there(UNUSED void **state)
{
    unsigned char sent[6000], got[VERBS_EAGER_MAX];
    struct vbench b;

    for (size_t i = 0; i < sizeof sent; i++)
        sent[i] = (unsigned char)(i * 7 / 3);
    vbench_open_with(&b, got, sizeof got);
    vbench_send(&b, 7, 99, sent, sizeof sent);
    vbench_poll(&b);
    assert_int_equal(b.count, 2);
    assert_int_equal(b.events[0].type, MBX_DEVICE_MATCHED);
    assert_int_equal(b.events[0].flags, MBX_DEVICE_SIZE_LATER);
    assert_int_equal(b.events[0].envelope.tag, 7);
    assert_int_equal(b.events[0].data, 99);
    assert_int_equal(b.events[1].type, MBX_DEVICE_DATA_VALID);
    assert_int_equal(b.events[1].size, sizeof sent);
    assert_int_equal(b.events[1].done, sizeof sent);
    assert_memory_equal(got, sent, sizeof sent);
    vbench_close(&b);
}

static void a_rendezvous_is_read_and_answered_by_the_adapter(UNUSED void **state)
{
    unsigned char *sent = mem_alloc(LONG), *got = mem_calloc(1, LONG);
    struct vbench b;

    for (size_t i = 0; i < LONG; i++)
        sent[i] = (unsigned char)(i * 7 / 3);
    vbench_open_with(&b, got, LONG);
    verbs_target_send_rndv(b.t, 2, vbench_tag(2, 7), 99, sent, LONG, 11, 0);
    vbench_poll(&b); /* then the FIN is there, or the poll fails */
    assert_int_equal(b.count, 2);
    assert_int_equal(b.events[0].flags, MBX_DEVICE_SIZE_LATER | MBX_DEVICE_BY_RNDV);
    assert_int_equal(b.events[0].data, 99);
    assert_int_equal(b.events[1].type, MBX_DEVICE_DATA_VALID);
    assert_int_equal(b.events[1].error, 0);
    assert_int_equal(b.events[1].size, LONG);
    assert_int_equal(b.events[1].data, 99);
    assert_memory_equal(got, sent, LONG);
    assert_int_equal(verbs_target_fins(b.t, 2), 1);
    vbench_close(&b);
    mem_free(sent);
    mem_free(got);
}

static void is_request(const struct mbx_device_event *event, const void *address, uint64_t size)
{
    assert_int_equal(event->size, size);
    assert_int_equal(event->sender, 11);
    assert_int_equal(event->address, (uintptr_t)address);
    assert_int_equal(event->key, 0x5678);
    assert_int_equal(event->data, 99);
    assert_int_equal(event->done, 0);
    assert_int_equal(event->error, 0);
}

static void expect_incomplete(struct vbench *b, const void *address, uint64_t size)
{
    vbench_poll(b);
    assert_int_equal(b->count, 2);
    assert_int_equal(b->events[0].type, MBX_DEVICE_MATCHED);
    assert_int_equal(b->events[0].flags, MBX_DEVICE_BY_RNDV | MBX_DEVICE_WANTS_FIN);
    is_request(&b->events[0], address, size);
    assert_int_equal(b->events[1].type, MBX_DEVICE_INCOMPLETE);
    is_request(&b->events[1], address, size);
    assert_int_equal(verbs_target_fins(b->t, 2), 0);
}

static void a_rendezvous_that_does_not_fit_says_where_it_is(UNUSED void **state)
{
    static unsigned char got[VERBS_EAGER_MAX], sent[1];
    struct vbench b;

    vbench_open_with(&b, got, sizeof got);
    verbs_target_send_rndv(b.t, 2, vbench_tag(2, 7), 99, sent, LONG, 11, 0x5678);
    expect_incomplete(&b, sent, LONG);
    vbench_append(&b, 1, 7, got, 5); /* through its bounce buffer */
    vbench_run(&b);
    verbs_target_send_rndv(b.t, 2, vbench_tag(2, 7), 99, sent, LONG, 11, 0x5678);
    expect_incomplete(&b, sent, LONG);
    vbench_close(&b);
}

/* With an adapter that matches only eager messages. */
static void a_rendezvous_that_the_adapter_cannot_do_is_told(UNUSED void **state)
{
    static unsigned char got[VERBS_EAGER_MAX], sent[1];
    struct vbench b;

    vbench_open_with(&b, got, sizeof got);
    assert_false(b.limits.caps & MBX_DEVICE_RENDEZVOUS);
    verbs_target_send_rndv(b.t, 2, vbench_tag(2, 7), 99, sent, 100, 11, 0x5678);
    expect_incomplete(&b, sent, 100);
    vbench_close(&b);
}

static void an_unexpected_rendezvous_becomes_an_rts(UNUSED void **state)
{
    static unsigned char sent[1];
    struct wire_packet packet;
    struct vbench b;

    vbench_open(&b);
    verbs_target_send_rndv(b.t, 2, vbench_tag(2, 7), 99, sent, LONG, 11, 0x5678);
    vbench_poll(&b);
    assert_int_equal(b.count, 1);
    assert_int_equal(b.events[0].type, MBX_DEVICE_UNEXPECTED);
    assert_int_equal(b.events[0].peer, 2);
    packet = vbench_packet(&b, &b.events[0]);
    assert_int_equal(packet.header.type, WIRE_RTS);
    assert_int_equal(packet.header.tag, 7);
    assert_int_equal(packet.header.context_id, 1);
    assert_int_equal(packet.header.data, 99);
    assert_int_equal(packet.body.rts.sender, 11);
    assert_int_equal(packet.body.rts.size, LONG);
    assert_int_equal(packet.body.rts.address, (uintptr_t)sent);
    assert_int_equal(packet.body.rts.key, 0x5678);
    vbench_close(&b);
}

static void an_announced_message_says_where_it_is(UNUSED void **state)
{
    const struct verbs_rts rts = {11, UINT64_C(1) << 33, 0x1234, 0x5678, UINT64_MAX};
    unsigned char got[VERBS_EAGER_MAX];
    struct vbench b;

    vbench_open_with(&b, got, sizeof got);
    for (int i = 0; i < 2; i++)
        vbench_send(&b, 7, VERBS_ANNOUNCED, &rts, sizeof rts);
    vbench_poll(&b);
    assert_int_equal(b.count, 3);
    assert_int_equal(b.events[0].type, MBX_DEVICE_MATCHED);
    assert_int_equal(b.events[0].flags, MBX_DEVICE_BY_RNDV | MBX_DEVICE_WANTS_FIN);
    assert_int_equal(b.events[1].type, MBX_DEVICE_INCOMPLETE);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(b.events[i].sender, rts.sender);
        assert_int_equal(b.events[i].size, rts.size);
        assert_int_equal(b.events[i].address, rts.address);
        assert_int_equal(b.events[i].key, rts.key);
        assert_int_equal(b.events[i].data, rts.data);
        assert_int_equal(b.events[i].done, 0);
    }
    assert_int_equal(b.events[2].type, MBX_DEVICE_UNEXPECTED);
    assert_int_equal(vbench_packet(&b, &b.events[2]).body.rts.address, rts.address);
    vbench_close(&b);
}

/* A packet as on any other transport, of a type that uses its whole header. */
static void a_packet_without_a_tag_comes_whole(UNUSED void **state)
{
    struct {
        struct wire_header header;
        struct wire_rtr body;
    } packet = {.header = {.what = wire_what(WIRE_RTR),
                           .tag = 0x1122334455667788,
                           .data = 0x99aabbccddeeff00,
                           .context_id = 0xabcdef},
                .body = {1, 2, 3, 4, 5}};
    const unsigned char frame[4] = {IBV_TMH_NO_TAG, 1, 2, 3};
    struct ibv_tmh tmh;
    struct vbench b;

    vbench_open(&b);
    memcpy(&packet.header.frame, frame, sizeof frame);
    memcpy(&tmh, &packet, sizeof tmh);
    verbs_target_send_raw(b.t, 2, &tmh, (unsigned char *)&packet + sizeof tmh,
                          sizeof packet - sizeof tmh);
    vbench_poll(&b);
    assert_int_equal(b.count, 1);
    assert_int_equal(b.events[0].type, MBX_DEVICE_PASSED);
    assert_int_equal(b.events[0].peer, 2);
    assert_int_equal(b.events[0].bytes, sizeof packet);
    assert_memory_equal(vbench_buffer(&b, b.events[0].buffer), &packet, sizeof packet);
    vbench_close(&b);
}

static void a_fin_of_the_hardware_names_its_request(UNUSED void **state)
{
    const struct ibv_rvh rvh = {htobe64(0x1234), htobe32(0x5678), htobe32(100)};
    const struct ibv_tmh tmh =
        verbs_target_header(IBV_TMH_FIN, VERBS_RNDV | 99, vbench_tag(1, 7));
    struct wire_packet packet;
    struct vbench b;

    vbench_open(&b);
    b.t->fin_sender = 77;
    b.t->knows_fin = true;
    verbs_target_send_raw(b.t, 2, &tmh, &rvh, sizeof rvh);
    vbench_poll(&b);
    assert_int_equal(b.count, 1);
    assert_int_equal(b.events[0].type, MBX_DEVICE_PASSED);
    packet = vbench_packet(&b, &b.events[0]);
    assert_int_equal(packet.header.type, WIRE_FIN);
    assert_int_equal(packet.body.fin.sender, 77);
    assert_int_equal(b.t->fin.tag, vbench_tag(1, 7));
    assert_int_equal(b.t->fin.address, 0x1234);
    assert_int_equal(b.t->fin.key, 0x5678);
    assert_int_equal(b.t->fin.size, 100);
    assert_int_equal(b.t->fin.app_ctx, VERBS_RNDV | 99);
    b.t->knows_fin = false;
    verbs_target_send_raw(b.t, 2, &tmh, &rvh, sizeof rvh);
    vbench_poll(&b);
    vbench_is_nonsense(&b, &b.events[0]);
    vbench_close(&b);
}

static const struct CMUnitTest messages[] = {
    cmocka_unit_test(a_long_message_is_matched_before_it_is_there),
    cmocka_unit_test(a_rendezvous_is_read_and_answered_by_the_adapter),
    cmocka_unit_test(a_rendezvous_that_does_not_fit_says_where_it_is),
    cmocka_unit_test(an_unexpected_rendezvous_becomes_an_rts),
    cmocka_unit_test(an_announced_message_says_where_it_is),
    cmocka_unit_test(a_packet_without_a_tag_comes_whole),
    cmocka_unit_test(a_fin_of_the_hardware_names_its_request),
};
const struct verbs_group verbs_messages = {"verbs messages", messages, ARRAY_COUNT(messages)};

/* With an adapter that matches only eager messages. */
static const struct CMUnitTest without_rendezvous[] = {
    cmocka_unit_test(a_rendezvous_that_the_adapter_cannot_do_is_told),
};
const struct verbs_group verbs_without_rendezvous = {
    "verbs without rendezvous", without_rendezvous, ARRAY_COUNT(without_rendezvous)};
