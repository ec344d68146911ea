/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * adapter_test.c - the software adapter: its queue pairs, above all their answers to errors.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ends.h"
#include "base/patience.h"
#include "base/unit.h"

/* ---- success ---- */

static void messages_arrive_in_order(UNUSED void **state)
{
    struct end a, b;
    struct ibv_wc wc;

    open_pair(&a, &b, &usual);
    for (uint32_t i = 0; i < 8; i++)
        post_recv(&b, i, i * 100000, 100000);
    for (uint32_t i = 0; i < 8; i++) {
        memset(a.bytes, (int)i + 1, 100000);
        post(&a, i % 2 ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND, i,
             i == 3   ? 0
             : i == 5 ? 40
                      : 99999,
             0, 0, i == 5 ? IBV_SEND_INLINE : 0);
        expect(&a, i, IBV_WC_SUCCESS);
        wc = next_of(&b);
        assert_int_equal(wc.wr_id, i);
        assert_int_equal(wc.opcode, IBV_WC_RECV);
        assert_int_equal(wc.byte_len, i == 3 ? 0 : i == 5 ? 40 : 99999);
        assert_int_equal(wc.wc_flags, i % 2 ? IBV_WC_WITH_IMM : 0);
        assert_int_equal(b.bytes[i * 100000], i == 3 ? 0 : i + 1);
        assert_int_equal(b.bytes[i * 100000 + 99999], 0);
    }
    close_end(&a);
    close_end(&b);
}

static void memory_is_written_read_and_changed(UNUSED void **state)
{
    struct end a, b;
    struct ibv_sge sge;
    uint64_t value = 5;
    struct ibv_send_wr wr = {.sg_list = &sge,
                             .num_sge = 1,
                             .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD},
                       *bad;

    open_pair(&a, &b, &usual);
    memset(a.bytes, 'w', BYTES);
    post(&a, IBV_WR_RDMA_WRITE, 1, BYTES, (uintptr_t)b.bytes, b.mr->rkey, 0);
    expect(&a, 1, IBV_WC_SUCCESS);
    assert_memory_equal(a.bytes, b.bytes, BYTES);
    memset(b.bytes, 'r', BYTES);
    post(&a, IBV_WR_RDMA_READ, 2, BYTES, (uintptr_t)b.bytes, b.mr->rkey, 0);
    expect(&a, 2, IBV_WC_SUCCESS);
    assert_memory_equal(a.bytes, b.bytes, BYTES);
    memcpy(b.bytes, &value, sizeof value);
    sge = part(&a, 0, 8);
    wr.wr.atomic.remote_addr = (uintptr_t)b.bytes;
    wr.wr.atomic.rkey = b.mr->rkey;
    wr.wr.atomic.compare_add = 37;
    assert_int_equal(ibv_post_send(a.qp, &wr, &bad), 0);
    expect(&a, 0, IBV_WC_SUCCESS);
    assert_memory_equal(a.bytes, &value, 8);
    value = 42;
    assert_memory_equal(b.bytes, &value, 8);
    close_end(&a);
    close_end(&b);
}

static void a_send_waits_for_its_receive(UNUSED void **state)
{
    struct end a, b;
    struct ibv_wc wc;

    open_pair(&a, &b, &usual);
    post(&a, IBV_WR_SEND, 1, 8, 0, 0, 0);
    post(&a, IBV_WR_SEND, 2, 8, 0, 0, 0);
    assert_int_equal(ibv_poll_cq(a.cq, 1, &wc), 0);
    post_recv(&b, 11, 0, 8);
    expect(&a, 1, IBV_WC_SUCCESS);
    post_recv(&b, 12, 8, 8);
    expect(&a, 2, IBV_WC_SUCCESS);
    expect(&b, 11, IBV_WC_SUCCESS);
    expect(&b, 12, IBV_WC_SUCCESS);
    close_end(&a);
    close_end(&b);
}

