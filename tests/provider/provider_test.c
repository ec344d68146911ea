/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * provider_test.c - messages through the libfabric provider: what was sent is what is
 * received, in every form of call, by whom it was meant for.
 */
#include "provider_world.h"

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
    struct world w;

    (void)state;
    world_open(&w, &plain);
    for (unsigned i = 0; i < 2 * sizeof sizes / sizeof sizes[0]; i++) {
        size_t size = sizes[i / 2];
        bool expected = i % 2;

        pattern_fill(out_buf, size, i);
        memset(in_buf, 0, size);
        if (expected)
            fi_trecv(EP(w, 1), in_buf, size, NULL, w.addr[0], i, 0, &contexts[1]);
        assert_int_equal(fi_tsend(EP(w, 0), out_buf, size, NULL, w.addr[1], i, &contexts[0]),
                         0);
        if (!expected)
            fi_trecv(EP(w, 1), in_buf, size, NULL, w.addr[0], i, 0, &contexts[1]);
        expect_recv(&w, 1, &contexts[1], size, i);
        expect_send(&w, 0, &contexts[0]);
        assert_true(pattern_is(in_buf, size, i));
    }
    world_close(&w);
}

static void an_injected_buffer_may_be_reused_at_once(void **state)
{
    struct world w;

    (void)state;
    world_open(&w, &plain);
    for (unsigned i = 0; i < 500; i++) { /* more than any queue holds */
        pattern_fill(out_buf, 4096, i);
        assert_int_equal(fi_tinject(EP(w, 0), out_buf, 4096, w.addr[1], i), 0);
        memset(out_buf, 0xee, 4096);
    }
    for (unsigned i = 0; i < 500; i++) {
        fi_trecv(EP(w, 1), in_buf, 4096, NULL, w.addr[0], i, 0, &contexts[0]);
        expect_recv(&w, 1, &contexts[0], 4096, i);
        assert_true(pattern_is(in_buf, 4096, i));
    }
    world_is_quiet(&w, 0);
    assert_int_equal(fi_tinject(EP(w, 0), out_buf, BIG, w.addr[1], 0), -FI_EMSGSIZE);
    world_close(&w);
}

/* FI_INJECT on a call with completion: copied, and completed. */
static void an_injected_message_can_complete(void **state)
{
    struct world w;
    struct iovec iov = {out_buf, 3000};
    struct fi_msg_tagged msg = {
        .msg_iov = &iov, .iov_count = 1, .tag = 3, .context = &contexts[0]};

    (void)state;
    world_open(&w, &plain);
    msg.addr = w.addr[1];
    pattern_fill(out_buf, 3000, 1);
    assert_int_equal(fi_tsendmsg(EP(w, 0), &msg, FI_INJECT | FI_COMPLETION), 0);
    memset(out_buf, 0, 3000);
    expect_send(&w, 0, &contexts[0]);
    fi_trecv(EP(w, 1), in_buf, 3000, NULL, w.addr[0], 3, 0, &contexts[1]);
    expect_recv(&w, 1, &contexts[1], 3000, 3);
    assert_true(pattern_is(in_buf, 3000, 1));
    world_close(&w);
}

static void pieces_are_gathered_and_scattered(void **state)
{
    struct world w;
    struct iovec out[8], in[3] = {{in_buf, 10}, {in_buf + 10, 0}, {in_buf + 10, 100000}};

    (void)state;
    world_open(&w, &plain);
    for (size_t size = 8; size <= 80000; size *= 100) {
        pattern_fill(out_buf, size, 5);
        memset(in_buf, 0, size);
        for (size_t i = 0; i < 8; i++)
            out[i] = (struct iovec){out_buf + i * (size / 8), size / 8};
        fi_trecvv(EP(w, 1), in, NULL, 3, w.addr[0], 1, 0, &contexts[1]);
        assert_int_equal(fi_tsendv(EP(w, 0), out, NULL, 8, w.addr[1], 1, &contexts[0]), 0);
        expect_recv(&w, 1, &contexts[1], size, 1);
        expect_send(&w, 0, &contexts[0]);
        assert_true(pattern_is(in_buf, size, 5));
    }
    assert_int_equal(fi_tsendv(EP(w, 0), out, NULL, 9, w.addr[1], 1, NULL), -FI_EINVAL);
    world_close(&w);
}

