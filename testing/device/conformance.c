/* SPDX-License-Identifier: BSD-3-Clause */
#include "testing/device/conformance_bench.h"

#include <stdio.h>

/* Memory that the tests have leaked. */
static int check_memory(uint64_t live)
{
    if (mem_live() == live)
        return 0;
    fprintf(stderr, "%s: %llu allocations are left\n", bench_target->name,
            (unsigned long long)(mem_live() - live));
    return 1;
}

int conformance_run(const struct conformance_target *target)
{
    uint64_t live = mem_live();
    int failed;

    bench_target = target;
    failed = conformance_match() + conformance_data();
    return failed != 0 ? failed : check_memory(live);
}
