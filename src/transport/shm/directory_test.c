/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * directory_test.c - the directory of a job: lookups, failures, and jobs without a directory.
 *
 * The shared memory tests run a second time with a directory (transport_shm_in_directory and so
 * on); this file tests only the directory itself.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "transport/shm/shm_testing.h"
#include "base/sys.h"
#include "base/temporary.h"
#include "base/unit.h"
#include "transport/labels.h"
#include "transport/shm/directory.h"

#define NUMBERS 100 /* more packets than a mailbox takes */

static uint64_t job;   /* of the running test */
static bool in_no_job; /* the next node has no job */

/* Opens a node with space for this many senders. */
static int node_open_in_job_of(uint32_t peers, struct node *node, unsigned i)
{
    struct transport_config config = config_for(node);
    int err;

    if (peers != 0)
        config.peers = peers;
    config.settings.shm.directory = true;
    config.settings.shm.job = in_no_job ? 0 : job;
    err = node_open_with(node, &config);
    if (err == 0)
        transport_shm.address(node->t, &board->address[i]);
    return err;
}

static int node_open_in_job(struct node *node, unsigned i)
{
    return node_open_in_job_of(0, node, i);
}

static bool is_in_directory(const struct node *node)
{
    return inside(node)->own->file->directory != NULL;
}

static int set_up_job(void **state)
{
    static uint64_t jobs;

    job = (uint64_t)getpid() << 16 | ++jobs;
    in_no_job = false;
    return set_up(state);
}

/* ---- finding each other ---- */

/* Sends to number 0, which it finds without opening a file, until it needs the ring. */
static void send_unopened(void)
{
    struct node node;
    struct link *link;

    CHECK(node_open_in_job(&node, 1) == 0 && is_in_directory(&node));
    stage_set(1);
    stage_await(2);
    link = connect_to(&node, 0);
    CHECK(sys_fail_name("open", SYS_FAIL_ALWAYS, EACCES) == 0);
    CHECK(sys_fail_name("mmap", SYS_FAIL_ALWAYS, EACCES) == 0);
    CHECK(link_attach(link_of(link)) == 0);
    CHECK(link_of(link)->remote->is_apart && link_of(link)->remote->file == NULL);
    sys_fail_none();
    stream(&node, link, 0, NUMBERS);
    CHECK(link_of(link)->remote->file->rings != NULL);
    stage_await(3);
    node_close(&node);
}

static void attach_to_wrong_place(void)
{
    struct node node;

    CHECK(node_open_in_job(&node, 1) == 0 && is_in_directory(&node));
    stage_await(1);
    board->address[0].place = INT32_MAX;
    CHECK(link_attach(link_of(connect_to(&node, 0))) == -EHOSTUNREACH);
    node_close(&node);
}

/* The cookie must belong to the rest of the address. */
static void an_address_of_another_place_is_not_found(UNUSED void **state)
{
    pid_t child = start(attach_to_wrong_place);
    struct node node;

    assert_int_equal(node_open_in_job(&node, 0), 0);
    stage_set(1);
    ended_well(child);
    node_close(&node);
}

static void ranks_of_a_job_find_each_other_without_opening(UNUSED void **state)
{
    pid_t child = start(send_unopened);
    struct node node;

    stage_await(1);
    assert_int_equal(node_open_in_job(&node, 0), 0);
    assert_true(is_in_directory(&node));
    stage_set(2);
    await(&node, NUMBERS);
    stage_set(3);
    ended_well(child);
    node_close(&node);
}

static void send_from_outside(void)
{
    struct node node;
    struct link *link;

    in_no_job = true;
    CHECK(node_open_in_job(&node, 1) == 0 && !is_in_directory(&node));
    stage_await(1);
    link = connect_to(&node, 0);
    CHECK(link_attach(link_of(link)) == 0 && link_of(link)->remote->file->block != NULL);
    stream(&node, link, 0, NUMBERS);
    stage_await(2);
    node_close(&node);
}

