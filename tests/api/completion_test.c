/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * completion_test.c - each operation ends in one entry, in order, with what the caller
 * attached; entries are read by any mixture of poll, test and wait.
 */
#include "cluster.h"

#include <errno.h>
#include <string.h>

#include "base/base.h"

#define CONTEXT 51
#define MANY    50

static void post(struct cluster *cl, int who, uint64_t tag, void *buf, size_t size, void *user,
                 mbx_request *request)
{
    const struct mbx_options options = {.user = user};

    assert_int_equal(
        mbx_recv(cl->eps[who], MBX_ANY_SOURCE, CONTEXT, tag, 0, buf, size, &options, request),
        0);
}

static void test_entries_say_what_was_done(void **state)
{
    struct mbx_completion done;
    mbx_request send, recv;
    struct cluster cl;
    int user, got, value = 3;
    struct mbx_options options = {.user = &user, .data = 0x1234567890abcdefu};

    cluster_open(&cl, *state, 2, NULL);
    post(&cl, 1, 8, &got, sizeof got, &got, &recv);
    assert_int_equal(mbx_send(cl.eps[0], 1, CONTEXT, 8, &value, sizeof value, &options, &send),
                     0);
    cluster_wait(&cl, 0, send, &done);
    assert_int_equal(done.request, send);
    assert_ptr_equal(done.user, &user);
    assert_int_equal(done.error, 0);
    assert_int_equal(done.kind, MBX_SENDS);
    assert_int_equal(done.received, sizeof value);
    assert_int_equal(done.status.context_id, CONTEXT);
    assert_int_equal(done.status.source, 1);
    assert_int_equal(done.status.tag, 8);
    assert_int_equal(done.status.data, options.data);
    assert_int_equal(done.status.size, sizeof value);
    cluster_wait(&cl, 1, recv, &done);
    assert_int_equal(done.request, recv);
    assert_ptr_equal(done.user, &got);
    assert_int_equal(done.error, 0);
    assert_int_equal(done.kind, MBX_RECVS);
    assert_int_equal(done.received, sizeof value);
    assert_int_equal(done.status.context_id, CONTEXT);
    assert_int_equal(done.status.source, 0);
    assert_int_equal(done.status.tag, 8);
    assert_int_equal(done.status.data, options.data);
    assert_int_equal(done.status.size, sizeof value);
    cluster_close(&cl);
}

/* Do messages of this size complete in order?  Long messages, of which several may be under
 * way, need not. */
static bool is_in_order(const struct cluster *cl, size_t size)
{
    struct mbx_protocol_row row;

    assert_int_equal(mbx_protocol_get(cl->eps[0], 0, 0, &row, sizeof row), 0);
    return row.protocol <= MBX_BOUNCE && size <= row.max_size;
}

/* *handles has this request, which is cleared, so that none is found twice. */
static void expect_one_of(mbx_request *handles, int count, mbx_request found)
{
    for (int i = 0; i < count; i++) {
        if (handles[i] == found && found != 0) {
            handles[i] = 0;
            return;
        }
    }
    fail_msg("the request %llx was not expected", (unsigned long long)found);
}

/* Sends and receives have a queue each; sends are read first, oldest first. */
static void test_queues(void **state)
{
    struct mbx_completion done[2 * MANY];
    mbx_request sends[MANY], recvs[MANY];
    struct cluster cl;
    int values[MANY], got[MANY], count;
    bool in_order;

    cluster_open(&cl, *state, 1, NULL);
    in_order = is_in_order(&cl, sizeof(int));
    for (int i = 0; i < MANY; i++)
        post(&cl, 0, 1, &got[i], sizeof got[i], NULL, &recvs[i]);
    for (int i = 0; i < MANY; i++) {
        values[i] = i;
        assert_int_equal(
            mbx_send(cl.eps[0], 0, CONTEXT, 1, &values[i], sizeof(int), NULL, &sends[i]), 0);
    }
    cluster_settle(&cl);
    assert_int_equal(mbx_poll(cl.eps[0], MBX_RECVS, done, 3), 3);
    for (int i = 0; i < 3; i++)
        expect_one_of(recvs, in_order ? i + 1 : MANY, done[i].request);
    count = mbx_poll(cl.eps[0], MBX_SENDS | MBX_RECVS, done, 2 * MANY);
    assert_int_equal(count, 2 * MANY - 3);
    for (int i = 0; i < count; i++) {
        assert_int_equal(done[i].kind, i < MANY ? MBX_SENDS : MBX_RECVS);
        if (i < MANY)
            expect_one_of(sends, in_order ? i + 1 : MANY, done[i].request);
        else
            expect_one_of(recvs, in_order ? i - MANY + 4 : MANY, done[i].request);
    }
    assert_int_equal(mbx_poll(cl.eps[0], MBX_SENDS | MBX_RECVS, done, 1), 0);
    assert_memory_equal(got, values, sizeof got);
    cluster_close(&cl);
}

