/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * apart.c - finds out whether this rank is in a container, or closed, so that it shares no
 * memory with other ranks of its machine.
 *
 * An endpoint publishes its address before it has seen another one, so it has to decide whether
 * it can be reached over the network before it knows where the others are.  These facts are
 * known then:
 *
 *   HOST_LAUNCHER      the host of the launcher (`mbx run`, `mbx exec`); a rank in its own container
 *                      has another host
 *   the namespaces     without HOST_LAUNCHER: all ranks outside of containers have the kernel's first
 *                      namespaces
 *   the process        a process that is not dumpable shares no memory
 */
#include <stdio.h>

#include "base/environ.h"
#include "base/host.h"
#include "base/log.h"
#include "boot/boot.h"
#include "boot/methods.h"

static bool is_elsewhere(const struct host *own, char why[BOOT_WHY_SIZE])
{
    const char *text = environ_get(HOST_LAUNCHER), *difference;
    struct host launcher;

    if (text != NULL && host_parse(text, &launcher)) {
        difference = host_difference(own, &launcher);
        if (difference != NULL)
            snprintf(why, BOOT_WHY_SIZE, "is %s than its launcher", difference);
        return difference != NULL;
    }
    if (text != NULL)
        LOG_WARN(HOST_LAUNCHER "=%s is not what mbx run and mbx exec set; unset it", text);
    if (host_is_contained(own))
        snprintf(
            why, BOOT_WHY_SIZE,
            "is in a container, and its launcher was not started by mbx exec, so that it is "
            "unknown whether all ranks are in it");
    return host_is_contained(own);
}

bool boot_is_apart(char why[BOOT_WHY_SIZE])
{
    struct host own;

    if (!boot_has_others() || host_read(&own) != 0)
        return false;
    if (own.closed_process == 0)
        return is_elsewhere(&own, why);
    snprintf(
        why, BOOT_WHY_SIZE,
        "shares its memory with nobody, because the file of its program may not be read (mode "
        "0111), or because it is not dumpable for another reason");
    return true;
}
