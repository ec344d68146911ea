/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * boot_test.c - ranks as forked processes on one board, sound and damaged.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/sys.h"
#include "base/unit.h"
#include "boot/kvs_shm.h"

#define RANKS  5
#define ROUNDS 50

/* The program of a forked rank; its result is the exit code. */
typedef int rank_fn(struct boot *b);

static char log_text[LOG_LINE_MAX];

static void keep_log(UNUSED void *arg, enum log_level level, const char *text)
{
    (void)level;
    snprintf(log_text, sizeof log_text, "%s", text);
}

static void set_environment(int fd, const char *rank)
{
    char text[64];

    snprintf(text, sizeof text, "%d:%s", fd, rank);
    setenv(KVS_SHM_ENVIRONMENT, text, 1);
}

static pid_t start_rank(int fd, uint32_t rank, rank_fn *fn)
{
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        struct boot *b;
        char text[16];
        int result;

        snprintf(text, sizeof text, "%u", rank);
        set_environment(fd, text);
        if (boot_open(0, &b) != 0 || b->rank != rank)
            _exit(99);
        result = fn(b);
        b->ops->close(b);
        _exit(result);
    }
    return pid;
}

/* Waits for a rank and marks it as ended on the board, as the launcher does. */
static int end_rank(struct kvs_shm *kvs_shm, uint32_t rank, pid_t pid)
{
    int status;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    kvs_shm_rank_ended(kvs_shm, rank);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* ---- ranks ---- */

static int all_rounds(struct boot *b)
{
    uint32_t value[2], got[2];

    if (b->ops->get(b, 0, got, sizeof got) != -ENOENT)
        return 1;
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        value[0] = round;
        value[1] = b->rank;
        if (b->ops->put(b, value, sizeof value) != 0 || b->ops->fence(b) != 0)
            return 2;
        for (uint32_t rank = 0; rank < b->size; rank++)
            if (b->ops->get(b, rank, got, sizeof got) != 0 || got[0] != round || got[1] != rank)
                return 3;
    }
    return 0;
}

/* 0 the fence succeeded, otherwise its error. */
static int one_fence(struct boot *b)
{
    return -b->ops->fence(b);
}

static int no_fence(UNUSED struct boot *b)
{
    return 0;
}

static int reopen_between_fences(struct boot *b)
{
    struct boot *again;
    uint32_t value = b->rank, got;

    if (b->ops->fence(b) != 0 || boot_open(0, &again) != 0)
        return 1;
    if (again->ops->put(again, &value, sizeof value) != 0 || again->ops->fence(again) != 0)
        return 2;
    for (uint32_t rank = 0; rank < b->size; rank++)
        if (again->ops->get(again, rank, &got, sizeof got) != 0 || got != rank)
            return 3;
    again->ops->close(again);
    return 0;
}

static void on_alarm(UNUSED int signal)
{
}

static int has_been_interrupted[2]; /* a pipe; a byte for each of the other ranks */

/* Rank 0 is interrupted in the fence, reports that, and goes on; until then the others stay
 * away.  A single alarm could come before the fence sleeps, so alarms repeat until it has been
 * interrupted. */
static int interrupted_fence(struct boot *b)
{
    static const struct itimerval often = {.it_interval = {.tv_usec = 10000},
                                           .it_value = {.tv_usec = 10000}};
    static const struct itimerval never;
    struct sigaction action = {.sa_handler = on_alarm};
    char bytes[RANKS - 1] = {0};

    if (b->rank != 0)
        return read(has_been_interrupted[0], bytes, 1) == 1 ? -b->ops->fence(b) : 97;
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    if (b->ops->fence(b) != -EINTR)
        return 98;
    setitimer(ITIMER_REAL, &never, NULL);
    if (write(has_been_interrupted[1], bytes, sizeof bytes) != sizeof bytes)
        return 97;
    return -b->ops->fence(b);
}

static int wrong_size(struct boot *b)
{
    uint32_t value = 1;
    uint64_t got = 77;

    if (b->ops->put(b, &value, sizeof value) != 0 || b->ops->fence(b) != 0)
        return 1;
    return b->ops->get(b, 0, &got, sizeof got) == -EPROTO && got == 77 ? 0 : 2;
}