static void others_reach_a_control_block_of_a_job(UNUSED void **state)
{
    pid_t child = start(send_from_outside);
    struct node node;

    assert_int_equal(node_open_in_job(&node, 0), 0);
    assert_true(is_in_directory(&node));
    stage_set(1);
    await(&node, NUMBERS);
    assert_int_equal(
        transport_shm.send(node.link,
                           &(struct transport_packet){.header = &(struct wire_header){0}}),
        0);
    stage_set(2);
    ended_well(child);
    node_close(&node);
}

/* ---- slots in later parts ---- */

#define MANY_PEERS 1024 /* their slots lie in several parts */

/* The slots do not overlap, and all lie in their control block. */
static void check_places(const struct segment *s)
{
    const unsigned char *block = (const unsigned char *)s->control, *last = block;

    for (uint32_t i = 0; i < s->peers; i++) {
        const unsigned char *slot = (const unsigned char *)segment_slot(s, i);

        assert_true(slot >= last + (i == 0 ? sizeof(struct segment_control)
                                           : sizeof(struct segment_slot)));
        assert_true((size_t)(slot - block) % DIRECTORY_STRIDE + sizeof(struct segment_slot) <=
                    DIRECTORY_UNIT);
        last = slot;
    }
}

static void send_through_a_late_slot(void)
{
    struct node node;
    struct shm_link *link;

    stage_await(1);
    CHECK(node_open_in_job_of(MANY_PEERS, &node, 1) == 0 &&
          is_in_directory(&node) == !in_no_job);
    link = link_of(connect_to(&node, 0));
    stream(&node, &link->link, 0, NUMBERS);
    CHECK(link->remote->is_apart && link->slot == atomic_load(&board->number));
    stage_await(2);
    node_close(&node);
}

/* The next sender uses this slot, and frees it. */
static void use_a_late_slot(uint32_t slot)
{
    pid_t child = start(send_through_a_late_slot);
    struct node node;

    assert_int_equal(node_open_in_job_of(MANY_PEERS, &node, 0), 0);
    assert_int_equal(is_in_directory(&node), !in_no_job);
    check_places(inside(&node)->own);
    atomic_store(&inside(&node)->control->used, slot);
    atomic_store(&board->number, slot);
    stage_set(1);
    await(&node, NUMBERS);
    assert_int_equal(
        slot_state_of(atomic_load(&segment_slot(inside(&node)->own, slot)->sender)),
        SLOT_READY);
    stage_set(2);
    ended_well(child);
    await_free_slots(&node);
    node_close(&node);
    stage_set(0);
}

static void slots_in_later_parts_are_as_others(UNUSED void **state)
{
    struct node node;
    uint32_t first;

    assert_int_equal(node_open_in_job_of(MANY_PEERS, &node, 0), 0);
    first = inside(&node)->own->first_slots;
    assert_in_range(first, 100, MANY_PEERS / 2);
    node_close(&node);
    use_a_late_slot(first - 1);
    use_a_late_slot(first);
    use_a_late_slot(MANY_PEERS - 1);
}

static void send_from_outside_through_a_late_slot(void)
{
    in_no_job = true;
    send_through_a_late_slot();
}

/* A process of another job maps the parts of only one control block. */
static void others_reach_slots_in_later_parts(UNUSED void **state)
{
    pid_t child = start(send_from_outside_through_a_late_slot);
    struct node node;

    assert_int_equal(node_open_in_job_of(MANY_PEERS, &node, 0), 0);
    atomic_store(&inside(&node)->control->used, MANY_PEERS - 1);
    atomic_store(&board->number, MANY_PEERS - 1);
    stage_set(1);
    await(&node, NUMBERS);
    stage_set(2);
    ended_well(child);
    await_free_slots(&node);
    node_close(&node);
}

/* After its owner has closed, the memory of a control block is given back, in all used
 * parts. */