/* A silent operation has its effect and leaves no entry. */
static void test_silent(void **state)
{
    struct mbx_options silent = {.flags = MBX_SILENT};
    struct mbx_completion done;
    struct cluster cl;

    cluster_open(&cl, *state, 2, NULL);
    for (int protocol = 0; protocol < MBX_PROTOCOLS; protocol++) {
        size_t size = cluster_size_of(&cl, (enum mbx_protocol)protocol);
        const unsigned char *data = seeded_bytes(0, size);
        mbx_request send = 1, recv = 1;
        struct guarded_buffer to;

        for (int late = 0; late < 2; late++) {
            guarded_buffer_init(&to, size, 0);
            if (!late)
                assert_int_equal(
                    mbx_recv(cl.eps[1], 0, CONTEXT, 1, 0, to.bytes, size, &silent, &recv), 0);
            assert_int_equal(mbx_ssend(cl.eps[0], 1, CONTEXT, 1, data, size, &silent, &send),
                             0);
            cluster_settle(&cl);
            if (late)
                assert_int_equal(
                    mbx_recv(cl.eps[1], 0, CONTEXT, 1, 0, to.bytes, size, &silent, NULL), 0);
            cluster_settle(&cl);
            assert_int_equal(send, 0);
            assert_int_equal(recv, 0);
            assert_memory_equal(to.bytes, data, size);
            guarded_buffer_fini(&to, size);
            for (int i = 0; i < 2; i++) {
                assert_int_equal(mbx_poll(cl.eps[i], MBX_SENDS | MBX_RECVS, &done, 1), 0);
                assert_int_equal(cluster_stats(&cl, i).requests_now, 0);
            }
        }
    }
    cluster_close(&cl);
}

/* A silent receive still reports that its message was truncated. */
static void test_silent_truncation_is_told(void **state)
{
    struct mbx_options silent = {.user = &silent, .flags = MBX_SILENT};
    struct mbx_completion done;
    struct cluster cl;
    char got[4];

    cluster_open(&cl, *state, 2, NULL);
    assert_int_equal(mbx_recv(cl.eps[1], 0, CONTEXT, 1, 0, got, sizeof got, &silent, NULL), 0);
    assert_int_equal(mbx_inject(cl.eps[0], 1, CONTEXT, 1, "too long", 8, 0), 0);
    cluster_settle(&cl);
    assert_int_equal(mbx_poll(cl.eps[1], MBX_RECVS, &done, 1), 1);
    assert_int_equal(done.error, -EMSGSIZE);
    assert_int_equal(done.received, sizeof got);
    assert_ptr_equal(done.user, &silent);
    cluster_close(&cl);
}

/* Waiting for a request takes its entry; poll takes the others, once each. */
static void test_mixed_readers(void **state)
{
    mbx_request requests[MANY];
    int got[MANY], seen[MANY] = {0}, polled = 0;
    struct mbx_completion done;
    struct cluster cl;

    cluster_open(&cl, *state, 2, NULL);
    for (int i = 0; i < MANY; i++)
        post(&cl, 1, (uint64_t)i, &got[i], sizeof got[i], &seen[i], &requests[i]);
    for (int i = MANY - 1; i >= 0; i--)
        assert_int_equal(mbx_inject(cl.eps[0], 1, CONTEXT, (uint64_t)i, &i, sizeof i, 0), 0);
    cluster_settle(&cl);
    for (int i = 0; i < MANY; i += 3) {
        assert_int_equal(mbx_wait(cl.eps[1], requests[i], 0, &done), 0);
        assert_int_equal(done.request, requests[i]);
        ++*(int *)done.user;
    }
    for (int i = 1; i < MANY; i += 3) {
        assert_int_equal(mbx_test(cl.eps[1], requests[i], &done), 1);
        assert_int_equal(done.request, requests[i]);
        ++*(int *)done.user;
    }
    assert_int_equal(mbx_wait_queues(cl.eps[1], MBX_RECVS, 0), 0);
    for (; mbx_poll(cl.eps[1], MBX_RECVS, &done, 1) == 1; polled++) {
        ++*(int *)done.user;
        if (config_window(cl.config) ==
            UINT64_MAX) /* otherwise they are fetched in the order of the calls */
            assert_int_equal(done.status.tag, (uint64_t)(MANY - 3 - 3 * polled));
    }
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(seen[i], 1);
        assert_int_equal(got[i], i);
        assert_int_equal(mbx_wait(cl.eps[1], requests[i], 0, NULL), -ESTALE);
    }
    cluster_close(&cl);
}

