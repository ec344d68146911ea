/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * provider_completion_test.c - completions are as libfabric documents them: which operations
 * complete, when, in which format, in which queue, and to several threads.
 */
#include "provider_fixture.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static const struct setup plain;
static int contexts[8]; /* their addresses are the op contexts */

/* ---- completions
 * ---------------------------------------------------------------------------------- */

static void selected_operations_alone_complete(void **state)
{
    struct setup setup = {.bind_flags = FI_SELECTIVE_COMPLETION, .recv_flags = FI_COMPLETION};
    struct fixture fix;
    uint64_t word = 0;
    struct iovec iov = {&word, sizeof word};
    struct fi_msg_tagged msg = {
        .msg_iov = &iov, .iov_count = 1, .tag = 1, .context = &contexts[0]};
    struct fi_msg_tagged empty = {.tag = 1, .context = &contexts[1]};

    (void)state;
    fixture_open(&fix, &setup);
    msg.addr = empty.addr = fix.addr[1];
    assert_int_equal(fi_tsend(EP(fix, 0), &word, 8, NULL, fix.addr[1], 1, &contexts[0]), 0);
    assert_int_equal(fi_tsendmsg(EP(fix, 0), &msg, 0), 0);
    assert_int_equal(fi_tsendmsg(EP(fix, 0), &empty, 0), 0);
    for (int i = 0; i < 3; i++) {
        fi_trecv(EP(fix, 1), &word, 8, NULL, fix.addr[0], 1, 0, &contexts[2]);
        expect_recv(&fix, 1, &contexts[2], i < 2 ? 8 : 0, 1);
    }
    fixture_is_quiet(&fix, 0);
    assert_int_equal(fi_tsendmsg(EP(fix, 0), &msg, FI_COMPLETION), 0);
    expect_send(&fix, 0, &contexts[0]);
    msg.addr = fix.addr[0];
    assert_int_equal(fi_trecvmsg(EP(fix, 1), &msg, 0), 0);
    fixture_is_quiet(&fix, 1);
    fixture_close(&fix);
}

static void match_complete_waits_for_the_match(void **state)
{
    struct fixture fix;
    uint64_t word = 0;
    struct iovec iov = {&word, sizeof word};
    struct fi_msg_tagged msg = {
        .msg_iov = &iov, .iov_count = 1, .tag = 1, .context = &contexts[0]};

    (void)state;
    fixture_open(&fix, &plain);
    msg.addr = fix.addr[1];
    assert_int_equal(fi_tsendmsg(EP(fix, 0), &msg, FI_DELIVERY_COMPLETE | FI_COMPLETION), 0);
    expect_send(&fix, 0, &contexts[0]);
    msg.tag = 2;
    assert_int_equal(fi_tsendmsg(EP(fix, 0), &msg, FI_MATCH_COMPLETE | FI_COMPLETION), 0);
    fixture_is_quiet(&fix, 0);
    fi_trecv(EP(fix, 1), &word, 8, NULL, fix.addr[0], 2, 0, &contexts[1]);
    expect_recv(&fix, 1, &contexts[1], 8, 2);
    expect_send(&fix, 0, &contexts[0]);
    fixture_close(&fix);
}

static void every_format_is_filled(void **state)
{
    union {
        struct fi_cq_entry context;
        struct fi_cq_msg_entry msg;
        struct fi_cq_data_entry data;
        struct fi_cq_tagged_entry tagged;
    } e[4];
    static const size_t entry_size[] = {[FI_CQ_FORMAT_CONTEXT] = sizeof e[0].context,
                                        [FI_CQ_FORMAT_MSG] = sizeof e[0].msg,
                                        [FI_CQ_FORMAT_DATA] = sizeof e[0].data,
                                        [FI_CQ_FORMAT_TAGGED] = sizeof e[0].tagged};
    uint64_t word = 0;
    struct fixture fix;

    (void)state;
    for (unsigned f = FI_CQ_FORMAT_CONTEXT; f <= FI_CQ_FORMAT_TAGGED; f++) {
        struct setup setup = {.format = (enum fi_cq_format)f};
        ssize_t n = 0;

        fixture_open(&fix, &setup);
        memset(e, 0xaa, sizeof e);
        for (int i = 0; i < 2; i++) {
            fi_trecv(EP(fix, 1), &word, 8, NULL, fix.addr[0], 6, 0, &contexts[i]);
            fi_tinjectdata(EP(fix, 0), &word, 8, 5, fix.addr[1], 6);
        }
        while (n < 2) {
            ssize_t got = fi_cq_read(fix.node[1].cq, (char *)e + (size_t)n * entry_size[f],
                                     (size_t)(2 - n));

            fixture_progress(&fix);
            n += got > 0 ? got : 0;
        }
        assert_ptr_equal(e[0].context.op_context, &contexts[0]);
        assert_ptr_equal(((struct fi_cq_entry *)((char *)e + entry_size[f]))->op_context,
                         &contexts[1]);
        assert_int_equal(*((unsigned char *)e + 2 * entry_size[f]), 0xaa);
        if (f >= FI_CQ_FORMAT_MSG)
            assert_int_equal(e[0].msg.len, 8);
        if (f >= FI_CQ_FORMAT_DATA)
            assert_int_equal(e[0].data.data, 5);
        if (f >= FI_CQ_FORMAT_TAGGED)
            assert_int_equal(e[0].tagged.tag, 6);
        fixture_close(&fix);
    }
}