static void a_closed_control_block_keeps_a_page(UNUSED void **state)
{
    struct directory *directory = directory_join(job, 3);
    uint32_t at;
    unsigned char *block = directory_take(directory, 7, &at);

    for (size_t part = 0; part < 3; part++)
        memset(block + part * DIRECTORY_STRIDE, 1, DIRECTORY_UNIT);
    directory_drop(directory, at, 2);
    assert_int_equal(block[0], 1);
    assert_int_equal(block[DIRECTORY_UNIT - 1], 0);
    assert_int_equal(block[DIRECTORY_STRIDE], 0);
    assert_int_equal(block[DIRECTORY_STRIDE + DIRECTORY_UNIT - 1], 0);
    assert_int_equal(block[2 * DIRECTORY_STRIDE], 1); /* this part was said to be unused */
    directory_leave(directory);
}

/* ---- ends ---- */

static void attach_twice(void)
{
    struct node node;

    CHECK(node_open_in_job(&node, 1) == 0);
    stage_await(1);
    CHECK(link_attach(link_of(connect_to(&node, 0))) == 0);
    stage_set(2);
    stage_await(3);
    board->address[2].host = board->address[0].host;
    CHECK(link_attach(link_of(connect_to(&node, 0))) == -ENOTCONN);
    CHECK(link_attach(link_of(connect_to(&node, 2))) == -EHOSTUNREACH);
    node_close(&node);
}

static void a_control_block_is_not_found_after_its_end(UNUSED void **state)
{
    pid_t child = start(attach_twice);
    struct node node, other;

    assert_int_equal(node_open_in_job(&node, 0), 0);
    assert_int_equal(node_open_in_job(&other, 2), 0);
    stage_set(1);
    stage_await(2);
    node_close(&node);
    node_close(&other);
    stage_set(3);
    ended_well(child);
}

static void share_and_be_killed(void)
{
    struct node node;

    CHECK(node_open_in_job(&node, 1) == 0 && is_in_directory(&node));
    CHECK(transport_share(node.t, 1, &board->address[1]) == 0);
    CHECK(transport_share(node.t, 2, &board->address[1]) == 0); /* a second label */
    stage_set(2);
    stage_await(9);
}

/* The label stays, as its address stays with a launcher. */
static void the_label_of_a_killed_process_stays(UNUSED void **state)
{
    struct transport_address found, address;
    struct node node;
    pid_t child;

    assert_int_equal(node_open_in_job(&node, 0), 0);
    child = start(share_and_be_killed);
    stage_await(2);
    kill_unreaped(child);
    node.t->ops->address(node.t, &address);
    assert_int_equal(transport_share(node.t, 1, &address), -EEXIST);
    assert_int_equal(transport_find(node.t, 2, &found), 0);
    assert_true(address_is_same(&found, &board->address[1]));
    reap(child);
    node_close(&node);
}

static void be_first(void)
{
    struct node node;

    CHECK(node_open_in_job(&node, 1) == 0 && is_in_directory(&node));
    stage_set(1);
    stage_await(9); /* killed before that */
}

/* The lock ends with the process that made the file: the next one makes another file. */
static void a_job_goes_on_after_the_first_one(UNUSED void **state)
{
    pid_t child = start(be_first);
    struct node early, late;

    stage_await(1);
    assert_int_equal(node_open_in_job(&early, 0), 0);
    assert_true(is_in_directory(&early));
    node_close(&early);
    kill_unreaped(child);
    assert_int_equal(node_open_in_job(&late, 0), 0);
    assert_true(is_in_directory(&late));
    node_close(&late);
    reap(child);
}

static void places_are_given_in_order_and_once(UNUSED void **state)
{
    struct directory *directory = directory_join(job, 1);
    struct node node;
    uint32_t at;

    assert_non_null(directory);
    for (uint32_t i = 0; i < DIRECTORY_PLACES; i++) {
        assert_non_null(directory_take(directory, 7 + i / 2, &at));
        assert_int_equal(at, i + 1); /* in DIRECTORY_UNITs */
    }
    assert_null(directory_take(directory, 7, &at));
    assert_non_null(directory_find(directory, 7 + DIRECTORY_PLACES / 2 - 1));
    assert_null(directory_find(directory, 7 + DIRECTORY_PLACES / 2));
    assert_int_equal(node_open_in_job(&node, 0), 0); /* the same size */
    assert_false(is_in_directory(&node));
    node_close(&node);
    directory_leave(directory);
}

