/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * provider_elsewhere_test.c - errors of other providers of libfabric, one test each.
 * evidence/matching-elsewhere.md says whose and when; elsewhere_test.c does the same with the
 * library's own calls.
 */
#include "provider_fixture.h"

#define UNMATCHED 200 /* a stall was seen after 64 */
#define QUEUE     300
#define BIG       (1 << 17)

static const struct setup plain;
static int contexts[QUEUE];

static void post(struct fixture *fix, bool tagged, fi_addr_t from, void *buf, void *context)
{
    assert_int_equal(tagged ? fi_trecv(EP(*fix, 1), buf, 8, NULL, from, 5, 0, context)
                            : fi_recv(EP(*fix, 1), buf, 8, NULL, from, context),
                     0);
}

static void inject(struct fixture *fix, bool tagged, int from, uint64_t word)
{
    ssize_t err;

    do
        err = tagged ? fi_tinject(EP(*fix, from), &word, 8, fix->addr[1], 5)
                     : fi_inject(EP(*fix, from), &word, 8, fix->addr[1]);
    while (err == -FI_EAGAIN);
    assert_int_equal(err, 0);
}

static void expect(struct fixture *fix, void *context, const uint64_t *got, uint64_t word)
{
    struct fi_cq_tagged_entry e;

    assert_int_equal(fixture_read(fix, 1, &e, NULL), 1);
    assert_ptr_equal(e.op_context, context);
    assert_int_equal(*got, word);
}

/* The error: each source had its own list, which was searched before the list for any
 * source. */
static void any_source_posted_first_is_matched_first(void **state)
{
    uint64_t a, d;
    struct fixture fix;

    (void)state;
    fixture_open(&fix, &plain);
    for (int tagged = 0; tagged < 2; tagged++) {
        post(&fix, tagged, FI_ADDR_UNSPEC, &a, &contexts[0]);
        post(&fix, tagged, fix.addr[0], &d, &contexts[1]);
        inject(&fix, tagged, 0, 1);
        expect(&fix, &contexts[0], &a, 1);
        inject(&fix, tagged, 0, 2);
        expect(&fix, &contexts[1], &d, 2);
        post(&fix, tagged, fix.addr[0], &d, &contexts[1]);
        post(&fix, tagged, FI_ADDR_UNSPEC, &a, &contexts[0]);
        inject(&fix, tagged, 2, 3);
        expect(&fix, &contexts[0], &a, 3);
        inject(&fix, tagged, 0, 4);
        expect(&fix, &contexts[1], &d, 4);
    }
    fixture_close(&fix);
}

/* The error: the process crashed. */
static void a_directed_receive_can_be_cancelled(void **state)
{
    struct fi_cq_err_entry error;
    struct fixture fix;

    (void)state;
    fixture_open(&fix, &plain);
    for (int tagged = 0; tagged < 2; tagged++) {
        uint64_t a = 77, b = 0;

        post(&fix, tagged, fix.addr[0], &a, &contexts[0]);
        post(&fix, tagged, fix.addr[0], &b, &contexts[1]);
        assert_int_equal(fi_cancel(&EP(fix, 1)->fid, &contexts[0]), 0);
        fixture_read_error(&fix, 1, &error);
        assert_ptr_equal(error.op_context, &contexts[0]);
        assert_int_equal(error.err, FI_ECANCELED);
        inject(&fix, tagged, 0, 6);
        expect(&fix, &contexts[1], &b, 6);
        assert_int_equal(a, 77);
    }
    fixture_close(&fix);
}

/* The error: no message came any more after 64 that had no receive. */
static void a_wanted_message_comes_past_unmatched_ones(void **state)
{
    static char out[BIG], in[BIG];
    uint64_t got = 0;
    struct fixture fix;

    (void)state;
    fixture_open(&fix, &plain);
    for (uint64_t i = 0; i < UNMATCHED; i++) {
        inject_word(&fix, 0, 1, 1, i);
        inject(&fix, false, 0, i); /* of the other kind; also unexpected */
    }
    inject_word(&fix, 0, 1, 2, 1000);
    assert_int_equal(fi_trecv(EP(fix, 1), &got, 8, NULL, fix.addr[0], 2, 0, &contexts[0]), 0);
    expect(&fix, &contexts[0], &got, 1000);
    pattern_fill(out, BIG, 3);
    assert_int_equal(fi_tsend(EP(fix, 0), out, BIG, NULL, fix.addr[1], 3, &contexts[2]), 0);
    assert_int_equal(fi_trecv(EP(fix, 1), in, BIG, NULL, fix.addr[0], 3, 0, &contexts[1]), 0);
    expect_recv(&fix, 1, &contexts[1], BIG, 3);
    assert_true(pattern_is(in, BIG, 3));
    expect_send(&fix, 0, &contexts[2]);
    for (uint64_t i = 0; i < UNMATCHED; i++) {
        assert_int_equal(fi_trecv(EP(fix, 1), &got, 8, NULL, fix.addr[0], 1, 0, &contexts[0]),
                         0);
        expect(&fix, &contexts[0], &got, i);
        assert_int_equal(fi_recv(EP(fix, 1), &got, 8, NULL, fix.addr[0], &contexts[1]), 0);
        expect(&fix, &contexts[1], &got, i);
    }
    fixture_close(&fix);
}

