/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * done_test.c - MBX_DONE: a call instead of a completion entry; mbx_try_send() and mbx_try_recv().
 */
#include "cluster.h"

#include <errno.h>
#include <string.h>

#include "base/base.h"

#define CONTEXT  33
#define SIZE     100000
#define MANY     300

#define STAY     17 /* one more than the longest queue that is walked */
#define STAY_TAG 1000

static const size_t lengths[] = {0, 1, 8, 24, 25, 32, 1000, 5000};
#define LENGTHS (2 * ARRAY_COUNT(lengths)) /* two of each */

/* The calls of options.done for one request. */
struct called {
    int calls;
    struct mbx_completion last;
};

static void on_done(const struct mbx_completion *completion)
{
    struct called *called = completion->user;

    called->calls++;
    called->last = *completion;
}

static struct mbx_options done_options(struct called *called, unsigned flags)
{
    *called = (struct called){.calls = 0};
    return (struct mbx_options){
        .user = called, .data = 77, .flags = MBX_DONE | flags, .done = on_done};
}

/* Makes progress until the callback has been called. */
static void wait_called(struct cluster *cl, const struct called *called)
{
    for (int idle = 0; called->calls == 0 && idle < test_patience(); idle++)
        if (cluster_progress(cl) > 0)
            idle = 0;
    assert_int_equal(called->calls, 1);
}

static void no_entries(struct mbx_ep *ep)
{
    assert_int_equal(mbx_ready(ep, MBX_SENDS | MBX_RECVS | MBX_ACCESS | MBX_EVENTS), 0);
    assert_int_equal(mbx_wait_queues(ep, MBX_SENDS | MBX_RECVS, 0), -ETIMEDOUT);
}

/* Moves one message, whose receive is posted before it or after it. */
static void transfer(struct cluster *cl, size_t size, bool is_expected)
{
    static unsigned char got[SIZE];
    const unsigned char *data = seeded_bytes(1, SIZE);
    struct called sent, received;
    struct mbx_options send = done_options(&sent, 0), recv = done_options(&received, 0);
    mbx_request sending, receiving;

    memset(got, 0, size);
    if (is_expected)
        assert_int_equal(mbx_recv(cl->eps[1], 0, CONTEXT, 5, 0, got, SIZE, &recv, &receiving),
                         0);
    assert_int_equal(mbx_send(cl->eps[0], 1, CONTEXT, 5, data, size, &send, &sending), 0);
    if (!is_expected) {
        cluster_settle(cl);
        assert_int_equal(mbx_recv(cl->eps[1], 0, CONTEXT, 5, 0, got, SIZE, &recv, &receiving),
                         0);
    }
    wait_called(cl, &received);
    wait_called(cl, &sent);
    cluster_settle(cl);
    assert_int_equal(sent.calls, 1);
    assert_int_equal(received.calls, 1);
    assert_int_equal(sent.last.error, 0);
    assert_int_equal(sent.last.kind, MBX_SENDS);
    assert_int_equal(sent.last.request, sending);
    assert_int_equal(received.last.error, 0);
    assert_int_equal(received.last.kind, MBX_RECVS);
    assert_int_equal(received.last.request, receiving);
    assert_int_equal(received.last.received, size);
    assert_int_equal(received.last.status.data, 77);
    assert_int_equal(received.last.status.source, 0);
    assert_int_equal(received.last.status.tag, 5);
    assert_memory_equal(got, data, size);
    assert_int_equal(mbx_cancel(cl->eps[1], receiving), -ESTALE);
    for (int i = 0; i < 2; i++) {
        no_entries(cl->eps[i]);
        assert_int_equal(cluster_stats(cl, i).requests_now, 0);
    }
}

static void test_a_call_instead_of_an_entry(void **state)
{
    static const size_t sizes[] = {0, 1, 8, 24, 25, 32, 33, 1000, 5000, 20000, SIZE};
    struct cluster cl;

    cluster_open(&cl, *state, 2, NULL);
    for (size_t i = 0; i < ARRAY_COUNT(sizes); i++) {
        transfer(&cl, sizes[i], true);
        transfer(&cl, sizes[i], false);
    }
    cluster_close(&cl);
}

