/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * provider_test.c - messages through the libfabric provider: what was sent is received, in
 * every form of call, by the endpoint that it was sent to.
 */
#include "provider_fixture.h"

#include <stdlib.h>
#include <string.h>

#define BIG (1 << 20)

static const struct setup plain;
static char out_buf[BIG], in_buf[BIG];

static int contexts[8]; /* their addresses are the op contexts */

/* ---- moving bytes ------------------------------------------------------------------ */

static void every_size_arrives_whole(void **state)
{
    static const size_t sizes[] = {0,     1,     8,     31,     32,      33,   64,
                                   255,   1000,  4095,  4096,   4097,    8192, 16384,
                                   65535, 65536, 65537, 262144, BIG - 1, BIG};
    struct fixture fix;

    (void)state;
    fixture_open(&fix, &plain);
    for (unsigned i = 0; i < 2 * sizeof sizes / sizeof sizes[0]; i++) {
        size_t size = sizes[i / 2];
        bool expected = i % 2;

        pattern_fill(out_buf, size, i);
        memset(in_buf, 0, size);
        if (expected)
            fi_trecv(EP(fix, 1), in_buf, size, NULL, fix.addr[0], i, 0, &contexts[1]);
        assert_int_equal(
            fi_tsend(EP(fix, 0), out_buf, size, NULL, fix.addr[1], i, &contexts[0]), 0);
        if (!expected)
            fi_trecv(EP(fix, 1), in_buf, size, NULL, fix.addr[0], i, 0, &contexts[1]);
        expect_recv(&fix, 1, &contexts[1], size, i);
        expect_send(&fix, 0, &contexts[0]);
        assert_true(pattern_is(in_buf, size, i));
    }
    fixture_close(&fix);
}

static void an_injected_buffer_may_be_reused_at_once(void **state)
{
    struct fixture fix;

    (void)state;
    fixture_open(&fix, &plain);
    for (unsigned i = 0; i < 500; i++) { /* more than any queue holds */
        pattern_fill(out_buf, 4096, i);
        assert_int_equal(fi_tinject(EP(fix, 0), out_buf, 4096, fix.addr[1], i), 0);
        memset(out_buf, 0xee, 4096);
    }
    for (unsigned i = 0; i < 500; i++) {
        fi_trecv(EP(fix, 1), in_buf, 4096, NULL, fix.addr[0], i, 0, &contexts[0]);
        expect_recv(&fix, 1, &contexts[0], 4096, i);
        assert_true(pattern_is(in_buf, 4096, i));
    }
    fixture_is_quiet(&fix, 0);
    assert_int_equal(fi_tinject(EP(fix, 0), out_buf, BIG, fix.addr[1], 0), -FI_EMSGSIZE);
    fixture_close(&fix);
}

/* FI_INJECT on a call with a completion: the data are copied, and the call completes. */
static void an_injected_message_can_complete(void **state)
{
    struct fixture fix;
    struct iovec iov = {out_buf, 3000};
    struct fi_msg_tagged msg = {
        .msg_iov = &iov, .iov_count = 1, .tag = 3, .context = &contexts[0]};

    (void)state;
    fixture_open(&fix, &plain);
    msg.addr = fix.addr[1];
    pattern_fill(out_buf, 3000, 1);
    assert_int_equal(fi_tsendmsg(EP(fix, 0), &msg, FI_INJECT | FI_COMPLETION), 0);
    memset(out_buf, 0, 3000);
    expect_send(&fix, 0, &contexts[0]);
    fi_trecv(EP(fix, 1), in_buf, 3000, NULL, fix.addr[0], 3, 0, &contexts[1]);
    expect_recv(&fix, 1, &contexts[1], 3000, 3);
    assert_true(pattern_is(in_buf, 3000, 1));
    fixture_close(&fix);
}

