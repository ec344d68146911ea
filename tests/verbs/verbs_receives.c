/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs_receives.c - the receives that an adapter holds: how they are appended and revoked,
 * with which memory, and what happens to them at the end.
 */
#include "verbs_groups.h"

#include <errno.h>
#include <string.h>

#include "base/base.h"
#include "held_adapter.h"
#include "verbs_bench.h"

/* ---- the end ---- */

/* A receive that was matched must not be matched again when software takes over. */
static void what_was_done_before_the_end_is_told(UNUSED void **state)
{
    unsigned char got[VERBS_EAGER_MAX];
    struct vbench b;

    vbench_open_with(&b, got, sizeof got);
    vbench_send(&b, 7, 5, "good", 4);
    vbench_run(&b);
    verbs_lose(b.t->device, "said by a test");
    vbench_poll(&b);
    assert_int_equal(b.count, 2);
    assert_int_equal(b.events[0].type, MBX_DEVICE_MATCHED);
    assert_memory_equal(got, "good", 4);
    assert_int_equal(b.events[1].type, MBX_DEVICE_LOST);
    assert_int_equal(b.device->ops->sync(b.device, 0), -ENODEV);
    vbench_poll(&b);
    assert_int_equal(b.count, 0);
    vbench_close(&b);
}

static void nothing_is_matched_after_the_end(UNUSED void **state)
{
    unsigned char got[VERBS_EAGER_MAX] = "untouched";
    struct vbench b;

    vbench_open_with(&b, got, sizeof got);
    vbench_send(&b, 8, 5, "bad", 3); /* connects them */
    vbench_run(&b);
    verbs_lose(b.t->device, "said by a test");
    vbench_send(&b, 7, 0, "good", 4);
    vbench_poll(&b);
    assert_int_equal(b.count, 2);
    assert_int_equal(b.events[1].type, MBX_DEVICE_LOST);
    assert_string_equal(got, "untouched");
    vbench_close(&b);
}

/* ---- handles ---- */

#define ALIKE 6

/* Appends ALIKE receives and messages that all match each other, and a DEL for each receive,
 * the youngest first: receives that matched before their DEL must be the oldest, with the
 * oldest messages, in order, and the other messages unexpected.  The adapter does so many
 * pieces of its work, in an order drawn from the seed, before it goes on by itself.  Returns
 * how many matched. */
static uint32_t revoke_all_once(uint32_t pieces, uint64_t seed)
{
    unsigned char got[ALIKE][16];
    struct vbench b;
    uint32_t matched = 0, passed = 0, revoked = 0;

    vbench_open(&b);
    for (uint32_t i = 0; i < ALIKE; i++)
        vbench_append(&b, i, 7, got[i], sizeof got[i]);
    vbench_run(&b);
    assert_int_equal(held_adapter_begin(), 0);
    for (uint32_t i = 0; i < ALIKE / 2; i++)
        vbench_send(&b, 7, i, "abc", 3);
    for (uint32_t i = ALIKE; i-- > 0;)
        assert_int_equal(b.device->ops->revoke(b.device, i, 0), 0);
    for (uint32_t i = ALIKE / 2; i < ALIKE; i++)
        vbench_send(&b, 7, i, "abc", 3);
    held_adapter_step(pieces, seed);
    held_adapter_end();
    vbench_poll(&b);
    for (int i = 0; i < b.count; i++) {
        const struct mbx_device_event *event = &b.events[i];

        if (event->type == MBX_DEVICE_MATCHED) {
            assert_int_equal(event->handle, matched);
            assert_int_equal(event->data, matched++);
        } else if (event->type == MBX_DEVICE_UNEXPECTED) {
            passed++;
        } else {
            assert_int_equal(event->type, MBX_DEVICE_REVOKED);
            assert_int_equal(event->handle, ALIKE - ++revoked);
            assert_int_equal(event->error, event->handle < matched ? -ENOENT : 0);
        }
    }
    assert_int_equal(matched + passed, ALIKE);
    assert_int_equal(revoked, ALIKE);
    vbench_close(&b);
    return matched;
}

