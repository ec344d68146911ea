/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/conformance_bench.h"

int conformance_run(const struct conformance_target *target)
{
    bench_target = target;
    return conformance_match() + conformance_data();
}