static void pieces_are_gathered_and_scattered(void **state)
{
    struct fixture fix;
    struct iovec out[8], in[3] = {{in_buf, 10}, {in_buf + 10, 0}, {in_buf + 10, 100000}};

    (void)state;
    fixture_open(&fix, &plain);
    for (size_t size = 8; size <= 80000; size *= 100) {
        pattern_fill(out_buf, size, 5);
        memset(in_buf, 0, size);
        for (size_t i = 0; i < 8; i++)
            out[i] = (struct iovec){out_buf + i * (size / 8), size / 8};
        fi_trecvv(EP(fix, 1), in, NULL, 3, fix.addr[0], 1, 0, &contexts[1]);
        assert_int_equal(fi_tsendv(EP(fix, 0), out, NULL, 8, fix.addr[1], 1, &contexts[0]), 0);
        expect_recv(&fix, 1, &contexts[1], size, 1);
        expect_send(&fix, 0, &contexts[0]);
        assert_true(pattern_is(in_buf, size, 5));
    }
    assert_int_equal(fi_tsendv(EP(fix, 0), out, NULL, 9, fix.addr[1], 1, NULL), -FI_EINVAL);
    fixture_close(&fix);
}

static void a_message_to_oneself_arrives(void **state)
{
    struct fixture fix;

    (void)state;
    fixture_open(&fix, &plain);
    pattern_fill(out_buf, 100000, 2);
    fi_trecv(EP(fix, 0), in_buf, 100000, NULL, fix.addr[0], 1, 0, &contexts[1]);
    assert_int_equal(fi_tsend(EP(fix, 0), out_buf, 100000, NULL, fix.addr[0], 1, &contexts[0]),
                     0);
    for (int i = 0; i < 2; i++) {
        struct fi_cq_tagged_entry e;

        assert_int_equal(fixture_read(&fix, 0, &e, NULL), 1);
        assert_ptr_equal(e.op_context, &contexts[e.flags & FI_RECV ? 1 : 0]);
    }
    assert_true(pattern_is(in_buf, 100000, 2));
    fixture_close(&fix);
}

/* ---- matching --------------------------------------------------------------------------- */

/* The last message to complete may be one whose data have more bits than its packet has space
 * for. */
static void remote_data_is_reported_when_sent(void **state)
{
    struct fi_cq_tagged_entry e, of[3];
    struct fixture fix;
    uint64_t word = 0;

    (void)state;
    fixture_open(&fix, &plain);
    for (int i = 0; i < 3; i++)
        fi_trecv(EP(fix, 1), &word, 8, NULL, fix.addr[0], 1, 0, &contexts[i]);
    fi_tinjectdata(EP(fix, 0), &word, 8, UINT64_MAX, fix.addr[1], 1);
    fi_tinject(EP(fix, 0), &word, 8, fix.addr[1], 1);
    fi_tsenddata(EP(fix, 0), &word, 8, NULL, 0, fix.addr[1], 1, NULL);
    memset(of, 0, sizeof of);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(fixture_read(&fix, 1, &e, NULL), 1);
        assert_in_range((int *)e.op_context - contexts, 0, 2);
        of[(int *)e.op_context - contexts] = e;
    }
    for (int i = 0; i < 3; i++)
        assert_int_equal(of[i].tag, 1);
    assert_true(of[0].flags & FI_REMOTE_CQ_DATA && of[0].data == UINT64_MAX);
    assert_false(of[1].flags & FI_REMOTE_CQ_DATA);
    assert_true(of[2].flags & FI_REMOTE_CQ_DATA && of[2].data == 0);
    fixture_close(&fix);
}

static void a_directed_receive_takes_only_its_source(void **state)
{
    struct fixture fix;
    uint64_t from_1 = 0, from_2 = 0, any = 0;

    (void)state;
    fixture_open(&fix, &plain);
    fi_trecv(EP(fix, 0), &from_2, 8, NULL, fix.addr[2], 1, 0, &contexts[2]);
    fi_trecv(EP(fix, 0), &any, 8, NULL, FI_ADDR_UNSPEC, 1, 0, &contexts[0]);
    fi_trecv(EP(fix, 0), &from_1, 8, NULL, fix.addr[1], 1, 0, &contexts[1]);
    inject_word(&fix, 1, 0, 1, 11); /* the receive from any source is older */
    inject_word(&fix, 1, 0, 1, 12);
    expect_recv(&fix, 0, &contexts[0], 8, 1);
    expect_recv(&fix, 0, &contexts[1], 8, 1);
    fixture_is_quiet(&fix, 0);
    inject_word(&fix, 2, 0, 1, 21);
    expect_recv(&fix, 0, &contexts[2], 8, 1);
    assert_true(any == 11 && from_1 == 12 && from_2 == 21);
    fixture_close(&fix);
}

