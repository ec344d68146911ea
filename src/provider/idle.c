/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * idle.c - decides when a polling client yields its core.
 *
 * Clients poll: an MPI library reads its queue until there is something, and never sleeps.  With
 * more ranks than cores this would keep the awaited rank off its core until the end of a time
 * slice, some milliseconds.  So every object that can be polled (queues, counters, poll sets,
 * event queues, endpoints that are probed or refuse a send) counts consecutive polls that
 * found nothing.  When there are many, the client calls sched_yield() here:
 *
 *   more ranks than cores    after every PROV_IDLE_POLLS polls
 *   otherwise                only when IDLE_NS have passed as well
 *
 * The launcher or the user (MBX_OVERSUBSCRIBED) says whether there are more ranks than cores.
 *
 * Only the empty poll counts, not whether operations are active in the object: the peer whose
 * packet or FIN is missing may be the one that needs the core.  Where every rank may have a core
 * time decides, because a poll costs 20 ns over shared memory and a microsecond over a network,
 * where ranks of several hosts may be on one machine.
 *
 * No thread yields while it holds a lock of the provider.
 */
#include "base/launcher.h"
#include "provider/compat.h"
#include "provider/idle.h"
#include "provider/param.h"
#include "provider/wait.h"

#include <sched.h>

#define IDLE_NS 50000

bool prov_is_oversubscribed(void)
{
    return launcher_is_oversubscribed(prov_param("OVERSUBSCRIBED"));
}

void prov_idle_init(struct prov_idle *idle)
{
    idle->polls = 0;
    idle->since_ns = 0;
    idle->limit_ns = prov_is_oversubscribed() ? 0 : IDLE_NS;
}

OUT_OF_LINE bool prov_idle_is_long(struct prov_idle *idle)
{
    int64_t now = idle->limit_ns == 0 ? 0 : prov_now_ns();

    if (idle->polls == PROV_IDLE_POLLS)
        idle->since_ns = now;
    if (now - idle->since_ns < idle->limit_ns)
        return false;
    idle->polls = 0;
    return true;
}

void prov_yield(void)
{
    sched_yield();
}