/* ---- labels ---- */

#define LABEL UINT64_C(0x5eed)

static int share(const struct node *node, uint64_t label)
{
    struct transport_address address;

    node->t->ops->address(node->t, &address);
    return transport_share(node->t, label, &address);
}

/* Neither the next label nor one with the same table entry finds the address. */
static void look_for_label(void)
{
    struct transport_address found;
    struct node node;

    CHECK(node_open_in_job(&node, 1) == 0 && is_in_directory(&node));
    stage_set(1);
    stage_await(2);
    CHECK(transport_find(node.t, LABEL, &found) == 0);
    CHECK(address_is_same(&found, &board->address[0]));
    CHECK(transport_find(node.t, LABEL + 1, &found) == -ENOENT);
    CHECK(transport_find(node.t, LABEL + DIRECTORY_PLACES, &found) == -ENOENT);
    CHECK(share(&node, LABEL) == -EEXIST);
    CHECK(share(&node, LABEL + DIRECTORY_PLACES) == 0);
    stage_set(3);
    stage_await(4);
    CHECK(transport_find(node.t, LABEL, &found) == -ENOENT);
    CHECK(share(&node, LABEL) == 0);
    CHECK(transport_find(node.t, LABEL, &found) == 0);
    CHECK(address_is_same(&found, &board->address[1]));
    node_close(&node);
}

static void an_address_is_found_by_its_label(UNUSED void **state)
{
    pid_t child = start(look_for_label);
    struct transport_address found;
    struct node node;

    stage_await(1);
    assert_int_equal(node_open_in_job(&node, 0), 0);
    assert_int_equal(transport_find(node.t, LABEL, &found), -ENOENT);
    assert_int_equal(share(&node, LABEL), 0);
    stage_set(2);
    stage_await(3);
    assert_int_equal(transport_find(node.t, LABEL + DIRECTORY_PLACES, &found), 0);
    assert_true(address_is_same(&found, &board->address[1]));
    node_close(&node);
    stage_set(4);
    ended_well(child);
}

static void labels_are_few(UNUSED void **state)
{
    struct transport_address found;
    struct node node;

    assert_int_equal(node_open_in_job(&node, 0), 0);
    for (uint64_t i = 0; i < DIRECTORY_PLACES; i++)
        assert_int_equal(share(&node, LABEL + 3 * i), 0);
    assert_int_equal(share(&node, LABEL - 1), -ENOSPC);
    assert_int_equal(transport_find(node.t, LABEL - 1, &found), -ENOENT);
    assert_int_equal(transport_find(node.t, LABEL + 3 * (DIRECTORY_PLACES - 1), &found), 0);
    node_close(&node);
}

/* The address in the control block is not the address of the endpoint with this label. */
static void a_wrong_address_is_not_found(UNUSED void **state)
{
    struct transport_address found;
    struct node node;

    assert_int_equal(node_open_in_job(&node, 0), 0);
    assert_int_equal(share(&node, LABEL), 0);
    inside(&node)->own->control->address.cookie++;
    assert_int_equal(transport_find(node.t, LABEL, &found), -ENOENT);
    node_close(&node);
}

static void without_a_file_nothing_is_shared(UNUSED void **state)
{
    struct transport_address found;
    struct node node;

    in_no_job = true;
    assert_int_equal(node_open_in_job(&node, 0), 0);
    assert_int_equal(share(&node, LABEL), -ENOTSUP);
    assert_int_equal(transport_find(node.t, LABEL, &found), -ENOENT);
    node_close(&node);
}

/* ---- without ---- */

#define MIX UINT64_C(0x9e3779b97f4a7c15) /* odd */

/* The bytes [first + skip, first + skip + length); `first` begins the range of the job's first
 * process. */