static void without_directed_receive_the_source_is_ignored(void **state)
{
    struct setup setup = {.caps = FI_TAGGED};
    struct fixture fix;
    uint64_t word = 0;

    (void)state;
    fixture_open(&fix, &setup);
    fi_trecv(EP(fix, 0), &word, 8, NULL, fix.addr[2], 1, 0, &contexts[0]);
    inject_word(&fix, 1, 0, 1, 5);
    expect_recv(&fix, 0, &contexts[0], 8, 1);
    fixture_close(&fix);
}

static void ignored_bits_are_not_compared(void **state)
{
    struct fixture fix;
    uint64_t word = 0;

    (void)state;
    fixture_open(&fix, &plain);
    fi_trecv(EP(fix, 1), &word, 8, NULL, fix.addr[0], 0x100, 0xff, &contexts[0]);
    inject_word(&fix, 0, 1, 0x200, 1);
    inject_word(&fix, 0, 1, 0x1ab, 2);
    expect_recv(&fix, 1, &contexts[0], 8, 0x1ab);
    assert_int_equal(word, 2);
    fixture_close(&fix);
}

static void the_top_tag_bit_is_not_the_clients(void **state)
{
    struct fixture fix;
    uint64_t word = 0, top = UINT64_C(1) << 63;

    (void)state;
    fixture_open(&fix, &plain);
    assert_int_equal(fi_tinject(EP(fix, 0), &word, 8, fix.addr[1], top), -FI_EINVAL);
    assert_int_equal(fi_tsend(EP(fix, 0), &word, 8, NULL, fix.addr[1], top | 1, NULL),
                     -FI_EINVAL);
    assert_int_equal(fi_trecv(EP(fix, 1), &word, 8, NULL, fix.addr[0], top, 0, NULL),
                     -FI_EINVAL);
    assert_int_equal(fi_trecv(EP(fix, 1), &word, 8, NULL, fix.addr[0], top, top, &contexts[0]),
                     0);
    inject_word(&fix, 0, 1, 0, 1);
    expect_recv(&fix, 1, &contexts[0], 8, 0);
    fixture_close(&fix);
}

static void tagged_and_untagged_never_meet(void **state)
{
    struct fixture fix;
    struct fi_cq_tagged_entry e;
    uint64_t tagged = 0, untagged = 0, word = 1;

    (void)state;
    fixture_open(&fix, &plain);
    fi_trecv(EP(fix, 1), &tagged, 8, NULL, fix.addr[0], 0, UINT64_MAX, &contexts[0]);
    fi_recv(EP(fix, 1), &untagged, 8, NULL, fix.addr[0], &contexts[1]);
    assert_int_equal(fi_injectdata(EP(fix, 0), &word, 8, 77, fix.addr[1]), 0);
    assert_int_equal(fixture_read(&fix, 1, &e, NULL), 1);
    assert_ptr_equal(e.op_context, &contexts[1]);
    assert_true(e.flags == (FI_MSG | FI_RECV | FI_REMOTE_CQ_DATA) && e.data == 77);
    fixture_is_quiet(&fix, 1);
    inject_word(&fix, 0, 1, 4, 2);
    expect_recv(&fix, 1, &contexts[0], 8, 4);
    assert_true(tagged == 2 && untagged == 1);
    fixture_close(&fix);
}

/* ---- the source of a message ---------------------------------------------------------------- */

