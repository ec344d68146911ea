/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * idle.c - decides when a polling client yields its core.
 *
 * Clients poll: an MPI library reads its queue until there is something, and never sleeps.  With
 * more ranks than cores this would keep the awaited rank off its core until the end of a time
 * slice, some milliseconds.  So every object that can be polled (of the provider: queues, counters,
 * poll sets, event queues, endpoints that are probed or refuse a send; of libucp: workers) counts
 * consecutive polls that found nothing.  When there are many, the client calls sched_yield() here:
 *
 *   more ranks than cores    after every DOOR_IDLE_POLLS polls
 *   otherwise                only when IDLE_NS have passed as well
 *
 * The launcher or the user (MBX_OVERSUBSCRIBED) says whether there are more ranks than cores.
 *
 * Only the empty poll counts, not whether operations are active in the object: the peer whose
 * packet or FIN is missing may be the one that needs the core.  Where every rank may have a core
 * time decides, because a poll costs 20 ns over shared memory and a microsecond over a network,
 * where ranks of several hosts may be on one machine.
 *
 * No thread yields while it holds a lock of a door.
 */
#include "door/idle.h"

#include "base/clock.h"

#define IDLE_NS (50 * CLOCK_US)

void door_idle_init(struct door_idle *idle, bool is_oversubscribed)
{
    idle->polls = 0;
    idle->since_ns = 0;
    idle->limit_ns = is_oversubscribed ? 0 : IDLE_NS;
}

OUT_OF_LINE bool door_idle_is_long(struct door_idle *idle)
{
    uint64_t now = idle->limit_ns == 0 ? 0 : clock_now();

    if (idle->polls == DOOR_IDLE_POLLS)
        idle->since_ns = now;
    if (now - idle->since_ns < idle->limit_ns)
        return false;
    idle->polls = 0;
    return true;
}
