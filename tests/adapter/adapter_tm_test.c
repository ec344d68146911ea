/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * adapter_tm_test.c - the software adapter: queues that match tags, and the rendezvous.
 *
 * One end sends messages with headers, the other has a shared queue that matches tags.  The
 * sender's memory: messages are put together at 0, the data of a rendezvous lies at DATA.
 */
#include <endian.h>
#include <errno.h>
#include <infiniband/tm_types.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "ends.h"
#include "base/patience.h"
#include "base/unit.h"

#define TAGS     4
#define UNTAGGED 40
#define DATA     (BYTES / 2)
#define LONG     300000u
#define CONTEXT  77

static const struct options matching = {.cqe = 128,
                                        .srq = 64,
                                        .tags = TAGS,
                                        .rnr_retry = 7,
                                        .retry_cnt = 7,
                                        .timeout = 14,
                                        .access = ALL};

struct seen {
    uint64_t id, tag;
    enum ibv_wc_status status;
    enum ibv_wc_opcode opcode;
    unsigned flags;
    uint32_t bytes, app_ctx;
};

/* Returns the next completion of the matching end. */
static struct seen next_seen(struct end *end)
{
    struct ibv_cq_ex *cq = (struct ibv_cq_ex *)end->cq;
    const uint64_t until = clock_now() + PATIENCE_NS;
    struct ibv_wc_tm_info info;
    struct seen seen;
    int err;

    while ((err = ibv_start_poll(cq, &(struct ibv_poll_cq_attr){0})) == ENOENT)
        assert_true(clock_now() < until);
    assert_int_equal(err, 0);
    ibv_wc_read_tm_info(cq, &info);
    seen = (struct seen){.id = cq->wr_id,
                         .tag = info.tag,
                         .status = cq->status,
                         .opcode = ibv_wc_read_opcode(cq),
                         .flags = ibv_wc_read_wc_flags(cq),
                         .bytes = ibv_wc_read_byte_len(cq),
                         .app_ctx = info.priv};
    ibv_end_poll(cq);
    return seen;
}

static bool is_quiet(struct end *end)
{
    struct ibv_wc wc;

    return ibv_poll_cq(end->cq, 1, &wc) == 0;
}

static void see(struct end *end, uint64_t id, enum ibv_wc_opcode opcode, unsigned flags)
{
    const struct seen seen = next_seen(end);

    assert_int_equal(seen.status, IBV_WC_SUCCESS);
    assert_int_equal(seen.id, id);
    assert_int_equal(seen.opcode, opcode);
    assert_int_equal(seen.flags, flags);
}

static int try_ops(struct end *end, struct ibv_ops_wr *wr)
{
    struct ibv_ops_wr *bad;

    return ibv_post_srq_ops(end->srq, wr, &bad);
}

/* Adds a receive for this tag, whose buffer begins at offset.  Returns its handle. */
static uint32_t add(struct end *end, uint64_t id, uint64_t tag, uint32_t offset, uint32_t size)
{
    struct ibv_sge sge = part(end, offset, size);
    struct ibv_ops_wr wr = {
        .wr_id = 1000 + id,
        .opcode = IBV_WR_TAG_ADD,
        .flags = IBV_OPS_SIGNALED,
        .tm.add = {
            .recv_wr_id = id, .sg_list = &sge, .num_sge = 1, .tag = tag, .mask = UINT64_MAX}};

    assert_int_equal(try_ops(end, &wr), 0);
    see(end, 1000 + id, IBV_WC_TM_ADD, 0);
    return wr.tm.handle;
}

static enum ibv_wc_status del(struct end *end, uint32_t handle)
{
    struct ibv_ops_wr wr = {.wr_id = 2000,
                            .opcode = IBV_WR_TAG_DEL,
                            .flags = IBV_OPS_SIGNALED,
                            .tm.handle = handle};
    struct seen seen;

    assert_int_equal(try_ops(end, &wr), 0);
    seen = next_seen(end);
    assert_int_equal(seen.opcode, IBV_WC_TM_DEL);
    return seen.status;
}

static void sync_to(struct end *end, uint32_t handled)
{
    struct ibv_ops_wr wr = {.wr_id = 3000,
                            .opcode = IBV_WR_TAG_SYNC,
                            .flags = IBV_OPS_SIGNALED | IBV_OPS_TM_SYNC,
                            .tm.unexpected_cnt = handled};

    assert_int_equal(try_ops(end, &wr), 0);
    see(end, 3000, IBV_WC_TM_SYNC, 0);
}

