/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pmix_none.c - replaces pmix.c in a build without the headers of PMIx.
 */
#include <errno.h>

#include "base/log.h"
#include "boot/methods.h"

int pmix_open(uint64_t timeout_ns, struct boot **out)
{
    (void)timeout_ns;
    (void)out;
    LOG_ERROR("the launcher speaks PMIx, and this library was built without it; start the job "
              "with mbx run, or build with -Dpmix=enabled");
    return -ENOSYS;
}

int pmix_is_spread(bool *is_spread)
{
    (void)is_spread;
    return -ENOENT;
}
