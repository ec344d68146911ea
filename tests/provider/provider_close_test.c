/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * provider_close_test.c - objects of the provider that are closed while a thread waits on them:
 * the close does not wait, the waiter is notified, and the object is not accessed after it is
 * freed.
 *
 * A test acts once its waiter waits: asleep in the kernel, but not for a mutex, or yielding
 * again and again (the provider calls this program's sched_yield()).  A failure here is a hang:
 * then the alarm ends the program.
 */
#include "provider_fixture.h"
#include "../../src/base/patience.h"

#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* A sanitizer's runtime that defers signals until the thread calls it would defer ours. */
#ifdef __SANITIZE_THREAD__
#define HAS_HANDLERS false
#else
#define HAS_HANDLERS true
#endif

/* AddressSanitizer leaves poisoned the stack frames that a cancelled thread jumps over. */
#ifdef __SANITIZE_ADDRESS__
#define HAS_CANCEL false
#else
#define HAS_CANCEL true
#endif

static const struct setup safe = {.threading = FI_THREAD_SAFE};

/* ---- threads that wait --------------------------------------------------------------------- */

static atomic_int yielder;
static atomic_uint yields; /* of the yielder */

__attribute__((visibility("default"))) int sched_yield(void)
{
    if (atomic_load(&yielder) == gettid())
        atomic_fetch_add(&yields, 1);
    return (int)syscall(SYS_sched_yield);
}

static bool read_line(const char *of, int tid, char *line, size_t size)
{
    char path[64];
    FILE *f;
    bool has;

    snprintf(path, sizeof path, "/proc/self/task/%d/%s", tid, of);
    f = fopen(path, "r");
    has = f != NULL && fgets(line, (int)size, f) != NULL;
    if (f != NULL)
        fclose(f);
    return has;
}

static bool is_asleep(int tid)
{
    char line[512];
    const char *name_end;
    long call;
    unsigned long address, op;

    if (!read_line("stat", tid, line, sizeof line) || (name_end = strrchr(line, ')')) == NULL ||
        strncmp(name_end, ") S", 3) != 0)
        return false;
    if (!read_line("syscall", tid, line, sizeof line))
        return true; /* not all systems report it */
    if (strncmp(line, "running", 7) == 0)
        return false; /* it was asleep on a lock, and has it now */
    if (sscanf(line, "%ld %lx %lx", &call, &address, &op) != 3 || call != SYS_futex)
        return true; /* it is not one of our locks */
    return (op & (unsigned long)FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET;
}

static void await_waiter(int tid)
{
    atomic_store(&yields, 0);
    atomic_store(&yielder, tid);
    while (!is_asleep(tid) && atomic_load(&yields) < 3)
        syscall(SYS_sched_yield);
    atomic_store(&yielder, 0);
}

/* ---- objects that a thread waits at -------------------------------------------------------- */

static struct fid *counter_open(struct fixture *fix, enum fi_wait_obj wait)
{
    struct fi_cntr_attr attr = {.wait_obj = wait};
    struct fid_cntr *cntr;

    assert_int_equal(fi_cntr_open(fix->domain, &attr, &cntr, NULL), 0);
    return &cntr->fid;
}

static ssize_t counter_wait(struct fid *fid)
{
    return fi_cntr_wait(container_of(fid, struct fid_cntr, fid), 1, -1);
}

static struct fid *queue_open(struct fixture *fix, enum fi_wait_obj wait)
{
    struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = wait};
    struct fid_cq *cq;

    assert_int_equal(fi_cq_open(fix->domain, &attr, &cq, NULL), 0);
    return &cq->fid;
}

static ssize_t queue_wait(struct fid *fid)
{
    struct fi_cq_tagged_entry entry;

    return fi_cq_sread(container_of(fid, struct fid_cq, fid), &entry, 1, NULL, -1);
}

static struct fid *events_open(struct fixture *fix, enum fi_wait_obj wait)
{
    struct fi_eq_attr attr = {.flags = FI_WRITE, .wait_obj = wait};
    struct fid_eq *eq;

    assert_int_equal(fi_eq_open(fix->fabric, &attr, &eq, NULL), 0);
    return &eq->fid;
}

static ssize_t events_wait(struct fid *fid)
{
    uint32_t event;
    char entry[64];

    return fi_eq_sread(container_of(fid, struct fid_eq, fid), &event, entry, sizeof entry, -1,
                       0);
}

static struct fid *set_open(struct fixture *fix, enum fi_wait_obj wait)
{
    struct fi_wait_attr attr = {.wait_obj = wait};
    struct fid_wait *set;

    assert_int_equal(fi_wait_open(fix->fabric, &attr, &set), 0);
    return &set->fid;
}

static ssize_t set_wait(struct fid *fid)
{
    return fi_wait(container_of(fid, struct fid_wait, fid), -1);
}

static const struct kind {
    struct fid *(*open)(struct fixture *fix, enum fi_wait_obj wait);
    ssize_t (*wait)(struct fid *fid);
    enum fi_wait_obj object;
} kinds[] = {
    {counter_open, counter_wait, FI_WAIT_UNSPEC},
    {counter_open, counter_wait, FI_WAIT_FD},
    {counter_open, counter_wait, FI_WAIT_YIELD},
    {counter_open, counter_wait, FI_WAIT_NONE},
    {queue_open, queue_wait, FI_WAIT_UNSPEC},
    {queue_open, queue_wait, FI_WAIT_FD},
    {queue_open, queue_wait, FI_WAIT_YIELD},
    {events_open, events_wait, FI_WAIT_UNSPEC},
    {events_open, events_wait, FI_WAIT_FD},
    {set_open, set_wait, FI_WAIT_UNSPEC},
    {set_open, set_wait, FI_WAIT_FD},
};

#define KINDS (sizeof kinds / sizeof kinds[0])

/* ---- other threads -------------------------------------------------------------------------
 */

struct waiter {
    ssize_t (*wait)(struct fid *fid);
    struct fid *fid;
    atomic_int tid;
    ssize_t result;
    pthread_t thread;
};

static void *wait_there(void *arg)
{
    struct waiter *me = arg;

    atomic_store(&me->tid, gettid());
    me->result = me->wait(me->fid);
    return NULL;
}

static void waiter_start(struct waiter *waiter, ssize_t (*wait)(struct fid *fid),
                         struct fid *fid)
{
    *waiter = (struct waiter){.wait = wait, .fid = fid};
    waiter->thread = thread_start(wait_there, waiter);
    while (atomic_load(&waiter->tid) == 0)
        syscall(SYS_sched_yield);
    await_waiter(atomic_load(&waiter->tid));
}

static ssize_t waiter_end(struct waiter *waiter)
{
    pthread_join(waiter->thread, NULL);
    return waiter->result;
}

static void a_waiting_thread_is_told_of_the_close(void **state)
{
    (void)state;
    for (size_t i = 0; i < KINDS; i++) {
        struct waiter waiter, another;
        struct fid *fid;
        struct fixture fix;

        fixture_open(&fix, &safe);
        fid = kinds[i].open(&fix, kinds[i].object);
        waiter_start(&waiter, kinds[i].wait, fid);
        waiter_start(&another, kinds[i].wait, fid);
        assert_int_equal(fi_close(fid), 0);
        fixture_close(&fix); /* they need nothing any more */
        assert_int_equal(waiter_end(&waiter), -FI_ECANCELED);
        assert_int_equal(waiter_end(&another), -FI_ECANCELED);
    }
}

/* With endpoints, which are closed first. */
static void all_may_close_while_threads_wait(void **state)
{
    static const struct setup setup = {
        .threading = FI_THREAD_SAFE, .wait = FI_WAIT_UNSPEC, .counts = FI_SEND | FI_RECV};
    struct waiter waiters[3];
    struct fixture fix;

    (void)state;
    fixture_open(&fix, &setup);
    waiter_start(&waiters[0], counter_wait, &fix.node[0].cntr[NODE_RECVS]->fid);
    waiter_start(&waiters[1], queue_wait, &fix.node[0].cq->fid);
    waiter_start(&waiters[2], counter_wait, &fix.node[1].cntr[NODE_SENDS]->fid);
    fixture_close(&fix);
    for (int i = 0; i < 3; i++)
        assert_int_equal(waiter_end(&waiters[i]), -FI_ECANCELED);
}

static struct pollfd polled = {.events = POLLIN};

/* When the poll looks again, the descriptor is readable, or closed. */
static ssize_t descriptor_wait(struct fid *fid)
{
    (void)fid;
    return poll(&polled, 1, -1);
}

static void a_thread_that_polls_the_descriptor_is_woken(void **state)
{
    (void)state;
    for (size_t i = 0; i < KINDS; i++) {
        struct waiter waiter;
        struct fid *fid;
        struct fixture fix;

        if (kinds[i].object != FI_WAIT_FD)
            continue;
        fixture_open(&fix, &safe);
        fid = kinds[i].open(&fix, FI_WAIT_FD);
        assert_int_equal(fi_control(fid, FI_GETWAIT, &polled.fd), 0);
        waiter_start(&waiter, descriptor_wait, NULL);
        assert_int_equal(fi_close(fid), 0);
        assert_int_equal(waiter_end(&waiter), 1);
        fixture_close(&fix);
    }
}

/* A thread that is cancelled while it sleeps holds nothing that others wait for. */
static void a_sleeping_thread_may_be_cancelled(void **state)
{
    (void)state;
    if (!HAS_CANCEL)
        skip();
    for (size_t i = 0; i < KINDS; i++) {
        struct waiter waiter, next;
        void *result;
        struct fid *fid;
        struct fixture fix;

        if (kinds[i].object != FI_WAIT_UNSPEC)
            continue;
        fixture_open(&fix, &safe);
        fid = kinds[i].open(&fix, FI_WAIT_UNSPEC);
        waiter_start(&waiter, kinds[i].wait, fid);
        assert_int_equal(pthread_cancel(waiter.thread), 0);
        assert_int_equal(pthread_join(waiter.thread, &result), 0);
        assert_ptr_equal(result, PTHREAD_CANCELED);
        waiter_start(&next, kinds[i].wait, fid);
        assert_int_equal(fi_close(fid), 0);
        assert_int_equal(waiter_end(&next), -FI_ECANCELED);
        fixture_close(&fix);
    }
}

/* ---- the thread that waits, in a handler ---------------------------------------------------- */

static struct fid *handled; /* what the handler closes */
static int handled_error;
static int main_tid;

static void close_it(int signal)
{
    (void)signal;
    handled_error = fi_close(handled);
}

static void *signal_the_main_thread(void *arg)
{
    await_waiter(main_tid);
    thread_check(kill(getpid(), SIGUSR1) == 0, "kill");
    return arg;
}

static void handle(void (*handler)(int))
{
    struct sigaction action = {.sa_handler = handler};
    sigset_t usr1;

    main_tid = gettid();
    sigaction(SIGUSR1, &action, NULL);
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    pthread_sigmask(SIG_UNBLOCK, &usr1, NULL);
}

/* No other thread may take the signal. */
static pthread_t start_signaller(void)
{
    pthread_t thread;
    sigset_t usr1;

    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &usr1, NULL);
    thread = thread_start(signal_the_main_thread, NULL);
    pthread_sigmask(SIG_UNBLOCK, &usr1, NULL);
    return thread;
}

