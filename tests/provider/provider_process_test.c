/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * provider_process_test.c - the provider between two processes: streams of short and long
 * messages in both directions, by one thread and by four, polling and asleep, into single
 * receives and into buffers for many messages; and a process that dies.
 *
 * Each thread has an endpoint of its own, or all share one.  The processes are forked before
 * either uses libfabric.
 */
#include "provider_fixture.h"

#include <pthread.h>
#include <sched.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS  4
#define MESSAGES 100
#define LONGEST  200000

struct plan {
    const char *name;
    int threads;
    enum fi_wait_obj wait;
    bool untagged;
};

static const struct plan plans[] = {
    {"one thread, polling", 1, FI_WAIT_NONE, false},
    {"one thread, asleep", 1, FI_WAIT_UNSPEC, false},
    {"four threads, polling", THREADS, FI_WAIT_NONE, false},
    {"four threads, asleep", THREADS, FI_WAIT_FD, false},
    {"one thread, untagged, asleep", 1, FI_WAIT_UNSPEC, true},
};

static void check(bool ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "FAIL in process %d: %s\n", (int)getpid(), what);
    _exit(1);
}

/* ---- one side
 * --------------------------------------------------------------------------------- */

struct side {
    struct fixture fix; /* node 0 is ours; the others are not used */
    const struct plan *plan;
    fi_addr_t other;
};

static void side_open(struct side *s, const struct plan *plan, int in, int out)
{
    struct setup setup = {.wait = plan->wait,
                          .threading = FI_THREAD_SAFE,
                          .caps = FI_TAGGED | FI_MSG | FI_SOURCE};
    char address[FIXTURE_ADDRESS];

    s->plan = plan;
    fixture_open(&s->fix, &setup);
    check(write(out, s->fix.node[0].address, FIXTURE_ADDRESS) == FIXTURE_ADDRESS, "write");
    check(read(in, address, FIXTURE_ADDRESS) == FIXTURE_ADDRESS, "read");
    check(fi_av_insert(s->fix.node[0].av, address, 1, &s->other, 0, NULL) == 1, "fi_av_insert");
}

/* The length of message i of a thread. */
static size_t size_of(unsigned i)
{
    return i % 25 == 24 ? LONGEST : (i * 37) % 3000;
}

struct worker {
    struct side *side;
    unsigned number;
    atomic_uint *sent, *received; /* of this number; added to by any reader of its completion */
    char out[LONGEST], in[LONGEST];
};

/* Reads one completion and counts it.  Its context is one of a worker's counts. */
static void read_one(struct side *s)
{
    struct fi_cq_tagged_entry e;
    ssize_t n = s->plan->wait == FI_WAIT_NONE ? fi_cq_read(s->fix.node[0].cq, &e, 1)
                                              : fi_cq_sread(s->fix.node[0].cq, &e, 1, NULL, 2);

    check(n == 1 || n == -FI_EAGAIN, "a completion failed");
    if (n == 1)
        atomic_fetch_add((atomic_uint *)e.op_context, 1);
    else
        sched_yield(); /* there are more threads than cores */
}

static void post(struct worker *me, unsigned i)
{
    struct side *s = me->side;
    struct fid_ep *ep = s->fix.node[0].ep;
    ssize_t err =
        s->plan->untagged
            ? fi_recv(ep, me->in, LONGEST, NULL, FI_ADDR_UNSPEC, me->received)
            : fi_trecv(ep, me->in, LONGEST, NULL, s->other, me->number, 0, me->received);

    (void)i;
    check(err == 0, "the receive was refused");
}

static void send(struct worker *me, unsigned i)
{
    struct side *s = me->side;
    struct fid_ep *ep = s->fix.node[0].ep;
    ssize_t err;

    pattern_fill(me->out, size_of(i), i + me->number);
    do {
        err = s->plan->untagged
                  ? fi_send(ep, me->out, size_of(i), NULL, s->other, me->sent)
                  : fi_tsend(ep, me->out, size_of(i), NULL, s->other, me->number, me->sent);
        if (err == -FI_EAGAIN)
            read_one(s);
    } while (err == -FI_EAGAIN);
    check(err == 0, "the send was refused");
}

/* Both processes do this at the same time. */
static void *work(void *arg)
{
    struct worker *me = arg;

    for (unsigned i = 0; i < MESSAGES; i++) {
        post(me, i);
        send(me, i);
        while (atomic_load(me->received) <= i || atomic_load(me->sent) <= i)
            read_one(me->side);
        check(pattern_is(me->in, size_of(i), i + me->number),
              "the message is not the one sent");
    }
    return NULL;
}

