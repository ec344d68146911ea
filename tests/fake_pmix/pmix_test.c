/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pmix_test.c - src/boot/pmix.c with a server that lies, fails, or does not answer.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/host.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/unit.h"
#include "boot/boot.h"
#include "fake_pmix.h"

static struct fake_pmix *fake;
static char log_text[LOG_LINE_MAX];

static void keep_log(void *arg, enum log_level level, const char *text)
{
    (void)arg;
    (void)level;
    snprintf(log_text, sizeof log_text, "%s", text);
}

static struct fake_value *fake_add(uint32_t rank, const char *key)
{
    struct fake_value *v = fake->values;

    while (v->key[0] != '\0')
        v++;
    v->rank = rank;
    snprintf(v->key, sizeof v->key, "%s", key);
    return v;
}

static void fake_number(const char *key, uint32_t number)
{
    struct fake_value *v = fake_add(PMIX_RANK_WILDCARD, key);

    v->type = PMIX_UINT32;
    v->number = number;
}

static void fake_bytes(uint32_t rank, const char *key, size_t size)
{
    struct fake_value *v = fake_add(rank, key);

    v->type = PMIX_BYTE_OBJECT;
    v->size = size;
    memset(v->bytes, 7, sizeof v->bytes);
}

#define CHECK(condition) check((condition), __LINE__, #condition)

/* A case is a process, and ends at the first error. */
static void check(bool is_right, int line, const char *text)
{
    if (is_right)
        return;
    fprintf(stderr, "line %d: %s; last log: %s\n", line, text, log_text);
    _exit(1);
}

typedef void case_fn(void);

static void run_case(case_fn *fn)
{
    int status;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        log_set_sink(keep_log, NULL);
        fake = dlsym(dlopen("libpmix.so.2", RTLD_NOW), "fake_pmix");
        if (fake == NULL)
            _exit(2);
        fn();
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static int open_error(void)
{
    struct boot *b = NULL;
    int err = boot_open(CLOCK_MS, &b);

    return err == 0 || b != NULL ? 1 : err;
}

/* ---- cases ---- */

static void case_rounds(void)
{
    struct boot *b, *again;
    uint32_t got = 0;

    fake_number(PMIX_JOB_SIZE, 1);
    CHECK(boot_open(0, &b) == 0);
    CHECK(b->rank == 0 && b->size == 1 && fake->fences == 1 && fake->exchanges == 1);
    CHECK(b->ops->get(b, 0, &got, sizeof got) == -ENOENT);
    for (uint32_t round = 1; round < 20; round++) {
        CHECK(b->ops->put(b, &round, sizeof round) == 0);
        CHECK(b->ops->fence(b) == 0);
        CHECK(b->ops->get(b, 0, &got, sizeof got) == 0 && got == round);
    }
    CHECK(fake->exchanges == 20);
    /* nothing was put, so nothing is exchanged, and nothing can be got */
    CHECK(b->ops->fence(b) == 0 && fake->fences == 21 && fake->exchanges == 20);
    CHECK(b->ops->get(b, 0, &got, sizeof got) == -ENOENT);
    CHECK(boot_open(0, &again) == 0);
    CHECK(memcmp(b->key, again->key, BOOT_KEY_SIZE) == 0 && fake->inits == 1);
    b->ops->close(b);
    again->ops->close(again);
    CHECK(mem_live() == 0 && fake->finalizes == 0);
}

static void case_other_rank(void)
{
    struct boot *b;
    uint8_t expected[BOOT_KEY_SIZE];

    memset(expected, 7, sizeof expected);
    fake->rank = 2;
    fake_number(PMIX_JOB_SIZE, 3);
    fake_bytes(0, "matchbox.key", BOOT_KEY_SIZE);
    CHECK(boot_open(0, &b) == 0 && b->rank == 2 && b->size == 3);
    CHECK(memcmp(b->key, expected, BOOT_KEY_SIZE) == 0);
}

/* Without an open job, the environment variables of launchers count. */
static void case_spread_by_environment(void)
{
    bool is_spread = true;

    CHECK(boot_is_spread(&is_spread) == 0 && !is_spread);
    setenv("OMPI_COMM_WORLD_SIZE", "4", 1);
    setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "2", 1);
    CHECK(boot_is_spread(&is_spread) == 0 && is_spread);
    setenv("MBX_BOOT", "3:0", 1); /* mbx run inside the job */
    CHECK(boot_is_spread(&is_spread) == 0 && !is_spread);
    unsetenv("MBX_BOOT");
    fake_number(PMIX_JOB_SIZE, 1);
    CHECK(open_error() == 1);
    CHECK(boot_is_spread(&is_spread) == 0 && !is_spread); /* the open job counts */
    setenv("MBX_BOOT", "single", 1);
    CHECK(boot_is_spread(&is_spread) == 0 && is_spread);
}