/* The caller may omit the handle; the entry comes all the same, with the number of the
 * request. */
static void test_without_a_handle(void **state)
{
    struct mbx_completion done;
    struct cluster cl;
    int value = 1, got;

    cluster_open(&cl, *state, 2, NULL);
    assert_int_equal(mbx_recv(cl.eps[1], 0, CONTEXT, 1, 0, &got, sizeof got, NULL, NULL), 0);
    assert_int_equal(mbx_send(cl.eps[0], 1, CONTEXT, 1, &value, sizeof got, NULL, NULL), 0);
    cluster_settle(&cl);
    assert_int_equal(mbx_poll(cl.eps[0], MBX_SENDS, &done, 1), 1);
    assert_int_not_equal(done.request, 0);
    assert_int_equal(mbx_poll(cl.eps[1], MBX_RECVS, &done, 1), 1);
    assert_int_not_equal(done.request, 0);
    cluster_close(&cl);
}

/* An entry stays where it lies, and stays the next one, until it is released. */
static void test_entries_can_be_read_in_place(void **state)
{
    mbx_request sends[MANY], recvs[MANY];
    const struct mbx_completion *c;
    int values[MANY], got[MANY];
    unsigned both = MBX_SENDS | MBX_RECVS;
    struct mbx_completion done;
    struct cluster cl;
    bool in_order;

    cluster_open(&cl, *state, 1, NULL);
    in_order = is_in_order(&cl, sizeof(int));
    for (int i = 0; i < MANY; i++) {
        values[i] = i;
        post(&cl, 0, 1, &got[i], sizeof got[i], &got[i], &recvs[i]);
    }
    assert_null(mbx_peek(cl.eps[0], both));
    for (int i = 0; i < MANY; i++)
        assert_int_equal(
            mbx_send(cl.eps[0], 0, CONTEXT, 1, &values[i], sizeof(int), NULL, &sends[i]), 0);
    cluster_settle(&cl);
    assert_null(mbx_peek(cl.eps[0], 0));
    assert_null(mbx_peek(cl.eps[0], MBX_ACCESS | MBX_EVENTS | MBX_FAILURES));
    for (int i = 0; i < 2 * MANY; i++) {
        mbx_request *of = i < MANY ? sends : recvs;

        c = mbx_peek(cl.eps[0], both);
        assert_non_null(c);
        assert_ptr_equal(mbx_peek(cl.eps[0], both), c);
        assert_int_equal(c->kind, i < MANY ? MBX_SENDS : MBX_RECVS);
        assert_int_equal(c->error, 0);
        if (i >= MANY && in_order)
            assert_ptr_equal(c->user, &got[i - MANY]);
        done.request = c->request;
        expect_one_of(of, in_order ? i % MANY + 1 : MANY, c->request);
        if (i % 5 == 0) { /* poll takes the same entry */
            assert_int_equal(mbx_poll(cl.eps[0], both, &done, 1), 1);
            assert_ptr_equal(done.user, i < MANY ? NULL : c->user);
        } else {
            mbx_release(cl.eps[0], c);
        }
        assert_int_equal(mbx_test(cl.eps[0], done.request, NULL), -ESTALE);
    }
    assert_null(mbx_peek(cl.eps[0], both));
    assert_memory_equal(got, values, sizeof got);
    cluster_close(&cl);
}

