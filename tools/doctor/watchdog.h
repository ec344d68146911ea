/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * watchdog.h - `mbx doctor` as started by a rank that has waited for MBX_HANG (src/lib/hang.c).
 */
#ifndef TOOLS_WATCHDOG_H
#define TOOLS_WATCHDOG_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "tools/observe/observe.h"

struct watchdog {
    pid_t pid;        /* of that rank; 0: no watchdog */
    uint64_t hang_ns; /* MBX_HANG */
    bool aborts;      /* MBX_HANG_THEN=abort */
};

/* quiet_ns: as in struct looks.  Returns an exit status. */
int watchdog_run(const struct watchdog *watchdog, const struct observe_options *wanted,
                 uint64_t between_ns, uint64_t quiet_ns);

#endif