static void a_queue_is_never_overrun(void **state)
{
    static uint64_t words[5000];
    struct fixture fix;

    (void)state;
    fixture_open(&fix, &plain);
    for (unsigned i = 0; i < 5000; i++)
        assert_int_equal(fi_trecv(EP(fix, 1), &words[i], 8, NULL, fix.addr[0], i, 0, &words[i]),
                         0);
    for (unsigned i = 0; i < 5000; i++)
        inject_word(&fix, 0, 1, i, i);
    for (unsigned i = 0; i < 100000; i++)
        fixture_progress(&fix);
    for (unsigned i = 0; i < 5000; i++) {
        expect_recv(&fix, 1, &words[i], 8, i);
        assert_int_equal(words[i], i);
    }
    fixture_close(&fix);
}

static void one_queue_serves_many_endpoints(void **state)
{
    struct setup setup = {.shared_cq = true};
    struct fi_cq_tagged_entry e;
    struct fixture fix;
    uint64_t word;
    int seen = 0;

    (void)state;
    fixture_open(&fix, &setup);
    for (int i = 0; i < FIXTURE_NODES; i++) {
        fi_trecv(EP(fix, i), &word, 8, NULL, FI_ADDR_UNSPEC, 1, 0, &contexts[i]);
        inject_word(&fix, (i + 1) % FIXTURE_NODES, i, 1, 1);
    }
    for (int i = 0; i < FIXTURE_NODES; i++) {
        assert_int_equal(fixture_read(&fix, 0, &e, NULL), 1);
        seen |= 1 << ((int *)e.op_context - contexts);
    }
    assert_int_equal(seen, 7);
    fixture_close(&fix);
}

/* Node 0 sends itself a message for each that it reads; meanwhile one for node 1 waits. */
static void no_endpoint_keeps_a_queue_to_itself(void **state)
{
    struct setup setup = {.shared_cq = true};
    struct fi_cq_tagged_entry e = {0};
    uint64_t words[2];
    struct fixture fix;

    (void)state;
    fixture_open(&fix, &setup);
    fixture_arrived(&fix, 2, 1); /* they have met */
    fi_trecv(EP(fix, 1), &words[1], 8, NULL, FI_ADDR_UNSPEC, 1, 0, &contexts[1]);
    inject_word(&fix, 2, 1, 1, 1);
    for (int i = 0; i < 1000 && e.op_context != &contexts[1]; i++) {
        fi_trecv(EP(fix, 0), &words[0], 8, NULL, FI_ADDR_UNSPEC, 1, 0, &contexts[0]);
        inject_word(&fix, 0, 0, 1, 1);
        while (fi_cq_read(fix.node[0].cq, &e, 1) != 1)
            continue;
    }
    assert_ptr_equal(e.op_context, &contexts[1]);
    fixture_close(&fix);
}

/* A probe that finds nothing: leaves an error entry in the queue. */
static void peek(struct fixture *fix, int node)
{
    struct fi_msg_tagged msg = {.addr = FI_ADDR_UNSPEC, .tag = 99};

    assert_int_equal(fi_trecvmsg(EP(*fix, node), &msg, FI_PEEK), 0);
}

