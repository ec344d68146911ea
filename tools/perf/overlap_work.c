/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * overlap_work.c - see overlap_work.h.
 */
#include "overlap_work.h"

#include <string.h>
#include <time.h>

uint64_t work_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void work_compute(uint64_t steps)
{
    uint64_t x = steps;

    for (uint64_t i = 0; i < steps; i++) {
        x = x * UINT64_C(6364136223846793005) + 1;
        __asm__ volatile("" : "+r"(x)); /* the compiler can neither omit nor merge steps */
    }
}

double work_compute_timed(uint64_t steps)
{
    uint64_t start = work_now();

    work_compute(steps);
    return (double)(work_now() - start);
}

double work_calibrate(void)
{
    const uint64_t steps = 200000;
    double best = work_compute_timed(steps);

    for (int i = 0; i < 20; i++) {
        double ns = work_compute_timed(steps);

        best = ns < best ? ns : best;
    }
    return best / (double)steps;
}

static size_t mark_size(size_t size)
{
    return size < sizeof(uint64_t) ? size : sizeof(uint64_t);
}

void work_stamp(void *message, size_t size, uint64_t mark)
{
    size_t length = mark_size(size);

    memcpy(message, &mark, length);
    memcpy((char *)message + size - length, &mark, length);
}

bool work_is_stamped(const void *message, size_t size, uint64_t mark)
{
    size_t length = mark_size(size);

    return memcmp(message, &mark, length) == 0 &&
           memcmp((const char *)message + size - length, &mark, length) == 0;
}