static void the_source_is_named(void **state)
{
    struct fixture fix;
    struct fi_cq_tagged_entry e;
    fi_addr_t source = 99;
    uint64_t word;

    (void)state;
    fixture_open(&fix, &plain);
    for (int from = 2; from >= 0; from--) {
        fi_trecv(EP(fix, 0), &word, 8, NULL, FI_ADDR_UNSPEC, 1, 0, NULL);
        inject_word(&fix, from, 0, 1, 1);
        assert_int_equal(fixture_read(&fix, 0, &e, &source), 1);
        assert_int_equal(source, fix.addr[from]);
    }
    fixture_close(&fix);
}

static void an_unknown_peer_is_matched_and_named_once_known(void **state)
{
    struct setup setup = {.unknown_peers = true};
    struct fixture fix;
    struct fi_cq_tagged_entry e;
    fi_addr_t source = 0, addr;
    uint64_t word = 0;

    (void)state;
    fixture_open(&fix, &setup);
    fi_av_insert(fix.node[1].av, fix.node[0].address, 1, &addr, 0, NULL);
    assert_int_equal(fi_tinject(EP(fix, 0), &word, 8, 5, 1), -FI_EINVAL);
    fix.addr[0] = addr;
    inject_word(&fix, 1, 0, 1, 11);
    fi_trecv(EP(fix, 0), &word, 8, NULL, FI_ADDR_UNSPEC, 1, 0, &contexts[0]);
    assert_int_equal(fixture_read(&fix, 0, &e, &source), 1);
    assert_true(source == FI_ADDR_NOTAVAIL);

    /* The message arrives before the insertion, and is received by address after it. */
    inject_word(&fix, 1, 0, 1, 12);
    fixture_is_quiet(&fix, 0);
    fi_av_insert(fix.node[0].av, fix.node[2].address, 1, &addr, 0, NULL);
    fi_av_insert(fix.node[0].av, fix.node[1].address, 1, &addr, 0, NULL);
    fi_trecv(EP(fix, 0), &word, 8, NULL, addr, 1, 0, &contexts[0]);
    assert_int_equal(fixture_read(&fix, 0, &e, &source), 1);
    assert_true(source == addr && word == 12);
    fixture_close(&fix);
}

static void a_removed_number_may_mean_another(void **state)
{
    struct fixture fix;
    struct fi_cq_tagged_entry e;
    fi_addr_t source, addr;
    uint64_t word = 0;

    (void)state;
    fixture_open(&fix, &plain);
    inject_word(&fix, 0, 1, 1, 1); /* node 0 remembers both ways */
    inject_word(&fix, 1, 0, 1, 1);
    fi_trecv(EP(fix, 0), &word, 8, NULL, fix.addr[1], 1, 0, NULL);
    assert_int_equal(fixture_read(&fix, 0, &e, &source), 1);
    assert_int_equal(fi_av_remove(fix.node[0].av, &fix.addr[1], 1, 0), 0);
    assert_int_equal(fi_tinject(EP(fix, 0), &word, 8, fix.addr[1], 1), -FI_EINVAL);
    inject_word(&fix, 1, 0, 1, 1);
    fi_trecv(EP(fix, 0), &word, 8, NULL, FI_ADDR_UNSPEC, 1, 0, NULL);
    assert_int_equal(fixture_read(&fix, 0, &e, &source), 1);
    assert_true(source == FI_ADDR_NOTAVAIL);

    assert_int_equal(fi_av_remove(fix.node[0].av, &fix.addr[2], 1, 0), 0);
    fi_av_insert(fix.node[0].av, fix.node[1].address, 1, &addr, 0, NULL);
    inject_word(&fix, 1, 0, 1, 1);
    fi_trecv(EP(fix, 0), &word, 8, NULL, addr, 1, 0, NULL);
    assert_int_equal(fixture_read(&fix, 0, &e, &source), 1);
    assert_int_equal(source, addr);
    fixture_close(&fix);
}

/* ---- failures
 * --------------------------------------------------------------------------------- */

static ssize_t read_some(struct fixture *fix, int node, struct fi_cq_tagged_entry *entries)
{
    ssize_t n;

    while ((n = fi_cq_read(fix->node[node].cq, entries, 8)) == -FI_EAGAIN)
        fixture_progress(fix);
    return n;
}

