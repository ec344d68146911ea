/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ends.c - see ends.h.
 */
#include "ends.h"
#include "base/patience.h"
#include "base/temporary.h"

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
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/unit.h"

const struct options usual = {
    .cqe = 64, .rnr_retry = 7, .retry_cnt = 7, .timeout = 14, .access = ALL};

static struct ibv_context *open_device(void)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct ibv_context *context = ibv_open_device(list[0]);

    ibv_free_device_list(list);
    assert_non_null(context);
    return context;
}

void open_end(struct end *end, const struct options *options)
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
    if (options->tags > 0)
        end->cq = ibv_cq_ex_to_cq(ibv_create_cq_ex(
            end->context, &(struct ibv_cq_init_attr_ex){.cqe = options->cqe,
                                                        .wc_flags = IBV_WC_STANDARD_FLAGS |
                                                                    IBV_WC_EX_WITH_TM_INFO}));
    else
        end->cq = ibv_create_cq(end->context, (int)options->cqe, NULL, NULL, 0);
    end->bytes = calloc(1, BYTES);
    end->mr = ibv_reg_mr(end->pd, end->bytes, BYTES, options->access);
    assert_non_null(end->mr);
    if (options->tags > 0) {
        end->srq = ibv_create_srq_ex(
            end->context,
            &(struct ibv_srq_init_attr_ex){
                .attr = {.max_wr = options->srq, .max_sge = 1},
                .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
                             IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_TM,
                .srq_type = IBV_SRQT_TM,
                .pd = end->pd,
                .cq = end->cq,
                .tm_cap = {.max_num_tags = options->tags, .max_ops = 2 * options->tags + 1}});
        assert_non_null(end->srq);
        attr.cap = (struct ibv_qp_cap){0};
    } else if (options->srq > 0) {
        end->srq = ibv_create_srq(end->pd, &(struct ibv_srq_init_attr){
                                               .attr = {.max_wr = options->srq, .max_sge = 1}});
    }
    attr.send_cq = attr.recv_cq = end->cq;
    attr.srq = end->srq;
    end->qp = ibv_create_qp(end->pd, &attr);
    assert_non_null(end->qp);
}

void close_end(struct end *end)
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

void connect_to(struct end *end, uint32_t qpn, const struct options *options)
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

void open_pair(struct end *a, struct end *b, const struct options *options)
{
    open_end(a, options);
    open_end(b, options);
    connect_to(a, b->qp->qp_num, options);
    connect_to(b, a->qp->qp_num, options);
}

struct ibv_sge part(struct end *end, uint32_t offset, uint32_t size)
{
    return (struct ibv_sge){
        .addr = (uintptr_t)end->bytes + offset, .length = size, .lkey = end->mr->lkey};
}

void post_recv(struct end *end, uint64_t id, uint32_t offset, uint32_t size)
{
    struct ibv_sge sge = part(end, offset, size);
    struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1}, *bad;

    if (end->srq != NULL)
        assert_int_equal(ibv_post_srq_recv(end->srq, &wr, &bad), 0);
    else
        assert_int_equal(ibv_post_recv(end->qp, &wr, &bad), 0);
}

void post(struct end *end, enum ibv_wr_opcode opcode, uint64_t id, uint32_t size, uint64_t addr,
          uint32_t rkey, unsigned flags)
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

struct ibv_wc next_of(struct end *end)
{
    const uint64_t until = clock_now() + PATIENCE_NS;
    struct ibv_wc wc = {0};
    int got;

    while ((got = ibv_poll_cq(end->cq, 1, &wc)) == 0)
        assert_true(clock_now() < until);
    assert_int_equal(got, 1);
    return wc;
}

void expect(struct end *end, uint64_t id, enum ibv_wc_status status)
{
    const struct ibv_wc wc = next_of(end);

    assert_int_equal(wc.wr_id, id);
    assert_int_equal(wc.status, status);
}

void expect_event(struct end *end, enum ibv_event_type type)
{
    struct ibv_async_event event;
    struct pollfd fd = {.fd = end->context->async_fd, .events = POLLIN};

    assert_int_equal(poll(&fd, 1, PATIENCE_MS), 1);
    assert_int_equal(ibv_get_async_event(end->context, &event), 0);
    assert_int_equal(event.event_type, type);
    ibv_ack_async_event(&event);
}

enum ibv_qp_state state_of(struct end *end)
{
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;

    assert_int_equal(ibv_query_qp(end->qp, &attr, IBV_QP_STATE, &init), 0);
    return attr.qp_state;
}

void end_adapter(void)
{
    struct ibv_context *context = open_device();
    struct pollfd fd = {.fd = (int)syscall(SYS_pidfd_open, lib_context(context)->pid, 0),
                        .events = POLLIN};

    assert_true(fd.fd >= 0);
    assert_int_equal(ibv_close_device(context), 0);
    assert_int_equal(poll(&fd, 1, PATIENCE_MS), 1);
    close(fd.fd);
}

/* ---- another process ---- */

struct told start_other(struct other *other)
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

void connect_other(struct other *other, struct end *end, const struct told *told,
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

int end_other(struct other *other)
{
    int status;

    assert_int_equal(waitpid(other->pid, &status, 0), other->pid);
    close(other->in);
    close(other->out);
    return status;
}

/* ---- all tests ---- */

/* The sanitizers of the daemon write here. */
static char log_name[TEMPORARY_SIZE];

void the_daemons_have_not_complained(UNUSED void **state)
{
    struct stat status;

    assert_int_equal(stat(log_name, &status), 0);
    temporary_show(log_name);
    assert_int_equal(status.st_size, 0);
}

void ends_prepare(void)
{
    int fd;

    if (unshare(CLONE_NEWNET) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0)
        printf("in the network namespace of everybody: %s\n", strerror(errno));
    fd = mkstemp(temporary_name(log_name, "daemons"));
    assert_true(fd >= 0);
    close(fd);
    setenv(ADAPTER_ENV_LOG, log_name, 1);
    unsetenv(ADAPTER_ENV_INTERFACE);
}

void ends_clean(void)
{
    unlink(log_name);
}
