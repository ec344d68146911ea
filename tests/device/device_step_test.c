/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device_loss_test.c kills at random moments, and some moments are a few instructions long: for
 * example between the mark that a packet is being delivered and the number of its events.  Here
 * the device is stopped as by a debugger while it gets receives and messages, then executes a
 * number of instructions, and is killed.  A story is a list of messages.  It is told once to
 * the end, to count its instructions, and then again for each of them (--long), or for some.
 *
 * All messages must be received, each once, in order, with their bytes, and all sends complete.
 * Only a message that came in fragments may have failed with -EIO.
 */
#include "device.h"
#include "cluster.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "base/base.h"
#include "core/core.h"
#include "device/host/offload.h"

/* The most instructions of a story. */
#define STEPS_MAX     1000000

#define CONTEXT       97
#define WARM          1 /* tags */
#define TOLD          2
#define TOLD_MAX      4
#define SIZE_MAX_TOLD 6000

/* Rounds without work for the device, after which the story is over. */
#define REST 3

struct story {
    const char *name;
    const char *eager_limit;
    int posted, sent; /* receives before the messages, and messages */
    size_t size;      /* of the first message; each later one is one byte shorter */
    bool is_sync;
};

static const struct story stories[] = {
    {"short messages", "EAGER_LIMIT=1M", 3, 3, 40, false},
    {"unexpected ones", "EAGER_LIMIT=1M", 0, 3, 40, false},
    {"one posted, two not", "EAGER_LIMIT=1M", 1, 3, 300, false},
    {"synchronous ones", "EAGER_LIMIT=1M", 2, 3, 40, true},
    {"fragments", "EAGER_LIMIT=1M", 2, 2, 3000, false},
    {"synchronous fragments", "EAGER_LIMIT=1M", 1, 2, 3000, true},
    {"rendezvous", "EAGER_LIMIT=64", 2, 2, SIZE_MAX_TOLD, false},
};

static bool is_long;

struct telling {
    const struct story *story;
    struct cluster cl;
    struct softdev *device;
    unsigned char got[TOLD_MAX][SIZE_MAX_TOLD];
    mbx_request sends[TOLD_MAX], recvs[TOLD_MAX];
};

static size_t size_of(const struct story *story, int i)
{
    return story->size - (size_t)i;
}

static void post(struct telling *t, int i)
{
    assert_int_equal(mbx_recv(t->cl.eps[1], MBX_ANY_SOURCE, CONTEXT, TOLD, 0, t->got[i],
                              SIZE_MAX_TOLD, NULL, &t->recvs[i]),
                     0);
}

static void send_one(struct telling *t, int i)
{
    assert_int_equal((t->story->is_sync ? mbx_ssend : mbx_send)(
                         t->cl.eps[0], 1, CONTEXT, TOLD, seeded_bytes((unsigned)i * 20, 6000),
                         size_of(t->story, i), NULL, &t->sends[i]),
                     0);
}

/* ---- opening and closing ---- */

/* The sender has no device.  The receiver's device never sleeps, and is already in use. */
static void telling_open(struct telling *t, const struct story *story,
                         const struct configuration *config)
{
    const char *sender[] = {"MATCH=software", story->eager_limit, "SHM_RING_SIZE=4K", NULL};
    const char *receiver[] = {"DEVICE_SPIN=10s", "SHM_RING_SIZE=4K", "LOG_LEVEL=error", NULL};
    struct mbx_address address;
    mbx_request recv;
    uint32_t number;

    *t = (struct telling){.story = story};
    cluster_open(&t->cl, config, 0, NULL);
    t->cl.count = 2;
    t->cl.eps[0] = cluster_open_one(config, sender);
    t->cl.eps[1] = cluster_open_one(config, receiver);
    for (int i = 0; i < 4; i++) {
        mbx_address_get(t->cl.eps[i % 2], &address);
        assert_int_equal(mbx_peer_add(t->cl.eps[i / 2], &address, &number), 0);
    }
    t->device = device_of(t->cl.eps[1]);
    assert_int_equal(
        mbx_recv(t->cl.eps[1], MBX_ANY_SOURCE, CONTEXT, WARM, 0, t->got[0], 8, NULL, &recv), 0);
    cluster_settle(&t->cl); /* the device has the receive */
    assert_int_equal(mbx_inject(t->cl.eps[0], 1, CONTEXT, WARM, "warm", 4, 0), 0);
    cluster_wait(&t->cl, 1, recv, NULL);
    assert_int_equal(cluster_stats(&t->cl, 1).device_matched, 1);
}

/* ---- one instruction after the other ---- */

/* False: tracing is not permitted here, for the reason in errno. */
static bool hold(pid_t pid)
{
    int status;

    if (ptrace(PTRACE_SEIZE, pid, NULL, NULL) < 0)
        return false;
    assert_int_equal(ptrace(PTRACE_INTERRUPT, pid, NULL, NULL), 0);
    assert_int_equal(waitpid(pid, &status, __WALL), pid);
    assert_true(WIFSTOPPED(status));
    return true;
}