/* Ranks in containers, without an open job. */
static void case_apart_by_environment(void)
{
    char why[BOOT_WHY_SIZE], text[HOST_TEXT_SIZE];
    struct host host;

    CHECK(host_read(&host) == 0);
    host_text(&host, text);
    setenv("MBX_LAUNCHER_HOST", text, 1);
    CHECK(!boot_is_apart(why)); /* in the container of the launcher */
    host.user_namespace++;
    host_text(&host, text);
    setenv("MBX_LAUNCHER_HOST", text, 1);
    CHECK(boot_is_apart(why) &&
          strcmp(why, "is in another user namespace than its launcher") == 0);
    setenv("MBX_LAUNCHER_HOST", "there", 1);
    (void)boot_is_apart(why);
    CHECK(strstr(log_text, "MBX_LAUNCHER_HOST=there is not what") != NULL);
    setenv("MBX_LAUNCHER_HOST", text, 1);
    setenv("MBX_BOOT", "single", 1);
    CHECK(!boot_is_apart(why)); /* a single process is apart from nobody */
    setenv("MBX_BOOT", "3:0", 1);
    CHECK(boot_is_apart(why));
    unsetenv("MBX_BOOT");
    fake_number(PMIX_JOB_SIZE, 1);
    CHECK(open_error() == 1);
    CHECK(!boot_is_apart(why)); /* the open job counts */
}

static void fake_host(uint32_t rank, uint64_t host)
{
    struct fake_value *v;

    fake_bytes(rank, "matchbox.host", sizeof host);
    for (v = fake->values; v->rank != rank || strcmp(v->key, "matchbox.host") != 0; v++)
        ;
    memcpy(v->bytes, &host, sizeof host);
}

/* A job of three, the two others on a host each. */
static void open_three(uint64_t second, uint64_t third)
{
    struct boot *b;

    fake_number(PMIX_JOB_SIZE, 3);
    fake_host(1, second);
    fake_host(2, third);
    CHECK(boot_open(CLOCK_MS, &b) == 0);
    b->ops->close(b);
}

static void case_one_host(void)
{
    bool is_spread = true;
    uint64_t host;

    CHECK(host_id(&host) == 0);
    open_three(host, host);
    CHECK(boot_is_spread(&is_spread) == 0 && !is_spread);
}

static void case_another_host(void)
{
    bool is_spread = false;
    uint64_t host;

    CHECK(host_id(&host) == 0);
    open_three(host, host + 1);
    CHECK(boot_is_spread(&is_spread) == 0 && is_spread);
    fake->get = PMIX_ERR_UNREACH; /* the server is asked once */
    is_spread = false;
    CHECK(boot_is_spread(&is_spread) == 0 && is_spread);
    CHECK(mem_live() == 0);
}

static void case_damaged_hosts(void)
{
    bool is_spread = true;
    struct boot *b;

    fake_number(PMIX_JOB_SIZE, 2);
    CHECK(boot_open(CLOCK_MS, &b) == 0);
    CHECK(boot_is_spread(&is_spread) == -EPROTO && is_spread);
    CHECK(strstr(log_text, "rank 1 has not said") != NULL);
    fake_bytes(1, "matchbox.host", sizeof(uint64_t) + 1);
    CHECK(boot_is_spread(&is_spread) == -EPROTO && strstr(log_text, "damaged") != NULL);
    b->ops->close(b);
    CHECK(mem_live() == 0);
}