/* All kinds of order occur: from no match to a match of every message but the last. */
static void what_is_left_is_the_head_while_all_are_revoked(UNUSED void **state)
{
    uint32_t seen = 0; /* bit n: n were matched */

    for (uint32_t seed = 0; seed < 80; seed++)
        seen |= 1u << revoke_all_once(seed % 40, seed);
    assert_int_equal(seen & ((1u << ALIKE) - 1), (1u << ALIKE) - 1);
}

static void a_consumed_receive_can_be_revoked(UNUSED void **state)
{
    unsigned char got[2][VERBS_EAGER_MAX];
    struct vbench b;

    vbench_open_with(&b, got[0], sizeof got[0]);
    vbench_send(&b, 7, 1, "abc", 3);
    vbench_poll(&b);
    assert_int_equal(b.count, 1);
    vbench_append(&b, 1, 7, got[1], sizeof got[1]); /* the hardware may use the number again */
    assert_int_equal(b.device->ops->revoke(b.device, 0, 0), 0);
    vbench_poll(&b);
    assert_int_equal(b.count, 1);
    assert_int_equal(b.events[0].type, MBX_DEVICE_REVOKED);
    assert_int_equal(b.events[0].handle, 0);
    assert_int_equal(b.events[0].error, -ENOENT);
    vbench_close(&b);
}

/* ---- memory that two receives share ---- */

static int append_at(struct vbench *b, uint32_t handle, uint64_t tag, unsigned char *buf,
                     size_t size)
{
    const struct mbx_device_recv recv = {
        .handle = handle, .envelope = {1, 2, tag}, .buf = buf, .size = size};

    return b->device->ops->append(b->device, &recv, 0);
}

/* Wherever they overlap; empty ones never do. */
static void the_hardware_has_one_of_two_receives_with_memory_in_common(UNUSED void **state)
{
    static unsigned char got[3 * VERBS_EAGER_MAX];
    unsigned char *const middle = got + VERBS_EAGER_MAX;
    struct vbench b;

    vbench_open_with(&b, middle, VERBS_EAGER_MAX);
    assert_int_equal(append_at(&b, 1, 8, middle, VERBS_EAGER_MAX), -EBUSY);
    assert_int_equal(append_at(&b, 1, 8, middle - 1, VERBS_EAGER_MAX), -EBUSY);
    assert_int_equal(append_at(&b, 1, 8, middle + VERBS_EAGER_MAX - 1, 1), -EBUSY);
    assert_int_equal(append_at(&b, 1, 8, got, sizeof got), -EBUSY);
    assert_int_equal(append_at(&b, 1, 8, middle, 0), 0);
    assert_int_equal(append_at(&b, 2, 8, got, VERBS_EAGER_MAX), 0);
    assert_int_equal(append_at(&b, 3, 8, middle + VERBS_EAGER_MAX, VERBS_EAGER_MAX), 0);
    assert_true(verbs_ranges_is_valid(&verbs_of(b.t->device)->ranges));
    vbench_run(&b);
    vbench_send(&b, 7, 1, "abc", 3); /* its memory is free again */
    vbench_poll(&b);
    assert_int_equal(append_at(&b, 0, 9, middle, VERBS_EAGER_MAX), 0);
    assert_int_equal(verbs_of(b.t->device)->ranges.count, 3);
    vbench_close(&b);
}

/* ---- resources that the caller supplies ---- */