/* ---- tests ---- */

static void run_all(rank_fn *fn, uint32_t ranks)
{
    struct kvs_shm kvs_shm;
    pid_t pids[RANKS];
    int fd;

    assert_int_equal(kvs_shm_create(&kvs_shm, ranks, &fd), 0);
    for (uint32_t rank = 0; rank < ranks; rank++)
        pids[rank] = start_rank(fd, rank, fn);
    for (uint32_t rank = 0; rank < ranks; rank++)
        assert_int_equal(end_rank(&kvs_shm, rank, pids[rank]), 0);
    kvs_shm_close(&kvs_shm);
    sys_close(fd);
    assert_int_equal(sys_maps_live(), 0);
    assert_int_equal(sys_fds_live(), 0);
}

static void values_arrive_in_every_round(UNUSED void **state)
{
    run_all(all_rounds, 1);
    run_all(all_rounds, 2);
    run_all(all_rounds, RANKS);
}

static void a_rank_may_open_again(UNUSED void **state)
{
    run_all(reopen_between_fences, RANKS);
}

static void an_interrupted_fence_goes_on(UNUSED void **state)
{
    assert_int_equal(pipe(has_been_interrupted), 0);
    run_all(interrupted_fence, RANKS);
    close(has_been_interrupted[0]);
    close(has_been_interrupted[1]);
}

static void a_value_of_another_size_is_refused(UNUSED void **state)
{
    run_all(wrong_size, 2);
}

static void a_fence_without_a_rank_that_ended_fails(UNUSED void **state)
{
    struct kvs_shm kvs_shm;
    pid_t pids[RANKS];
    int fd;

    assert_int_equal(kvs_shm_create(&kvs_shm, RANKS, &fd), 0);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        pids[rank] = start_rank(fd, rank, rank == 3 ? no_fence : one_fence);
    assert_int_equal(end_rank(&kvs_shm, 3, pids[3]), 0);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        if (rank != 3)
            assert_int_equal(end_rank(&kvs_shm, rank, pids[rank]), ECONNRESET);
    kvs_shm_close(&kvs_shm);
    sys_close(fd);
}

static void a_fence_with_a_rank_that_ended_later_succeeds(UNUSED void **state)
{
    struct kvs_shm kvs_shm;
    pid_t early, late;
    int fd;

    assert_int_equal(kvs_shm_create(&kvs_shm, 2, &fd), 0);
    early = start_rank(fd, 0, one_fence);
    while (atomic_load(&kvs_shm.shared->slot[0].joined) == 0)
        usleep(1000);
    late = start_rank(fd, 1, one_fence);
    assert_int_equal(end_rank(&kvs_shm, 0, early), 0);
    assert_int_equal(end_rank(&kvs_shm, 1, late), 0);
    kvs_shm_close(&kvs_shm);
    sys_close(fd);
}

/* Opens the board in fd as this rank; returns the result of boot_open(). */
static int open_as(int fd, const char *rank)
{
    struct boot *b;
    int err;

    log_text[0] = '\0';
    set_environment(fd, rank);
    log_set_sink(keep_log, NULL);
    err = boot_open(0, &b);
    log_set_sink(NULL, NULL);
    unsetenv(KVS_SHM_ENVIRONMENT);
    if (err == 0)
        b->ops->close(b);
    return err;
}

static void a_damaged_environment_is_refused(UNUSED void **state)
{
    static const char *const texts[] = {"",
                                        ":",
                                        "3",
                                        "3:",
                                        ":0",
                                        "x:0",
                                        "3:x",
                                        "-1:0",
                                        "3:0 ",
                                        "99999999999:0",
                                        "3:99999999999",
                                        "3:0:0"};
    struct boot *b = NULL;

    for (size_t i = 0; i < ARRAY_COUNT(texts); i++) {
        log_text[0] = '\0';
        setenv(KVS_SHM_ENVIRONMENT, texts[i], 1);
        log_set_sink(keep_log, NULL);
        assert_int_equal(boot_open(0, &b), -EPROTO);
        log_set_sink(NULL, NULL);
        assert_non_null(strstr(log_text, KVS_SHM_ENVIRONMENT));
        assert_null(b);
    }
    unsetenv(KVS_SHM_ENVIRONMENT);
    assert_int_equal(mem_live(), 0);
}