static void truncation_is_an_error_entry_in_order(void **state)
{
    struct fixture fix;
    struct fi_cq_tagged_entry e[8];
    struct fi_cq_err_entry error;
    char small[3][16];

    (void)state;
    fixture_open(&fix, &plain);
    for (int i = 0; i < 3; i++)
        fi_trecv(EP(fix, 1), small[i], 16, NULL, fix.addr[0], 9, 0, &contexts[i]);
    pattern_fill(out_buf, 40, 1);
    fi_tinjectdata(EP(fix, 0), out_buf, 16, 1, fix.addr[1], 9);
    fi_tinjectdata(EP(fix, 0), out_buf, 40, 2, fix.addr[1], 9);
    fi_tinjectdata(EP(fix, 0), out_buf, 16, 3, fix.addr[1], 9);
    for (int i = 0; i < 100; i++)
        fixture_progress(&fix); /* all three have come, unless a device is still at work */
    assert_int_equal(read_some(&fix, 1, e), 1);
    assert_ptr_equal(e[0].op_context, &contexts[0]);
    fixture_read_error(&fix, 1, &error);
    assert_ptr_equal(error.op_context, &contexts[1]);
    assert_int_equal(error.err, FI_ETRUNC);
    assert_true(error.len == 16 && error.olen == 24 && error.tag == 9 && error.data == 2);
    assert_true(error.flags & FI_REMOTE_CQ_DATA && error.flags & FI_RECV);
    assert_true(pattern_is(small[1], 16, 1));
    assert_int_equal(fi_cq_readerr(fix.node[1].cq, &error, 0), -FI_EAGAIN);
    assert_int_equal(read_some(&fix, 1, e), 1);
    assert_ptr_equal(e[0].op_context, &contexts[2]);
    fixture_close(&fix);
}

static void a_long_message_can_be_truncated(void **state)
{
    struct fixture fix;
    struct fi_cq_err_entry error;

    (void)state;
    fixture_open(&fix, &plain);
    pattern_fill(out_buf, BIG, 3);
    memset(in_buf, 0, BIG);
    fi_tsend(EP(fix, 0), out_buf, BIG, NULL, fix.addr[1], 9, &contexts[0]);
    fi_trecv(EP(fix, 1), in_buf, 1000, NULL, fix.addr[0], 9, 0, &contexts[1]);
    fixture_read_error(&fix, 1, &error);
    assert_true(error.err == FI_ETRUNC && error.len == 1000 && error.olen == BIG - 1000);
    assert_true(pattern_is(in_buf, 1000, 3) && in_buf[1000] == 0);
    expect_send(&fix, 0, &contexts[0]);
    fixture_close(&fix);
}

static void a_cancelled_receive_completes_as_cancelled(void **state)
{
    struct fixture fix;
    struct fi_cq_err_entry error;
    uint64_t first = 0, second = 0;

    (void)state;
    fixture_open(&fix, &plain);
    fi_trecv(EP(fix, 1), &first, 8, NULL, fix.addr[0], 1, 0, &contexts[0]);
    fi_trecv(EP(fix, 1), &second, 8, NULL, fix.addr[0], 1, 0, &contexts[1]);
    assert_int_equal(fi_cancel(&EP(fix, 1)->fid, &contexts[0]), 0);
    assert_int_equal(fi_cancel(&EP(fix, 1)->fid, &contexts[0]), -FI_ENOENT);
    assert_int_equal(fi_cancel(&EP(fix, 1)->fid, &contexts[5]), -FI_ENOENT);
    fixture_read_error(&fix, 1, &error);
    assert_true(error.op_context == &contexts[0] && error.err == FI_ECANCELED);
    inject_word(&fix, 0, 1, 1, 6);
    expect_recv(&fix, 1, &contexts[1], 8, 1);
    assert_true(first == 0 && second == 6);
    assert_int_equal(fi_cancel(&EP(fix, 1)->fid, &contexts[1]), -FI_ENOENT);
    fixture_close(&fix);
}

/* A cancelled receive whose cancel returns 0 ends as cancelled, any other as if there had been
 * no cancel: with a matching device the answer is not known at once. */