/* The callback also gets errors; with MBX_SILENT it gets errors only. */
static void test_errors(void **state)
{
    unsigned char got[8];
    struct called called[4];
    struct mbx_options short_recv = done_options(&called[0], 0),
                       cancelled = done_options(&called[1], 0),
                       silent = done_options(&called[2], MBX_SILENT),
                       silent_short = done_options(&called[3], MBX_SILENT);
    mbx_request recv;
    struct cluster cl;

    cluster_open(&cl, *state, 2, NULL);
    assert_int_equal(mbx_recv(cl.eps[1], 0, CONTEXT, 1, 0, got, 4, &short_recv, NULL), 0);
    assert_int_equal(mbx_recv(cl.eps[1], 0, CONTEXT, 2, 0, got, 8, &cancelled, &recv), 0);
    assert_int_equal(mbx_recv(cl.eps[1], 0, CONTEXT, 3, 0, got, 8, &silent, NULL), 0);
    assert_int_equal(mbx_recv(cl.eps[1], 0, CONTEXT, 4, 0, got, 4, &silent_short, NULL), 0);
    for (uint64_t tag = 1; tag <= 4; tag++)
        if (tag != 2)
            assert_int_equal(mbx_inject(cl.eps[0], 1, CONTEXT, tag, "message", 8, 0), 0);
    wait_called(&cl, &called[0]);
    wait_called(&cl, &called[3]);
    assert_int_equal(called[0].last.error, -EMSGSIZE);
    assert_int_equal(called[0].last.received, 4);
    assert_int_equal(called[3].last.error, -EMSGSIZE);
    assert_int_equal(mbx_cancel(cl.eps[1], recv), 0);
    wait_called(&cl, &called[1]);
    assert_int_equal(called[1].last.error, -ECANCELED);
    cluster_settle(&cl);
    assert_int_equal(called[2].calls, 0);
    assert_int_equal(cluster_stats(&cl, 1).requests_now, 0);
    no_entries(cl.eps[1]);
    cluster_close(&cl);
}

/* A request with a callback cannot be waited for or tested. */
static void test_not_to_wait_for(void **state)
{
    unsigned char got[8];
    struct called called;
    struct mbx_options options = done_options(&called, 0);
    struct mbx_completion entry;
    mbx_request recv, array[1];
    struct cluster cl;

    cluster_open(&cl, *state, 2, NULL);
    assert_int_equal(mbx_recv(cl.eps[1], 0, CONTEXT, 1, 0, got, 8, &options, &recv), 0);
    assert_int_equal(mbx_test(cl.eps[1], recv, NULL), -EINVAL);
    assert_int_equal(mbx_wait(cl.eps[1], recv, 0, NULL), -EINVAL);
    assert_int_equal(mbx_wait(cl.eps[1], recv, -1, NULL), -EINVAL);
    array[0] = recv;
    assert_int_equal(mbx_wait_all(cl.eps[1], array, 1, -1, &entry), 1);
    assert_int_equal(entry.error, -EINVAL);
    assert_int_equal(array[0], 0);
    assert_int_equal(called.calls, 0);
    assert_int_equal(mbx_cancel(cl.eps[1], recv), 0);
    wait_called(&cl, &called);
    cluster_close(&cl);
}

static void test_accesses(void **state)
{
    unsigned char memory[64] = {0};
    const struct mbx_region region = {
        .buf = memory, .size = sizeof memory, .rights = MBX_REMOTE_WRITE};
    struct called called;
    struct mbx_options options = done_options(&called, 0);
    struct cluster cl;

    cluster_open(&cl, *state, 2, NULL);
    assert_int_equal(mbx_register(cl.eps[1], 9, &region), 0);
    assert_int_equal(mbx_write(cl.eps[0], 1, "written", 8, 9, 0, &options, NULL), 0);
    wait_called(&cl, &called);
    assert_int_equal(called.last.error, 0);
    assert_int_equal(called.last.kind, MBX_ACCESS);
    assert_string_equal((char *)memory, "written");
    no_entries(cl.eps[0]);
    assert_int_equal(mbx_deregister(cl.eps[1], 9), 0);
    cluster_close(&cl);
}

/* Sends by mbx_try_send(), and by mbx_send() where that refuses: the messages arrive in the
 * order of the calls. */
