/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fail_test.c - every allocation and every system call fails once.
 *
 * One story (open, make peers, send and receive by every protocol, wait, close) is told again
 * and again; in the n-th telling the n-th allocation, or the n-th system call, fails.  The test
 * also tells another story, about memory that a peer reads, writes and updates.  Then
 *
 *   the call that needed it returns this error, and the same call made again
 *   succeeds; or nobody notices, because the library tries again later;
 *   a send may instead complete with an error, and the same send made again arrives;
 *   everything else continues, and nothing leaks: no memory, no descriptor, no
 *   mapping.
 */
#include "cluster.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sys.h"

#define CONTEXT    71
#define EARLY      30 /* calls */
#define EARLY_STEP 7

struct story {
    const struct configuration *config;
    int errnum;   /* the error of the call that fails */
    int refusals; /* calls and sends that returned it */
    struct mbx_ep *eps[3];
};

/* Did the call fail?  It may fail only once, and only with the injected error. */
static bool refused(struct story *s, int err)
{
    if (err >= 0)
        return false;
    if (err != -s->errnum || s->refusals++ != 0)
        fail_msg("a call returns %d when %d was injected, refusal %d", err, -s->errnum,
                 s->refusals);
    return true;
}

/* A call that may fail once, and must then succeed. */
#define TRY(s, call) (refused(s, call) ? assert_true((call) >= 0) : (void)0)

static void progress_all(struct story *s)
{
    for (int i = 0; i < 3; i++)
        mbx_progress(s->eps[i]);
}

static void wait_for(struct story *s, int who, mbx_request request, struct mbx_completion *done)
{
    for (int round = 0; mbx_test(s->eps[who], request, done) == 0; round++) {
        progress_all(s);
        assert_true(round < test_patience());
    }
}

static void open_one(struct story *s, int who)
{
    /* a segment for few peers is fast to make */
    const char *params[CLUSTER_PARAMS_MAX] = {"PEERS_MAX=4", "SPIN=0"};
    const struct mbx_config config = {.params = params};
    uint64_t mem = mem_live();
    int64_t fds = sys_fds_live(), maps = sys_maps_live();
    int err;

    for (int i = 0; s->config->params[i] != NULL; i++)
        params[2 + i] = s->config->params[i];
    err = mbx_open(&config, &s->eps[who]);
    if (refused(s, err)) {
        assert_int_equal(mem_live(), mem);
        assert_int_equal(sys_fds_live(), fds);
        assert_int_equal(sys_maps_live(), maps);
        assert_int_equal(mbx_open(&config, &s->eps[who]), 0);
    }
}

/* Endpoints 0 and 1 know each other, 2 knows 0, and 0 learns of 2 from its first message. */
static void make_peers(struct story *s)
{
    static const int knows[][2] = {{0, 0}, {0, 1}, {1, 0}, {1, 1}, {2, 0}};
    struct mbx_address address;
    uint32_t number;

    for (size_t i = 0; i < ARRAY_COUNT(knows); i++) {
        mbx_address_get(s->eps[knows[i][1]], &address);
        TRY(s, mbx_peer_add(s->eps[knows[i][0]], &address, &number));
        assert_int_equal(number, knows[i][1]);
    }
}

/* Sends the message of a failed send again. */
static void sent(struct story *s, int from, uint32_t to, uint64_t tag, const void *data,
                 size_t size, mbx_request request)
{
    struct mbx_completion done;

    wait_for(s, from, request, &done);
    if (done.error == 0)
        return;
    assert_true(done.error == -s->errnum || done.error == -EHOSTUNREACH ||
                done.error == -ENOTCONN);
    assert_int_equal(s->refusals++, 0);
    assert_int_equal(mbx_send(s->eps[from], to, CONTEXT, tag, data, size, NULL, &request), 0);
    wait_for(s, from, request, &done);
    assert_int_equal(done.error, 0);
}

/* size bytes at buf as a vector of three parts. */
struct vector {
    struct mbx_iovec parts[3];
    struct mbx_layout layout;
    struct mbx_options options;
};