/* A send that reports its completion in the call has no entry; any other send has one. */
static void test_sends_that_are_complete_at_once(void **state)
{
    static const size_t sizes[] = {0, 8, 100, 5000, 1 << 20};
    static char out[1 << 20], in[1 << 20];
    const struct mbx_options options = {.user = out, .flags = MBX_AT_ONCE};
    mbx_request request, recv;
    struct mbx_completion done;
    struct cluster cl;

    cluster_open(&cl, *state, 2, NULL);
    for (size_t i = 0; i < 4 * ARRAY_COUNT(sizes); i++) {
        size_t size = sizes[i / 4];
        int result;

        memset(out, (int)i + 1, size);
        post(&cl, 1, i, in, sizeof in, NULL, &recv);
        request = 1;
        result = (i % 4 == 3 ? mbx_ssend : mbx_send)(cl.eps[0], 1, CONTEXT, i, out, size,
                                                     &options, &request);
        assert_int_equal(result, request == 0);
        if (strcmp(cl.config->name, "shm") == 0 && size <= 8 && i % 4 != 3)
            assert_int_equal(result, 1);
        if (i % 4 == 3 || size == 1 << 20) /* nobody has received it yet */
            assert_int_equal(result, 0);
        cluster_wait(&cl, 1, recv, &done);
        assert_int_equal(done.received, size);
        assert_memory_equal(in, out, size);
        if (result == 0) {
            cluster_wait(&cl, 0, request, &done);
            assert_ptr_equal(done.user, out);
        }
        assert_int_equal(mbx_poll(cl.eps[0], MBX_SENDS, &done, 1), 0);
    }
    assert_int_equal(mbx_recv(cl.eps[1], 0, CONTEXT, 1, 0, in, 1, &options, &recv), -EINVAL);
    cluster_close(&cl);
}

/* One round of a client that checks mbx_idle() before it makes progress.  Returns how much
 * moved. */
static int look_and_progress(struct mbx_ep *ep)
{
    struct mbx_completion done;

    if (!mbx_idle(ep))
        return mbx_progress(ep);
    assert_int_equal(mbx_progress(ep), 0);
    assert_int_equal(mbx_poll(ep, MBX_SENDS | MBX_RECVS | MBX_ACCESS | MBX_EVENTS, &done, 1),
                     0);
    return 0;
}

/* A client that makes progress only when its endpoint is not idle misses nothing.  Over shared
 * memory alone the endpoint becomes idle. */
static void test_an_idle_endpoint_has_nothing_to_do(void **state)
{
    static char out[300000], in[300000];
    mbx_request send = 0, recv = 0;
    struct mbx_completion done;
    bool was_idle[2] = {false};
    struct cluster cl;

    cluster_open(&cl, *state, 2, NULL);
    for (int i = 0; i < MANY; i++) {
        size_t size = i % 7 == 0 ? sizeof out : (size_t)i;
        int to = i & 1, from = !to, quiet = 0;

        memset(out, i + 1, size);
        post(&cl, to, 1, in, sizeof in, NULL, &recv);
        assert_int_equal(
            mbx_send(cl.eps[from], (uint32_t)to, CONTEXT, 1, out, size, NULL, &send), 0);
        while (mbx_poll(cl.eps[to], MBX_RECVS, &done, 1) == 0) {
            int moved = look_and_progress(cl.eps[from]) + look_and_progress(cl.eps[to]);

            quiet = moved != 0 ? 0 : quiet + 1;
            assert_in_range(quiet, 0, test_patience());
        }
        assert_int_equal(done.request, recv);
        assert_memory_equal(in, out, size);
        cluster_wait(&cl, from, send, NULL);
        for (int round = 0; round < 8; round++)
            for (int who = 0; who < 2; who++) {
                was_idle[who] |= mbx_idle(cl.eps[who]) != 0;
                look_and_progress(cl.eps[who]);
            }
    }
    if (strcmp(cl.config->name, "shm") == 0)
        assert_true(was_idle[0] && was_idle[1]);
    cluster_close(&cl);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_entries_say_what_was_done),
        cmocka_unit_test(test_queues),
        cmocka_unit_test(test_silent),
        cmocka_unit_test(test_silent_truncation_is_told),
        cmocka_unit_test(test_mixed_readers),
        cmocka_unit_test(test_without_a_handle),
        cmocka_unit_test(test_entries_can_be_read_in_place),
        cmocka_unit_test(test_sends_that_are_complete_at_once),
        cmocka_unit_test(test_an_idle_endpoint_has_nothing_to_do),
    };

    return test_main(argc, argv, tests, ARRAY_COUNT(tests));
}
