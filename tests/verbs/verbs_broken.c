/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs_broken.c - packets that no correct peer sends to a verbs device: the device refuses
 * them, or breaks their link, and other links go on.
 */
#include "verbs_groups.h"

#include <errno.h>
#include <string.h>

#include "base/base.h"
#include "verbs_bench.h"

/* After a link has failed, the others work. */
static void others_go_on(struct vbench *b)
{
    unsigned char got[8];

    vbench_append_for(b, TAGS - 1, 1, 99, got, sizeof got);
    vbench_run(b);
    vbench_send_as(b, 1, 1, 99, 5, "good", 4);
    vbench_poll(b);
    assert_int_equal(b->count, 1);
    assert_int_equal(b->events[0].type, MBX_DEVICE_MATCHED);
    assert_true(b->events[0].flags & MBX_DEVICE_WHOLE);
    assert_memory_equal(got, "good", 4);
}
/* The hardware has counted these packets, so they are counted; wire_check() refuses them. */
static void packets_that_make_no_sense_are_recognised(UNUSED void **state)
{
    const struct ibv_tmh bad[] = {
        verbs_target_header(IBV_TMH_RNDV, VERBS_RNDV, vbench_tag(2, 7)),
        verbs_target_header(IBV_TMH_RNDV, 5, vbench_tag(2, 7)),
        verbs_target_header(IBV_TMH_EAGER, VERBS_ANNOUNCED, vbench_tag(2, 7)),
        verbs_target_header(IBV_TMH_EAGER, VERBS_RNDV, vbench_tag(2, 7)),
        verbs_target_header(IBV_TMH_EAGER, 5, vbench_tag(3, 7)),
        verbs_target_header(IBV_TMH_FIN, 0, vbench_tag(2, 7)),
        verbs_target_header(IBV_TMH_NO_TAG, 0, 0),
    };
    struct vbench b;

    vbench_open(&b);
    b.t->knows_fin = true;
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++)
        verbs_target_send_raw(b.t, 2, &bad[i], "a sort of a body", i < 5 ? 16 : 5);
    vbench_poll(&b);
    assert_int_equal(b.count, ARRAY_COUNT(bad));
    for (int i = 0; i < b.count; i++) {
        assert_int_equal(b.events[i].type, i < 5 ? MBX_DEVICE_UNEXPECTED : MBX_DEVICE_PASSED);
        vbench_is_nonsense(&b, &b.events[i]);
    }
    assert_int_equal(b.t->failed, 0);
    vbench_close(&b);
}

static void a_wrong_announcement_is_an_error_of_its_receive(UNUSED void **state)
{
    unsigned char got[VERBS_EAGER_MAX];
    struct vbench b;

    vbench_open_with(&b, got, sizeof got);
    vbench_send(&b, 7, VERBS_ANNOUNCED, "short", 5);
    vbench_poll(&b);
    assert_int_equal(b.count, 2);
    assert_int_equal(b.events[1].type, MBX_DEVICE_INCOMPLETE);
    assert_int_equal(b.events[1].error, -EPROTO);
    vbench_close(&b);
}

/* The receive that was matched has an error, and its link is broken. */
static void expect_broken(struct vbench *b, uint32_t source, int error)
{
    vbench_poll(b);
    assert_int_equal(b->count, 2);
    assert_int_equal(b->events[0].type, MBX_DEVICE_MATCHED);
    assert_int_equal(b->events[0].handle, 0);
    assert_int_equal(b->events[0].envelope.source, source);
    assert_int_equal(b->events[0].peer, 2);
    assert_int_equal(b->events[1].type, MBX_DEVICE_DATA_VALID);
    assert_int_equal(b->events[1].handle, 0);
    assert_int_equal(b->events[1].error, error);
    assert_int_equal(b->t->failed, 1);
    assert_int_equal(b->t->last_failed, 2);
    verbs_detach(b->t->device, 2);
    others_go_on(b);
    assert_int_equal(b->t->failed, 1);
    vbench_close(b);
}

