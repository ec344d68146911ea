/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device_end_test.c - a device ends while nobody looks at it: its application sleeps, threads
 * wait, or a peer is in another process.  Also: devices that never begin.
 *
 * device_loss_test.c loses devices at random moments; here each situation is made on purpose.
 */
#include "device.h"
#include "cluster.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/patience.h"
#include "base/temporary.h"
#include "base/sys.h"
#include "core/core.h"
#include "device/host/offload.h"

#define CONTEXT 83
#define LARGEST 100000

static const size_t sizes[] = {0, 8, 300, 4000, 30000, LARGEST};

static bool is_of_processes(const struct configuration *config)
{
    return strcmp(config->params[1], "DEVICE=soft-process") == 0;
}

/* A child, or a thread, that fails prints a line and ends the program: cmocka's own checks
 * leave by longjmp. */
static void check(bool ok, const char *what, long value)
{
    if (ok)
        return;
    fprintf(stderr, "device_end_test: %s, %ld\n", what, value);
    abort();
}

/* Returns 'S' for a sleeping process, and 'Z', 'X' or 0 for one that has ended. */
static char state_of(pid_t pid)
{
    char path[64], text[256] = "", *behind;
    FILE *file;

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    file = fopen(path, "r");
    if (file == NULL)
        return 0;
    check(fgets(text, sizeof text, file) != NULL || ferror(file), "fgets", errno);
    fclose(file);
    behind = strrchr(text, ')');
    return behind != NULL ? behind[2] : 0;
}

/* Kills the device if it is a process; otherwise the library stops it. */
static void end_device(struct mbx_ep *ep)
{
    if (device_pid(ep) != 0)
        check(kill(device_pid(ep), SIGKILL) == 0, "kill", errno);
    else
        softdev_stop(ep->offload->device);
}

/* ---- a peer in another process ---- */

struct hello {
    struct mbx_address address;
    pid_t device; /* 0: not a process */
};

struct pair {
    struct mbx_ep *ep;
    uint32_t other; /* peer number */
    struct hello theirs;
    pid_t child;
    int down, up; /* the parent's ends of the pipes */
};

static void tell(int fd, struct mbx_ep *ep)
{
    struct hello hello = {.device = device_pid(ep)};

    mbx_address_get(ep, &hello.address);
    check(write(fd, &hello, sizeof hello) == sizeof hello, "write", errno);
}

static void hear(int fd, struct mbx_ep *ep, struct hello *hello, uint32_t *peer)
{
    check(read(fd, hello, sizeof *hello) == sizeof *hello, "read", errno);
    check(mbx_peer_add(ep, &hello->address, peer) == 0, "mbx_peer_add", 0);
}

typedef void child_fn(struct mbx_ep *ep, uint32_t parent, const struct hello *theirs, int down);

static const char *const few_eager[] = {"EAGER_LIMIT=3000", "LOG_LEVEL=error",
                                        "CLOSE_TIMEOUT=100ms", NULL};
/* for an endpoint that closes while the other one may still be open, and slow */
static const char *const patient[] = {"EAGER_LIMIT=3000", "LOG_LEVEL=error",
                                      "CLOSE_TIMEOUT=900s", NULL};

static void child_main(const struct configuration *config, child_fn *run, int down, int up)
{
    struct mbx_ep *ep = cluster_open_one(config, patient);
    struct hello theirs;
    uint32_t parent;

    tell(up, ep);
    hear(down, ep, &theirs, &parent);
    run(ep, parent, &theirs, down);
    check(mbx_close(ep) == 0, "mbx_close", 0);
    _exit(0);
}

/* The child opens its endpoint after the fork. */
static void pair_open_with(struct pair *pair, struct cluster *cl,
                           const struct configuration *config, child_fn *run,
                           const char *const *more)
{
    pair->child = test_fork(&pair->down, &pair->up);
    if (pair->child == 0)
        child_main(config, run, pair->down, pair->up);
    cluster_open(cl, config, 1, more);
    pair->ep = cl->eps[0];
    tell(pair->down, pair->ep);
    hear(pair->up, pair->ep, &pair->theirs, &pair->other);
}