static void step(pid_t pid)
{
    int status;

    assert_int_equal(ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL), 0);
    assert_int_equal(waitpid(pid, &status, __WALL), pid);
    assert_true(WIFSTOPPED(status));
}

/* Makes at most this many steps, or until the device rests.  Returns their number. */
static long steps(struct telling *t, long most)
{
    uint64_t idle = 0, seen = 0;
    long n;

    for (n = 0; n < most && idle < REST; n++) {
        uint64_t now;

        step(t->device->pid);
        if (n % 256 == 0)
            mbx_progress(t->cl.eps[0]); /* the ring may be full */
        now = atomic_load(&t->device->channel->idle);
        idle += now != seen && n != 0;
        seen = now;
    }
    return n;
}

/* ---- a story ---- */

static void begin(struct telling *t)
{
    for (int i = 0; i < t->story->posted; i++)
        post(t, i);
    for (int i = 0; i < t->story->sent; i++)
        send_one(t, i);
}

static void check_receive(struct telling *t, int i)
{
    struct mbx_completion done;
    size_t size = size_of(t->story, i);

    cluster_wait(&t->cl, 1, t->recvs[i], &done);
    assert_int_equal(done.status.size, size); /* checks the order */
    if (done.error == -EIO && size + 8 > t->cl.eps[0]->limits.short_max &&
        size <= t->cl.eps[0]->settings.eager_limit)
        return;
    assert_int_equal(done.error, 0);
    assert_memory_equal(t->got[i], seeded_bytes((unsigned)i * 20, 6000), size);
}

static void finish(struct telling *t)
{
    struct stats stats;

    for (int i = t->story->posted; i < t->story->sent; i++)
        post(t, i);
    for (int i = 0; i < t->story->sent; i++)
        check_receive(t, i);
    for (int i = 0; i < t->story->sent; i++)
        cluster_wait_error(&t->cl, 0, t->sends[i], 0);
    stats = cluster_stats(&t->cl, 1);
    assert_int_equal(stats.expected + stats.unexpected, (uint64_t)t->story->sent + 1);
    cluster_close(&t->cl);
}

/* Tells the story up to this number of instructions.  Returns how many were executed; the negative
 * errno if tracing is impossible. */
static long tell(const struct story *story, const struct configuration *config, long most)
{
    static struct telling t;
    long count;

    telling_open(&t, story, config);
    if (!hold(t.device->pid)) {
        count = -errno;
        cluster_close(&t.cl);
        return count;
    }
    begin(&t);
    count = steps(&t, most);
    kill(t.device->pid, SIGKILL);
    finish(&t);
    return count;
}

/* The story and the step that were told last, to report an error. */
static const char *last_name;
static long last_step;

/* Skips the test, with the reason, if the first telling of a story has shown that it cannot be told here. */
static void skip_if_not_here(const struct story *story, long count)
{
    if (count >= 0 && count < STEPS_MAX)
        return;
    if (count < 0)
        printf("%s: skipped, no process can be traced here: %s\n", story->name,
               strerror((int)-count));
    else
        printf(
            "%s: skipped, the device does not rest within %d instructions: the machine is too "
            "slow\n",
            story->name, STEPS_MAX);
    skip();
}

static void test_killed_after_any_instruction(void **state)
{
    const struct configuration *config = *state;

#ifdef __SANITIZE_THREAD__
    printf("skipped: ThreadSanitizer makes many instructions of each\n");
    skip();
#endif
    for (size_t s = 0; s < ARRAY_COUNT(stories); s++) {
        long count, stride, told = 0;

        last_name = stories[s].name;
        last_step = -1;
        count = tell(&stories[s], config, STEPS_MAX);
        skip_if_not_here(&stories[s], count);
        assert_true(count > 100);
        stride = is_long ? 1 : 1 + count / (test_is_quick() ? 4 : 16);
        for (last_step = stride / 2; last_step < count; last_step += stride, told++)
            tell(&stories[s], config, last_step);
        printf("%s: %s, %ld instructions, killed after %ld of them\n", config->name,
               stories[s].name, count, told);
    }
    last_name = NULL;
}

static int tell_where(UNUSED void **state)
{
    if (last_name != NULL)
        fprintf(stderr, "%s, killed after instruction %ld\n", last_name, last_step);
    return 0;
}

static bool is_meant(const struct configuration *config)
{
    return strcmp(config->name, "shm-process") == 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_killed_after_any_instruction, tell_where),
    };

    argc = test_take_flag(argc, argv, "--long", &is_long);
    return test_main_for(argc, argv, is_meant, tests, ARRAY_COUNT(tests));
}
