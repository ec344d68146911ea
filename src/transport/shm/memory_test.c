/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memory_test.c - reads of another process's memory, and its bounce buffers.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/sys.h"
#include "base/unit.h"
#include "transport/bounce.h"
#include "transport/memory.h"
#include "transport/shm/shm_testing.h"

/* ---- reads ---- */

static void memory_of_another_process_can_be_read(UNUSED void **state)
{
    static unsigned char target[100000];
    pid_t child = start(only_exist);
    struct link *link;
    struct node node;

    assert_int_equal(node_open(&node), 0);
    stage_await(1);
    link = attach_to(&node, 1);
    assert_int_equal(
        transport_read(link, target, board->remote, board->key, sizeof target, NULL), 0);
    for (size_t i = 0; i < sizeof target; i++)
        assert_int_equal(target[i], byte_of(5, i));

    assert_int_equal(transport_read(link, target, 64, board->key, 64, NULL), -EFAULT);
    assert_int_equal(transport_read(link, target, board->remote, board->key + 1, 64, NULL),
                     -EINVAL);
    sys_fail_name("process_vm_readv", 1, EPERM);
    assert_int_equal(transport_read(link, target, board->remote, board->key, 64, NULL),
                     -ENOTSUP);
    sys_fail_name("process_vm_readv", 1, ENOSYS);
    assert_int_equal(transport_read(link, target, board->remote, board->key, 64, NULL),
                     -ENOTSUP);
    assert_int_equal(transport_read(link, target, board->remote, board->key, 64, NULL), 0);
    assert_int_equal(transport_write(link, 64, board->key, target, 64, NULL), -EFAULT);
    assert_int_equal(transport_write(link, board->remote, board->key + 1, target, 64, NULL),
                     -EINVAL);
    sys_fail_name("process_vm_writev", 1, EPERM);
    assert_int_equal(transport_write(link, board->remote, board->key, target, 64, NULL),
                     -ENOTSUP);
    assert_int_equal(transport_write(link, board->remote, board->key, target, 64, NULL), 0);

    kill_unreaped(child);
    reap(child);
    assert_int_equal(transport_read(link, target, board->remote, board->key, 64, NULL),
                     -ENOTCONN);
    assert_int_equal(send_number(link, 0), -ENOTCONN);
    node_close(&node);
}

static void reads_can_be_switched_off(UNUSED void **state)
{
    struct node node;
    struct transport_config config = config_for(&node);

    config.settings.shm.attach = false;
    assert_int_equal(node_open_with(&node, &config), 0);
    assert_false(node.t->limits.can_read);
    transport_shm.address(node.t, &board->address[0]);
    assert_int_equal(transport_read(connect_to(&node, 0), &config, 0, 0, 1, NULL), -ENOTSUP);
    node_close(&node);
}

/* ---- bounce buffers ---- */

