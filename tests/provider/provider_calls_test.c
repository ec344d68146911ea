/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * provider_calls_test.c - every form of send is matched with every form of receive, with every
 * flag that it takes; and the calls that set and query what an endpoint does.
 */
#include "provider_fixture.h"

#include <stdlib.h>
#include <string.h>

#define SIZE   4096 /* the inject size */
#define PIECES 8
#define TAG    0x1234
#define DATA   0x123456789abcdef0u

static const struct setup plain;
static char out_buf[SIZE], in_buf[SIZE];
static int contexts[2]; /* of the send, of the receive */

/* ---- all forms ----------------------------------------------------------------------------
 */

static void pieces_of(struct iovec *iov, char *buf, size_t size)
{
    for (size_t i = 0; i < PIECES; i++)
        iov[i] = (struct iovec){buf + i * (size / PIECES), size / PIECES};
}

enum form { PLAIN, VECTOR, MESSAGE, DATA_TOO, INJECT, INJECT_DATA, FORMS };

static bool completes(enum form form)
{
    return form != INJECT && form != INJECT_DATA;
}

static bool has_data(enum form form)
{
    return form == DATA_TOO || form == INJECT_DATA || form == MESSAGE;
}

static ssize_t send_untagged(struct fid_ep *ep, enum form form, size_t size, fi_addr_t to)
{
    struct iovec iov[PIECES];
    struct fi_msg msg = {
        .msg_iov = iov, .iov_count = PIECES, .addr = to, .context = &contexts[0], .data = DATA};

    pieces_of(iov, out_buf, size);
    switch (form) {
    case PLAIN:
        return fi_send(ep, out_buf, size, NULL, to, &contexts[0]);
    case VECTOR:
        return fi_sendv(ep, iov, NULL, PIECES, to, &contexts[0]);
    case MESSAGE:
        return fi_sendmsg(ep, &msg, FI_COMPLETION | FI_REMOTE_CQ_DATA);
    case DATA_TOO:
        return fi_senddata(ep, out_buf, size, NULL, DATA, to, &contexts[0]);
    case INJECT:
        return fi_inject(ep, out_buf, size, to);
    case INJECT_DATA:
        return fi_injectdata(ep, out_buf, size, DATA, to);
    case FORMS:
        break;
    }
    return -FI_EINVAL;
}

static ssize_t send_tagged(struct fid_ep *ep, enum form form, size_t size, fi_addr_t to)
{
    struct iovec iov[PIECES];
    struct fi_msg_tagged msg = {.msg_iov = iov,
                                .iov_count = PIECES,
                                .addr = to,
                                .tag = TAG,
                                .context = &contexts[0],
                                .data = DATA};

    pieces_of(iov, out_buf, size);
    switch (form) {
    case PLAIN:
        return fi_tsend(ep, out_buf, size, NULL, to, TAG, &contexts[0]);
    case VECTOR:
        return fi_tsendv(ep, iov, NULL, PIECES, to, TAG, &contexts[0]);
    case MESSAGE:
        return fi_tsendmsg(ep, &msg, FI_COMPLETION | FI_REMOTE_CQ_DATA);
    case DATA_TOO:
        return fi_tsenddata(ep, out_buf, size, NULL, DATA, to, TAG, &contexts[0]);
    case INJECT:
        return fi_tinject(ep, out_buf, size, to, TAG);
    case INJECT_DATA:
        return fi_tinjectdata(ep, out_buf, size, DATA, to, TAG);
    case FORMS:
        break;
    }
    return -FI_EINVAL;
}

static ssize_t recv_untagged(struct fid_ep *ep, enum form form, size_t size, fi_addr_t from)
{
    struct iovec iov[PIECES];
    struct fi_msg msg = {
        .msg_iov = iov, .iov_count = PIECES, .addr = from, .context = &contexts[1]};

    pieces_of(iov, in_buf, size);
    if (form == PLAIN)
        return fi_recv(ep, in_buf, size, NULL, from, &contexts[1]);
    if (form == VECTOR)
        return fi_recvv(ep, iov, NULL, PIECES, from, &contexts[1]);
    return fi_recvmsg(ep, &msg, FI_COMPLETION | FI_MORE);
}