static struct flock range_of(off_t skip, off_t length)
{
    uint64_t mixed = (job + geteuid()) * MIX;

    return (struct flock){.l_type = F_WRLCK,
                          .l_whence = SEEK_SET,
                          .l_start = (off_t)(mixed >> 39 << 38) + skip,
                          .l_len = length};
}

static int lock_mark(int mark, off_t skip, off_t length)
{
    struct flock lock = range_of(skip, length);

    return fcntl(mark, F_OFD_SETLK, &lock);
}

/* A job with the last range of the file: no other job's lock is after it. */
static uint64_t last_job(void)
{
    uint64_t inverse = MIX;

    for (int i = 0; i < 5; i++)
        inverse *= 2 - MIX * inverse;
    return (UINT64_MAX - (uint64_t)getpid()) * inverse - geteuid();
}

/* The length of a lock that leads to this descriptor. */
static off_t length_for(pid_t process, int fd)
{
    return (off_t)process << 16 | fd;
}

static void join_by_length(void)
{
    struct node node;

    stage_await(1);
    CHECK(node_open_in_job(&node, 1) == 0 && is_in_directory(&node));
    node_close(&node);
}

/* The job's first process has its lock where this test looks for it, with the expected
 * length. */
static void the_lock_says_where_the_file_is(UNUSED void **state)
{
    int mark = open("/dev/zero", O_RDWR | O_CLOEXEC);
    pid_t child = start(join_by_length);
    struct node node;

    assert_int_equal(node_open_in_job(&node, 0), 0);
    assert_int_equal(lock_mark(mark, 0, 1), -1);
    assert_int_equal(lock_mark(mark, 1, 1), -1);
    assert_int_equal(
        lock_mark(mark, length_for(getpid(), directory_fd(inside(&node)->own->file->directory)),
                  1),
        0);
    stage_set(1);
    ended_well(child);
    node_close(&node);
    close(mark);
}

/* Opens an endpoint while another process holds the lock: in few calls, and without the
 * file. */
static void join_without(void)
{
    uint64_t calls = sys_calls();
    struct node node;

    assert_int_equal(node_open_in_job(&node, 0), 0);
    assert_in_range(sys_calls() - calls, 1, 100);
    assert_false(is_in_directory(&node));
    node_close(&node);
}

/* The lock covers the whole file from the job's range on.  Another run of this test may hold
 * it: waits. */
static void a_lock_to_the_end_keeps_nobody_waiting(UNUSED void **state)
{
    int mark = open("/dev/zero", O_RDWR | O_CLOEXEC);
    struct flock lock;

    job = last_job();
    lock = range_of(0, 0);
    assert_int_equal(lock.l_start, INT64_MAX - (((int64_t)1 << 38) - 1));
    assert_int_equal(fcntl(mark, F_OFD_SETLKW, &lock), 0);
    join_without();
    close(mark);
}

/* A holder of the job's lock, whatever its length encodes, delays no process. */
static void a_strange_holder_of_the_lock_delays_no_process(UNUSED void **state)
{
    int mark = open("/dev/zero", O_RDWR | O_CLOEXEC),
        other = memfd_create("other", MFD_CLOEXEC);
    const struct {
        off_t skip, length;
    } locks[] = {
        {-1, 2},                                  /* another start */
        {5, 1},                                   /* the first byte is free */
        {0, 1},                                   /* process 0 */
        {0, (off_t)1 << 40},                      /* not a pid */
        {0, length_for((1 << 22) - 1, 3)},        /* no process has this pid */
        {0, length_for(getpid(), (1 << 16) - 1)}, /* no such descriptor */
        {0, length_for(getpid(), other)},         /* another kind of file */
    };

    assert_true(mark >= 0 && other >= 0);
    for (size_t i = 0; i < ARRAY_COUNT(locks); i++) {
        assert_int_equal(lock_mark(mark, locks[i].skip, locks[i].length), 0);
        join_without();
        close(mark);
        mark = open("/dev/zero", O_RDWR | O_CLOEXEC);
    }
    close(mark);
    close(other);
}