static void case_no_size(void)
{
    CHECK(open_error() == -EPROTO);
}

static void case_wrong_size(void)
{
    static const uint32_t sizes[] = {0, 1, UINT32_MAX}; /* sizes of a job with a rank 1 */

    fake->rank = 1;
    fake_number(PMIX_JOB_SIZE, 0);
    for (size_t i = 0; i < ARRAY_COUNT(sizes); i++) {
        fake->values[0].number = sizes[i];
        CHECK(open_error() == -EPROTO && strstr(log_text, "impossible job") != NULL);
    }
    fake->values[0].type = PMIX_BYTE_OBJECT;
    CHECK(open_error() == -EPROTO && strstr(log_text, "impossible job") != NULL);
    CHECK(mem_live() == 0);
}

static void case_no_key(void)
{
    fake->rank = 1;
    fake_number(PMIX_JOB_SIZE, 2);
    CHECK(open_error() == -EPROTO && strstr(log_text, "key") != NULL);
}

static void case_short_key(void)
{
    fake->rank = 1;
    fake_number(PMIX_JOB_SIZE, 2);
    fake_bytes(0, "matchbox.key", BOOT_KEY_SIZE - 1);
    CHECK(open_error() == -EPROTO && strstr(log_text, "damaged") != NULL);
}

static void case_init_fails(void)
{
    fake->init = PMIX_ERR_UNREACH;
    CHECK(open_error() == -EPROTO);
    fake->init = PMIX_ERR_NOMEM;
    CHECK(open_error() == -ENOMEM && mem_live() == 0);
    fake->init = PMIX_SUCCESS;
    fake_number(PMIX_JOB_SIZE, 1);
    fake->put = PMIX_ERR_NOMEM;
    CHECK(open_error() == -ENOMEM);
    fake->put = PMIX_SUCCESS;
    CHECK(open_error() == 1); /* early enough to continue without a job */
}

static void case_damaged_values(void)
{
    struct boot *b;
    uint8_t value[BOOT_VALUE_MAX + 1] = {0};
    uint32_t got = 5;

    fake_number(PMIX_JOB_SIZE, 3);
    CHECK(boot_open(0, &b) == 0);
    CHECK(b->ops->put(b, value, sizeof value) == -EMSGSIZE);
    CHECK(b->ops->put(b, value, BOOT_VALUE_MAX) == 0 && b->ops->fence(b) == 0);
    fake_bytes(1, "matchbox.1", sizeof got + 1);
    fake_bytes(2, "matchbox.1", 512);
    CHECK(b->ops->get(b, 1, &got, sizeof got) == -EPROTO && got == 5);
    CHECK(b->ops->get(b, 2, &got, sizeof got) == -EPROTO && got == 5);
    CHECK(b->ops->get(b, 0, value, BOOT_VALUE_MAX) == 0);
    fake->get_answer = PMIX_ERR_NOMEM;
    CHECK(b->ops->get(b, 0, value, BOOT_VALUE_MAX) == -ENOMEM);
    fake->get = PMIX_ERR_UNREACH;
    CHECK(b->ops->get(b, 0, value, BOOT_VALUE_MAX) == -EPROTO);
    fake->put = PMIX_ERR_UNREACH;
    CHECK(b->ops->put(b, value, 1) == -EPROTO);
    b->ops->close(b);
    CHECK(mem_live() == 0);
}

static void case_a_rank_ends(void)
{
    struct boot *b;

    fake_number(PMIX_JOB_SIZE, 2);
    CHECK(boot_open(0, &b) == 0);
    fake->fence_answer = PMIX_ERR_PARTIAL_SUCCESS;
    CHECK(b->ops->fence(b) == -ECONNRESET);
    fake->fence_answer = PMIX_SUCCESS;
    CHECK(b->ops->fence(b) == -ECONNRESET); /* the error stays */
    CHECK(fake->fences == 2 && open_error() == 1);
}