static void a_message_to_oneself_arrives(void **state)
{
    struct world w;

    (void)state;
    world_open(&w, &plain);
    pattern_fill(out_buf, 100000, 2);
    fi_trecv(EP(w, 0), in_buf, 100000, NULL, w.addr[0], 1, 0, &contexts[1]);
    assert_int_equal(fi_tsend(EP(w, 0), out_buf, 100000, NULL, w.addr[0], 1, &contexts[0]), 0);
    for (int i = 0; i < 2; i++) {
        struct fi_cq_tagged_entry e;

        assert_int_equal(world_read(&w, 0, &e, NULL), 1);
        assert_ptr_equal(e.op_context, &contexts[e.flags & FI_RECV ? 1 : 0]);
    }
    assert_true(pattern_is(in_buf, 100000, 2));
    world_close(&w);
}

/* ---- matching --------------------------------------------------------------------------- */

static void remote_data_is_reported_when_sent(void **state)
{
    struct world w;
    struct fi_cq_tagged_entry e;
    uint64_t word = 0;

    (void)state;
    world_open(&w, &plain);
    for (int i = 0; i < 3; i++)
        fi_trecv(EP(w, 1), &word, 8, NULL, w.addr[0], 1, 0, &contexts[i]);
    fi_tinjectdata(EP(w, 0), &word, 8, UINT64_MAX, w.addr[1], 1);
    fi_tinject(EP(w, 0), &word, 8, w.addr[1], 1);
    fi_tsenddata(EP(w, 0), &word, 8, NULL, 0, w.addr[1], 1, NULL);
    assert_int_equal(world_read(&w, 1, &e, NULL), 1);
    assert_true(e.flags & FI_REMOTE_CQ_DATA && e.data == UINT64_MAX && e.tag == 1);
    assert_int_equal(world_read(&w, 1, &e, NULL), 1);
    assert_false(e.flags & FI_REMOTE_CQ_DATA);
    assert_int_equal(world_read(&w, 1, &e, NULL), 1);
    assert_true(e.flags & FI_REMOTE_CQ_DATA && e.data == 0);
    world_close(&w);
}

static void a_directed_receive_takes_only_its_source(void **state)
{
    struct world w;
    uint64_t from_1 = 0, from_2 = 0, any = 0;

    (void)state;
    world_open(&w, &plain);
    fi_trecv(EP(w, 0), &from_2, 8, NULL, w.addr[2], 1, 0, &contexts[2]);
    fi_trecv(EP(w, 0), &any, 8, NULL, FI_ADDR_UNSPEC, 1, 0, &contexts[0]);
    fi_trecv(EP(w, 0), &from_1, 8, NULL, w.addr[1], 1, 0, &contexts[1]);
    inject_word(&w, 1, 0, 1, 11); /* the any receive is older */
    inject_word(&w, 1, 0, 1, 12);
    expect_recv(&w, 0, &contexts[0], 8, 1);
    expect_recv(&w, 0, &contexts[1], 8, 1);
    world_is_quiet(&w, 0);
    inject_word(&w, 2, 0, 1, 21);
    expect_recv(&w, 0, &contexts[2], 8, 1);
    assert_true(any == 11 && from_1 == 12 && from_2 == 21);
    world_close(&w);
}

static void without_directed_receive_the_source_is_ignored(void **state)
{
    struct setup setup = {.caps = FI_TAGGED};
    struct world w;
    uint64_t word = 0;

    (void)state;
    world_open(&w, &setup);
    fi_trecv(EP(w, 0), &word, 8, NULL, w.addr[2], 1, 0, &contexts[0]);
    inject_word(&w, 1, 0, 1, 5);
    expect_recv(&w, 0, &contexts[0], 8, 1);
    world_close(&w);
}

static void ignored_bits_are_not_compared(void **state)
{
    struct world w;
    uint64_t word = 0;

    (void)state;
    world_open(&w, &plain);
    fi_trecv(EP(w, 1), &word, 8, NULL, w.addr[0], 0x100, 0xff, &contexts[0]);
    inject_word(&w, 0, 1, 0x200, 1);
    inject_word(&w, 0, 1, 0x1ab, 2);
    expect_recv(&w, 1, &contexts[0], 8, 0x1ab);
    assert_int_equal(word, 2);
    world_close(&w);
}