static void a_shared_queue_says_that_it_runs_low(UNUSED void **state)
{
    const struct options options = {
        .cqe = 64, .srq = 8, .rnr_retry = 7, .retry_cnt = 7, .timeout = 14, .access = ALL};
    struct ibv_srq_attr attr = {.srq_limit = 2};
    struct end a, b;

    open_pair(&a, &b, &options);
    for (uint64_t i = 0; i < 3; i++)
        post_recv(&b, i, 0, 8);
    assert_int_equal(ibv_modify_srq(b.srq, &attr, IBV_SRQ_LIMIT), 0);
    for (uint64_t i = 0; i < 2; i++) {
        post(&a, IBV_WR_SEND, i, 8, 0, 0, 0);
        expect(&a, i, IBV_WC_SUCCESS);
        expect(&b, i, IBV_WC_SUCCESS);
    }
    expect_event(&b, IBV_EVENT_SRQ_LIMIT_REACHED);
    assert_int_equal(ibv_query_srq(b.srq, &attr), 0);
    assert_int_equal(attr.srq_limit, 0);
    assert_int_equal(
        ibv_modify_qp(b.qp, &(struct ibv_qp_attr){.qp_state = IBV_QPS_ERR}, IBV_QP_STATE), 0);
    expect_event(&b, IBV_EVENT_QP_LAST_WQE_REACHED);
    close_end(&a);
    close_end(&b);
}

/* ---- errors ---- */

static void nobody_is_without_limits(UNUSED void **state)
{
    struct end a, b;

    for (int i = 0; i < 4; i++) {
        const struct options options = {.cqe = 64,
                                        .rnr_retry = 7,
                                        .retry_cnt = 7,
                                        .timeout = 14,
                                        .access = i == 3 ? IBV_ACCESS_LOCAL_WRITE : ALL};

        uint64_t addr;

        open_pair(&a, &b, &options);
        addr = i == 0   ? (uintptr_t)b.bytes + BYTES - 7 /* beyond the region */
               : i == 1 ? (uintptr_t)a.bytes             /* from another protection domain */
               : i == 2 ? UINT64_MAX - 3
                        : (uintptr_t)b.bytes; /* without this access right */
        post_recv(&b, 9, 0, 8);
        post(&a, i == 3 ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, 1, 8, addr,
             i == 1 ? a.mr->rkey : b.mr->rkey, 0);
        post(&a, IBV_WR_SEND, 2, 8, 0, 0, 0);
        expect(&a, 1, IBV_WC_REM_ACCESS_ERR);
        expect(&a, 2, IBV_WC_WR_FLUSH_ERR);
        expect(&b, 9, IBV_WC_WR_FLUSH_ERR);
        expect_event(&b, IBV_EVENT_QP_ACCESS_ERR);
        assert_int_equal(state_of(&a), IBV_QPS_ERR);
        assert_int_equal(state_of(&b), IBV_QPS_ERR);
        assert_int_equal(b.bytes[BYTES - 1], 0);
        close_end(&a);
        close_end(&b);
    }
}

static void local_memory_needs_its_key(UNUSED void **state)
{
    struct end a, b;
    struct ibv_sge sge;
    struct ibv_send_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND},
                       *bad;

    open_pair(&a, &b, &usual);
    sge = part(&b, 0, 8); /* from another protection domain */
    assert_int_equal(ibv_post_send(a.qp, &wr, &bad), 0);
    expect(&a, 1, IBV_WC_LOC_PROT_ERR);
    close_end(&a);
    close_end(&b);
}

static void a_message_that_is_too_long_ends_the_connection(UNUSED void **state)
{
    struct end a, b;

    open_pair(&a, &b, &usual);
    post_recv(&b, 9, 0, 8);
    post(&a, IBV_WR_SEND, 1, 9, 0, 0, 0);
    expect(&a, 1, IBV_WC_REM_INV_REQ_ERR);
    expect(&b, 9, IBV_WC_LOC_LEN_ERR);
    assert_int_equal(b.bytes[8], 0);
    close_end(&a);
    close_end(&b);
}

static void patience_without_a_receive_ends(UNUSED void **state)
{
    const struct options options = {
        .cqe = 64, .rnr_retry = 2, .retry_cnt = 7, .timeout = 14, .access = ALL};
    struct end a, b;

    open_pair(&a, &b, &options);
    post(&a, IBV_WR_SEND, 1, 8, 0, 0, 0);
    expect(&a, 1, IBV_WC_RNR_RETRY_EXC_ERR);
    close_end(&a);
    close_end(&b);
}