static void a_damaged_kvs_shm_is_refused(UNUSED void **state)
{
    struct kvs_shm kvs_shm;
    struct kvs_shm_head sound;
    int fd;

    assert_int_equal(kvs_shm_create(&kvs_shm, 2, &fd), 0);
    sound = kvs_shm.shared->head;
    assert_int_equal(open_as(fd, "1"), 0);
    assert_int_equal(open_as(fd, "2"), -EPROTO);

    kvs_shm.shared->head.magic ^= 1;
    assert_int_equal(open_as(fd, "0"), -EPROTO);
    assert_non_null(strstr(log_text, "magic"));
    kvs_shm.shared->head = sound;
    kvs_shm.shared->head.version = 77;
    assert_int_equal(open_as(fd, "0"), -EPROTO);
    assert_non_null(
        strstr(log_text, "is of version 77, and this library reads version 3: use"));
    kvs_shm.shared->head = sound;
    kvs_shm.shared->head.ranks = 3;
    assert_int_equal(open_as(fd, "0"), -EPROTO);
    kvs_shm.shared->head.ranks = 0;
    assert_int_equal(open_as(fd, "0"), -EPROTO);
    kvs_shm.shared->head.ranks = UINT32_MAX;
    assert_int_equal(open_as(fd, "0"), -EPROTO);
    kvs_shm.shared->head = sound;
    kvs_shm.shared->head.bytes += 64;
    assert_int_equal(open_as(fd, "0"), -EPROTO);
    kvs_shm.shared->head = sound;
    assert_int_equal(open_as(fd, "0"), 0);

    kvs_shm_close(&kvs_shm);
    sys_close(fd);
    assert_int_equal(open_as(fd, "0"), -EPROTO);
    assert_non_null(strstr(log_text, "not open"));
    assert_int_equal(mem_live(), 0);
    assert_int_equal(sys_maps_live(), 0);
}

static void other_files_are_no_kvs_shm(UNUSED void **state)
{
    int null = open("/dev/null", O_RDWR);
    int empty = sys_memfd_create("empty", 0);
    FILE *file = tmpfile();

    assert_true(null >= 0 && empty >= 0 && file != NULL);
    assert_int_equal(open_as(null, "0"), -EPROTO);
    assert_int_equal(open_as(empty, "0"), -EPROTO);
    assert_int_equal(open_as(fileno(file), "0"), -EPROTO);
    close(null);
    sys_close(empty);
    fclose(file);
}

/* The second of two ranks, in this process, with a board that the test can reach. */
static struct boot *open_second(struct kvs_shm *kvs_shm, int *fd)
{
    struct boot *b;

    assert_int_equal(kvs_shm_create(kvs_shm, 2, fd), 0);
    set_environment(*fd, "1");
    assert_int_equal(boot_open(0, &b), 0);
    unsetenv(KVS_SHM_ENVIRONMENT);
    return b;
}

static void close_second(struct boot *b, struct kvs_shm *kvs_shm, int fd)
{
    b->ops->close(b);
    kvs_shm_close(kvs_shm);
    sys_close(fd);
    assert_int_equal(mem_live(), 0);
}