static ssize_t recv_tagged(struct fid_ep *ep, enum form form, size_t size, fi_addr_t from)
{
    struct iovec iov[PIECES];
    struct fi_msg_tagged msg = {.msg_iov = iov,
                                .iov_count = PIECES,
                                .addr = from,
                                .tag = TAG & 0xff,
                                .ignore = ~UINT64_C(0xff),
                                .context = &contexts[1]};

    pieces_of(iov, in_buf, size);
    if (form == PLAIN)
        return fi_trecv(ep, in_buf, size, NULL, from, TAG, 0, &contexts[1]);
    if (form == VECTOR)
        return fi_trecvv(ep, iov, NULL, PIECES, from, TAG, 0, &contexts[1]);
    return fi_trecvmsg(ep, &msg, FI_COMPLETION | FI_MORE);
}

static void one_meets_one(struct fixture *fix, bool tagged, enum form send, enum form recv,
                          size_t size)
{
    struct fi_cq_tagged_entry e;
    fi_addr_t source;

    pattern_fill(out_buf, size, (unsigned)send);
    memset(in_buf, 0, size);
    assert_int_equal(tagged ? recv_tagged(EP(*fix, 1), recv, size, fix->addr[0])
                            : recv_untagged(EP(*fix, 1), recv, size, fix->addr[0]),
                     0);
    assert_int_equal(tagged ? send_tagged(EP(*fix, 0), send, size, fix->addr[1])
                            : send_untagged(EP(*fix, 0), send, size, fix->addr[1]),
                     0);
    assert_int_equal(fixture_read(fix, 1, &e, &source), 1);
    assert_ptr_equal(e.op_context, &contexts[1]);
    assert_int_equal(e.flags, FI_RECV | (tagged ? FI_TAGGED : FI_MSG) |
                                  (has_data(send) ? FI_REMOTE_CQ_DATA : 0));
    assert_int_equal(e.len, size);
    assert_int_equal(e.data, has_data(send) ? DATA : 0);
    assert_int_equal(e.tag, tagged ? TAG : 0);
    assert_int_equal(source, fix->addr[0]);
    assert_true(pattern_is(in_buf, size, (unsigned)send));
    if (!completes(send))
        return;
    assert_int_equal(fixture_read(fix, 0, &e, NULL), 1);
    assert_ptr_equal(e.op_context, &contexts[0]);
    assert_int_equal(e.flags, FI_SEND | (tagged ? FI_TAGGED : FI_MSG));
}

static void every_send_meets_every_receive(void **state)
{
    static const size_t sizes[] = {0, 8, SIZE};
    struct fixture fix;

    (void)state;
    fixture_open(&fix, &plain);
    for (int send = PLAIN; send < FORMS; send++)
        for (int recv = PLAIN; recv <= MESSAGE; recv++)
            for (size_t i = 0; i < 2 * sizeof sizes / sizeof sizes[0]; i++)
                one_meets_one(&fix, i % 2, (enum form)send, (enum form)recv, sizes[i / 2]);
    fixture_is_quiet(&fix, 0);
    fixture_close(&fix);
}

/* ---- flags --------------------------------------------------------------------------------
 */