static void pair_open(struct pair *pair, struct cluster *cl, const struct configuration *config,
                      child_fn *run)
{
    pair_open_with(pair, cl, config, run, few_eager);
}

static void pair_close(struct pair *pair, struct cluster *cl)
{
    int status;
    pid_t pid;

    close(pair->down);
    while ((pid = waitpid(pair->child, &status, WNOHANG)) == 0) {
        mbx_progress(pair->ep);
        sched_yield();
    }
    assert_int_equal(pid, pair->child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    close(pair->up);
    cluster_close(cl);
    if (pair->theirs.device != 0)
        assert_true(kill(pair->theirs.device, 0) < 0 && errno == ESRCH);
}

static mbx_request post(struct mbx_ep *ep, uint64_t tag, void *buf, size_t size)
{
    mbx_request recv = 0;

    check(mbx_recv(ep, MBX_ANY_SOURCE, CONTEXT, tag, 0, buf, size, NULL, &recv) == 0,
          "mbx_recv", 0);
    return recv;
}

static void await(struct mbx_ep *ep, mbx_request request, size_t size)
{
    struct mbx_completion done = {.error = 0};
    int err = mbx_wait(ep, request, PATIENCE_NS, &done);

    check(err == 0, "mbx_wait", err);
    check(done.error == 0, "the completion", done.error);
    check(done.received == size, "the size", (long)done.received);
}

static void send_all(struct mbx_ep *ep, uint32_t to, uint64_t tag, const void *buf, size_t size)
{
    mbx_request send = 0;

    check((tag % 3 == 0 ? mbx_ssend : mbx_send)(ep, to, CONTEXT, tag, buf, size, NULL, &send) ==
              0,
          "mbx_send", 0);
    await(ep, send, size);
}

/* ---- both devices end while messages go to and fro ---- */

#define ECHOES 60
#define WINDOW 5

static size_t echo_size(uint64_t i)
{
    return sizes[i % ARRAY_COUNT(sizes)];
}

/* Sends each message back; posts receives ahead. */
static void echo(struct mbx_ep *ep, uint32_t parent, const struct hello *theirs, int down)
{
    unsigned char *buf = malloc((size_t)WINDOW * LARGEST);
    mbx_request recv[WINDOW];

    (void)theirs;
    (void)down;
    for (uint64_t i = 0; i < WINDOW; i++)
        recv[i] = post(ep, i, buf + i * LARGEST, LARGEST);
    for (uint64_t i = 0; i < ECHOES; i++) {
        unsigned char *at = buf + i % WINDOW * LARGEST;

        await(ep, recv[i % WINDOW], echo_size(i));
        send_all(ep, parent, i, at, echo_size(i));
        if (i + WINDOW < ECHOES)
            recv[i % WINDOW] = post(ep, i + WINDOW, at, LARGEST);
    }
    free(buf);
}

static void test_both_devices_end_under_way(void **state)
{
    const struct configuration *config = *state;
    unsigned char *buf = malloc(LARGEST);

    for (int round = 0; round < (test_is_quick() ? 2 : 8); round++) {
        struct pair pair;
        struct cluster cl;

        pair_open(&pair, &cl, config, echo);
        for (uint64_t i = 0; i < ECHOES; i++) {
            const unsigned char *data = seeded_bytes((unsigned)i * 64, LARGEST);
            mbx_request back;

            memset(buf, 0, LARGEST);
            back = post(pair.ep, i, buf, LARGEST);
            if (i == 10 + 5 * (uint64_t)round)
                end_device(pair.ep);
            send_all(pair.ep, pair.other, i, data, echo_size(i));
            if (i == 30 - 3 * (uint64_t)round && pair.theirs.device != 0)
                assert_int_equal(kill(pair.theirs.device, SIGKILL), 0);
            await(pair.ep, back, echo_size(i));
            assert_memory_equal(buf, data, echo_size(i));
        }
        assert_true(pair.ep->offload->is_receiving);
        pair_close(&pair, &cl);
    }
    free(buf);
}

/* ---- the device ends while its application sleeps ---- */

static void await_sleep(pid_t pid)
{
    const uint64_t start = clock_now();

    while (state_of(pid) != 'S') {
        check(clock_now() - start < (uint64_t)PATIENCE_NS, "not asleep", pid);
        usleep(1000);
    }
}

/* Kills the parent's device while the parent sleeps, and then sends: no device is there to wake
 * it. */
static void kill_and_send(struct mbx_ep *ep, uint32_t parent, const struct hello *theirs,
                          int down)
{
    for (uint64_t i = 0; i < 2; i++) {
        char byte;

        check(read(down, &byte, 1) == 1, "read", errno);
        await_sleep(getppid());
        if (i == 0)
            check(kill(theirs->device, SIGKILL) == 0, "kill", errno);
        send_all(ep, parent, i, seeded_bytes(0, LARGEST), i == 0 ? 300 : LARGEST);
    }
}

static void test_a_sleeping_endpoint_notices(void **state)
{
    unsigned char *buf = malloc(LARGEST);
    struct pair pair;
    struct cluster cl;

    if (!is_of_processes(*state)) {
        free(buf);
        skip(); /* only its own process can end a thread */
    }
    pair_open(&pair, &cl, *state, kill_and_send);
    for (uint64_t i = 0; i < 2; i++) {
        mbx_request recv = post(pair.ep, i, buf, LARGEST);

        assert_int_equal(write(pair.down, "g", 1), 1);
        await(pair.ep, recv, i == 0 ? 300 : LARGEST);
        assert_memory_equal(buf, seeded_bytes(0, LARGEST), i == 0 ? 300 : LARGEST);
    }
    assert_true(cluster_stats(&cl, 0).sleeps > 0);
    assert_true(pair.ep->offload->is_receiving);
    pair_close(&pair, &cl);
    free(buf);
}

/* ---- the device ends while threads wait ---- */

#define THREADS 3
#define EACH    20

struct waiting {
    struct mbx_ep *ep;
    uint64_t first;
    unsigned char buf[EACH][300];
};

static void *wait_for_each(void *arg)
{
    struct waiting *waiting = arg;
    mbx_request recv[EACH];

    for (int i = 0; i < EACH; i++)
        recv[i] = post(waiting->ep, waiting->first + (uint64_t)i, waiting->buf[i], 300);
    for (int i = 0; i < EACH; i++) {
        await(waiting->ep, recv[i], 300);
        check(memcmp(waiting->buf[i], seeded_bytes((unsigned)waiting->first + (unsigned)i, 300),
                     300) == 0,
              "bytes", i);
    }
    return NULL;
}

/* Ends the device of the endpoint in which the threads wait. */
static void end_device_of_waiters(struct mbx_ep *ep)
{
    ep_lock(ep);
    end_device(ep);
    ep_unlock(ep);
}

static void test_threads_that_wait_go_on(void **state)
{
    static struct waiting waiting[THREADS];
    static const char *const many[] = {"THREADS=many", "LOG_LEVEL=error", NULL};

    for (int round = 0; round < (test_is_quick() ? 2 : 6); round++) {
        pthread_t threads[THREADS];
        struct cluster cl;

        cluster_open(&cl, *state, 2, many);
        for (int i = 0; i < THREADS; i++) {
            waiting[i].ep = cl.eps[1];
            waiting[i].first = (uint64_t)i * EACH;
            assert_int_equal(pthread_create(&threads[i], NULL, wait_for_each, &waiting[i]), 0);
        }
        for (int i = 0; i < THREADS * EACH; i++) {
            if (i == 10 * round)
                end_device_of_waiters(cl.eps[1]);
            send_all(cl.eps[0], 1, (uint64_t)i, seeded_bytes((unsigned)i, 300), 300);
        }
        for (int i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
        cluster_close(&cl);
    }
}

/* ---- the device is slow, and a peer is gone ---- */

#define EARLIER 5

/* Sends, closes, and is gone before the parent has handled a message of it. */
static void send_and_go(struct mbx_ep *ep, uint32_t parent, const struct hello *theirs,
                        int down)
{
    char byte;

    (void)theirs;
    check(read(down, &byte, 1) == 1, "read", errno);
    for (uint64_t i = 0; i < EARLIER; i++)
        check(mbx_inject(ep, parent, CONTEXT, i, seeded_bytes(0, 30), 30, 0) == 0, "inject", 0);
}

/* A receive that names a closed peer does not fail before the device has read the messages of
 * that peer. */
static void test_messages_of_a_gone_peer_are_received(void **state)
{
    static const char *const hasty[] = {"LOG_LEVEL=error", "PEER_TIMEOUT=20ms", NULL};
    unsigned char got[30];
    mbx_request recv;
    struct pair pair;
    struct cluster cl;
    int status;

    if (!is_of_processes(*state))
        skip();
    pair_open_with(&pair, &cl, *state, send_and_go, hasty);
    assert_int_equal(mbx_recv(pair.ep, pair.other, CONTEXT, 0, 0, got, sizeof got, NULL, &recv),
                     0);
    cluster_settle(&cl); /* the device has it */
    assert_int_equal(kill(device_pid(pair.ep), SIGSTOP), 0);
    assert_int_equal(write(pair.down, "g", 1), 1);
    assert_int_equal(waitpid(pair.child, &status, 0), pair.child);
    assert_int_equal(status, 0);
    for (uint64_t start = clock_now(); clock_now() - start < 100 * CLOCK_MS;)
        mbx_progress(pair.ep); /* checks several times whether the peer is alive */
    assert_int_equal(kill(device_pid(pair.ep), SIGCONT), 0);
    await(pair.ep, recv, sizeof got);
    assert_memory_equal(got, seeded_bytes(0, 30), sizeof got);
    for (uint64_t i = 1; i < EARLIER; i++) {
        assert_int_equal(
            mbx_recv(pair.ep, pair.other, CONTEXT, i, 0, got, sizeof got, NULL, &recv), 0);
        await(pair.ep, recv, sizeof got);
    }
    /* no other message can arrive */
    assert_int_equal(mbx_recv(pair.ep, pair.other, CONTEXT, 9, 0, got, sizeof got, NULL, &recv),
                     0);
    cluster_wait_error(&cl, 0, recv, -ENOTCONN);
    close(pair.down);
    close(pair.up);
    cluster_close(&cl);
}

/* ---- the application of the device dies ---- */

/* Receives the messages of the parent until it is killed. */
static void receive_for_ever(struct mbx_ep *ep, uint32_t parent, const struct hello *theirs,
                             int down)
{
    static unsigned char buf[WINDOW][LARGEST];
    mbx_request recv[WINDOW];

    (void)parent;
    (void)theirs;
    (void)down;
    for (int i = 0; i < WINDOW; i++)
        recv[i] = post(ep, 0, buf[i], LARGEST);
    for (int i = 0;; i = (i + 1) % WINDOW) {
        check(mbx_wait(ep, recv[i], PATIENCE_NS, NULL) == 0, "mbx_wait", 0);
        recv[i] = post(ep, 0, buf[i], LARGEST);
    }
}

/* A process that nobody has waited for is not running. */
static bool is_running(pid_t pid)
{
    const char state = state_of(pid);

    return state != 0 && state != 'Z' && state != 'X';
}

/* Sends messages of all sizes, up to n. */
static void flood(struct pair *pair, int n)
{
    const struct mbx_options silent = {.flags = MBX_SILENT};
    struct stats stats = {.full = 0};

    for (int i = 0; i < n && stats.requests_now < 100; i++) {
        assert_int_equal(mbx_send(pair->ep, pair->other, CONTEXT, 0, seeded_bytes(0, LARGEST),
                                  sizes[(unsigned)i % ARRAY_COUNT(sizes)], &silent, NULL),
                         0);
        mbx_progress(pair->ep);
        stats_read(pair->ep, &stats);
    }
}

static void test_it_does_not_outlive_its_application(void **state)
{
    if (!is_of_processes(*state))
        skip();
    for (int round = 0; round < 3; round++) {
        struct pair pair;
        struct cluster cl;
        uint64_t start;
        int status;

        pair_open(&pair, &cl, *state, receive_for_ever);
        flood(&pair, 300 * round); /* 0: the device is not used */
        assert_true(is_running(pair.theirs.device));
        kill(pair.child, SIGKILL);
        assert_int_equal(waitpid(pair.child, &status, 0), pair.child);
        for (start = clock_now(); is_running(pair.theirs.device);) {
            assert_true(clock_now() - start < (uint64_t)PATIENCE_NS);
            flood(&pair, 1);
            usleep(1000);
        }
        close(pair.down);
        close(pair.up);
        cluster_close(&cl);
    }
}

/* ---- the device is not used ---- */

/* The receives are below the threshold: a wait for one sleeps as without a device.  A wait that
 * ends before it has looked twice does not sleep at all. */
static void test_an_unused_device_keeps_nobody_awake(void **state)
{
    static const char *const unused[] = {"DEVICE_THRESHOLD=4K", "SPIN=0", NULL};
    uint64_t waits = 0;
    struct cluster cl;
    mbx_request recv;
    char byte;

    cluster_open(&cl, *state, 2, unused);
    recv = post(cl.eps[0], 0, &byte, 1);
    do {
        assert_int_equal(mbx_wait(cl.eps[0], recv, 20 * (int64_t)CLOCK_MS, NULL), -ETIMEDOUT);
        assert_true(++waits < 1000);
    } while (cluster_stats(&cl, 0).sleeps == 0);
    assert_in_range(cluster_stats(&cl, 0).sleeps, 1, 20);
    assert_int_equal(cluster_stats(&cl, 0).device_handed, 0);
    cluster_close(&cl);
}

/* ---- the device never begins ---- */

/* Opens an endpoint with this program as its device.  Returns the error; `said` gets the
 * standard error. */
static int open_with(const char *program, const char *answer, char *said, size_t size)
{
    char parameter[300];
    const char *const params[] = {"TRANSPORT=shm", "DEVICE=soft-process", answer, parameter,
                                  NULL};
    struct mbx_ep *ep = (void *)1;
    FILE *file = tmpfile();
    int err, old = dup(2);

    snprintf(parameter, sizeof parameter, "DEVICE_PROGRAM=%s", program);
    fflush(stderr);
    dup2(fileno(file), 2);
    err = mbx_open(&(struct mbx_config){.params = params}, &ep);
    fflush(stderr);
    dup2(old, 2);
    close(old);
    rewind(file);
    said[fread(said, 1, size - 1, file)] = '\0';
    fclose(file);
    assert_ptr_equal(ep, (void *)1);
    return err;
}

static void make_file(const char *path, mode_t mode, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
}

/* A program that ends is noticed at once; for one that stays, there is a time limit. */
static void test_programs_that_are_no_device(void **state)
{
    char folder[TEMPORARY_SIZE], plain[TEMPORARY_SIZE + 8], text[TEMPORARY_SIZE + 8],
        script[TEMPORARY_SIZE + 8], blocks[TEMPORARY_SIZE + 8];
    const struct {
        const char *program;
        int error;
    } cases[] = {
        {"/nonexistent/matchbox-device", -ENOENT},
        {plain, -EACCES},
        {folder, -EACCES},
        {text, -ENOEXEC},
        {script, -ENODEV},
        {"/bin/true", -ENODEV},
        {blocks, -ETIMEDOUT},
    };
    uint64_t mem = mem_live();
    int64_t fds = sys_fds_live(), maps = sys_maps_live();
    char said[1000];

    if (!is_of_processes(*state))
        skip();
    assert_non_null(mkdtemp(temporary_name(folder, "device-end")));
    snprintf(plain, sizeof plain, "%s/plain", folder);
    snprintf(text, sizeof text, "%s/text", folder);
    snprintf(script, sizeof script, "%s/script", folder);
    make_file(plain, 0600, "#!/bin/sh\n");
    make_file(text, 0700, "no program\n");
    snprintf(blocks, sizeof blocks, "%s/blocks", folder);
    make_file(script, 0700, "#!/bin/sh\nexit 3\n");
    make_file(blocks, 0700, "#!/bin/sh\nexec sleep 60\n");
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        const char *answer =
            cases[i].error == -ETIMEDOUT ? "DEVICE_ANSWER=100ms" : "DEVICE_ANSWER=600s";
        int err = open_with(cases[i].program, answer, said, sizeof said);

        if (err != cases[i].error || strstr(said, cases[i].program) == NULL ||
            (strstr(said, "install matchbox-device") == NULL &&
             strstr(said, "matchbox-device of this version") == NULL))
            fail_msg("%s: error %d, said: %s", cases[i].program, err, said);
        assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
        assert_int_equal(errno, ECHILD);
    }
    assert_int_equal(mem_live(), mem);
    assert_int_equal(sys_fds_live(), fds);
    assert_int_equal(sys_maps_live(), maps);
    unlink(plain);
    unlink(text);
    unlink(script);
    unlink(blocks);
    rmdir(folder);
}

/* Configurations whose device runs concurrently with the threads of the process, and one whose
 * device does not. */
static bool is_meant(const struct configuration *config)
{
    return (config_is_elsewhere(config) && config_has_soft_device(config)) ||
           strcmp(config->name, "shm-soft-16") == 0;
}

/* No adapter is usable here: matching continues in software. */
static void test_no_hardware(void **state)
{
    static const char *const more[] = {"DEVICE=verbs", "LOG_LEVEL=error", NULL};
    const char *const alone[] = {"TRANSPORT=loop", "DEVICE=verbs", "MATCH=device",
                                 "LOG_LEVEL=error", NULL};
    struct mbx_ep *ep = NULL;
    mbx_request recv;
    struct cluster cl;
    char got = 0;

    cluster_open(&cl, *state, 2, more);
    assert_null(cl.eps[0]->offload);
    assert_int_equal(mbx_recv(cl.eps[0], 1, 7, 1, 0, &got, 1, NULL, &recv), 0);
    assert_int_equal(mbx_inject(cl.eps[1], 0, 7, 1, "x", 1, 0), 0);
    cluster_wait_error(&cl, 0, recv, 0);
    assert_int_equal(got, 'x');
    cluster_close(&cl);
    assert_int_equal(mbx_open(&(struct mbx_config){.params = alone}, &ep), -EINVAL);
    assert_null(ep);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_hardware),
        cmocka_unit_test(test_both_devices_end_under_way),
        cmocka_unit_test(test_a_sleeping_endpoint_notices),
        cmocka_unit_test(test_threads_that_wait_go_on),
        cmocka_unit_test(test_messages_of_a_gone_peer_are_received),
        cmocka_unit_test(test_it_does_not_outlive_its_application),
        cmocka_unit_test(test_an_unused_device_keeps_nobody_awake),
        cmocka_unit_test(test_programs_that_are_no_device),
    };

    return test_main_for(argc, argv, is_meant, tests, ARRAY_COUNT(tests));
}