static void vector_of(struct vector *v, const void *buf, size_t size)
{
    char *bytes = (char *)(uintptr_t)buf;

    v->parts[0] = (struct mbx_iovec){bytes, size / 3};
    v->parts[1] = (struct mbx_iovec){NULL, 0};
    v->parts[2] = (struct mbx_iovec){bytes + size / 3, size - size / 3};
    v->layout = (struct mbx_layout){.parts = v->parts, .count = 3};
    v->options = (struct mbx_options){.flags = MBX_LAYOUT, .layout = &v->layout};
}

/* As transfer(), with the data of both sides in pieces. */
static void transfer_pieces(struct story *s, size_t size, bool sync, bool late)
{
    const unsigned char *data = seeded_bytes(0, size);
    struct mbx_completion done;
    struct guarded_buffer buffer;
    struct vector out, in;
    mbx_request send, recv;

    guarded_buffer_init(&buffer, size, 0);
    vector_of(&out, data, size);
    vector_of(&in, buffer.bytes, size);
    if (!late)
        TRY(s, mbx_recv(s->eps[1], 0, CONTEXT, size, 0, NULL, size, &in.options, &recv));
    TRY(s, (sync ? mbx_ssend : mbx_send)(s->eps[0], 1, CONTEXT, size, NULL, size, &out.options,
                                         &send));
    if (late) {
        for (int i = 0; i < 20; i++)
            progress_all(s);
        TRY(s, mbx_recv(s->eps[1], 0, CONTEXT, size, 0, NULL, size, &in.options, &recv));
    }
    sent(s, 0, 1, size, data, size, send);
    wait_for(s, 1, recv, &done);
    assert_int_equal(done.error, 0);
    assert_int_equal(done.received, size);
    assert_memory_equal(buffer.bytes, data, size);
    guarded_buffer_fini(&buffer, size);
}

static void transfer(struct story *s, int from, int to, size_t size, bool sync, bool late)
{
    const unsigned char *data = seeded_bytes(0, size);
    uint32_t source = from == 2 ? MBX_ANY_SOURCE : (uint32_t)from;
    struct mbx_completion done;
    struct guarded_buffer buffer;
    mbx_request send, recv;

    guarded_buffer_init(&buffer, size, 0);
    if (!late)
        TRY(s, mbx_recv(s->eps[to], source, CONTEXT, size, 0, buffer.bytes, size, NULL, &recv));
    TRY(s, (sync ? mbx_ssend : mbx_send)(s->eps[from], (uint32_t)to, CONTEXT, size, data, size,
                                         NULL, &send));
    if (late) {
        for (int i = 0; i < 20; i++)
            progress_all(s);
        TRY(s, mbx_recv(s->eps[to], source, CONTEXT, size, 0, buffer.bytes, size, NULL, &recv));
    }
    sent(s, from, (uint32_t)to, size, data, size, send);
    wait_for(s, to, recv, &done);
    assert_int_equal(done.error, 0);
    assert_int_equal(done.received, size);
    assert_memory_equal(buffer.bytes, data, size);
    guarded_buffer_fini(&buffer, size);
}

static void inject_one(struct story *s, size_t size)
{
    const unsigned char *data = seeded_bytes(0, size);
    struct guarded_buffer buffer;
    struct mbx_completion done;
    struct mbx_status status;
    mbx_message message = 0;
    mbx_request recv;

    guarded_buffer_init(&buffer, size, 0);
    TRY(s, mbx_inject(s->eps[0], 1, CONTEXT, 5, data, size, 0));
    for (int round = 0;; round++) {
        progress_all(s);
        if (mbx_mprobe(s->eps[1], 0, CONTEXT, 5, 0, &status, &message) == 1)
            break;
        assert_true(round < test_patience());
    }
    TRY(s, mbx_mrecv(s->eps[1], message, buffer.bytes, size, NULL, &recv));
    wait_for(s, 1, recv, &done);
    assert_int_equal(done.error, 0);
    assert_memory_equal(buffer.bytes, data, size);
    guarded_buffer_fini(&buffer, size);
}