static void a_full_completion_queue_is_overrun(UNUSED void **state)
{
    const struct options options = {
        .cqe = 4, .rnr_retry = 7, .retry_cnt = 7, .timeout = 14, .access = ALL};
    struct end a, b;

    open_pair(&a, &b, &options);
    for (uint64_t i = 0; i < 5; i++)
        post(&a, IBV_WR_RDMA_WRITE, i, 8, (uintptr_t)b.bytes, b.mr->rkey, 0);
    expect_event(&a, IBV_EVENT_CQ_ERR);
    assert_int_equal(state_of(&a), IBV_QPS_ERR);
    close_end(&a);
    close_end(&b);
}

static void what_is_in_use_is_not_destroyed(UNUSED void **state)
{
    struct end a, b;

    open_pair(&a, &b, &usual);
    assert_int_equal(ibv_dealloc_pd(a.pd), EBUSY);
    assert_int_equal(ibv_destroy_cq(a.cq), EBUSY);
    close_end(&a);
    close_end(&b);
}

/* ---- clients that break the rules ---- */

static void an_impossible_index_ends_its_client_alone(UNUSED void **state)
{
    struct end a, b, rogue;
    struct ibv_wc wc;
    const uint64_t until = clock_now() + PATIENCE_NS, one = 1;
    struct lib_qp *qp;

    open_pair(&a, &b, &usual);
    open_end(&rogue, &usual);
    connect_to(&rogue, rogue.qp->qp_num, &usual);
    qp = container_of(rogue.qp, struct lib_qp, qp);
    atomic_store(&qp->send.ring->tail, UINT64_C(1) << 40);
    atomic_fetch_add(&lib_context(rogue.context)->page->doorbell, 1);
    assert_int_equal(write(lib_context(rogue.context)->doorbell_fd, &one, sizeof one),
                     sizeof one);
    while (ibv_poll_cq(rogue.cq, 1, &wc) == 0)
        assert_true(clock_now() < until);
    assert_int_equal(ibv_poll_cq(rogue.cq, 1, &wc), -EIO);
    close_end(&rogue);
    post_recv(&b, 2, 0, 8);
    post(&a, IBV_WR_SEND, 1, 8, 0, 0, 0);
    expect(&a, 1, IBV_WC_SUCCESS);
    close_end(&a);
    close_end(&b);
}

static void a_request_of_another_shape_ends_its_client_alone(UNUSED void **state)
{
    struct end a, b;
    struct sockaddr_un name;
    socklen_t size = sizeof name;
    char byte;
    int sock;

    open_pair(&a, &b, &usual);
    assert_int_equal(getpeername(lib_context(a.context)->sock, (struct sockaddr *)&name, &size),
                     0);
    for (size_t length = 1; length < 1024; length += 77) {
        char rubbish[1024];

        memset(rubbish, (int)length, sizeof rubbish);
        sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        assert_int_equal(connect(sock, (struct sockaddr *)&name, size), 0);
        assert_int_equal(send(sock, rubbish, length, MSG_NOSIGNAL), length);
        assert_true(recv(sock, &byte, 1, 0) <= 0);
        close(sock);
    }
    post_recv(&b, 2, 0, 8);
    post(&a, IBV_WR_SEND, 1, 8, 0, 0, 0);
    expect(&a, 1, IBV_WC_SUCCESS);
    close_end(&a);
    close_end(&b);
}

/* ---- another process ---- */

/* A process with one end: it reports its end, learns the queue pair to connect to, and stops.
 * Once it is continued, it checks that four receives were filled and that its memory was
 * written. */
static int be_the_other(int in, int out)
{
    struct end end;
    struct told told;
    uint32_t qpn;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    open_end(&end, &usual);
    memset(end.bytes, 'x', BYTES);
    told = (struct told){end.qp->qp_num, end.mr->rkey, (uintptr_t)end.bytes};
    assert_int_equal(write(out, &told, sizeof told), sizeof told);
    assert_int_equal(read(in, &qpn, sizeof qpn), sizeof qpn);
    connect_to(&end, qpn, &usual);
    for (uint32_t i = 0; i < 4; i++)
        post_recv(&end, i, i * 1000, 1000);
    assert_int_equal(write(out, "r", 1), 1);
    raise(SIGSTOP);
    for (uint32_t i = 0; i < 4; i++)
        expect(&end, i, IBV_WC_SUCCESS);
    assert_int_equal(end.bytes[3500], 'm');
    assert_int_equal(end.bytes[BYTES / 2], 'w');
    close_end(&end);
    return 0;
}