static void the_top_tag_bit_is_not_the_clients(void **state)
{
    struct world w;
    uint64_t word = 0, top = UINT64_C(1) << 63;

    (void)state;
    world_open(&w, &plain);
    assert_int_equal(fi_tinject(EP(w, 0), &word, 8, w.addr[1], top), -FI_EINVAL);
    assert_int_equal(fi_tsend(EP(w, 0), &word, 8, NULL, w.addr[1], top | 1, NULL), -FI_EINVAL);
    assert_int_equal(fi_trecv(EP(w, 1), &word, 8, NULL, w.addr[0], top, 0, NULL), -FI_EINVAL);
    assert_int_equal(fi_trecv(EP(w, 1), &word, 8, NULL, w.addr[0], top, top, &contexts[0]), 0);
    inject_word(&w, 0, 1, 0, 1);
    expect_recv(&w, 1, &contexts[0], 8, 0);
    world_close(&w);
}

static void tagged_and_untagged_never_meet(void **state)
{
    struct world w;
    struct fi_cq_tagged_entry e;
    uint64_t tagged = 0, untagged = 0, word = 1;

    (void)state;
    world_open(&w, &plain);
    fi_trecv(EP(w, 1), &tagged, 8, NULL, w.addr[0], 0, UINT64_MAX, &contexts[0]);
    fi_recv(EP(w, 1), &untagged, 8, NULL, w.addr[0], &contexts[1]);
    assert_int_equal(fi_injectdata(EP(w, 0), &word, 8, 77, w.addr[1]), 0);
    assert_int_equal(world_read(&w, 1, &e, NULL), 1);
    assert_ptr_equal(e.op_context, &contexts[1]);
    assert_true(e.flags == (FI_MSG | FI_RECV | FI_REMOTE_CQ_DATA) && e.data == 77);
    world_is_quiet(&w, 1);
    inject_word(&w, 0, 1, 4, 2);
    expect_recv(&w, 1, &contexts[0], 8, 4);
    assert_true(tagged == 2 && untagged == 1);
    world_close(&w);
}

/* ---- who sent it ----------------------------------------------------------------------------
 */

static void the_source_is_named(void **state)
{
    struct world w;
    struct fi_cq_tagged_entry e;
    fi_addr_t source = 99;
    uint64_t word;

    (void)state;
    world_open(&w, &plain);
    for (int from = 2; from >= 0; from--) {
        fi_trecv(EP(w, 0), &word, 8, NULL, FI_ADDR_UNSPEC, 1, 0, NULL);
        inject_word(&w, from, 0, 1, 1);
        assert_int_equal(world_read(&w, 0, &e, &source), 1);
        assert_int_equal(source, w.addr[from]);
    }
    world_close(&w);
}

static void a_stranger_is_matched_and_named_once_known(void **state)
{
    struct setup setup = {.strangers = true};
    struct world w;
    struct fi_cq_tagged_entry e;
    fi_addr_t source = 0, addr;
    uint64_t word = 0;

    (void)state;
    world_open(&w, &setup);
    fi_av_insert(w.node[1].av, w.node[0].address, 1, &addr, 0, NULL);
    assert_int_equal(fi_tinject(EP(w, 0), &word, 8, 5, 1), -FI_EINVAL);
    w.addr[0] = addr;
    inject_word(&w, 1, 0, 1, 11);
    fi_trecv(EP(w, 0), &word, 8, NULL, FI_ADDR_UNSPEC, 1, 0, &contexts[0]);
    assert_int_equal(world_read(&w, 0, &e, &source), 1);
    assert_true(source == FI_ADDR_NOTAVAIL);

    /* Arrived before the insertion, received by address after it. */
    inject_word(&w, 1, 0, 1, 12);
    world_is_quiet(&w, 0);
    fi_av_insert(w.node[0].av, w.node[2].address, 1, &addr, 0, NULL);
    fi_av_insert(w.node[0].av, w.node[1].address, 1, &addr, 0, NULL);
    fi_trecv(EP(w, 0), &word, 8, NULL, addr, 1, 0, &contexts[0]);
    assert_int_equal(world_read(&w, 0, &e, &source), 1);
    assert_true(source == addr && word == 12);
    world_close(&w);
}