/* Sends a header and then size bytes of 'e'. */
static void send_tagged(struct end *end, uint8_t opcode, uint64_t tag, uint32_t size)
{
    const struct ibv_tmh tmh = {
        .opcode = opcode, .app_ctx = htobe32(CONTEXT), .tag = htobe64(tag)};

    memcpy(end->bytes, &tmh, sizeof tmh);
    memset(end->bytes + sizeof tmh, 'e', size);
    post(end, IBV_WR_SEND, tag, (uint32_t)sizeof tmh + size, 0, 0, 0);
    expect(end, tag, IBV_WC_SUCCESS);
}

/* Posts a receive at `fin` for the FIN, and sends the request to read size bytes of 'r' at
 * DATA. */
static void send_rendezvous(struct end *end, uint64_t tag, uint32_t size, uint32_t fin)
{
    const struct ibv_tmh tmh = {
        .opcode = IBV_TMH_RNDV, .app_ctx = htobe32(CONTEXT), .tag = htobe64(tag)};
    const struct ibv_rvh rvh = {.va = htobe64((uintptr_t)end->bytes + DATA),
                                .rkey = htobe32(end->mr->rkey),
                                .len = htobe32(size)};

    post_recv(end, 500 + tag, fin, 64);
    memcpy(end->bytes, &tmh, sizeof tmh);
    memcpy(end->bytes + sizeof tmh, &rvh, sizeof rvh);
    memset(end->bytes + DATA, 'r', LONG);
    post(end, IBV_WR_SEND, tag, sizeof tmh + sizeof rvh, 0, 0, 0);
    expect(end, tag, IBV_WC_SUCCESS);
}

static void inspect_fin(struct end *end, uint64_t tag, uint32_t fin)
{
    struct ibv_tmh tmh;
    struct ibv_rvh rvh;

    expect(end, 500 + tag, IBV_WC_SUCCESS);
    memcpy(&tmh, end->bytes + fin, sizeof tmh);
    memcpy(&rvh, end->bytes + fin + sizeof tmh, sizeof rvh);
    assert_int_equal(tmh.opcode, IBV_TMH_FIN);
    assert_int_equal(be64toh(tmh.tag), tag);
    assert_int_equal(be32toh(tmh.app_ctx), CONTEXT);
    assert_int_equal(be64toh(rvh.va), (uintptr_t)end->bytes + DATA);
}

static void post_untagged(struct end *end)
{
    for (uint32_t i = 0; i < UNTAGGED; i++)
        post_recv(end, 100 + i, i * 1000, 1000);
}

static void open_matching(struct end *a, struct end *b)
{
    open_end(a, &usual);
    open_end(b, &matching);
    post_untagged(b);
    connect_to(a, b->qp->qp_num, &usual);
    connect_to(b, a->qp->qp_num, &matching);
}

/* ---- tests ---- */

static void eager_messages_meet_their_tags(UNUSED void **state)
{
    struct end a, b;
    struct seen seen;

    open_matching(&a, &b);
    add(&b, 1, 11, DATA, 100);
    add(&b, 2, 12, DATA + 1000, LONG);
    send_tagged(&a, IBV_TMH_EAGER, 12, LONG); /* more than one packet */
    seen = next_seen(&b);
    assert_int_equal(seen.id, 2);
    assert_int_equal(seen.flags, IBV_WC_TM_MATCH);
    assert_int_equal(seen.tag, 12);
    seen = next_seen(&b);
    assert_int_equal(seen.id, 2);
    assert_int_equal(seen.flags, IBV_WC_TM_DATA_VALID);
    assert_int_equal(seen.bytes, LONG);
    assert_int_equal(b.bytes[DATA + 1000], 'e');
    assert_int_equal(b.bytes[DATA + 999 + LONG], 'e');
    assert_int_equal(b.bytes[DATA + 1000 + LONG], 0);
    send_tagged(&a, IBV_TMH_EAGER, 11, 99);
    seen = next_seen(&b);
    assert_int_equal(seen.id, 1);
    assert_int_equal(seen.opcode, IBV_WC_TM_RECV);
    assert_int_equal(seen.flags, IBV_WC_TM_MATCH | IBV_WC_TM_DATA_VALID);
    assert_int_equal(seen.bytes, 99);
    assert_int_equal(seen.tag, 11);
    assert_int_equal(seen.app_ctx, CONTEXT);
    close_end(&a);
    close_end(&b);
}