/* Each level says when a send completes; with every level requested it does complete. */
static void every_level_of_completion_is_reached(void **state)
{
    static const uint64_t levels[] = {0, FI_INJECT_COMPLETE, FI_TRANSMIT_COMPLETE,
                                      FI_DELIVERY_COMPLETE, FI_MATCH_COMPLETE};
    struct iovec iov = {out_buf, 100};

    (void)state;
    for (size_t i = 0; i < sizeof levels / sizeof levels[0]; i++) {
        struct setup setup = {.send_flags = levels[i]};
        struct fi_msg msg = {.msg_iov = &iov, .iov_count = 1, .context = &contexts[0]};
        bool waits = levels[i] == FI_MATCH_COMPLETE;
        struct fixture fix;

        fixture_open(&fix, &setup);
        assert_int_equal(fix.info->tx_attr->op_flags, levels[i]);
        msg.addr = fix.addr[1];
        /* by the endpoint's flags, then by the flags of the call, which replace them */
        assert_int_equal(fi_send(EP(fix, 0), out_buf, 100, NULL, fix.addr[1], &contexts[0]), 0);
        if (waits)
            fixture_is_quiet(&fix, 0);
        else
            expect_send(&fix, 0, &contexts[0]);
        assert_int_equal(fi_recv(EP(fix, 1), in_buf, 100, NULL, fix.addr[0], &contexts[1]), 0);
        expect_recv(&fix, 1, &contexts[1], 100, 0);
        if (waits)
            expect_send(&fix, 0, &contexts[0]);
        assert_int_equal(fi_sendmsg(EP(fix, 0), &msg, FI_COMPLETION), 0);
        expect_send(&fix, 0, &contexts[0]); /* unmatched */
        assert_int_equal(fi_recv(EP(fix, 1), in_buf, 100, NULL, fix.addr[0], &contexts[1]), 0);
        expect_recv(&fix, 1, &contexts[1], 100, 0);
        assert_int_equal(fi_sendmsg(EP(fix, 0), &msg, FI_COMPLETION | FI_MATCH_COMPLETE), 0);
        fixture_is_quiet(&fix, 0);
        assert_int_equal(fi_recv(EP(fix, 1), in_buf, 100, NULL, fix.addr[0], &contexts[1]), 0);
        expect_recv(&fix, 1, &contexts[1], 100, 0);
        expect_send(&fix, 0, &contexts[0]);
        fixture_close(&fix);
    }
}

/* A receive has one level, weaker than what a receive guarantees anyway. */
static void a_receive_may_ask_for_a_level(void **state)
{
    static const struct setup setup = {.recv_flags = FI_COMPLETION | FI_TRANSMIT_COMPLETE};
    struct iovec iov = {in_buf, 100};
    struct fi_msg msg = {.msg_iov = &iov, .iov_count = 1, .context = &contexts[1]};
    struct fixture fix;

    (void)state;
    fixture_open(&fix, &setup);
    assert_int_equal(fix.info->rx_attr->op_flags, setup.recv_flags);
    msg.addr = fix.addr[0];
    pattern_fill(out_buf, 100, 4);
    assert_int_equal(fi_recvmsg(EP(fix, 1), &msg, FI_COMPLETION | FI_TRANSMIT_COMPLETE), 0);
    assert_int_equal(fi_inject(EP(fix, 0), out_buf, 100, fix.addr[1]), 0);
    expect_recv(&fix, 1, &contexts[1], 100, 0);
    assert_true(pattern_is(in_buf, 100, 4));
    fixture_close(&fix);
}

static void an_endpoint_may_inject_always(void **state)
{
    struct setup setup = {.send_flags = FI_INJECT | FI_COMPLETION};
    struct fixture fix;

    (void)state;
    fixture_open(&fix, &setup);
    pattern_fill(out_buf, 100, 3);
    assert_int_equal(fi_tsend(EP(fix, 0), out_buf, 100, NULL, fix.addr[1], TAG, &contexts[0]),
                     0);
    memset(out_buf, 0, 100);
    expect_send(&fix, 0, &contexts[0]);
    assert_int_equal(fi_trecv(EP(fix, 1), in_buf, 100, NULL, fix.addr[0], TAG, 0, &contexts[1]),
                     0);
    expect_recv(&fix, 1, &contexts[1], 100, TAG);
    assert_true(pattern_is(in_buf, 100, 3));
    fixture_close(&fix);
}