static void case_a_rank_stays_away(void)
{
    struct boot *b;

    fake_number(PMIX_JOB_SIZE, 2);
    CHECK(boot_open(CLOCK_MS, &b) == 0);
    fake->fence_waits = true;
    CHECK(b->ops->fence(b) == -ECONNRESET);
    CHECK(strstr(log_text, "MBX_BOOT_TIMEOUT") != NULL);
    CHECK(b->ops->fence(b) == -ECONNRESET && fake->fences == 2);
    b->ops->close(b);
    CHECK(mem_live() == 1); /* the answer may still arrive */
    fake->fence_done(PMIX_SUCCESS, fake->arg);
    CHECK(mem_live() == 0);
}

static void case_a_server_says_nothing(void)
{
    fake->get_waits = true;
    CHECK(open_error() == -ECONNRESET);
    CHECK(mem_live() == 1);
    fake->get_done(PMIX_SUCCESS, NULL, fake->arg);
    CHECK(mem_live() == 0);
}

static void case_at_once(void)
{
    struct boot *b;

    fake_number(PMIX_JOB_SIZE, 1);
    fake->fence = PMIX_OPERATION_SUCCEEDED;
    CHECK(boot_open(0, &b) == 0 && b->ops->fence(b) == 0);
    b->ops->close(b);
    CHECK(mem_live() == 0);
}

static void case_no_memory(void)
{
    struct boot *b;
    uint64_t n = 1;
    int err;

    fake_number(PMIX_JOB_SIZE, 1);
    do {
        mem_fail_at(n++);
        err = boot_open(0, &b);
        mem_fail_at(0);
        CHECK(err == 0 || (err == -ENOMEM && mem_live() == 0));
    } while (err != 0);
    CHECK(n > 4 && fake->inits == 1);
    mem_fail_at(1);
    CHECK(b->ops->fence(b) == -ENOMEM);
    CHECK(b->ops->fence(b) == 0);
}

static void case_forked(void)
{
    struct boot *b;
    int status;
    pid_t pid;

    fake_number(PMIX_JOB_SIZE, 1);
    CHECK(boot_open(0, &b) == 0);
    pid = fork();
    if (pid == 0)
        _exit(open_error() == -EPROTO && strstr(log_text, "made by fork()") != NULL ? 0 : 1);
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

/* ---- tests ---- */

static void test_cases(UNUSED void **state)
{
    case_fn *const cases[] = {
        case_rounds,
        case_other_rank,
        case_no_size,
        case_wrong_size,
        case_no_key,
        case_short_key,
        case_init_fails,
        case_damaged_values,
        case_a_rank_ends,
        case_at_once,
        case_a_rank_stays_away,
        case_a_server_says_nothing,
        case_no_memory,
        case_forked,
        case_spread_by_environment,
        case_apart_by_environment,
        case_one_host,
        case_another_host,
        case_damaged_hosts,
    };

    for (size_t i = 0; i < ARRAY_COUNT(cases); i++)
        run_case(cases[i]);
}

static void case_no_library(void)
{
    CHECK(open_error() == -ENOSYS && strstr(log_text, "libpmix") != NULL);
    CHECK(mem_live() == 0);
}

static void test_a_library_that_cannot_be_loaded(UNUSED void **state)
{
    pid_t pid = fork();
    int status;

    if (pid == 0) {
        log_set_sink(keep_log, NULL);
        case_no_library();
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest sound[] = {cmocka_unit_test(test_cases)};
    const struct CMUnitTest broken[] = {cmocka_unit_test(test_a_library_that_cannot_be_loaded)};

    unsetenv("MBX_BOOT");
    unsetenv("OMPI_COMM_WORLD_SIZE");
    unsetenv("PMI_SIZE");
    unsetenv("SLURM_STEP_NUM_NODES");
    setenv("PMIX_NAMESPACE", "fake", 1);
    setenv("PMIX_RANK", "0", 1);
    if (argc > 1 && strcmp(argv[1], "broken") == 0)
        return cmocka_run_group_tests(broken, NULL, NULL);
    return cmocka_run_group_tests(sound, NULL, NULL);
}
