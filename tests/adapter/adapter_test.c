/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * adapter_test.c - the software adapter: what its queue pairs do, above all when something is wrong.
 *
 * It runs in a network namespace of its own where that is allowed, so that no other test shares its
 * adapter.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "adapter/library/library.h"
#include "base/clock.h"

#define BYTES (1u << 20)
#define ALL                                                                                    \
    (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
     IBV_ACCESS_REMOTE_ATOMIC)
#define PATIENT (20 * CLOCK_S) /* no test waits that long but one that fails */

/* One end of a connection, in a device context of its own. */
struct end {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_srq *srq;
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    unsigned char *bytes;
};

struct options {
    uint32_t cqe, srq;
    uint8_t rnr_retry, retry_cnt, timeout;
    int access;
};

static const struct options usual = {
    .cqe = 64, .rnr_retry = 7, .retry_cnt = 7, .timeout = 14, .access = ALL};

static struct ibv_context *open_device(void)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct ibv_context *context = ibv_open_device(list[0]);

    ibv_free_device_list(list);
    assert_non_null(context);
    return context;
}

static void open_end(struct end *end, const struct options *options)
{
    struct ibv_qp_init_attr attr = {.cap = {.max_send_wr = 32,
                                            .max_recv_wr = 32,
                                            .max_send_sge = 4,
                                            .max_recv_sge = 4,
                                            .max_inline_data = 64},
                                    .qp_type = IBV_QPT_RC,
                                    .sq_sig_all = 1};

    memset(end, 0, sizeof *end);
    end->context = open_device();
    end->pd = ibv_alloc_pd(end->context);
    end->cq = ibv_create_cq(end->context, (int)options->cqe, NULL, NULL, 0);
    end->bytes = calloc(1, BYTES);
    end->mr = ibv_reg_mr(end->pd, end->bytes, BYTES, options->access);
    assert_non_null(end->mr);
    if (options->srq > 0)
        end->srq = ibv_create_srq(end->pd, &(struct ibv_srq_init_attr){
                                               .attr = {.max_wr = options->srq, .max_sge = 1}});
    attr.send_cq = attr.recv_cq = end->cq;
    attr.srq = end->srq;
    end->qp = ibv_create_qp(end->pd, &attr);
    assert_non_null(end->qp);
}

static void close_end(struct end *end)
{
    assert_int_equal(ibv_destroy_qp(end->qp), 0);
    if (end->srq != NULL)
        assert_int_equal(ibv_destroy_srq(end->srq), 0);
    assert_int_equal(ibv_dereg_mr(end->mr), 0);
    assert_int_equal(ibv_destroy_cq(end->cq), 0);
    assert_int_equal(ibv_dealloc_pd(end->pd), 0);
    assert_int_equal(ibv_close_device(end->context), 0);
    free(end->bytes);
}

static void connect_to(struct end *end, uint32_t qpn, const struct options *options)
{
    struct ibv_port_attr port;
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = ALL};

    assert_int_equal((ibv_query_port)(end->context, 1, (struct _compat_ibv_port_attr *)&port),
                     0);
    assert_int_equal(
        ibv_modify_qp(end->qp, &attr,
                      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
        0);
    attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR,
                                .path_mtu = IBV_MTU_4096,
                                .dest_qp_num = qpn,
                                .rq_psn = 7,
                                .max_dest_rd_atomic = 4,
                                .min_rnr_timer = 1,
                                .ah_attr = {.dlid = port.lid, .port_num = 1}};
    assert_int_equal(ibv_modify_qp(end->qp, &attr,
                                   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
                                       IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
                     0);
    attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
                                .sq_psn = 7,
                                .timeout = options->timeout,
                                .retry_cnt = options->retry_cnt,
                                .rnr_retry = options->rnr_retry,
                                .max_rd_atomic = 4};
    assert_int_equal(ibv_modify_qp(end->qp, &attr,
                                   IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
                                       IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                       IBV_QP_MAX_QP_RD_ATOMIC),
                     0);
}