static void unknown_flags_are_refused(void **state)
{
    struct iovec iov = {out_buf, 8};
    struct fi_msg msg = {.msg_iov = &iov, .iov_count = 1};
    struct fi_msg_tagged tagged = {.msg_iov = &iov, .iov_count = 1};
    struct fixture fix;

    (void)state;
    fixture_open(&fix, &plain);
    assert_int_equal(fi_sendmsg(EP(fix, 0), &msg, FI_PEEK), -FI_EBADFLAGS);
    assert_int_equal(fi_tsendmsg(EP(fix, 0), &tagged, FI_MULTI_RECV), -FI_EBADFLAGS);
    assert_int_equal(fi_sendmsg(EP(fix, 0), &msg, FI_FENCE), -FI_EBADFLAGS); /* not offered */
    assert_int_equal(fi_recvmsg(EP(fix, 0), &msg, FI_PEEK), -FI_EBADFLAGS);
    assert_int_equal(fi_trecvmsg(EP(fix, 0), &tagged, FI_DISCARD), -FI_EBADFLAGS);
    assert_int_equal(fi_trecvmsg(EP(fix, 0), &tagged, FI_INJECT), -FI_EBADFLAGS);
    msg.iov_count = PIECES + 1;
    assert_int_equal(fi_sendmsg(EP(fix, 0), &msg, 0), -FI_EINVAL);
    assert_int_equal(fi_recvmsg(EP(fix, 0), &msg, 0), -FI_EINVAL);
    fixture_close(&fix);
}

/* ---- calls of an endpoint ------------------------------------------------------------------- */

static void flags_can_be_asked_and_set(void **state)
{
    struct setup setup = {.send_flags = FI_DELIVERY_COMPLETE,
                          .bind_flags = FI_SELECTIVE_COMPLETION};
    uint64_t flags = FI_TRANSMIT;
    struct fixture fix;

    (void)state;
    fixture_open(&fix, &setup);
    assert_int_equal(fi_control(&EP(fix, 0)->fid, FI_GETOPSFLAG, &flags), 0);
    assert_int_equal(flags, FI_DELIVERY_COMPLETE);
    flags = FI_TRANSMIT | FI_RECV;
    assert_int_equal(fi_control(&EP(fix, 0)->fid, FI_GETOPSFLAG, &flags), -FI_EINVAL);
    flags = 0;
    assert_int_equal(fi_control(&EP(fix, 0)->fid, FI_SETOPSFLAG, &flags), -FI_EINVAL);
    flags = FI_TRANSMIT | FI_COMPLETION;
    assert_int_equal(fi_control(&EP(fix, 0)->fid, FI_SETOPSFLAG, &flags), 0);
    flags = FI_RECV | FI_COMPLETION;
    assert_int_equal(fi_control(&EP(fix, 1)->fid, FI_SETOPSFLAG, &flags), 0);
    /* both complete now, though the binding is selective */
    assert_int_equal(fi_send(EP(fix, 0), out_buf, 8, NULL, fix.addr[1], &contexts[0]), 0);
    assert_int_equal(fi_recv(EP(fix, 1), in_buf, 8, NULL, FI_ADDR_UNSPEC, &contexts[1]), 0);
    expect_send(&fix, 0, &contexts[0]);
    expect_recv(&fix, 1, &contexts[1], 8, 0);
    assert_int_equal(fi_control(&EP(fix, 0)->fid, FI_BACKLOG, &flags), -FI_ENOSYS);
    /* deprecated, but still called: there is always space */
    assert_true(EP(fix, 0)->ops->tx_size_left(EP(fix, 0)) > 0);
    assert_true(EP(fix, 0)->ops->rx_size_left(EP(fix, 0)) > 0);
    fixture_close(&fix);
}

/* fi_domain2(), fi_endpoint2(): they do the same as the calls without flags, as no flags
 * exist. */
