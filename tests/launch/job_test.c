/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * job_test.c - without a launcher, a process is a job of one.
 */
#include "cluster.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sys.h"

static void test_a_job_of_one(void **state)
{
    struct mbx_job *job, *other;
    struct mbx_config config = {.params = ((const struct configuration *)*state)->params};
    struct mbx_ep *ep;
    mbx_request recv;
    uint64_t mem = mem_live();
    int64_t fds = sys_fds_live();
    int got = 0, value = 9;

    assert_int_equal(mbx_job_open(&job), 0);
    assert_int_equal(mbx_job_open(&other), 0);
    assert_int_equal(mbx_job_rank(job), 0);
    assert_int_equal(mbx_job_size(job), 1);
    config.key = mbx_job_key(job);
    assert_memory_not_equal(config.key, mbx_job_key(other), 16);
    mbx_job_close(other);
    assert_int_equal(mbx_open(&config, &ep), 0);
    assert_int_equal(mbx_job_connect(job, ep), 0);
    assert_int_equal(mbx_job_connect(job, ep), -EBUSY);
    assert_int_equal(mbx_job_fence(job), 0);
    assert_int_equal(mbx_recv(ep, 0, 1, 2, 0, &got, sizeof got, NULL, &recv), 0);
    assert_int_equal(mbx_inject(ep, 0, 1, 2, &value, sizeof value, 0), 0);
    assert_int_equal(mbx_wait(ep, recv, -1, NULL), 0);
    assert_int_equal(got, 9);
    assert_int_equal(mbx_close(ep), 0);
    mbx_job_close(job);
    assert_int_equal(mem_live(), mem);
    assert_int_equal(sys_fds_live(), fds);
}

static void count_line(void *arg, enum log_level level, const char *text)
{
    (void)level;
    assert_non_null(strstr(text, "MBX_BOOT"));
    ++*(size_t *)arg;
}

static void test_a_damaged_launcher_is_refused(UNUSED void **state)
{
    static const char *const damaged[] = {
        "", "x", "3", "3:", ":1", "-1:0", "999999:0", "0:0:0"};
    struct mbx_job *job = NULL;
    uint64_t mem = mem_live();
    size_t lines = 0;

    log_set_sink(count_line, &lines);
    for (size_t i = 0; i < ARRAY_COUNT(damaged); i++) {
        setenv("MBX_BOOT", damaged[i], 1);
        assert_int_equal(mbx_job_open(&job), -EPROTO);
        assert_null(job);
        assert_int_equal(mem_live(), mem);
    }
    unsetenv("MBX_BOOT");
    log_set_sink(NULL, NULL);
    assert_int_equal(lines, ARRAY_COUNT(damaged));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_job_of_one),
        cmocka_unit_test(test_a_damaged_launcher_is_refused),
    };

    return test_main(argc, argv, tests, ARRAY_COUNT(tests));
}
