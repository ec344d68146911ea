/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * socket_test.c - two ranks on a pair of sockets, and a rank whose peer sends invalid frames.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sys.h"
#include "base/unit.h"
#include "boot/kvs_shm.h"
#include "boot/socket.h"

#define ROUNDS 50

static char log_text[LOG_LINE_MAX];

static void keep_log(UNUSED void *arg, enum log_level level, const char *text)
{
    (void)level;
    snprintf(log_text, sizeof log_text, "%s", text);
}

static int open_text(const char *text, uint64_t timeout_ns, struct boot **b)
{
    int err;

    log_text[0] = '\0';
    setenv(KVS_SHM_ENVIRONMENT, text, 1);
    log_set_sink(keep_log, NULL);
    err = boot_open(timeout_ns, b);
    return err;
}

static int open_rank(int fd, int rank, uint64_t timeout_ns, struct boot **b)
{
    char text[64];

    snprintf(text, sizeof text, BOOT_SOCKET "%d:%d", fd, rank);
    return open_text(text, timeout_ns, b);
}

static void connect_pair(int fds[2])
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
}

static void close_pair(const int fds[2])
{
    close(fds[0]);
    close(fds[1]);
    log_set_sink(NULL, NULL);
    unsetenv(KVS_SHM_ENVIRONMENT);
    assert_int_equal(mem_live(), 0);
}

/* ---- two ranks ---- */

static int all_rounds(struct boot *b)
{
    uint32_t value[2], got[2];
    bool is_spread = true;

    if (b->size != 2 || b->ops->get(b, 1 - b->rank, got, sizeof got) != -ENOENT ||
        boot_is_spread(&is_spread) != 0 || is_spread)
        return 1;
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        value[0] = round;
        value[1] = b->rank;
        if (b->ops->put(b, value, sizeof value) != 0 || b->ops->fence(b) != 0)
            return 2;
        for (uint32_t rank = 0; rank < 2; rank++)
            if (b->ops->get(b, rank, got, sizeof got) != 0 || got[0] != round || got[1] != rank)
                return 3;
    }
    if (b->ops->fence(b) != 0 || b->ops->get(b, 0, got, sizeof got) != -ENOENT)
        return 4;
    b->ops->put(b, b->key, BOOT_KEY_SIZE);
    if (b->ops->fence(b) != 0 || b->ops->get(b, 0, got, sizeof got) != -EPROTO)
        return 5;
    for (uint32_t rank = 0; rank < 2; rank++) {
        uint8_t key[BOOT_KEY_SIZE];

        if (b->ops->get(b, rank, key, sizeof key) != 0 || memcmp(key, b->key, sizeof key) != 0)
            return 6;
    }
    return 0;
}

/* The program of the other rank, a process, with its side of the socket; its result is the exit
 * code. */
typedef int other_fn(int fd, const void *arg);

static pid_t start_other(const int fds[2], other_fn *fn, const void *arg)
{
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        close(fds[0]);
        _exit(fn(fds[1], arg));
    }
    return pid;
}

static void end_other(pid_t pid, int code)
{
    int status;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), code);
}

static int other_rounds(int fd, UNUSED const void *arg)
{
    struct boot *b;
    int result;

    if (open_rank(fd, 1, 0, &b) != 0)
        return 99;
    result = all_rounds(b);
    b->ops->close(b);
    return result;
}

static void values_arrive_in_every_round(UNUSED void **state)
{
    struct boot *b;
    int fds[2];
    pid_t pid;

    connect_pair(fds);
    pid = start_other(fds, other_rounds, NULL);
    assert_int_equal(open_rank(fds[0], 0, 0, &b), 0);
    assert_int_equal(all_rounds(b), 0);
    b->ops->close(b);
    end_other(pid, 0);
    close_pair(fds);
}

/* ---- others that are not correct ---- */

/* Sends frame 0 back with a change, and the next one unchanged. */
struct change {
    size_t offset; /* of the changed byte in the frame */
    uint8_t flip;
    int frames; /* the number of frames that are sent */
    int err;    /* of the rank; 0: it opens */
    const char *says;
};

static int read_frame(int fd, struct frame *f)
{
    return recv(fd, f, sizeof *f, MSG_WAITALL) == sizeof *f ? 0 : -1;
}