static void a_domain_and_an_endpoint_take_no_flags(void **state)
{
    struct fid_domain *domain;
    struct fid_ep *ep;
    struct fixture fix;

    (void)state;
    fixture_open(&fix, &plain);
    assert_int_equal(fi_domain2(fix.fabric, fix.info, &domain, 1, NULL), -FI_EBADFLAGS);
    assert_int_equal(fi_domain2(fix.fabric, fix.info, &domain, 0, &contexts[0]), 0);
    assert_ptr_equal(domain->fid.context, &contexts[0]);
    assert_int_equal(fi_endpoint2(domain, fix.info, &ep, 1, NULL), -FI_EBADFLAGS);
    assert_int_equal(fi_endpoint2(domain, fix.info, &ep, 0, &contexts[1]), 0);
    assert_ptr_equal(ep->fid.context, &contexts[1]);
    assert_int_equal(fi_close(&ep->fid), 0);
    assert_int_equal(fi_close(&domain->fid), 0);
    fixture_close(&fix);
}

/* Calls that the provider does not offer return an error, and no capability announces them. */
static void connections_and_contexts_are_refused(void **state)
{
    struct fi_tx_attr tx = {0};
    struct fi_rx_attr rx = {0};
    char address[FIXTURE_ADDRESS];
    size_t len = sizeof address;
    struct fi_deferred_work *work = NULL;
    struct fid_pep *pep;
    struct fid_stx *stx;
    struct fid_ep *ep;
    struct fid_mc *mc;
    struct fixture fix;

    (void)state;
    fixture_open(&fix, &plain);
    assert_int_equal(fi_connect(EP(fix, 0), address, NULL, 0), -FI_ENOSYS);
    assert_int_equal(fi_accept(EP(fix, 0), NULL, 0), -FI_ENOSYS);
    assert_int_equal(fi_shutdown(EP(fix, 0), 0), -FI_ENOSYS);
    assert_int_equal(fi_getpeer(EP(fix, 0), address, &len), -FI_ENOSYS);
    assert_int_equal(fi_join(EP(fix, 0), address, 0, &mc, NULL), -FI_ENOSYS);
    assert_int_equal(fi_passive_ep(fix.fabric, fix.info, &pep, NULL), -FI_ENOSYS);
    assert_int_equal(fi_ep_alias(EP(fix, 0), &ep, 0), -FI_ENOSYS);
    assert_int_equal(fi_tx_context(EP(fix, 0), 0, &tx, &ep, NULL), -FI_ENOSYS);
    assert_int_equal(fi_rx_context(EP(fix, 0), 0, &rx, &ep, NULL), -FI_ENOSYS);
    assert_int_equal(fi_stx_context(fix.domain, &tx, &stx, NULL), -FI_ENOSYS);
    assert_int_equal(fi_srx_context(fix.domain, &rx, &ep, NULL), -FI_ENOSYS);
    assert_int_equal(fi_scalable_ep(fix.domain, fix.info, &ep, NULL), -FI_ENOSYS);
    assert_int_equal(fi_control(&fix.domain->fid, FI_QUEUE_WORK, work), -FI_ENOSYS);
    assert_false(fix.info->caps &
                 (FI_TRIGGER | FI_MULTICAST | FI_COLLECTIVE | FI_NAMED_RX_CTX | FI_SHARED_AV));
    fixture_close(&fix);
}

/* ---- completion queues ----------------------------------------------------------------------
 */

static void an_error_has_a_text(void **state)
{
    struct fi_cq_err_entry error;
    char text[64];
    struct fixture fix;

    (void)state;
    fixture_open(&fix, &plain);
    assert_int_equal(fi_cq_readerr(fix.node[1].cq, &error, 0), -FI_EAGAIN);
    assert_int_equal(fi_trecv(EP(fix, 1), in_buf, 8, NULL, fix.addr[0], TAG, 0, &contexts[1]),
                     0);
    assert_int_equal(fi_tinject(EP(fix, 0), out_buf, 100, fix.addr[1], TAG), 0);
    fixture_read_error(&fix, 1, &error);
    assert_int_equal(error.err, FI_ETRUNC);
    assert_non_null(
        fi_cq_strerror(fix.node[1].cq, error.prov_errno, error.err_data, text, sizeof text));
    assert_true(strlen(text) > 0);
    fixture_close(&fix);
}