static void a_blocking_read_waits_and_gives_up(void **state)
{
    struct setup setup = {.wait = FI_WAIT_UNSPEC};
    struct fi_cq_tagged_entry e;
    struct fixture fix;
    uint64_t word;

    (void)state;
    fixture_open(&fix, &plain);
    assert_int_equal(fi_cq_sread(fix.node[1].cq, &e, 1, NULL, 1), -FI_EINVAL);
    fixture_close(&fix);
    fixture_open(&fix, &setup);
    assert_int_equal(fi_cq_sread(fix.node[1].cq, &e, 1, NULL, 20), -FI_EAGAIN);
    fixture_arrived(&fix, 0, 1); /* they have met, which takes the progress of both */
    fi_trecv(EP(fix, 1), &word, 8, NULL, fix.addr[0], 1, 0, &contexts[0]);
    inject_word(&fix, 0, 1, 1, 1);
    assert_int_equal(fi_cq_sread(fix.node[1].cq, &e, 1, NULL, -1), 1);
    assert_int_equal(fi_cq_signal(fix.node[1].cq), 0);
    assert_int_equal(fi_cq_sread(fix.node[1].cq, &e, 1, NULL, -1), -FI_EAGAIN);
    /* no space for anything: progress, and no wait */
    assert_int_equal(fi_cq_sread(fix.node[1].cq, NULL, 0, NULL, -1), -FI_EAGAIN);
    peek(&fix, 1);
    assert_int_equal(fi_cq_sread(fix.node[1].cq, NULL, 0, NULL, -1), 0);
    fixture_read_error(&fix, 1, &(struct fi_cq_err_entry){0});
    fixture_close(&fix);
}

/* A thread may not sleep where nothing would wake it. */
static void what_has_no_wait_object_is_nothing_to_sleep_on(void **state)
{
    static const struct {
        enum fi_wait_obj object;
        int answer;
    } cases[] = {{FI_WAIT_NONE, -FI_EINVAL}, {FI_WAIT_YIELD, -FI_EAGAIN}};

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct setup setup = {.wait = cases[i].object};
        struct fi_cntr_attr attr = {.wait_obj = cases[i].object};
        struct fi_eq_attr eq_attr = {.wait_obj = FI_WAIT_NONE};
        struct fid_cntr *cntr;
        struct fid_eq *eq;
        struct fid *fids[3];
        struct fixture fix;

        fixture_open(&fix, &setup);
        assert_int_equal(fi_cntr_open(fix.domain, &attr, &cntr, NULL), 0);
        assert_int_equal(fi_eq_open(fix.fabric, &eq_attr, &eq, NULL), 0);
        fids[0] = &fix.node[1].cq->fid;
        fids[1] = &cntr->fid;
        fids[2] = &eq->fid;
        assert_int_equal(fi_trywait(fix.fabric, &fids[0], 1), cases[i].answer);
        assert_int_equal(fi_trywait(fix.fabric, &fids[1], 1), cases[i].answer);
        assert_int_equal(fi_trywait(fix.fabric, &fids[2], 1), -FI_EINVAL);
        assert_int_equal(fi_close(&eq->fid), 0);
        assert_int_equal(fi_close(&cntr->fid), 0);
        fixture_close(&fix);
    }
}

/* ---- threads
 * ----------------------------------------------------------------------------------------- */

#define THREAD_MESSAGES 20000

/* Sends to its own endpoint, while another thread receives and reads there. */
static void *send_many(void *arg)
{
    struct fixture *fix = arg;

    for (uint64_t i = 0; i < THREAD_MESSAGES;) {
        ssize_t err = fi_tinject(EP(*fix, 0), &i, sizeof i, fix->addr[0], 1);

        if (err != 0 && err != -FI_EAGAIN)
            return fix;
        i += err == 0;
    }
    return NULL;
}

static void threads_may_share_a_safe_endpoint(void **state)
{
    struct setup setup = {.threading = FI_THREAD_SAFE};
    pthread_t sender;
    void *failed;
    struct fixture fix;

    (void)state;
    fixture_open(&fix, &setup);
    pthread_create(&sender, NULL, send_many, &fix);
    for (uint64_t i = 0; i < THREAD_MESSAGES; i++) {
        uint64_t word = 0;

        assert_int_equal(fi_trecv(EP(fix, 0), &word, 8, NULL, fix.addr[0], 1, 0, &word), 0);
        expect_recv(&fix, 0, &word, 8, 1);
        assert_int_equal(word, i);
    }
    pthread_join(sender, &failed);
    assert_null(failed);
    fixture_close(&fix);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(selected_operations_alone_complete),
        cmocka_unit_test(match_complete_waits_for_the_match),
        cmocka_unit_test(every_format_is_filled),
        cmocka_unit_test(a_queue_is_never_overrun),
        cmocka_unit_test(one_queue_serves_many_endpoints),
        cmocka_unit_test(no_endpoint_keeps_a_queue_to_itself),
        cmocka_unit_test(a_blocking_read_waits_and_gives_up),
        cmocka_unit_test(what_has_no_wait_object_is_nothing_to_sleep_on),
        cmocka_unit_test(threads_may_share_a_safe_endpoint),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