static void a_removed_number_may_mean_another(void **state)
{
    struct world w;
    struct fi_cq_tagged_entry e;
    fi_addr_t source, addr;
    uint64_t word = 0;

    (void)state;
    world_open(&w, &plain);
    inject_word(&w, 0, 1, 1, 1); /* node 0 remembers both ways */
    inject_word(&w, 1, 0, 1, 1);
    fi_trecv(EP(w, 0), &word, 8, NULL, w.addr[1], 1, 0, NULL);
    assert_int_equal(world_read(&w, 0, &e, &source), 1);
    assert_int_equal(fi_av_remove(w.node[0].av, &w.addr[1], 1, 0), 0);
    assert_int_equal(fi_tinject(EP(w, 0), &word, 8, w.addr[1], 1), -FI_EINVAL);
    inject_word(&w, 1, 0, 1, 1);
    fi_trecv(EP(w, 0), &word, 8, NULL, FI_ADDR_UNSPEC, 1, 0, NULL);
    assert_int_equal(world_read(&w, 0, &e, &source), 1);
    assert_true(source == FI_ADDR_NOTAVAIL);

    assert_int_equal(fi_av_remove(w.node[0].av, &w.addr[2], 1, 0), 0);
    fi_av_insert(w.node[0].av, w.node[1].address, 1, &addr, 0, NULL);
    inject_word(&w, 1, 0, 1, 1);
    fi_trecv(EP(w, 0), &word, 8, NULL, addr, 1, 0, NULL);
    assert_int_equal(world_read(&w, 0, &e, &source), 1);
    assert_int_equal(source, addr);
    world_close(&w);
}

/* ---- failures
 * --------------------------------------------------------------------------------- */

static ssize_t read_some(struct world *w, int node, struct fi_cq_tagged_entry *entries)
{
    ssize_t n;

    while ((n = fi_cq_read(w->node[node].cq, entries, 8)) == -FI_EAGAIN)
        world_progress(w);
    return n;
}

static void truncation_is_an_error_entry_in_order(void **state)
{
    struct world w;
    struct fi_cq_tagged_entry e[8];
    struct fi_cq_err_entry error;
    char small[3][16];

    (void)state;
    world_open(&w, &plain);
    for (int i = 0; i < 3; i++)
        fi_trecv(EP(w, 1), small[i], 16, NULL, w.addr[0], 9, 0, &contexts[i]);
    pattern_fill(out_buf, 40, 1);
    fi_tinjectdata(EP(w, 0), out_buf, 16, 1, w.addr[1], 9);
    fi_tinjectdata(EP(w, 0), out_buf, 40, 2, w.addr[1], 9);
    fi_tinjectdata(EP(w, 0), out_buf, 16, 3, w.addr[1], 9);
    for (int i = 0; i < 100; i++)
        world_progress(&w); /* all three are there, or a device is still at it */
    assert_int_equal(read_some(&w, 1, e), 1);
    assert_ptr_equal(e[0].op_context, &contexts[0]);
    world_read_error(&w, 1, &error);
    assert_ptr_equal(error.op_context, &contexts[1]);
    assert_int_equal(error.err, FI_ETRUNC);
    assert_true(error.len == 16 && error.olen == 24 && error.tag == 9 && error.data == 2);
    assert_true(error.flags & FI_REMOTE_CQ_DATA && error.flags & FI_RECV);
    assert_true(pattern_is(small[1], 16, 1));
    assert_int_equal(fi_cq_readerr(w.node[1].cq, &error, 0), -FI_EAGAIN);
    assert_int_equal(read_some(&w, 1, e), 1);
    assert_ptr_equal(e[0].op_context, &contexts[2]);
    world_close(&w);
}

