/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * alive.c - finds out whether a process of this machine still runs.
 *
 * A killed process remains visible to kill() until its parent reaps it, so a pidfd is polled
 * instead: it becomes readable when the last thread is gone.  If numbers replace pids, the name
 * of the process is looked up (passing.h).
 */
#include "transport/shm/alive.h"

#include <errno.h>

#include "base/sys.h"
#include "transport/shm/passing.h"

bool process_is_alive(uint32_t pid)
{
    struct pollfd poll = {.events = POLLIN};
    bool alive;

    if (pid == 0)
        return false;
    if (passing_is_number(pid))
        return passing_is_alive(pid);
    poll.fd = sys_pidfd_open((pid_t)pid);
    if (poll.fd < 0)
        return errno != ESRCH && (sys_kill((pid_t)pid, 0) == 0 || errno != ESRCH);
    alive = sys_poll(&poll, 1, 0) <= 0 || (poll.revents & POLLIN) == 0;
    sys_close(poll.fd);
    return alive;
}
