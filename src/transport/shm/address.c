/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * address.c - reading an address, and who on this machine still lives.
 *
 * A process that has been killed stays visible to kill() until its parent looks, so a
 * pidfd is asked instead: it is readable from the moment when the last thread is gone.
 */
#include "transport/shm/address.h"

#include <errno.h>
#include <string.h>

#include "base/base.h"
#include "base/sys.h"

int address_parse(const struct transport_address *bytes, uint64_t host, struct shm_address *out)
{
    struct shm_address a;

    memcpy(&a, bytes, sizeof a);
    if (a.kind != TRANSPORT_SHM || a.pid == 0 || a.pid > INT32_MAX || a.fd > INT32_MAX)
        return -EINVAL;
    if (a.host != host)
        return -EHOSTUNREACH;
    *out = a;
    return 0;
}

bool process_is_alive(uint32_t pid)
{
    struct pollfd poll = {.events = POLLIN};
    bool alive;

    if (pid == 0 || pid > INT32_MAX)
        return false;
    poll.fd = sys_pidfd_open((pid_t)pid);
    if (poll.fd < 0)
        return errno != ESRCH && (sys_kill((pid_t)pid, 0) == 0 || errno != ESRCH);
    alive = sys_poll(&poll, 1, 0) <= 0 || (poll.revents & POLLIN) == 0;
    sys_close(poll.fd);
    return alive;
}