/* The client may provide space for more about the error; there is no more. */
static void an_error_leaves_the_buffer_of_the_client(void **state)
{
    char more[16];
    struct fi_cq_err_entry error = {.err_data = more, .err_data_size = sizeof more};
    struct fi_cq_tagged_entry e;
    struct fixture fix;

    (void)state;
    fixture_open(&fix, &plain);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(
            fi_trecv(EP(fix, 1), in_buf, 8, NULL, fix.addr[0], TAG, 0, &contexts[1]), 0);
        assert_int_equal(fi_tinject(EP(fix, 0), out_buf, 100, fix.addr[1], TAG), 0);
        assert_int_equal(fixture_read(&fix, 1, &e, NULL), -FI_EAVAIL);
        assert_int_equal(fi_cq_readerr(fix.node[1].cq, &error, 0), 1);
        assert_int_equal(error.err, FI_ETRUNC);
        assert_int_equal(error.err_data_size, 0);
        /* with a size of 0 the provider supplies the buffer, and has none */
        assert_ptr_equal(error.err_data, i == 0 ? more : NULL);
    }
    fixture_close(&fix);
}

/* If each receive has its own context, a cancel finds it among many; if all share one, it finds
 * any of them. */
static void a_cancel_finds_its_receive(void **state)
{
    static char tokens[3000];
    struct fi_cq_err_entry error;
    struct fixture fix;

    (void)state;
    fixture_open(&fix, &plain);
    for (unsigned i = 0; i < sizeof tokens; i++)
        assert_int_equal(fi_trecv(EP(fix, 1), NULL, 0, NULL, FI_ADDR_UNSPEC, i, 0, &tokens[i]),
                         0);
    for (unsigned i = 0; i < sizeof tokens; i += 2) {
        assert_int_equal(fi_cancel(&EP(fix, 1)->fid, &tokens[i]), 0);
        assert_int_equal(fi_cancel(&EP(fix, 1)->fid, &tokens[i]), -FI_ENOENT);
        fixture_read_error(&fix, 1, &error);
        assert_ptr_equal(error.op_context, &tokens[i]);
        assert_int_equal(error.err, FI_ECANCELED);
    }
    for (unsigned i = 1; i < sizeof tokens; i += 2) {
        assert_int_equal(fi_tinject(EP(fix, 0), NULL, 0, fix.addr[1], i), 0);
        expect_recv(&fix, 1, &tokens[i], 0, i);
    }
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(fi_trecv(EP(fix, 1), NULL, 0, NULL, FI_ADDR_UNSPEC, i, 0, tokens), 0);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(fi_cancel(&EP(fix, 1)->fid, tokens), 0);
        fixture_read_error(&fix, 1, &error);
        assert_int_equal(error.err, FI_ECANCELED);
    }
    assert_int_equal(fi_cancel(&EP(fix, 1)->fid, tokens), -FI_ENOENT);
    fixture_close(&fix);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_send_meets_every_receive),
        cmocka_unit_test(every_level_of_completion_is_reached),
        cmocka_unit_test(a_receive_may_ask_for_a_level),
        cmocka_unit_test(an_endpoint_may_inject_always),
        cmocka_unit_test(unknown_flags_are_refused),
        cmocka_unit_test(flags_can_be_asked_and_set),
        cmocka_unit_test(a_domain_and_an_endpoint_take_no_flags),
        cmocka_unit_test(connections_and_contexts_are_refused),
        cmocka_unit_test(an_error_has_a_text),
        cmocka_unit_test(an_error_leaves_the_buffer_of_the_client),
        cmocka_unit_test(a_cancel_finds_its_receive),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