static void test_try_send(void **state)
{
    struct mbx_completion done;
    int tried = 0;
    struct cluster cl;

    cluster_open(&cl, *state, 2, NULL);
    for (uint64_t i = 0; i < MANY; i++) {
        int result = mbx_try_send(cl.eps[0], 1, CONTEXT, 1, &i, sizeof i, i);
        const struct mbx_options options = {.data = i, .flags = MBX_SILENT | MBX_COPY};

        assert_in_range(result, 0, 1);
        tried += result;
        if (result == 0)
            assert_int_equal(mbx_send(cl.eps[0], 1, CONTEXT, 1, &i, sizeof i, &options, NULL),
                             0);
    }
    for (uint64_t i = 0; i < MANY; i++) {
        mbx_request recv;
        uint64_t got;

        assert_int_equal(mbx_recv(cl.eps[1], 0, CONTEXT, 1, 0, &got, sizeof got, NULL, &recv),
                         0);
        cluster_wait(&cl, 1, recv, &done);
        assert_int_equal(got, i);
        assert_int_equal(done.status.data, i);
    }
    cluster_settle(&cl);
    assert_int_equal(cluster_stats(&cl, 0).requests_now, 0);
    if (strcmp(cl.config->name, "shm") == 0)
        assert_true(tried > 0);
    cluster_close(&cl);
}

static void test_try_send_refuses(void **state)
{
    const unsigned char *data = seeded_bytes(1, 1 << 20);
    struct cluster cl;

    cluster_open(&cl, *state, 2, NULL);
    assert_int_equal(mbx_try_send(cl.eps[0], 1, CONTEXT, 1, data, 1 << 20, 0), 0);
    assert_int_equal(mbx_try_send(cl.eps[0], 2, CONTEXT, 1, data, 8, 0), -EINVAL);
    assert_int_equal(mbx_try_send(cl.eps[0], 1, UINT32_MAX, 1, data, 8, 0), -EINVAL);
    assert_int_equal(mbx_try_send(cl.eps[0], 1, CONTEXT, 1, NULL, 8, 0), -EINVAL);
    assert_int_equal(mbx_try_send(cl.eps[0], 1, CONTEXT, 1, data, SIZE_MAX, 0), -EINVAL);
    cluster_settle(&cl);
    assert_int_equal(cluster_waiting(&cl), 0);
    cluster_close(&cl);
}

/* Receives a message by mbx_try_recv(), or else by mbx_recv(), and returns its status.  Counts
 * in *tried the messages that the former received. */
static struct mbx_status receive(struct cluster *cl, uint32_t source, uint64_t tag, void *buf,
                                 size_t size, int *tried)
{
    struct mbx_completion done;
    struct mbx_status status;
    mbx_request recv;
    int result = mbx_try_recv(cl->eps[1], source, CONTEXT, tag, 0, buf, size, &status);

    assert_in_range(result, 0, 1);
    *tried += result;
    if (result == 1)
        return status;
    assert_int_equal(mbx_recv(cl->eps[1], source, CONTEXT, tag, 0, buf, size, NULL, &recv), 0);
    cluster_wait(cl, 1, recv, &done);
    assert_int_equal(done.error, 0);
    return done.status;
}

/* Sends so many messages with a tag of their own that the queue is not walked.  They stay. */
static void send_those_that_stay(struct cluster *cl)
{
    for (uint64_t i = 0; i < STAY; i++) {
        const struct mbx_options options = {.data = i, .flags = MBX_SILENT | MBX_COPY};

        assert_int_equal(
            mbx_send(cl->eps[0], 1, CONTEXT, STAY_TAG, &i, sizeof i, &options, NULL), 0);
    }
}

static void receive_those_that_stay(struct cluster *cl)
{
    int tried = 0;

    for (uint64_t i = 0, got; i < STAY; i++) {
        assert_int_equal(receive(cl, 0, STAY_TAG, &got, sizeof got, &tried).data, i);
        assert_int_equal(got, i);
    }
}

/* Searches all that has arrived for a tag that does not exist, as receives by name do: they
 * then find their message in the index. */
static void search_in_vain(struct cluster *cl)
{
    struct mbx_status status;

    assert_int_equal(mbx_try_recv(cl->eps[1], 0, CONTEXT, STAY_TAG + 1, 0, NULL, 0, &status),
                     0);
}