/* A wait that sleeps until its timeout. */
static void wait_in_vain(struct story *s)
{
    struct mbx_completion done;
    mbx_request recv;
    char byte;
    int err;

    TRY(s, mbx_recv(s->eps[0], 1, CONTEXT, 77, 0, &byte, 1, NULL, &recv));
    err = mbx_wait(s->eps[0], recv, 20000, NULL);
    assert_true(err == -ETIMEDOUT || (err == -EINTR && s->errnum == EINTR));
    assert_int_equal(mbx_cancel(s->eps[0], recv), 0);
    wait_for(s, 0, recv, &done);
    assert_int_equal(done.error, -ECANCELED);
}

static void tell(struct story *s)
{
    static const size_t sizes[] = {0, 32, 100, 5000, 20000};
    struct mbx_limits limits;

    for (int i = 0; i < 3; i++)
        open_one(s, i);
    make_peers(s);
    for (size_t i = 0; i < ARRAY_COUNT(sizes); i++)
        for (int how = 0; how < 4; how++)
            transfer(s, 0, 1, sizes[i], how & 1, how & 2);
    transfer(s, 1, 1, 20000, false, false);
    transfer(s, 2, 0, 100, false, true);
    transfer(s, 2, 0, 20000, false, true);
    for (int how = 0; how < 4; how++)
        transfer_pieces(s, how < 2 ? 100 : 200000, how < 2, how & 1);
    inject_one(s, 20);
    mbx_limits_get(s->eps[0], &limits, sizeof limits);
    inject_one(s, min_size(3000, limits.inject));
    wait_in_vain(s);
    for (int i = 0; i < 20; i++) /* a close waits until injected messages are acknowledged */
        progress_all(s);
    for (int i = 0; i < 3; i++)
        assert_int_equal(mbx_close(s->eps[i]), 0);
}

/* ---- one-sided ---- */

#define KEY 3

enum { WRITE, READ, ADD, ACCESSES };

static int access_start(struct story *s, int what, char *buf, size_t size, uint64_t *before,
                        mbx_request *request)
{
    static const uint64_t one = 1;
    const struct mbx_atomic_args add = {.op = MBX_SUM,
                                        .type = MBX_UINT64,
                                        .count = 1,
                                        .operand = &one,
                                        .result = before,
                                        .key = KEY};

    if (what == ADD)
        return mbx_atomic(s->eps[0], 1, &add, NULL, request);
    if (what == READ)
        return mbx_read(s->eps[0], 1, buf, size, KEY, 0, NULL, request);
    return mbx_write(s->eps[0], 1, buf, size, KEY, 0, NULL, request);
}

/* An access that may end with the injected error once, and then succeeds. */
static void access_one(struct story *s, int what, char *buf, size_t size, uint64_t *before)
{
    struct mbx_completion done;
    mbx_request request;

    for (int i = 0; i < 2; i++) {
        TRY(s, access_start(s, what, buf, size, before, &request));
        wait_for(s, 0, request, &done);
        if (done.error == 0)
            return;
        assert_true(done.error == -s->errnum || done.error == -EHOSTUNREACH ||
                    done.error == -ENOTCONN);
        assert_int_equal(s->refusals++, 0);
    }
    fail_msg("an access fails twice");
}