static void a_handler_may_close_what_its_thread_waits_at(void **state)
{
    (void)state;
    if (!HAS_HANDLERS)
        skip();
    handle(close_it);
    for (size_t i = 0; i < KINDS; i++) {
        pthread_t thread;
        struct fixture fix;

        fixture_open(&fix, &safe);
        handled = kinds[i].open(&fix, kinds[i].object);
        handled_error = -1;
        thread = start_signaller();
        assert_int_equal(kinds[i].wait(handled), -FI_ECANCELED);
        assert_int_equal(handled_error, 0);
        pthread_join(thread, NULL);
        fixture_close(&fix);
    }
}

/* ---- exit() in a handler -------------------------------------------------------------------- */

#define WELL 7

static struct fixture ends;
static struct fid_mr *ends_mr;

static void end_well(void)
{
    if (fi_close(&ends_mr->fid) != 0)
        _exit(1);
    fixture_close(&ends); /* which would end the process otherwise */
    _exit(WELL);
}

static void exit_there(int signal)
{
    (void)signal;
    exit(1); /* end_well() runs first */
}

static void wait_and_exit(ssize_t (*wait)(struct fid *fid), enum fi_wait_obj object,
                          bool at_region)
{
    struct setup setup = {.threading = FI_THREAD_SAFE,
                          .caps = FI_MSG | FI_RMA | FI_RMA_EVENT,
                          .wait = object == FI_WAIT_NONE ? FI_WAIT_UNSPEC : object,
                          .cntr_wait = object,
                          .counts = FI_RECV | FI_REMOTE_WRITE};
    struct fid_cntr *cntr;
    static char memory[8];

    alarm(PATIENCE_S / 2);
    fixture_open(&ends, &setup);
    cntr = ends.node[0].cntr[NODE_RECVS];
    if (fi_mr_reg(ends.domain, memory, sizeof memory, FI_REMOTE_WRITE, 0, 1, 0, &ends_mr,
                  NULL) != 0 ||
        (at_region && fi_mr_bind(ends_mr, &cntr->fid, FI_REMOTE_WRITE) != 0))
        _exit(2);
    atexit(end_well);
    handle(exit_there);
    start_signaller();
    wait(wait == queue_wait ? &ends.node[0].cq->fid : &cntr->fid);
    _exit(3);
}

static void a_handler_may_exit(void **state)
{
    static const struct {
        ssize_t (*wait)(struct fid *fid);
        enum fi_wait_obj object;
        bool at_region;
    } ways[] = {{counter_wait, FI_WAIT_UNSPEC, false},
                {counter_wait, FI_WAIT_UNSPEC, true},
                {counter_wait, FI_WAIT_FD, true},
                {queue_wait, FI_WAIT_UNSPEC, false}};

    (void)state;
    if (!HAS_HANDLERS)
        skip();
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        int status;
        pid_t pid = fork();

        assert_true(pid >= 0);
        if (pid == 0)
            wait_and_exit(ways[i].wait, ways[i].object, ways[i].at_region);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), WELL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_handler_may_exit), /* forks: before there are threads */
        cmocka_unit_test(a_waiting_thread_is_told_of_the_close),
        cmocka_unit_test(all_may_close_while_threads_wait),
        cmocka_unit_test(a_thread_that_polls_the_descriptor_is_woken),
        cmocka_unit_test(a_sleeping_thread_may_be_cancelled),
        cmocka_unit_test(a_handler_may_close_what_its_thread_waits_at),
    };

    alarm(PATIENCE_S);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