/* Sends messages of all lengths, and receives them: the newest tag first, and of two with the
 * same tag the earlier one first.  Returns the number that mbx_try_recv() received. */
static int receive_all_lengths(struct cluster *cl, bool is_by_name)
{
    static unsigned char got[SIZE];
    const unsigned char *data = seeded_bytes(1, SIZE);
    mbx_request sends[LENGTHS];
    struct mbx_completion done;
    int tried = 0;

    for (uint64_t i = 0; i < LENGTHS; i++) {
        const struct mbx_options options = {.data = i};

        assert_int_equal(mbx_send(cl->eps[0], 1, CONTEXT, i / 2, data + i, lengths[i / 2],
                                  &options, &sends[i]),
                         0);
    }
    cluster_settle(cl);
    search_in_vain(cl);
    for (uint64_t i = LENGTHS; i-- > 0;) {
        uint64_t first = i / 2 * 2 + (i % 2 == 0);
        size_t size = lengths[i / 2];
        struct mbx_status status;

        memset(got, 0xee, SIZE);
        status = receive(cl, is_by_name || i % 2 == 0 ? 0 : MBX_ANY_SOURCE, i / 2, got, size,
                         &tried);
        assert_int_equal(status.data, first);
        assert_int_equal(status.source, 0);
        assert_int_equal(status.context_id, CONTEXT);
        assert_int_equal(status.tag, i / 2);
        assert_int_equal(status.size, size);
        assert_memory_equal(got, data + first, size);
        assert_int_equal(got[size], 0xee);
    }
    for (size_t i = 0; i < LENGTHS; i++)
        cluster_wait(cl, 0, sends[i], &done);
    return tried;
}

static void nothing_is_left(struct cluster *cl)
{
    cluster_settle(cl);
    for (int i = 0; i < 2; i++)
        assert_int_equal(cluster_stats(cl, i).requests_now, 0);
    assert_int_equal(cluster_stats(cl, 1).unexpected_now, 0);
    assert_int_equal(cluster_stats(cl, 1).unexpected_bytes_now, 0);
}

static void test_try_recv(void **state)
{
    struct cluster cl;
    int tried;

    cluster_open(&cl, *state, 2, NULL);
    tried = receive_all_lengths(&cl, false);
    nothing_is_left(&cl);
    if (strcmp(cl.config->name, "shm") == 0)
        assert_int_equal(tried, LENGTHS);
    cluster_close(&cl);
}

/* As test_try_recv(), but after many other messages, so that each is found by a table. */
static void try_recv_behind_many(const struct configuration *config, bool is_by_name)
{
    struct cluster cl;
    int tried;

    cluster_open(&cl, config, 2, NULL);
    send_those_that_stay(&cl);
    tried = receive_all_lengths(&cl, is_by_name);
    receive_those_that_stay(&cl);
    nothing_is_left(&cl);
    if (strcmp(cl.config->name, "shm") == 0)
        assert_int_equal(tried, LENGTHS);
    cluster_close(&cl);
}

/* First by the index of one mask alone, then with messages in the indexes of two masks. */
static void test_try_recv_after_many(void **state)
{
    try_recv_behind_many(*state, true);
    try_recv_behind_many(*state, false);
}

/* mbx_try_recv() returns the credit to the senders. */
static void test_try_recv_many(void **state)
{
    int tried = 0;
    struct cluster cl;

    cluster_open(&cl, *state, 2, NULL);
    for (uint64_t i = 0; i < 20 * MANY; i++) {
        const struct mbx_options options = {.data = i, .flags = MBX_SILENT | MBX_COPY};
        uint64_t got;

        assert_int_equal(mbx_send(cl.eps[0], 1, CONTEXT, 1, &i, sizeof i, &options, NULL), 0);
        for (int n = 0; n < 2; n++)
            mbx_progress(cl.eps[n]);
        assert_int_equal(receive(&cl, 0, 1, &got, sizeof got, &tried).data, i);
        assert_int_equal(got, i);
    }
    cluster_settle(&cl);
    assert_int_equal(cluster_waiting(&cl), 0);
    if (strcmp(cl.config->name, "shm") == 0)
        assert_int_equal(tried, 20 * MANY);
    cluster_close(&cl);
}