static void fill_and_leave(void)
{
    struct node node;
    struct link *link;
    uint32_t buffer;
    size_t size;

    stage_await(1);
    CHECK(node_open_as(&node, 1) == 0);
    link = attach_to(&node, 0);
    CHECK(send_number(link, 0) == 0);
    CHECK(transport_bounce_take(link, &buffer, &size) == NULL &&
          !transport_bounce_can_take(link));
    stage_set(2);
    stage_await(3);
    CHECK(transport_bounce_can_take(link));
    inside(&node)->bounce_rotation = 77;
    CHECK(transport_bounce_rotation(link) == 16); /* the receiver requests few, */
    stage_set(4);
    stage_await(5);
    CHECK(transport_bounce_can_take(link));
    CHECK(transport_bounce_rotation(link) == 77); /* and now all */
    CHECK(transport_bounce_take(link, &buffer, &size) != NULL && buffer == 0);
    for (uint32_t i = 1; i < 6; i++) { /* one of the first three, in rotation */
        transport_bounce_untake(link, buffer);
        CHECK(transport_bounce_take_among(link, 3, &buffer, &size) != NULL && buffer == i % 3);
    }
    CHECK(transport_bounce_take_among(link, 2, &buffer, &size) != NULL);
    CHECK(transport_bounce_take_among(link, 2, &buffer, &size) != NULL);
    CHECK(transport_bounce_take_among(link, 3, &buffer, &size) == NULL);
    for (uint32_t i = 0; i < 3; i++)
        transport_bounce_untake(link, i);
    do { /* until the first one is next */
        CHECK(transport_bounce_take(link, &buffer, &size) != NULL);
        transport_bounce_untake(link, buffer);
    } while (buffer != 0);
    for (uint32_t i = 0; i < SEGMENT_BUFFERS; i++) { /* in rotation, even with a free one */
        unsigned char *bytes = transport_bounce_take(link, &buffer, &size);

        CHECK(bytes != NULL && size == SEGMENT_BUFFER_SIZE);
        CHECK(buffer == (i + 1) % SEGMENT_BUFFERS);
        for (size_t k = 0; k < size; k++)
            bytes[k] = byte_of(buffer, k);
    }
    CHECK(transport_bounce_take(link, &buffer, &size) == NULL &&
          transport_bounce_can_take(link));
    stage_set(6);
    stage_await(7); /* the receiver has released two */
    for (unsigned i = 0; i < 2; i++) {
        CHECK(transport_bounce_take(link, &buffer, &size) != NULL);
        CHECK(buffer == 3 || buffer == 77);
    }
    CHECK(transport_bounce_take(link, &buffer, &size) == NULL);
    transport_bounce_untake(link, 77);
    CHECK(transport_bounce_take(link, &buffer, &size) != NULL && buffer == 77);
    CHECK(send_number(link, 1) == 0);
    node_close(&node);
}

/* All buffers are used in rotation if the second cache does not hold them; few if it does, or
 * its size is unknown. */
static void how_many_are_used_in_rotation(UNUSED void **state)
{
    assert_int_equal(bounce_rotation(0), 16);
    assert_int_equal(bounce_rotation((size_t)512 << 10), SEGMENT_BUFFERS);
    assert_int_equal(bounce_rotation(SEGMENT_BUFFERS * SEGMENT_BUFFER_SIZE - 1),
                     SEGMENT_BUFFERS);
    assert_int_equal(bounce_rotation(SEGMENT_BUFFERS * SEGMENT_BUFFER_SIZE), 16);
}

/* The segment of the other side may have to be requested first. */
static int map_buffers(struct node *node)
{
    int err;

    while ((err = transport_bounce_map(node->link)) == -EAGAIN)
        node->t->ops->poll(node->t, 1);
    if (err == 0)
        transport_bounce_allow(node->link, false);
    return err;
}

/* Pages of this memory in our page table, which only the kernel knows. */
static size_t pages_resident(const void *memory, size_t size)
{
    int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    size_t found = 0;

    assert_true(fd >= 0);
    for (size_t at = 0; at < size; at += SEGMENT_PAGE) {
        uint64_t entry;

        assert_int_equal(pread(fd, &entry, sizeof entry,
                               (off_t)(((uintptr_t)memory + at) / SEGMENT_PAGE * sizeof entry)),
                         sizeof entry);
        found += entry >> 63;
    }
    close(fd);
    return found;
}

/* Resident buffers of the sender to node. */
static size_t buffers_resident(const struct node *node)
{
    const struct segment *segment = link_of(node->link)->sender->segment;
    size_t pages =
        pages_resident(segment_buffer(segment, 0), SEGMENT_BUFFERS * SEGMENT_BUFFER_SIZE);

    assert_int_equal(pages % (SEGMENT_BUFFER_SIZE / SEGMENT_PAGE), 0);
    return pages / (SEGMENT_BUFFER_SIZE / SEGMENT_PAGE);
}