static void a_rendezvous_is_read_and_answered(UNUSED void **state)
{
    struct end a, b;
    struct seen seen;

    open_matching(&a, &b);
    add(&b, 1, 11, DATA, LONG);
    send_rendezvous(&a, 11, LONG, 1000);
    inspect_fin(&a, 11, 1000);
    see(&b, 1, IBV_WC_TM_RECV, IBV_WC_TM_MATCH);
    seen = next_seen(&b);
    assert_int_equal(seen.flags, IBV_WC_TM_DATA_VALID);
    assert_int_equal(seen.bytes, LONG);
    assert_int_equal(b.bytes[DATA], 'r');
    assert_int_equal(b.bytes[DATA + LONG - 1], 'r');
    assert_int_equal(b.bytes[DATA + LONG], 0);
    add(&b, 2, 12, DATA, LONG);
    send_rendezvous(&a, 12, 0, 1000);
    inspect_fin(&a, 12, 1000);
    see(&b, 2, IBV_WC_TM_RECV, IBV_WC_TM_MATCH);
    see(&b, 2, IBV_WC_TM_RECV, IBV_WC_TM_DATA_VALID);
    close_end(&a);
    close_end(&b);
}

static void a_rendezvous_that_does_not_fit_is_for_software(UNUSED void **state)
{
    struct end a, b;
    struct seen seen;
    struct ibv_rvh rvh;

    open_matching(&a, &b);
    add(&b, 1, 11, DATA, 64);
    send_rendezvous(&a, 11, LONG, 1000);
    seen = next_seen(&b);
    assert_int_equal(seen.status, IBV_WC_TM_RNDV_INCOMPLETE);
    assert_int_equal(seen.id, 1);
    assert_int_equal(seen.tag, 11);
    memcpy(&rvh, b.bytes + DATA + sizeof(struct ibv_tmh), sizeof rvh);
    assert_int_equal(be32toh(rvh.len), LONG);
    assert_true(is_quiet(&a)); /* no FIN: the software sends it */
    close_end(&a);
    close_end(&b);
}

static void a_rendezvous_with_a_wrong_key_fails_on_both_sides(UNUSED void **state)
{
    struct end a, b;
    struct seen seen;

    open_matching(&a, &b);
    add(&b, 1, 11, 0, BYTES);
    send_rendezvous(&a, 11, DATA + 1, 1000); /* one byte beyond the region */
    see(&b, 1, IBV_WC_TM_RECV, IBV_WC_TM_MATCH);
    seen = next_seen(&b);
    assert_int_equal(seen.id, 1);
    assert_int_equal(seen.flags, IBV_WC_TM_DATA_VALID);
    assert_int_equal(seen.status, IBV_WC_REM_ACCESS_ERR);
    assert_int_equal(state_of(&b), IBV_QPS_ERR);
    expect(&a, 511, IBV_WC_WR_FLUSH_ERR); /* no FIN */
    close_end(&a);
    close_end(&b);
}

static void what_meets_nothing_is_unexpected(UNUSED void **state)
{
    struct end a, b;

    open_matching(&a, &b);
    send_tagged(&a, IBV_TMH_EAGER, 11, 10);
    see(&b, 100, IBV_WC_TM_RECV, 0);
    assert_int_equal(b.bytes[sizeof(struct ibv_tmh)], 'e');
    /* the receive is not active until the software has acknowledged that message, so it also
     * misses this one */
    {
        struct ibv_ops_wr wr = {.wr_id = 9,
                                .opcode = IBV_WR_TAG_ADD,
                                .flags = IBV_OPS_SIGNALED,
                                .tm.add = {.recv_wr_id = 1, .tag = 12, .mask = UINT64_MAX}};

        assert_int_equal(try_ops(&b, &wr), 0);
        see(&b, 9, IBV_WC_TM_ADD, IBV_WC_TM_SYNC_REQ);
    }
    send_tagged(&a, IBV_TMH_EAGER, 12, 0);
    see(&b, 101, IBV_WC_TM_RECV, 0);
    sync_to(&b, 2);
    send_tagged(&a, IBV_TMH_EAGER, 12, 0);
    see(&b, 1, IBV_WC_TM_RECV, IBV_WC_TM_MATCH | IBV_WC_TM_DATA_VALID);
    send_tagged(&a, IBV_TMH_NO_TAG, 12, 10);
    see(&b, 102, IBV_WC_TM_NO_TAG, 0);
    close_end(&a);
    close_end(&b);
}