static void tell_accesses(struct story *s)
{
    static const size_t sizes[] = {8, 5000, 40000};
    static char there[40000], out[40000], back[40000];
    const struct mbx_region region = {
        .buf = there, .size = sizeof there, .rights = MBX_REMOTE_READ | MBX_REMOTE_WRITE};
    struct mbx_address address;
    uint64_t before, expected;
    uint32_t number;

    for (int i = 0; i < 3; i++)
        open_one(s, i);
    for (int i = 0; i < 2; i++) {
        mbx_address_get(s->eps[i], &address);
        TRY(s, mbx_peer_add(s->eps[0], &address, &number));
    }
    TRY(s, mbx_register(s->eps[1], KEY, &region));
    for (size_t i = 0; i < ARRAY_COUNT(sizes); i++) {
        memcpy(out, seeded_bytes((unsigned)i, sizes[i]), sizes[i]);
        access_one(s, WRITE, out, sizes[i], NULL);
        assert_memory_equal(there, out, sizes[i]);
        access_one(s, READ, back, sizes[i], NULL);
        assert_memory_equal(back, out, sizes[i]);
        memcpy(&expected, out, sizeof expected);
        access_one(s, ADD, NULL, 0, &before);
        assert_int_equal(before, expected);
    }
    assert_int_equal(mbx_deregister(s->eps[1], KEY), 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(mbx_close(s->eps[i]), 0);
}

/* ---- all failures ---- */

static void hush(void *arg, enum log_level level, const char *text)
{
    (void)arg;
    (void)level;
    (void)text;
}

/* The failing call moves by this step from telling to telling.  It is 1, except with a device
 * elsewhere, which sleeps and wakes by many calls of its own, and over an adapter, a separate
 * process that each opening calls hundreds of times.  A quick run takes larger steps. */
static int step_of(const struct configuration *config, int quick)
{
    int step = config_is_elsewhere(config) ? 13 : config_is_verbs(config) ? 7 : 1;

    return step * (test_is_quick() ? quick : 1);
}

static int memory_step_of(const struct configuration *config)
{
    return (config_is_elsewhere(config) || config_is_verbs(config) ? 3 : 1) *
           (test_is_quick() ? 3 : 1);
}

/* The step after telling n.  The first calls open an endpoint and, elsewhere, a device: each
 * fails in its own way, so the step is small. */
static uint64_t step_at(uint64_t n, int step)
{
    return (uint64_t)(n < EARLY && step > EARLY_STEP ? EARLY_STEP : step);
}

/* Each configuration and error begins at another call, so that together they cover all. */
static uint64_t first_of(const struct configuration *config, int errnum, int step)
{
    return 1 + (uint64_t)(config - configurations + errnum) % step_at(0, step);
}

/* Tells the story with the failure that arm(n) sets, until n is beyond the end of the story.
 * Returns how often. */
static int tell_all(const struct configuration *config, void (*story)(struct story *),
                    int errnum, void (*arm)(uint64_t, int),
                    bool (*has_fired)(uint64_t n, uint64_t calls), int step)
{
    /* The endpoints of a process share the thread that passes segments.  If it cannot start,
     * the endpoint opens without it, logs that, and peers that pass segments cannot reach it.
     * So it is started here, before any failure. */
    struct mbx_ep *before =
        config_has_param(config, "SHM_PASS=") ? cluster_open_one(config, NULL) : NULL;
    int told = 0;

    log_set_sink(hush, NULL);
    for (uint64_t n = first_of(config, errnum, step);; n += step_at(n, step), told++) {
        struct story s = {.config = config, .errnum = errnum};
        uint64_t mem = mem_live(), calls = sys_calls();
        int64_t fds = sys_fds_live(), maps = sys_maps_live();

        arm(n, errnum);
        story(&s);
        if (!has_fired(n, sys_calls() - calls))
            break;
        mem_fail_at(0);
        sys_fail_none();
        assert_int_equal(mem_live(), mem);
        assert_int_equal(sys_fds_live(), fds);
        assert_int_equal(sys_maps_live(), maps);
    }
    mem_fail_at(0);
    sys_fail_none();
    log_set_sink(NULL, NULL);
    if (before != NULL)
        assert_int_equal(mbx_close(before), 0);
    return told;
}

static void arm_mem(uint64_t n, int errnum)
{
    (void)errnum;
    mem_fail_at(n);
}

/* If the failure has not happened yet, one of the next n allocations fails. */
static bool mem_has_fired(uint64_t n, uint64_t calls)
{
    (void)calls;
    for (uint64_t i = 0; i < n; i++) {
        void *p = mem_alloc(1);

        if (p == NULL)
            return false;
        mem_free(p);
    }
    return true;
}

static bool sys_has_fired(uint64_t n, uint64_t calls)
{
    return calls >= n;
}

static void test_every_allocation(void **state)
{
    assert_in_range(
        tell_all(*state, tell, ENOMEM, arm_mem, mem_has_fired, memory_step_of(*state)), 5,
        5000);
}

static void test_every_system_call(void **state)
{
    static const int errnums[] = {ENOMEM, EPERM, EINTR, EMFILE};
    const struct configuration *config = *state;

    if (config_is_loop(config))
        return;
    for (size_t i = 0; i < ARRAY_COUNT(errnums); i++)
        assert_in_range(
            tell_all(config, tell, errnums[i], sys_fail_at, sys_has_fired, step_of(config, 7)),
            1, 5000);
}

static void test_every_failure_of_accesses(void **state)
{
    const struct configuration *config = *state;

    if (config_has_device(config) || config_has_faults(config))
        return;
    assert_in_range(
        tell_all(config, tell_accesses, ENOMEM, arm_mem, mem_has_fired, memory_step_of(config)),
        5, 5000);
    if (!config_is_loop(config))
        assert_in_range(tell_all(config, tell_accesses, EPERM, sys_fail_at, sys_has_fired,
                                 step_of(config, 7)),
                        1, 5000);
}

/* Cross-memory attach never works: every message arrives, as DATA. */
static void test_attach_always_refused(void **state)
{
    struct story s = {.config = *state, .errnum = EPERM};

    if (config_is_loop(s.config))
        return;
    log_set_sink(hush, NULL);
    assert_int_equal(sys_fail_name("process_vm_readv", SYS_FAIL_ALWAYS, EPERM), 0);
    tell(&s);
    sys_fail_none();
    log_set_sink(NULL, NULL);
    assert_int_equal(s.refusals, 0);
}

/* Counts the sleeps of endpoint 0, after everything under way has arrived. */
static uint64_t sleeps(struct cluster *cl)
{
    cluster_settle(cl);
    return cluster_stats(cl, 0).sleeps;
}

/* A thread of the endpoint itself must end at the close, but the call that would wake it fails.
 * It sleeps after a wait whose receive was cancelled, or after one whose message came. */
static void test_closing_after_a_call_that_fails(void **state)
{
    static const char *const names[] = {"write", "futex_wake"};
    struct mbx_completion done;
    mbx_request recv;
    struct cluster cl;
    char byte = 1;

    for (size_t i = 0; i < 2 * ARRAY_COUNT(names); i++) {
        cluster_open(&cl, *state, 2, (const char *const[]){"SPIN=0", NULL});
        assert_int_equal(mbx_recv(cl.eps[0], 1, CONTEXT, 0, 0, &byte, 1, NULL, &recv), 0);
        do /* until it has slept after all packets of the first contact have arrived */
            assert_int_equal(mbx_wait(cl.eps[0], recv, CLOCK_MS, NULL), -ETIMEDOUT);
        while (sleeps(&cl) < 5);
        if (i % 2 != 0)
            assert_int_equal(mbx_inject(cl.eps[1], 0, CONTEXT, 0, &byte, 1, 0), 0);
        else
            assert_int_equal(mbx_cancel(cl.eps[0], recv), 0);
        cluster_wait(&cl, 0, recv, &done);
        cluster_settle(&cl);
        assert_int_equal(sys_fail_name(names[i / 2], 1, EINTR), 0);
        cluster_close_one(&cl, 0);
        sys_fail_none();
        cluster_close(&cl);
    }
}

static void test_parameters_without_memory(UNUSED void **state)
{
    struct mbx_param param, before;

    memset(&param, 7, sizeof param);
    before = param;
    log_set_sink(hush, NULL);
    for (uint64_t n = 1; n <= 2; n++) {
        mem_fail_at(n);
        assert_int_equal(mbx_param_get(0, &param, sizeof param), -ENOMEM);
        assert_memory_equal(&param, &before, sizeof param);
    }
    mem_fail_at(3);
    assert_int_equal(mbx_param_get(0, &param, sizeof param), 0);
    mem_fail_at(0);
    log_set_sink(NULL, NULL);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_allocation),
        cmocka_unit_test(test_every_system_call),
        cmocka_unit_test(test_every_failure_of_accesses),
        cmocka_unit_test(test_attach_always_refused),
        cmocka_unit_test(test_closing_after_a_call_that_fails),
        cmocka_unit_test(test_parameters_without_memory),
    };

    return test_main(argc, argv, tests, ARRAY_COUNT(tests));
}