static void open_pair(struct end *a, struct end *b, const struct options *options)
{
    open_end(a, options);
    open_end(b, options);
    connect_to(a, b->qp->qp_num, options);
    connect_to(b, a->qp->qp_num, options);
}

static struct ibv_sge part(struct end *end, uint32_t offset, uint32_t size)
{
    return (struct ibv_sge){
        .addr = (uintptr_t)end->bytes + offset, .length = size, .lkey = end->mr->lkey};
}

static void post_recv(struct end *end, uint64_t id, uint32_t offset, uint32_t size)
{
    struct ibv_sge sge = part(end, offset, size);
    struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1}, *bad;

    if (end->srq != NULL)
        assert_int_equal(ibv_post_srq_recv(end->srq, &wr, &bad), 0);
    else
        assert_int_equal(ibv_post_recv(end->qp, &wr, &bad), 0);
}

static void post(struct end *end, enum ibv_wr_opcode opcode, uint64_t id, uint32_t size,
                 uint64_t addr, uint32_t rkey, unsigned flags)
{
    struct ibv_sge sge = part(end, 0, size);
    struct ibv_send_wr wr = {.wr_id = id,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .opcode = opcode,
                             .send_flags = flags,
                             .imm_data = 0x1234,
                             .wr.rdma = {addr, rkey}},
                       *bad;

    assert_int_equal(ibv_post_send(end->qp, &wr, &bad), 0);
}

/* The next completion. */
static struct ibv_wc next_of(struct end *end)
{
    const uint64_t until = clock_now() + PATIENT;
    struct ibv_wc wc = {0};
    int got;

    while ((got = ibv_poll_cq(end->cq, 1, &wc)) == 0)
        assert_true(clock_now() < until);
    assert_int_equal(got, 1);
    return wc;
}

static void expect(struct end *end, uint64_t id, enum ibv_wc_status status)
{
    const struct ibv_wc wc = next_of(end);

    assert_int_equal(wc.wr_id, id);
    assert_int_equal(wc.status, status);
}

static void expect_event(struct end *end, enum ibv_event_type type)
{
    struct ibv_async_event event;
    struct pollfd fd = {.fd = end->context->async_fd, .events = POLLIN};

    assert_int_equal(poll(&fd, 1, (int)(PATIENT / CLOCK_MS)), 1);
    assert_int_equal(ibv_get_async_event(end->context, &event), 0);
    assert_int_equal(event.event_type, type);
    ibv_ack_async_event(&event);
}

static enum ibv_qp_state state_of(struct end *end)
{
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;

    assert_int_equal(ibv_query_qp(end->qp, &attr, IBV_QP_STATE, &init), 0);
    return attr.qp_state;
}

/* ---- what succeeds ---- */

