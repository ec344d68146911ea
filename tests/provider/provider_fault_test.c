/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * provider_fault_test.c - what a client of libfabric learns when a peer dies.
 *
 * The peer is a process that shares memory and then does nothing until it is killed; so
 * operations that start before its death wait for it.  Each operation ends with one error,
 * FI_ENOTCONN; a receive from any source goes on waiting, and operations with other peers are
 * not affected.
 */
#include "provider_fixture.h"
#include "../../src/base/patience.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <rdma/fi_atomic.h>

#define CAPS                                                                                   \
    (FI_TAGGED | FI_MSG | FI_SOURCE | FI_DIRECTED_RECV | FI_RMA | FI_ATOMIC | FI_READ |        \
     FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)
#define KEY  9
#define SIZE ((size_t)1 << 20)

enum { TRECV, TRECV_MSG, TSEND, WRITE, READ, FETCH, OPERATIONS };

static const struct setup setup = {.caps = CAPS};
static char memory[SIZE], bufs[OPERATIONS][SIZE];
static int contexts[OPERATIONS];

/* ---- the process that dies ---- */

static void victim(int out)
{
    struct fid_mr *mr;
    struct fixture fix;

    fixture_open(&fix, &setup);
    if (fi_mr_reg(fix.domain, memory, SIZE, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, KEY, 0, &mr,
                  NULL) != 0)
        _exit(1);
    if (write(out, fix.node[0].address, FIXTURE_ADDRESS) != FIXTURE_ADDRESS)
        _exit(1);
    for (;;)
        pause();
}