/* The error: the ignored bits were obeyed when the receive came first, but not when the message
 * did. */
static void ignored_bits_hold_for_messages_that_wait(void **state)
{
    uint64_t got = 0;
    struct fixture fix;

    (void)state;
    fixture_open(&fix, &plain);
    inject_word(&fix, 0, 1, 0, 1);
    inject_word(&fix, 0, 1, 1, 2);
    fixture_arrived(&fix, 0, 1);
    assert_int_equal(fi_trecv(EP(fix, 1), &got, 8, NULL, fix.addr[0], 1, 1, &contexts[0]), 0);
    expect(&fix, &contexts[0], &got, 1);
    assert_int_equal(
        fi_trecv(EP(fix, 1), &got, 8, NULL, FI_ADDR_UNSPEC, 4, UINT64_MAX, &contexts[1]), 0);
    expect(&fix, &contexts[1], &got, 2);
    fixture_close(&fix);
}

/* The error: the probe was accepted, and never answered. */
static void a_probe_is_answered(void **state)
{
    struct fi_msg_tagged msg = {.context = &contexts[0], .tag = 1};
    struct fi_cq_err_entry error;
    uint64_t got = 0;
    struct fixture fix;

    (void)state;
    fixture_open(&fix, &plain);
    msg.addr = fix.addr[0];
    assert_int_equal(fi_trecvmsg(EP(fix, 1), &msg, FI_PEEK), 0);
    fixture_read_error(&fix, 1, &error);
    assert_int_equal(error.err, FI_ENOMSG);
    inject_word(&fix, 0, 1, 1, 8);
    fixture_arrived(&fix, 0, 1);
    msg.tag = 0;
    msg.ignore = 1;
    assert_int_equal(fi_trecvmsg(EP(fix, 1), &msg, FI_PEEK), 0);
    expect_recv(&fix, 1, &contexts[0], 8, 1);
    assert_int_equal(fi_trecv(EP(fix, 1), &got, 8, NULL, FI_ADDR_UNSPEC, 1, 0, &contexts[1]),
                     0);
    expect(&fix, &contexts[1], &got, 8);
    fixture_close(&fix);
}

/* The error: receives with ignored bits were kept in a list of their own.  Every receive of MPI
 * has some. */
static void receives_that_ignore_protocol_bits_keep_their_order(void **state)
{
    static uint64_t got[QUEUE];
    struct fi_cq_tagged_entry e;
    struct fixture fix;

    (void)state;
    fixture_open(&fix, &plain);
    for (uint64_t i = 0; i < QUEUE; i++) /* three receives for each tag */
        assert_int_equal(fi_trecv(EP(fix, 1), &got[i], 8, NULL,
                                  i % 2 ? fix.addr[0] : FI_ADDR_UNSPEC, i / 3,
                                  UINT64_C(7) << 60, &contexts[i]),
                         0);
    for (uint64_t tag = QUEUE / 3; tag-- != 0;)
        for (uint64_t i = 0; i < 3; i++)
            inject_word(&fix, 0, 1, tag | i << 60, 3 * tag + i);
    for (int i = 0; i < QUEUE; i++)
        assert_int_equal(fixture_read(&fix, 1, &e, NULL), 1);
    for (uint64_t i = 0; i < QUEUE; i++)
        assert_int_equal(got[i], i);
    fixture_close(&fix);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_source_posted_first_is_matched_first),
        cmocka_unit_test(a_directed_receive_can_be_cancelled),
        cmocka_unit_test(a_wanted_message_comes_past_unmatched_ones),
        cmocka_unit_test(ignored_bits_hold_for_messages_that_wait),
        cmocka_unit_test(a_probe_is_answered),
        cmocka_unit_test(receives_that_ignore_protocol_bits_keep_their_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