static void a_stopped_process_is_served(UNUSED void **state)
{
    struct other other;
    struct told told;
    struct end end;

    open_end(&end, &usual);
    told = start_other(&other);
    connect_other(&other, &end, &told, &usual);
    memset(end.bytes, 'm', 1000);
    for (uint64_t i = 0; i < 4; i++) {
        post(&end, IBV_WR_SEND, i, 1000, 0, 0, 0);
        expect(&end, i, IBV_WC_SUCCESS);
    }
    memset(end.bytes, 'w', 8);
    post(&end, IBV_WR_RDMA_WRITE, 5, 8, told.addr + BYTES / 2, told.rkey, 0);
    expect(&end, 5, IBV_WC_SUCCESS);
    post(&end, IBV_WR_RDMA_READ, 6, BYTES, told.addr, told.rkey, 0);
    expect(&end, 6, IBV_WC_SUCCESS);
    assert_int_equal(end.bytes[999], 'm');
    assert_int_equal(end.bytes[4000], 'x');
    assert_int_equal(end.bytes[BYTES / 2], 'w');
    assert_int_equal(kill(other.pid, SIGCONT), 0);
    assert_int_equal(end_other(&other), 0);
    close_end(&end);
}

static void a_killed_process_does_not_answer(UNUSED void **state)
{
    const struct options options = {
        .cqe = 64, .rnr_retry = 7, .retry_cnt = 1, .timeout = 10, .access = ALL};
    struct other other;
    struct told told;
    struct end end;

    open_end(&end, &options);
    told = start_other(&other);
    connect_other(&other, &end, &told, &options);
    assert_int_equal(kill(other.pid, SIGKILL), 0);
    assert_true(WIFSIGNALED(end_other(&other)));
    post(&end, IBV_WR_RDMA_READ, 1, 8, told.addr, told.rkey, 0);
    expect(&end, 1, IBV_WC_RETRY_EXC_ERR);
    assert_int_equal(state_of(&end), IBV_QPS_ERR);
    close_end(&end);
}

static void a_killed_adapter_is_a_lost_device(UNUSED void **state)
{
    const uint64_t until = clock_now() + PATIENCE_NS;
    struct ibv_comp_channel *channel;
    struct ibv_cq *cq;
    struct ibv_wc wc;
    struct end a;
    void *arg;
    int got;

    open_end(&a, &usual);
    connect_to(&a, a.qp->qp_num, &usual);
    channel = ibv_create_comp_channel(a.context);
    assert_int_equal(kill(lib_context(a.context)->pid, SIGKILL), 0);
    expect_event(&a, IBV_EVENT_DEVICE_FATAL);
    assert_int_equal(ibv_get_cq_event(channel, &cq, &arg), -1); /* the sleeper wakes */
    assert_int_equal(errno, EIO);
    while ((got = ibv_poll_cq(a.cq, 1, &wc)) == 0)
        assert_true(clock_now() < until);
    assert_int_equal(got, -EIO);
    assert_int_equal(ibv_destroy_comp_channel(channel), 0);
    close_end(&a);
    /* and the next program gets another daemon */
    open_end(&a, &usual);
    connect_to(&a, a.qp->qp_num, &usual);
    post_recv(&a, 2, 0, 8);
    post(&a, IBV_WR_SEND, 1, 8, 0, 0, 0);
    (void)next_of(&a);
    (void)next_of(&a);
    close_end(&a);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_arrive_in_order),
        cmocka_unit_test(memory_is_written_read_and_changed),
        cmocka_unit_test(a_send_waits_for_its_receive),
        cmocka_unit_test(a_shared_queue_says_that_it_runs_low),
        cmocka_unit_test(nobody_is_without_limits),
        cmocka_unit_test(local_memory_needs_its_key),
        cmocka_unit_test(a_message_that_is_too_long_ends_the_connection),
        cmocka_unit_test(patience_without_a_receive_ends),
        cmocka_unit_test(a_full_completion_queue_is_overrun),
        cmocka_unit_test(what_is_in_use_is_not_destroyed),
        cmocka_unit_test(an_impossible_index_ends_its_client_alone),
        cmocka_unit_test(a_request_of_another_shape_ends_its_client_alone),
        cmocka_unit_test(a_stopped_process_is_served),
        cmocka_unit_test(a_killed_process_does_not_answer),
        cmocka_unit_test(a_killed_adapter_is_a_lost_device),
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