/* Another process takes the lock between two calls of this one: this one looks again, and
 * removes the file that it made needlessly (tear_down()). */
static void a_lock_of_another_process_is_noticed(UNUSED void **state)
{
    struct node node;

    assert_int_equal(sys_fail_name("fcntl_lock", 2, EAGAIN), 0);
    assert_int_equal(node_open_in_job(&node, 0), 0);
    assert_true(is_in_directory(&node));
    node_close(&node);
}

/* The kind of file that a lock names is checked before it is opened: opening this FIFO would
 * make a writer, and its reader would notice when the last writer is gone. */
static void what_is_no_file_is_not_opened(UNUSED void **state)
{
    int mark = open("/dev/zero", O_RDWR | O_CLOEXEC);
    char folder[TEMPORARY_SIZE], name[sizeof folder + 8];
    struct pollfd reader;

    assert_non_null(mkdtemp(temporary_name(folder, "directory")));
    snprintf(name, sizeof name, "%s/fifo", folder);
    assert_int_equal(mkfifo(name, 0600), 0);
    reader =
        (struct pollfd){.fd = open(name, O_RDONLY | O_NONBLOCK | O_CLOEXEC), .events = POLLIN};
    assert_true(reader.fd >= 0);
    unlink(name);
    rmdir(folder);
    assert_int_equal(lock_mark(mark, 0, length_for(getpid(), reader.fd)), 0);
    join_without();
    assert_int_equal(poll(&reader, 1, 0), 0);
    close(reader.fd);
    close(mark);
}

/* Each system call of opening fails in turn: the endpoint opens without the file, or reports
 * why it does not, and nothing leaks (tear_down()). */
static void what_fails_leaves_nothing(UNUSED void **state)
{
    unsigned without = 0, failed = 0;
    bool is_through = false;

    for (uint64_t n = 1; !is_through; n++) {
        uint64_t calls = sys_calls();
        struct node node;
        int err;

        sys_fail_at(n, EMFILE);
        err = node_open_in_job(&node, 0);
        is_through = sys_calls() - calls < n;
        sys_fail_none();
        failed += err != 0;
        if (err != 0)
            continue;
        without += !is_in_directory(&node);
        node_close(&node);
    }
    assert_true(without >= 7 && failed >= 4);
}

#define TEST_IN_JOB(name) cmocka_unit_test_setup_teardown(name, set_up_job, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN_JOB(ranks_of_a_job_find_each_other_without_opening),
        TEST_IN_JOB(an_address_of_another_place_is_not_found),
        TEST_IN_JOB(others_reach_a_control_block_of_a_job),
        TEST_IN_JOB(a_control_block_is_not_found_after_its_end),
        TEST_IN_JOB(a_job_goes_on_after_the_first_one),
        TEST_IN_JOB(the_label_of_a_killed_process_stays),
        TEST_IN_JOB(places_are_given_in_order_and_once),
        TEST_IN_JOB(slots_in_later_parts_are_as_others),
        TEST_IN_JOB(others_reach_slots_in_later_parts),
        TEST_IN_JOB(a_closed_control_block_keeps_a_page),
        TEST_IN_JOB(an_address_is_found_by_its_label),
        TEST_IN_JOB(labels_are_few),
        TEST_IN_JOB(a_wrong_address_is_not_found),
        TEST_IN_JOB(without_a_file_nothing_is_shared),
        TEST_IN_JOB(the_lock_says_where_the_file_is),
        TEST_IN_JOB(a_strange_holder_of_the_lock_delays_no_process),
        TEST_IN_JOB(a_lock_to_the_end_keeps_nobody_waiting),
        TEST_IN_JOB(a_lock_of_another_process_is_noticed),
        TEST_IN_JOB(what_is_no_file_is_not_opened),
        TEST_IN_JOB(what_fails_leaves_nothing),
    };

    return cmocka_run_group_tests(tests, set_up_all, tear_down_all);
}