static void a_long_message_can_be_truncated(void **state)
{
    struct world w;
    struct fi_cq_err_entry error;

    (void)state;
    world_open(&w, &plain);
    pattern_fill(out_buf, BIG, 3);
    memset(in_buf, 0, BIG);
    fi_tsend(EP(w, 0), out_buf, BIG, NULL, w.addr[1], 9, &contexts[0]);
    fi_trecv(EP(w, 1), in_buf, 1000, NULL, w.addr[0], 9, 0, &contexts[1]);
    world_read_error(&w, 1, &error);
    assert_true(error.err == FI_ETRUNC && error.len == 1000 && error.olen == BIG - 1000);
    assert_true(pattern_is(in_buf, 1000, 3) && in_buf[1000] == 0);
    expect_send(&w, 0, &contexts[0]);
    world_close(&w);
}

static void a_cancelled_receive_completes_as_cancelled(void **state)
{
    struct world w;
    struct fi_cq_err_entry error;
    uint64_t first = 0, second = 0;

    (void)state;
    world_open(&w, &plain);
    fi_trecv(EP(w, 1), &first, 8, NULL, w.addr[0], 1, 0, &contexts[0]);
    fi_trecv(EP(w, 1), &second, 8, NULL, w.addr[0], 1, 0, &contexts[1]);
    assert_int_equal(fi_cancel(&EP(w, 1)->fid, &contexts[0]), 0);
    assert_int_equal(fi_cancel(&EP(w, 1)->fid, &contexts[0]), -FI_ENOENT);
    assert_int_equal(fi_cancel(&EP(w, 1)->fid, &contexts[5]), -FI_ENOENT);
    world_read_error(&w, 1, &error);
    assert_true(error.op_context == &contexts[0] && error.err == FI_ECANCELED);
    inject_word(&w, 0, 1, 1, 6);
    expect_recv(&w, 1, &contexts[1], 8, 1);
    assert_true(first == 0 && second == 6);
    assert_int_equal(fi_cancel(&EP(w, 1)->fid, &contexts[1]), -FI_ENOENT);
    world_close(&w);
}

/* A cancel that returns 0 ends as cancelled, any other as if there had been none: with a
 * matching device the answer is not known at once. */
static void a_cancel_keeps_its_word(void **state)
{
    struct world w;
    struct fi_cq_err_entry error;
    uint64_t got = 0;
    ssize_t err;

    (void)state;
    world_open(&w, &plain);
    fi_trecv(EP(w, 1), &got, 8, NULL, w.addr[0], 1, 0, &contexts[0]);
    for (int i = 0; i < 3; i++)
        fi_cq_read(w.node[1].cq, NULL, 0);
    inject_word(&w, 0, 1, 1, 6);
    err = fi_cancel(&EP(w, 1)->fid, &contexts[0]);
    if (err == 0) {
        world_read_error(&w, 1, &error);
        assert_true(error.op_context == &contexts[0] && error.err == FI_ECANCELED);
        fi_trecv(EP(w, 1), &got, 8, NULL, w.addr[0], 1, 0, &contexts[1]);
        expect_recv(&w, 1, &contexts[1], 8, 1);
    } else {
        assert_int_equal(err, -FI_ENOENT);
        expect_recv(&w, 1, &contexts[0], 8, 1);
    }
    assert_true(got == 6);
    world_close(&w);
}

/* ---- probes
 * -------------------------------------------------------------------------------------- */

static ssize_t probe(struct world *w, int node, uint64_t tag, uint64_t flags, void *context,
                     struct iovec *iov)
{
    struct fi_msg_tagged msg = {.msg_iov = iov,
                                .iov_count = iov != NULL,
                                .tag = tag,
                                .addr = FI_ADDR_UNSPEC,
                                .context = context};

    return fi_trecvmsg(EP(*w, node), &msg, flags);
}