static void a_cancel_keeps_its_word(void **state)
{
    struct fixture fix;
    struct fi_cq_err_entry error;
    uint64_t got = 0;
    ssize_t err;

    (void)state;
    fixture_open(&fix, &plain);
    fi_trecv(EP(fix, 1), &got, 8, NULL, fix.addr[0], 1, 0, &contexts[0]);
    for (int i = 0; i < 3; i++)
        fi_cq_read(fix.node[1].cq, NULL, 0);
    inject_word(&fix, 0, 1, 1, 6);
    err = fi_cancel(&EP(fix, 1)->fid, &contexts[0]);
    if (err == 0) {
        fixture_read_error(&fix, 1, &error);
        assert_true(error.op_context == &contexts[0] && error.err == FI_ECANCELED);
        fi_trecv(EP(fix, 1), &got, 8, NULL, fix.addr[0], 1, 0, &contexts[1]);
        expect_recv(&fix, 1, &contexts[1], 8, 1);
    } else {
        assert_int_equal(err, -FI_ENOENT);
        expect_recv(&fix, 1, &contexts[0], 8, 1);
    }
    assert_true(got == 6);
    fixture_close(&fix);
}

/* ---- probes
 * -------------------------------------------------------------------------------------- */

static ssize_t probe(struct fixture *fix, int node, uint64_t tag, uint64_t flags, void *context,
                     struct iovec *iov)
{
    struct fi_msg_tagged msg = {.msg_iov = iov,
                                .iov_count = iov != NULL,
                                .tag = tag,
                                .addr = FI_ADDR_UNSPEC,
                                .context = context};

    return fi_trecvmsg(EP(*fix, node), &msg, flags);
}

static void a_probe_finds_or_fails(void **state)
{
    struct fixture fix;
    struct fi_cq_err_entry error;
    struct fi_cq_tagged_entry e;
    fi_addr_t source;
    uint64_t word = 0;

    (void)state;
    fixture_open(&fix, &plain);
    assert_int_equal(probe(&fix, 1, 4, FI_PEEK, &contexts[0], NULL), 0);
    fixture_read_error(&fix, 1, &error);
    assert_true(error.op_context == &contexts[0] && error.err == FI_ENOMSG && error.tag == 4);
    pattern_fill(out_buf, 90000, 1);
    fi_tsenddata(EP(fix, 0), out_buf, 90000, NULL, 3, fix.addr[1], 4, NULL);
    fixture_arrived(&fix, 0, 1);
    for (int i = 0; i < 2; i++) { /* a probe takes nothing */
        assert_int_equal(probe(&fix, 1, 4, FI_PEEK, &contexts[0], NULL), 0);
        assert_int_equal(fixture_read(&fix, 1, &e, &source), 1);
        assert_true(e.op_context == &contexts[0] && e.len == 90000 && e.tag == 4 &&
                    e.data == 3);
        assert_true(e.flags == (FI_TAGGED | FI_RECV | FI_REMOTE_CQ_DATA));
        assert_int_equal(source, fix.addr[0]);
    }
    fi_trecv(EP(fix, 1), in_buf, BIG, NULL, fix.addr[0], 4, 0, &word);
    expect_recv(&fix, 1, &word, 90000, 4);
    fixture_close(&fix);
}

static void a_claimed_message_belongs_to_its_context(void **state)
{
    struct iovec iov = {in_buf, sizeof in_buf};
    struct fixture fix;
    uint64_t word = 0;

    (void)state;
    fixture_open(&fix, &plain);
    inject_word(&fix, 0, 1, 4, 111);
    inject_word(&fix, 0, 1, 4, 222);
    fixture_arrived(&fix, 0, 1);
    assert_int_equal(probe(&fix, 1, 4, FI_PEEK | FI_CLAIM, &contexts[0], NULL), 0);
    expect_recv(&fix, 1, &contexts[0], 8, 4);
    fi_trecv(EP(fix, 1), &word, 8, NULL, fix.addr[0], 4, 0, &contexts[1]);
    expect_recv(&fix, 1, &contexts[1], 8, 4);
    assert_int_equal(word, 222);
    assert_int_equal(probe(&fix, 1, 9999, FI_CLAIM, &contexts[2], &iov), -FI_EINVAL);
    assert_int_equal(probe(&fix, 1, UINT64_MAX, FI_CLAIM, &contexts[0], &iov), 0);
    expect_recv(&fix, 1, &contexts[0], 8, 4);
    memcpy(&word, in_buf, 8);
    assert_int_equal(word, 111);
    assert_int_equal(probe(&fix, 1, 4, FI_CLAIM, &contexts[0], &iov), -FI_EINVAL);
    fixture_close(&fix);
}