static pid_t victim_start(struct fixture *fix, const struct setup *ours, fi_addr_t *addr)
{
    char address[FIXTURE_ADDRESS];
    int pipes[2];
    pid_t pid;

    assert_int_equal(pipe(pipes), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        victim(pipes[1]);
    fixture_open(fix, ours);
    assert_int_equal(read(pipes[0], address, sizeof address), sizeof address);
    assert_int_equal(fi_av_insert(fix->node[0].av, address, 1, addr, 0, NULL), 1);
    close(pipes[0]);
    close(pipes[1]);
    return pid;
}

static void victim_end(pid_t pid)
{
    int status;

    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
}

/* ---- the others notice ---- */

static void start_all(struct fixture *fix, fi_addr_t addr)
{
    struct fid_ep *ep = fix->node[0].ep;

    assert_int_equal(fi_trecv(ep, bufs[TRECV], SIZE, NULL, addr, 1, 0, &contexts[TRECV]), 0);
    assert_int_equal(fi_recv(ep, bufs[TRECV_MSG], 8, NULL, addr, &contexts[TRECV_MSG]), 0);
    assert_int_equal(fi_tsend(ep, bufs[TSEND], SIZE, NULL, addr, 2, &contexts[TSEND]), 0);
    assert_int_equal(fi_write(ep, bufs[WRITE], SIZE, NULL, addr, 0, KEY, &contexts[WRITE]), 0);
    assert_int_equal(fi_read(ep, bufs[READ], SIZE, NULL, addr, 0, KEY, &contexts[READ]), 0);
    assert_int_equal(fi_fetch_atomic(ep, bufs[FETCH], 1, NULL, bufs[FETCH] + 8, NULL, addr, 0,
                                     KEY, FI_UINT64, FI_SUM, &contexts[FETCH]),
                     0);
}

/* The next completion at node 0 is an error.  Returns the operation that has ended. */
static int next_error(struct fixture *fix)
{
    time_t until = time(NULL) + PATIENCE_S;
    struct fi_cq_tagged_entry entry;
    struct fi_cq_err_entry error = {.err_data_size = 0};
    ssize_t n;

    do {
        assert_true(time(NULL) < until);
        n = fi_cq_read(fix->node[0].cq, &entry, 1);
    } while (n == -FI_EAGAIN);
    assert_int_equal(n, -FI_EAVAIL);
    assert_int_equal(fi_cq_readerr(fix->node[0].cq, &error, 0), 1);
    assert_int_equal(error.err, FI_ENOTCONN);
    assert_int_equal(error.prov_errno, ENOTCONN);
    assert_non_null(
        strstr(fi_cq_strerror(fix->node[0].cq, error.prov_errno, NULL, NULL, 0), "died"));
    assert_in_range((uintptr_t)error.op_context, (uintptr_t)&contexts[0],
                    (uintptr_t)&contexts[OPERATIONS - 1]);
    return (int)((int *)error.op_context - contexts);
}

/* All of them end, each once. */
static void all_fail(struct fixture *fix)
{
    bool has_ended[OPERATIONS] = {false};

    for (int i = 0; i < OPERATIONS; i++) {
        int which = next_error(fix);

        assert_false(has_ended[which]);
        has_ended[which] = true;
    }
}

static void operations_that_wait_for_the_dead_fail(void **state)
{
    struct fi_cq_err_entry error = {.err_data_size = 0};
    fi_addr_t addr;
    struct fixture fix;
    char any[8];
    pid_t pid;

    (void)state;
    pid = victim_start(&fix, &setup, &addr);
    assert_int_equal(fi_trecv(fix.node[0].ep, any, sizeof any, NULL, FI_ADDR_UNSPEC, 5, 0, any),
                     0);
    start_all(&fix, addr);
    fixture_is_quiet(&fix, 0);
    victim_end(pid);
    all_fail(&fix); /* operations that started before its death */
    start_all(&fix, addr);
    all_fail(&fix); /* and operations that start after it */
    assert_int_equal(fi_tinject(fix.node[0].ep, any, 1, addr, 2), -FI_ENOTCONN);
    /* from any source: another peer may still send, */
    inject_word(&fix, 1, 0, 5, 77);
    expect_recv(&fix, 0, any, sizeof any, 5);
    /* and if none does, it can be cancelled */
    assert_int_equal(fi_trecv(fix.node[0].ep, any, sizeof any, NULL, FI_ADDR_UNSPEC, 5, 0, any),
                     0);
    fixture_is_quiet(&fix, 0);
    assert_int_equal(fi_cancel(&fix.node[0].ep->fid, any), 0);
    fixture_read_error(&fix, 0, &error);
    assert_int_equal(error.err, FI_ECANCELED);
    fixture_close(&fix);
}

/* The peer is one that never sent to this process, and that this process never sent to. */
static void a_receive_from_who_died_unheard_fails(void **state)
{
    fi_addr_t addr;
    struct fixture fix;
    pid_t pid;

    (void)state;
    pid = victim_start(&fix, &setup, &addr);
    victim_end(pid);
    assert_int_equal(
        fi_trecv(fix.node[0].ep, bufs[TRECV], SIZE, NULL, addr, 1, 0, &contexts[TRECV]), 0);
    assert_int_equal(next_error(&fix), TRECV);
    fixture_close(&fix);
}

static void post_many(struct fixture *fix, void *buf, size_t len, fi_addr_t from, void *context)
{
    struct iovec iov = {buf, len};
    struct fi_msg msg = {.msg_iov = &iov, .iov_count = 1, .addr = from, .context = context};

    assert_int_equal(fi_recvmsg(EP(*fix, 0), &msg, FI_MULTI_RECV | FI_COMPLETION), 0);
}

/* The next completion at node 0 is the end of one of the two receives from the dead peer, which
 * their flags distinguish: the multi-receive returns its buffer. */
static void expect_end(struct fixture *fix, void *single, void *many)
{
    struct fi_cq_err_entry error = {.err_data_size = 0};

    fixture_read_error(fix, 0, &error);
    assert_int_equal(error.err, FI_ENOTCONN);
    assert_int_equal(error.flags,
                     FI_MSG | FI_RECV | (error.op_context == many ? FI_MULTI_RECV : 0));
    assert_true(error.op_context == single || error.op_context == many);
}

/* The provider itself matches receives that are posted after a buffer for many messages; they
 * end with the same error as others. */
static void a_receive_after_a_buffer_hears_of_it(void **state)
{
    const struct setup many = {.caps = FI_TAGGED | FI_MSG | FI_MULTI_RECV | FI_DIRECTED_RECV,
                               .counts = FI_RECV};
    int *any = &contexts[0], *dead = &contexts[1], *dead_many = &contexts[2],
        *alive = &contexts[3];
    struct fi_cq_tagged_entry entry;
    fi_addr_t addr;
    struct fixture fix;
    pid_t pid;

    (void)state;
    pid = victim_start(&fix, &many, &addr);
    post_many(&fix, bufs[0], SIZE, FI_ADDR_UNSPEC, any);
    for (int round = 0; round < 2; round++) { /* posted before its death, then after it */
        assert_int_equal(fi_recv(EP(fix, 0), bufs[1], 8, NULL, addr, dead), 0);
        post_many(&fix, bufs[2], SIZE, addr, dead_many);
        assert_int_equal(fi_recv(EP(fix, 0), bufs[3], 8, NULL, fix.addr[1], alive), 0);
        if (round == 0) {
            fixture_is_quiet(&fix, 0);
            victim_end(pid);
        }
        expect_end(&fix, dead, dead_many);
        expect_end(&fix, dead, dead_many);
        assert_int_equal(fi_cntr_readerr(fix.node[0].cntr[NODE_RECVS]), 3 * round + 2);
        fixture_is_quiet(&fix, 0);
        /* the other receives remain posted */
        assert_int_equal(fi_cancel(&EP(fix, 0)->fid, alive), 0);
        fixture_read_error(&fix, 0, &(struct fi_cq_err_entry){0});
    }
    assert_int_equal(fi_inject(EP(fix, 1), bufs[0], 100, fix.addr[0]), 0);
    assert_int_equal(fixture_read(&fix, 0, &entry, NULL), 1);
    assert_ptr_equal(entry.op_context, any);
    assert_int_equal(entry.len, 100);
    fixture_close(&fix);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operations_that_wait_for_the_dead_fail),
        cmocka_unit_test(a_receive_from_who_died_unheard_fails),
        cmocka_unit_test(a_receive_after_a_buffer_hears_of_it),
    };

    if (!fixture_has_shm())
        return FIXTURE_SKIPPED;
    setenv("MBX_PEER_TIMEOUT", "20ms", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