static void a_probe_finds_or_fails(void **state)
{
    struct world w;
    struct fi_cq_err_entry error;
    struct fi_cq_tagged_entry e;
    fi_addr_t source;
    uint64_t word = 0;

    (void)state;
    world_open(&w, &plain);
    assert_int_equal(probe(&w, 1, 4, FI_PEEK, &contexts[0], NULL), 0);
    world_read_error(&w, 1, &error);
    assert_true(error.op_context == &contexts[0] && error.err == FI_ENOMSG && error.tag == 4);
    pattern_fill(out_buf, 90000, 1);
    fi_tsenddata(EP(w, 0), out_buf, 90000, NULL, 3, w.addr[1], 4, NULL);
    world_arrived(&w, 0, 1);
    for (int i = 0; i < 2; i++) { /* it takes nothing */
        assert_int_equal(probe(&w, 1, 4, FI_PEEK, &contexts[0], NULL), 0);
        assert_int_equal(world_read(&w, 1, &e, &source), 1);
        assert_true(e.op_context == &contexts[0] && e.len == 90000 && e.tag == 4 &&
                    e.data == 3);
        assert_true(e.flags == (FI_TAGGED | FI_RECV | FI_REMOTE_CQ_DATA));
        assert_int_equal(source, w.addr[0]);
    }
    fi_trecv(EP(w, 1), in_buf, BIG, NULL, w.addr[0], 4, 0, &word);
    expect_recv(&w, 1, &word, 90000, 4);
    world_close(&w);
}

static void a_claimed_message_belongs_to_its_context(void **state)
{
    struct iovec iov = {in_buf, sizeof in_buf};
    struct world w;
    uint64_t word = 0;

    (void)state;
    world_open(&w, &plain);
    inject_word(&w, 0, 1, 4, 111);
    inject_word(&w, 0, 1, 4, 222);
    world_arrived(&w, 0, 1);
    assert_int_equal(probe(&w, 1, 4, FI_PEEK | FI_CLAIM, &contexts[0], NULL), 0);
    expect_recv(&w, 1, &contexts[0], 8, 4);
    fi_trecv(EP(w, 1), &word, 8, NULL, w.addr[0], 4, 0, &contexts[1]);
    expect_recv(&w, 1, &contexts[1], 8, 4);
    assert_int_equal(word, 222);
    assert_int_equal(probe(&w, 1, 9999, FI_CLAIM, &contexts[2], &iov), -FI_EINVAL);
    assert_int_equal(probe(&w, 1, UINT64_MAX, FI_CLAIM, &contexts[0], &iov), 0);
    expect_recv(&w, 1, &contexts[0], 8, 4);
    memcpy(&word, in_buf, 8);
    assert_int_equal(word, 111);
    assert_int_equal(probe(&w, 1, 4, FI_CLAIM, &contexts[0], &iov), -FI_EINVAL);
    world_close(&w);
}

static void discarded_messages_are_gone(void **state)
{
    struct fi_msg_tagged msg = {.tag = 4, .context = &contexts[3]};
    struct world w;
    uint64_t word = 0;

    (void)state;
    world_open(&w, &plain);
    for (uint64_t i = 1; i <= 3; i++)
        inject_word(&w, 0, 1, 4, i);
    world_arrived(&w, 0, 1);
    assert_int_equal(probe(&w, 1, 4, FI_PEEK | FI_DISCARD, &contexts[0], NULL), 0);
    expect_recv(&w, 1, &contexts[0], 8, 4);
    assert_int_equal(probe(&w, 1, 4, FI_PEEK | FI_CLAIM, &contexts[1], NULL), 0);
    expect_recv(&w, 1, &contexts[1], 8, 4);
    assert_int_equal(probe(&w, 1, 4, FI_CLAIM | FI_DISCARD, &contexts[1], NULL), 0);
    expect_recv(&w, 1, &contexts[1], 8, 4);
    assert_int_equal(probe(&w, 1, 4, FI_DISCARD, &contexts[1], NULL), -FI_EBADFLAGS);
    fi_trecv(EP(w, 1), &word, 8, NULL, w.addr[0], 4, 0, &contexts[2]);
    expect_recv(&w, 1, &contexts[2], 8, 4);
    assert_int_equal(word, 3);

    /* Its sender is told as if it had been received. */
    msg.addr = w.addr[1];
    assert_int_equal(fi_tsendmsg(EP(w, 0), &msg, FI_MATCH_COMPLETE), 0);
    world_arrived(&w, 0, 1);
    assert_int_equal(probe(&w, 1, 4, FI_PEEK | FI_DISCARD, &contexts[0], NULL), 0);
    expect_recv(&w, 1, &contexts[0], 0, 4);
    expect_send(&w, 0, &contexts[3]);
    world_close(&w);
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
        cmocka_unit_test(a_stranger_is_matched_and_named_once_known),
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
