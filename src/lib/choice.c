/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * choice.c - mbx_choice() of a program that is not recorded.
 *
 * `mbx exec --record` preloads another mbx_choice() (src/pml/preload.c), which records.  If this one is called during a
 * record or a replay, a warning says that choices are not recorded.
 */
#include <errno.h>
#include <matchbox/matchbox.h>
#include <stdatomic.h>

#include "base/environ.h"
#include "base/log.h"

static void choice_warn(const char *name)
{
    const char *folder = environ_get(name);

    if (folder != NULL && folder[0] != '\0')
        LOG_WARN(
            "mbx_choice: %s is set, but choices are not recorded: use mbx exec, and link with "
            "libmatchbox.so, not with libmatchbox.a",
            name);
}

int mbx_choice(uint64_t site, uint64_t *value)
{
    static atomic_flag is_known = ATOMIC_FLAG_INIT;

    (void)site;
    if (value == NULL)
        return -EINVAL;
    if (!atomic_flag_test_and_set(&is_known)) {
        choice_warn("MBX_RECORD");
        choice_warn("MBX_REPLAY");
    }
    return MBX_CHOICE_FREE;
}