static void discarded_messages_are_gone(void **state)
{
    struct fi_msg_tagged msg = {.tag = 4, .context = &contexts[3]};
    struct fixture fix;
    uint64_t word = 0;

    (void)state;
    fixture_open(&fix, &plain);
    for (uint64_t i = 1; i <= 3; i++)
        inject_word(&fix, 0, 1, 4, i);
    fixture_arrived(&fix, 0, 1);
    assert_int_equal(probe(&fix, 1, 4, FI_PEEK | FI_DISCARD, &contexts[0], NULL), 0);
    expect_recv(&fix, 1, &contexts[0], 8, 4);
    assert_int_equal(probe(&fix, 1, 4, FI_PEEK | FI_CLAIM, &contexts[1], NULL), 0);
    expect_recv(&fix, 1, &contexts[1], 8, 4);
    assert_int_equal(probe(&fix, 1, 4, FI_CLAIM | FI_DISCARD, &contexts[1], NULL), 0);
    expect_recv(&fix, 1, &contexts[1], 8, 4);
    assert_int_equal(probe(&fix, 1, 4, FI_DISCARD, &contexts[1], NULL), -FI_EBADFLAGS);
    fi_trecv(EP(fix, 1), &word, 8, NULL, fix.addr[0], 4, 0, &contexts[2]);
    expect_recv(&fix, 1, &contexts[2], 8, 4);
    assert_int_equal(word, 3);

    /* The sender is notified as if the message had been received. */
    msg.addr = fix.addr[1];
    assert_int_equal(fi_tsendmsg(EP(fix, 0), &msg, FI_MATCH_COMPLETE), 0);
    fixture_arrived(&fix, 0, 1);
    assert_int_equal(probe(&fix, 1, 4, FI_PEEK | FI_DISCARD, &contexts[0], NULL), 0);
    expect_recv(&fix, 1, &contexts[0], 0, 4);
    expect_send(&fix, 0, &contexts[3]);
    fixture_close(&fix);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_size_arrives_whole),
        cmocka_unit_test(an_injected_buffer_may_be_reused_at_once),
        cmocka_unit_test(an_injected_message_can_complete),
        cmocka_unit_test(pieces_are_gathered_and_scattered),
        cmocka_unit_test(a_message_to_oneself_arrives),
        cmocka_unit_test(remote_data_is_reported_when_sent),
        cmocka_unit_test(a_directed_receive_takes_only_its_source),
        cmocka_unit_test(without_directed_receive_the_source_is_ignored),
        cmocka_unit_test(ignored_bits_are_not_compared),
        cmocka_unit_test(the_top_tag_bit_is_not_the_clients),
        cmocka_unit_test(tagged_and_untagged_never_meet),
        cmocka_unit_test(the_source_is_named),
        cmocka_unit_test(an_unknown_peer_is_matched_and_named_once_known),
        cmocka_unit_test(a_removed_number_may_mean_another),
        cmocka_unit_test(truncation_is_an_error_entry_in_order),
        cmocka_unit_test(a_long_message_can_be_truncated),
        cmocka_unit_test(a_cancelled_receive_completes_as_cancelled),
        cmocka_unit_test(a_cancel_keeps_its_word),
        cmocka_unit_test(a_probe_finds_or_fails),
        cmocka_unit_test(a_claimed_message_belongs_to_its_context),
        cmocka_unit_test(discarded_messages_are_gone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
