/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fail_test.c - each system call and allocation between two processes fails once.
 */
#include <errno.h>
#include <sched.h>

#include "base/mem.h"
#include "base/sys.h"
#include "base/unit.h"
#include "transport/memory.h"
#include "transport/shm/shm_testing.h"

/* ---- everything fails once ---- */

/* Sends as soon as there is a slot.  Makes no system call, so that the number of calls in a
 * life does not depend on its duration. */
static int send_patiently(struct link *link)
{
    uint64_t deadline = clock_now() + (uint64_t)PATIENCE_NS;
    int err;

    while ((err = send_number(link, 0)) == -EAGAIN && clock_now() < deadline)
        sched_yield();
    return err;
}

static int read_a_byte(struct link *link)
{
    unsigned char byte = 0;
    int err;

    do
        err = transport_read(link, &byte, board->remote, board->key, 1, NULL);
    while (err == -EAGAIN);
    CHECK(err != 0 || byte == 5);
    return err;
}

/* Opens, sends, reads, waits; closes what it opened. */
static int short_life(void)
{
    struct node node;
    struct link *link;
    int err = node_open(&node);

    if (err != 0)
        return err;
    err = transport_shm.connect(node.t, &board->address[0], &link);
    if (err == 0)
        err = send_patiently(link);
    if (err == 0) {
        atomic_fetch_add(&board->number, 1);
        err = read_a_byte(link);
    }
    if (err == 0)
        err = transport_shm.wait(node.t, CLOCK_MS);
    node_close(&node);
    return err == -ETIMEDOUT ? 0 : err;
}

/* A life without leaks; its n-th system call or allocation fails. */
static int failed_life(uint64_t call, uint64_t allocation, int error)
{
    uint64_t mem = mem_live();
    int64_t fds = sys_fds_live(), maps = sys_maps_live();
    int err;

    sys_fail_at(call, error);
    mem_fail_at(allocation);
    err = short_life();
    sys_fail_at(0, 0);
    mem_fail_at(0);
    CHECK(mem_live() == mem && sys_fds_live() == fds && sys_maps_live() == maps);
    return err;
}

static void fail_each_call(int error)
{
    uint64_t calls = 0;

    for (uint64_t n = 1; n == 1 || calls >= n - 1; n++) {
        uint64_t before = sys_calls();
        int err = failed_life(n, 0, error);

        calls = sys_calls() - before;
        /* the error itself; the resulting error of the link; the resulting error of reads */
        CHECK(err == 0 || err == -error || err == -EHOSTUNREACH || err == -ENOTSUP);
    }
}

static void fail_everything(void)
{
    static const int errors[] = {EMFILE, EACCES, EINTR, ENOMEM, EINVAL};
    unsigned failed = 0;

    stage_await(1);
    for (unsigned i = 0; i < ARRAY_COUNT(errors); i++)
        fail_each_call(errors[i]);
    for (uint64_t n = 1; n <= 20; n++) {
        int err = failed_life(0, n, 0);

        CHECK(err == 0 || err == -ENOMEM);
        failed += err != 0;
    }
    CHECK(failed >= 3); /* the endpoint, its segment, its tables */
    CHECK(failed_life(0, 0, 0) == 0);
}

static void every_failure_between_processes_is_clean(UNUSED void **state)
{
    pid_t child = start(fail_everything);
    static const unsigned char memory[16] = {5};
    struct node owner;

    assert_int_equal(node_open_as(&owner, 0), 0);
    assert_int_equal(transport_expose(connect_to(&owner, 0), memory, sizeof memory,
                                      &board->remote, &board->key),
                     0);
    stage_set(1);
    while (!has_ended(child)) {
        owner.arrived = 0; /* each life sends from 0 on */
        transport_shm.poll(owner.t, 1);
    }
    ended_well(child);
    owner.arrived = 0;
    await_free_slots(&owner);
    /* all packets that were taken have arrived, whatever failed before and after */
    assert_int_equal(owner.accepted, atomic_load(&board->number));
    assert_int_equal(owner.dropped, 0);
    node_close(&owner);
}

/* Argument "passed": segments are passed as descriptors. */
int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(every_failure_between_processes_is_clean),
    };

    nodes_pass = is_passed(argc, argv);
    return cmocka_run_group_tests(tests, set_up_all, tear_down_all);
}