static void read_buffer(const struct node *node, uint32_t i)
{
    const unsigned char *bytes = transport_bounce_find(node->link, i, SEGMENT_BUFFER_SIZE);

    assert_non_null(bytes);
    for (size_t k = 0; k < SEGMENT_BUFFER_SIZE; k += 100)
        assert_int_equal(bytes[k], byte_of(i, k));
    transport_bounce_release(node->link, i);
}

/* This many buffers of the node's sender are resident, and the transport reports so. */
static void expect_resident(const struct node *node, size_t buffers)
{
    assert_int_equal(buffers_resident(node), buffers);
    assert_int_equal(transport_bounce_resident(node->t), buffers * SEGMENT_BUFFER_SIZE);
}

/* The sender has filled all its buffers, and is gone. */
static void open_beside_buffers(struct node *node)
{
    pid_t child = start(fill_and_leave);

    assert_int_equal(node_open_as(node, 0), 0);
    stage_set(1);
    stage_await(2);
    await(node, 1);
    assert_null(transport_bounce_find(node->link, 0, 1));
    assert_int_equal(map_buffers(node), 0);
    assert_int_equal(transport_bounce_map(node->link), 0);
    transport_bounce_allow(node->link, true);
    stage_set(3);
    stage_await(4);
    transport_bounce_allow(node->link, false);
    stage_set(5);
    stage_await(6);
    transport_bounce_release(node->link, 3);
    transport_bounce_release(node->link, 77);
    stage_set(7);
    ended_well(child);
}

static void buffers_can_be_read_when_their_sender_has_gone(UNUSED void **state)
{
    struct node node;

    open_beside_buffers(&node);
    for (uint32_t i = 0; i < SEGMENT_BUFFERS; i++)
        read_buffer(&node, i);
    assert_null(transport_bounce_find(node.link, SEGMENT_BUFFERS, 1));
    assert_null(transport_bounce_find(node.link, UINT64_MAX, 1));
    assert_null(transport_bounce_find(node.link, 0, SEGMENT_BUFFER_SIZE + 1));
    await(&node, 2);
    await_free_slots(&node);
    assert_null(transport_bounce_find(node.link, 0, 1)); /* all its packets were taken */
    /* the next sender in the slot may use none */
    assert_int_equal(atomic_load(&inside(&node)->own->slots[0].allowed), 0);
    node_close(&node);
}

/* However much is read, no more than the limit becomes resident. */
static void buffers_that_were_read_stay_within_their_limit(UNUSED void **state)
{
    struct node node;

    open_beside_buffers(&node);
    expect_resident(&node, 0);
    read_buffer(&node, 40);
    read_buffer(&node, 40);
    expect_resident(&node, 1); /* and not the pages around it */
    for (uint32_t i = 0; i < SEGMENT_BUFFERS; i++)
        read_buffer(&node, i);
    expect_resident(&node, SEGMENT_BUFFERS);
    transport_bounce_limit(node.t, SEGMENT_BUFFERS * SEGMENT_BUFFER_SIZE);
    expect_resident(&node, SEGMENT_BUFFERS);
    transport_bounce_limit(node.t, 5 * SEGMENT_BUFFER_SIZE - 1);
    expect_resident(&node, 0);
    for (uint32_t i = 0; i < SEGMENT_BUFFERS; i++) {
        read_buffer(&node, i);
        expect_resident(&node, i % 4 + 1);
    }
    transport_bounce_limit(node.t, SEGMENT_BUFFER_SIZE - 1);
    expect_resident(&node, 0);
    read_buffer(&node, 9);
    expect_resident(&node, 0);
    assert_int_equal(link_of(node.link)->remote->file->taken[9], 0);
    node_close(&node);
}

/* The number of buffers that the first sender's slot allows. */
static uint32_t may_name(const struct node *node)
{
    transport_bounce_allow(node->link, false);
    return slot_buffers(atomic_load(&inside(node)->own->slots[0].allowed));
}

/* A sender may use as many buffers as fit.  Several senders with resident buffers share half of
 * that. */