static void messages_arrive_in_order(void **state)
{
    struct end a, b;
    struct ibv_wc wc;

    (void)state;
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

static void memory_is_written_read_and_changed(void **state)
{
    struct end a, b;
    struct ibv_sge sge;
    uint64_t value = 5;
    struct ibv_send_wr wr = {.sg_list = &sge,
                             .num_sge = 1,
                             .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD},
                       *bad;

    (void)state;
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

static void a_send_waits_for_its_receive(void **state)
{
    struct end a, b;
    struct ibv_wc wc;

    (void)state;
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

static void a_shared_queue_says_that_it_runs_low(void **state)
{
    const struct options options = {
        .cqe = 64, .srq = 8, .rnr_retry = 7, .retry_cnt = 7, .timeout = 14, .access = ALL};
    struct ibv_srq_attr attr = {.srq_limit = 2};
    struct end a, b;

    (void)state;
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

/* ---- what fails ---- */

static void nobody_is_without_limits(void **state)
{
    struct end a, b;

    (void)state;
    for (int i = 0; i < 4; i++) {
        const struct options options = {.cqe = 64,
                                        .rnr_retry = 7,
                                        .retry_cnt = 7,
                                        .timeout = 14,
                                        .access = i == 3 ? IBV_ACCESS_LOCAL_WRITE : ALL};
        const uint64_t addr[] = {BYTES - 7, 0, UINT64_MAX - 3, 0};

        open_pair(&a, &b, &options);
        post_recv(&b, 9, 0, 8);
        post(&a, i == 3 ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, 1, 8,
             i == 2 ? addr[i] : (uintptr_t)b.bytes + addr[i], i == 1 ? a.mr->rkey : b.mr->rkey,
             0);
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

static void local_memory_needs_its_key(void **state)
{
    struct end a, b;
    struct ibv_sge sge;
    struct ibv_send_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND},
                       *bad;

    (void)state;
    open_pair(&a, &b, &usual);
    sge = part(&a, 0, 8);
    sge.lkey = b.mr->lkey; /* of another protection domain */
    assert_int_equal(ibv_post_send(a.qp, &wr, &bad), 0);
    expect(&a, 1, IBV_WC_LOC_PROT_ERR);
    close_end(&a);
    close_end(&b);
}

static void a_message_that_is_too_long_ends_the_connection(void **state)
{
    struct end a, b;

    (void)state;
    open_pair(&a, &b, &usual);
    post_recv(&b, 9, 0, 8);
    post(&a, IBV_WR_SEND, 1, 9, 0, 0, 0);
    expect(&a, 1, IBV_WC_REM_INV_REQ_ERR);
    expect(&b, 9, IBV_WC_LOC_LEN_ERR);
    assert_int_equal(b.bytes[8], 0);
    close_end(&a);
    close_end(&b);
}

static void patience_without_a_receive_ends(void **state)
{
    const struct options options = {
        .cqe = 64, .rnr_retry = 2, .retry_cnt = 7, .timeout = 14, .access = ALL};
    struct end a, b;

    (void)state;
    open_pair(&a, &b, &options);
    post(&a, IBV_WR_SEND, 1, 8, 0, 0, 0);
    expect(&a, 1, IBV_WC_RNR_RETRY_EXC_ERR);
    close_end(&a);
    close_end(&b);
}

static void a_full_completion_queue_is_overrun(void **state)
{
    const struct options options = {
        .cqe = 4, .rnr_retry = 7, .retry_cnt = 7, .timeout = 14, .access = ALL};
    struct end a, b;

    (void)state;
    open_pair(&a, &b, &options);
    for (uint64_t i = 0; i < 5; i++)
        post(&a, IBV_WR_RDMA_WRITE, i, 8, (uintptr_t)b.bytes, b.mr->rkey, 0);
    expect_event(&a, IBV_EVENT_CQ_ERR);
    assert_int_equal(state_of(&a), IBV_QPS_ERR);
    close_end(&a);
    close_end(&b);
}

static void what_is_in_use_is_not_destroyed(void **state)
{
    struct end a, b;

    (void)state;
    open_pair(&a, &b, &usual);
    assert_int_equal(ibv_dealloc_pd(a.pd), EBUSY);
    assert_int_equal(ibv_destroy_cq(a.cq), EBUSY);
    close_end(&a);
    close_end(&b);
}

/* ---- who does not follow the rules ---- */

static void an_impossible_index_ends_its_client_alone(void **state)
{
    struct end a, b, rogue;
    struct ibv_wc wc;
    const uint64_t until = clock_now() + PATIENT, one = 1;
    struct lib_qp *qp;

    (void)state;
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

static void a_request_of_another_shape_ends_its_client_alone(void **state)
{
    struct end a, b;
    struct sockaddr_un name;
    socklen_t size = sizeof name;
    char byte;
    int sock;

    (void)state;
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

struct told {
    uint32_t qpn, rkey;
    uint64_t addr;
};

/* A process with one end: says what it has, hears whom it is connected with, and then stops, until
 * it is continued; it looks whether four receives were filled and its memory was written. */
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

struct other {
    pid_t pid;
    int in, out;
};

static struct told start_other(struct other *other)
{
    struct told told;
    char in[12], out[12];
    int to[2], from[2];

    assert_int_equal(pipe(to) | pipe(from), 0);
    other->pid = fork();
    if (other->pid == 0) {
        snprintf(in, sizeof in, "%d", to[0]);
        snprintf(out, sizeof out, "%d", from[1]);
        close(to[1]);
        close(from[0]);
        execl("/proc/self/exe", "adapter_test", in, out, (char *)NULL);
        _exit(127);
    }
    close(to[0]);
    close(from[1]);
    other->in = from[0];
    other->out = to[1];
    assert_int_equal(read(other->in, &told, sizeof told), sizeof told);
    return told;
}

/* The other is connected with us, and stopped. */
static void connect_other(struct other *other, struct end *end, const struct told *told,
                          const struct options *options)
{
    char byte;
    int status;

    connect_to(end, told->qpn, options);
    assert_int_equal(write(other->out, &end->qp->qp_num, sizeof end->qp->qp_num),
                     sizeof end->qp->qp_num);
    assert_int_equal(read(other->in, &byte, 1), 1);
    assert_int_equal(waitpid(other->pid, &status, WUNTRACED), other->pid);
    assert_true(WIFSTOPPED(status));
}

static int end_other(struct other *other)
{
    int status;

    assert_int_equal(waitpid(other->pid, &status, 0), other->pid);
    close(other->in);
    close(other->out);
    return status;
}

static void a_stopped_process_is_served(void **state)
{
    struct other other;
    struct told told;
    struct end end;

    (void)state;
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

static void a_killed_process_does_not_answer(void **state)
{
    const struct options options = {
        .cqe = 64, .rnr_retry = 7, .retry_cnt = 1, .timeout = 10, .access = ALL};
    struct other other;
    struct told told;
    struct end end;

    (void)state;
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

static void a_killed_adapter_is_a_lost_device(void **state)
{
    const uint64_t until = clock_now() + PATIENT;
    struct ibv_comp_channel *channel;
    struct ibv_cq *cq;
    struct ibv_wc wc;
    struct end a;
    void *arg;
    int got;

    (void)state;
    open_end(&a, &usual);
    connect_to(&a, a.qp->qp_num, &usual);
    channel = ibv_create_comp_channel(a.context);
    assert_int_equal(kill(lib_context(a.context)->pid, SIGKILL), 0);
    expect_event(&a, IBV_EVENT_DEVICE_FATAL);
    assert_int_equal(ibv_get_cq_event(channel, &cq, &arg), -1); /* who sleeps wakes */
    assert_int_equal(errno, EIO);
    while ((got = ibv_poll_cq(a.cq, 1, &wc)) == 0)
        assert_true(clock_now() < until);
    assert_int_equal(got, -EIO);
    assert_int_equal(ibv_destroy_comp_channel(channel), 0);
    close_end(&a);
    /* and the next program has another one */
    open_end(&a, &usual);
    connect_to(&a, a.qp->qp_num, &usual);
    post_recv(&a, 2, 0, 8);
    post(&a, IBV_WR_SEND, 1, 8, 0, 0, 0);
    (void)next_of(&a);
    (void)next_of(&a);
    close_end(&a);
}

/* What a sanitizer says in the daemon. */
static char log_name[] = "/tmp/adapter_test.XXXXXX";

static void the_daemon_has_not_complained(void **state)
{
    struct stat status;

    (void)state;
    assert_int_equal(stat(log_name, &status), 0);
    if (status.st_size > 0)
        fail_msg("see %s", log_name);
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
        cmocka_unit_test(the_daemon_has_not_complained),
    };
    int fd, failed;

    if (argc == 3)
        return be_the_other(atoi(argv[1]), atoi(argv[2]));
    if (unshare(CLONE_NEWNET) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0)
        printf("in the network namespace of everybody: %s\n", strerror(errno));
    fd = mkstemp(log_name);
    assert_true(fd >= 0);
    close(fd);
    setenv(ADAPTER_ENV_LOG, log_name, 1);
    unsetenv(ADAPTER_ENV_INTERFACE);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    if (failed == 0)
        unlink(log_name);
    return failed;
}