static void a_damaged_value_is_refused(UNUSED void **state)
{
    struct kvs_shm kvs_shm;
    struct kvs_shm_value *value;
    uint32_t put = 5, got = 6;
    int fd;
    struct boot *b = open_second(&kvs_shm, &fd);

    log_set_sink(keep_log, NULL);
    assert_int_equal(b->ops->put(b, &put, BOOT_VALUE_MAX + 1), -EMSGSIZE);
    assert_int_equal(b->ops->put(b, &put, sizeof put), 0);
    atomic_store(&kvs_shm.shared->slot[0].joined, 1);
    atomic_store(&kvs_shm.shared->arrivals, 1);
    assert_int_equal(b->ops->fence(b), 0);
    assert_int_equal(b->ops->get(b, 0, &got, sizeof got), -ENOENT);
    assert_int_equal(b->ops->get(b, 1, &got, sizeof got), 0);
    assert_int_equal(got, 5);

    value = &kvs_shm.shared->slot[1].value[1];
    value->bytes[0] ^= 0x10;
    assert_int_equal(b->ops->get(b, 1, &got, sizeof got), -EPROTO);
    value->bytes[0] ^= 0x10;
    value->size = UINT32_MAX;
    assert_int_equal(b->ops->get(b, 1, &got, sizeof got), -EPROTO);
    value->size = sizeof put;
    /* a value of another rank is not accepted as this one's */
    kvs_shm.shared->slot[0].value[1] = *value;
    assert_int_equal(b->ops->get(b, 0, &got, sizeof got), -EPROTO);
    assert_int_equal(b->ops->get(b, 1, &got, sizeof got), 0);
    log_set_sink(NULL, NULL);
    close_second(b, &kvs_shm, fd);
}

static void fences_that_do_not_add_up_are_refused(UNUSED void **state)
{
    struct kvs_shm kvs_shm;
    int fd;
    struct boot *b = open_second(&kvs_shm, &fd);

    log_set_sink(keep_log, NULL);
    atomic_store(&kvs_shm.shared->arrivals, 100);
    assert_int_equal(b->ops->fence(b), -EPROTO);
    atomic_store(&kvs_shm.shared->arrivals, 2);
    atomic_store(&kvs_shm.shared->slot[0].joined, 9);
    assert_int_equal(b->ops->fence(b), -EPROTO);
    log_set_sink(NULL, NULL);
    close_second(b, &kvs_shm, fd);
}

static void alone_is_a_job_of_one(UNUSED void **state)
{
    struct boot *b;

    unsetenv(KVS_SHM_ENVIRONMENT);
    assert_int_equal(boot_open(0, &b), 0);
    assert_int_equal(b->rank, 0);
    assert_int_equal(b->size, 1);
    assert_int_equal(all_rounds(b), 0);
    b->ops->close(b);
    assert_int_equal(mem_live(), 0);
}

static void every_failing_call_is_survived(UNUSED void **state)
{
    struct kvs_shm kvs_shm;
    int fd, err;

    log_set_sink(keep_log, NULL);
    for (uint64_t n = 1;; n++) {
        sys_fail_at(n, EMFILE);
        err = kvs_shm_create(&kvs_shm, 2, &fd);
        sys_fail_none();
        if (err == 0)
            break;
        assert_int_equal(err, -EMFILE);
        assert_int_equal(sys_maps_live(), 0);
        assert_int_equal(sys_fds_live(), 0);
    }
    for (uint64_t n = 1;; n++) {
        sys_fail_at(n, ENOMEM);
        err = open_as(fd, "0");
        sys_fail_none();
        if (err == 0)
            break;
        assert_true(err == -ENOMEM || err == -EPROTO);
        assert_int_equal(sys_maps_live(), 1);
        assert_int_equal(mem_live(), 0);
    }
    mem_fail_at(1);
    assert_int_equal(open_as(fd, "0"), -ENOMEM);
    mem_fail_at(0);
    kvs_shm_close(&kvs_shm);
    sys_close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_arrive_in_every_round),
        cmocka_unit_test(a_rank_may_open_again),
        cmocka_unit_test(an_interrupted_fence_goes_on),
        cmocka_unit_test(a_value_of_another_size_is_refused),
        cmocka_unit_test(a_fence_without_a_rank_that_ended_fails),
        cmocka_unit_test(a_fence_with_a_rank_that_ended_later_succeeds),
        cmocka_unit_test(a_damaged_environment_is_refused),
        cmocka_unit_test(a_damaged_kvs_shm_is_refused),
        cmocka_unit_test(other_files_are_no_kvs_shm),
        cmocka_unit_test(a_damaged_value_is_refused),
        cmocka_unit_test(fences_that_do_not_add_up_are_refused),
        cmocka_unit_test(alone_is_a_job_of_one),
        cmocka_unit_test(every_failing_call_is_survived),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
