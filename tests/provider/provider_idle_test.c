/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * provider_idle_test.c - when a queue that is read in vain gives its core away.
 *
 * The provider finds sched_yield() and clock_gettime() here, before those of the C library: so
 * the first is counted, and time passes as the test says.
 */
#include "provider_world.h"

#include <sched.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define READS 100000
#define FEW   32
#define US    INT64_C(1000)
#define S     INT64_C(1000000000)

static unsigned yields;
static int64_t now_ns; /* 0: the system's time */

__attribute__((visibility("default"))) int sched_yield(void)
{
    yields++;
    return 0;
}

__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, struct timespec *t)
{
    if (now_ns == 0)
        return (int)syscall(SYS_clock_gettime, clock, t);
    t->tv_sec = now_ns / S;
    t->tv_nsec = now_ns % S;
    return 0;
}

/* How often the core was given away in so many reads that found nothing. */
static unsigned read_in_vain(struct world *w, unsigned reads)
{
    struct fi_cq_tagged_entry entry;

    yields = 0;
    for (unsigned i = 0; i < reads; i++)
        assert_int_equal(fi_cq_read(w->node[0].cq, &entry, 1), -FI_EAGAIN);
    return yields;
}

/* Where every rank may have a core: when time has passed, however many reads that were. */
static void test_alone_it_is_a_matter_of_time(void **state)
{
    struct world w;

    (void)state;
    world_open(&w, &(struct setup){0});
    now_ns = 100 * S;
    assert_int_equal(read_in_vain(&w, READS), 0);
    now_ns += S;
    assert_int_equal(read_in_vain(&w, FEW), 1);
    assert_int_equal(read_in_vain(&w, READS), 0);
    now_ns += US;
    assert_int_equal(read_in_vain(&w, READS), 0);
    now_ns += S;
    assert_int_equal(read_in_vain(&w, FEW), 1);
    now_ns = 0;
    world_close(&w);
}

/* Where the launcher says that there are more ranks than cores: soon. */
static void test_in_a_crowd_it_is_a_matter_of_reads(void **state)
{
    struct world w;

    (void)state;
    assert_int_equal(setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "100000", 1), 0);
    world_open(&w, &(struct setup){0});
    assert_int_equal(unsetenv("OMPI_COMM_WORLD_LOCAL_SIZE"), 0);
    now_ns = 100 * S;
    assert_in_range(read_in_vain(&w, READS), READS / 100, READS);
    now_ns = 0;
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alone_it_is_a_matter_of_time),
        cmocka_unit_test(test_in_a_crowd_it_is_a_matter_of_reads),
    };

    unsetenv("OMPI_COMM_WORLD_LOCAL_SIZE");
    unsetenv("MPI_LOCALNRANKS");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