static void side_play(struct side *s)
{
    static struct worker workers[THREADS];
    static atomic_uint counts[2 * THREADS];
    pthread_t threads[THREADS];
    int n = s->plan->threads;

    for (int i = 0; i < n; i++) {
        atomic_init(&counts[2 * i], 0);
        atomic_init(&counts[2 * i + 1], 0);
        workers[i].side = s;
        workers[i].number = (unsigned)i;
        workers[i].sent = &counts[2 * i];
        workers[i].received = &counts[2 * i + 1];
        check(pthread_create(&threads[i], NULL, work, &workers[i]) == 0, "pthread_create");
    }
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
}

/* Neither side closes before the other has received all. */
static void side_meet(int in, int out)
{
    char byte = 0;

    check(write(out, &byte, 1) == 1 && read(in, &byte, 1) == 1, "the other side has ended");
}

static void side_run(const struct plan *plan, int in, int out)
{
    static struct side s;

    side_open(&s, plan, in, out);
    side_play(&s);
    side_meet(in, out);
    fixture_close(&s.fix);
}

/* ---- two processes
 * ---------------------------------------------------------------------------- */

typedef void child_fn(const struct plan *plan, int in, int out);

static pid_t start(child_fn *run, const struct plan *plan, int *in, int *out)
{
    int down[2], up[2];
    pid_t pid;

    assert_int_equal(pipe(down), 0);
    assert_int_equal(pipe(up), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        close(down[1]);
        close(up[0]);
        run(plan, down[0], up[1]);
        _exit(0);
    }
    close(down[0]);
    close(up[1]);
    *in = up[0];
    *out = down[1];
    return pid;
}

static int status_of(pid_t pid)
{
    int status;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static void two(const struct plan *plan, child_fn *one, child_fn *other)
{
    int in[2], out[2], status[2];
    pid_t pid[2];
    char address[2][FIXTURE_ADDRESS];
    char byte;

    pid[0] = start(one, plan, &in[0], &out[0]);
    pid[1] = start(other, plan, &in[1], &out[1]);
    for (int i = 0; i < 2; i++)
        assert_int_equal(read(in[i], address[i], FIXTURE_ADDRESS), FIXTURE_ADDRESS);
    for (int i = 0; i < 2; i++)
        assert_int_equal(write(out[i], address[1 - i], FIXTURE_ADDRESS), FIXTURE_ADDRESS);
    for (int i = 0; i < 2; i++)
        if (read(in[i], &byte, 1) == 1)
            (void)!write(out[1 - i], &byte, 1);
    for (int i = 0; i < 2; i++) {
        status[i] = status_of(pid[i]);
        close(in[i]);
        close(out[i]);
    }
    if (status[0] != 0 || status[1] != 0)
        fail_msg("%s: status %d and %d", plan->name, status[0], status[1]);
}

static void streams_arrive_in_both_directions(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof plans / sizeof plans[0]; i++)
        two(&plans[i], side_run, side_run);
}

/* ---- jobs
 * ---------------------------------------------------------------------------------------- */

/* Sends to the other process, whose address it knows, and expects an error. */
static void other_key_sends(const struct plan *plan, int in, int out)
{
    static struct side s;
    struct fi_cq_err_entry error;

    setenv("MBX_KEY", "00112233445566778899aabbccddeeff", 1);
    side_open(&s, plan, in, out);
    check(fi_tsend(s.fix.node[0].ep, "x", 1, NULL, s.other, 1, NULL) == 0, "fi_tsend");
    fixture_read_error(&s.fix, 0, &error);
    check(error.err == FI_EHOSTUNREACH, "the error is another");
    side_meet(in, out);
    fixture_close(&s.fix);
}

/* Reads what comes until the other process has been refused. */
static void host_listens(const struct plan *plan, int in, int out)
{
    static struct side s;
    struct fi_cq_tagged_entry e;
    char byte = 0, got;

    setenv("MBX_KEY", "ffeeddccbbaa99887766554433221100", 1);
    side_open(&s, plan, in, out);
    check(fi_trecv(s.fix.node[0].ep, &got, 1, NULL, FI_ADDR_UNSPEC, 1, 0, NULL) == 0,
          "fi_trecv");
    check(write(out, &byte, 1) == 1, "write");
    check(fcntl(in, F_SETFL, O_NONBLOCK) == 0, "fcntl");
    while (read(in, &byte, 1) != 1)
        check(fi_cq_read(s.fix.node[0].cq, &e, 1) == -FI_EAGAIN,
              "a message came from a process with another key");
    fixture_close(&s.fix);
}

static void a_process_of_another_job_is_refused(void **state)
{
    static const struct plan plan = {.name = "another job", .threads = 1};

    (void)state;
    two(&plan, host_listens, other_key_sends);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streams_arrive_in_both_directions),
        cmocka_unit_test(a_process_of_another_job_is_refused),
    };

    if (!fixture_has_shm())
        return FIXTURE_SKIPPED;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