static void a_del_says_whether_it_came_too_late(UNUSED void **state)
{
    struct end a, b;
    uint32_t handle;

    open_matching(&a, &b);
    handle = add(&b, 1, 11, DATA, 100);
    assert_int_equal(del(&b, handle), IBV_WC_SUCCESS);
    send_tagged(&a, IBV_TMH_EAGER, 11, 10);
    see(&b, 100, IBV_WC_TM_RECV, 0);
    sync_to(&b, 1);
    handle = add(&b, 2, 11, DATA, 100);
    send_tagged(&a, IBV_TMH_EAGER, 11, 10); /* matches, and nobody has polled the completion */
    {
        struct ibv_ops_wr wr = {.wr_id = 9,
                                .opcode = IBV_WR_TAG_DEL,
                                .flags = IBV_OPS_SIGNALED,
                                .tm.handle = handle};
        struct seen seen;

        assert_int_equal(try_ops(&b, &wr), 0);
        see(&b, 2, IBV_WC_TM_RECV, IBV_WC_TM_MATCH | IBV_WC_TM_DATA_VALID);
        seen = next_seen(&b);
        assert_int_equal(seen.opcode, IBV_WC_TM_DEL);
        assert_int_equal(seen.status, IBV_WC_TM_ERR);
        assert_int_equal(try_ops(&b, &wr), EINVAL); /* the handle is free */
    }
    close_end(&a);
    close_end(&b);
}

static void the_list_is_as_long_as_it_was_made(UNUSED void **state)
{
    struct end a, b;
    struct ibv_ops_wr wr = {.opcode = IBV_WR_TAG_ADD, .tm.add = {.tag = 5, .mask = UINT64_MAX}};
    uint32_t first = 0;

    open_matching(&a, &b);
    for (uint32_t i = 0; i < TAGS; i++) {
        const uint32_t handle = add(&b, i, 11 + i, DATA, 100);

        first = i == 0 ? handle : first;
    }
    assert_int_equal(try_ops(&b, &wr), ENOMEM);
    assert_int_equal(del(&b, first), IBV_WC_SUCCESS);
    wr.tm.add.mask = 4;
    assert_int_equal(try_ops(&b, &wr), EINVAL); /* tag bits outside the mask */
    wr.tm.add.mask = 5;
    assert_int_equal(try_ops(&b, &wr), 0);
    close_end(&a);
    close_end(&b);
}

static void a_message_longer_than_its_buffer_ends_the_connection(UNUSED void **state)
{
    struct end a, b;
    struct seen seen;

    open_matching(&a, &b);
    add(&b, 1, 11, DATA, 9);
    memset(a.bytes, 0, 64);
    a.bytes[0] = IBV_TMH_EAGER;
    a.bytes[15] = 11;
    post(&a, IBV_WR_SEND, 7, sizeof(struct ibv_tmh) + 10, 0, 0, 0);
    expect(&a, 7, IBV_WC_REM_INV_REQ_ERR);
    seen = next_seen(&b);
    assert_int_equal(seen.id, 1);
    assert_int_equal(seen.status, IBV_WC_LOC_LEN_ERR);
    close_end(&a);
    close_end(&b);
}

static void it_works_with_33_untagged_buffers(UNUSED void **state)
{
    const uint64_t until = clock_now() + PATIENCE_NS;
    struct end a, b;

    open_end(&a, &usual);
    open_end(&b, &matching);
    connect_to(&a, b.qp->qp_num, &usual);
    connect_to(&b, a.qp->qp_num, &matching);
    add(&b, 1, 11, DATA, 10);
    for (uint32_t i = 0; i < ADAPTER_UNTAGGED_MIN - 1; i++)
        post_recv(&b, i, 0, 100);
    a.bytes[0] = IBV_TMH_EAGER;
    a.bytes[15] = 11;
    post(&a, IBV_WR_SEND, 7, sizeof(struct ibv_tmh), 0, 0, 0);
    while (atomic_load(&lib_context(b.context)->page->said) == 0) /* the request was refused */
        assert_true(clock_now() < until);
    assert_true(is_quiet(&a));
    assert_true(is_quiet(&b));
    post_recv(&b, 32, 0, 100);
    expect(&a, 7, IBV_WC_SUCCESS);
    see(&b, 1, IBV_WC_TM_RECV, IBV_WC_TM_MATCH | IBV_WC_TM_DATA_VALID);
    close_end(&a);
    close_end(&b);
}