static void a_region_of_the_caller_is_not_registered_again(UNUSED void **state)
{
    static unsigned char got[VERBS_EAGER_MAX];
    struct vbench b;
    struct verbs *v;
    struct ibv_mr *mr;
    struct mbx_device_recv recv = {.envelope = {1, 2, 7}, .buf = got, .size = sizeof got};

    vbench_open(&b);
    v = verbs_of(b.t->device);
    mr = ibv_reg_mr(v->pd, got, sizeof got, IBV_ACCESS_LOCAL_WRITE);
    assert_non_null(mr);
    recv.region = verbs_region(mr->lkey);
    assert_int_equal(b.device->ops->append(b.device, &recv, 0), 0);
    assert_null(v->entries[0].region);
    vbench_run(&b);
    vbench_send(&b, 7, 1, "abc", 3);
    vbench_poll(&b);
    assert_int_equal(b.count, 1);
    assert_memory_equal(got, "abc", 3);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    vbench_close(&b);
}

static void what_was_prepared_is_registered_once(UNUSED void **state)
{
    bool has_come[VERBS_UNTAGGED_MIN] = {false};
    struct vbench b;
    struct verbs *v;

    vbench_open(&b);
    v = verbs_of(b.t->device);
    for (uint32_t i = 0; i < VERBS_UNTAGGED_MIN; i++)
        assert_int_equal(v->buffers[i].mr != NULL, i == VERBS_UNTAGGED_MIN - 1);
    for (uint32_t i = 0; i < VERBS_UNTAGGED_MIN; i++)
        vbench_send(&b, 7, i, "1234", 4);
    vbench_poll(&b);
    assert_int_equal(b.count, VERBS_UNTAGGED_MIN);
    for (int i = 0; i < b.count; i++) {
        assert_int_equal(b.events[i].type, MBX_DEVICE_UNEXPECTED);
        has_come[b.events[i].buffer] = true;
    }
    for (uint32_t i = 0; i < VERBS_UNTAGGED_MIN; i++)
        assert_true(has_come[i]);
    vbench_close(&b);
}

/* The device works on a context that the caller has opened, and leaves it open when it
 * closes. */
static void a_device_works_on_what_the_caller_has_opened(UNUSED void **state)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct ibv_context *context = ibv_open_device(list[0]);
    struct ibv_pd *pd = ibv_alloc_pd(context);
    struct mbx_device *device = NULL;
    const struct verbs_config config = {.peers = 4, .context = context, .pd = pd};

    ibv_free_device_list(list);
    assert_int_equal(verbs_open(&(struct verbs_config){.context = context}, &device), -EINVAL);
    assert_int_equal(verbs_open(&config, &device), 0);
    assert_int_equal(device->ops->configure(device, 4, 10, VERBS_UNTAGGED_MIN), 0);
    assert_int_equal(verbs_arm(device), 0);
    device->ops->close(device);
    assert_int_equal(ibv_dealloc_pd(pd), 0);
    assert_int_equal(ibv_close_device(context), 0);
}

static void a_peer_that_has_been_detached_can_come_back(UNUSED void **state)
{
    struct ibv_qp *qp;
    struct vbench b;

    vbench_open(&b);
    vbench_send(&b, 7, 1, "abc", 3);
    vbench_poll(&b);
    assert_int_equal(verbs_attach(b.t->device, 2, &qp), -EALREADY);
    verbs_detach(b.t->device, 2);
    assert_int_equal(verbs_attach(b.t->device, 2, &qp), 0);
    vbench_close(&b);
}

static const struct CMUnitTest receives[] = {
    cmocka_unit_test(what_was_done_before_the_end_is_told),
    cmocka_unit_test(nothing_is_matched_after_the_end),
    cmocka_unit_test(what_is_left_is_the_head_while_all_are_revoked),
    cmocka_unit_test(a_consumed_receive_can_be_revoked),
    cmocka_unit_test(the_hardware_has_one_of_two_receives_with_memory_in_common),
    cmocka_unit_test(a_region_of_the_caller_is_not_registered_again),
    cmocka_unit_test(what_was_prepared_is_registered_once),
    cmocka_unit_test(a_device_works_on_what_the_caller_has_opened),
    cmocka_unit_test(a_peer_that_has_been_detached_can_come_back),
};
const struct verbs_group verbs_receives = {"verbs receives", receives, ARRAY_COUNT(receives)};