typedef int send_fn(struct mbx_ep *ep, uint32_t peer, uint32_t context_id, uint64_t tag,
                    const void *buf, size_t size, const struct mbx_options *options,
                    mbx_request *request);

/* Messages that only mbx_recv() can take, and the capacity of the receive. */
static const struct refused {
    send_fn *send;
    size_t size, capacity;
} refused[] = {
    {mbx_send, 8, 7},       {mbx_ssend, 8, SIZE},    {mbx_send, 24, 0},
    {mbx_send, 5000, 4999}, {mbx_ssend, 5000, SIZE}, {mbx_send, 1000, 0},
    {mbx_send, SIZE, SIZE}, /* may be eager outside of shared memory */
};

/* mbx_try_recv() changes nothing: the message stays for mbx_recv(). */
static void refuse(struct cluster *cl, uint64_t tag)
{
    static unsigned char got[SIZE + 1];
    const struct refused *message = &refused[tag];
    size_t received = message->size < message->capacity ? message->size : message->capacity;
    struct mbx_completion done;
    struct mbx_status status;
    mbx_request recv;

    memset(got, 0xee, sizeof got);
    for (int i = 0; i < 2; i++)
        assert_int_equal(
            mbx_try_recv(cl->eps[1], 0, CONTEXT, tag, 0, got, message->capacity, &status), 0);
    assert_int_equal(got[0], 0xee);
    assert_int_equal(
        mbx_recv(cl->eps[1], 0, CONTEXT, tag, 0, got, message->capacity, NULL, &recv), 0);
    cluster_wait(cl, 1, recv, &done);
    assert_int_equal(done.error, message->size > message->capacity ? -EMSGSIZE : 0);
    assert_int_equal(done.received, received);
    assert_memory_equal(got, seeded_bytes(1, SIZE), received);
    assert_int_equal(got[received], 0xee);
}

/* Refuses the newest message first. */
static void refuse_all(struct cluster *cl)
{
    size_t count = ARRAY_COUNT(refused) - (strcmp(cl->config->name, "shm") != 0);
    mbx_request sends[ARRAY_COUNT(refused)];
    struct mbx_completion done;

    for (size_t i = 0; i < count; i++)
        assert_int_equal(refused[i].send(cl->eps[0], 1, CONTEXT, i, seeded_bytes(1, SIZE),
                                         refused[i].size, NULL, &sends[i]),
                         0);
    cluster_settle(cl);
    search_in_vain(cl);
    for (size_t i = count; i-- > 0;) {
        refuse(cl, i);
        cluster_wait(cl, 0, sends[i], &done);
        assert_int_equal(done.error, 0);
    }
}

static void test_try_recv_refuses(void **state)
{
    struct mbx_status status;
    unsigned char got[8];
    struct cluster cl;

    cluster_open(&cl, *state, 2, NULL);
    refuse_all(&cl);
    assert_int_equal(mbx_try_recv(cl.eps[1], 2, CONTEXT, 1, 0, got, 8, &status), -EINVAL);
    assert_int_equal(mbx_try_recv(cl.eps[1], 0, UINT32_MAX, 1, 0, got, 8, &status), -EINVAL);
    assert_int_equal(mbx_try_recv(cl.eps[1], 0, CONTEXT, 1, 0, NULL, 8, &status), -EINVAL);
    cluster_close(&cl);
}

static void test_try_recv_refuses_after_many(void **state)
{
    struct cluster cl;

    cluster_open(&cl, *state, 2, NULL);
    send_those_that_stay(&cl);
    refuse_all(&cl);
    receive_those_that_stay(&cl);
    nothing_is_left(&cl);
    cluster_close(&cl);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_call_instead_of_an_entry),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_not_to_wait_for),
        cmocka_unit_test(test_accesses),
        cmocka_unit_test(test_try_send),
        cmocka_unit_test(test_try_send_refuses),
        cmocka_unit_test(test_try_recv),
        cmocka_unit_test(test_try_recv_after_many),
        cmocka_unit_test(test_try_recv_many),
        cmocka_unit_test(test_try_recv_refuses),
        cmocka_unit_test(test_try_recv_refuses_after_many),
    };

    return test_main(argc, argv, tests, ARRAY_COUNT(tests));
}