static int other_changed(int fd, const void *arg)
{
    const struct change *change = arg;
    struct frame f;

    for (int i = 0; i < change->frames; i++) {
        if (read_frame(fd, &f) != 0)
            return 1;
        ((uint8_t *)&f)[change->offset] ^= change->flip;
        if (send(fd, &f, sizeof f, MSG_NOSIGNAL) != sizeof f)
            return 2;
    }
    return 0;
}

static void what_no_rank_says_is_refused(UNUSED void **state)
{
    static const struct change changes[] = {
        {offsetof(struct frame, value), 0, 1, 0, ""}, /* the rank's own frame */
        {offsetof(struct frame, magic), 1, 1, -EPROTO, "damaged"},
        {offsetof(struct frame, round), 1, 1, -EPROTO, "damaged"},
        {offsetof(struct frame, version), 2, 1, -EPROTO, "same Matchbox"},
        {offsetof(struct frame, size) + 1, 1, 1, -EPROTO, "damaged"},
        {offsetof(struct frame, size), 1, 1, -EPROTO, "expected"},
        {0, 0, 0, -ECONNRESET, "has ended"},
    };

    for (size_t i = 0; i < ARRAY_COUNT(changes); i++) {
        struct boot *b;
        int fds[2], err;
        pid_t pid;

        connect_pair(fds);
        pid = start_other(fds, other_changed, &changes[i]);
        close(fds[1]);
        fds[1] = -1;
        err = open_rank(fds[0], 0, 0, &b);
        assert_int_equal(err, changes[i].err);
        assert_non_null(strstr(log_text, changes[i].says));
        end_other(pid, 0);
        if (err == 0) { /* the other rank has ended */
            assert_int_equal(b->ops->put(b, &fds, BOOT_VALUE_MAX + 1), -EMSGSIZE);
            assert_int_equal(b->ops->fence(b), -ECONNRESET);
            assert_int_equal(b->ops->fence(b), -ECONNRESET);
            b->ops->close(b);
        }
        close_pair(fds);
    }
}

static void a_silent_rank_is_given_up(UNUSED void **state)
{
    struct boot *b;
    int fds[2];

    connect_pair(fds);
    assert_int_equal(open_rank(fds[0], 1, 20 * CLOCK_MS, &b), -ECONNRESET);
    assert_non_null(strstr(log_text, "MBX_BOOT_TIMEOUT"));
    close_pair(fds);
}

static void a_damaged_environment_is_refused(UNUSED void **state)
{
    static const char *const texts[] = {
        "socket:",     "socket:3",   "socket:3:",
        "socket:3:2",  "socket::0",  "socket:-1:0",
        "socket:3:0 ", "socket:x:0", "socket:99999999999999999999:0"};
    struct boot *b = NULL;

    for (size_t i = 0; i < ARRAY_COUNT(texts); i++) {
        assert_int_equal(open_text(texts[i], 0, &b), -EPROTO);
        assert_non_null(strstr(log_text, texts[i]));
        assert_null(b);
    }
    close_pair((int[]){-1, -1});
}

static void every_failing_call_is_survived(UNUSED void **state)
{
    static const struct change sound = {0, 0, 1, 0, ""};
    struct boot *b;
    int err;

    for (uint64_t n = 1;; n++) {
        int fds[2];
        pid_t pid;

        connect_pair(fds);
        pid = start_other(fds, other_changed, &sound);
        sys_fail_at(n, EIO);
        err = open_rank(fds[0], 0, 0, &b);
        sys_fail_none();
        close(fds[0]);
        fds[0] = -1;
        if (err == 0)
            b->ops->close(b);
        close(fds[1]);
        fds[1] = -1;
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        close_pair(fds);
        if (err == 0)
            break;
        assert_true(n < 100);
    }
    mem_fail_at(1);
    assert_int_equal(open_text(BOOT_SOCKET "0:0", 0, &b), -ENOMEM);
    mem_fail_at(0);
    close_pair((int[]){-1, -1});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_arrive_in_every_round),
        cmocka_unit_test(what_no_rank_says_is_refused),
        cmocka_unit_test(a_silent_rank_is_given_up),
        cmocka_unit_test(a_damaged_environment_is_refused),
        cmocka_unit_test(every_failing_call_is_survived),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