static void a_message_that_names_another_source_breaks_its_link(UNUSED void **state)
{
    unsigned char got[8];
    struct vbench b;

    vbench_open(&b);
    vbench_append_for(&b, 0, 3, 7, got, sizeof got);
    vbench_run(&b);
    vbench_send_as(&b, 2, 3, 7, 0, "1234", 4);
    expect_broken(&b, 3, -EPROTO);

    vbench_open(&b);
    vbench_append_for(&b, 0, MBX_DEVICE_ANY_SOURCE_ID, 7, got, sizeof got);
    vbench_run(&b);
    vbench_send_as(&b, 2, CONFORMANCE_PEERS + 9, 7, 0, "1234", 4);
    expect_broken(&b, 2, -EPROTO);
}

static void an_eager_message_that_is_too_long_breaks_its_link(UNUSED void **state)
{
    static unsigned char got[4], sent[VERBS_EAGER_MAX + 1];
    struct vbench b;

    vbench_open_with(&b, got, sizeof got);
    vbench_send(&b, 7, 0, sent, sizeof sent);
    expect_broken(&b, 2, -ENOTCONN);
}

/* The adapter may not read at that address. */
static void a_rendezvous_with_a_wrong_key_breaks_its_link(UNUSED void **state)
{
    static unsigned char got[2 * VERBS_EAGER_MAX], sent[1];
    struct vbench b;

    vbench_open_with(&b, got, sizeof got);
    verbs_target_send_rndv(b.t, 2, vbench_tag(2, 7), 99, sent, sizeof got, 11, 0x5678);
    expect_broken(&b, 2, -ENOTCONN);
}

/* The buffer that the message took is returned to the hardware. */
static void an_unexpected_message_that_is_too_long_breaks_its_link(UNUSED void **state)
{
    static unsigned char sent[VERBS_EAGER_MAX + 100];
    struct vbench b;

    vbench_open(&b);
    vbench_append_for(&b, 1, 1, 98, sent,
                      8); /* so that vbench_run() sees the end of this link */
    vbench_run(&b);
    vbench_send(&b, 7, 0, sent, sizeof sent);
    while (b.t->failed == 0)
        assert_int_equal(b.device->ops->poll(b.device, b.events, EVENTS), 0);
    assert_int_equal(b.t->last_failed, 2);
    verbs_detach(b.t->device, 2);
    others_go_on(&b);
    for (uint32_t i = 0; i < VERBS_UNTAGGED_MIN; i++)
        vbench_send_as(&b, 1, 1, 7, i, "1234", 4);
    vbench_poll(&b);
    assert_int_equal(b.count, VERBS_UNTAGGED_MIN);
    vbench_close(&b);
}

/* The write takes a buffer, and writes nothing into it: the buffer still has the last message,
 * which was counted already. */
static void a_write_with_immediate_data_breaks_its_link(UNUSED void **state)
{
    struct vbench b;

    vbench_open(&b);
    for (uint32_t i = 0; i < VERBS_UNTAGGED_MIN; i++)
        vbench_send(&b, 7, i, "1234", 4);
    vbench_poll(&b);
    assert_int_equal(b.count, VERBS_UNTAGGED_MIN);
    for (uint32_t i = 0; i < VERBS_UNTAGGED_MIN; i++)
        assert_int_equal(b.device->ops->replenish(b.device, i, vbench_buffer(&b, i)), 0);
    vbench_append_for(&b, 1, 1, 98, &b, 8); /* so that run() sees the end of this link */
    vbench_run(&b);
    verbs_target_write_imm(b.t, 2);
    while (b.t->failed == 0)
        assert_int_equal(b.device->ops->poll(b.device, b.events, EVENTS), 0);
    assert_int_equal(b.t->last_failed, 2);
    verbs_detach(b.t->device, 2);
    vbench_close(&b);
}

static const struct CMUnitTest broken[] = {
    cmocka_unit_test(packets_that_make_no_sense_are_recognised),
    cmocka_unit_test(a_wrong_announcement_is_an_error_of_its_receive),
    cmocka_unit_test(a_message_that_names_another_source_breaks_its_link),
    cmocka_unit_test(an_eager_message_that_is_too_long_breaks_its_link),
    cmocka_unit_test(a_rendezvous_with_a_wrong_key_breaks_its_link),
    cmocka_unit_test(an_unexpected_message_that_is_too_long_breaks_its_link),
    cmocka_unit_test(a_write_with_immediate_data_breaks_its_link),
};
const struct verbs_group verbs_broken = {"verbs broken", broken, ARRAY_COUNT(broken)};