static void buffers_are_divided_among_senders(UNUSED void **state)
{
    struct node node;

    open_beside_buffers(&node);
    assert_int_equal(may_name(&node), SEGMENT_BUFFERS);
    transport_bounce_limit(node.t, 60 * SEGMENT_BUFFER_SIZE);
    assert_int_equal(may_name(&node), 60);
    inside(&node)->senders_read += 2; /* as if there were two other senders */
    assert_int_equal(may_name(&node), 10);
    read_buffer(&node, 1);
    assert_int_equal(may_name(&node), 10);
    for (uint32_t i = 0; i < 30; i++)
        read_buffer(&node, i);
    expect_resident(&node, 30);
    read_buffer(&node, 30);
    expect_resident(&node, 1);
    inside(&node)->senders_read -= 2;
    assert_int_equal(may_name(&node), 60);
    assert_true(transport_bounce_allows(node.link));
    transport_bounce_limit(node.t, 0);
    assert_int_equal(may_name(&node), 0);
    assert_false(transport_bounce_allows(node.link));
    node_close(&node);
}

/* Some of the buffers were read. */
static void buffers_of_who_has_gone_are_not_resident(UNUSED void **state)
{
    struct node node;

    open_beside_buffers(&node);
    read_buffer(&node, 1);
    expect_resident(&node, 1);
    await(&node, 2);
    await_free_slots(&node);
    assert_int_equal(transport_bounce_resident(node.t), 0);
    assert_int_equal(inside(&node)->senders_read, 0);
    assert_true(list_is_empty(&inside(&node)->senders));
    node_close(&node);
}

static void map_and_wait(void)
{
    struct node node;

    CHECK(node_open_as(&node, 1) == 0);
    stage_set(1);
    await(&node, 1);
    CHECK(map_buffers(&node) == 0);
    stage_set(2);
    for (;;)
        pause();
}

static void what_a_killed_receiver_has_not_given_back_is_free(UNUSED void **state)
{
    pid_t child = start(map_and_wait);
    struct shm_link other;
    struct node node;
    struct link *link;
    uint32_t buffer;
    size_t size;

    stage_await(1);
    assert_int_equal(node_open_as(&node, 0), 0);
    link = attach_to(&node, 1);
    assert_int_equal(send_number(link, 0), 0);
    stage_await(2);
    for (uint32_t i = 0; i < SEGMENT_BUFFERS; i++)
        assert_non_null(transport_bounce_take(link, &buffer, &size));
    assert_null(transport_bounce_take(link, &buffer, &size));
    kill_unreaped(child);
    reap(child);
    assert_int_equal(transport_shm.check(link), -EHOSTDOWN);
    for (uint32_t i = 0; i < SEGMENT_BUFFERS; i++)
        assert_null(inside(&node)->taken_for[i]);
    assert_null(transport_bounce_take(link, &buffer, &size)); /* nor for a dead receiver */
    transport_bounce_untake(link, 0);
    inside(&node)->taken_for[0] = &other; /* another peer has it meanwhile */
    transport_bounce_untake(link, 0);
    assert_ptr_equal(inside(&node)->taken_for[0], &other);
    inside(&node)->taken_for[0] = NULL;
    node_close(&node);
}

/* Argument "passed": segments are passed as descriptors. */
int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(memory_of_another_process_can_be_read),
        TEST(reads_can_be_switched_off),
        TEST(how_many_are_used_in_rotation),
        TEST(buffers_can_be_read_when_their_sender_has_gone),
        TEST(buffers_that_were_read_stay_within_their_limit),
        TEST(buffers_are_divided_among_senders),
        TEST(buffers_of_who_has_gone_are_not_resident),
        TEST(what_a_killed_receiver_has_not_given_back_is_free),
    };

    nodes_pass = is_passed(argc, argv);
    return cmocka_run_group_tests(tests, set_up_all, tear_down_all);
}