static void adapters_may_differ(UNUSED void **state)
{
    struct end a, b;

    end_adapter();
    setenv(ADAPTER_ENV_QUIRKS, "recv,apart,sync", 1);
    open_matching(&a, &b);
    {
        struct ibv_ops_wr wr = {.wr_id = 9,
                                .opcode = IBV_WR_TAG_ADD,
                                .flags = IBV_OPS_SIGNALED,
                                .tm.add = {.recv_wr_id = 1, .tag = 12, .mask = UINT64_MAX}};

        assert_int_equal(try_ops(&b, &wr), 0);
        see(&b, 9, IBV_WC_TM_ADD, IBV_WC_TM_SYNC_REQ);
    }
    send_tagged(&a, IBV_TMH_EAGER, 11, 10);
    see(&b, 100, IBV_WC_RECV, IBV_WC_TM_SYNC_REQ);
    send_tagged(&a, IBV_TMH_EAGER, 12, 0);
    see(&b, 1, IBV_WC_TM_RECV, IBV_WC_TM_MATCH | IBV_WC_TM_SYNC_REQ);
    see(&b, 1, IBV_WC_TM_RECV, IBV_WC_TM_DATA_VALID | IBV_WC_TM_SYNC_REQ);
    close_end(&a);
    close_end(&b);
    end_adapter();
    setenv(ADAPTER_ENV_QUIRKS, "eager-only", 1);
    open_matching(&a, &b);
    add(&b, 1, 11, DATA, LONG);
    send_rendezvous(&a, 11, LONG, 1000);
    assert_int_equal(next_seen(&b).status, IBV_WC_TM_RNDV_INCOMPLETE);
    close_end(&a);
    close_end(&b);
    end_adapter();
    unsetenv(ADAPTER_ENV_QUIRKS);
    setenv(ADAPTER_ENV_TAGS, "0", 1);
    {
        struct ibv_device_attr_ex attr;

        open_end(&a, &usual);
        assert_int_equal(ibv_query_device_ex(a.context, NULL, &attr), 0);
        assert_int_equal(attr.tm_caps.max_num_tags, 0);
        close_end(&a);
    }
    end_adapter();
    unsetenv(ADAPTER_ENV_TAGS);
}

/* ---- a stopped receiver ---- */

static int be_the_other(int in, int out)
{
    struct end end;
    struct told told;
    uint32_t qpn;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    open_end(&end, &matching);
    told = (struct told){end.qp->qp_num, end.mr->rkey, (uintptr_t)end.bytes};
    assert_int_equal(write(out, &told, sizeof told), sizeof told);
    assert_int_equal(read(in, &qpn, sizeof qpn), sizeof qpn);
    connect_to(&end, qpn, &matching);
    post_untagged(&end);
    add(&end, 1, 1, DATA, 1000);
    add(&end, 2, 2, DATA + 1000, LONG);
    assert_int_equal(write(out, "r", 1), 1);
    raise(SIGSTOP);
    see(&end, 2, IBV_WC_TM_RECV, IBV_WC_TM_MATCH);
    see(&end, 2, IBV_WC_TM_RECV, IBV_WC_TM_DATA_VALID);
    see(&end, 1, IBV_WC_TM_RECV, IBV_WC_TM_MATCH | IBV_WC_TM_DATA_VALID);
    see(&end, 100, IBV_WC_TM_RECV, 0);
    assert_int_equal(end.bytes[DATA + 999], 'e');
    assert_int_equal(end.bytes[DATA + 1000], 'r');
    assert_int_equal(end.bytes[DATA + 999 + LONG], 'r');
    close_end(&end);
    return 0;
}

static void a_stopped_process_has_its_receives_matched(UNUSED void **state)
{
    struct other other;
    struct told told;
    struct end end;

    open_end(&end, &usual);
    told = start_other(&other);
    connect_other(&other, &end, &told, &usual);
    send_rendezvous(&end, 2, LONG, 1000);
    inspect_fin(&end, 2, 1000);
    send_tagged(&end, IBV_TMH_EAGER, 1, 1000);
    send_tagged(&end, IBV_TMH_EAGER, 3, 900);
    assert_int_equal(kill(other.pid, SIGCONT), 0);
    assert_int_equal(end_other(&other), 0);
    close_end(&end);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(eager_messages_meet_their_tags),
        cmocka_unit_test(a_rendezvous_is_read_and_answered),
        cmocka_unit_test(a_rendezvous_that_does_not_fit_is_for_software),
        cmocka_unit_test(a_rendezvous_with_a_wrong_key_fails_on_both_sides),
        cmocka_unit_test(what_meets_nothing_is_unexpected),
        cmocka_unit_test(a_del_says_whether_it_came_too_late),
        cmocka_unit_test(the_list_is_as_long_as_it_was_made),
        cmocka_unit_test(a_message_longer_than_its_buffer_ends_the_connection),
        cmocka_unit_test(it_works_with_33_untagged_buffers),
        cmocka_unit_test(adapters_may_differ),
        cmocka_unit_test(a_stopped_process_has_its_receives_matched),
        cmocka_unit_test(the_daemons_have_not_complained),
    };
    int failed;

    if (argc == 3)
        return be_the_other(atoi(argv[1]), atoi(argv[2]));
    ends_prepare();
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    ends_clean();
    return failed;
}
